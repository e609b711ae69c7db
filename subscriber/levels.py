"""Levels: the topics that are followed, and what of them memory may answer.

    admit ──▶ BEHIND ──catch-up, under credit──▶ LIVE ──gap──▶ BEHIND    drop: forgotten at once

A topic is open to readers while it is LIVE, of one epoch with the namespace, and has reached what
was shown of it.
Invariant: the bytes held never exceed the budget; what does not fit is not put in place, room is
made first, by dropping the largest topics. The namespace is never dropped for another.
"""

from collections.abc import Callable, Iterable

from ..topics.bulk import CREDIT_DEFAULT, REFUSAL_COST, chunk_cost
from ..topics.entries import FULL, Entry
from ..topics.errors import OverBudget
from ..topics.follower import (
    LIVE,
    Ahead,
    Apply,
    CaughtUp,
    File,
    Follower,
    Reset,
    StreamLost,
    Tick,
    Want,
)
from ..topics.follower import Effect as Step
from ..topics.follower import Fact as Told
from ..topics.sharding import NAMESPACE
from ..topics.wire.messages import Beacon, Cancel, Chunk, Delta, Position, Refused, Wanted
from .budget import Budget
from .facts import BULK, Change, Changed, Effect, Send
from .journal import Journal
from .shown import Shown
from .streams import Streams
from .view import Swap, View


