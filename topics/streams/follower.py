"""Follower: a reader's position in one topic at one level, as a pure state machine.

    BEHIND ──caught up──▶ LIVE ──gap | stubbed at FULL | newer epoch──▶ BEHIND (wants a catch-up)

Invariant: while LIVE, every entry up to ``version`` of ``epoch`` has been applied, none after it;
within an epoch no LIVE version is below another that was LIVE before it. A hub follows its
publisher by the same rules as a reader follows its hub.
"""

from collections import deque
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from ..backports import assert_never
from ..topic import FULL
from ..wire.codec import row_bytes
from ..wire.messages.connection import Refused
from ..wire.messages.data import Chunk, Delta
from ..wire.messages.readers import Wanted


class FollowerState(Enum):
    """Whether the position can move by deltas."""

    BEHIND = "BEHIND"  # a catch-up is wanted, or under way
    LIVE = "LIVE"


BEHIND: Final = FollowerState.BEHIND
LIVE: Final = FollowerState.LIVE

QUEUE_MAX: Final = 4096  # deltas held during one catch-up; beyond, a second catch-up is cheaper
QUEUE_BYTES_MAX: Final = 4 << 20
SILENCE_S: Final = 2.0  # without a chunk for so long a stream counts as lost
SILENCE_S_MAX: Final = 16.0  # after others were lost: more requests would make the peer slower
RETRY_S: Final = 0.2  # between two requests of which the first brought nothing
RETRY_S_MAX: Final = 10.0  # the longest that a refusal can make us wait


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply ``delta``; the position has moved to its ``to_version``."""

    delta: Delta


@dataclass(frozen=True, slots=True)
class Reset:
    """Discard the topic: a snapshot of ``epoch`` begins."""

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
    """Request a catch-up; the answer belongs to the stream named by ``Follower.opened``."""

    wanted: Wanted


@dataclass(frozen=True, slots=True)
class Adopted:
    """The position is ``version`` of ``epoch``; what changed up to it is not known."""

    topic: int
    epoch: int
    version: int


Effect = Apply | Reset | File | CaughtUp | Want | Adopted


@dataclass(frozen=True, slots=True)
class PeerAt:
    """A heartbeat says that the peer has ``version`` of ``epoch``."""

    epoch: int
    version: int


@dataclass(frozen=True, slots=True)
class StreamLost:
    """The connection or the peer of the open stream is gone."""


@dataclass(frozen=True, slots=True)
class Due:
    """The follower's deadline has come: it requests a catch-up, for the first time or again."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """The peer's position, which a follower without one takes: all later deltas will come."""

    epoch: int
    version: int


Fact = Delta | Chunk | Refused | PeerAt | Adopt | StreamLost | Due


class Follower:
    """One topic at one level; ``epoch`` and ``version`` say what has been applied."""

    def __init__(self, topic: int, level: int, *, epoch: int = 0, version: int = 0) -> None:
        self.topic = topic
        self.level = level
        self.epoch = epoch
        self.version = version
        self.state: FollowerState = BEHIND
        self.stream = 0  # 0: none is open
        self._sequence = 0  # of the next chunk of the open stream
        self._token: tuple[int, bytes] | None = None  # the last entry filed since the position
        self._tombstones_after = 0
        """The lowest ``to_version`` of the chunks filed since the position; 0: none was. None of
        them brought what was deleted up to it, and a resumed snapshot needs no tombstone of it."""
        self._may_end_from = 0
        """The highest ``to_version`` of the chunks filed since the position, and of what was LIVE
        before in this epoch. An entry may be as new, so that a catch-up may not end below it."""
        self._progressed = True  # whether the last request brought anything
        self._requested_at = 0.0  # seconds: of the last request
        self._request_at = 0.0  # seconds: when BEHIND, the time of the next request
        self._silence_s = SILENCE_S  # after which the open stream has timed out
        self._queue: deque[Delta] = deque()  # deltas that came while BEHIND, in order
        self._queue_bytes = 0  # their rows
        self._now = 0.0  # seconds: when the fact came that is being handled
        self._effects: list[Effect] = []  # of that fact, in their order

    @property
    def deadline(self) -> float | None:
        """When the follower is to be fed a Due; None while it is LIVE."""
        return self._request_at if self.state is BEHIND else None

    def handle(self, fact: Fact, *, now: float) -> tuple[Effect, ...]:
        """Decide what ``fact`` means for the position."""
        self._now = now
        match fact:
            case Delta():
                self._on_delta(fact)
            case Chunk():
                self._on_chunk(fact)
            case PeerAt():
                self._on_peer_at(fact)
            case Adopt():
                self._on_adopt(fact)
            case Refused():
                self._on_refused(fact)
            case StreamLost():
                self._on_lost()
            case Due():
                self._on_due()
            case _:
                assert_never(fact)
        effects = tuple(self._effects)
        self._effects.clear()
        return effects

    def step(self, epoch: int, from_version: int, to_version: int) -> bool:
        """Move over a delta with values that just follows; return whether it did.

        The hot path of a hub: what ``handle`` would answer with Apply, without building a Delta.
        A delta that overlaps is for ``handle``, which leaves out what has been applied.
        """
        if from_version != self.version or epoch != self.epoch or self.state is not LIVE:
            return False
        self.version = to_version
        return True

    def opened(self, stream: int, *, now: float, silence_s: float = SILENCE_S) -> None:
        """Take the id of the stream that answers the last Want; never an id used before.

        ``silence_s``: the shortest wait for its first chunk.
        """
        self.stream = stream
        self._silence_s = max(self._silence_s, silence_s)
        self._sequence = 0
        self._request_at = now + self._silence_s

    def on_stream_active(self, *, now: float) -> None:
        """Wait for the open stream anew: it carries another topic, or waits for credit."""
        if self.stream:
            self._request_at = now + self._silence_s

    def queued(self) -> tuple[Delta, ...]:
        """Return the deltas that wait for the end of the catch-up."""
        return tuple(self._queue)

    def check(self) -> None:
        """Assert every invariant."""
        assert self.state in (BEHIND, LIVE)
        assert self.state is BEHIND or not (self._queue or self.stream or self._token)
        assert self.state is BEHIND or not (self._tombstones_after or self._may_end_from)
        assert self._token is None or self._token[0] <= self._may_end_from
        assert self._tombstones_after <= self._may_end_from
        assert len(self._queue) <= QUEUE_MAX
        assert self._queue_bytes == sum(map(_delta_bytes, self._queue)) <= QUEUE_BYTES_MAX
        assert self.version >= 0
        assert not self._effects

    def _on_delta(self, delta: Delta) -> None:
        if (delta.epoch, delta.to_version) <= (self.epoch, self.version):
            return  # late or doubled: neither an old delta nor an old epoch rolls us back
        if self.state is BEHIND:
            self._queue_up(delta)
            return
        gap = delta.epoch > self.epoch or delta.from_version > self.version
        if gap or (self.level == FULL and (delta.stubbed or delta.invalidate_all)):
            # A catch-up brings the missing values. Drop the delta: if it were kept, every end of a
            # catch-up would start another.
            self._fall_behind()
            return
        self._effects.append(Apply(_after(delta, self.version)))
        self.version = delta.to_version

    def _on_chunk(self, chunk: Chunk) -> None:
        if not self.stream or chunk.stream != self.stream:
            return  # of a stream that has timed out
        if chunk.sequence < self._sequence:
            return  # doubled
        if not self._continues(chunk):
            self._on_lost()  # a chunk is missing: resume after the last that came
            return
        self._sequence += 1
        self._silence_s = SILENCE_S
        self._request_at = self._now + self._silence_s
        if chunk.snapshot:
            self._begin(chunk)
        if chunk.entries or chunk.invalidate_all:
            self._effects.append(File(chunk))
            self._note(chunk)
        if chunk.last:
            self._end(chunk)

    def _continues(self, chunk: Chunk) -> bool:
        """Return whether ``chunk`` is the next of its stream and fits what is held."""
        if chunk.sequence != self._sequence or chunk.first != (chunk.sequence == 0):
            return False
        if chunk.snapshot:
            return chunk.first and chunk.epoch >= self.epoch
        if chunk.epoch != self.epoch or chunk.from_version > self.version:
            return False
        first = chunk.entries[0] if chunk.entries else None
        return not (first and self._token) or (first.version, first.key) > self._token

    def _begin(self, chunk: Chunk) -> None:
        same = chunk.epoch == self.epoch
        self._may_end_from = max(self._may_end_from, self.version) if same else 0
        self.epoch, self.version = chunk.epoch, 0
        self._token, self._tombstones_after, self._progressed = None, 0, True
        self._effects.append(Reset(self.topic, self.level, chunk.epoch))

    def _note(self, chunk: Chunk) -> None:
        self._progressed = True
        if chunk.entries:
            self._token = chunk.resume_version, chunk.resume_key
        self._tombstones_after = min(self._tombstones_after or chunk.to_version, chunk.to_version)
        self._may_end_from = max(self._may_end_from, chunk.to_version)

    def _end(self, chunk: Chunk) -> None:
        if chunk.to_version < self._may_end_from:
            self._on_lost()  # this sender lags behind another, which sent before
            return
        before = self.version
        self.version = max(self.version, chunk.to_version)
        self._progressed = self._progressed or self.version > before
        self._effects.append(CaughtUp(chunk, before))
        for delta in self._become_live():
            if delta.epoch != chunk.epoch or delta.start == chunk.start:
                self._on_delta(delta)  # a store that was restored has no others

    def _become_live(self) -> deque[Delta]:
        """End a catch-up; return the deltas that came meanwhile."""
        self.state, self.stream, self._token = LIVE, 0, None
        self._tombstones_after = self._may_end_from = 0
        queue, self._queue, self._queue_bytes = self._queue, deque(), 0
        return queue

    def _on_adopt(self, fact: Adopt) -> None:
        assert self.state is BEHIND
        assert not self.epoch
        self.epoch, self.version = fact.epoch, fact.version
        self._progressed, self._silence_s = True, SILENCE_S
        self._effects.append(Adopted(self.topic, fact.epoch, fact.version))
        for delta in self._become_live():
            self._on_delta(delta)

    def _on_peer_at(self, fact: PeerAt) -> None:
        if self.state is LIVE and (fact.epoch, fact.version) > (self.epoch, self.version):
            self._fall_behind()

    def _on_refused(self, fact: Refused) -> None:
        if self.stream and fact.request == self.stream and fact.topic in (-1, self.topic):
            self.stream = 0
            self._request_at = self._now + min(max(fact.retry_ms / 1000, RETRY_S), RETRY_S_MAX)

    def _on_lost(self) -> None:
        self.stream = 0
        if self.state is BEHIND:
            self._request()

    def _on_due(self) -> None:
        if self.state is LIVE or self._now < self._request_at:
            return
        if self.stream:
            self._silence_s = min(2 * self._silence_s, SILENCE_S_MAX)
        self._on_lost()

    def _fall_behind(self) -> None:
        self.state = BEHIND
        self._request()

    def _request(self) -> None:
        """Request at once if the last request brought something, else at most every RETRY_S."""
        if not self._progressed and self._now < self._requested_at + RETRY_S:
            self._request_at = self._requested_at + RETRY_S
            return
        self._progressed, self._requested_at = False, self._now
        self._request_at = self._now + RETRY_S
        self._effects.append(Want(self._wanted()))

    def _wanted(self) -> Wanted:
        resume_version, resume_key = self._token or (0, b"")
        return Wanted(
            topic=self.topic,
            level=self.level,
            epoch=self.epoch,
            version=self.version,
            resume_version=resume_version,
            resume_key=resume_key,
            cut=self._tombstones_after,
        )

    def _queue_up(self, delta: Delta) -> None:
        size = _delta_bytes(delta)
        if len(self._queue) >= QUEUE_MAX or self._queue_bytes + size > QUEUE_BYTES_MAX:
            self._queue.clear()  # the gap after this catch-up will order another
            self._queue_bytes = 0
        self._queue.append(delta)
        self._queue_bytes += size


def _delta_bytes(delta: Delta) -> int:
    return sum(map(row_bytes, delta.entries))


def _after(delta: Delta, version: int) -> Delta:
    """Return ``delta`` without what is at or below ``version``, which has been applied."""
    if delta.from_version == version:
        return delta
    entries = tuple(entry for entry in delta.entries if entry.version > version)
    return replace(delta, from_version=version, entries=entries)
