"""Ingest: stores, acknowledges and forwards the publisher's deltas and chunks.

    Announce ──▶ one follower and one topic each ──delta──▶ filed, and the same frame goes out
                          │ gap                        └─ acknowledged once a turn
                          └─ CatchUp ──chunks──▶ filed, never handed on; at its end stubs go out

Invariant: a topic's ``version`` is its follower's position, and a refused message changes nothing.
The hub is being seeded until every topic of the epoch has been caught up once.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

from ...topics.backports import assert_never
from ...topics.clock import Clock
from ...topics.errors import ConfigError
from ...topics.memory.limited_topic import LimitedTopic
from ...topics.memory.memory_limit import MemoryLimit
from ...topics.streams.follower import (
    LIVE,
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
from ...topics.streams.followers import Abandoned, Followers, Step
from ...topics.streams.sender import RETRY_MS, chunk_cost
from ...topics.topic import (
    ALL_OFFERED,
    FULL,
    NAMESPACE,
    NONE,
    Entry,
    Topic,
    check_num_topics,
    topic_ids,
)
from ...topics.wire import encode
from ...topics.wire.codec import delta_of, read_entries, read_header
from ...topics.wire.header import HEADER_BYTES, INVALIDATE_ALL, Header
from ...topics.wire.messages.connection import Refused
from ...topics.wire.messages.data import Chunk, Delta, Heartbeat
from ...topics.wire.messages.publishers import Announce, Filed, Have
from ...topics.wire.messages.readers import Cancel, CatchUp, Credit, Wanted
from ...topics.wire.refusal import Refusal, refuse
from ..members.applied import VersionTimes
from .policies import Policies
from .stub_deltas import catch_up_stubs, minimal, stub_bytes

# A heartbeat may overtake deltas, which come on another connection. So what it says that the hub
# lacks is requested only once there was no delta for QUIET_S, or it is BELIEVED_S old.
QUIET_S: Final = 0.1
BELIEVED_S: Final = 0.5
AGAIN_MS: Final = 1000  # until what was refused is requested of the publisher again

ToPublisher = CatchUp | Credit | Cancel | Filed | Refused


@dataclass(slots=True)
class IngestedTopic:
    """One topic: what the hub holds of it, and the follower of the publisher that fills it."""

    follower: Follower
    topic: Topic  # its version is the follower's position
    filed: int = 0  # the highest version filed, also by a catch-up under way: see ``have``
    seeded: bool = False  # caught up once
    stub_bytes: int = 0  # what the catch-up under way would take as stubs
    published: int = 0  # its version in the publisher's last heartbeat
    times: VersionTimes = field(default_factory=VersionTimes)


@dataclass(frozen=True, slots=True)
class _PendingHeartbeat:
    """A heartbeat of the publisher, until the hub has its versions, or requests what it lacks."""

    at: float  # seconds: when it came
    versions: tuple[int, ...]  # by followed topic
    watermark: int


class Ingest:
    """The topics of one hub, as the announced publisher fills them."""

    def __init__(
        self,
        has_minimal: Callable[[int], bool],
        policies: Policies,
        *,
        clock: Clock,
        send: Callable[[ToPublisher], None],
        memory: MemoryLimit | None = None,
    ) -> None:
        """Begin with no topics.

        Args:
            has_minimal: Returns whether a topic has a subscriber at level minimal.
            policies: Cut deltas for readers that see some databases only.
            clock: The turn of the hub.
            send: Sends the publisher a message; without a publisher it drops it.
            memory: The limit of memory that the topics of tables keep; None: there is none.
        """
        self.memory = memory
        self._clock = clock
        self._send = send
        self.epoch = 0  # of the start of catalogd that was announced last; 0: none was
        self.start = 0  # its number; 0: none was
        self.num_topics = 0  # without the namespace; 0 until a publisher was announced
        self.catalog_address = ""  # where readers reach this catalogd
        self.catalog_name = ""  # under which it has announced itself
        self.watermark = 0  # of the newest heartbeat of which all versions are reached
        self.offers = ALL_OFFERED  # the levels that readers may join
        self.followed: dict[int, IngestedTopic] = {}  # by topic, as ``_followers`` follow them
        self.last_delta_at = 0.0  # seconds
        self._has_minimal = has_minimal
        self._policies = policies
        self._unseeded = 0  # topics not caught up once
        self._followers = Followers(clock, next_id=count(1).__next__, credit_step=1)
        self._unacknowledged: dict[int, int] = {}  # versions filed since ``acknowledge``
        self._pending_heartbeats: deque[_PendingHeartbeat] = deque()
        """The oldest heartbeat whose versions are not all reached, and the newest."""

    @property
    def seeding(self) -> bool:
        """Whether a topic has not been caught up once, or no publisher was announced."""
        return self._unseeded > 0 or not self.followed

    @property
    def behind(self) -> int:
        """How many topics are being caught up."""
        return self._followers.behind_count

    def behind_s(self) -> float:
        """Return how long ago catalogd announced a version that is not held here; 0: none such."""
        waits = self._pending_heartbeats
        return max(self._clock.now - waits[0].at, 0.0) if waits else 0.0

    def topics(self) -> dict[int, Topic]:
        """Return what is held, by number."""
        return {number: followed.topic for number, followed in self.followed.items()}

    def have(self) -> Have:
        """Return the highest version held of each topic, complete or not.

        catalogd compares it with the versions of its starts: content above them is of a lost store.
        """
        versions = tuple(followed.filed for followed in self.followed.values())
        return Have(epoch=self.epoch, start=self.start, versions=versions)

    def announce(self, message: Announce) -> Refused | None:
        """Follow this start from now on; a higher epoch begins every topic anew."""
        fault = self._announce_fault(message)
        if fault is not None:
            return fault
        if message.epoch > self.epoch:
            self._begin(message)
        self.start = message.start
        self.catalog_address, self.catalog_name = message.catalog_address, message.catalog_name
        self._pending_heartbeats.clear()
        self.lose_streams()
        self._unacknowledged = {
            topic: followed.topic.version for topic, followed in self.followed.items()
        }
        return None

    def take_delta(self, frame: bytes) -> tuple[bytes, ...] | Refused:
        """Take one delta and return the frames to broadcast; the hot path.

        It is read in full before anything is done: what is malformed goes nowhere.

        Raises:
            WireError: ``frame`` is not a delta.
        """
        header = read_header(frame)
        entries = read_entries(header, frame[HEADER_BYTES:])
        followed = self.followed.get(header.topic)
        if followed is None or header.start != self.start or header.epoch != self.epoch:
            return self._not_followed((header.epoch, header.start), header.topic)
        fault = _delta_fault(header)
        if fault is not None:
            return fault
        self.last_delta_at = now = self._clock.now
        followed.times.add(header.to_version, now=now)
        if header.flags or not followed.follower.step(
            header.epoch, header.from_version, header.to_version
        ):
            frames = self._feed(followed, delta_of(header, entries))
            self._unacknowledged[header.topic] = followed.topic.version
            return frames
        self._file(followed, entries, header.to_version)
        if header.floor > followed.topic.floor:
            followed.topic.raise_floor(header.floor)
        if not (self._has_minimal(header.topic) or self._policies.has_policy_levels(header.topic)):
            return (frame,)
        return frame, *self._reduced(delta_of(header, entries))

    def chunk(self, chunk: Chunk) -> tuple[bytes, ...]:
        """Take a part of a catch-up, and return the frames to broadcast.

        A stream that was not requested is cancelled, now and then.
        """
        if not self._followers.note_active(chunk.stream, (chunk.topic, FULL)):
            if self._followers.must_cancel(chunk.stream):
                self._send(Cancel(stream=chunk.stream))
            return ()
        granted = self._followers.processed(chunk.stream, chunk_cost(chunk))
        if granted is not None:
            self._send(granted)
        followed = self.followed.get(chunk.topic)
        if followed is None or (chunk.epoch, chunk.start) != (self.epoch, self.start):
            fault = self._not_followed((chunk.epoch, chunk.start), chunk.topic)
            self._send(replace(fault, request=chunk.stream))
            return ()
        fact: Chunk | Refused = chunk
        broken = _chunk_fault(chunk)
        if broken is not None:
            fact = replace(broken, request=chunk.stream)
            self._send(fact)
        return self._feed(followed, fact)

    def refused(self, message: Refused) -> None:
        """Take the publisher's refusal of a stream, or of one topic in it."""
        self._followers.note_active(message.request, (message.topic, FULL))
        for topic, _ in self._followers.served_by(message.request):
            if message.topic in (-1, topic):
                self._feed(self.followed[topic], message)

    def heartbeat(self, heartbeat: Heartbeat) -> Refused | None:
        """Compare positions with the publisher's; what the hub lacks is requested soon."""
        if (heartbeat.epoch, heartbeat.start) != (self.epoch, self.start):
            return self._not_followed((heartbeat.epoch, heartbeat.start), -1)
        if len(heartbeat.versions) not in (0, len(self.followed)):
            text = (
                f"{len(heartbeat.versions)} versions where {len(self.followed)} topics are followed"
            )
            return refuse(Refusal.VECTOR, text)
        self.catalog_address = heartbeat.catalog_address or self.catalog_address
        self.offers = heartbeat.offers
        if not heartbeat.versions:
            return None
        while len(self._pending_heartbeats) > 1:
            self._pending_heartbeats.pop()
        pending = _PendingHeartbeat(self._clock.now, heartbeat.versions, heartbeat.watermark)
        self._pending_heartbeats.append(pending)
        rows = zip(self.followed.values(), heartbeat.versions, heartbeat.floors, strict=True)
        for followed, version, floor in rows:
            followed.published = version
            if followed.follower.state is LIVE and floor <= followed.topic.version:
                followed.topic.raise_floor(floor)
        self.settle()
        return None

    def lose_streams(self) -> None:
        """Request anew what is under way: the publisher, or its connection, is another."""
        self._followers.discard_wants()
        for topic, _ in self._followers.lose_streams():
            self._feed(self.followed[topic], StreamLost())

    def settle(self) -> None:
        """Compare positions with the publisher's heartbeats: adopt a watermark, or catch up."""
        while self._pending_heartbeats:
            pending = self._pending_heartbeats[0]
            rows = zip(self.followed.values(), pending.versions, strict=True)
            short = [
                (followed, version)
                for followed, version in rows
                if followed.topic.version < version
            ]
            quiet_at = max(pending.at, self.last_delta_at) + QUIET_S
            if short and self._clock.now < min(quiet_at, pending.at + BELIEVED_S):
                return
            for followed, version in short:
                self._feed(followed, PeerAt(self.epoch, version))
            if short:
                return
            self.watermark = pending.watermark
            self._pending_heartbeats.popleft()

    def retry_overdue(self) -> None:
        """Request again what was not answered in time."""
        for topic, _ in self._followers.overdue():
            self._feed(self.followed[topic], Due())

    def acknowledge(self) -> None:
        """Report to the publisher what was filed since the last call."""
        if self._unacknowledged:
            versions = tuple(self._unacknowledged.items())
            self._unacknowledged = {}
            self._send(Filed(epoch=self.epoch, start=self.start, versions=versions))

    def request(self) -> None:
        """Request everything that is wanted of the publisher, in one stream."""
        request = self._followers.request(self._followers.wanted)
        if request is not None:
            self._send(request)

    def find(self, wanted: Wanted) -> Topic | Refused:
        """Return the topic that a reader may be caught up from, or why there is none."""
        followed = self.followed.get(wanted.topic)
        if followed is None and self.followed:
            return refuse(Refusal.UNKNOWN, f"no topic {wanted.topic}: there are {self.num_topics}")
        if wanted.level == NONE:
            return refuse(Refusal.LEVEL, "nothing is sent at level none: request minimal or full")
        if wanted.epoch > self.epoch:
            text = f"epoch {wanted.epoch} is newer than {self.epoch} here: retry"
            return refuse(Refusal.AHEAD, text, retry_ms=RETRY_MS)
        if followed is None or followed.follower.state is not LIVE:
            text = f"topic {wanted.topic} is being caught up here: retry"
            return refuse(Refusal.RETRY, text, retry_ms=RETRY_MS)
        return followed.topic

    def check(self) -> None:
        """Assert every invariant."""
        assert tuple(self.followed) == (topic_ids(self.num_topics) if self.followed else ())
        for topic, followed in self.followed.items():
            assert followed.follower is self._followers.get((topic, FULL))
            assert followed.topic.epoch in (0, self.epoch)
            assert followed.topic.version == followed.follower.version
            assert followed.topic.version <= followed.filed
        assert self._unseeded == sum(not followed.seeded for followed in self.followed.values())
        assert len(self._pending_heartbeats) <= 2  # that which waits, and the newest
        self._followers.check()

    def _announce_fault(self, message: Announce) -> Refused | None:
        try:
            check_num_topics(message.num_topics)
        except ConfigError as error:
            return refuse(Refusal.NUM_TOPICS, str(error))
        if message.epoch < max(self.epoch, 1):
            text = f"epoch {message.epoch} is behind {self.epoch} here: mint a newer one"
            return refuse(Refusal.AHEAD, text)
        if message.epoch == self.epoch and message.num_topics != self.num_topics:
            text = f"{message.num_topics} topics, {self.num_topics} here: fixed for an epoch"
            return refuse(Refusal.NUM_TOPICS, text)
        return None

    def _not_followed(self, start: tuple[int, int], topic: int) -> Refused:
        if start == (self.epoch, self.start):
            return refuse(
                Refusal.TOPIC, f"no topic {topic}: there are {self.num_topics}", topic=topic
            )
        ours = f"epoch {self.epoch} start {self.start}"
        text = f"epoch {start[0]} start {start[1]} is not followed, {ours} is: announce it first"
        return refuse(Refusal.START, text, topic=topic)

    def _begin(self, message: Announce) -> None:
        self.epoch, self.num_topics, self.watermark = message.epoch, message.num_topics, 0
        self._followers.clear()
        topics = topic_ids(message.num_topics)
        if self.memory is not None:
            self.memory.warm.clear()
        self.followed = {
            topic: IngestedTopic(self._followers.follow(topic, FULL), self._new_topic(topic))
            for topic in topics
        }
        self._unseeded = len(self.followed)

    def _new_topic(self, number: int) -> Topic:
        """Return an empty topic; names are never stubs, because no reader pulls them."""
        if self.memory is None or number == NAMESPACE:
            return Topic()
        return LimitedTopic(number, self.memory.warm)

    def _feed(self, followed: IngestedTopic, fact: Fact) -> tuple[bytes, ...]:
        """Apply what ``fact`` means for a topic; return the frames to broadcast."""
        steps = self._followers.feed((followed.follower.topic, FULL), fact)
        return tuple(frame for step in steps for frame in self._apply(followed, step))

    def _apply(self, followed: IngestedTopic, step: Step) -> tuple[bytes, ...]:
        match step:
            case Apply(delta=delta):
                self._file(followed, delta.entries, delta.to_version)
                followed.topic.raise_floor(delta.floor)
                return self._forward(delta)
            case Reset(epoch=epoch):
                followed.topic.reset(epoch)
                followed.filed = followed.stub_bytes = 0
            case File(chunk=chunk):
                followed.topic.file(chunk.entries)
                followed.filed = max(followed.filed, chunk.resume_version)
                followed.stub_bytes += stub_bytes(chunk.entries)
            case CaughtUp(chunk=chunk, from_version=from_version):
                return self._caught_up(followed, chunk, from_version)
            case Want():
                pass  # requested at the end of the turn
            case Abandoned(stream=stream):
                self._send(Cancel(stream=stream))
            case Adopted():
                raise AssertionError(step)  # a publisher gives no position without its content
            case _:
                assert_never(step)
        return ()

    def _file(self, followed: IngestedTopic, entries: tuple[Entry, ...], to_version: int) -> None:
        followed.topic.file(entries)
        followed.topic.version = followed.filed = to_version
        self._unacknowledged[followed.follower.topic] = to_version

    def _caught_up(
        self, followed: IngestedTopic, chunk: Chunk, from_version: int
    ) -> tuple[bytes, ...]:
        topic = followed.topic
        topic.version = max(from_version, chunk.to_version)
        followed.filed = max(followed.filed, topic.version)
        self._unacknowledged[chunk.topic] = topic.version
        advanced = followed.seeded and topic.version > from_version
        self._unseeded -= not followed.seeded
        followed.seeded = True
        delta = catch_up_stubs(
            topic, chunk, from_version=from_version, stub_bytes=followed.stub_bytes
        )
        frames = self._forward(delta) if advanced else ()
        followed.stub_bytes = 0
        topic.raise_floor(chunk.floor)
        return frames

    def _forward(self, delta: Delta) -> tuple[bytes, ...]:
        return encode(delta), *self._reduced(delta)

    def _reduced(self, delta: Delta) -> tuple[bytes, ...]:
        """Return the frames of ``delta`` for subscribers at minimal, and for each policy."""
        stubs = (encode(minimal(delta)),) if self._has_minimal(delta.topic) else ()
        return stubs + self._policies.deltas(delta)


def _delta_fault(header: Header) -> Refused | None:
    """Return why a delta of the announced start cannot be filed; None if it can."""
    if header.level != FULL:
        problem = "a publisher sends at level full only, the hub strips values itself"
    elif header.flags == INVALIDATE_ALL:
        problem = "flag invalidate_all needs flag stubbed at level full"
    elif header.floor > header.to_version:
        problem = f"floor {header.floor} is above version {header.to_version}"
    else:
        return None
    return refuse(Refusal.DELTA, problem, topic=header.topic)


def _chunk_fault(chunk: Chunk) -> Refused | None:
    """Return why a chunk of the announced start cannot be filed; None if it can."""
    if chunk.level != FULL or chunk.invalidate_all:
        problem = "a hub requests values: level full, no invalidate_all"
    elif chunk.floor > chunk.to_version:
        problem = f"floor {chunk.floor} is above version {chunk.to_version}"
    elif chunk.entries and chunk.resume_version != chunk.entries[-1].version:
        problem = "a chunk is resumed after its last entry"
    else:
        return None
    return refuse(Refusal.CHUNK, problem, retry_ms=AGAIN_MS, topic=chunk.topic)
