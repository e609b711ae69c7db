"""TopicReplicas: which topics are followed at which level, and what of them memory may answer.

    none ──▶ minimal ──raise──▶ full comes, minimal stays live ──caught up──▶ full
      ▲         ▲──lower: full's content goes at once, full stays live until minimal is ──┘
      └─drop────┴───────────────────────────────────────────────────────────────────────┘

A follower is LIVE, or BEHIND until it is placed (minimal) or caught up (full). A topic is open to
readers while its follower is LIVE, of one epoch with the namespace, and has reached what was shown
of it; LIVE below that, only what a pull knows at or above it is. A level goes live only at or
above the position of the one that it replaces.
Invariant: the bytes held never exceed the budget; room is made first, by giving up what was
pulled, then by lowering the largest topics. The namespace is never lowered for another.
"""

from collections.abc import Callable, Iterable

from ...topics.bulk import CREDIT_DEFAULT, REFUSAL_COST, STUBS_BYTES_MAX, chunk_cost
from ...topics.entries import FULL, MINIMAL, NONE
from ...topics.errors import OverBudget
from ...topics.follower import LIVE, Apply, Follower, PeerAt, StreamLost, Tick, Want
from ...topics.follower import Effect as Step
from ...topics.follower import Fact as Told
from ...topics.sharding import NAMESPACE
from ...topics.wire.messages import Cancel, Chunk, Delta, Heartbeat, Position, Refused, Wanted
from ..protocol.facts import BULK, Effect, Send
from ..store.change_feed import ChangeFeed
from ..store.memory_budget import Account, Budget
from ..store.pin_policy import PinPolicy
from ..store.read_floor import ReadFloor
from ..store.resident_set import ResidentSet
from ..store.table_snapshot import TableSnapshot
from ..store.view import TopicView, View, full_topic_view
from .filling import Filling
from .standing import Standing
from .streams import Streams, placement


