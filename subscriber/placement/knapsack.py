"""Knapsack: the topics that are worth most at full; the room left caches pulled tables. Pure."""

from collections.abc import Iterable
from math import inf
from typing import Final, NamedTuple

TOLERANCE: Final = 0.01  # of the best worth: the knapsack is not searched any closer
LOOKS_MAX: Final = 6000  # items looked at in one search: 1 ms; few topics are searched to the end


class Item(NamedTuple):
    """A topic in the knapsack: ``size`` bytes at full, of them ``working``; two worths.

    ``cache``: what the cache saves with the working set; ``rest``: what full saves beyond that.
    A topic whose ``rest`` is not positive is never taken at full.
    """

    topic: int
    size: int
    working: int
    cache: float
    rest: float


_CACHED: Final = 0  # the working set, for the cache
_REST: Final = 1  # what full needs in addition to the working set in the cache
_WHOLE: Final = 2  # both, where the rest is worth more per byte than the working set

_Part = tuple[float, int, int, int, float]  # minus worth per byte, kind, topic, bytes, worth


class Knapsack:
    """Chooses the topics that are worth most at full, given a cache that takes the remaining room.

        worth == sum over full topics of (cache + rest) + what of the others' the cache can hold

    Branch and bound: parts are taken by their worth per byte while there is room; where a part is
    cut by the end of the room, it is tried both with it and without it, unless not even its part
    would make the best much better.
    """

    def __init__(self, items: Iterable[Item]) -> None:
        self._parts: list[_Part] = []  # of all items, those worth most per byte first
        self._wholes: dict[int, tuple[int, float]] = {}  # topics that may be full: bytes, worth
        self._convex: set[int] = set()  # offered as WHOLE: CACHED only once that is ruled out
        for item in items:
            self._add(item)
        self._parts.sort()

    def choose(self, *, room: int) -> tuple[float, frozenset[int]]:
        """Return the worth reached and the topics at full: at most 1 % below the best, for a few.

        Cost: O(n) with the first filling, and at most ``LOOKS_MAX`` after it.
        """
        best: tuple[float, frozenset[int]] = (0.0, frozenset())
        undecided = [(frozenset[int](), frozenset[int]())]
        looks = 0
        while undecided and looks < LOOKS_MAX:
            inside, outside = undecided.pop()
            looks += len(self._parts) + 1
            worth, bound, taken, cut = self._fill(inside, outside, room=room)
            if worth > best[0]:
                best = worth, taken
            if cut is not None and bound > best[0] * (1 + TOLERANCE):
                undecided += [(inside, outside | {cut}), (inside | {cut}, outside)]
        return best

    def worth(self, full: frozenset[int], *, room: int) -> float:
        """Return the worth with just these topics at full; -inf where they do not fit."""
        return self._fill(full, frozenset(self._wholes) - full, room=room)[0]

    def _add(self, item: Item) -> None:
        topic, size, working, cache, rest = item
        working = working or 1
        if cache > 0:
            self._parts.append((-cache / working, _CACHED, topic, working, cache))
        if rest <= 0:
            return
        worth, extra = cache + rest, max(size - working, 0)
        self._wholes[topic] = size, worth
        if cache > 0 and rest * working <= cache * extra:
            self._parts.append((-rest / extra, _REST, topic, extra, rest))
            return
        self._convex.add(topic)
        self._parts.append((-worth / (size or 1), _WHOLE, topic, size, worth))

    def _fill(
        self, inside: frozenset[int], outside: frozenset[int], *, room: int
    ) -> tuple[float, float, frozenset[int], int | None]:
        """Fill ``room``: return worth, its upper bound, the topics at full, the first one cut."""
        room -= sum(self._wholes[topic][0] for topic in inside)
        if room < 0:
            return -inf, -inf, inside, None
        worth = sum(self._wholes[topic][1] for topic in inside)
        taken, cut, bound = set(inside), None, -inf
        hidden = self._convex - outside
        for density, kind, topic, size, value in self._parts:
            if topic in inside or topic in (hidden if kind == _CACHED else outside):
                continue
            if size <= room:
                worth += value
                room -= size
                if kind != _CACHED:
                    taken.add(topic)
            elif kind == _CACHED:
                worth += value * room / size
                room = 0
            elif cut is None:
                cut, bound = topic, worth - density * room
        return worth, max(worth, bound), frozenset(taken), cut
