"""Jobs: orders that take more than a turn, gone on with a step at a time.

    names listed ▶ forgotten, or read again, some tables a step ▶ what is read is published
    data changed ▶ the data versions of what is known rise ▶ done

Invariant: what a job has read again is published before its next step.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ...topics.objects.names import TableId
from ...topics.wire.messages import SOURCE_ORDERS, OrderKind
from ..ingest.actions import Dirty, DirtyDatabase, DirtyPartitions, DirtyTable
from ..ingest.loader import WHOLE_PER_READ_MAX, Loader
from ..ingest.poller import Poller
from ..model.namespace import Namespace
from ..model.tables import Tables

INVALIDATE: Final = OrderKind.INVALIDATE
REFRESH: Final = OrderKind.REFRESH

TOUCHED_MAX: Final = 50  # tables of a step: 20 µs each, and their rows in the commit

Listing = Mapping[str, tuple[bytes, tuple[tuple[str, str], ...]]]


@dataclass(slots=True, kw_only=True)
class Job:
    """One order that takes more than a turn.

    ``data``: only the data has changed, not what the metastore says of it.
    ``tables``: still to be done; None: the names are being listed. ``seq``: what is read again
    up to this arrival number is waited for; None: nothing is.
    """

    number: int
    peer: bytes
    request: int
    order: str
    db: str = ""
    table: str = ""
    partition: str = ""
    data: bool = False
    still_since: float
    tables: deque[TableId] | None = None
    found: frozenset[TableId] = frozenset()
    asked: tuple[TableId, ...] = ()
    seq: int | None = None
    done: int = 0
    failed: dict[TableId, str] = field(default_factory=dict)

    @property
    def object(self) -> str:
        """What it is for, as an operator writes it; empty: everything."""
        name = ".".join(filter(None, (self.db, self.table)))
        return f"{name}/{self.partition}" if self.partition else name


class Jobs:
    """Performs the steps of jobs on what catalogd holds."""

    def __init__(
        self,
        namespace: Namespace,
        tables: Tables,
        loader: Loader,
        *,
        poller: Poller,
        load: Callable[[TableId], None],
    ) -> None:
        """``load`` loads a table in the background, if its mode does so."""
        self._namespace = namespace
        self._tables = tables
        self._loader = loader
        self._poller = poller
        self._load = load

    def waits(self, job: Job) -> bool:
        """Whether ``job`` has to wait for names, or for what it has read again."""
        if job.tables is None or job.seq is None:
            return job.tables is None
        if self._loader.oldest_unpublished() <= job.seq:
            return True
        left = (table for table in job.asked if table not in job.failed)
        return bool(job.table) and any(map(self._loader.is_loading, left))

    def begin(self, job: Job, databases: Listing) -> bool:
        """Let ``job`` begin with the names that were listed; False if there are none for it."""
        known = [db for db in self._namespace.databases() if job.db in ("", db)]
        every = {*databases, *known}
        job.found = frozenset((db, row[0]) for db, (_, rows) in databases.items() for row in rows)
        held = {(db, row.name) for db in known for row in self._namespace.tables(db)}
        job.tables = deque(sorted(job.found | held))
        news = every if job.order == REFRESH else every - set(databases).intersection(known)
        if news:
            self._read(job, [DirtyDatabase(db=db) for db in sorted(news)])
        return bool(every)

    def step(self, job: Job, *, at_us: int) -> bool:
        """Go on with ``job``, which does not wait; whether it is done."""
        job.seq = None
        if job.tables and job.order == INVALIDATE and not job.partition:
            self._forget_some(job, at_us)
        elif job.tables and job.data and not self.missing(job):
            self._raise_some(job, at_us)
        elif job.tables:  # it may have just come, and no event has told of it yet
            self._refresh_some(job)
        return not job.tables and job.seq is None

    def know(self, job: Job) -> None:
        """Let ``job``, which is for a database that is known, begin without a listing."""
        tables = ((job.db, row.name) for row in self._namespace.tables(job.db))
        job.tables = deque(sorted(tables))

    def missing(self, job: Job) -> bool:
        """Whether there is nothing of the name that ``job`` is for."""
        table = (job.db, job.table)
        if job.partition and self._tables.loaded(table):
            return not self._tables.has_partition(table, job.partition)
        if job.table:
            return self._namespace.find(table) is None
        return bool(job.db) and not self._namespace.knows(job.db)

    def _forget_some(self, job: Job, at_us: int) -> None:
        assert job.tables is not None
        dirty: list[Dirty] = []
        for table in _take(job.tables, TOUCHED_MAX):
            known = self._namespace.find(table) is not None
            if known:
                self._loader.invalidate(table)
                self._tables.withdraw(table, source=SOURCE_ORDERS, at_us=at_us)
                self._load(table)
                job.done += 1
            if known != (table in job.found):
                dirty.append(DirtyTable(db=table[0], table=table[1], dropped=known))
        if dirty:
            self._read(job, dirty)

    def _raise_some(self, job: Job, at_us: int) -> None:
        assert job.tables is not None
        named = (job.partition,) if job.partition else ()
        for table in _take(job.tables, TOUCHED_MAX):
            if self._namespace.find(table) is None:
                continue  # dropped since the order began
            self._tables.raise_data(table, partitions=named, source=SOURCE_ORDERS, at_us=at_us)
            job.done += 1

    def _refresh_some(self, job: Job) -> None:
        assert job.tables is not None
        if job.partition:
            job.tables.clear()
            dirt = DirtyPartitions(db=job.db, table=job.table, names=(job.partition,), data=True)
            self._read(job, [dirt])
            job.done += 1
            return
        dirty: list[Dirty] = []
        for table in _take(job.tables, WHOLE_PER_READ_MAX):
            known = self._namespace.find(table) is not None
            if not job.table and known and table in job.found and not self._tables.loaded(table):
                continue  # nothing is held that could be old
            if not self._namespace.knows(table[0]):
                dirty.append(DirtyDatabase(db=table[0]))
            whole, named = table in job.found, bool(job.table)
            dirty.append(DirtyTable(db=table[0], table=table[1], whole=whole, data=named))
            job.done += 1
        if dirty:
            self._read(job, dirty)

    def _read(self, job: Job, dirty: Iterable[Dirty]) -> None:
        dirty = tuple(dirty)
        job.seq = self._poller.seq
        job.asked = tuple(
            (one.db, one.table) for one in dirty if not isinstance(one, DirtyDatabase)
        )
        self._loader.mark_dirty(dirty, seq=job.seq)


def _take(tables: deque[TableId], count: int) -> list[TableId]:
    taken = list(islice(tables, count))
    for _ in taken:
        tables.popleft()
    return taken
