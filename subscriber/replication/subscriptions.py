"""Subscriptions: the followed topics; joins, raises and drops them by messages to and from a hub.

    DUE ──``_join_at``: Join of everything──▶ SENT ──Joined──▶ ANSWERED
     ▲                                          └──────┬──────────┘
     └── welcomed, or another number of topics ────────┘

welcomed ──first heartbeat of an accepted start──▶ joins everything, follows what fits the budget
welcomed again ──▶ joins what is followed, from its positions, so that no catch-up is needed
  the data connection has stayed, and no topic is behind ──▶ joins at a random time in REJOIN_S: the
  subscriptions are there, and a hub that restarts has all its readers back at once
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from math import inf
from operator import attrgetter
from typing import Final

from ...topics.errors import OverBudget, TopicastError, UsageError, WireError
from ...topics.liveness import LOST_S
from ...topics.streams.followers import TopicLevel
from ...topics.topic import (
    ALL_OFFERED,
    FULL,
    MINIMAL,
    MINIMAL_BYTES,
    NAMESPACE,
    NONE,
    is_topic,
    topic_ids,
)
from ...topics.turn import Turn
from ...topics.wire.codec import KEEP_ALIVE
from ...topics.wire.messages.connection import Refused, Welcome
from ...topics.wire.messages.data import Barrier, Chunk, Delta, Heartbeat
from ...topics.wire.messages.readers import (
    Join,
    JoinAnswer,
    Joined,
    Position,
    ReaderStatus,
    TopicState,
)
from ...topics.wire.refusal import Refusal
from ..protocol.commands import Wake
from ..protocol.effects import Connection, Effect, Registration, Send
from ..protocol.status import AuditCounts
from .hub_session import HubSession, Welcomed
from .lineage import Lineage
from .replicas import TopicReplicas

ALIVE_S: Final = 0.9  # the next heartbeat after it brings a sign of life: each fourth heartbeat
ALIVE_S_MAX: Final = 1.25  # without a heartbeat; the hub suspects a reader after 2 s
REJOIN_S: Final = 2.0  # readers that need nothing from a restarted hub join it over this time
LAG_US: Final = 1_000_000  # a shorter lag is not reported: heartbeats make it
NO_STATUS: Final = ReaderStatus(positions=(), lag_us=0, held_bytes=0, budget_bytes=0)
NAMED_MAX: Final = 5  # topics in one message


class Joining(Enum):
    """Whether the hub knows what is followed, on this registration."""

    DUE = "DUE"  # the Join of everything is to be sent
    SENT = "SENT"  # it was sent, and is not answered yet
    ANSWERED = "ANSWERED"  # it was answered; from now on each change is joined by itself


NEXT: Final = {
    Joining.DUE: (Joining.DUE, Joining.SENT),
    Joining.SENT: (Joining.ANSWERED, Joining.DUE),
    Joining.ANSWERED: (Joining.DUE,),
}
"""The states that may follow each state."""


class Subscriptions:
    """Joins, raises and drops topics at whichever hub is connected."""

    def __init__(
        self,
        session: HubSession,
        *,
        turn: Turn[Effect],
        replicas: TopicReplicas,
        lineage: Lineage,
        audit_counts: AuditCounts,
        wake: Wake,
        automatic: bool = False,
    ) -> None:
        """``automatic``: begin with the namespace alone; else with all topics that fit, at full."""
        self.replicas = replicas
        self.sizes: dict[int, int] = {}  # bytes of each topic at full, as the hub reports
        self._sizes: tuple[int, ...] = ()  # of the last heartbeat; empty if a Joined came after it
        self.offers = ALL_OFFERED  # the levels that catalogd's mode offers
        self.outgrown: list[int] = []  # topics lowered, or not raised, for want of room
        self.planned: frozenset[int] | None = None  # topics that the start waits for, once chosen
        self.evictions = 0  # topics lowered to make room, since the start
        self.has_work = False  # the hub has answered a join since ``settle``
        self.catalog_address = ""  # empty: not known yet
        self.catalog_alive_at: float | None = None  # seconds: catalogd's last sign of life
        self._turn = turn
        self._wake = wake  # polls the commands that wait for a topic
        self._view = replicas.view
        self._session = session
        self._lineage = lineage
        self._automatic = automatic
        self._audit_counts = audit_counts  # for the hub
        # Topics to be raised to full, each with all topics of its join: all of them rise, or none
        self._raising: dict[int, tuple[int, ...]] = {}
        self._failures: dict[int, TopicastError] = {}  # why a join has failed, by topic
        self._joining = Joining.DUE
        self._join_at = 0.0  # seconds: when DUE is done; inf: the next heartbeat decides
        self._subscribed = False  # to all followed topics, since the hub's last answer to a Join
        self._alive_at = 0.0  # seconds: of our last sign of life
        self._lost_s = LOST_S  # of our silence, after which the hub may remove us
        self._status = NO_STATUS  # the last status that was sent
        self._reported: dict[int, Position] = {}  # by topic: the last position sent to the hub
        self._reported_at: object = None  # the agreement whose positions the hub has all been sent
        self._namespace_over: OverBudget | None = None  # why the namespace never fitted
        self._late: int | None = None  # a planned topic that was not current at the last look
        self.refusal = ""  # why the hub that was tried last does not register us; empty: none said
        self._refused: dict[str, str] = {}  # by address: the code with which the hub refused us
        # Epoch and versions of the hub's last heartbeat of an accepted start
        self._hub_at: tuple[int, tuple[int, ...]] = (0, ())

    @property
    def deadline(self) -> float:
        """The time at which ``tick`` has work to do."""
        session_at = self._session.deadline
        if self._session.greeting:
            return session_at  # nothing else can be done
        replicas_at = self.replicas.deadline
        alive_at = self._alive_at + ALIVE_S_MAX
        return min(session_at, alive_at, session_at if replicas_at is None else replicas_at)

    @property
    def hub_address(self) -> str:
        """The hub that is followed, or tried."""
        return self._session.address

    @property
    def connected(self) -> bool:
        """Whether a hub has registered this subscriber, and is not silent."""
        return not self._session.greeting

    def accepts(self, epoch: int, start: int) -> bool:
        """Return whether messages of a start of catalogd may be used."""
        accepted = self._lineage.accepted
        known = (epoch, start) == accepted  # spares a look at all topics for each delta
        holds = known or self.replicas.holds(accepted[0])
        return self._lineage.accepts((epoch, start), holds=holds, now=self._turn.now)

    def join(self, topics: Sequence[int], level: int) -> None:
        """Set all ``topics`` to minimal or full, or none; ``failure`` returns why that failed."""
        for topic in topics:
            self._failures.pop(topic, None)
        for topic in topics:
            error = self.misnamed(topic, level)
            if error is not None:
                self._fail((topic,), error)
                return
        if level == MINIMAL:
            self._join_minimal(topics)
            return
        new = tuple(
            t for t in topics if self.replicas.target_level(t) != FULL and t not in self._raising
        )
        self._raising.update(dict.fromkeys(new, new))
        if new and self._joining is not Joining.DUE and self.planned is not None:
            self._session.join(map(_nowhere, new))  # else the Join of everything has them

    def misnamed(self, topic: int, level: int) -> UsageError | None:
        """Return why no ``topic`` of this number can be joined at ``level``; None: it can."""
        if topic == NAMESPACE and level != FULL:
            return UsageError("the namespace is always joined in full: close the subscriber")
        if not is_topic(topic, self._view.num_topics):
            return UsageError(f"no topic {topic}: there are 0 to {self._view.num_topics - 1}")
        return None

    def set_level(self, topic: int, level: int) -> None:
        """Bring ``topic`` to ``level``, as far as there is room."""
        if level == NONE:
            self.drop(topic)
        else:
            self.join((topic,), level)

    def join_minimal(self, topic: int) -> None:
        """Follow ``topic`` at minimal, if its few bytes are free.

        Caller: the placement for a first read, a pin or a watch of all changes; ``settle`` for a
        topic that outgrew its room.
        Affects: what was held of the topic at full, which is discarded; watches, which get stubs.
        """
        self._join_minimal((topic,))

    def namespace_failure(self) -> OverBudget | None:
        """Return why the namespace cannot be held."""
        return self.replicas.over or self._namespace_over

    def failure(self, topic: int) -> TopicastError | None:
        """Return why a join by hand has failed."""
        return self._failures.get(topic)

    def is_joining(self, topic: int, level: int) -> bool:
        """Return whether ``topic`` is at ``level``, or is being brought to it."""
        if topic in self._raising:
            return level == FULL
        return self.replicas.target_level(topic) == level

    def take_outgrown(self) -> list[int]:
        """Return the topics that outgrew their room since the last call."""
        topics, self.outgrown = self.outgrown, []
        return topics

    def drop(self, topic: int) -> None:
        """Lower ``topic`` to none.

        Caller: the placement for a plan or an order by hand, ``on_joined`` if a level is denied.
        Affects: readers, which pull its tables; watches, which see no change of them any more.
        """
        if self._raising.pop(topic, None) is not None:
            self._wake(topic)
        self._failures.pop(topic, None)
        if topic in self.replicas:
            self.replicas.drop(topic)

    def on_welcome(self, welcome: Welcome) -> None:
        """Take the hub's registration, the first or another; decide when to join everything."""
        self.refusal = ""
        if self._refused:
            self._refused.clear()
            self._turn.add(Registration(hub=self._session.address, why=""))
        welcomed = self._session.on_welcome(welcome)
        if welcomed is Welcomed.KNOWN:
            return
        now = self._turn.now
        self._discard_reported()
        self._lost_s = welcome.lost_ms / 1000
        self.catalog_address = welcome.catalog_address or self.catalog_address
        self._become(Joining.DUE)
        stays = self.planned is not None and welcomed is Welcomed.STAYED
        self._join_at = inf if stays else now
        self._alive_at = now - ALIVE_S  # the next heartbeat is answered with a ReaderStatus
        self._status = NO_STATUS
        self.replicas.lose_streams()

    def on_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Compare our positions with those of the hub, and request what is missing."""
        accepted, now = self.accepts(heartbeat.epoch, heartbeat.start), self._turn.now
        has_data = accepted and bool(heartbeat.versions)
        self._session.on_heartbeat(heartbeat, has_data=has_data)
        self.catalog_address = heartbeat.catalog_address or self.catalog_address
        if not has_data:
            return
        self.catalog_alive_at = now - heartbeat.age_ms / 1000
        self._hub_at = heartbeat.epoch, heartbeat.versions
        if len(heartbeat.versions) - 1 != self._view.num_topics:
            self._renumber(len(heartbeat.versions) - 1)
        if self._join_at == inf:
            is_behind = self._raising or not self.replicas.agreement.holds(heartbeat)
            self._join_at = now if is_behind else now + REJOIN_S * self._session.jitter
        if self._joining is Joining.DUE and now >= self._join_at:
            self._join_all()
        order = topic_ids(self._view.num_topics)
        if heartbeat.sizes != self._sizes:
            self._sizes = heartbeat.sizes
            self.sizes.update(zip(order, heartbeat.sizes, strict=False))
        self.offers = heartbeat.offers
        self.replicas.on_heartbeat(heartbeat, order)
        if now >= self._alive_at + ALIVE_S and not self._session.greeting:
            self._sign_of_life(self.replicas.agreement.positions)

    def on_joined(self, joined: Joined) -> None:
        """Follow what fits; drop at the hub what is not followed after all."""
        answered = self._session.on_joined(joined.request)
        if answered is None:
            self._discard_reported()  # a repeated Join has replaced what the hub got since then
            return
        self._note_reported(answered.join, joined)
        confirmed = answered.confirmed
        states = {state.topic: state for state in joined.topics}
        for topic in [t for t, s in states.items() if s.level == MINIMAL]:
            self._set_position(states.pop(topic), joined, confirmed=confirmed)
        chosen = self._plan(states) if self.planned is None else []
        together = [(topic,) for topic in chosen] + self._raised_together(states)
        for topics in together:
            self._admit([states[t] for t in topics if self.replicas.target_level(t) != FULL])
        if self.planned is None:
            self.planned = frozenset(self.replicas.topics)
            self._wake(NAMESPACE)
        surplus = [topic for topic in states if topic not in self.replicas]
        if self._joining is Joining.SENT:
            self._become(Joining.ANSWERED)
        self._subscribed, self.has_work = False, True
        if surplus:
            self._session.drop(surplus)

    def on_barrier(self, barrier: Barrier) -> None:
        """Note that subscriptions are active; request positions and catch-ups of their topics."""
        confirmed = self._session.on_barrier(barrier.nonce)
        waiting = self.replicas.without_position()
        new = [_nowhere(topic, MINIMAL) for topic in waiting if (topic, MINIMAL) in confirmed]
        if new:
            self._session.join(new, confirmed=True)
        self.replicas.tick()

    def on_delta(self, delta: Delta) -> None:
        """Apply a delta if its start is accepted."""
        if self.accepts(delta.epoch, delta.start):
            self.replicas.on_delta(delta)

    def on_chunk(self, chunk: Chunk) -> None:
        """Apply a part of a catch-up if its start is accepted."""
        if self.accepts(chunk.epoch, chunk.start):
            self.replicas.on_chunk(chunk)
        else:
            self.replicas.on_foreign_chunk(chunk)

    def on_control_refused(self, refused: Refused) -> None:
        """Greet a hub that does not know us; note why it does not register us; repeat a Join."""
        if refused.code == Refusal.HELLO:
            self._session.on_unknown()
        elif self._session.greeting:
            self._on_not_registered(refused.code, refused.message)
        elif refused.retry_ms:
            self._session.on_join_refused(refused)

    def on_unreadable(self, error: WireError) -> None:
        """Note that the hub's answer cannot be read: it may be of another protocol version."""
        if self._session.greeting:
            self._on_not_registered("", f"it does not speak our protocol: {error}")

    def _on_not_registered(self, code: str, why: str) -> None:
        """Note why the hub does not register us; log it once for each hub and code.

        A refusal comes with each Hello, and its text may differ each time.
        """
        hub = self._session.address
        self.refusal = f"the statestored at {hub} does not register this subscriber: {why}"
        if self._refused.get(hub) != code:
            self._refused[hub] = code
            self._turn.add(Registration(hub=hub, why=why))

    def on_bulk_refused(self, refused: Refused) -> None:
        """Greet a hub that does not know us; request a refused catch-up again later."""
        if refused.code == Refusal.HELLO:
            self._session.on_unknown()
        else:
            self.replicas.on_catch_up_refused(refused)

    def tick(self) -> None:
        """Greet, leave or report to the hub, and request catch-ups, as far as they are due."""
        self._session.tick()
        if self._session.greeting:
            return
        self.replicas.tick()
        if self._turn.now >= self._alive_at + ALIVE_S_MAX:
            self._sign_of_life()

    def settle(self) -> None:
        """Lower topics that outgrew their room, subscribe to all followed, request catch-ups."""
        self.has_work = False
        for topic, needed_bytes in self.replicas.take_evicted():
            self._raising.pop(topic, None)
            self._fail((topic,), self._over((topic,), needed_bytes))
            self.outgrown.append(topic)
            self.evictions += 1
            if topic != NAMESPACE:
                self.join_minimal(topic)  # so that stubs still come
                continue
            for other in self.replicas.topics:
                self.replicas.drop(other)
        answered = self._joining is Joining.ANSWERED
        if answered and (self.replicas.take_set_changed() or not self._subscribed):
            self._subscribed = True
            self._session.subscribe(self.replicas.topic_levels())
        self.replicas.request()

    def ready(self) -> bool:
        """Return whether the namespace and the initial topics are live."""
        replicas = self.replicas
        if self.planned is None or not replicas.is_usable(NAMESPACE):
            return False
        late = self._late  # as a rule it is still late, and the others need no look
        if late in self.planned and late in replicas and not replicas.is_usable(late):
            return False
        of = (one for one in self.planned if one in replicas and not replicas.is_usable(one))
        self._late = next(of, None)
        return self._late is None

    @property
    def awaited(self) -> tuple[int, ...]:
        """The topics for which ``ready`` waits, if it has just returned False."""
        return (NAMESPACE,) if self._late is None else (NAMESPACE, self._late)

    def unreached(self) -> int | None:
        """Return the first topic that is being joined and has not been current since."""
        missing = self._view.unfollowed().topics
        return min((t for t in missing if t in self.replicas or t in self._raising), default=None)

    def below(self, positions: Mapping[int, tuple[int, int]]) -> list[int]:
        """Return the topics in which the hub is below ``positions``, as of its last heartbeat."""
        epoch, versions = self._hub_at
        at = zip(topic_ids(len(versions) - 1), versions, strict=True) if versions else ()
        return [topic for topic, version in at if (epoch, version) < positions.get(topic, (0, 0))]

    def missing(self) -> str:
        """Return as text what ``ready`` still waits for."""
        hub = self._session.address
        if self._session.greeting:
            return self.refusal or (
                f"no statestored has registered this subscriber, tried last: {hub}"
            )
        if self.catalog_alive_at is None:
            return f"statestored at {hub} has nothing from a catalogd that is confirmed yet"
        behind = [t for t in self.replicas.topics if not self.replicas.is_usable(t)]
        some = behind[:NAMED_MAX]
        names = ", ".join("namespace" if topic == NAMESPACE else str(topic) for topic in some)
        return f"{len(behind)} topics are being caught up from {hub}: {names}"

    def check(self) -> None:
        """Assert every invariant."""
        self._session.check()
        self.replicas.check()
        assert self.planned is not None or self._joining is not Joining.ANSWERED
        assert all(self.replicas.target_level(topic) != FULL for topic in self._raising)

    def _set_position(self, state: TopicState, joined: Joined, *, confirmed: bool) -> None:
        if state.topic not in self.replicas:
            return  # it was dropped since
        if state.answer == JoinAnswer.DENIED:
            self.drop(state.topic)
            self._fail((state.topic,), _denied(state.topic, "minimal"))
        elif confirmed and self.accepts(joined.epoch, joined.start):  # else it catches up later
            self.replicas.set_position(state.topic, (joined.epoch, state.version))

    def _join_all(self) -> None:
        self._become(Joining.SENT)
        if self.planned is None:
            positions = list(map(_nowhere, topic_ids(self._view.num_topics)))
        else:
            positions = [*self.replicas.positions(), *map(_nowhere, sorted(self._raising))]
        self._session.join(positions)

    def _plan(self, states: dict[int, TopicState]) -> list[int]:
        """Return the topics that the start joins, in order: the namespace, then smallest first."""
        namespace = states.get(NAMESPACE)
        full_bytes = namespace.full_bytes if namespace is not None else 0
        if not self.replicas.resident_set.make_room((NAMESPACE, FULL), full_bytes):
            self._namespace_over = self._over((NAMESPACE,), full_bytes)
            return []
        if self._automatic:
            return [NAMESPACE] if namespace is not None else []
        return sorted(states, key=lambda t: (t != NAMESPACE, states[t].full_bytes, t))

    def _join_minimal(self, topics: Sequence[int]) -> None:
        """Follow all of ``topics`` at minimal, or none of them."""
        replicas, budget = self.replicas, self.replicas.budget
        new = [topic for topic in topics if replicas.level(topic) != MINIMAL]
        needed_bytes = MINIMAL_BYTES * len(new)
        room = budget.free_bytes + sum(budget.committed((topic, FULL)) for topic in new)
        if new and room < needed_bytes:
            self._fail(new, self._over(new, needed_bytes))
            return
        for topic in sorted(topics, key=replicas.level, reverse=True):  # the first make room
            self._raising.pop(topic, None)
            replicas.lower(topic)
            self._wake(topic)  # a join at full may wait

    def _raised_together(self, states: Mapping[int, TopicState]) -> list[tuple[int, ...]]:
        """Return the topics that are to be raised and have answers, as they were joined."""
        joined = dict.fromkeys(self._raising[topic] for topic in states if topic in self._raising)
        return [tuple(t for t in topics if t in states and t in self._raising) for topics in joined]

    def _admit(self, states: Sequence[TopicState]) -> None:
        """Raise topics to full, all of them or none."""
        needed_bytes = sum(state.full_bytes for state in states)
        topics = [state.topic for state in states]
        denied = [state.topic for state in states if state.answer == JoinAnswer.DENIED]
        for topic in topics:
            self._raising.pop(topic, None)
        for topic in denied:
            self._fail((topic,), _denied(topic, "full"))
        if denied or not topics:
            return
        if not self._makes_room((topics[0], FULL), needed_bytes):
            self._fail(topics, self._over(topics, needed_bytes))
            self.outgrown += topics
            return
        for state in states:
            self.replicas.admit(state.topic, state.full_bytes)

    def _fail(self, topics: Sequence[int], error: TopicastError) -> None:
        """Note why a join of ``topics`` has failed."""
        for topic in topics:
            self._failures[topic] = error
            self._wake(topic)

    def _makes_room(self, topic_level: TopicLevel, needed_bytes: int) -> bool:
        """Evict pulled tables for topics to be held, but none if that would not be enough."""
        resident_set = self.replicas.resident_set
        return needed_bytes <= resident_set.spare_bytes and resident_set.make_room(
            topic_level, needed_bytes
        )

    def _over(self, topics: Sequence[int], needed_bytes: int) -> OverBudget:
        names = ", ".join(map(str, topics[:NAMED_MAX])) + ", …" * (len(topics) > NAMED_MAX)
        what = f"topic {names}" if len(topics) == 1 else f"a join of the topics {names}"
        if topics[0] == NAMESPACE:
            what = "the namespace"
        free_bytes = self.replicas.budget.free_bytes
        return OverBudget(what, needed_bytes=needed_bytes, free_bytes=free_bytes)

    def _renumber(self, num_topics: int) -> None:
        """Begin anew, because the number of topics has changed, and with it the epoch.

        A topic's number now means another topic, so all that is noted by number is discarded. So
        are the answers to earlier Joins.
        """
        for topic in self.replicas.topics:
            self.replicas.drop(topic)
        raising, self._raising = self._raising, {}
        for of_topics in (self._failures, self.sizes, self.outgrown):
            of_topics.clear()
        self._sizes = ()
        self._view.num_topics = num_topics
        self.planned = None
        self._session.discard_joins()
        self._become(Joining.DUE)
        self.has_work = True
        for topic in raising:
            self._wake(topic)

    def _become(self, joining: Joining) -> None:
        assert joining in NEXT[self._joining], f"{self._joining} to {joining}"
        self._joining = joining

    def _note_reported(self, join: Join, joined: Joined) -> None:
        """Note which of our positions the hub has by now, and the bytes of topics at full."""
        self._reported_at, self._sizes = None, ()
        for position, state in zip(join.positions, joined.topics, strict=False):
            if state.answer != JoinAnswer.DENIED:
                self._reported[position.topic] = position
        for state in joined.topics:
            if state.answer != JoinAnswer.DENIED and state.level == FULL:
                self.sizes[state.topic] = state.full_bytes

    def _discard_reported(self) -> None:
        self._reported.clear()
        self._reported_at = None

    def _sign_of_life(self, agreement: object = None) -> None:
        """Report what has changed since the last report; a keep-alive if nothing has.

        ``agreement``: the positions of the heartbeat that came just now, if all topics agree with
        it. If the hub has been sent all of them, no topic is looked at.
        """
        now = self._turn.now
        if now >= self._alive_at + self._lost_s / 2:
            self._discard_reported()  # the hub may have removed us and registered us again
        self._alive_at = now
        budget = self.replicas.budget
        before = self._status
        # Before that answer the hub has no position of us, or those of the Join under way.
        answered = self._joining is Joining.ANSWERED
        if not answered or (agreement is not None and agreement is self._reported_at):
            moved: tuple[Position, ...] = ()
        else:
            moved = self.replicas.moved(self._reported)
            self._reported_at = agreement
        self._status = status = ReaderStatus(
            positions=moved,
            lag_us=int(self.replicas.agreement.lag_max_s() * 1_000_000),
            held_bytes=budget.held_bytes,
            budget_bytes=budget.total_bytes,
            audits=self._audit_counts.audits,
            audit_differences=self._audit_counts.differences,
        )
        same = _NUMBERS(before) == _NUMBERS(status)
        is_current = max(before.lag_us, status.lag_us) < LAG_US
        if same and is_current and not moved:
            self._turn.add(Send(Connection.CONTROL, KEEP_ALIVE))
            return
        self._reported.update((position.topic, position) for position in moved)
        self._turn.add(Send(Connection.CONTROL, status))


_NUMBERS: Final = attrgetter("held_bytes", "budget_bytes", "audits", "audit_differences")


def _nowhere(topic: int, level: int = FULL) -> Position:
    return Position(topic=topic, level=level, epoch=0, version=0)


def _denied(topic: int, level: str) -> UsageError:
    return UsageError(f"topic {topic}: level {level} is not offered (topicast mode shows what is)")
