"""Subscriptions: the hub's half of a member: registration, levels, deltas, catch-ups, heartbeats.

welcomed ──first fit heartbeat──▶ joins everything, keeps what fits the budget
welcomed again ──▶ joins what is followed, from where it stands: no resync
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

from ...topics.entries import FULL, MINIMAL, MINIMAL_BYTES, NONE
from ...topics.errors import OverBudget, TopicastError, UsageError
from ...topics.offers import ALL_OFFERED
from ...topics.sharding import NAMESPACE, is_topic, topic_ids
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
from ..protocol.facts import CONTROL, ConnectData, ConnectHub, Effect, Send
from ..store.memory_budget import Account
from .hub_session import Hubs
from .joining import Joining
from .lineage import Lineage
from .topic_replica import TopicReplicas

STATUS_S: Final = 1.0  # a word of life; the hub suspects after two
NAMED_MAX: Final = 5  # topics in one error


class Subscriptions:
    """Keeps the followed topics followed, whichever hub there is."""

    def __init__(
        self,
        hubs: Hubs,
        joining: Joining,
        *,
        replicas: TopicReplicas,
        lineage: Lineage,
        automatic: bool = False,
    ) -> None:
        """``automatic``: begin with the namespace alone; else with all that fits, in full."""
        self.hubs = hubs
        self.sizes: dict[int, int] = {}  # bytes of each topic at full, as the hub has said
        self.offers = ALL_OFFERED  # the levels that catalogd's mode lets us choose from
        self.outgrown: list[int] = []  # topics lowered, or not raised, for want of room
        self._automatic = automatic
        self.replicas = replicas
        self.num_topics = 0
        self.planned: frozenset[int] | None = None  # what the start has to wait for
        self.catalog_address = ""
        self.catalog_heard_at: float | None = None
        self.evictions = 0
        self._joining = joining
        self._lineage = lineage
        self._asked: dict[int, tuple[int, ...]] = {}  # to be raised to full, with which others
        self._failures: dict[int, TopicastError] = {}
        self._joins = False  # everything is asked for on this registration
        self._told = False  # and answered: the hub knows, and is told of every change
        self._status_at = 0.0
        self._refusal = ""

    @property
    def deadline(self) -> float:
        """The time at which ``tick`` has work to do."""
        if self.hubs.silent:
            return self.hubs.deadline  # nothing else can be done
        times = [self.hubs.deadline, self._joining.deadline, self._status_at]
        times.append(self.replicas.deadline(self._joining.fenced))
        return min(at for at in times if at is not None)

    def accepts(self, epoch: int, start: int, *, now: float) -> bool:
        """Tell whether what comes from a start of catalogd may be used."""
        accepted = self._lineage.accepted
        known = (epoch, start) == accepted  # then nobody looks at all topics, for each delta
        holds = known or bool(self.replicas.standing.versions(accepted[0]))
        return self._lineage.heard((epoch, start), holds=holds, now=now)

    def join(self, topics: Sequence[int], level: int, *, now: float) -> tuple[Effect, ...]:
        """Set ``topics`` to minimal or full, all or none; ``failure`` tells why that cannot be."""
        for topic in topics:
            self._failures.pop(topic, None)
        for topic in topics:
            error = self.misnamed(topic, level)
            if error is not None:
                self._failures[topic] = error
                return ()
        if level == MINIMAL:
            return self._watch(topics, now=now)
        news = tuple(t for t in topics if self.replicas.wanted(t) != FULL and t not in self._asked)
        self._asked.update(dict.fromkeys(news, news))
        if not news or not self._joins:
            return ()
        return self._joining.join(map(_nowhere, news), now=now)

    def misnamed(self, topic: int, level: int) -> UsageError | None:
        """Return why ``topic`` cannot be asked for at ``level``, whatever there is room for."""
        if topic == NAMESPACE and level != FULL:
            return UsageError("the namespace is always joined in full: close the subscriber")
        if not is_topic(topic, self.num_topics):
            return UsageError(f"no topic {topic}: there are 0 to {self.num_topics - 1}")
        return None

    def set_level(self, topic: int, level: int, *, now: float) -> tuple[Effect, ...]:
        """Bring ``topic`` to ``level``, as far as there is room."""
        return self.drop(topic) if level == NONE else self.join((topic,), level, now=now)

    def watch(self, topic: int, *, now: float) -> tuple[Effect, ...]:
        """Follow ``topic`` at minimal, if these few bytes are there."""
        return self._watch((topic,), now=now)

    def failure(self, topic: int) -> TopicastError | None:
        """Return why a join by hand has failed."""
        return self._failures.get(topic)

    def take_outgrown(self) -> list[int]:
        """Return the topics that outgrew their room since the last call."""
        topics, self.outgrown = self.outgrown, []
        return topics

    def drop(self, topic: int) -> tuple[Effect, ...]:
        """Lower ``topic`` to none."""
        self._asked.pop(topic, None)
        return self.replicas.drop(topic) if topic in self.replicas.followers else ()

    def on_welcome(self, welcome: Welcome, *, now: float) -> tuple[Effect, ...]:
        """The hub has registered us, first or again."""
        if self.hubs.knows(welcome):
            return ()
        effects = self.hubs.on_welcome(welcome, now=now)
        fresh = any(isinstance(effect, ConnectData) for effect in effects)
        self._joining.restart(keeps_data=not fresh)
        self.catalog_address = welcome.catalog_address or self.catalog_address
        self._joins = self._told = False
        self._status_at = now
        effects += self.replicas.lose_streams(fenced=self._joining.fenced, now=now)
        return effects if self.planned is None else effects + self._join_all(now)

    def on_heartbeat(self, heartbeat: Heartbeat, *, now: float) -> tuple[Effect, ...]:
        """Learn where hub and catalogd stand; what is missing is asked for."""
        accepted = self.accepts(heartbeat.epoch, heartbeat.start, now=now)
        fit = accepted and bool(heartbeat.versions)
        effects = self.hubs.on_heartbeat(heartbeat, fit=fit, now=now)
        self.catalog_address = heartbeat.catalog_address or self.catalog_address
        if not fit:
            return effects
        self.catalog_heard_at = now - heartbeat.age_ms / 1000
        if len(heartbeat.versions) - 1 != self.num_topics:
            effects += self._renumber(len(heartbeat.versions) - 1)
        if not self._joins:
            effects += self._join_all(now)
        order = topic_ids(self.num_topics)
        self.sizes.update(zip(order, heartbeat.sizes, strict=False))
        self.offers = heartbeat.offers
        return effects + self.replicas.on_heartbeat(
            heartbeat, order, fenced=self._joining.fenced, now=now
        )

    def on_joined(self, joined: Joined, *, now: float) -> tuple[Effect, ...]:
        """Follow what fits; the hub is told what is not followed after all."""
        fenced = self._joining.joined(joined.request)
        if fenced is None:
            return ()
        states = {state.topic: state for state in joined.topics}
        for state in joined.topics:
            if state.answer != DENIED and state.level == FULL:
                self.sizes[state.topic] = state.full_bytes
        effects: tuple[Effect, ...] = ()
        for topic in [t for t, s in states.items() if s.level == MINIMAL]:
            effects += self._place(states.pop(topic), joined, fenced=fenced, now=now)
        chosen = self._plan(states) if self.planned is None else []
        together = [(topic,) for topic in chosen] + self._asked_together(states)
        for topics in together:
            self._admit([states[t] for t in topics if self.replicas.wanted(t) != FULL])
        followed = self.replicas.followers
        if self.planned is None:
            self.planned = frozenset(followed)
        surplus = [topic for topic in states if topic not in followed]
        self._told = self.replicas.changed = True
        return effects + (self._joining.drop(surplus) if surplus else ())

    def on_barrier(self, barrier: Barrier, *, now: float) -> tuple[Effect, ...]:
        """Subscriptions are active: what is behind is placed, or may catch up."""
        fenced, effects = self._joining.on_barrier(barrier.nonce, now=now)
        unplaced = [
            _nowhere(t, MINIMAL) for t in self.replicas.unplaced() if (t, MINIMAL) in fenced
        ]
        if unplaced:
            effects += self._joining.join(unplaced, now=now, fenced=True)
        return effects + self.replicas.tick(fenced=self._joining.fenced, now=now)

    def on_delta(self, delta: Delta, *, now: float) -> tuple[Effect, ...]:
        """Apply it, if its start is accepted."""
        if not self.accepts(delta.epoch, delta.start, now=now):
            return ()
        return self.replicas.on_delta(delta, now=now)

    def on_chunk(self, chunk: Chunk, *, now: float) -> tuple[Effect, ...]:
        """Apply it, if its start is accepted."""
        if not self.accepts(chunk.epoch, chunk.start, now=now):
            return self.replicas.strange_chunk(chunk)
        return self.replicas.on_chunk(chunk, now=now)

    def on_control_refused(self, refused: Refused, *, now: float) -> tuple[Effect, ...]:
        """The hub does not know us, or does not let us in."""
        if refused.code == Refusal.HELLO:
            return self.hubs.forgotten(now=now)
        if self.hubs.silent:
            self._refusal = f": {refused.message}"
        return ()

    def on_bulk_refused(self, refused: Refused, *, now: float) -> tuple[Effect, ...]:
        """A catch-up, or one topic of it, is not served now."""
        if refused.code == Refusal.HELLO:
            return self.hubs.forgotten(now=now)
        return self.replicas.on_refused(refused, now=now)

    def on_accepted(self, *, now: float) -> tuple[Effect, ...]:
        """Another start is accepted: what was refused of it is asked for again."""
        return self.replicas.lose_streams(fenced=self._joining.fenced, now=now)

    def tick(self, *, now: float) -> tuple[Effect, ...]:
        """Do what time has brought."""
        effects = self.hubs.tick(now=now)
        if any(isinstance(effect, ConnectHub) for effect in effects):
            self._joining.restart(keeps_data=False)
        if self.hubs.silent:
            return effects
        effects += self._joining.due(now)
        effects += self.replicas.tick(fenced=self._joining.fenced, now=now)
        if now >= self._status_at:
            self._status_at = now + STATUS_S
            effects += (self._status(now),)
        return effects

    def settle(self, *, now: float) -> tuple[Effect, ...]:
        """After each fact: tell the hub what had to go, and ask for what is wanted."""
        effects: tuple[Effect, ...] = ()
        for topic, needed_bytes in self.replicas.evicted:
            self._asked.pop(topic, None)
            self._failures[topic] = self._over((topic,), needed_bytes)
            self.outgrown.append(topic)
            self.evictions += 1
            if topic != NAMESPACE:
                effects += self.watch(topic, now=now)  # it goes on telling what is stale
                continue
            for other in tuple(self.replicas.followers):
                effects += self.replicas.drop(other)
        self.replicas.evicted.clear()
        if self.replicas.changed and self._told:
            self.replicas.changed = False
            effects += self._joining.settle(self.replicas.standing.accounts(), now=now)
        return effects + self.replicas.ask(now=now)

    def ready(self) -> bool:
        """Tell whether the namespace and the initial topics are live."""
        if self.planned is None or not self.replicas.standing.settled(NAMESPACE):
            return False
        return all(
            map(self.replicas.standing.settled, self.planned & self.replicas.followers.keys())
        )

    def missing(self) -> str:
        """Say what there is to wait for."""
        hub = self.hubs.address
        if self.hubs.silent:
            return f"no statestored has let us in, tried last: {hub}{self._refusal}"
        if self.catalog_heard_at is None:
            return f"statestored at {hub} has nothing from a catalogd that is confirmed yet"
        behind = [
            topic for topic in self.replicas.followers if not self.replicas.standing.settled(topic)
        ]
        names = ", ".join("namespace" if t == NAMESPACE else str(t) for t in behind[:5])
        return f"{len(behind)} topics are being caught up from {hub}: {names}"

    def check(self) -> None:
        """Assert every invariant."""
        self.replicas.check()
        assert all(self.replicas.wanted(topic) != FULL for topic in self._asked)

    def _place(
        self, state: TopicState, joined: Joined, *, fenced: bool, now: float
    ) -> tuple[Effect, ...]:
        if state.answer == DENIED:
            self._failures[state.topic] = _denied(state.topic, "minimal")
            return self.drop(state.topic)
        if not fenced or not self.accepts(joined.epoch, joined.start, now=now):
            return ()  # it catches up, in time
        return self.replicas.place(state.topic, joined.epoch, state.version, now=now)

    def _join_all(self, now: float) -> tuple[Effect, ...]:
        self._joins = True
        if self.planned is None:
            positions = list(map(_nowhere, topic_ids(self.num_topics)))
        else:
            positions = [*self.replicas.standing.positions(), *map(_nowhere, sorted(self._asked))]
        return self._joining.join(positions, now=now)

    def _plan(self, states: dict[int, TopicState]) -> list[int]:
        """Return what the start joins as far as it fits: the namespace, then smallest first."""
        namespace = states.get(NAMESPACE)
        full_bytes = namespace.full_bytes if namespace is not None else 0
        if not self.replicas.resident_set.fits((NAMESPACE, FULL), full_bytes):
            self.replicas.over = self._over((NAMESPACE,), full_bytes)
            return []
        if self._automatic:
            return [NAMESPACE] if namespace is not None else []
        return sorted(states, key=lambda t: (t != NAMESPACE, states[t].full_bytes, t))

    def _watch(self, topics: Sequence[int], *, now: float) -> tuple[Effect, ...]:
        """Follow all of ``topics`` at minimal, or none of them."""
        replicas, budget = self.replicas, self.replicas.budget
        news = [topic for topic in topics if replicas.level(topic) != MINIMAL]
        needed_bytes = MINIMAL_BYTES * len(news)
        place = budget.free_bytes + sum(budget.committed((topic, FULL)) for topic in news)
        if news and place < needed_bytes:
            self._failures.update(dict.fromkeys(news, self._over(news, needed_bytes)))
            return ()
        effects: tuple[Effect, ...] = ()
        for topic in sorted(topics, key=replicas.level, reverse=True):  # the first make room
            self._asked.pop(topic, None)
            effects += replicas.watch(topic, now=now)
        return effects

    def _asked_together(self, states: Mapping[int, TopicState]) -> list[tuple[int, ...]]:
        """Return the topics that are to be raised and have answers, as they were asked for."""
        asked = dict.fromkeys(self._asked[topic] for topic in states if topic in self._asked)
        return [tuple(t for t in topics if t in states and t in self._asked) for topics in asked]

    def _admit(self, states: Sequence[TopicState]) -> None:
        """Raise topics to full, all of them or none."""
        needed_bytes = sum(state.full_bytes for state in states)
        topics = [state.topic for state in states]
        denied = [state.topic for state in states if state.answer == DENIED]
        for topic in topics:
            self._asked.pop(topic, None)
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
        """Give up what is pulled for what is to be held; nothing, if that would not do."""
        resident_set = self.replicas.resident_set
        return needed_bytes <= resident_set.spare_bytes and resident_set.fits(account, needed_bytes)

    def _over(self, topics: Sequence[int], needed_bytes: int) -> OverBudget:
        names = ", ".join(map(str, topics[:NAMED_MAX])) + ", …" * (len(topics) > NAMED_MAX)
        what = f"topic {names}" if len(topics) == 1 else f"a join of the topics {names}"
        if topics[0] == NAMESPACE:
            what = "the namespace"
        free_bytes = self.replicas.budget.free_bytes
        return OverBudget(what, needed_bytes=needed_bytes, free_bytes=free_bytes)

    def _renumber(self, num_topics: int) -> tuple[Effect, ...]:
        """Begin anew where topics are cut in another way: that is another epoch."""
        effects: tuple[Effect, ...] = ()
        for topic in tuple(self.replicas.followers):
            effects += self.replicas.drop(topic)
        self.num_topics = self.replicas.view.num_topics = num_topics
        self.planned, self._joins = None, False
        return effects

    def _status(self, now: float) -> Send:
        budget = self.replicas.budget
        lags = [self.replicas.standing.lag_s(topic, now=now) for topic in self.replicas.followers]
        lag_s = max((lag for lag in lags if lag != inf), default=0.0)
        return Send(
            CONTROL,
            Status(
                positions=self.replicas.standing.positions(),
                lag_us=int(lag_s * 1_000_000),
                held_bytes=budget.held_bytes,
                budget_bytes=budget.limit_bytes,
            ),
        )


def _nowhere(topic: int, level: int = FULL) -> Position:
    return Position(topic=topic, level=level, epoch=0, version=0)


def _denied(topic: int, level: str) -> UsageError:
    return UsageError(f"topic {topic}: level {level} is not offered (topicast mode shows what is)")
