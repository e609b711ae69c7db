"""ChunkedLoad: reads the partitions of a large table in chunks, while the table may change.

    names ──▶ rest ──next──▶ chunk ──accept──▶ slices ──▶ … ──all read and confirmed──▶ COMPLETE
                      dirty ◀── changed meanwhile

Invariant: a partition is in ``rest``, in ``dirty``, being read, or was published since it changed.
A chunk is published in slices, so that no turn takes long, in the order in which it was read.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from ...topics.objects.names import TableId
from ..metastore.port import TableRead, TableRequest

PARTITIONS_PER_READ_MAX: Final = 1_000
SLICES_MAX: Final = 4  # of one table, read and not yet published, before its next chunk is read
SLICE_MAX: Final = 256  # partitions: 2 ms to write, and whole blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishPartitions:
    """Result: publish partitions of a table that is LOADING; ``gone`` do not exist any longer."""

    table: TableId
    partitions: dict[str, bytes]
    gone: tuple[str, ...]


@dataclass(slots=True)
class ChunkedLoad:
    """What is still to be read of one table."""

    rest: deque[str] | None  # partitions never read; None: their names are not known yet
    refused: int = 0  # loads of this table that failed before this one
    dirty: dict[str, None] = field(default_factory=dict)  # changed meanwhile, an ordered set
    reading: bool = False  # a chunk is being read; never two
    slices: deque[PublishPartitions] = field(default_factory=deque)  # read, not yet published
    confirmed: bool = False  # a poll that began after the last read has ended

    @property
    def wants_read(self) -> bool:
        """Whether there is something to read now; what waits to be published is bounded."""
        if self.reading or len(self.slices) >= SLICES_MAX:
            return False
        return self.rest is None or self.left or not self.confirmed

    @property
    def left(self) -> bool:
        """Whether there is something to read, as far as is known."""
        return bool(self.rest or self.dirty)

    def mark_dirty(self, names: tuple[str, ...]) -> None:
        """Read the partitions ``names`` later, or again."""
        self.dirty.update(dict.fromkeys(names))

    def next(self, table: TableId) -> TableRequest:
        """Return what to read now of ``table``; no names where it is only to be confirmed."""
        names: tuple[str, ...] = ()
        if self.rest:
            count = min(len(self.rest), PARTITIONS_PER_READ_MAX)
            names = tuple(self.rest.popleft() for _ in range(count))
        elif self.rest is not None:
            names, self.dirty = tuple(self.dirty), {}
        self.reading = True
        db, name = table
        return TableRequest(db=db, table=name, obj=False, whole=self.rest is None, names=names)

    def is_last(self, read: TableRead | None) -> bool:
        """Whether nothing is left once ``read`` is accepted, as far as is known."""
        if self.rest is None:
            return read is not None and read.whole
        return not self.left

    def accept(self, request: TableRequest, read: TableRead, *, overtaken: bool) -> None:
        """Cut the answer to ``request`` into slices; read it again if an event overtook it."""
        if self.rest is None:
            self.rest = deque(() if read.whole else read.names or ())
        requested = request.names or tuple(read.partitions)
        if overtaken:
            self.mark_dirty(requested)
        gone = tuple(name for name in requested if name not in read.partitions)
        found = list(read.partitions.items())
        table = request.db, request.table
        for begin in range(0, max(len(found), 1), SLICE_MAX):
            some = dict(found[begin : begin + SLICE_MAX])
            self.slices.append(PublishPartitions(table=table, partitions=some, gone=gone))
            gone = ()
