"""Knapsack: chooses the topics that are worth most at full; the cache gets the room left. Pure."""

from collections.abc import Iterable
from math import inf
from typing import Final, NamedTuple

TOLERANCE: Final = 0.01  # of the best worth: a search ends when no choice can be better by more
LOOKS_MAX: Final = 6000  # items that one search looks at: 1 ms; with few topics it ends before


class Item(NamedTuple):
    """A topic in the knapsack.

    ``size``: its bytes at full; ``working``: those of its working set. ``cache``: the worth of the
    working set in the cache; ``rest``: what the topic at full is worth beyond that. A topic whose
    ``rest`` is not positive is never taken at full.
    """

    topic: int
    size: int
    working: int
    cache: float
    rest: float


# The kinds of parts, into which an item is cut:
_CACHED: Final = 0  # the working set, for the cache
_REST: Final = 1  # what the topic at full takes in addition to the working set
_WHOLE: Final = 2  # both, if the rest is worth more per byte than the working set

_Part = tuple[float, int, int, int, float]  # minus the worth per byte, kind, topic, bytes, worth


class Knapsack:
    """Chooses the topics that are worth most at full, given a cache that takes the remaining room.

        worth == sum over full topics of (cache + rest) + what the cache can hold of the others

    Branch and bound. A filling takes parts by their worth per byte while there is room. The first
    topic that the end of the room would cut is tried both at full and not, unless even the share of
    it that fits could not make the best choice better by TOLERANCE.
    """

    def __init__(self, items: Iterable[Item]) -> None:
        self._parts: list[_Part] = []  # of all items, those worth most per byte first
        self._wholes: dict[int, tuple[int, float]] = {}  # of topics that may be full: bytes, worth
        self._convex: set[int] = set()  # topics with a WHOLE: CACHED counts once that is ruled out
        for item in items:
            self._add(item)
        self._parts.sort()

    def choose(self, *, room: int) -> tuple[float, frozenset[int]]:
        """Return the worth of the best choice found, and its topics at full.

        If the search ends before ``LOOKS_MAX``, as with few topics, no choice is better by more
        than TOLERANCE. Cost: O(n) for the first filling, and at most ``LOOKS_MAX`` after it.
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
        """Return the worth with just the topics ``full`` at full; -inf: they do not fit."""
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
        """Fill ``room`` with the topics ``inside`` at full, and none of ``outside``.

        Returns:
            The worth reached, an upper bound of any such filling's, the topics at full, and the
            first topic that the end of the room has cut.
        """
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
