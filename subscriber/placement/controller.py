"""PlacementController: sets the level of each topic, by its usage or as the application says.

    reads, changes ──▶ usage ──every PLAN_S──▶ situations ──next turn──▶ planner ──steps──▶ levels
    first read of a topic at none ──────────────────at once──▶ minimal
    join, drop by hand ─────────────────────────────at once──▶ that level, for good

*By hand* means by a call of the application. Such a join or drop may name several topics: either
all of them change or none does, so that they are one Join behind one barrier on the wire. While the
application watches all changes, no topic is below minimal. The rules of a plan are in planner.py.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Final

from ...topics.errors import StaleMetadata, TopicastError
from ...topics.objects.names import table_key
from ...topics.topic import (
    FULL,
    LEVELS,
    MINIMAL,
    MINIMAL_BYTES,
    NAMESPACE,
    NONE,
    accounted_bytes,
    table_topic,
    topic_ids,
)
from ...topics.turn import Turn
from ..protocol.commands import DONE, Done, Key, Started, Wait, Wake
from ..protocol.effects import Effect
from ..replication.replicas import TopicReplicas
from ..replication.subscriptions import Subscriptions
from .planner import FULL_SHARE, Planner, Situation
from .priorities import Priorities
from .uses import Uses

PLAN_S: Final = 5.0  # between two plans
DRAIN_S: Final = 1.0  # between two counts of the reads that were noted
DRAIN_MAX: Final = 256  # reads counted in a turn: 1 ms if each is of another table
READS_MAX: Final = 8192  # noted between two counts; of more only the newest count
UNKNOWN_BYTES: Final = 1024  # that a read counts of a table which was never held

BY_HAND: Final = "set by hand"
NAMES: Final = "names are always held"
UNPLANNED: Final = "levels were not chosen yet"
OUTGREW: Final = "it outgrew its room"
ALL_THAT_FITS: Final = "all that fits is held at full, as levels=full says"
FIRST_READ: Final = "read for the first time"
PINNED: Final = "a table of it is pinned"
WATCHED: Final = "all changes are watched"

_PLAN: Final = "plan"  # the key of commands that wait for the first plan of a watch


class PlacementController:
    """Sets the level of each topic, and knows the reason of each."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        priorities: Priorities,
        *,
        turn: Turn[Effect],
        planner: Planner,
        uses: Uses,
        automatic: bool,
        wake: Wake,
    ) -> None:
        """Change no level yet.

        Args:
            subscriptions: Joins and drops topics.
            priorities: Takes the reads that are counted.
            turn: The core's turn.
            planner: Decides the levels that follow usage.
            uses: Takes the tables that were read, for catalogd.
            automatic: Levels follow usage; False: they change by hand alone.
            wake: Has the core poll the commands that wait for a key.
        """
        # (db, table, whether its partitions were read, too); any thread appends
        self.reads: deque[tuple[str, str, bool]] = deque(maxlen=READS_MAX)
        self._turn = turn
        self.usage = priorities.usage
        self.planner = planner
        self._uses = uses
        self._automatic = automatic
        self._watched = False  # whether the application watches all changes
        self._unplanned = False  # whether no plan was made since it has begun to
        self._wake = wake
        self._subscriptions = subscriptions
        self._replicas = replicas = subscriptions.replicas
        self._resident_set = replicas.resident_set
        self._view = replicas.view
        self._budget = replicas.budget
        self._priorities = priorities
        self._offers = subscriptions.offers  # as of the last look
        self._situations: list[Situation] = []  # of the survey, for the plan of the next turn
        self._budget_bytes = 0  # that the plan of ``_situations`` may fill
        self._num_topics = self._view.num_topics  # by which the topics below are numbered
        self._by_hand: set[int] = set()  # topics whose level the application has set
        self._urgent: frozenset[int] = frozenset()  # topics that come first, if not all fit
        self._reasons: dict[int, str] = {}  # by topic: why it has its level
        self._since: dict[int, float] = {}  # by topic: when this object last set its level
        self._drain_at = self._plan_at = 0.0  # when the next count, and the next plan, are due

    @property
    def deadline(self) -> float | None:
        """The time at which ``tick`` has work to do."""
        if self._situations:
            return -inf
        return self._drain_at if self._automatic else None

    def reason(self, topic: int) -> str:
        """Return why ``topic`` has its level, as text for people."""
        if topic == NAMESPACE:
            return NAMES
        outgrown = topic in self._subscriptions.outgrown
        if self._automatic and outgrown and topic not in self._by_hand:
            return OUTGREW
        if self._automatic or topic in self._reasons:
            return self._reasons.get(topic, UNPLANNED)
        failure = self._subscriptions.failure(topic)
        return ALL_THAT_FITS if failure is None else str(failure)

    def levels_by_hand(self) -> Mapping[int, int]:
        """Return the levels that the application has set, by topic."""
        return {topic: self._replicas.target_level(topic) for topic in sorted(self._by_hand)}

    def bytes_for_all(self) -> int:
        """Return the budget that following every topic takes, at the cheapest level offered."""
        subscriptions = self._subscriptions
        topics_bytes = MINIMAL_BYTES * self._view.num_topics
        if not subscriptions.offers & MINIMAL:
            sizes = subscriptions.sizes.items()
            topics_bytes += sum(size for topic, size in sizes if topic != NAMESPACE)
            topics_bytes = int(topics_bytes / FULL_SHARE) + 1
        names_bytes = max(  # the hub's size includes recent tombstones, which a start has to hold
            self._budget.committed((NAMESPACE, FULL)), subscriptions.sizes.get(NAMESPACE, 0)
        )
        return names_bytes + topics_bytes

    def is_dropped_by_hand(self, topic: int) -> bool:
        """Return whether the application has dropped ``topic``, and has not joined it again."""
        return topic in self._by_hand and self._replicas.level(topic) == NONE

    def settle(self) -> None:
        """Let plans decide again about topics whose join by hand has failed.

        Once topics are numbered anew, plans decide about all of them.
        """
        if self._view.num_topics != self._num_topics:
            self._renumber()
        for topic in [*self._by_hand]:
            failed = self._subscriptions.failure(topic) is not None
            if failed and self._replicas.target_level(topic) == NONE:
                self._by_hand.discard(topic)
                self._reasons.pop(topic, None)

    def join(self, topics: tuple[int, ...], level: int) -> Started[None]:
        """Follow ``topics`` by hand at ``level``; at level none, follow them no longer.

        Raises:
            UsageError: there is no such topic, or the level is not for it.
        """
        if level == NONE:
            self._drop(topics)
            return DONE
        self._subscriptions.join(topics, level)
        wait = _JoinWait(self._subscriptions, self._replicas, topics=topics, level=level)
        if wait.failure() is None:
            self._set_by_hand(topics)
        return wait

    def on_first_read(self, db: str, table: str) -> None:
        """Follow at minimal the topic of a table that is about to be pulled.

        The table can be kept then: stubs say when it changes.
        """
        if not self._automatic:
            return
        if self._priorities.has_bans and self._priorities.banned(table_key(db, table)):
            return
        self._follow(table_topic(db, table, self._view.num_topics), FIRST_READ)

    def follow_pinned(self, topic: int) -> None:
        """Follow the topic of a pinned table at minimal, if it is not followed."""
        self._follow(topic, PINNED)

    def watch_all(self, *, on: bool) -> None:
        """Follow every topic at minimal at least, while the application watches changes."""
        began, self._watched = on and not self._watched, on
        if not began or not self._automatic:
            return
        self._unplanned = True
        self._plan_now()
        if not self._subscriptions.offers & MINIMAL:
            return  # the plan follows topics at full, as many as fit
        for topic in topic_ids(self._view.num_topics):
            if topic != NAMESPACE and self._replicas.target_level(topic) == NONE:
                self._subscriptions.join_minimal(topic)

    def followed(self) -> Started[None]:
        """Return the wait until changes of each topic arrive that can be followed."""
        return _FollowedWait(self._subscriptions, lambda: self._unplanned)

    def prefer(self, topics: frozenset[int]) -> None:
        """Follow ``topics`` before others that are only watched, if not all fit; plan at once.

        They replace the topics of the last call.
        """
        if topics == self._urgent:
            return
        self._urgent = topics
        self._plan_now()

    def tick(self) -> None:
        """Count the reads that were noted, and plan, if either is due."""
        now = self._turn.now
        if self._situations:
            self._plan()
            return
        if not self._automatic:
            self._uses.note((db, table) for db, table, _ in self._take_reads())
            self._subscriptions.take_outgrown()
            return
        if now < self._drain_at:
            return
        self._count_reads()
        if self.reads:
            return  # the next turn goes on
        self._drain_at = now + DRAIN_S
        offers = self._subscriptions.offers
        toggled, self._offers = self._offers != offers, offers
        if (now < self._plan_at and not toggled) or not self._subscriptions.ready():
            return
        self._plan_at = now + PLAN_S
        for topic in self._subscriptions.take_outgrown():
            self.planner.outgrew(topic, now=now)
            self._since[topic] = now
        self._survey()

    def _drop(self, topics: tuple[int, ...]) -> None:
        """Stop following ``topics`` by hand; some may not be followed."""
        for topic in topics:
            error = self._subscriptions.misnamed(topic, NONE)
            if error is not None:
                raise error
        self._set_by_hand(topics)
        for topic in topics:
            self._subscriptions.drop(topic)

    def _set_by_hand(self, topics: Sequence[int]) -> None:
        """Exclude ``topics`` from plans from now on."""
        self._by_hand.update(topics)
        self._reasons.update(dict.fromkeys(topics, BY_HAND))
        if topics and self._situations:  # the survey had these topics, and their bytes
            self._plan_now()

    def _renumber(self) -> None:
        """Forget what is known of topics by their numbers, which stand for other topics now."""
        before, self._num_topics = self._num_topics, self._view.num_topics
        if not before:
            return
        for of_topics in (self._by_hand, self._reasons, self._since):
            of_topics.clear()
        self._urgent = frozenset()
        self._unplanned = self._watched and self._automatic
        self._plan_now()

    def _plan_now(self) -> None:
        """Have the next turn survey all topics, and the turn after it plan."""
        self._situations.clear()
        self._drain_at = self._plan_at = 0.0

    def _follow(self, topic: int, reason: str) -> None:
        """Follow ``topic`` at minimal, if it is at none, not set by hand, and there is room."""
        if topic in self._by_hand or not self._subscriptions.offers & MINIMAL:
            return
        if self._replicas.level(topic) != NONE or self._budget.free_bytes < MINIMAL_BYTES:
            return
        self._since[topic] = self._turn.now
        self._reasons[topic] = reason
        self._subscriptions.join_minimal(topic)

    def _count_reads(self) -> None:
        """Count some of the reads that were noted as usage, but for banned tables."""
        count = self._take_reads()
        self._uses.note((db, table) for db, table, _ in count)
        for (db, table, whole), times in count.items():
            topic = table_topic(db, table, self._view.num_topics)
            group = table_key(db, table)
            if self._priorities.banned(group):
                continue
            size = self._needed_bytes(topic, group, whole=whole)
            self._priorities.on_read(topic, group, size=size, times=times)

    def _take_reads(self) -> Counter[tuple[str, str, bool]]:
        """Remove some of the reads that were noted, and count them."""
        count: Counter[tuple[str, str, bool]] = Counter()
        for _ in range(min(len(self.reads), DRAIN_MAX)):
            count[self.reads.popleft()] += 1
        return count

    def _needed_bytes(self, topic: int, group: bytes, *, whole: bool) -> int:
        """Return the bytes that a read of a table needs, as far as the view knows the table."""
        content = self._view.content(topic, group)
        if content is None:
            return UNKNOWN_BYTES
        head = content.entry(group)
        return content.held_bytes if whole or head is None else accounted_bytes(head)

    def _survey(self) -> None:
        """Note for the next plan the situation of each topic not set by hand, and their budget.

        Pinned tables come before the plan: those that are held, then those that are to be pulled,
        as far as they fit.
        """
        budget, pins = self._budget, self._priorities.pins
        held: Counter[int] = Counter()  # bytes of held pins, by topic
        for (topic, _), size in self._resident_set.pinned_sizes.items():
            held[topic] += size
        left_bytes = budget.limit_bytes - budget.committed((NAMESPACE, FULL))
        left_bytes -= sum(map(self._replicas.committed_bytes, self._by_hand))
        planned = held.keys() - self._by_hand
        planned_bytes = sum(held[topic] + MINIMAL_BYTES for topic in planned)
        pinnable_bytes = self._resident_set.pinnable_bytes - held.total()
        room = min(pinnable_bytes, left_bytes - planned_bytes)
        missing = pins.missing_bytes(self._resident_set.pinned_sizes, room=room)
        for topic in self._by_hand:
            committed = self._replicas.committed_bytes(topic)
            left_bytes -= max(held[topic] + missing.pop(topic, 0) - committed, 0)
        left_bytes -= sum(held[topic] for topic in planned) + missing.total()
        self._budget_bytes = max(left_bytes, 0)
        pinned = {pin.topic: held[pin.topic] + missing[pin.topic] for pin in pins.known.values()}
        self._situations = [
            self._situation(topic, pinned.get(topic), holds_pins=bool(held[topic]))
            for topic in topic_ids(self._view.num_topics)
            if topic != NAMESPACE and topic not in self._by_hand
        ]

    def _situation(self, topic: int, pinned_bytes: int | None, *, holds_pins: bool) -> Situation:
        """Return the situation of a topic.

        ``pinned_bytes``: of its pinned tables, which the budget of the plan no longer has at any
        level; None: it has none.
        """
        level = self._replicas.target_level(topic)
        committed = self._budget.committed((topic, level))
        required = WATCHED if self._watched else ""
        if pinned_bytes is not None:
            required = PINNED
        return Situation(
            topic=topic,
            level=level,
            since=self._since.get(topic, -inf),
            full_bytes=max(self._subscriptions.sizes.get(topic, 0) - (pinned_bytes or 0), 0),
            held_bytes=max(committed - (pinned_bytes or 0), 0),
            usage=self.usage.of(topic, now=self._turn.now),
            required=required,
            holds_pins=holds_pins,
            urgent=topic in self._urgent,
        )

    def _plan(self) -> None:
        """Have the planner decide on the situations of the last survey, and set the levels."""
        situations, self._situations = self._situations, []
        subscriptions, now = self._subscriptions, self._turn.now
        if not subscriptions.ready() or situations[-1].topic >= self._view.num_topics:
            return  # the number of topics has changed since the survey
        offers = subscriptions.offers
        plan = self.planner.plan(
            situations,
            budget_bytes=self._budget_bytes,
            offered=[level for level in (NONE, MINIMAL, FULL) if level & offers == level],
            now=now,
        )
        self._reasons = {**plan.reasons, **dict.fromkeys(self._by_hand, BY_HAND)}
        for step in plan.steps:
            self._since[step.topic] = now
            subscriptions.set_level(step.topic, step.level)
        if self._unplanned:
            self._unplanned = False
            self._wake(_PLAN)


