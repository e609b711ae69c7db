"""EvictionOrder: which pulled table is evicted next: of the unused tables, that which saves least.

    kept ──▶ probation ──used since──▶ protected ──more than its share──▶ probation ──▶ evicted

When room is needed, the order looks at the table of the lowest rank in its part:

    rank == floor when the table came to this part + what its uses have saved / bytes

A use saves a round trip, however large the table, and the time that its bytes take (`latency`), so
that many small tables are worth more than a large table. The floor rises to the rank of each table
that leaves, so that a table leaves in the end if nobody uses it. Readers set
``TableSnapshot.used`` without a lock; the order looks at it, and clears it, when room is needed. So
a scan of many tables, each used once, evicts no table in use. Source: docs/design/0005-room.md.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from sortedcontainers import SortedList

from .latency import LatencyEstimate

PROTECTED_SHARE: Final = 0.5  # of all bytes kept; above 0.8 new tables leave before they are used
TIMES_MAX: Final = 8  # uses that count, so that a table that was used for a day leaves as soon

Key = tuple[int, bytes]  # topic, group
_Rank = tuple[float, int, Key]  # the rank, then the age among equal ranks


@dataclass(slots=True)
class _Slot:
    """A kept table."""

    size: int  # bytes
    times: int  # uses that count
    floor: float = 0.0  # of its part when it came there
    rank: _Rank = (0.0, 0, (0, b""))


class _Part:
    """Tables in the order of their ranks."""

    def __init__(self, latency: LatencyEstimate) -> None:
        self._latency = latency
        self.slots: dict[Key, _Slot] = {}
        self.held_bytes = 0  # of all slots
        self._floor = 0.0  # the lowest rank when ``first`` was last called; no slot ranks below it
        self._ranks: SortedList = SortedList()  # of all slots
        self._ranked = 0  # how many ranks were given: of equal ranks the older is first

    def add(self, key: Key, slot: _Slot) -> None:
        """Add ``key``, ranked as of now."""
        self.slots[key] = slot
        self.held_bytes += slot.size
        slot.floor = self._floor
        self._rank(key, slot)

    def resize(self, key: Key, size: int) -> None:
        """Note that ``key`` has ``size`` bytes now; it keeps its floor and its uses."""
        slot = self.slots[key]
        self._ranks.remove(slot.rank)
        self.held_bytes += size - slot.size
        slot.size = size
        self._rank(key, slot)

    def take(self, key: Key) -> _Slot:
        """Remove ``key``."""
        slot = self.slots.pop(key)
        self._ranks.remove(slot.rank)
        self.held_bytes -= slot.size
        return slot

    def first(self) -> Key:
        """Return the key of the lowest rank, and raise the floor to that rank.

        There must be a key.
        """
        rank: _Rank = self._ranks[0]
        self._floor = rank[0]
        return rank[2]

    def in_order(self) -> Iterator[tuple[Key, int]]:
        """Yield every key with its bytes, the lowest rank first."""
        for _, _, key in self._ranks:
            yield key, self.slots[key].size

    def check(self) -> None:
        """Assert every invariant."""
        assert self.held_bytes == sum(slot.size for slot in self.slots.values())
        assert all(slot.rank[0] >= self._floor for slot in self.slots.values())
        assert list(self._ranks) == sorted(slot.rank for slot in self.slots.values())

    def _rank(self, key: Key, slot: _Slot) -> None:
        self._ranked += 1
        size, times = max(slot.size, 1), slot.times
        worth = self._latency.saved(times, times * size) / size
        slot.rank = max(slot.floor + worth, self._floor), self._ranked, key
        self._ranks.add(slot.rank)


class EvictionOrder:
    """The kept tables, by key, with their bytes, in the order in which they would be evicted."""

    def __init__(self, used: Callable[[Key], bool], latency: LatencyEstimate) -> None:
        """``used``: returns whether a table was used since its last call, and clears that."""
        self._used = used
        self._probation = _Part(latency)
        self._protected = _Part(latency)

    def __len__(self) -> int:
        return len(self._probation.slots) + len(self._protected.slots)

    def __contains__(self, key: Key) -> bool:
        return key in self._probation.slots or key in self._protected.slots

    @property
    def held_bytes(self) -> int:
        """The bytes of all kept tables."""
        return self._probation.held_bytes + self._protected.held_bytes

    def note(self, key: Key, size: int) -> None:
        """Note that ``key`` is kept, with ``size`` bytes; a new table is on probation."""
        for part in (self._probation, self._protected):
            if key in part.slots:
                part.resize(key, size)
                return
        self._probation.add(key, _Slot(size, 1))

    def discard(self, key: Key) -> None:
        """Note that ``key`` is not kept any more, if it was."""
        for part in (self._probation, self._protected):
            if key in part.slots:
                part.take(key)

    def victim(self) -> Key | None:
        """Return the table to evict next; None: none is kept. It stays kept until ``discard``."""
        for _ in range(2 * len(self)):  # a bound: readers may use tables faster than this clears
            part = self._probation
            if self._is_crowded() or not part.slots:
                part = self._protected
            key = part.first()
            if self._used(key):
                slot = part.take(key)
                slot.times = min(slot.times + 1, TIMES_MAX)
                self._protected.add(key, slot)
            elif part is self._probation:
                return key
            else:
                self._probation.add(key, _Slot(part.take(key).size, 1))
        rest = self._probation if self._probation.slots else self._protected
        return rest.first() if rest.slots else None

    def cheapest(self, size: int) -> Iterator[tuple[Key, int]]:
        """Yield the tables, with their bytes, that ``size`` bytes would evict if none was used."""
        for part in (self._probation, self._protected):
            for key, held_bytes in part.in_order():
                if size <= 0:
                    return
                size -= held_bytes
                yield key, held_bytes

    def check(self) -> None:
        """Assert every invariant."""
        assert not self._probation.slots.keys() & self._protected.slots.keys()
        self._probation.check()
        self._protected.check()

    def _is_crowded(self) -> bool:
        """Return whether more than its share is protected, and by more than one table."""
        share = PROTECTED_SHARE * self.held_bytes
        return self._protected.held_bytes > share and len(self._protected.slots) > 1
