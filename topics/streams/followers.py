"""Followers: one for each topic and level, driven through catch-ups of one peer.

    fact ──▶ follower ──Want──▶ wants ──one CatchUp for all──▶ stream ──chunks──▶ followers
                                            ▲                    │ Credit, as chunks are processed
                                            └─── overdue, lost ──┘

A hub has followers of its publisher, a subscriber has followers of its hub. The owner applies the
steps that ``feed`` yields, and sends the messages.
Invariants: a stream without a topic is closed, so that its late chunks can be cancelled; a stream
never has more credit than CREDIT_DEFAULT, nor more than the bytes that its topics are expected to
bring, but at least one byte: with none it would never end.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ..clock import Clock
from ..newest import Newest
from ..wire.messages.connection import Refused
from ..wire.messages.data import Chunk
from ..wire.messages.readers import CatchUp, Credit, Wanted
from .follower import (
    LIVE,
    SILENCE_S,
    Adopted,
    Apply,
    CaughtUp,
    Due,
    Fact,
    File,
    Follower,
    PeerAt,
    Reset,
    StreamLost,
    Want,
)
from .sender import CREDIT_DEFAULT

ANSWERS_MAX: Final = 4  # how many times as long as its last answer the next of a peer may take
PATIENCE_S_MAX: Final = 60.0  # but no longer: 1,000 readers that join at once wait for each other
CANCELLED_MAX: Final = 64  # streams of which it is known when they were cancelled
CANCEL_AGAIN_S: Final = 1.0  # until a Cancel is repeated for what still comes of its stream

TopicLevel = tuple[int, int]  # a topic at a level


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Nothing more is expected of ``stream``, which has not ended by itself."""

    stream: int


Step = Apply | Reset | File | CaughtUp | Want | Adopted | Abandoned


@dataclass(slots=True)
class _Stream:
    """One answer of the peer."""

    active_at: float  # seconds: when it was opened, or its last message came
    waiting: dict[TopicLevel, bool]  # what it still has to bring: True until its turn has come
    silence_s: float  # after which it counts as lost
    credit: int = 0  # bytes: granted and not used, as far as we know
    used: int = 0  # bytes processed since the last look at whether to grant more