class TopicReplicas:
    """One follower for each topic that is followed, and one more while its level changes."""

    def __init__(
        self,
        view: View,
        budget: Budget,
        policy: PinPolicy,
        *,
        read_floor: ReadFloor,
        next_id: Callable[[], int],
    ) -> None:
        self.view = view
        self.budget = budget
        self.resident_set = ResidentSet(view, budget, policy)
        self.change_feed = ChangeFeed()
        self.filling = Filling(
            self.resident_set, policy, read_floor=read_floor, change_feed=self.change_feed
        )
        self.standing = Standing(read_floor)
        self.followers = self.standing.followers
        self.coming = self.standing.coming
        self.behind: dict[Account, Follower] = {}
        self.catch_ups = 0
        self.evicted: list[tuple[int, int]] = []  # (topic, bytes needed): lowered to make room
        self.over: OverBudget | None = None  # why the namespace could not be held
        self.changed = False  # what is followed differs from what the hub was told
        self._staged: dict[int, TopicView] = {}  # what a coming full brings
        self._joining: set[int] = set()  # at full, never LIVE yet
        self._policy = policy
        self._read_floor = read_floor
        self._next_id = next_id
        self._streams = Streams(next_id, self._expected)
        self._wants: dict[Account, Wanted] = {}

    def deadline(self, fenced: Callable[[Account], bool]) -> float | None:
        """The time at which ``tick`` has work to do."""
        times = [f.deadline for account, f in self.behind.items() if fenced(account)]
        return min((at for at in times if at is not None), default=None)

    def level(self, topic: int) -> int:
        """Return the level at which ``topic`` is held."""
        if topic not in self.followers:
            return NONE
        return MINIMAL if self.view.topics[topic].partial else FULL

    def wanted(self, topic: int) -> int:
        """Return the level at which ``topic`` will be held once its change is done."""
        coming = self.coming.get(topic)
        return self.level(topic) if coming is None else coming.level

    def admit(self, topic: int, reserve_bytes: int) -> None:
        """Follow ``topic`` at full, for which so many bytes are set aside."""
        if self.level(topic) == MINIMAL:
            old = self.followers[topic]
            if old.level == FULL:  # it is being lowered: that comes to its end at once
                self._succeed(topic, old)
            self.coming[topic] = self.behind[topic, FULL] = Follower(topic, FULL)
            self._staged[topic] = full_topic_view()
        else:
            self.followers[topic] = self.behind[topic, FULL] = Follower(topic, FULL)
            self.view.replace(topic, full_topic_view())
        self._joining.add(topic)
        self.budget.reserve((topic, FULL), reserve_bytes)
        self.gate(topic)
        self.changed = True

    def watch(self, topic: int, *, now: float) -> tuple[Effect, ...]:
        """Follow ``topic`` at minimal, whatever the level was; what was held is freed at once."""
        if self.wanted(topic) == MINIMAL:
            return ()
        old = self.followers.get(topic)
        effects = self._stop(self.coming.get(topic))
        if old is not None and old.level == MINIMAL:
            return effects
        follower = Follower(topic, MINIMAL)
        follower.opened(self._next_id(), now=now)  # in time it asks by itself, if it is not placed
        if old is not None and old.state is LIVE:
            self.coming[topic] = follower
        else:
            effects += self._stop(old)
            self.followers[topic] = follower
        self.behind[topic, MINIMAL] = follower
        self.change_feed.discard(topic)
        self.resident_set.begin_minimal(topic)
        self.gate(topic)
        self.changed = True
        return effects

    def drop(self, topic: int) -> tuple[Effect, ...]:
        """Forget ``topic``; what was shown of it stays a lower bound."""
        follower = self.followers[topic]
        if follower.state is LIVE:
            self._read_floor.answered(topic, (follower.epoch, follower.version))
        effects = self._stop(self.coming.get(topic)) + self._stop(follower)
        self.standing.current_at.pop(topic, None)
        self.resident_set.discard(topic)
        self.change_feed.discard(topic)
        if topic == NAMESPACE:
            for other in self.followers:
                self.gate(other)
        return effects

    def unplaced(self) -> tuple[int, ...]:
        """Return the topics at minimal that have no position yet."""
        return tuple(t for (t, level), f in self.behind.items() if level == MINIMAL and not f.epoch)

    def place(self, topic: int, epoch: int, version: int, *, now: float) -> tuple[Effect, ...]:
        """Let ``topic`` follow at minimal from where the hub stands: what came before is stale."""
        follower = self.behind.get((topic, MINIMAL))
        if follower is None or follower.epoch:
            return ()
        chunk = placement(Position(topic=topic, level=MINIMAL, epoch=epoch, version=version))
        follower.opened(chunk.stream, now=now)
        return self._tell((topic, MINIMAL), chunk, now=now)

    def on_delta(self, delta: Delta, *, now: float) -> tuple[Effect, ...]:
        """Take a delta of an accepted start."""
        if not self.standing.step(delta):
            return self._tell((delta.topic, delta.level), delta, now=now)
        effects = self._take((delta.topic, delta.level), Apply(delta))
        if not self.view.advance(delta.topic, (delta.epoch, delta.to_version)):
            self.gate(delta.topic)
        return effects

    def on_chunk(self, chunk: Chunk, *, now: float) -> tuple[Effect, ...]:
        """Take a part of a catch-up of an accepted start."""
        if not self._streams.topics(chunk.stream):
            return (Send(BULK, Cancel(stream=chunk.stream)),)
        for account in self._streams.topics(chunk.stream):
            self.standing.follower(account).on_stream_active(now=now)
        effects = self._tell((chunk.topic, chunk.level), chunk, now=now)
        return effects + self._credit(chunk.stream, chunk_cost(chunk))

    def strange_chunk(self, chunk: Chunk) -> tuple[Effect, ...]:
        """Drop a part that is of a start not accepted: give its stream back its credit only."""
        return self._credit(chunk.stream, chunk_cost(chunk))

    def on_refused(self, refused: Refused, *, now: float) -> tuple[Effect, ...]:
        """The hub does not answer a stream, or one topic of it, now."""
        for account in self._streams.topics(refused.request):
            if refused.topic in (-1, account[0]):
                self._tell(account, refused, now=now)
        return self._credit(refused.request, REFUSAL_COST)

    def on_heartbeat(
        self,
        heartbeat: Heartbeat,
        order: Iterable[int],
        *,
        fenced: Callable[[Account], bool],
        now: float,
    ) -> tuple[Effect, ...]:
        """Compare positions with the heartbeat of an accepted start, its topics in ``order``."""
        effects: tuple[Effect, ...] = ()
        for topic, version in zip(order, heartbeat.versions, strict=False):
            for follower in (self.followers.get(topic), self.coming.get(topic)):
                if follower is None:
                    continue
                account = (topic, follower.level)
                if (follower.epoch, follower.version) < (heartbeat.epoch, version):
                    ahead = PeerAt(heartbeat.epoch, version)
                    effects += self._tell(account, ahead, now=now) if fenced(account) else ()
                elif follower.state is LIVE:
                    self.standing.current_at[topic] = now
        return effects

    def tick(self, *, fenced: Callable[[Account], bool], now: float) -> tuple[Effect, ...]:
        """Let followers that are behind ask, first or again."""
        effects: tuple[Effect, ...] = ()
        for account, follower in list(self.behind.items()):
            if fenced(account) and follower.deadline is not None and now >= follower.deadline:
                effects += self._tell(account, Tick(), now=now)
        return effects

    def lose_streams(self, *, fenced: Callable[[Account], bool], now: float) -> tuple[Effect, ...]:
        """Ask anew for what is under way: the hub, or the accepted start, is another one."""
        self._streams.clear()
        effects: tuple[Effect, ...] = ()
        for account in list(self.behind):
            if fenced(account):
                effects += self._tell(account, StreamLost(), now=now)
        return effects

    def ask(self, *, now: float) -> tuple[Effect, ...]:
        """Return one request for all that is wanted, the namespace and small topics first."""
        if not self._wants:
            return ()
        order = sorted(self._wants, key=lambda a: (a[0] != NAMESPACE, self._expected(a), a))
        for account in order:
            if not self._expected(account):  # growth of unknown size: a place to begin with
                self.resident_set.reserve(account, CREDIT_DEFAULT)
        request = self._streams.open(self._wants[account] for account in order)
        self._wants.clear()
        self.catch_ups += 1
        for account in order:
            self.standing.follower(account).opened(request.stream, now=now)
        return (Send(BULK, request),)

    def gate(self, topic: int) -> None:
        """Open ``topic`` to readers, or shut it, by what it has reached and what was shown."""
        if self.standing.settled(topic):
            self.view.open(topic, self.standing.position(topic))
        else:
            self.view.close(topic, floor=self.standing.floor(topic, self.view.topics.get(topic)))

    def keep(self, topic: int, group: bytes, content: TableSnapshot, *, epoch: int) -> None:
        """Keep what was pulled, where stubs tell when it is stale, if it fits."""
        place = self.view.pulled(topic)
        if place is None or not self._keeps(topic, group):
            return
        if not place.epoch:
            place.epoch = epoch  # it came before its follower's position
        if place.epoch == epoch and content.at >= place.horizon:
            self.resident_set.keep(topic, group, content)
            self.gate(topic)

    def joined(self, topic: int, level: int) -> bool:
        """Tell whether ``topic`` is LIVE at ``level``, with nothing coming."""
        return self.level(topic) == self.wanted(topic) == level and self.standing.settled(topic)

    def committed_bytes(self, topic: int) -> int:
        """Return what ``topic`` counts in the budget, or has reserved there."""
        return self.budget.committed((topic, MINIMAL)) + self.budget.committed((topic, FULL))

    def held_bytes(self, topic: int) -> int:
        """Return what ``topic`` counts in the budget."""
        return self.budget.held((topic, MINIMAL)) + self.budget.held((topic, FULL))

    def check(self) -> None:
        """Assert every invariant."""
        self.resident_set.check()
        accounts = set(self.standing.accounts())
        self._streams.check(accounts)
        assert self.coming.keys() <= self.followers.keys()
        assert self._staged.keys() == {t for t, f in self.coming.items() if f.level == FULL}
        for account in accounts:
            follower = self.standing.follower(account)
            follower.check()
            assert (follower.state is not LIVE) is (account in self.behind), account
        for topic in self.followers:
            held = self.view.topics[topic]
            assert (held.moment is not None) is self.standing.settled(topic), topic
            assert held.moment is None or held.reached == self.standing.position(topic), topic
            assert held.floor in (None, self.standing.floor(topic, held)), topic
            of_minimal, of_full = (self.budget.held((topic, at)) for at in (MINIMAL, FULL))
            staged = self._staged.get(topic)
            if held.partial:
                assert held.held_bytes < of_minimal, topic
                assert of_full == (staged.held_bytes if staged else 0), topic
            else:
                aside = held.aside.held_bytes if held.aside else 0
                assert (of_minimal, of_full) == (aside, held.held_bytes), topic
        assert set(self.view.topics) == {*self.followers, NAMESPACE}

    def _tell(self, account: Account, fact: Told, *, now: float) -> tuple[Effect, ...]:
        follower = self.standing.at(account)
        if follower is None:
            return ()
        topic, stream, epoch = account[0], follower.stream, follower.epoch
        effects: list[Effect] = []
        for step in follower.handle(fact, now=now):
            effects += self._take(account, step)
            if self.standing.at(account) is not follower:
                return tuple(effects)  # it had to make room
        if stream and follower.stream != stream and self._streams.left(stream, account):
            effects += _cancelled(fact, stream)
        if follower.state is LIVE:
            self.behind.pop(account, None)
            if account[1] == FULL:
                self._joining.discard(topic)
        else:
            self.behind[account] = follower
        effects += self._replace(topic)
        moved = topic == NAMESPACE and follower.epoch != epoch
        for other in list(self.followers) if moved else (topic,):
            self.gate(other)
        return tuple(effects)

    def _keeps(self, topic: int, group: bytes) -> bool:
        """Tell whether a table may be kept: stubs of it are sent, not values."""
        if self._policy.banned(group):
            return False
        held = self.view.topics[topic]
        content = held.groups.get(group)
        withheld = content is not None and content.stubs > 0
        return held.partial or (withheld and self.followers[topic].state == LIVE)

    def _take(self, account: Account, step: Step) -> tuple[Effect, ...]:
        topic, level = account
        live = self.followers[topic].level == level
        place = self.view.topics[topic] if live or level == MINIMAL else self._staged[topic]
        if isinstance(step, Want):
            if live:
                self.view.close(topic)
            self._wants[account] = step.wanted
            return ()
        if level == MINIMAL:
            self.filling.minimal(step, place, live=live)
            return ()
        effects: list[Effect] = []

        def make_room(growth: int) -> bool:
            effects.extend(self._make_room(topic, growth))
            return self._staged.get(topic, self.view.topics.get(topic)) is place

        self.filling.full(step, place, live=live, fresh=topic in self._joining, make_room=make_room)
        return tuple(effects)

    def _replace(self, topic: int) -> tuple[Effect, ...]:
        """Let the coming follower of ``topic`` take over, once it stands where the old one does."""
        old, new = self.followers[topic], self.coming.get(topic)
        if new is None:
            return ()
        lost = (
            old.level == FULL and old.state is not LIVE
        )  # it would fetch what is not held any more
        if not lost and (
            new.state is not LIVE or (new.epoch, new.version) < (old.epoch, old.version)
        ):
            return ()
        if new.level == FULL:
            self._read_floor.answered(topic, (new.epoch, new.version))
            self.resident_set.begin_full(topic, self._staged.pop(topic))
        self.filling.between(old, new)
        return self._succeed(topic, old)

    def _succeed(self, topic: int, old: Follower) -> tuple[Effect, ...]:
        """Let the coming follower of ``topic`` be its only one."""
        self._read_floor.answered(topic, (old.epoch, old.version))
        effects = self._stop(old)
        self.followers[topic] = self.coming.pop(topic)
        return effects

    def _stop(self, follower: Follower | None) -> tuple[Effect, ...]:
        """Follow no longer by ``follower``; what it held stays."""
        if follower is None:
            return ()
        topic, level = account = (follower.topic, follower.level)
        if self.followers.get(topic) is follower:
            del self.followers[topic]
        else:
            del self.coming[topic]
            if self._staged.pop(topic, None) is not None:
                self.resident_set.release(account)
        self.behind.pop(account, None)
        self._wants.pop(account, None)
        if level == FULL:
            self._joining.discard(topic)
        self.changed = True
        return tuple(Send(BULK, Cancel(stream=one)) for one in self._streams.abandon(account))

    def _make_room(self, topic: int, growth: int) -> tuple[Effect, ...]:
        """Lower the largest topic; one that is only being joined gives way itself."""
        needed = self.budget.held((topic, FULL)) + growth
        victim = self.budget.largest(FULL, but=NAMESPACE)
        if victim is None and topic == NAMESPACE and self.resident_set.evict_largest_pin():
            return ()
        if victim is None or (topic in self._joining and topic != NAMESPACE):
            victim = topic
        if victim == NAMESPACE:
            free_bytes = self.budget.limit_bytes
            self.over = OverBudget("the namespace", needed_bytes=needed, free_bytes=free_bytes)
        elif victim != topic:
            needed = self.budget.held((victim, FULL))
        self.evicted.append((victim, needed))
        if victim in self.coming:
            return self._stop(self.coming[victim])
        return self.drop(victim)

    def _expected(self, account: Account) -> int:
        """Return how many bytes of ``account`` are expected: stubs come and are forgotten."""
        return STUBS_BYTES_MAX if account[1] == MINIMAL else self.budget.unfilled(account)

    def _credit(self, stream: int, cost: int) -> tuple[Effect, ...]:
        told = self._streams.processed(stream, cost)
        return () if told is None else (Send(BULK, told),)


def _cancelled(fact: Told, stream: int) -> tuple[Effect, ...]:
    ended = isinstance(fact, Refused) or (isinstance(fact, Chunk) and fact.last)
    return () if ended else (Send(BULK, Cancel(stream=stream)),)
