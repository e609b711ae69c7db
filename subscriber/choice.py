"""Choice: which topics are worth most at full, beside a cache that takes what room they leave.

    worth == sum over full topics of (hits + rest) + what of the others' hits the cache can hold

A topic offers two goods: its working set, which a cache may hold in part, and the rest of it,
which is had only with all of it. Branch and bound: goods are taken by their worth per byte while
there is room; where one is cut by the end of the room, it is tried both with it and without it,
unless not even its part would make the best much better.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Final

TOLERANCE: Final = 0.01  # of the best: not looked for any closer
LOOKS_MAX: Final = 6000  # at a good, in one search: 1 ms; few topics are searched to the end

_CACHED: Final = 0  # the working set, for the cache
_REST: Final = 1  # what full needs beside the working set in the cache
_WHOLE: Final = 2  # both, where the rest is worth more per byte than the working set

_Good = tuple[float, int, int, int, float]  # minus worth per byte, kind, topic, bytes, worth


@dataclass(frozen=True, slots=True)
class Bid:
    """A topic: ``size`` bytes at full, of them ``working``; ``hits`` and ``rest`` are worths.

    ``hits``: what the cache saves with the working set; ``rest``: what full saves beside.
    Whose ``rest`` is not positive is never taken at full.
    """

    topic: int
    size: int
    working: int
    hits: float
    rest: float


def choose(bids: Iterable[Bid], *, room: int) -> tuple[float, frozenset[int]]:
    """Return what is reached, and the topics at full: at most 1 % below the best, for a few.

    Cost: O(n log n), and at most ``LOOKS_MAX`` beyond the first filling.
    """
    market = _market(bids)
    best: tuple[float, frozenset[int]] = (0.0, frozenset())
    undecided = [(frozenset[int](), frozenset[int]())]
    looks = 0
    while undecided and looks < LOOKS_MAX:
        inside, outside = undecided.pop()
        looks += len(market.goods) + 1
        worth, bound, taken, cut = market.fill(inside, outside, room=room)
        if worth > best[0]:
            best = worth, taken
        if cut is not None and bound > best[0] * (1 + TOLERANCE):
            undecided += [(inside, outside | {cut}), (inside | {cut}, outside)]
    return best


@dataclass(frozen=True, slots=True)
class _Market:
    """All goods, best first; ``wholes``: bytes and worth of each topic that may be full."""

    goods: list[_Good]
    wholes: dict[int, tuple[int, float]]
    convex: frozenset[int]  # offered as WHOLE: CACHED only once they are ruled out

    def fill(
        self, inside: frozenset[int], outside: frozenset[int], *, room: int
    ) -> tuple[float, float, frozenset[int], int | None]:
        """Fill ``room``: return worth, its upper bound, the topics at full, the first one cut."""
        room -= sum(self.wholes[topic][0] for topic in inside)
        if room < 0:
            return -inf, -inf, inside, None
        worth = sum(self.wholes[topic][1] for topic in inside)
        taken, cut, bound = set(inside), None, -inf
        hidden = self.convex - outside
        for density, kind, topic, size, value in self.goods:
            if topic in inside or topic in (hidden if kind == _CACHED else outside):
                continue
            if kind == _CACHED:
                part = min(size, room)
                worth += value * part / size
                room -= part
            elif size <= room:
                worth += value
                room -= size
                taken.add(topic)
            elif cut is None:
                cut, bound = topic, worth - density * room
        return worth, max(worth, bound), frozenset(taken), cut


def _market(bids: Iterable[Bid]) -> _Market:
    goods: list[_Good] = []
    wholes: dict[int, tuple[int, float]] = {}
    convex = set()
    for bid in bids:
        working, extra = max(bid.working, 1), max(bid.size - bid.working, 1)
        if bid.hits > 0:
            goods.append((-bid.hits / working, _CACHED, bid.topic, working, bid.hits))
        if bid.rest <= 0:
            continue
        wholes[bid.topic] = bid.size, bid.hits + bid.rest
        if bid.hits > 0 and bid.rest * working <= bid.hits * extra:
            goods.append((-bid.rest / extra, _REST, bid.topic, extra, bid.rest))
            continue
        convex.add(bid.topic)
        worth = bid.hits + bid.rest
        goods.append((-worth / max(bid.size, 1), _WHOLE, bid.topic, bid.size, worth))
    goods.sort()
    return _Market(goods, wholes, frozenset(convex))
