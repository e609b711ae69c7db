"""Needs: what catalogd has to read of the metastore, which events wait for that, and the results.

event ──▶ Need of a table ──another event──▶ merged ──▶ read ──▶ Result ──▶ the materializer
background ──▶ Backlog ──a few at a time──▶ Needs

A need grows while it waits: merged with another need, it has the larger extent, and the stronger
doubt about the held incarnation.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice
from typing import Final

from ....topics.objects.names import EVERYTHING, Scope, TableId
from ...metastore.port import TableRead

NEVER: Final = 1 << 62  # the arrival number of a need that no event has caused
TOGETHER: Final = -1  # ``refused`` of a need that may be read with others
RETRY_S: Final = 0.2  # the first pause after a failed read; it doubles up to
RETRY_S_MAX: Final = 30.0
WHOLE_PER_READ_MAX: Final = 8  # with more tables the partitions are loaded afterwards, in chunks
REFUSED_TRIES_MAX: Final = 3  # then a table counts as unreadable
LOOKED_AT_MAX: Final = 1_000  # tables of the backlog in search of one of a scope: below 1 ms


class Extent(IntEnum):
    """How much of a table is read; each extent includes those before it."""

    PARTITIONS = 0  # some, by name
    STRUCT = 1  # also the table's own struct
    WHOLE = 2  # also all its partitions
    CHUNKED = 3  # the struct first, then the partitions in chunks: one of them may be unreadable


class Incarnation(IntEnum):
    """Whether events have ended the incarnation that is held."""

    SAME = 0  # no event says that it ended
    DOUBTED = 1  # events are missing: perhaps of the table's end, or of its data
    ENDED = 2  # the table was dropped; it may exist again


@dataclass(slots=True)
class Need:
    """One dirty table or database: the parts to be read, and how reads have gone so far."""

    seq: int = NEVER  # arrival number of the first event or order that waits for the read
    extent: Extent = Extent.PARTITIONS
    incarnation: Incarnation = Incarnation.SAME
    data: bool = False  # whether the content of its files changed
    names: dict[str, None] = field(default_factory=dict)
    """The partitions that changed, an ordered set; if the extent is WHOLE, they say only why."""
    overtaken: int = 0  # reads that an event overtook
    refused: int = TOGETHER  # reads of this table alone that failed; TOGETHER: read with others
    retry_at: float = 0.0  # no read begins before

    @property
    def obj(self) -> bool:
        """Whether the table's own struct is read."""
        return self.extent >= Extent.STRUCT

    @property
    def whole(self) -> bool:
        """Whether all partitions are read."""
        return self.extent >= Extent.WHOLE

    @property
    def load(self) -> bool:
        """Whether this is a background load: no event and no order waits for it."""
        return self.seq == NEVER

    @property
    def alone(self) -> bool:
        """Whether the table is read by itself: a read with others failed, or a pull waits."""
        return self.refused != TOGETHER or self.extent is Extent.CHUNKED

    def merge(self, other: "Need") -> None:
        """Add the need ``other`` of the same table."""
        self.seq = min(self.seq, other.seq)
        self.extent = max(self.extent, other.extent)
        both = {self.incarnation, other.incarnation}
        # A table whose events are missing may have been written before it was dropped.
        self.data |= other.data or both == {Incarnation.DOUBTED, Incarnation.ENDED}
        self.incarnation = max(both)
        self.names.update(other.names)
        self.overtaken = max(self.overtaken, other.overtaken)
        self.refused = max(self.refused, other.refused)
        self.retry_at = min(self.retry_at, other.retry_at)  # a change may have mended the table

    def widen(self, extent: Extent) -> None:
        """Read at least ``extent``."""
        self.extent = max(self.extent, extent)

    def back_off(self, now: float) -> bool:
        """Note a read that was refused; return whether the table now counts as unreadable.

        Another table of the same read may have caused the first refusal, so that this table is read
        again at once, alone.
        """
        self.refused += 1
        self.retry_at = now
        if self.refused:
            self.retry_at += min(RETRY_S * 2 ** min(self.refused, 16), RETRY_S_MAX)
        return self.refused >= REFUSED_TRIES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTables:
    """Result: write these objects. A database of None is gone, and so is a table that was read
    with its struct (``needs``) and has no ``thrift``."""

    databases: dict[str, bytes | None]
    tables: dict[TableId, TableRead]
    needs: dict[TableId, Need]


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePartitions:
    """Result: write partitions of a LOADING table; the partitions ``gone`` do not exist."""

    table: TableId
    partitions: dict[str, bytes]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteLoad:
    """Result: all partitions of the table are published, so that it is COMPLETE."""

    table: TableId


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUnreadable:
    """Result: the metastore cannot read this table; hold a stub, while the loader tries again."""

    table: TableId
    error: str


