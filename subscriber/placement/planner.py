"""Planner: the level of each table topic, and the order of changes that keeps to the budget.

    none ──read, pinned, cached in Spark──▶ minimal ──worth its bytes──▶ full
      ▲                                      │  ▲                         │
      └──not read for IDLE_S─────────────────┘  └──worth less, outgrew────┘

A table is in a topic by its hash, so beside a hot table stand strangers. The cache holds the hot
table alone; ``full`` saves in addition the pulls after changes and of what is read first, for the
bytes of the strangers. Both use the same budget. So a topic offers two goods: its working set,
cut as finely as the cache likes, and the rest of it, whole or not at all; each is worth the
waiting that it saves in a second. A working set takes as much room as the cache needs to find it,
by keeping what is new a while. Chosen is what is worth most in all, by branch and bound, which
takes what is worth most per byte, then tries the few that did not fit (``choice``).

Where all topics fit comfortably all become full, those in use first: bytes that nobody else wants
are free, and whoever has a small catalog and an ample budget never waits. Even then a driver
begins with nothing and takes in RAISES_MAX topics every PACE_S, so that a start stays cheap.
Who only watches what changes, and has read nothing yet, needs no values and stays at minimal.

It does not flap: another set of full topics has to be clearly better than the one that is, in
all; one at full counts KEPT_BONUS more, one that is not has its transfer to pay; a level stays
DWELL_S, topics move to or from full once in PACE_S, and what outgrew its room stays out for a
pause that doubles. Only the budget, an offer that ended, a first use and free bytes do not wait.
Invariant: after every step, full topics and MINIMAL for each other one in use fit the budget. What
was pulled beyond that gives way, as it does to every reservation.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from ...topics.entries import FULL, MINIMAL, NONE
from ..fetch.latency import LatencyEstimate
from ..store.eviction import PROTECTED_SHARE
from ..store.usage import TopicUsage
from .knapsack import Bid, Market

PAYS_BACK_S: Final = 1800.0  # a raise has to save its transfer within this time

IDLE_S: Final = 3600.0  # a topic not read for so long is not in use
DWELL_S: Final = 300.0
PACE_S: Final = 5.0
RAISES_MAX: Final = 16  # in PACE_S: each is a catch-up; other levels cost next to nothing
GAIN_OF_WORTH: Final = 0.05  # what a change has to gain: of what all levels are worth,
GAIN_OF_MISSED: Final = 0.2  # or of what is waited for now, if that is less
KEPT_BONUS: Final = 0.03  # on what one topic at full saves, against one that is not
PAUSE_S: Final = 60.0  # after a topic outgrew its room; doubled each time, while it goes on
PAUSE_S_MAX: Final = 4 * 3600.0

WORKING_ROOM: Final = 1 / PROTECTED_SHARE  # for each byte of it: the rest is for what is new
FULL_SHARE: Final = 0.9  # of the budget may be filled; the rest is for growth
ROOMY_SHARE: Final = 0.6  # all topics fit comfortably below it
CROWDED_SHARE: Final = 0.8  # and no longer above that


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One table topic as it stands.

    ``level``: that it has or is coming to, since ``since``; -inf if it was never set.
    ``full_bytes``: accounted at full, as the hub says; ``held_bytes``: committed at ``level``.
    ``kept``: why it is to be followed even if nobody reads it; empty if that is not so.
    ``pins``: a pinned table of it is held.
    """

    topic: int
    level: int
    since: float
    full_bytes: int
    held_bytes: int
    use: TopicUsage
    kept: str = ""
    pins: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Set ``topic`` to ``level``."""

    topic: int
    level: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Steps in their order, and for every topic why it has its level after them."""

    steps: tuple[Step, ...]
    reasons: dict[int, str]


