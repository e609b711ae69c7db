"""Placement controller: sets the level of each topic by its usage, as the planner decides.

    reads, changes ──▶ usage ──every PLAN_S──▶ gathered ──▶ planner ──steps──▶ subscriptions
    first read of a topic at none ──────────────────at once──▶ minimal

What is set by hand stays as it was set. While somebody watches all changes, no topic is below
minimal. Rules of the plan itself: planner.py.
"""

from collections import Counter, deque
from math import inf
from typing import Final

from ...topics.entries import (
    FULL,
    MINIMAL,
    MINIMAL_BYTES,
    NONE,
    accounted_bytes,
)
from ...topics.objects.names import table_key
from ...topics.sharding import NAMESPACE, table_topic, topic_ids
from ..fetch.latency import LatencyEstimate
from ..protocol.facts import Effect
from ..replication.subscriptions import Subscriptions
from .planner import Planner, Situation
from .priorities import Priorities

PLAN_S: Final = 5.0
DRAIN_S: Final = 1.0
DRAIN_MAX: Final = 256  # reads in a turn: 1 ms, should they be of as many tables
READS_MAX: Final = 8192  # noted between two drains; of more only the newest count
UNKNOWN_BYTES: Final = 1024  # what a table that was never held counts

BY_HAND: Final = "set by hand"
NAMES: Final = "names are always held"
UNJUDGED: Final = "levels were not chosen yet"
OUTGREW: Final = "it outgrew its room"
ALL_THAT_FITS: Final = "all that fits is held at full, as levels=full says"
FIRST_USE: Final = "read for the first time"
PINNED: Final = "a table of it is pinned"
WATCHED: Final = "all changes are watched"


