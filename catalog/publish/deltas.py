"""The delta of a committed transaction, and the frames that a hub has not acknowledged."""

from collections import deque
from typing import Final

from ...topics.bulk import STUBS_BYTES_MAX
from ...topics.entries import FULL, stub
from ...topics.wire.codec import row_bytes
from ...topics.wire.header import DELTA_BYTES_MAX
from ...topics.wire.messages import Delta
from ..model.versions import Transaction
from .modes import MODE_DEFAULT, Mode, withhold

UNACKED_BYTES_MAX: Final = 8 << 20  # 80 ms of 100 MB/s: a hub further behind is cheaper caught up
UNACKED_MAX: Final = 900  # frames; below the 1,000 that a DEALER queues before it drops


def delta_of(
    transaction: Transaction,
    *,
    epoch: int,
    start: int,
    floor: int,
    sent_us: int,
    mode: Mode = MODE_DEFAULT,
) -> Delta:
    """Return the one delta of ``transaction`` for a hub, at most DELTA_BYTES_MAX large.

    Entries that ``mode`` withholds are stubs in it, and hubs never get their values. If the values
    are too large, all entries are stubs, with the flag ``stubbed``; if even the stubs are, there
    are no entries, and the flag ``invalidate_all`` too. A hub catches up on the values.
    """
    entries = tuple(withhold(mode, transaction.topic, transaction.entries))
    stubbed = sum(map(row_bytes, entries)) > DELTA_BYTES_MAX
    if stubbed:
        entries = tuple(map(stub, entries))
    invalidate_all = stubbed and sum(map(row_bytes, entries)) > STUBS_BYTES_MAX
    return Delta(
        topic=transaction.topic,
        level=FULL,
        epoch=epoch,
        start=start,
        from_version=transaction.from_version,
        to_version=transaction.to_version,
        floor=min(floor, transaction.to_version),
        sent_us=sent_us,
        source=transaction.source,
        entries=() if invalidate_all else entries,
        stubbed=stubbed,
        invalidate_all=invalidate_all,
    )


class Unacknowledged:
    """Sizes of the frames that a hub has not filed, bounded; ``held_bytes`` is their sum."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self._count = 0  # of all frames
        self._topics: dict[int, deque[tuple[int, int]]] = {}  # (version, bytes), the oldest first

    def __len__(self) -> int:
        return self._count

    def put(self, topic: int, version: int, size: int) -> bool:
        """Take a frame in; False, and it is not taken, where the bounds do not allow it."""
        if self._count >= UNACKED_MAX or self.held_bytes + size > UNACKED_BYTES_MAX:
            return False
        self._topics.setdefault(topic, deque()).append((version, size))
        self._count += 1
        self.held_bytes += size
        return True

    def filed(self, topic: int, version: int) -> None:
        """Discard the frames of ``topic`` up to ``version``: the hub has filed them."""
        waiting = self._topics.get(topic)
        while waiting and waiting[0][0] <= version:
            self._count -= 1
            self.held_bytes -= waiting.popleft()[1]

    def clear(self) -> None:
        """Discard every frame."""
        self._topics.clear()
        self._count = self.held_bytes = 0
