"""Which topics are followed, and the hub's messages about them: joins, plans, raises, drops.

welcomed ──first fit heartbeat──▶ joins everything, follows what fits the budget
welcomed again ──▶ joins what is followed, from its positions: no resync
  its connection has stayed, and nothing is behind ──▶ joins within REJOIN_S: the subscriptions are
  there, and a hub that starts again has all its readers back at once
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

from ...topics.errors import OverBudget, TopicastError, UsageError, WireError
from ...topics.liveness import LOST_S
from ...topics.replica_set import Account
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
from ...topics.wire.codec import KEEP_ALIVE
from ...topics.wire.messages import (
    DENIED,
    Barrier,
    Chunk,
    Delta,
    Heartbeat,
    Joined,
    Position,
    Refused,
    Status,
    TopicState,
    Welcome,
)
from ...topics.wire.refusal import Refusal
from ..protocol.effects import Connection, Effects, Send
from .hub_session import HubSession
from .lineage import Lineage
from .replicas import TopicReplicas

ALIVE_S: Final = 0.9  # the heartbeat after it is answered with a sign of life: each fourth
ALIVE_S_MAX: Final = 1.25  # between two, without a heartbeat; the hub suspects a reader after 2 s
REJOIN_S: Final = 2.0  # over which readers that need nothing from a restarted hub join it
LAG_US: Final = 1_000_000  # a shorter lag is not reported: it is that of heartbeats
NO_STATUS: Final = Status(positions=(), lag_us=0, held_bytes=0, budget_bytes=0)
NAMED_MAX: Final = 5  # topics in one error


class Subscriptions:
    """Joins, raises and drops topics at whichever hub is connected."""

    def __init__(
        self,
        session: HubSession,
        *,
        replicas: TopicReplicas,
        lineage: Lineage,
        automatic: bool = False,
    ) -> None:
        """``automatic``: begin with the namespace alone; else with all that fits, in full."""
        self.replicas = replicas
        self.sizes: dict[int, int] = {}  # bytes of each topic at full, as the hub reports
        self._sizes: tuple[int, ...] = ()  # those of the last heartbeat, unless a Join came after
        self.offers = ALL_OFFERED  # the levels that catalogd's mode offers
        self.outgrown: list[int] = []  # topics lowered, or not raised, for want of room
        self.planned: frozenset[int] | None = None  # topics that the start waits for, once chosen
        self.evictions = 0  # topics lowered to make room, since the start
        self.unsettled = False  # the hub has answered a join since ``settle``
        self.catalog_address = ""  # empty: not known yet
        self.catalog_alive_at: float | None = None  # seconds: catalogd's last sign of life
        self._view = replicas.view
        self._session = session
        self._lineage = lineage
        self._automatic = automatic
        self._raising: dict[int, tuple[int, ...]] = {}  # to full, with which others or none of them
        self._failures: dict[int, TopicastError] = {}  # why a join has failed, by topic
        self._join_at = 0.0  # seconds: when everything is joined; inf: a heartbeat decides
        self._requested = False  # everything was joined on this registration,
        self._registered = False  # and answered: the hub is notified of every change,
        self._subscribed = False  # and was since the last answer
        self._alive_at = 0.0  # seconds: of the last sign of life
        self._lost_s = LOST_S  # of silence, after which the hub may remove us
        self._status = NO_STATUS  # the last one that was sent
        self._reported: dict[int, Position] = {}  # by topic: what the hub was sent last
        self._reported_at: object = None  # the agreement of which nothing was left to report
        self._namespace_over: OverBudget | None = None  # it never fitted
        self._late: int | None = None  # a planned topic that was not settled when last looked at
        self._refusal = ""  # why no hub registers us, for ``missing``

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

    def accepts(self, epoch: int, start: int, *, now: float) -> bool:
        """Tell whether what comes from a start of catalogd may be used."""
        accepted = self._lineage.accepted
        known = (epoch, start) == accepted  # spares a look at all topics for each delta
        holds = known or self.replicas.holds(accepted[0])
        return self._lineage.accepts((epoch, start), holds=holds, now=now)

    def join(self, topics: Sequence[int], level: int, *, now: float) -> Effects:
        """Set ``topics`` to minimal or full, all or none; ``failure`` returns why that failed."""
        for topic in topics:
            self._failures.pop(topic, None)
        for topic in topics:
            error = self.misnamed(topic, level)
            if error is not None:
                self._failures[topic] = error
                return ()
        if level == MINIMAL:
            return self._join_minimal(topics, now=now)
        new = tuple(
            t for t in topics if self.replicas.target_level(t) != FULL and t not in self._raising
        )
        self._raising.update(dict.fromkeys(new, new))
        if not new or not self._requested:
            return ()
        return self._session.join(map(_nowhere, new), now=now)

    def misnamed(self, topic: int, level: int) -> UsageError | None:
        """Return why ``topic`` cannot be joined at ``level``, whatever room there is."""
        if topic == NAMESPACE and level != FULL:
            return UsageError("the namespace is always joined in full: close the subscriber")
        if not is_topic(topic, self._view.num_topics):
            return UsageError(f"no topic {topic}: there are 0 to {self._view.num_topics - 1}")
        return None

    def set_level(self, topic: int, level: int, *, now: float) -> Effects:
        """Bring ``topic`` to ``level``, as far as there is room."""
        return self.drop(topic) if level == NONE else self.join((topic,), level, now=now)

    def join_minimal(self, topic: int, *, now: float) -> Effects:
        """Follow ``topic`` at minimal, if its few bytes are free."""
        return self._join_minimal((topic,), now=now)

    def namespace_failure(self) -> OverBudget | None:
        """Return why the namespace cannot be held."""
        return self.replicas.over or self._namespace_over

    def failure(self, topic: int) -> TopicastError | None:
        """Return why a join by hand has failed."""
        return self._failures.get(topic)

    def take_outgrown(self) -> list[int]:
        """Return the topics that outgrew their room since the last call."""
        topics, self.outgrown = self.outgrown, []
        return topics

    def drop(self, topic: int) -> Effects:
        """Lower ``topic`` to none."""
        self._raising.pop(topic, None)
        self._failures.pop(topic, None)
        return self.replicas.drop(topic) if topic in self.replicas else ()

    def on_welcome(self, welcome: Welcome, *, now: float) -> Effects:
        """The hub has registered us, first or again."""
        opened = self._session.on_welcome(welcome, now=now)
        if opened is None:
            return ()
        self._discard_reported()
        self._lost_s = welcome.lost_ms / 1000
        effects = opened
        self.catalog_address = welcome.catalog_address or self.catalog_address
        self._requested = self._registered = False
        stays = self.planned is not None and not opened
        self._join_at = inf if stays else now
        self._alive_at = now - ALIVE_S  # the next heartbeat is answered with a Status
        self._status = NO_STATUS
        return effects + self.replicas.lose_streams(now=now)

    def on_heartbeat(self, heartbeat: Heartbeat, *, now: float) -> Effects:
        """Compare with the positions of hub and catalogd; what is missing is requested."""
        accepted = self.accepts(heartbeat.epoch, heartbeat.start, now=now)
        fit = accepted and bool(heartbeat.versions)
        effects = self._session.on_heartbeat(heartbeat, fit=fit, now=now)
        self.catalog_address = heartbeat.catalog_address or self.catalog_address
        if not fit:
            return effects
        self.catalog_alive_at = now - heartbeat.age_ms / 1000
        if len(heartbeat.versions) - 1 != self._view.num_topics:
            effects += self._renumber(len(heartbeat.versions) - 1)
        if self._join_at == inf:
            is_behind = self._raising or not self.replicas.agrees(heartbeat)
            self._join_at = now if is_behind else now + REJOIN_S * self._session.jitter
        if not self._requested and now >= self._join_at:
            effects += self._join_all(now)
        order = topic_ids(self._view.num_topics)
        if heartbeat.sizes != self._sizes:
            self._sizes = heartbeat.sizes
            self.sizes.update(zip(order, heartbeat.sizes, strict=False))
        self.offers = heartbeat.offers
        effects += self.replicas.on_heartbeat(heartbeat, order, now=now)
        if now >= self._alive_at + ALIVE_S and not self._session.greeting:
            effects += self._sign_of_life(now, self.replicas.agreement)
        return effects

    def on_joined(self, joined: Joined, *, now: float) -> Effects:
        """Follow what fits; drop at the hub what is not followed after all."""
        answered = self._session.on_joined(joined.request, now=now)
        if answered is None:
            self._discard_reported()  # a Join that was repeated has replaced what came after it
            return ()
        self._reported_at, self._sizes = None, ()
        for position, state in zip(answered.join.positions, joined.topics, strict=False):
            if state.answer != DENIED:
                self._reported[position.topic] = position
        fenced = answered.fenced
        states = {state.topic: state for state in joined.topics}
        for state in joined.topics:
            if state.answer != DENIED and state.level == FULL:
                self.sizes[state.topic] = state.full_bytes
        effects: Effects = ()
        for topic in [t for t, s in states.items() if s.level == MINIMAL]:
            effects += self._set_position(states.pop(topic), joined, fenced=fenced, now=now)
        chosen = self._plan(states) if self.planned is None else []
        together = [(topic,) for topic in chosen] + self._raised_together(states)
        for topics in together:
            self._admit([states[t] for t in topics if self.replicas.target_level(t) != FULL])
        if self.planned is None:
            self.planned = frozenset(self.replicas.topics)
        surplus = [topic for topic in states if topic not in self.replicas]
        self._registered, self._subscribed, self.unsettled = True, False, True
        return effects + (self._session.drop(surplus) if surplus else ())

    def on_barrier(self, barrier: Barrier, *, now: float) -> Effects:
        """Note that subscriptions are active: topics behind get a position, or may catch up."""
        fenced, effects = self._session.on_barrier(barrier.nonce, now=now)
        waiting = self.replicas.without_position()
        new = [_nowhere(topic, MINIMAL) for topic in waiting if (topic, MINIMAL) in fenced]
        if new:
            effects += self._session.join(new, now=now, fenced=True)
        return effects + self.replicas.tick(now=now)

    def on_delta(self, delta: Delta, *, now: float) -> Effects:
        """Apply what was received, if its start is accepted."""
        if not self.accepts(delta.epoch, delta.start, now=now):
            return ()
        return self.replicas.on_delta(delta, now=now)

    def on_chunk(self, chunk: Chunk, *, now: float) -> Effects:
        """Apply what was received, if its start is accepted."""
        if not self.accepts(chunk.epoch, chunk.start, now=now):
            return self.replicas.on_foreign_chunk(chunk)
        return self.replicas.on_chunk(chunk, now=now)

    def on_control_refused(self, refused: Refused, *, now: float) -> Effects:
        """The hub does not know the connection, or refuses to register it."""
        if refused.code == Refusal.HELLO:
            return self._session.on_unknown(now=now)
        if self._session.greeting:
            self._refusal = f": {refused.message}"
        return ()

    def on_unreadable(self, error: WireError) -> None:
        """The hub's answer cannot be read: it may be of another protocol version."""
        if self._session.greeting:
            self._refusal = f": it does not speak our protocol: {error}"

    def on_bulk_refused(self, refused: Refused, *, now: float) -> Effects:
        """A catch-up, or one topic of it, is not served now."""
        if refused.code == Refusal.HELLO:
            return self._session.on_unknown(now=now)
        return self.replicas.on_refused(refused, now=now)

    def tick(self, *, now: float) -> Effects:
        """Do what is due."""
        effects = self._session.tick(now=now)
        if self._session.greeting:
            return effects
        effects += self.replicas.tick(now=now)
        if now >= self._alive_at + ALIVE_S_MAX:
            effects += self._sign_of_life(now)
        return effects

    def settle(self, *, now: float) -> Effects:
        """After facts: report evictions to the hub, and request what is wanted."""
        self.unsettled = False
        effects: Effects = ()
        for topic, needed_bytes in self.replicas.take_evicted():
            self._raising.pop(topic, None)
            self._failures[topic] = self._over((topic,), needed_bytes)
            self.outgrown.append(topic)
            self.evictions += 1
            if topic != NAMESPACE:
                effects += self.join_minimal(topic, now=now)  # so that stubs still come
                continue
            for other in self.replicas.topics:
                effects += self.replicas.drop(other)
        if self._registered and (self.replicas.take_changed() or not self._subscribed):
            self._subscribed = True
            effects += self._session.subscribe(self.replicas.accounts(), now=now)
        return effects + self.replicas.request(now=now)

    def ready(self) -> bool:
        """Tell whether the namespace and the initial topics are live."""
        replicas = self.replicas
        if self.planned is None or not replicas.is_settled(NAMESPACE):
            return False
        late = self._late  # as a rule it still is: then the others need no look
        if late in self.planned and late in replicas and not replicas.is_settled(late):
            return False
        of = (one for one in self.planned if one in replicas and not replicas.is_settled(one))
        self._late = next(of, None)
        return self._late is None

    def missing(self) -> str:
        """Return in plain words what is still missing."""
        hub = self._session.address
        if self._session.greeting:
            return (
                f"no statestored has registered this subscriber, tried last: {hub}{self._refusal}"
            )
        if self.catalog_alive_at is None:
            return f"statestored at {hub} has nothing from a catalogd that is confirmed yet"
        behind = [t for t in self.replicas.topics if not self.replicas.is_settled(t)]
        names = ", ".join("namespace" if t == NAMESPACE else str(t) for t in behind[:5])
        return f"{len(behind)} topics are being caught up from {hub}: {names}"

    def check(self) -> None:
        """Assert every invariant."""
        self._session.check()
        self.replicas.check()
        assert all(self.replicas.target_level(topic) != FULL for topic in self._raising)

    def _set_position(
        self, state: TopicState, joined: Joined, *, fenced: bool, now: float
    ) -> Effects:
        if state.topic not in self.replicas:
            return ()  # it was dropped since
        if state.answer == DENIED:
            effects = self.drop(state.topic)
            self._failures[state.topic] = _denied(state.topic, "minimal")
            return effects
        if not fenced or not self.accepts(joined.epoch, joined.start, now=now):
            return ()  # it catches up, in time
        return self.replicas.set_position(state.topic, (joined.epoch, state.version), now=now)

    def _join_all(self, now: float) -> Effects:
        self._requested = True
        if self.planned is None:
            positions = list(map(_nowhere, topic_ids(self._view.num_topics)))
        else:
            positions = [*self.replicas.positions(), *map(_nowhere, sorted(self._raising))]
        return self._session.join(positions, now=now)

    def _plan(self, states: dict[int, TopicState]) -> list[int]:
        """Return what the start joins as far as it fits: the namespace, then smallest first."""
        namespace = states.get(NAMESPACE)
        full_bytes = namespace.full_bytes if namespace is not None else 0
        if not self.replicas.resident_set.fits((NAMESPACE, FULL), full_bytes):
            self._namespace_over = self._over((NAMESPACE,), full_bytes)
            return []
        if self._automatic:
            return [NAMESPACE] if namespace is not None else []
        return sorted(states, key=lambda t: (t != NAMESPACE, states[t].full_bytes, t))

    def _join_minimal(self, topics: Sequence[int], *, now: float) -> Effects:
        """Follow all of ``topics`` at minimal, or none of them."""
        replicas, budget = self.replicas, self.replicas.budget
        new = [topic for topic in topics if replicas.level(topic) != MINIMAL]
        needed_bytes = MINIMAL_BYTES * len(new)
        room = budget.free_bytes + sum(budget.committed((topic, FULL)) for topic in new)
        if new and room < needed_bytes:
            self._failures.update(dict.fromkeys(new, self._over(new, needed_bytes)))
            return ()
        effects: Effects = ()
        for topic in sorted(topics, key=replicas.level, reverse=True):  # the first make room
            self._raising.pop(topic, None)
            effects += replicas.lower(topic, now=now)
        return effects

    def _raised_together(self, states: Mapping[int, TopicState]) -> list[tuple[int, ...]]:
        """Return the topics that are to be raised and have answers, as they were joined."""
        joined = dict.fromkeys(self._raising[topic] for topic in states if topic in self._raising)
        return [tuple(t for t in topics if t in states and t in self._raising) for topics in joined]

    def _admit(self, states: Sequence[TopicState]) -> None:
        """Raise topics to full, all of them or none."""
        needed_bytes = sum(state.full_bytes for state in states)
        topics = [state.topic for state in states]
        denied = [state.topic for state in states if state.answer == DENIED]
        for topic in topics:
            self._raising.pop(topic, None)
        for topic in denied:
            self._failures[topic] = _denied(topic, "full")
        if denied or not topics:
            return
        if not self._makes_room((topics[0], FULL), needed_bytes):
            self._failures.update(dict.fromkeys(topics, self._over(topics, needed_bytes)))
            self.outgrown += topics
            return
        for state in states:
            self.replicas.admit(state.topic, state.full_bytes)

    def _makes_room(self, account: Account, needed_bytes: int) -> bool:
        """Evict pulled tables for topics that are to be held; none if that would not be enough."""
        resident_set = self.replicas.resident_set
        return needed_bytes <= resident_set.spare_bytes and resident_set.fits(account, needed_bytes)

    def _over(self, topics: Sequence[int], needed_bytes: int) -> OverBudget:
        names = ", ".join(map(str, topics[:NAMED_MAX])) + ", …" * (len(topics) > NAMED_MAX)
        what = f"topic {names}" if len(topics) == 1 else f"a join of the topics {names}"
        if topics[0] == NAMESPACE:
            what = "the namespace"
        free_bytes = self.replicas.budget.free_bytes
        return OverBudget(what, needed_bytes=needed_bytes, free_bytes=free_bytes)

    def _renumber(self, num_topics: int) -> Effects:
        """Begin anew: the number of topics has changed, so the epoch has, too."""
        effects: Effects = ()
        for topic in self.replicas.topics:
            effects += self.replicas.drop(topic)
        self._view.num_topics = num_topics
        self.planned, self._requested = None, False
        return effects

    def _discard_reported(self) -> None:
        self._reported.clear()
        self._reported_at = None

    def _sign_of_life(self, now: float, agreement: object = None) -> Effects:
        """Report what has changed since the last report; a keep-alive if nothing has.

        ``agreement``: of a heartbeat that came just now; as long as it is the one of which all was
        reported, no topic is looked at.
        """
        if now >= self._alive_at + self._lost_s / 2:
            self._discard_reported()  # the hub may have removed us, and registered us again
        self._alive_at = now
        budget = self.replicas.budget
        before = self._status
        # Before the first answer the hub has nothing, or what the Join under way says.
        if not self._registered or (agreement is not None and agreement is self._reported_at):
            moved: tuple[Position, ...] = ()
        else:
            moved = self.replicas.moved(self._reported)
            self._reported_at = agreement
        self._status = status = Status(
            positions=moved,
            lag_us=int(self.replicas.lag_max_s(now=now) * 1_000_000),
            held_bytes=budget.held_bytes,
            budget_bytes=budget.total_bytes,
        )
        held = before.held_bytes, before.budget_bytes
        same = held == (status.held_bytes, status.budget_bytes)
        is_current = max(before.lag_us, status.lag_us) < LAG_US
        if same and is_current and not moved:
            return (Send(Connection.CONTROL, KEEP_ALIVE),)
        self._reported.update((position.topic, position) for position in moved)
        return (Send(Connection.CONTROL, status),)


def _nowhere(topic: int, level: int = FULL) -> Position:
    return Position(topic=topic, level=level, epoch=0, version=0)


def _denied(topic: int, level: str) -> UsageError:
    return UsageError(f"topic {topic}: level {level} is not offered (topicast mode shows what is)")