@dataclass(slots=True)
class _Case:
    """A topic while it is judged: what it costs, what it saves, what it is to have."""

    it: Situation
    topic: int
    level: int
    size: int  # at full
    used: bool
    dwells: bool
    pause_until: float
    working: int = 0  # room in the cache, and what it saves: seconds of waiting in a second
    hits: float = 0.0
    rest: float = 0.0  # what full saves beside
    follows: bool = False  # has its MINIMAL bytes
    stays: bool = False  # at full, and not judged
    open: bool = False  # may be full
    target: int = NONE

    @property
    def density(self) -> float:
        return self.rest / max(self.size - self.working, 1)


@dataclass(frozen=True, slots=True)
class _Pause:
    length_s: float
    until: float


class Planner:
    """Remembers when it last moved a topic, and what outgrew its room."""

    def __init__(self, minimal_bytes: int, latency: LatencyEstimate | None = None) -> None:
        """``costs``: of pulls, which others measure."""
        self._minimal_bytes = minimal_bytes
        self._latency = latency or LatencyEstimate()
        self._moved_at = -inf
        self._offered: frozenset[int] = frozenset()
        self._roomy = False
        self._pauses: dict[int, _Pause] = {}

    def outgrew(self, topic: int, *, now: float) -> None:
        """Keep ``topic`` from full for a while: it did not fit any more."""
        last = self._pauses.get(topic)
        length_s = PAUSE_S
        if last is not None and now < last.until + 2 * last.length_s:
            length_s = min(2 * last.length_s, PAUSE_S_MAX)
        self._pauses[topic] = _Pause(length_s, now + length_s)

    def plan(
        self,
        topics: Sequence[Situation],
        *,
        budget_bytes: int,
        offered: Collection[int],
        now: float,
    ) -> Plan:
        """Return how to come from what is to what should be.

        Args:
            topics: Every table topic, once.
            budget_bytes: For table topics: what the namespace takes is off.
            offered: Levels, NONE among them.
            now: Of the clock of ``since`` and ``read_at``.

        Cost: O(n log n); 256 topics in under 2 ms.
        """
        levels = frozenset(offered)
        paced = now < self._moved_at + PACE_S and levels == self._offered
        self._offered = levels
        cases = [self._case(it, now) for it in topics]
        self._judge_room(cases, budget_bytes)
        self._let_follow(cases, budget_bytes)
        if FULL in levels:
            self._open(cases, paced=paced, now=now)
        chosen = self._choose(cases, budget_bytes)
        for case in cases:
            case.target = FULL if case.topic in chosen else self._below(case, paced=paced)
        changing = self._order(cases)
        if not paced and any(FULL in (case.level, case.target) for case in changing):
            self._moved_at = now
        reasons = {case.topic: self._why(case, chosen, now) for case in cases}
        steps = (Step(topic=c.topic, level=c.target, why=reasons[c.topic]) for c in changing)
        return Plan(steps=tuple(steps), reasons=reasons)

    def _judge_room(self, cases: Sequence[_Case], budget_bytes: int) -> None:
        all_bytes = sum(c.size for c in cases) + self._minimal_bytes * len(cases)
        share = CROWDED_SHARE if self._roomy else ROOMY_SHARE
        watches = all(c.it.kept and c.it.use.read_at == -inf for c in cases)  # and reads nothing
        self._roomy = all_bytes <= share * budget_bytes and not watches

    def _case(self, it: Situation, now: float) -> _Case:
        use, pause = it.use, self._pauses.get(it.topic)
        size = max(it.full_bytes, it.held_bytes) if it.level == FULL else it.full_bytes
        case = _Case(
            it,
            it.topic,
            it.level,
            size,
            used=bool(it.kept) or now < use.read_at + IDLE_S,
            dwells=now < it.since + DWELL_S,
            pause_until=-inf if pause is None else pause.until,
        )
        waiting_s = self._latency.waiting_s
        case.rest = waiting_s(use.reads, use.read_bytes)
        if MINIMAL in self._offered and use.working_bytes:
            case.working = min(int(use.working_bytes * WORKING_ROOM), size)
            case.hits = max(case.rest - waiting_s(use.misses, use.missed_bytes), 0.0)
            case.rest -= case.hits
        if it.level == FULL:
            case.rest *= 1 + KEPT_BONUS
        else:
            case.rest -= waiting_s(0, size) / PAYS_BACK_S
        return case

    def _let_follow(self, cases: Iterable[_Case], budget_bytes: int) -> None:
        """Give each topic in use its MINIMAL bytes; should they not do, those in use most."""
        follow = [c for c in cases if c.used or c.level == FULL or (c.level and c.dwells)]
        follow_max = budget_bytes // self._minimal_bytes
        if len(follow) > follow_max:
            follow.sort(key=_of_use)
        for case in follow[:follow_max]:
            case.follows = True

    def _open(self, cases: Iterable[_Case], *, paced: bool, now: float) -> None:
        """Tell which topics may be full, and which of these stay so without being judged."""
        for case in cases:
            allowed = (self._roomy or case.follows) and now >= case.pause_until
            if case.level == FULL:
                case.stays = allowed and (paced or self._roomy or case.dwells)
                case.open = allowed and case.used
            elif self._roomy:
                case.open = allowed and not paced
            elif allowed and case.used and not paced:
                case.open = self._is_ripe(case)

    def _is_ripe(self, case: _Case) -> bool:
        """Tell whether a topic in use may be raised to full, should there be room for few."""
        if MINIMAL in self._offered:  # it is followed first, so that its use shows
            return case.level == MINIMAL and not case.dwells and case.rest > 0
        return case.level == MINIMAL or (not case.dwells and (bool(case.it.kept) or case.rest > 0))

    def _choose(self, cases: Sequence[_Case], budget_bytes: int) -> frozenset[int]:
        """Return the topics that are to be full."""
        left = budget_bytes - self._minimal_bytes * sum(c.follows or self._roomy for c in cases)
        reserve = budget_bytes - int(FULL_SHARE * budget_bytes)
        stay = sorted(
            (c for c in cases if c.stays), key=lambda c: (not c.dwells, -c.density, c.topic)
        )
        judged = [c for c in cases if c.open and not c.stays]
        if self._roomy:
            return frozenset(c.topic for c in (*stay, *judged))
        first = _fitting(stay, left)
        left -= sum(c.size for c in first)
        if MINIMAL not in self._offered:  # otherwise what is kept is followed in any case
            pinned = sorted((c for c in judged if c.it.kept), key=lambda c: (c.size, c.topic))
            pinned = _fitting(pinned, left - reserve)
            left -= sum(c.size for c in pinned)
            first += pinned
        chosen = frozenset(c.topic for c in first)
        others = [c for c in cases if c.topic not in chosen]
        judged = [c for c in judged if c.topic not in chosen and c.rest > 0]
        return chosen | _judge(others, judged, room=left, reserve=reserve)

    def _below(self, case: _Case, *, paced: bool) -> int:
        """Return the level of a topic that is not to be full, or not yet."""
        if not case.follows:
            return NONE
        if case.level == MINIMAL and paced and MINIMAL not in self._offered:
            return MINIMAL  # what is to be full waits for its turn
        wanted = case.used or (case.level == MINIMAL and case.dwells)
        return MINIMAL if wanted and MINIMAL in self._offered else NONE

    def _order(self, cases: Iterable[_Case]) -> list[_Case]:
        """Return what changes, in order; what has to wait for full gets another target.

        All that is chosen fits beside what is followed: so what is lowered makes way for it.
        """
        raises = [c for c in cases if c.target == FULL != c.level]
        raises.sort(key=lambda c: (not c.used, -c.density if c.used else 0.0, c.size, c.topic))
        for case in raises[RAISES_MAX:]:
            case.target = max(case.level, self._below(case, paced=False))
        lowered = [c for c in cases if c.target < c.level]
        lowered.sort(key=lambda c: (c.target, -c.size, c.topic))
        followed = [c for c in cases if c.target == MINIMAL and c.level == NONE]
        return [*lowered, *followed, *raises[:RAISES_MAX]]

    def _why(self, case: _Case, chosen: frozenset[int], now: float) -> str:
        if case.target == FULL:
            return self._why_full(case)
        if not case.used:
            return self._why_unused(case, chosen, now)
        text = case.it.kept or "in use"
        if not case.follows:
            return f"{text}, but the budget has no bytes left"
        if FULL not in self._offered:
            return f"{text}; full is not offered"
        return f"{text}; {self._why_not(case, chosen, now)}"

    def _why_unused(self, case: _Case, chosen: frozenset[int], now: float) -> str:
        if case.topic in chosen:
            return "all topics fit comfortably into the budget; full comes next"
        read_at = case.it.use.read_at
        text = f"not read for {(now - read_at) / 60:.0f} minutes"
        if read_at == -inf:
            text = "never read here"
        if case.target == MINIMAL:
            return f"{text}; minimal is left after {DWELL_S:.0f} s at one level"
        return text

    def _why_full(self, case: _Case) -> str:
        if self._roomy:
            return "all topics fit comfortably into the budget"
        if case.stays and case.dwells:
            return f"full is judged again after {DWELL_S:.0f} s at one level"
        use, followed = case.it.use, MINIMAL in self._offered
        size = _size(max(case.size - use.working_bytes * followed, 0))
        if not followed:
            return f"saves {use.reads * 3600:.0f} pulls an hour with {size}"
        return f"saves {use.misses * 3600:.0f} pulls an hour with {size} beside what is in use"

    def _why_not(self, case: _Case, chosen: frozenset[int], now: float) -> str:
        if now < case.pause_until:
            return f"it outgrew its room, full is not tried for {case.pause_until - now:.0f} s"
        if case.topic in chosen:
            return "full comes next"
        if case.stays:
            return f"at full its {_size(case.size)} do not fit the budget any more"
        if case.dwells:
            return f"full is judged after {DWELL_S:.0f} s at one level"
        if case.rest <= 0:
            return f"full would not save what it costs to bring {_size(case.size)}"
        return f"full takes {_size(case.size)}, which is better used for others"


