"""ChunkedComparison: compares a large table, events of which are missing, while readers keep it.

    names ──next──▶ chunk ──accept──▶ slices ──▶ the next chunk … ──over──▶ differences are read
                events meanwhile ──▶ ``need`` ─────────────────────────────────────┘

If catalogd read the table as a whole, the table would be LOADING: readers would lose it, and get
all of it again. So catalogd reads the partitions a chunk at a time, and discards each chunk after
the comparison. Memory: a chunk, and the names.

Invariant: catalogd publishes nothing of the table before the whole table is compared, so that
readers never see some of the lost changes without the others. If a partition changes after its
chunk was read, an event names the partition, and catalogd reads it with those that differ.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from ....topics.comparison import same_struct
from ....topics.errors import WireError
from ....topics.objects.names import TableId
from ...metastore.port import PARTITIONS_PER_CALL_MAX, TableRead, TableRequest
from ...model.tables import Tables
from .needs import Extent, Need

DIFFERING_MAX: Final = 4_000  # partitions, 4 MB, 30 ms to write; with more the table is LOADING
SLICE_MAX: Final = 96  # partitions compared in one turn, three blocks: below 1 ms
OTHER_BYTES_COST: Final = 12  # equal objects that are compared while one of other bytes is decoded


class ChunkedComparison:
    """The partitions of one table yet to be compared, and those to be read again at the end."""

    def __init__(
        self, tables: Tables, table: TableId, names: Sequence[str] | None, *, need: Need
    ) -> None:
        """Compare ``table``; ``names``: its partitions in the metastore; None: not listed yet.

        ``need``: of the events that wait for the comparison; later needs are merged into it.
        """
        self._tables = tables
        self.table = table
        self.need = need
        self.reading = False  # a chunk, or the names; never two
        self.awaited = False  # somebody syncs the table
        self._count: int | None = None  # of the names; None: they are not listed yet
        self._compared = 0  # how many of them
        self._rest: Iterator[str] = iter(())  # names that are not in a chunk yet
        self._next: tuple[str, ...] = ()  # the names of the next chunk
        self._slices: Iterator[None] | None = None  # of the names, or of the chunk that was read
        if names is not None:
            self._list(names)

    @property
    def wants_read(self) -> bool:
        """Whether the next chunk is to be read."""
        return not (self.reading or self._slices or self.over)

    @property
    def has_slices(self) -> bool:
        """Whether slices of the last answer are still to be compared."""
        return self._slices is not None

    @property
    def over(self) -> bool:
        """Whether everything was compared."""
        return self._count is not None and not (self._next or self._slices)

    @property
    def differs_much(self) -> bool:
        """Whether so many partitions differ that the table is loaded instead."""
        return len(self.need.names) > DIFFERING_MAX

    @property
    def text(self) -> str:
        """How far the comparison is, as text."""
        if self._count is None:
            return "events are missing, and its partitions are to be compared"
        done, count = self._compared, self._count
        return f"events are missing, and {done} of {count} partitions are compared"

    def next(self) -> TableRequest:
        """Return the request of the names, or of the next chunk."""
        db, name = self.table
        self.reading = True
        if self._count is None:
            return TableRequest(db=db, table=name, obj=False, whole=True, names=(), listed=True)
        return TableRequest(db=db, table=name, obj=False, whole=False, names=self._next)

    def list_later(self) -> None:
        """Drop the names, and list them again once it is this table's turn."""
        self._count, self._rest, self._next, self._slices = None, iter(()), (), None

    def give_back(self) -> None:
        """Make the same request once more: the metastore has not answered."""
        self.reading = False

    def accept(self, found: TableRead) -> None:
        """Take the answer to the last request, to be compared by ``take_slice``."""
        self.reading = False
        if self._count is None:
            self._list(found.names or ())  # without names the table is gone, as its read will show
            return
        self._slices = self._differing(self._next, found.partitions)
        self._advance()

    def take_slice(self) -> None:
        """Compare a slice of the last answer."""
        if self._slices is not None and next(self._slices, self) is self:
            self._slices = None

    def check(self) -> None:
        """Assert every invariant."""
        assert self.need.extent is Extent.STRUCT
        assert not (self.reading and (self._slices or self.over))
        assert len(self._next) <= PARTITIONS_PER_CALL_MAX
        assert self._compared + len(self._next) <= (self._count or 0)

    def _list(self, names: Sequence[str]) -> None:
        self._count = len(names)
        self._rest = iter(sorted(names))
        self._slices = self._gone(frozenset(names))
        self._advance()

    def _advance(self) -> None:
        self._next = tuple(islice(self._rest, PARTITIONS_PER_CALL_MAX))

    def _gone(self, listed: frozenset[str]) -> Iterator[None]:
        """Need the held partitions that are not ``listed``, slice by slice."""
        count = 0
        for block in self._tables.blocks(self.table):
            self.need.names.update(dict.fromkeys(one for one in block if one not in listed))
            count += len(block)
            if count >= SLICE_MAX:
                count = 0
                yield

    def _differing(self, names: Sequence[str], found: Mapping[str, bytes]) -> Iterator[None]:
        """Compare each of ``names`` as held with its ``found`` struct; need those that differ."""
        at = 0
        while at < len(names):
            some, cost = names[at : at + SLICE_MAX], 0
            held = dict(self._tables.structs(self.table, some))
            for name in some:
                there, kept = found.get(name), held.get(name)
                if not _equal(there, kept):
                    self.need.names[name] = None
                cost += 1 if there == kept else OTHER_BYTES_COST
                at, self._compared = at + 1, self._compared + 1
                if cost >= SLICE_MAX:
                    break
            yield


def _equal(there: bytes | None, held: bytes | None) -> bool:
    if there is None or held is None:
        return there is held
    try:
        return there == held or same_struct(there, held)
    except WireError:  # the read of the partition will report the error
        return False