class PlacementController:
    """TopicReplicas by use. ``reads`` takes (db, table, whole) of each read, from any thread."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        priorities: Priorities,
        *,
        latency: LatencyEstimate,
        automatic: bool,
    ) -> None:
        self.reads: deque[tuple[str, str, bool]] = deque(maxlen=READS_MAX)
        self.automatic = automatic
        self.watched = False
        self.reasons: dict[int, str] = {}
        self._offers = subscriptions.offers
        self._subscriptions = subscriptions
        self.usage = priorities.usage
        self._pins = priorities.pins
        self._planner = Planner(MINIMAL_BYTES, latency)
        self._gathered: list[Situation] = []  # planned with in the next turn: each is a millisecond
        self._budget_bytes = 0  # of what is gathered
        self._by_hand: set[int] = set()
        self._since: dict[int, float] = {}
        self._drain_at = self._plan_at = 0.0

    @property
    def deadline(self) -> float | None:
        """The time at which ``tick`` has work to do."""
        if self._gathered:
            return -inf
        return self._drain_at if self.automatic else None

    def why(self, topic: int) -> str:
        """Say in plain words why ``topic`` has the level that it has."""
        if topic == NAMESPACE:
            return NAMES
        if self.automatic and topic in self._subscriptions.outgrown and topic not in self._by_hand:
            return OUTGREW
        if self.automatic or topic in self.reasons:
            return self.reasons.get(topic, UNJUDGED)
        failure = self._subscriptions.failure(topic)
        return ALL_THAT_FITS if failure is None else str(failure)

    def by_hand(self, topic: int) -> None:
        """Leave ``topic`` alone: somebody has set its level."""
        self._by_hand.add(topic)
        self.reasons[topic] = BY_HAND
        if self._gathered:  # there is less to plan with now: look again
            self._gathered.clear()
            self._drain_at = self._plan_at = 0.0

    def first_use(self, db: str, table: str, *, now: float) -> tuple[Effect, ...]:
        """Follow the topic of a table that is about to be pulled at minimal, so that it is kept."""
        subscriptions = self._subscriptions
        topic = table_topic(db, table, subscriptions.num_topics)
        if not self.automatic or self._pins.rules.banned(table_key(db, table)):
            return ()
        return self._follow(topic, FIRST_USE, now)

    def follow_pinned(self, topic: int, now: float) -> tuple[Effect, ...]:
        """Follow the topic of a pinned table at minimal, if it is not followed."""
        return self._follow(topic, PINNED, now)

    def is_by_hand(self, topic: int) -> bool:
        """Tell whether somebody has set the level of ``topic``."""
        return topic in self._by_hand

    def watch_all(self, *, on: bool, now: float) -> tuple[Effect, ...]:
        """Follow every topic at minimal at least while somebody listens to all changes."""
        self.watched = on
        effects: tuple[Effect, ...] = ()
        if not on or not self.automatic:
            return effects
        for topic in topic_ids(self._subscriptions.num_topics):
            if topic != NAMESPACE and self._subscriptions.replicas.wanted(topic) == NONE:
                effects += self._subscriptions.watch(topic, now=now)
        return effects

    def tick(self, *, now: float) -> tuple[Effect, ...]:
        """Count what was read, and plan when it is time."""
        if self._gathered:
            return self._plan(now)
        if not self.automatic:
            self._subscriptions.outgrown.clear()
            return ()
        if now < self._drain_at:
            return ()
        self._drain(now)
        if self.reads:
            return ()  # the next turn goes on
        self._drain_at = now + DRAIN_S
        toggled, self._offers = (
            self._offers != self._subscriptions.offers,
            self._subscriptions.offers,
        )
        if (now < self._plan_at and not toggled) or not self._subscriptions.ready():
            return ()
        self._plan_at = now + PLAN_S
        for topic in self._subscriptions.outgrown:
            self._planner.outgrew(topic, now=now)
            self._since[topic] = now
        self._subscriptions.outgrown.clear()
        self._gather(now)
        return ()

    def _follow(self, topic: int, why: str, now: float) -> tuple[Effect, ...]:
        replicas = self._subscriptions.replicas
        if topic in self._by_hand or not self._subscriptions.offers & MINIMAL:
            return ()
        if replicas.level(topic) != NONE or replicas.budget.free_bytes < MINIMAL_BYTES:
            return ()
        self._since[topic] = now
        self.reasons[topic] = why
        return self._subscriptions.watch(topic, now=now)

    def _drain(self, now: float) -> None:
        count: Counter[tuple[str, str, bool]] = Counter()
        for _ in range(min(len(self.reads), DRAIN_MAX)):
            count[self.reads.popleft()] += 1
        subscriptions = self._subscriptions
        for (db, table, whole), times in count.items():
            topic, group = table_topic(db, table, subscriptions.num_topics), table_key(db, table)
            if self._pins.rules.banned(group):
                continue
            size = self._needed(topic, group, whole=whole)
            self.usage.read(topic, group, size=size, now=now, times=times)

    def _needed(self, topic: int, group: bytes, *, whole: bool) -> int:
        """Return the bytes that a read of a table needs, as far as they are known here."""
        content = self._subscriptions.replicas.view.content(topic, group)
        if content is None:
            return UNKNOWN_BYTES
        head = content.entry(group)
        return content.held_bytes if whole or head is None else accounted_bytes(head)

    def _gather(self, now: float) -> None:
        """Look at every topic that is not set by hand, and at what there is for them.

        Pins come first: what is held, then what is to come, as far as it fits beside that.
        """
        replicas = self._subscriptions.replicas
        held: Counter[int] = Counter()
        for (topic, _), size in replicas.resident_set.pins.items():
            held[topic] += size
        left_bytes = replicas.budget.limit_bytes - replicas.budget.committed((NAMESPACE, FULL))
        left_bytes -= sum(map(replicas.committed_bytes, self._by_hand))
        own = held.keys() - self._by_hand
        own_bytes = sum(held[topic] + MINIMAL_BYTES for topic in own)
        room = min(replicas.resident_set.pinnable_bytes - held.total(), left_bytes - own_bytes)
        to_come = self._pins.to_come(room, replicas.resident_set.pins)
        for topic in self._by_hand:
            committed = replicas.committed_bytes(topic)
            left_bytes -= max(held[topic] + to_come.pop(topic, 0) - committed, 0)
        left_bytes -= sum(held[topic] for topic in own) + to_come.total()
        self._budget_bytes = max(left_bytes, 0)
        pinned = {
            pin.topic: held[pin.topic] + to_come[pin.topic] for pin in self._pins.known.values()
        }
        topics = topic_ids(self._subscriptions.num_topics)
        self._gathered = [
            self._situation(topic, pinned.get(topic), now, holds_pins=bool(held[topic]))
            for topic in topics
            if topic != NAMESPACE and topic not in self._by_hand
        ]

    def _plan(self, now: float) -> tuple[Effect, ...]:
        situations, self._gathered = self._gathered, []
        subscriptions = self._subscriptions
        offers = subscriptions.offers
        if not subscriptions.ready() or situations[-1].topic >= subscriptions.num_topics:
            return ()  # it is another catalog than a moment ago
        plan = self._planner.plan(
            situations,
            budget_bytes=self._budget_bytes,
            offered=[level for level in (NONE, MINIMAL, FULL) if level & offers == level],
            now=now,
        )
        self.reasons = {**plan.reasons, **dict.fromkeys(self._by_hand, BY_HAND)}
        effects: tuple[Effect, ...] = ()
        for step in plan.steps:
            if step.topic not in self._by_hand:
                self._since[step.topic] = now
                effects += subscriptions.set_level(step.topic, step.level, now=now)
        return effects

    def _situation(
        self, topic: int, pinned: int | None, now: float, *, holds_pins: bool
    ) -> Situation:
        """Return how a topic stands; bytes of what is ``pinned`` are taken at any level."""
        replicas = self._subscriptions.replicas
        level = replicas.wanted(topic)
        required = PINNED if pinned is not None else ""
        return Situation(
            topic=topic,
            level=level,
            since=self._since.get(topic, -inf),
            full_bytes=max(self._subscriptions.sizes.get(topic, 0) - (pinned or 0), 0),
            held_bytes=max(replicas.budget.committed((topic, level)) - (pinned or 0), 0),
            usage=self.usage.of(topic, now=now),
            required=required or (WATCHED if self.watched else ""),
            holds_pins=holds_pins,
        )
