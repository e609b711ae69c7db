"""Choice: which topics are worth most at full, beside a cache that takes what room they leave.

    worth == sum over full topics of (hits + rest) + what of the others' hits the cache can hold

A topic offers two goods: its working set, which a cache may hold in part, and the rest of it,
which is had only with all of it. Branch and bound: goods are taken by their worth per byte while
there is room; where one is cut by the end of the room, it is tried both with it and without it,
unless not even its part would make the best much better.
"""

from collections.abc import Iterable
from math import inf
from typing import Final, NamedTuple

TOLERANCE: Final = 0.01  # of the best: not looked for any closer
LOOKS_MAX: Final = 6000  # at a good, in one search: 1 ms; few topics are searched to the end

_CACHED: Final = 0  # the working set, for the cache
_REST: Final = 1  # what full needs beside the working set in the cache
_WHOLE: Final = 2  # both, where the rest is worth more per byte than the working set

_Good = tuple[float, int, int, int, float]  # minus worth per byte, kind, topic, bytes, worth


class Bid(NamedTuple):
    """A topic: ``size`` bytes at full, of them ``working``; ``hits`` and ``rest`` are worths.

    ``hits``: what the cache saves with the working set; ``rest``: what full saves beside.
    Whose ``rest`` is not positive is never taken at full.
    """

    topic: int
    size: int
    working: int
    hits: float
    rest: float


class Market:
    """The goods of all bids, those worth most per byte first."""

    def __init__(self, bids: Iterable[Bid]) -> None:
        self._goods: list[_Good] = []
        self._wholes: dict[int, tuple[int, float]] = {}  # what may be full: bytes, worth
        self._convex: set[int] = set()  # offered as WHOLE: CACHED only once that is ruled out
        for bid in bids:
            self._offer(bid)
        self._goods.sort()

    def choose(self, *, room: int) -> tuple[float, frozenset[int]]:
        """Return what is reached, and the topics at full: at most 1 % below the best, for a few.

        Cost: O(n) with the first filling, and at most ``LOOKS_MAX`` after it.
        """
        best: tuple[float, frozenset[int]] = (0.0, frozenset())
        undecided = [(frozenset[int](), frozenset[int]())]
        looks = 0
        while undecided and looks < LOOKS_MAX:
            inside, outside = undecided.pop()
            looks += len(self._goods) + 1
            worth, bound, taken, cut = self._fill(inside, outside, room=room)
            if worth > best[0]:
                best = worth, taken
            if cut is not None and bound > best[0] * (1 + TOLERANCE):
                undecided += [(inside, outside | {cut}), (inside | {cut}, outside)]
        return best

    def worth(self, full: frozenset[int], *, room: int) -> float:
        """Return what is reached with just these topics at full; -inf where they do not fit."""
        return self._fill(full, frozenset(self._wholes) - full, room=room)[0]

    def _offer(self, bid: Bid) -> None:
        topic, size, working, hits, rest = bid
        working = working or 1
        if hits > 0:
            self._goods.append((-hits / working, _CACHED, topic, working, hits))
        if rest <= 0:
            return
        worth, extra = hits + rest, max(size - working, 0)
        self._wholes[topic] = size, worth
        if hits > 0 and rest * working <= hits * extra:
            self._goods.append((-rest / extra, _REST, topic, extra, rest))
            return
        self._convex.add(topic)
        self._goods.append((-worth / (size or 1), _WHOLE, topic, size, worth))

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
        for density, kind, topic, size, value in self._goods:
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