Result = WriteTables | WritePartitions | CompleteLoad | TableUnreadable


class Backlog:
    """Tables to read in the background: first those that need a resync, then those never read.

    After a gap in the events every table needs a resync. One read of all tables would block
    everything else for minutes.
    """

    def __init__(self) -> None:
        self.seq = NEVER  # arrival number of the oldest gap; NEVER iff no table needs a resync
        self._resync: OrderedDict[TableId, None] = OrderedDict()  # an ordered set, as is ``_new``
        self._new: dict[TableId, None] = {}
        self._dbs = Counter[str]()  # how many tables of ``_resync`` each database has; never 0

    def __len__(self) -> int:
        return len(self._resync) + len(self._new)

    def needs_resync(self, table: TableId) -> bool:
        """Return whether ``table`` waits to be read again."""
        return table in self._resync

    def oldest_gap(self, scope: Scope) -> int:
        """Return the number of the oldest gap if a table in ``scope`` needs a resync, or NEVER."""
        return self.seq if self.seq != NEVER and self.count_resyncs(scope) else NEVER

    def count_resyncs(self, scope: Scope) -> int:
        """Return how many tables in ``scope`` need a resync. Cost: O(1)."""
        if scope.table:
            return scope in self._resync
        return self._dbs[scope.db] if scope.db else len(self._resync)

    def first_resync(self, scope: Scope) -> TableId:
        """Return one of the next tables in ``scope`` that need a resync; else the scope's name."""
        some = islice(self._resync, LOOKED_AT_MAX)
        return next(filter(scope.includes, some), (scope.db, scope.table))

    def hasten(self, table: TableId) -> None:
        """Read ``table``, if it needs a resync, before all others that do."""
        if table in self._resync:
            self._resync.move_to_end(table, last=False)

    def add(self, table: TableId) -> None:
        """Append ``table``, unless it needs a resync anyway."""
        if table not in self._resync:
            self._new[table] = None

    def resync(self, tables: Iterable[TableId], *, seq: int) -> None:
        """Read ``tables`` again."""
        new = [table for table in tables if table not in self._resync]
        self._resync.update(dict.fromkeys(new))
        self._dbs.update(db for db, _ in new)
        self._set_seq(min(self.seq, seq))

    def discard(self, table: TableId) -> None:
        """Do not load ``table``; a table that needs a resync is read all the same."""
        self._new.pop(table, None)

    def retain(self, wanted: Callable[[TableId], bool]) -> None:
        """Load only tables that are ``wanted``."""
        self._new = {table: None for table in self._new if wanted(table)}

    def take_whole(self, count: int, partitioned: Callable[[TableId], bool]) -> dict[TableId, Need]:
        """Remove some ``partitioned`` tables among the next ``count``; return their needs.

        At most WHOLE_PER_READ_MAX: one read brings all partitions of these tables.
        """
        found = [table for table in islice(self._resync, count) if partitioned(table)]
        return {table: self.take_one(table) for table in found[:WHOLE_PER_READ_MAX]}

    def take(self, count: int) -> dict[TableId, Need]:
        """Remove the next ``count`` tables, and return their needs."""
        needs = {table: self.take_one(table) for table in list(islice(self._resync, count))}
        for table in list(islice(self._new, count - len(needs))):
            del self._new[table]
            needs.setdefault(table, Need(extent=Extent.WHOLE))
        return needs

    def take_one(self, table: TableId) -> Need:
        """Remove ``table``, which needs a resync, and return its need."""
        need = Need(self.seq, Extent.WHOLE, Incarnation.DOUBTED)
        del self._resync[table]
        self._dbs[table[0]] -= 1
        if not self._dbs[table[0]]:
            del self._dbs[table[0]]
        self._set_seq(self.seq)
        return need

    def check(self) -> None:
        """Assert every invariant."""
        assert self._dbs == Counter(db for db, _ in self._resync)
        assert all(self._dbs.values())
        assert (self.seq == NEVER) == (not self._resync)

    def _set_seq(self, seq: int) -> None:
        self.seq = seq if self._resync else NEVER