def _size(size: int) -> str:
    return f"{size / (1 << 20):.1f} MB" if size >= 1 << 20 else f"{size / 1024:.1f} KB"


def _of_use(case: _Case) -> tuple[bool, bool, bool, float, int]:
    """Return what sorts topics that are in use most to the front."""
    it = case.it
    return not it.pins, not case.used, not it.kept, -it.use.reads, case.topic


def _fitting(cases: Iterable[_Case], room: int) -> list[_Case]:
    """Return those that fit, as they come."""
    found = []
    for case in cases:
        if case.size <= room:
            room -= case.size
            found.append(case)
    return found


def _judge(
    cases: Sequence[_Case], judged: Sequence[_Case], *, room: int, reserve: int
) -> frozenset[int]:
    """Return which of the ``judged`` are to be full: those that are, if not clearly worse."""
    if not judged:
        return frozenset()
    market = Market(_bids(cases, judged))
    held = frozenset(c.topic for c in judged if c.level == FULL)
    kept = market.worth(held, room=room)  # it may have grown into the reserve
    best, full = market.choose(room=room - reserve)
    missed = sum(c.hits + max(c.rest, 0.0) for c in cases) - kept
    gain = min(GAIN_OF_WORTH * best, GAIN_OF_MISSED * missed)
    return full if best > kept + gain else held


def _bids(cases: Iterable[_Case], judged: Iterable[_Case]) -> list[Bid]:
    """Return what all topics offer to the cache, and those ``judged`` to full."""
    full = {case.topic for case in judged}
    return [
        Bid(c.topic, c.size, c.working, c.hits, c.rest if c.topic in full else 0.0)
        for c in cases
        if c.hits or c.topic in full
    ]
