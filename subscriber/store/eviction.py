"""EvictionOrder: which pulled table is evicted next: of unused tables, that which saves the least.

    kept ──▶ probation ──used since──▶ protected ──more than its share──▶ probation ──▶ evicted

Of either part the table of the lowest rank is looked at first:

    rank == floor as it was then + what its uses have saved / bytes

What a use saves (``latency.py``) is a round trip, however large the table, and the time that its
bytes take; so many small tables are worth more than a large one. The floor rises to the rank of
what leaves, so what is used no more leaves in the end. Readers set ``TableSnapshot.used`` without
a lock; it is looked at, and cleared, when room is needed. So a scan of many tables, each used once,
evicts no table in use. Source: docs/design/0005-room.md.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from sortedcontainers import SortedList

from .latency import LatencyEstimate

PROTECTED_SHARE: Final = 0.5  # of all bytes kept; above 0.8 what is new leaves before it is used
TIMES_MAX: Final = 8  # of uses that count: what was in use for a day is evicted as soon

Key = tuple[int, bytes]  # topic, group
_Rank = tuple[float, int, Key]  # then by age


@dataclass(slots=True)
class _Slot:
    size: int
    times: int
    floor: float = 0.0
    rank: _Rank = (0.0, 0, (0, b""))


class _Part:
    """Tables in the order of their ranks."""

    def __init__(self, latency: LatencyEstimate) -> None:
        self._latency = latency
        self.slots: dict[Key, _Slot] = {}
        self.held_bytes = 0  # of all slots
        self._floor = 0.0  # the rank of what left last; nothing here ranks below it
        self._ranks: SortedList = SortedList()  # of all slots
        self._ranked = 0  # how often a slot was ranked: of equal ranks the older slot is first

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
        """Return the key of the lowest rank, and raise the floor to that; there must be a key."""
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
    """The keys of what is kept, with their bytes; ``used`` returns and clears a key's use."""

    def __init__(self, used: Callable[[Key], bool], latency: LatencyEstimate) -> None:
        self._used = used
        self._probation = _Part(latency)
        self._protected = _Part(latency)

    def __len__(self) -> int:
        return len(self._probation.slots) + len(self._protected.slots)

    def __contains__(self, key: Key) -> bool:
        return key in self._probation.slots or key in self._protected.slots

    @property
    def held_bytes(self) -> int:
        """The bytes of all that is kept."""
        return self._probation.held_bytes + self._protected.held_bytes

    def note(self, key: Key, size: int) -> None:
        """Note that ``key`` is kept, with ``size`` bytes; a new table is on probation."""
        for part in (self._probation, self._protected):
            if key in part.slots:
                part.resize(key, size)
                return
        self._probation.add(key, _Slot(size, 1))

    def discard(self, key: Key) -> None:
        """Note that ``key`` is kept no more."""
        for part in (self._probation, self._protected):
            if key in part.slots:
                part.take(key)

    def victim(self) -> Key | None:
        """Return what should be evicted next; None if nothing is kept."""
        for _ in range(2 * len(self)):  # uses may come faster than they are cleared
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
        """Yield keys and bytes that room for ``size`` bytes would evict, were nothing in use."""
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
        """Tell whether more than its share is protected, and not one large table alone."""
        share = PROTECTED_SHARE * self.held_bytes
        return self._protected.held_bytes > share and len(self._protected.slots) > 1
