"""Follower: a reader's position in one topic at one level, as a pure state machine.

    BEHIND ──caught up──▶ LIVE ──gap | stubbed at FULL | newer epoch──▶ BEHIND (wants a catch-up)

Invariant: while LIVE, every entry up to ``version`` of ``epoch`` has been applied, none after it.
A hub follows its publisher by the same rules as a reader follows its hub.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from .entries import FULL
from .wire.codec import row_bytes
from .wire.messages import Chunk, Delta, Refused, Wanted

BEHIND: Final = "BEHIND"
LIVE: Final = "LIVE"

QUEUE_MAX: Final = 4096  # deltas held during one catch-up; beyond, a second catch-up is cheaper
QUEUE_BYTES_MAX: Final = 4 << 20
SILENCE_S: Final = 2.0  # without a chunk for so long a stream counts as lost
RETRY_S: Final = 0.2  # between two requests for the same topic


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply ``delta``; the position has moved to its ``to_version``."""

    delta: Delta


@dataclass(frozen=True, slots=True)
class Reset:
    """Forget the topic: a snapshot of ``epoch`` begins."""

    topic: int
    level: int
    epoch: int


@dataclass(frozen=True, slots=True)
class File:
    """Apply the entries of ``chunk``; the position has not moved."""

    chunk: Chunk


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The catch-up is complete: the position moved from ``from_version`` to that of ``chunk``."""

    chunk: Chunk
    from_version: int


@dataclass(frozen=True, slots=True)
class Want:
    """Ask for a catch-up; the answer belongs to the stream named by ``Follower.opened``."""

    wanted: Wanted


Effect = Apply | Reset | File | CaughtUp | Want


@dataclass(frozen=True, slots=True)
class Ahead:
    """A beacon says that the topic stands at ``version`` of ``epoch``."""

    epoch: int
    version: int


@dataclass(frozen=True, slots=True)
class StreamLost:
    """The connection or the peer of the open stream is gone."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Fact = Delta | Chunk | Refused | Ahead | StreamLost | Tick


