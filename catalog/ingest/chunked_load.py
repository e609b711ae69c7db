"""Pieces: a table that is LOADING, read a part at a time while it may change.

    names ──▶ rest ──next──▶ piece ──took──▶ slices ──▶ … ──nothing left, and a fence──▶ COMPLETE
                      dirty ◀── changed meanwhile

Invariant: a partition is in ``rest``, in ``dirty``, being read, or was brought since it changed.
A piece is written a slice at a time, so that no turn is long; what is read later comes later.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from ...topics.objects.names import TableId
from .reads import PublishPartitions, TableRead, TableRequest

PARTITIONS_PER_READ_MAX: Final = 1_000
SLICES_MAX: Final = 4  # of one table, read and not written yet, before more of it is read
SLICE_MAX: Final = 256  # partitions: 2 ms to write, and whole blocks


@dataclass(slots=True)
class ChunkedLoad:
    """What is still to be read of one table. ``rest`` None: its names are not known yet.

    ``refused``: how many loads of it failed before this one. ``slices``: read, and not written
    yet. ``fenced``: a poll that began after the last read has ended.
    """

    rest: deque[str] | None
    refused: int = 0
    dirty: dict[str, None] = field(default_factory=dict)
    reading: bool = False
    slices: deque[PublishPartitions] = field(default_factory=deque)
    fenced: bool = False

    @property
    def wants_read(self) -> bool:
        """Whether there is something to read now: what waits to be written is bounded."""
        if self.reading or len(self.slices) >= SLICES_MAX:
            return False
        return self.rest is None or self.left or not self.fenced

    @property
    def left(self) -> bool:
        """Whether there is something to read, as far as is known."""
        return bool(self.rest or self.dirty)

    def change(self, names: tuple[str, ...]) -> None:
        """Read the partitions ``names`` later, or again."""
        self.dirty.update(dict.fromkeys(names))

    def next(self, table: TableId) -> TableRequest:
        """Return what to read now of ``table``; no names where only the fence is left."""
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
        """Whether nothing is left once ``read`` is taken, as far as is known."""
        if self.rest is None:
            return read is not None and read.whole
        return not self.left

    def vanished(self, read: TableRead) -> bool:
        """Whether ``read`` found no table where it looked for the names of its partitions."""
        return self.rest is None and read.names is None

    def took(self, want: TableRequest, read: TableRead, *, touched: bool) -> None:
        """Take the answer to ``want``, to be written; ``touched``: an event overtook it."""
        if self.rest is None:
            self.rest = deque(() if read.whole else read.names or ())
        asked = want.names or tuple(read.partitions)
        if touched:
            self.change(asked)
        gone = tuple(name for name in asked if name not in read.partitions)
        found = list(read.partitions.items())
        for begin in range(0, max(len(found), 1), SLICE_MAX):
            some = dict(found[begin : begin + SLICE_MAX])
            self.slices.append(
                PublishPartitions(db=want.db, table=want.table, partitions=some, gone=gone)
            )
            gone = ()
