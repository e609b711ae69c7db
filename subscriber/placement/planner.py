"""Planner: the level of each table topic, and the order of changes that keeps to the budget.

    none ──read, pinned, watched──▶ minimal ──worth its bytes──▶ full
      ▲                              │  ▲                         │
      └──not read for IDLE_S─────────┘  └──worth less, outgrew────┘

Tables are hashed to topics, so a hot table shares its topic with cold tables. The cache of pulled
tables holds the hot table alone; ``full`` saves in addition the pulls after changes and those of
first reads, at the price of the cold tables' bytes. Both share one budget. So a topic is two items
of a knapsack: its working set, which the cache may hold in part, and the rest of the topic, which
is held whole or not at all. The worth of an item is the waiting time that it saves per second. A
working set counts WORKING_ROOM times, because the cache also holds new tables for a while.

Where all topics fit comfortably, all become full, those in use first: bytes that nothing else
needs are free. Even then RAISES_MAX topics are raised per PACE_S, so that a start stays cheap. A
subscriber that only watches changes, and has read nothing yet, stays at minimal.

The plan does not flap: another set of full topics has to be clearly better than the present set; a
topic at full gets KEPT_BONUS, any other pays for its transfer; a level stays for DWELL_S, topics
move to or from full once per PACE_S, and a topic that outgrew its room stays out for a pause that
doubles. Only the budget, a withdrawn offer, a first read and free bytes act without delay.
Invariant: after every step, full topics and MINIMAL bytes for each other used topic fit the budget.
What was pulled beyond that is evicted, as for every reservation.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from ...topics.sizes import size
from ...topics.topic import FULL, MINIMAL, NONE
from ..store.eviction import PROTECTED_SHARE
from ..store.latency import LatencyEstimate
from .knapsack import Item, Knapsack
from .usage import TopicUsage

PAYS_BACK_S: Final = 1800.0  # a raise has to save its transfer within this time

IDLE_S: Final = 3600.0  # a topic not read for so long is not in use
DWELL_S: Final = 300.0
PACE_S: Final = 5.0
RAISES_MAX: Final = 16  # in PACE_S: each is a catch-up; other levels cost next to nothing
GAIN_OF_WORTH: Final = 0.05  # what a change has to gain: of what all levels are worth,
GAIN_OF_MISSED: Final = 0.2  # or of what is waited for now, if that is less
KEPT_BONUS: Final = 0.03  # on what one topic at full saves, against a topic that is not
PAUSE_S: Final = 60.0  # after a topic outgrew its room; doubled each time, while it goes on
PAUSE_S_MAX: Final = 4 * 3600.0

WORKING_ROOM: Final = 1 / PROTECTED_SHARE  # for each byte of it: the rest is for new tables
FULL_SHARE: Final = 0.9  # of the budget may be filled; the rest is for growth
ROOMY_SHARE: Final = 0.6  # all topics fit comfortably below it
CROWDED_SHARE: Final = 0.8  # and no longer above that


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One table topic as it is now.

    ``level``: current or pending, since ``since``; -inf if it was never set.
    ``full_bytes``: accounted at full, by the hub's sizes; ``held_bytes``: committed at ``level``.
    ``required``: why the topic is followed even if it is not read; empty if it is not.
    ``holds_pins``: a pinned table of it is held. ``urgent``: where not all required topics fit, it
    comes before those that are not.
    """

    topic: int
    level: int
    since: float
    full_bytes: int
    held_bytes: int
    usage: TopicUsage
    required: str = ""
    holds_pins: bool = False
    urgent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelChange:
    """Set ``topic`` to ``level``."""

    topic: int
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Steps in their order, and for every topic the reason of its level after them."""

    steps: tuple[LevelChange, ...]
    reasons: dict[int, str]


@dataclass(slots=True)
class _Candidate:
    """A topic during one plan: what it takes, what it saves, which level it gets.

    Savings are round trips of waiting per second.
    """

    now: Situation
    topic: int
    level: int
    full_bytes: int
    in_use: bool
    dwells: bool  # its level was set less than DWELL_S ago
    pause_until: float
    working_bytes: int = 0  # room in the cache for its working set
    cache_saves: float = 0.0  # by its working set in the cache
    full_saves: float = 0.0  # by full, beyond ``cache_saves``
    followed: bool = False  # has its MINIMAL bytes
    stays_full: bool = False  # without being compared with others
    may_be_full: bool = False
    target: int = NONE

    @property
    def density(self) -> float:
        return self.full_saves / max(self.full_bytes - self.working_bytes, 1)


@dataclass(frozen=True, slots=True)
class _Pause:
    length_s: float
    until: float


class Planner:
    """Plans levels; its state is the time of the last move and the pauses of outgrown topics."""

    def __init__(self, minimal_bytes: int, latency: LatencyEstimate | None = None) -> None:
        """``latency``: of pulls; the fetcher updates it."""
        self._minimal_bytes = minimal_bytes
        self.latency = latency or LatencyEstimate()
        self._moved_at = -inf  # when a topic last moved to or from full, paced moves excepted
        self._offered: frozenset[int] = frozenset()  # in the last plan
        self._roomy = False  # all topics fit comfortably, with hysteresis
        self._pauses: dict[int, _Pause] = {}  # of each topic that outgrew its room

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
        """Return the steps from the present levels to the best levels.

        Args:
            topics: Every table topic, once.
            budget_bytes: For table topics: without what the namespace takes.
            offered: The levels that catalogd offers, NONE among them.
            now: Of the clock of ``since`` and ``read_at``.

        Cost: O(n log n); 256 topics in under 2 ms.
        """
        levels = frozenset(offered)
        paced = now < self._moved_at + PACE_S and levels == self._offered
        self._offered = levels
        candidates = [self._candidate(situation, now) for situation in topics]
        self._judge_room(candidates, budget_bytes)
        self._allot_minimal(candidates, budget_bytes)
        if FULL in levels:
            self._allow_full(candidates, paced=paced, now=now)
        chosen = self._choose(candidates, budget_bytes)
        for one in candidates:
            one.target = FULL if one.topic in chosen else self._below_full(one, paced=paced)
        changing = self._order(candidates)
        if not paced and any(FULL in (one.level, one.target) for one in changing):
            self._moved_at = now
        reasons = {one.topic: self._reason(one, chosen, now) for one in candidates}
        steps = (LevelChange(topic=one.topic, level=one.target) for one in changing)
        return Plan(steps=tuple(steps), reasons=reasons)

    def _judge_room(self, candidates: Sequence[_Candidate], budget_bytes: int) -> None:
        all_bytes = sum(one.full_bytes for one in candidates)
        all_bytes += self._minimal_bytes * len(candidates)
        share = CROWDED_SHARE if self._roomy else ROOMY_SHARE
        only_watches = all(one.now.required and one.now.usage.read_at == -inf for one in candidates)
        self._roomy = all_bytes <= share * budget_bytes and not only_watches

    def _candidate(self, situation: Situation, now: float) -> _Candidate:
        usage, pause = situation.usage, self._pauses.get(situation.topic)
        full_bytes = situation.full_bytes
        if situation.level == FULL:
            full_bytes = max(full_bytes, situation.held_bytes)
        one = _Candidate(
            situation,
            situation.topic,
            situation.level,
            full_bytes,
            in_use=bool(situation.required) or now < usage.read_at + IDLE_S,
            dwells=now < situation.since + DWELL_S,
            pause_until=-inf if pause is None else pause.until,
        )
        saved = self.latency.saved
        one.full_saves = saved(usage.reads, usage.read_bytes)
        if MINIMAL in self._offered and usage.working_bytes:
            one.working_bytes = min(int(usage.working_bytes * WORKING_ROOM), full_bytes)
            missed = saved(usage.misses, usage.missed_bytes)
            one.cache_saves = max(one.full_saves - missed, 0.0)
            one.full_saves -= one.cache_saves
        if situation.level == FULL:
            one.full_saves *= 1 + KEPT_BONUS
        else:
            one.full_saves -= saved(0, full_bytes) / PAYS_BACK_S
        return one

    def _allot_minimal(self, candidates: Iterable[_Candidate], budget_bytes: int) -> None:
        """Give each topic in use its MINIMAL bytes; if the budget is too small, the most used."""
        follow = [c for c in candidates if c.in_use or c.level == FULL or (c.level and c.dwells)]
        follow_max = budget_bytes // self._minimal_bytes
        if len(follow) > follow_max:
            follow.sort(key=_most_used_first)
        for one in follow[:follow_max]:
            one.followed = True

    def _allow_full(self, candidates: Iterable[_Candidate], *, paced: bool, now: float) -> None:
        """Mark the topics that may be full, and those that stay full without comparison."""
        for one in candidates:
            allowed = (self._roomy or one.followed) and now >= one.pause_until
            if one.level == FULL:
                one.stays_full = allowed and (paced or self._roomy or one.dwells)
                one.may_be_full = allowed and one.in_use
            elif self._roomy:
                one.may_be_full = allowed and not paced
            elif allowed and one.in_use and not paced:
                one.may_be_full = self._is_ripe(one)

    def _is_ripe(self, one: _Candidate) -> bool:
        """Tell whether a topic in use may be raised to full, should there be room for few."""
        if MINIMAL in self._offered:  # it is followed first, so that its usage shows
            return one.level == MINIMAL and not one.dwells and one.full_saves > 0
        worth_it = bool(one.now.required) or one.full_saves > 0
        return one.level == MINIMAL or (not one.dwells and worth_it)

    def _choose(self, candidates: Sequence[_Candidate], budget_bytes: int) -> frozenset[int]:
        """Return the topics that become or stay full."""
        followed = sum(one.followed or self._roomy for one in candidates)
        left = budget_bytes - self._minimal_bytes * followed
        reserve = budget_bytes - int(FULL_SHARE * budget_bytes)
        staying = sorted(
            (one for one in candidates if one.stays_full),
            key=lambda one: (not one.dwells, -one.density, one.topic),
        )
        judged = [one for one in candidates if one.may_be_full and not one.stays_full]
        if self._roomy:
            return frozenset(one.topic for one in (*staying, *judged))
        required: list[_Candidate] = []
        if MINIMAL not in self._offered:  # otherwise a required topic is followed in any case
            required = [one for one in judged if one.now.required]
            required.sort(key=lambda one: (one.full_bytes, one.topic))
        first: list[_Candidate] = []
        for urgent in (True, False):
            for some, kept in ((staying, 0), (required, reserve)):
                found = _fitting([one for one in some if one.now.urgent is urgent], left - kept)
                left -= sum(one.full_bytes for one in found)
                first += found
        chosen = frozenset(one.topic for one in first)
        others = [one for one in candidates if one.topic not in chosen]
        judged = [one for one in judged if one.topic not in chosen and one.full_saves > 0]
        return chosen | _judge(others, judged, room=left, reserve=reserve)

    def _below_full(self, one: _Candidate, *, paced: bool) -> int:
        """Return the level of a topic that does not become full, or not yet."""
        if not one.followed:
            return NONE
        if one.level == MINIMAL and paced and MINIMAL not in self._offered:
            return MINIMAL  # it waits for its turn to become full
        wanted = one.in_use or (one.level == MINIMAL and one.dwells)
        return MINIMAL if wanted and MINIMAL in self._offered else NONE

    def _order(self, candidates: Iterable[_Candidate]) -> list[_Candidate]:
        """Return the candidates that change, in order; raises beyond RAISES_MAX are deferred.

        The chosen topics and those followed fit together, so the lowered topics make enough room.
        """
        raises = [one for one in candidates if one.target == FULL != one.level]
        raises.sort(
            key=lambda one: (
                not one.in_use,
                -one.density if one.in_use else 0.0,
                one.full_bytes,
                one.topic,
            )
        )
        for one in raises[RAISES_MAX:]:
            one.target = max(one.level, self._below_full(one, paced=False))
        lowered = [one for one in candidates if one.target < one.level]
        lowered.sort(key=lambda one: (one.target, -one.full_bytes, one.topic))
        followed = [one for one in candidates if one.target == MINIMAL and one.level == NONE]
        return [*lowered, *followed, *raises[:RAISES_MAX]]

    def _reason(self, one: _Candidate, chosen: frozenset[int], now: float) -> str:
        if one.target == FULL:
            return self._reason_full(one)
        if not one.in_use:
            return self._reason_unused(one, chosen, now)
        text = one.now.required or "in use"
        if not one.followed:
            return f"{text}, but the budget has no bytes left"
        if FULL not in self._offered:
            return f"{text}; full is not offered"
        return f"{text}; {self._reason_not_full(one, chosen, now)}"

    def _reason_unused(self, one: _Candidate, chosen: frozenset[int], now: float) -> str:
        if one.topic in chosen:
            return "all topics fit comfortably into the budget; full comes next"
        read_at = one.now.usage.read_at
        text = f"not read for {(now - read_at) / 60:.0f} minutes"
        if read_at == -inf:
            text = "never read here"
        if one.target == MINIMAL:
            return f"{text}; minimal is left after {DWELL_S:.0f} s at one level"
        return text

    def _reason_full(self, one: _Candidate) -> str:
        if self._roomy:
            return "all topics fit comfortably into the budget"
        if one.stays_full and one.dwells:
            return f"full is judged again after {DWELL_S:.0f} s at one level"
        usage, followed = one.now.usage, MINIMAL in self._offered
        more = size(max(one.full_bytes - usage.working_bytes * followed, 0))
        if not followed:
            return f"saves {usage.reads * 3600:.0f} pulls an hour with {more}"
        return f"saves {usage.misses * 3600:.0f} pulls an hour with {more} besides what is in use"

    def _reason_not_full(self, one: _Candidate, chosen: frozenset[int], now: float) -> str:
        full = size(one.full_bytes)
        if now < one.pause_until:
            return f"it outgrew its room, full is not tried for {one.pause_until - now:.0f} s"
        if one.topic in chosen:
            return "full comes next"
        if one.stays_full:
            return f"at full its {full} do not fit the budget any more"
        if one.dwells:
            return f"full is judged after {DWELL_S:.0f} s at one level"
        if one.full_saves <= 0:
            return f"full would not save what it costs to bring {full}"
        return f"full takes {full}, which is better used for others"


def _most_used_first(one: _Candidate) -> tuple[bool, bool, bool, bool, float, int]:
    now = one.now
    first = not now.holds_pins, not now.urgent, not one.in_use, not now.required
    return *first, -now.usage.reads, one.topic


def _fitting(candidates: Iterable[_Candidate], room: int) -> list[_Candidate]:
    """Return those that fit, in the order given."""
    found = []
    for one in candidates:
        if one.full_bytes <= room:
            room -= one.full_bytes
            found.append(one)
    return found


def _judge(
    candidates: Sequence[_Candidate], judged: Sequence[_Candidate], *, room: int, reserve: int
) -> frozenset[int]:
    """Return the topics of ``judged`` that become full: the present topics unless clearly worse."""
    if not judged:
        return frozenset()
    may_be_full = {one.topic for one in judged}
    knapsack = Knapsack(
        Item(
            one.topic,
            one.full_bytes,
            one.working_bytes,
            one.cache_saves,
            one.full_saves if one.topic in may_be_full else 0.0,
        )
        for one in candidates
        if one.cache_saves or one.topic in may_be_full
    )
    present = frozenset(one.topic for one in judged if one.level == FULL)
    worth = knapsack.worth(present, room=room)  # it may have grown into the reserve
    best, full = knapsack.choose(room=room - reserve)
    missed = sum(one.cache_saves + max(one.full_saves, 0.0) for one in candidates) - worth
    gain = min(GAIN_OF_WORTH * best, GAIN_OF_MISSED * missed)
    return full if best > worth + gain else present
