"""Calls: what every method of a Subscriber is made of: memory first, else the background thread."""

import os
import time
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from ...topics.errors import LinkError, UsageError
from ...topics.objects.selector import ALL, TABLE_ONLY, Selector
from ...topics.objects.versions import Version
from ...topics.wire.messages import Claimed
from ..config import Settings
from ..engine.core import Core
from ..engine.loop import EngineLoop
from ..fetch.fetcher import Result
from ..protocol.facts import Ask, AskNamespace, AskTable, AskValidate
from ..store.table_snapshot import TableSnapshot
from ..store.view import View
from .read_view import Pinned

T = TypeVar("T")


class Calls:
    """The way from an application's thread to the member; ``loop`` is None before ``open``."""

    def __init__(self, member: Core, settings: Settings) -> None:
        self.loop: EngineLoop | None = None
        self._member = member
        self._settings = settings
        self._reads = member.placement.reads
        self._pid = os.getpid()
        self.timeout_s = settings.timeout_s

    def running(self) -> EngineLoop:
        """Return the loop.

        Raises:
            UsageError: it does not run, or not in this process.
        """
        if self._pid != os.getpid():
            raise UsageError("this subscriber belongs to the process that made it: make another")
        if self.loop is None or not self.loop.running:
            raise UsageError("the subscriber is not open: use it in a with statement")
        return self.loop

    def view(self) -> View:
        """Return what is held.

        Raises:
            LinkError: it is older than the application allows.
        """
        self.running()
        view = self._member.view
        if self._settings.max_staleness_s is not None and time.monotonic() > view.fresh_until:
            limit = self._settings.max_staleness_s
            raise LinkError(f"catalogd was silent for more than {limit} s (max_staleness_s)")
        return view

    def ask(self, make: Callable[[int, float], Ask], *, timeout_s: float | None = None) -> object:
        """Put ``make(id, give_up_at)`` to the member and return its answer."""
        limit_s = self._settings.timeout_s if timeout_s is None else timeout_s
        return self.running().ask(make, timeout_s=limit_s)

    def table(self, db: str, table: str) -> TableSnapshot:
        """Get a table's own entry, from memory or from catalogd."""
        self._reads.append((db, table, False))
        content = self.view().table(db, table)
        return self._pull(db, table, TABLE_ONLY) if content is None else content

    def select(
        self, db: str, table: str, selector: Selector, *, names_only: bool = False
    ) -> Result:
        """Get the selected partitions, from memory or from catalogd: of there, listings do too."""
        self._reads.append((db, table, True))
        held = self.view().partitions(db, table, selector)
        if held is not None:
            return held
        found = self.ask(
            lambda number, until: AskTable(
                id=number,
                db=db,
                table=table,
                selector=selector,
                give_up_at=until,
                names_only=names_only,
            )
        )
        return cast(Result, found)

    def pinned(self, name: tuple[str, str]) -> Pinned:
        """Get a table whole, and the version up to which that is known to be current."""
        view = self.view()
        epoch, reached = view.reached(*name)
        content = view.partitions(*name)
        if content is None:
            content = self._pull(*name, ALL)
        number = max(content.as_of, content.version, reached if epoch == content.epoch else 0)
        return Pinned(content, Version(number, content.epoch))

    def validate(self, epoch: int, claims: tuple[Claimed, ...]) -> Mapping[int, Version]:
        """Return the places of the ``claims`` that are stale, and where their tables stand now."""
        found = self.ask(
            lambda number, until: AskValidate(
                id=number, epoch=epoch, claims=claims, give_up_at=until
            )
        )
        return cast(Mapping[int, Version], found)

    def names(self, read: Callable[[View], T | None]) -> T:
        """Read the namespace, as soon as it answers."""
        give_up_at = time.monotonic() + self._settings.timeout_s
        while (found := read(self.view())) is None:
            left_s = give_up_at - time.monotonic()
            self.ask(
                lambda number, until: AskNamespace(id=number, give_up_at=until), timeout_s=left_s
            )
        return found

    def _pull(self, db: str, table: str, selector: Selector) -> TableSnapshot:
        content = self.ask(
            lambda number, until: AskTable(
                id=number, db=db, table=table, selector=selector, give_up_at=until
            )
        )
        assert isinstance(content, TableSnapshot)
        return content