class PendingEvents:
    """The arrival numbers of events whose objects are to be read or published.

    All events of a poll have one number, so that there are few, however many tables are dirty.
    """

    def __init__(self) -> None:
        self._needs: dict[int, int] = {}  # by arrival number: how many needs have it
        self._by_db: dict[str, dict[str, list[int]]] = {}
        """The numbers of each table's needs, two at most; those of a database under the name ""."""

    def oldest(self, scope: Scope = EVERYTHING) -> int:
        """Return the lowest number in ``scope``; NEVER if there is none."""
        if not scope.db:
            return min(self._needs, default=NEVER)
        tables = self._by_db.get(scope.db, {})
        if not scope.table:
            return min((seq for seqs in tables.values() for seq in seqs), default=NEVER)
        return min((*tables.get(scope.table, ()), *tables.get("", ())), default=NEVER)

    def tables(self, scope: Scope, *, seq: int) -> Iterator[TableId]:
        """Yield the objects in ``scope`` whose needs have a number up to ``seq``."""
        for db in [scope.db] if scope.db else tuple(self._by_db):
            for table, seqs in self._by_db.get(db, {}).items():
                if min(seqs) <= seq and scope.includes((db, table)):
                    yield db, table

    def count(self, seq: int) -> int:
        """Return how many needs have a number up to ``seq``."""
        return sum(count for of, count in self._needs.items() if of <= seq)

    def add(self, table: TableId, need: Need) -> None:
        """Count ``need`` of ``table``, unless it is for a background load."""
        if not need.load:
            self._needs[need.seq] = self._needs.get(need.seq, 0) + 1
            self._by_db.setdefault(table[0], {}).setdefault(table[1], []).append(need.seq)

    def remove(self, table: TableId, need: Need) -> None:
        """Stop counting ``need``, which has not changed since it was added."""
        if need.load:
            return
        self._needs[need.seq] -= 1
        if not self._needs[need.seq]:
            del self._needs[need.seq]
        db, name = table
        self._by_db[db][name].remove(need.seq)
        if not self._by_db[db][name]:
            del self._by_db[db][name]
        if not self._by_db[db]:
            del self._by_db[db]

    def merge(self, table: TableId, known: Need, need: Need) -> None:
        """Merge ``need`` into ``known`` of ``table``, which is counted."""
        self.remove(table, known)
        known.merge(need)
        self.add(table, known)

    def check(self, needs: Iterable[tuple[TableId, Need]]) -> None:
        """Assert that exactly ``needs`` are counted."""
        counted = [(table, need.seq) for table, need in needs if not need.load]
        assert Counter(seq for _, seq in counted) == self._needs
        found = {(db, table): seqs for db, of in self._by_db.items() for table, seqs in of.items()}
        assert Counter(counted) == Counter((t, seq) for t, seqs in found.items() for seq in seqs)
