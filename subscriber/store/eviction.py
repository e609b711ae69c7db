"""The order in which pulled tables are evicted: of what is not in use, what saves least.

    kept ──▶ probation ──used since──▶ protected ──more than its share──▶ probation ──▶ given up

Of either part the table of the lowest rank is looked at first:

    rank == floor as it was then + times used * (1 / bytes + 1 / EVEN_BYTES)

Each round trip saved counts the same, however large the table, but for the time that its bytes
take; so many small tables are worth more than a large one. The floor rises to the rank of what
leaves, so what is used no more leaves in the end. Readers set ``TableSnapshot.used``
without a lock; the mark is looked at, and wiped, when room is needed. So a scan of many tables,
each used once, pushes out no table in use. Source: docs/design/0005-room.md.
"""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final

PROTECTED_SHARE: Final = 0.5  # of all bytes kept; above 0.8 what is new leaves before it is used
EVEN_BYTES: Final = 100_000  # bringing so many takes as long as the round trip
TIMES_MAX: Final = 8  # of uses that count: what was in use for a day is given up as soon
STALE_MAX: Final = 64  # in a heap beside as many as hold: of what has left, or has another rank

Key = tuple[int, bytes]  # topic, group
_Rank = tuple[float, int]  # then by age


class _Place:
    __slots__ = ("floor", "rank", "size", "times")

    def __init__(self, size: int, times: int) -> None:
        self.size = size
        self.times = times
        self.floor = 0.0
        self.rank: _Rank = (0.0, 0)


class _Part:
    """Tables in the order of their ranks."""

    def __init__(self) -> None:
        self.places: dict[Key, _Place] = {}
        self.held_bytes = 0
        self._floor = 0.0
        self._heap: list[tuple[_Rank, Key]] = []
        self._ranked = 0

    def add(self, key: Key, place: _Place) -> None:
        """Take ``key`` in, ranked as of now."""
        self.places[key] = place
        self.held_bytes += place.size
        place.floor = self._floor
        self._rank(key, place)

    def resize(self, key: Key, size: int) -> None:
        """Take that ``key`` has ``size`` bytes now; it is as new as it was."""
        place = self.places[key]
        self.held_bytes += size - place.size
        place.size = size
        self._rank(key, place)

    def take(self, key: Key) -> _Place:
        """Let ``key`` go."""
        place = self.places.pop(key)
        self.held_bytes -= place.size
        self._tidy()
        return place

    def first(self) -> Key:
        """Return the key of the lowest rank, of which there is one; nothing ranks below it."""
        while True:
            rank, key = self._heap[0]
            place = self.places.get(key)
            if place is not None and place.rank == rank:
                self._floor = rank[0]
                return key
            heappop(self._heap)

    def check(self) -> None:
        """Assert every invariant."""
        assert self.held_bytes == sum(place.size for place in self.places.values())
        assert all(place.rank[0] >= self._floor for place in self.places.values())
        ranked = set(self._heap)
        assert all((place.rank, key) in ranked for key, place in self.places.items())
        assert len(self._heap) <= 2 * len(self.places) + STALE_MAX

    def _rank(self, key: Key, place: _Place) -> None:
        self._ranked += 1
        worth = 1 / max(place.size, 1) + 1 / EVEN_BYTES
        place.rank = max(place.floor + place.times * worth, self._floor), self._ranked
        heappush(self._heap, (place.rank, key))
        self._tidy()

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self.places) + STALE_MAX:
            self._heap = [(place.rank, key) for key, place in self.places.items()]
            heapify(self._heap)


class EvictionOrder:
    """The keys of what is kept, with their bytes; ``used`` tells, and wipes, a key's mark."""

    def __init__(self, used: Callable[[Key], bool]) -> None:
        self._used = used
        self._probation = _Part()
        self._protected = _Part()

    def __len__(self) -> int:
        return len(self._probation.places) + len(self._protected.places)

    def __contains__(self, key: Key) -> bool:
        return key in self._probation.places or key in self._protected.places

    @property
    def held_bytes(self) -> int:
        """The bytes of all that is kept."""
        return self._probation.held_bytes + self._protected.held_bytes

    def note(self, key: Key, size: int) -> None:
        """Take that ``key`` is kept, with ``size`` bytes; what is new is on probation."""
        for part in (self._probation, self._protected):
            if key in part.places:
                part.resize(key, size)
                return
        self._probation.add(key, _Place(size, 1))

    def discard(self, key: Key) -> None:
        """Take that ``key`` is kept no more."""
        for part in (self._probation, self._protected):
            if key in part.places:
                part.take(key)

    def victim(self) -> Key | None:
        """Return what should be given up next; None if nothing is kept."""
        for _ in range(2 * len(self)):  # marks may come faster than they are wiped
            part = self._probation
            if self._is_crowded() or not part.places:
                part = self._protected
            key = part.first()
            if self._used(key):
                place = part.take(key)
                place.times = min(place.times + 1, TIMES_MAX)
                self._protected.add(key, place)
            elif part is self._probation:
                return key
            else:
                self._probation.add(key, _Place(part.take(key).size, 1))
        rest = self._probation if self._probation.places else self._protected
        return rest.first() if rest.places else None

    def cheapest(self, size: int) -> Iterator[tuple[Key, int]]:
        """Yield the keys, with their bytes, that ``size`` bytes would cost, were no mark left.

        Cost: O(n log n).
        """
        for part in (self._probation, self._protected):
            for key, place in sorted(part.places.items(), key=_rank_of):
                if size <= 0:
                    return
                size -= place.size
                yield key, place.size

    def check(self) -> None:
        """Assert every invariant."""
        assert not self._probation.places.keys() & self._protected.places.keys()
        self._probation.check()
        self._protected.check()

    def _is_crowded(self) -> bool:
        """Tell whether more than its share is protected, and not one large table alone."""
        share = PROTECTED_SHARE * self.held_bytes
        return self._protected.held_bytes > share and len(self._protected.places) > 1


def _rank_of(item: tuple[Key, _Place]) -> _Rank:
    return item[1].rank