class Levels:
    """One follower for each topic at ``full``; all others are at ``none``."""

    def __init__(
        self, view: View, budget: Budget, *, shown: Shown, next_id: Callable[[], int]
    ) -> None:
        self.view = view
        self.budget = budget
        self.journal = Journal()
        self.followers: dict[int, Follower] = {}
        self.behind: dict[int, Follower] = {}
        self.catch_ups = 0
        self.evicted: list[tuple[int, int]] = []  # (topic, bytes needed): dropped to make room
        self.over: OverBudget | None = None  # why the namespace could not be held
        self._joining: set[int] = set()  # never LIVE yet
        self._slack: set[int] = set()  # whose reservation is a guess
        self._shown = shown
        self._current_at: dict[int, float] = {}
        self._streams = Streams(next_id, budget.unfilled)
        self._wants: dict[int, Wanted] = {}

    def deadline(self, fenced: Callable[[int], bool]) -> float | None:
        """The time at which ``tick`` has work to do."""
        times = [f.deadline for t, f in self.behind.items() if fenced(t)]
        return min((at for at in times if at is not None), default=None)

    def admit(self, topic: int, reserve_bytes: int) -> None:
        """Follow ``topic``, for which so many bytes are set aside."""
        self.followers[topic] = self.behind[topic] = Follower(topic, FULL)
        self._joining.add(topic)
        self.budget.reserve(topic, reserve_bytes)

    def drop(self, topic: int) -> tuple[Effect, ...]:
        """Forget ``topic``; what was shown of it stays a lower bound."""
        del self.followers[topic]
        self.behind.pop(topic, None)
        self._wants.pop(topic, None)
        self._joining.discard(topic)
        self._slack.discard(topic)
        self._current_at.pop(topic, None)
        self.view.forget(topic)
        self.budget.release(topic)
        self.journal.forget(topic)
        return tuple(Send(BULK, Cancel(stream=one)) for one in self._streams.abandon(topic))

    def on_delta(self, delta: Delta, *, now: float) -> tuple[Effect, ...]:
        """Take a delta of an accepted start."""
        if delta.level != FULL:
            return ()
        return self._tell(delta.topic, delta, now=now)

    def on_chunk(self, chunk: Chunk, *, now: float) -> tuple[Effect, ...]:
        """Take a part of a catch-up of an accepted start."""
        if not self._streams.topics(chunk.stream):
            return (Send(BULK, Cancel(stream=chunk.stream)),)
        self._alive(chunk.stream, now)
        effects = self._tell(chunk.topic, chunk, now=now)
        return effects + self._credit(chunk.stream, chunk_cost(chunk))

    def strange_chunk(self, chunk: Chunk) -> tuple[Effect, ...]:
        """Drop a part that is of a start not accepted: give its stream back its credit only."""
        return self._credit(chunk.stream, chunk_cost(chunk))

    def on_refused(self, refused: Refused, *, now: float) -> tuple[Effect, ...]:
        """The hub does not answer a stream, or one topic of it, now."""
        for topic in self._streams.topics(refused.request):
            if refused.topic in (-1, topic):
                self._tell(topic, refused, now=now)
        return self._credit(refused.request, REFUSAL_COST)

    def on_beacon(
        self, beacon: Beacon, order: Iterable[int], *, fenced: Callable[[int], bool], now: float
    ) -> tuple[Effect, ...]:
        """Compare positions with the beacon of an accepted start, its topics in ``order``."""
        effects: tuple[Effect, ...] = ()
        for topic, version in zip(order, beacon.versions, strict=False):
            follower = self.followers.get(topic)
            if follower is None:
                continue
            if (follower.epoch, follower.version) >= (beacon.epoch, version):
                if follower.state == LIVE:
                    self._current_at[topic] = now
            elif fenced(topic):
                effects += self._tell(topic, Ahead(beacon.epoch, version), now=now)
        return effects

    def tick(self, *, fenced: Callable[[int], bool], now: float) -> tuple[Effect, ...]:
        """Let followers that are behind ask, first or again."""
        effects: tuple[Effect, ...] = ()
        for topic, follower in list(self.behind.items()):
            if fenced(topic) and follower.deadline is not None and now >= follower.deadline:
                effects += self._tell(topic, Tick(), now=now)
        return effects

    def lose_streams(self, *, fenced: Callable[[int], bool], now: float) -> tuple[Effect, ...]:
        """Ask anew for what is under way: the hub, or the accepted start, is another one."""
        self._streams.clear()
        effects: tuple[Effect, ...] = ()
        for topic in list(self.behind):
            if fenced(topic):
                effects += self._tell(topic, StreamLost(), now=now)
        return effects

    def ask(self, *, now: float) -> tuple[Effect, ...]:
        """Return one request for all that is wanted, the namespace and small topics first."""
        if not self._wants:
            return ()
        order = sorted(self._wants, key=lambda t: (t != NAMESPACE, self.budget.unfilled(t), t))
        for topic in order:
            if not self.budget.unfilled(topic):  # growth of unknown size: a place to begin with
                room = min(max(self.budget.free_bytes, 0), CREDIT_DEFAULT)
                self.budget.reserve(topic, self.budget.held(topic) + room)
                self._slack.add(topic)
        request = self._streams.open(self._wants[topic] for topic in order)
        self._wants.clear()
        self.catch_ups += 1
        for topic in order:
            self.followers[topic].opened(request.stream, now=now)
        return (Send(BULK, request),)

    def fits(self, topic: int, size: int) -> bool:
        """Tell whether ``topic`` may hold ``size`` bytes more, nothing being dropped for it."""
        if not self.budget.fits(topic, size):
            self._yield_slack()
        return self.budget.fits(topic, size)

    def gate(self, topic: int) -> None:
        """Open ``topic`` to readers, or shut it, by what it has reached and what was shown."""
        if self.settled(topic):
            self.view.open(topic)
        else:
            self.view.shut(topic)

    def reached(self, topic: int, position: tuple[int, int]) -> bool:
        """Tell whether ``topic`` is LIVE at or above ``position``."""
        follower = self.followers.get(topic)
        if follower is None or follower.state != LIVE:
            return False
        return (follower.epoch, follower.version) >= position

    def stands_at(self, topic: int, position: tuple[int, int]) -> bool:
        """Tell whether ``topic`` is LIVE at exactly ``position``."""
        follower = self.followers.get(topic)
        if follower is None or follower.state != LIVE:
            return False
        return (follower.epoch, follower.version) == position

    def version(self, topic: int) -> int:
        """Return the version at which ``topic`` stands, or was last shown."""
        follower = self.followers.get(topic)
        return self._shown.of(topic)[1] if follower is None else follower.version

    def settled(self, topic: int) -> bool:
        """Tell whether ``topic`` is LIVE, of the namespace's epoch, and at or above all shown.

        Incarnations mean something within one epoch only.
        """
        namespace = self.followers.get(NAMESPACE)
        if namespace is None or not self.reached(topic, self._shown.of(topic)):
            return False
        return self.followers[topic].epoch == namespace.epoch

    def versions(self, epoch: int) -> tuple[tuple[int, int], ...]:
        """Return (topic, version) of everything shown, held or queued in ``epoch``, sorted."""
        versions = dict(self._shown.versions(epoch))
        for topic, follower in self.behind.items():
            for delta in follower.queued():
                if delta.epoch == epoch:
                    versions[topic] = max(versions.get(topic, 0), delta.to_version)
        return tuple(sorted(versions.items()))

    def positions(self) -> tuple[Position, ...]:
        """Return where each follower stands."""
        return tuple(
            Position(topic=f.topic, level=FULL, epoch=f.epoch, version=f.version)
            for f in self.followers.values()
        )

    def lag_s(self, topic: int, *, now: float) -> float:
        """Tell how long ago ``topic`` was last known to be current; infinite if it never was."""
        at = self._current_at.get(topic)
        return float("inf") if at is None else max(now - at, 0.0)

    def check(self) -> None:
        """Assert every invariant."""
        self.view.check()
        self.budget.check()
        self._streams.check(self.followers)
        for topic, follower in self.followers.items():
            follower.check()
            assert (follower.state != LIVE) is (topic in self.behind), topic
            held = self.view.topics.get(topic)
            held_bytes = held.held_bytes if held is not None else 0
            assert held_bytes == self.budget.held(topic), topic
            is_open = held is not None and held.moment is not None
            assert is_open is self.settled(topic), topic
        assert set(self.view.topics) <= {*self.followers, NAMESPACE}

    def _tell(self, topic: int, fact: Told, *, now: float) -> tuple[Effect, ...]:
        follower = self.followers.get(topic)
        if follower is None:
            return ()
        stream, epoch = follower.stream, follower.epoch
        steps = follower.handle(fact, now=now)
        effects: list[Effect] = []
        for step in steps:
            effects += self._take(topic, step)
            if topic not in self.followers:
                return tuple(effects)  # it was dropped to make room
        if stream and follower.stream != stream and self._streams.left(stream, topic):
            effects += self._cancelled(fact, stream)
        if follower.state == LIVE:
            self.behind.pop(topic, None)
        else:
            self.behind[topic] = follower
        moved = topic == NAMESPACE and follower.epoch != epoch
        for other in list(self.followers) if moved else (topic,):
            self.gate(other)
        return tuple(effects)

    def _cancelled(self, fact: Told, stream: int) -> tuple[Effect, ...]:
        ended = isinstance(fact, Refused) or (isinstance(fact, Chunk) and fact.last)
        return () if ended else (Send(BULK, Cancel(stream=stream)),)

    def _take(self, topic: int, step: Step) -> tuple[Effect, ...]:
        match step:
            case Want(wanted=wanted):
                self.view.shut(topic)
                self._wants[topic] = wanted
                return ()
            case Reset():
                return self._reset(topic)
            case File(chunk=chunk):
                self._shown.rise(topic, (chunk.epoch, chunk.to_version))
                swaps, effects = self._put(topic, chunk.entries)
                if topic not in self._joining:  # a first content is no change
                    self.journal.filed(topic, swaps)
                return effects
            case CaughtUp(chunk=chunk, from_version=from_version):
                self.budget.reserve(topic, 0)
                self._joining.discard(topic)
                self._slack.discard(topic)
                self._shown.rise(topic, (chunk.epoch, max(chunk.to_version, from_version)))
                groups = self.view.groups(topic)
                return _told(self.journal.caught_up(topic, chunk.to_version, groups))
            case _:
                assert isinstance(step, Apply)
                delta = step.delta
                swaps, effects = self._put(topic, delta.entries)
                self._shown.rise(topic, (delta.epoch, delta.to_version))
                return effects + _told(self.journal.applied(delta, swaps))

    def _reset(self, topic: int) -> tuple[Effect, ...]:
        self.journal.reset(topic, self.view.groups(topic))
        place = self.budget.held if topic in self._slack else self.budget.committed
        self.budget.reserve(topic, place(topic))  # which stays its own
        self._slack.discard(topic)
        self.budget.hold(topic, -self.budget.held(topic))
        self.view.forget(topic)
        return ()

    def _put(self, topic: int, entries: Iterable[Entry]) -> tuple[list[Swap], tuple[Effect, ...]]:
        swaps, growth = self.view.prepare(topic, entries)
        effects: tuple[Effect, ...] = ()
        while not self.fits(topic, growth):
            effects += self._make_room(topic, growth)
            if topic not in self.followers:
                return [], effects
        self.view.install(topic, swaps, growth)
        self.budget.hold(topic, growth)
        return swaps, effects

    def _make_room(self, topic: int, growth: int) -> tuple[Effect, ...]:
        """Drop the largest topic; one that is only being joined gives way itself."""
        victim = self.budget.largest(NAMESPACE)
        if victim is None or (topic in self._joining and topic != NAMESPACE):
            victim = topic
        needed = self.budget.held(topic) + growth
        if victim == NAMESPACE:
            free_bytes = self.budget.limit_bytes
            self.over = OverBudget("the namespace", needed_bytes=needed, free_bytes=free_bytes)
        self.evicted.append((victim, needed if victim == topic else self.budget.held(victim)))
        return self.drop(victim)

    def _yield_slack(self) -> None:
        """Take back what was set aside for growth of unknown size, which is no reason to drop."""
        for topic in self._slack:
            self.budget.reserve(topic, 0)
        self._slack.clear()

    def _alive(self, stream: int, now: float) -> None:
        for topic in self._streams.topics(stream):
            self.followers[topic].heard(now=now)

    def _credit(self, stream: int, cost: int) -> tuple[Effect, ...]:
        told = self._streams.processed(stream, cost)
        return () if told is None else (Send(BULK, told),)


def _told(changes: tuple[Change, ...]) -> tuple[Effect, ...]:
    return (Changed(changes),) if changes else ()
