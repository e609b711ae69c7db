"""Planner: the level of each table topic, and the order of changes that keeps to the budget.

    none ──read, pinned, watched──▶ minimal ──worth its bytes──▶ full
      ▲                              │  ▲                         │
      └──not read for IDLE_S─────────┘  └──worth less, outgrew────┘

Invariant: after every step, the full topics and MINIMAL bytes for each other topic in use fit the
budget. The resident set evicts pulled tables beyond that, as for every reservation.

**What a topic is worth.** Tables are hashed to topics, so that a hot table shares its topic with
cold tables. The cache of pulled tables holds the hot table alone. At full the topic also saves the
pulls after changes and those of first reads, but takes the bytes of its cold tables. Both share one
budget. So a topic is two items of a knapsack: its working set, which the cache may hold in part,
and the rest of the topic, which is held whole or not at all. The worth of an item is the waiting
time that it saves per second. A working set counts WORKING_ROOM times, because the cache also holds
new tables for a while.

**If all topics fit comfortably,** all become full, those in use first: their bytes have no other
use. Even then only RAISES_MAX topics are raised per PACE_S, so that a start stays cheap. A
subscriber that only watches changes, and has read nothing yet, stays at minimal.

**What keeps a plan from flapping.** Another set of full topics has to be clearly better than the
present set. A topic at full gets KEPT_BONUS; the worth of any other is lessened by its transfer. A
level stays for DWELL_S, and topics move to or from full once per PACE_S. A topic that outgrew its
room is not raised for a pause, which doubles. Only the budget, a withdrawn offer, a first read and
free bytes act without delay.
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

PAYS_BACK_S: Final = 1800.0  # within which a topic at full has to save the cost of its transfer

IDLE_S: Final = 3600.0  # without a read, until a topic is no longer in use
DWELL_S: Final = 300.0  # that a level stays, at least
PACE_S: Final = 5.0  # between two plans that move topics to or from full
RAISES_MAX: Final = 16  # to full in PACE_S: each is a catch-up; other moves cost next to nothing
# Another set of full topics has to gain, whichever is less:
GAIN_OF_WORTH: Final = 0.05  # of what the best set is worth
GAIN_OF_MISSED: Final = 0.2  # of what the present set does not save
KEPT_BONUS: Final = 0.03  # on what a topic at full saves, against topics that are not
PAUSE_S: Final = 60.0  # after a topic outgrew its room; doubled if it does so again soon
PAUSE_S_MAX: Final = 4 * 3600.0

WORKING_ROOM: Final = 1 / PROTECTED_SHARE  # bytes of the cache for a byte of a working set
FULL_SHARE: Final = 0.9  # of the budget may be filled; the rest is for growth
ROOMY_SHARE: Final = 0.6  # of the budget: below it, all topics fit comfortably
CROWDED_SHARE: Final = 0.8  # of the budget: above it, they no longer do


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One table topic as it is now.

    ``level``: the current level, or the pending one; set at ``since``, -inf: never. ``full_bytes``:
    what the topic takes at full, by the hub's sizes; ``held_bytes``: what it has committed at
    ``level``. ``required``: why the topic is followed even if it is not read; empty: it is not
    then. ``holds_pins``: a pinned table of it is held. ``urgent``: if not all required topics fit,
    it comes before those that are not urgent.
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
    """The changes in their order, and for each topic the reason of its level after them."""

    steps: tuple[LevelChange, ...]
    reasons: dict[int, str]


@dataclass(slots=True)
class _Candidate:
    """A topic during one plan: what it takes, what it saves, which level it gets.

    Savings are in round trips of waiting per second.
    """

    now: Situation
    topic: int
    level: int
    full_bytes: int
    in_use: bool  # it is required, or was read within IDLE_S
    dwells: bool  # its level was set less than DWELL_S ago
    pause_until: float  # it outgrew its room, and may not be full before; -inf: it has not
    working_bytes: int = 0  # that its working set takes in the cache
    cache_saves: float = 0.0  # what its working set saves in the cache
    full_saves: float = 0.0  # what full saves beyond ``cache_saves``
    followed: bool = False  # the budget has its MINIMAL bytes
    stays_full: bool = False  # it is not compared with others
    may_be_full: bool = False
    target: int = NONE  # the level that it gets

    @property
    def density(self) -> float:
        """What full saves for each byte that it takes beyond the cache."""
        return self.full_saves / max(self.full_bytes - self.working_bytes, 1)


@dataclass(frozen=True, slots=True)
class _Pause:
    length_s: float
    until: float


class Planner:
    """Plans levels. It remembers the last move, the last offer, and the topics that outgrew."""

    def __init__(self, minimal_bytes: int, latency: LatencyEstimate | None = None) -> None:
        """``minimal_bytes``: of a topic at minimal. ``latency``: of pulls, as the fetcher sees."""
        self._minimal_bytes = minimal_bytes
        self.latency = latency or LatencyEstimate()
        self._moved_at = -inf  # when topics last moved to or from full, in a plan that may do so
        self._offered: frozenset[int] = frozenset()  # the levels in the last plan
        self._roomy = False  # whether all topics fit comfortably, with hysteresis
        self._pauses: dict[int, _Pause] = {}  # by topic that outgrew its room

    def outgrew(self, topic: int, *, now: float) -> None:
        """Keep ``topic`` from full for a pause: at full it did not fit any more."""
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
            budget_bytes: What table topics may take, without the namespace.
            offered: The levels that catalogd offers, NONE among them.
            now: The time, on the clock of ``since`` and ``read_at``.

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
        """Note whether all topics fit comfortably into the budget."""
        all_bytes = sum(one.full_bytes for one in candidates)
        all_bytes += self._minimal_bytes * len(candidates)
        share = CROWDED_SHARE if self._roomy else ROOMY_SHARE
        only_watches = all(one.now.required and one.now.usage.read_at == -inf for one in candidates)
        self._roomy = all_bytes <= share * budget_bytes and not only_watches

    def _candidate(self, situation: Situation, now: float) -> _Candidate:
        """Return the candidate of a topic, with what it saves."""
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
        """Have each topic in use followed; if the budget is too small, those that are used most."""
        follow = [c for c in candidates if c.in_use or c.level == FULL or (c.level and c.dwells)]
        follow_max = budget_bytes // self._minimal_bytes
        if len(follow) > follow_max:
            follow.sort(key=_most_used_first)
        for one in follow[:follow_max]:
            one.followed = True

    def _allow_full(self, candidates: Iterable[_Candidate], *, paced: bool, now: float) -> None:
        """Mark the topics that may be full, and those that stay full without a comparison."""
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
        """Return whether a topic in use may be compared with others for a place at full."""
        if MINIMAL in self._offered:  # a topic is followed at minimal first, so that usage shows
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
        if MINIMAL not in self._offered:  # else a required topic is followed at minimal
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
            return MINIMAL  # it waits for the next plan that may raise it
        wanted = one.in_use or (one.level == MINIMAL and one.dwells)
        return MINIMAL if wanted and MINIMAL in self._offered else NONE

    def _order(self, candidates: Iterable[_Candidate]) -> list[_Candidate]:
        """Return the candidates that change, in order; a later plan has raises beyond RAISES_MAX.

        Topics are lowered first, which makes room for the others: all of them fit together.
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
    """Return the key by which topics are sorted that are followed while there is room."""
    now = one.now
    first = not now.holds_pins, not now.urgent, not one.in_use, not now.required
    return *first, -now.usage.reads, one.topic


def _fitting(candidates: Iterable[_Candidate], room: int) -> list[_Candidate]:
    """Return the candidates that fit into ``room``, each taken in the order given if it fits."""
    found = []
    for one in candidates:
        if one.full_bytes <= room:
            room -= one.full_bytes
            found.append(one)
    return found


def _judge(
    candidates: Sequence[_Candidate], judged: Sequence[_Candidate], *, room: int, reserve: int
) -> frozenset[int]:
    """Return the topics of ``judged`` at full: the present ones, unless others are clearly better.

    ``candidates``: all topics that share ``room`` by their working sets. ``reserve``: bytes of
    ``room`` that only topics which are at full already may take.
    """
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
    worth = knapsack.worth(present, room=room)  # these may have grown into the reserve
    best, full = knapsack.choose(room=room - reserve)
    missed = sum(one.cache_saves + max(one.full_saves, 0.0) for one in candidates) - worth
    gain = min(GAIN_OF_WORTH * best, GAIN_OF_MISSED * missed)
    return full if best > worth + gain else present