class _JoinWait(Wait[None]):
    """The wait until all topics are joined, or one of them cannot be."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        replicas: TopicReplicas,
        *,
        topics: tuple[int, ...],
        level: int,
    ) -> None:
        self._subscriptions = subscriptions
        self._replicas = replicas
        self._topics = topics
        self._level = level
        self._num_topics = replicas.view.num_topics  # as of which they are meant

    def poll(self) -> Done[None] | None:
        num_topics = self._replicas.view.num_topics
        if num_topics != self._num_topics:
            text = f"there are {num_topics} topics by now, and there were {self._num_topics}"
            raise StaleMetadata(f"{text}: other tables are in each of them; join again")
        error = self.failure()
        if error is not None:
            raise error
        level, is_joining = self._level, self._subscriptions.is_joining
        for topic in self._topics:
            if not is_joining(topic, level):
                text = f"topic {topic} was dropped, or joined at another level, meanwhile"
                raise StaleMetadata(f"{text}: if it is still wanted at {LEVELS[level]}, join again")
        return DONE if all(self._replicas.joined(one, level) for one in self._topics) else None

    def keys(self) -> tuple[Key, ...]:
        return self._topics

    def missing(self) -> str:
        return self._subscriptions.missing()

    def failure(self) -> TopicastError | None:
        """Return why one of the topics cannot be joined."""
        failures = map(self._subscriptions.failure, self._topics)
        return next((failure for failure in failures if failure is not None), None)


class _FollowedWait(Wait[None]):
    """The wait until changes of each topic arrive that can be followed: a watch then has them."""

    def __init__(self, subscriptions: Subscriptions, is_unplanned: Callable[[], bool]) -> None:
        """``is_unplanned``: returns whether a plan has yet to decide which topics are followed."""
        self._subscriptions = subscriptions
        self._is_unplanned = is_unplanned

    def poll(self) -> Done[None] | None:
        waits = self._is_unplanned() or self._subscriptions.unreached() is not None
        return None if waits else DONE

    def keys(self) -> tuple[Key, ...]:
        late = self._subscriptions.unreached()
        return (_PLAN,) if late is None else (_PLAN, late)

    def missing(self) -> str:
        return self._subscriptions.missing()
