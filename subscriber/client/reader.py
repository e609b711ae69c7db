"""Reader: reads from the view without lock or thread, and has the engine pull the rest.

table() ──▶ Reader ──▶ view: open, of this incarnation? ──yes──▶ answered here
                             └──no──▶ the engine's thread: memory by now, else a pull
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Final, Protocol, TypeAlias, TypeVar

from ...topics.errors import LinkError, UsageError
from ...topics.objects.filters.tokens import LENGTH_MAX
from ...topics.objects.names import TableId, table_name
from ...topics.objects.selector import (
    ALL,
    TABLE_ONLY,
    Selector,
    by_names,
    by_sql,
    by_values,
)
from ...topics.topic import Version, table_topic
from ...topics.wire.codec import fitting
from ...topics.wire.messages.catalog import Claimed
from ...topics.wire.messages.questions import A, MetastoreQuestion
from ...topics.wire.shapes import LIST_MAX
from .. import arguments
from ..config import Settings
from ..engine.core import Core
from ..engine.watch import Watch
from ..fetch.fetcher import PartitionRequest, Result
from ..protocol.commands import Operation
from ..protocol.effects import EngineRestarted
from ..store.table_snapshot import TableSnapshot
from ..store.view import View
from .read_view import VersionedTable

CLAIMS_BYTES_MAX: Final = 768 << 10  # of claims in one message, which ends below 1 MiB
CLAIM_BYTES: Final = 24  # of a claim, besides its names

T = TypeVar("T")
Values: TypeAlias = Mapping[str, object] | Sequence[object]
"""Values of partition columns: by name, or of the first columns in their order; "" matches any."""


class Engine(Protocol):
    """Runs the core: a thread does, or the simulator."""

    @property
    def running(self) -> bool:
        """Whether the engine runs, in this process."""

    @property
    def failure(self) -> str:
        """The error of ours that has ended the engine; empty: there was none."""

    def clock(self) -> float:
        """Return the time of the core, in seconds; they pass also while the machine sleeps."""

    def call(self, operation: Operation[T], *, timeout_s: float) -> T:
        """Run an operation of the core, and return its result."""

    def watch(self, pattern: str, *, timeout_s: float) -> Watch:
        """Return a new watch, which sees the changes of each topic that is followed."""


class Reader:
    """Reads of one subscriber, for any thread; ``engine`` is None before ``open``."""

    def __init__(self, core: Core, settings: Settings) -> None:
        self.engine: Engine | None = None
        self.core = core
        self.settings = settings
        self._pid = os.getpid()

    def running(self) -> Engine:
        """Return the engine.

        Raises:
            UsageError: the engine does not run, or not in this process.
            LinkError: an error of ours has ended it.
        """
        if self._pid != os.getpid():
            raise UsageError("this subscriber belongs to the process that made it: make another")
        if self.engine is not None and self.engine.failure:
            raise LinkError(self.engine.failure)
        if self.engine is None or not self.engine.running:
            raise UsageError("the subscriber is not open: use it in a with statement")
        return self.engine

    def view(self) -> View:
        """Return the held content.

        Raises:
            LinkError: the content is older than the application allows.
        """
        engine, view = self.running(), self.core.view
        limit = self.settings.max_staleness_s
        if limit is not None and engine.clock() > view.fresh_until:
            raise LinkError(f"catalogd was silent for more than {limit} s (max_staleness_s)")
        return view

    def call(self, operation: Operation[T], *, timeout_s: float | None = None) -> T:
        """Run an operation of the core in the engine, and return its result.

        If the engine restarts meanwhile, the operation runs once more after the restart.
        """
        limit_s = self.settings.timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        try:
            return self._begin(operation, deadline)
        except EngineRestarted:
            return self._begin(operation, deadline)

    def ask(self, question: MetastoreQuestion[A]) -> A:
        """Return the answer to ``question``, which catalogd reads from the metastore."""
        return self.call(partial(self.core.ask, question))

    def facts(self, operation: Operation[T]) -> T:
        """Return the result of an operation about the engine, which need not be ready for it."""
        return self.running().call(operation, timeout_s=self.settings.timeout_s)

    def topic_of(self, name: TableId) -> int:
        """Return the number of the topic of a table, which need not exist."""
        self.running()
        if not self.core.view.num_topics:  # another thread calls, before ``open`` has returned
            self.call(self.core.ready)
        return table_topic(*name, self.core.view.num_topics)

    def numbers(self, topics: Iterable[int | TableId]) -> tuple[int, ...]:
        """Return the number of each of ``topics`` once; a topic may be named by a table in it."""
        named = (one if isinstance(one, int) else self.topic_of(one) for one in topics)
        return tuple(dict.fromkeys(named))

    def note_read(self, db: str, table: str, *, whole: bool) -> None:
        """Count a read of a table; ``whole``: of its partitions, too."""
        self.core.note_read(db, table, whole=whole)

    def table(self, db: str, table: str) -> TableSnapshot:
        """Return a snapshot with the table's own entry, from memory or from catalogd."""
        self.note_read(db, table, whole=False)
        content = self.view().table(db, table)
        return self._pull(db, table, TABLE_ONLY) if content is None else content

    def select(self, request: PartitionRequest, *, bytes_max: float = inf) -> Result:
        """Return partitions from memory or from catalogd, which may send listings of their names.

        Raises:
            OverBudget: catalogd has sent more than ``bytes_max``.
        """
        self.note_read(request.db, request.table, whole=True)
        held = self.view().partitions(request.db, request.table, request.selector)
        if held is not None:
            return held
        return self.call(partial(self.core.read, request, bytes_max=bytes_max))

    def versioned(self, name: TableId, timeout_s: float) -> VersionedTable:
        """Return a whole table, and the version up to which it is known to be current."""
        view = self.view()
        epoch, reached = view.reached(*name)
        snapshot = view.partitions(*name)
        if snapshot is None:
            snapshot = self._pull(*name, ALL, timeout_s=timeout_s)
        number = max(snapshot.as_of, snapshot.version, reached if epoch == snapshot.epoch else 0)
        return VersionedTable(snapshot, Version(number, snapshot.epoch))

    def validate(
        self, epoch: int, claims: tuple[Claimed, ...], *, timeout_s: float | None = None
    ) -> Mapping[int, Version]:
        """Return the present versions of the tables of stale ``claims``, by their positions.

        Cost: a round trip for each message that the claims fill.
        """
        stale: dict[int, Version] = {}
        begin = 0
        while begin < len(claims):
            next_ones = claims[begin : begin + LIST_MAX]
            some = tuple(fitting(next_ones, _claim_bytes, bytes_max=CLAIMS_BYTES_MAX))
            found = self.call(partial(self.core.validate, epoch, some), timeout_s=timeout_s)
            stale.update((begin + at, version) for at, version in found.items())
            begin += len(some)
        return stale

    def names(self, read: Callable[[View], T | None]) -> T:
        """Read the namespace, once it is open."""
        deadline = time.monotonic() + self.settings.timeout_s
        while (found := read(self.view())) is None:
            self.call(self.core.namespace, timeout_s=deadline - time.monotonic())
        return found

    def selector(
        self,
        name: TableId,
        text: str | None,
        *,
        names: Iterable[str] | None = None,
        values: Values | None = None,
    ) -> Selector:
        """Return the selector of the partitions that a caller wants.

        Raises:
            UsageError: the caller selects in two ways, or in a way that is not for this table.
        """
        if sum(way is not None for way in (text, names, values)) > 1:
            raise UsageError(
                "partitions are selected by filter, by names or by values, not by two of them"
            )
        if text is not None:
            return by_sql(arguments.text(text, "filter", length_max=LENGTH_MAX))
        if names is not None:
            return by_names(arguments.partition_names(names, "names"))
        return ALL if values is None else by_values(self._in_order(name, values))

    def _begin(self, operation: Operation[T], deadline: float) -> T:
        """Run an operation; after a restart, wait first until levels and pins are set again."""
        if self.core.recovering:
            left_s = max(deadline - time.monotonic(), 0.0)
            self.running().call(self.core.ready, timeout_s=left_s)
        left_s = max(deadline - time.monotonic(), 0.0)
        return self.running().call(operation, timeout_s=left_s)

    def _pull(
        self, db: str, table: str, selector: Selector, *, timeout_s: float | None = None
    ) -> TableSnapshot:
        request = PartitionRequest(db, table, selector)
        snapshot = self.call(partial(self.core.read, request), timeout_s=timeout_s)
        assert isinstance(snapshot, TableSnapshot)
        return snapshot

    def _in_order(self, name: TableId, values: Values) -> Sequence[str]:
        """Return the first values, in the order of the table's partition columns."""
        if not isinstance(values, Mapping):
            items = arguments.several(values, "values", such_as="('2026-11-01', 3), or by column")
            return [arguments.partition_value(value) for value in items]
        keys = self.table(*name).head_of(*name).table.partition_keys
        given = arguments.mapping(values).items()
        by_key = {key: arguments.partition_value(value) for key, value in given}
        strange = [key for key in by_key if key not in keys]
        if strange:
            known = ", ".join(keys) or "none"
            raise UsageError(
                f"no partition column {strange[0]!r} in {table_name(*name)}; there are: {known}"
            )
        return [by_key.get(key, "") for key in keys]


def _claim_bytes(one: Claimed) -> int:
    return len(one.db.encode()) + len(one.table.encode()) + CLAIM_BYTES
