"""Reads of an application: from memory if it answers, else by a command to the engine."""

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol, TypeVar

from ...topics.errors import LinkError, UsageError
from ...topics.objects.selector import ALL, TABLE_ONLY, Selector
from ...topics.objects.versions import Version
from ...topics.wire.messages import Claimed
from ..config import Settings
from ..engine.core import Core
from ..engine.watch import Watch
from ..fetch.fetcher import Result, TableRequest
from ..protocol.pending import Operation
from ..store.table_snapshot import TableSnapshot
from ..store.view import View
from .read_view import VersionedTable

T = TypeVar("T")


class Engine(Protocol):
    """What runs the core: a thread, or the simulator."""

    @property
    def running(self) -> bool:
        """Whether it runs, in this process."""

    def call(self, operation: Operation[T], *, timeout_s: float) -> T:
        """Run an operation of the core, and return its result."""

    def watch(self, pattern: str, *, timeout_s: float) -> Watch:
        """Return a new watch, which sees everything from now on."""


class Reader:
    """For any thread; ``engine`` is None before ``open``."""

    def __init__(self, core: Core, settings: Settings) -> None:
        self.engine: Engine | None = None
        self.core = core
        self.settings = settings
        self._reads = core.placement.reads
        self._pid = os.getpid()

    def running(self) -> Engine:
        """Return the engine.

        Raises:
            UsageError: it does not run, or not in this process.
        """
        if self._pid != os.getpid():
            raise UsageError("this subscriber belongs to the process that made it: make another")
        if self.engine is None or not self.engine.running:
            raise UsageError("the subscriber is not open: use it in a with statement")
        return self.engine

    def view(self) -> View:
        """Return what is held.

        Raises:
            LinkError: it is older than the application allows.
        """
        self.running()
        view = self.core.view
        if self.settings.max_staleness_s is not None and time.monotonic() > view.fresh_until:
            limit = self.settings.max_staleness_s
            raise LinkError(f"catalogd was silent for more than {limit} s (max_staleness_s)")
        return view

    def call(self, operation: Operation[T], *, timeout_s: float | None = None) -> T:
        """Run an operation of the core in the engine, and return its result."""
        limit_s = self.settings.timeout_s if timeout_s is None else timeout_s
        return self.running().call(operation, timeout_s=limit_s)

    def table(self, db: str, table: str) -> TableSnapshot:
        """Get a table's own entry, from memory or from catalogd."""
        self._reads.append((db, table, False))
        content = self.view().table(db, table)
        return self._pull(db, table, TABLE_ONLY) if content is None else content

    def select(self, request: TableRequest) -> Result:
        """Get partitions from memory or from catalogd: of there, listings do too."""
        self._reads.append((request.db, request.table, True))
        held = self.view().partitions(request.db, request.table, request.selector)
        return held if held is not None else self.call(partial(self.core.read, request))

    def versioned(self, name: tuple[str, str]) -> VersionedTable:
        """Get a table whole, and the version up to which that is known to be current."""
        view = self.view()
        epoch, reached = view.reached(*name)
        snapshot = view.partitions(*name)
        if snapshot is None:
            snapshot = self._pull(*name, ALL)
        number = max(snapshot.as_of, snapshot.version, reached if epoch == snapshot.epoch else 0)
        return VersionedTable(snapshot, Version(number, snapshot.epoch))

    def validate(self, epoch: int, claims: tuple[Claimed, ...]) -> Mapping[int, Version]:
        """Return the positions of the stale ``claims``, and the versions of their tables now."""
        return self.call(partial(self.core.validate, epoch, claims))

    def names(self, read: Callable[[View], T | None]) -> T:
        """Read the namespace, as soon as it answers."""
        give_up_at = time.monotonic() + self.settings.timeout_s
        while (found := read(self.view())) is None:
            self.call(self.core.namespace, timeout_s=give_up_at - time.monotonic())
        return found

    def _pull(self, db: str, table: str, selector: Selector) -> TableSnapshot:
        snapshot = self.call(partial(self.core.read, TableRequest(db, table, selector)))
        assert isinstance(snapshot, TableSnapshot)
        return snapshot