class Follower:
    """One topic at one level; ``epoch`` and ``version`` say what has been applied."""

    def __init__(self, topic: int, level: int, *, epoch: int = 0, version: int = 0) -> None:
        self.topic = topic
        self.level = level
        self.epoch = epoch
        self.version = version
        self.state = BEHIND
        self.stream = 0  # 0: none is open
        self._sequence = 0
        self._resume: tuple[int, bytes, int] | None = None
        self._snapshot = False
        self._queue: deque[Delta] = deque()
        self._queue_bytes = 0
        self._ask_at: float | None = 0.0  # when BEHIND: the next time to ask; None: an answer runs

    @property
    def deadline(self) -> float | None:
        """The time at which a Tick has work to do; None while LIVE."""
        return self._ask_at if self.state == BEHIND else None

    def handle(self, fact: Fact, *, now: float) -> tuple[Effect, ...]:
        """Decide what ``fact`` means for the position."""
        match fact:
            case Delta():
                return self._on_delta(fact, now)
            case Chunk():
                return self._on_chunk(fact, now)
            case Ahead():
                return self._on_ahead(fact, now)
            case Refused():
                return self._on_refused(fact, now)
            case StreamLost():
                return self._on_lost(now)
            case Tick():
                return self._on_tick(now)

    def opened(self, stream: int, *, now: float) -> None:
        """Learn the id of the stream that answers the last Want."""
        self.stream = stream
        self._sequence = 0
        self._ask_at = now + SILENCE_S

    def queued(self) -> tuple[Delta, ...]:
        """Return the deltas that wait for the end of the catch-up."""
        return tuple(self._queue)

    def check(self) -> None:
        """Assert every invariant."""
        assert self.state in (BEHIND, LIVE)
        assert self.state == BEHIND or not (self._queue or self.stream or self._resume)
        assert len(self._queue) <= QUEUE_MAX
        assert self._queue_bytes <= QUEUE_BYTES_MAX
        assert self.version >= 0

    def _on_delta(self, delta: Delta, now: float) -> tuple[Effect, ...]:
        if (delta.epoch, delta.to_version) <= (self.epoch, self.version):
            return ()  # late or doubled: neither an old delta nor an old life rolls us back
        if self.state == BEHIND:
            return self._queue_up(delta)
        if delta.epoch > self.epoch or delta.from_version > self.version:
            return self._fall_behind(now)
        if self.level == FULL and delta.stubbed:
            return self._fall_behind(now)  # its values are where the catch-up is
        self.version = delta.to_version
        return (Apply(delta),)

    def _on_chunk(self, chunk: Chunk, now: float) -> tuple[Effect, ...]:
        if not self.stream or chunk.stream != self.stream or self.state == LIVE:
            return ()  # of a stream that was given up
        if chunk.sequence < self._sequence:
            return ()  # doubled
        if chunk.sequence > self._sequence or chunk.first != (chunk.sequence == 0):
            return self._on_lost(now)  # one is missing: resume after the last that came
        if chunk.epoch < self.epoch or (not chunk.snapshot and chunk.epoch != self.epoch):
            return self._on_lost(now)
        self._sequence += 1
        self._ask_at = now + SILENCE_S
        effects = self._begin(chunk) if chunk.first else ()
        if chunk.entries or chunk.horizon:
            effects += (File(chunk),)
            cut = self._resume[2] if self._resume else chunk.to_version
            self._resume = (chunk.resume_version, chunk.resume_key, cut)
        return effects + (self._end(chunk, now) if chunk.last else ())

    def _begin(self, chunk: Chunk) -> tuple[Effect, ...]:
        if not chunk.snapshot:
            return ()
        self.epoch, self.version = chunk.epoch, 0
        self._snapshot, self._resume = True, None
        return (Reset(self.topic, self.level, chunk.epoch),)

    def _end(self, chunk: Chunk, now: float) -> tuple[Effect, ...]:
        before = self.version
        self.version = max(self.version, chunk.to_version)
        self.state, self.stream, self._resume, self._snapshot = LIVE, 0, None, False
        self._ask_at = None
        effects: tuple[Effect, ...] = (CaughtUp(chunk, before),)
        queue, self._queue, self._queue_bytes = self._queue, deque(), 0
        for delta in queue:
            effects += self._on_delta(delta, now)
        return effects

    def _on_ahead(self, fact: Ahead, now: float) -> tuple[Effect, ...]:
        if self.state == LIVE and (fact.epoch, fact.version) > (self.epoch, self.version):
            return self._fall_behind(now)
        return ()

    def _on_refused(self, fact: Refused, now: float) -> tuple[Effect, ...]:
        if self.state == BEHIND and fact.request == self.stream:
            self.stream = 0
            self._ask_at = now + max(fact.retry_ms / 1000, RETRY_S)
        return ()

    def _on_lost(self, now: float) -> tuple[Effect, ...]:
        if self.state == LIVE:
            return ()
        self.stream = 0
        self._ask_at = now + RETRY_S
        return (self._want(),)

    def _on_tick(self, now: float) -> tuple[Effect, ...]:
        if self.state == LIVE or self._ask_at is None or now < self._ask_at:
            return ()
        return self._on_lost(now)

    def _fall_behind(self, now: float) -> tuple[Effect, ...]:
        self.state = BEHIND
        self._ask_at = now + RETRY_S
        return (self._want(),)

    def _want(self) -> Want:
        resume_version, resume_key, cut = self._resume or (0, b"", 0)
        return Want(
            Wanted(
                topic=self.topic,
                level=self.level,
                epoch=self.epoch,
                version=self.version,
                resume_version=resume_version,
                resume_key=resume_key,
                cut=cut if self._snapshot else 0,
            )
        )

    def _queue_up(self, delta: Delta) -> tuple[Effect, ...]:
        size = sum(map(row_bytes, delta.entries))
        if len(self._queue) >= QUEUE_MAX or self._queue_bytes + size > QUEUE_BYTES_MAX:
            self._queue.clear()  # the gap after this catch-up will order another
            self._queue_bytes = 0
        if size <= QUEUE_BYTES_MAX:
            self._queue.append(delta)
            self._queue_bytes += size
        return ()