class Followers:
    """The followers by topic and level, and the catch-ups that they wait for."""

    def __init__(
        self,
        clock: Clock,
        *,
        next_id: Callable[[], int],
        credit_step: int,
        confirmed: Callable[[TopicLevel], bool] = lambda _: True,
        expected_bytes: Callable[[TopicLevel], int] = lambda _: CREDIT_DEFAULT,
        answer_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Begin with nothing followed.

        Args:
            clock: The turn of the core.
            next_id: Gives stream ids, never one twice.
            credit_step: Bytes; a Credit for less is not worth its frame.
            confirmed: Returns whether deltas are sure to come: it may catch up only then.
            expected_bytes: Returns how many bytes a catch-up may bring from now on.
            answer_s: Returns how many seconds the peer took for its last answer: a peer that is
                slow, as many join, is waited for longer.
        """
        self._clock = clock
        self._confirmed = confirmed
        self._expected_bytes = expected_bytes
        self._answer_s = answer_s
        self._next_id = next_id
        self._credit_step = credit_step
        self._followers: dict[TopicLevel, Follower] = {}  # of all that is followed
        self._behind: dict[TopicLevel, Follower] = {}  # those that are not LIVE
        self._wants: dict[TopicLevel, Wanted] = {}  # for the next request
        self._streams: dict[int, _Stream] = {}  # open streams by id; each has something to bring
        self._soonest: tuple[TopicLevel | None, float | None] | None = None
        """The topic level due first, and when; both None: none is; None: it is to be found."""
        self._cancelled = Newest[int, float](CANCELLED_MAX)  # streams by id: when each was last

    @property
    def behind(self) -> tuple[TopicLevel, ...]:
        """The topic levels that are being caught up, or wait for that."""
        return tuple(self._behind)

    @property
    def behind_count(self) -> int:
        """How many followers are not LIVE."""
        return len(self._behind)

    @property
    def is_all_behind(self) -> bool:
        """Whether no follower is LIVE."""
        return len(self._behind) == len(self._followers)

    @property
    def deadline(self) -> float | None:
        """The time at which ``overdue`` may have something."""
        if self._soonest is None or not self._is_due(*self._soonest):
            self._soonest = self._find_soonest()
        return self._soonest[1]

    @property
    def wanted(self) -> tuple[TopicLevel, ...]:
        """The content of the next request, in the order in which it was wanted."""
        return tuple(self._wants)

    def topic_levels(self) -> tuple[TopicLevel, ...]:
        """Return what is followed."""
        return tuple(self._followers)

    def get(self, topic_level: TopicLevel) -> Follower | None:
        """Return the follower of ``topic_level``, if it is followed."""
        return self._followers.get(topic_level)

    def follow(self, topic: int, level: int) -> Follower:
        """Return a new follower, which is behind."""
        follower = Follower(topic, level)
        self._followers[topic, level] = self._behind[topic, level] = follower
        self._soonest = None
        return follower

    def stop(self, topic_level: TopicLevel) -> tuple[int, ...]:
        """Follow ``topic_level`` no more; return the streams that are abandoned by that."""
        del self._followers[topic_level]
        self._behind.pop(topic_level, None)
        self._wants.pop(topic_level, None)
        serving = [stream for stream, one in self._streams.items() if topic_level in one.waiting]
        return tuple(stream for stream in serving if self._leave(stream, topic_level))

    def clear(self) -> None:
        """Follow nothing any more."""
        for held in (self._followers, self._behind, self._wants, self._streams):
            held.clear()
        self._soonest = None

    def feed(self, topic_level: TopicLevel, fact: Fact) -> Iterator[Step]:
        """Yield what ``fact`` means for a follower; each step is applied before the next is taken.

        Without a follower, or once a step had it stopped, there are none. PeerAt, StreamLost and
        Due, which no message of the topic has caused, change nothing until deltas are sure to come.
        """
        follower = self._followers.get(topic_level)
        if follower is None:
            return
        if isinstance(fact, PeerAt | StreamLost | Due) and not self._confirmed(topic_level):
            return
        stream = follower.stream
        for step in follower.handle(fact, now=self._clock.now):
            if isinstance(step, Want):
                self._wants[topic_level] = step.wanted
            yield step
            if self._followers.get(topic_level) is not follower:
                return
        if follower.state is LIVE:
            self._behind.pop(topic_level, None)
            self._wants.pop(topic_level, None)
        else:
            self._behind[topic_level] = follower
            self._note_due(topic_level, follower)
        left = stream and follower.stream != stream
        if left and self._leave(stream, topic_level) and not _ends_stream(fact):
            self._cancelled.put(stream, self._clock.now)
            yield Abandoned(stream)

    def note_active(self, stream: int, topic_level: TopicLevel) -> bool:
        """Take note that ``stream`` is active, at ``topic_level``; False if it is not open here."""
        found = self._streams.get(stream)
        if found is None:
            return False
        found.active_at = self._clock.now
        if topic_level in found.waiting:
            found.waiting[topic_level] = False
        return True

    def served_by(self, stream: int) -> tuple[TopicLevel, ...]:
        """Return what ``stream`` has still to bring."""
        found = self._streams.get(stream)
        return tuple(found.waiting) if found is not None else ()

    def must_cancel(self, stream: int) -> bool:
        """Return whether to send a Cancel of ``stream``, of which something came that is of no use.

        What the peer sent before it read the last Cancel still comes, and needs no other Cancel.
        """
        now = self._clock.now
        if now < self._cancelled.get(stream, -CANCEL_AGAIN_S) + CANCEL_AGAIN_S:
            return False
        self._cancelled.put(stream, now)
        return True

    def credit(self, stream: int) -> int:
        """Return the bytes that ``stream`` may still bring; 0 if it is not open."""
        found = self._streams.get(stream)
        return found.credit if found is not None else 0

    def processed(self, stream: int, cost: int) -> Credit | None:
        """Take note that ``cost`` bytes of a stream were processed; return what more may come."""
        found = self._streams.get(stream)
        if found is None:
            return None
        found.credit -= cost
        found.used += cost
        if found.used < self._credit_step and found.credit > 0:
            return None
        found.used = 0
        allowed = self._credit_max(found)
        amount = allowed - found.credit
        if amount < min(self._credit_step, allowed):
            return None
        found.credit += amount
        return Credit(stream=stream, amount=amount)

    def overdue(self) -> list[TopicLevel]:
        """Return what has waited long enough for its answer: each is to be fed a Due.

        A topic whose turn in a stream has not come waits on while the stream is active.
        """
        self._soonest = None  # also what is confirmed may be other topics
        now = self._clock.now
        found = []
        for topic_level, follower in self._behind.items():
            if follower.deadline is None or now < follower.deadline:
                continue
            stream = self._streams.get(follower.stream)
            waits = stream is not None and stream.waiting[topic_level]
            if stream is not None and waits and now < stream.active_at + stream.silence_s:
                follower.on_stream_active(now=stream.active_at)
            else:
                found.append(topic_level)
        return found

    def lose_streams(self) -> tuple[TopicLevel, ...]:
        """Close every stream: the peer is another; return what is to be fed a StreamLost."""
        self._streams.clear()
        return self.behind

    def discard_wants(self) -> None:
        """Discard what was wanted; a follower that is fed a StreamLost or a Due wants it again."""
        self._wants.clear()

    def request(self, topic_levels: Iterable[TopicLevel]) -> CatchUp | None:
        """Return one request for all of ``topic_levels``, which are wanted; None without any."""
        wanted = tuple(self._wants.pop(topic_level) for topic_level in topic_levels)
        if not wanted:
            return None
        now, stream = self._clock.now, self._next_id()
        silence_s = max(patience_s(self._answer_s()), SILENCE_S)
        opened = _Stream(now, {(one.topic, one.level): True for one in wanted}, silence_s)
        opened.credit = self._credit_max(opened)
        self._streams[stream] = opened
        for topic_level in opened.waiting:
            self._followers[topic_level].opened(stream, now=now, silence_s=silence_s)
            self._note_due(topic_level, self._followers[topic_level])
        return CatchUp(stream=stream, credit=opened.credit, wanted=wanted)

    def check(self) -> None:
        """Assert every invariant."""
        for topic_level, follower in self._followers.items():
            follower.check()
            assert topic_level == (follower.topic, follower.level)
            assert (follower.state is not LIVE) is (topic_level in self._behind), topic_level
        assert self._behind.keys() <= self._followers.keys()
        assert self._wants.keys() <= self._behind.keys()
        known = self._soonest
        assert known is None or not self._is_due(*known) or known[1] == self._find_soonest()[1]
        for stream in self._streams.values():
            assert stream.waiting
            assert stream.waiting.keys() <= self._followers.keys()
            assert stream.credit <= CREDIT_DEFAULT

    def _is_due(self, topic_level: TopicLevel | None, at: float | None) -> bool:
        """Return whether ``topic_level`` is still due ``at`` a time; None: that nothing is due."""
        if topic_level is None:
            return True
        follower = self._behind.get(topic_level)
        return follower is not None and follower.deadline == at and self._confirmed(topic_level)

    def _find_soonest(self) -> tuple[TopicLevel | None, float | None]:
        """Return what is due first; of several the last, which a stream brings last."""
        soonest: TopicLevel | None = None
        soonest_at: float | None = None
        for topic_level, one in self._behind.items():
            at = one.deadline
            is_sooner = at is not None and (soonest_at is None or at <= soonest_at)
            if is_sooner and self._confirmed(topic_level):
                soonest, soonest_at = topic_level, at
        return soonest, soonest_at

    def _note_due(self, topic_level: TopicLevel, follower: Follower) -> None:
        """Note that ``topic_level`` is due first, if it is."""
        if self._soonest is None:
            return
        at, soonest_at = follower.deadline, self._soonest[1]
        if (
            at is not None
            and (soonest_at is None or at <= soonest_at)
            and self._confirmed(topic_level)
        ):
            self._soonest = topic_level, at

    def _leave(self, stream: int, topic_level: TopicLevel) -> bool:
        """Expect ``topic_level`` no longer of ``stream``; True if that leaves nothing to expect."""
        found = self._streams.get(stream)
        if found is None:
            return False
        found.waiting.pop(topic_level, None)
        if found.waiting:
            return False
        del self._streams[stream]
        return True

    def _credit_max(self, stream: _Stream) -> int:
        allowed = 0
        for topic_level in stream.waiting:
            allowed += self._expected_bytes(topic_level)
            if allowed >= CREDIT_DEFAULT:
                return CREDIT_DEFAULT
        return max(allowed, 1)


def patience_s(answer_s: float) -> float:
    """Return how long to wait for a peer that took ``answer_s`` for its last answer.

    A request to a slow peer, as many join, is not repeated: that would make it slower.
    """
    return min(ANSWERS_MAX * answer_s, PATIENCE_S_MAX)


def _ends_stream(fact: Fact) -> bool:
    """Return whether the peer itself has said that nothing more comes."""
    return isinstance(fact, Refused) or (isinstance(fact, Chunk) and fact.last)
