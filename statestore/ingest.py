"""Ingest: what comes from the publisher is followed, filed, acknowledged, and handed on.

    Announce ──▶ one follower and one topic each ──delta──▶ filed, and the same frame goes out
                          │ gap                        └─ acknowledged once a turn
                          └─ CatchUp ──chunks──▶ filed, never handed on; at its end stubs go out

Invariant: a topic's ``version`` is its follower's position, and what is refused changes nothing.
The hub is being seeded until every topic of the epoch has been caught up once.
"""

from collections import deque
from collections.abc import Iterable, Set
from dataclasses import dataclass, field, replace
from typing import Final

from ..topics.bulk import RETRY_MS, chunk_cost
from ..topics.entries import FULL, NONE, Entry
from ..topics.errors import ConfigError
from ..topics.follower import (
    LIVE,
    Ahead,
    Apply,
    CaughtUp,
    Effect,
    Fact,
    File,
    Follower,
    Reset,
    StreamLost,
    Tick,
    Want,
)
from ..topics.offers import ALL_OFFERED
from ..topics.sharding import check_num_topics, topic_ids
from ..topics.topic import Topic
from ..topics.wire.codec import delta_of, encode, read_entries
from ..topics.wire.header import HEADER_BYTES, read_header
from ..topics.wire.messages import (
    Announce,
    Cancel,
    CatchUp,
    Chunk,
    Credit,
    Delta,
    Filed,
    Have,
    Heartbeat,
    Refused,
    Wanted,
)
from ..topics.wire.refusal import Refusal, refuse
from .catch_up_requests import Asking
from .stub_deltas import brought, minimal, stub_bytes
from .validation import chunk_fault, delta_fault

QUIET_S: Final = 0.1  # a heartbeat overtakes deltas that wait on bulk: believed when bulk is quiet,
BELIEVED_S: Final = 0.5  # or after so long, quiet or not


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Send ``frame`` to everybody who subscribes to how it begins."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class Tell:
    """Send ``message`` to the publisher: about streams on bulk, else on control."""

    message: CatchUp | Credit | Cancel | Filed | Refused


Order = Broadcast | Tell


@dataclass(slots=True)
class Slot:
    """One topic as it is followed.

    ``filed``: the highest version of anything filed, also of a catch-up that is under way.
    ``stub_bytes``: what the current catch-up would take as stubs. ``told``: where the publisher
    says that it stands.
    """

    follower: Follower
    topic: Topic = field(default_factory=Topic)
    filed: int = 0
    seeded: bool = False
    stub_bytes: int = 0
    told: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """A publisher's heartbeat that is not believed, or not reached, yet."""

    at: float
    versions: tuple[int, ...]
    watermark: int


class Ingest:
    """The topics of one hub, as the announced publisher fills them.

    ``minimal``: the topics that somebody listens to at MINIMAL, kept by who knows.
    """

    def __init__(self, minimal: Set[int] = frozenset()) -> None:
        self.epoch = 0
        self.start = 0
        self.num_topics = 0
        self.catalog_address = ""
        self.catalog_name = ""
        self.watermark = 0
        self.offers = ALL_OFFERED
        self.slots: dict[int, Slot] = {}
        self._minimal = minimal
        self.put_at = 0.0
        self._unseeded = 0
        self._behind: dict[int, Slot] = {}
        self._asking = Asking()
        self._unacknowledged: dict[int, int] = {}
        self._claims: deque[Claim] = deque()  # the oldest that is not settled, and the newest

    @property
    def seeding(self) -> bool:
        """Whether a topic has not been caught up once, or nobody announced one."""
        return self._unseeded > 0 or not self.slots

    @property
    def behind(self) -> int:
        """How many topics are being caught up."""
        return len(self._behind)

    def have(self) -> Have:
        """Say what is held: for each topic the highest version, complete or not."""
        versions = tuple(slot.filed for slot in self.slots.values())
        return Have(epoch=self.epoch, start=self.start, versions=versions)

    def announce(self, message: Announce, *, now: float) -> Refused | None:
        """Follow this start from now on; a higher epoch begins every topic anew."""
        fault = self._announce_fault(message)
        if fault is not None:
            return fault
        if message.epoch > self.epoch:
            self._begin(message)
        self.start = message.start
        self.catalog_address, self.catalog_name = message.catalog_address, message.catalog_name
        self._claims.clear()
        self.lose_streams(now=now)
        self._unacknowledged = {topic: slot.topic.version for topic, slot in self.slots.items()}
        return None

    def put(self, frame: bytes, *, now: float) -> tuple[bytes, ...] | Refused:
        """Take one delta and return the frames to broadcast; the hot path.

        It is read in full before anything is done: what is malformed goes nowhere.

        Raises:
            WireError: ``frame`` is no delta.
        """
        header = read_header(frame)
        entries = read_entries(header, frame[HEADER_BYTES:])
        slot = self.slots.get(header.topic)
        if slot is None or header.start != self.start or header.epoch != self.epoch:
            return self._stranger((header.epoch, header.start), header.topic)
        fault = delta_fault(header)
        if fault is not None:
            return fault
        self.put_at = now
        if header.flags or not slot.follower.step(
            header.epoch, header.from_version, header.to_version
        ):
            orders = self._feed(slot, delta_of(header, entries), now)
            self._unacknowledged[header.topic] = slot.topic.version
            return tuple(order.frame for order in orders)
        self._file(slot, entries, header.to_version)
        if header.floor > slot.topic.floor:
            slot.topic.forget(header.floor)
        if header.topic in self._minimal:
            return frame, encode(minimal(delta_of(header, entries)))
        return (frame,)

    def chunk(self, chunk: Chunk, *, now: float) -> tuple[Order, ...]:
        """Take a part of a catch-up that was asked for."""
        if not self._asking.heard(chunk.stream, chunk.topic, now=now):
            return (Tell(Cancel(stream=chunk.stream)),)
        credit = Tell(Credit(stream=chunk.stream, amount=chunk_cost(chunk)))
        slot = self.slots.get(chunk.topic)
        if slot is None or (chunk.epoch, chunk.start) != (self.epoch, self.start):
            fault = self._stranger((chunk.epoch, chunk.start), chunk.topic)
            return credit, Tell(replace(fault, request=chunk.stream))
        broken = chunk_fault(chunk)
        if broken is not None:
            refusal = replace(broken, request=chunk.stream)
            return credit, Tell(refusal), *self._feed(slot, refusal, now)
        return credit, *self._feed(slot, chunk, now)

    def refused(self, message: Refused, *, now: float) -> None:
        """Take the publisher's refusal of a stream, or of one topic in it."""
        self._asking.heard(message.request, message.topic, now=now)
        for topic in self._asking.owed(message.request):
            if message.topic in (-1, topic):
                self._feed(self.slots[topic], message, now)

    def heartbeat(self, heartbeat: Heartbeat, *, now: float) -> Refused | None:
        """Learn where the publisher stands; what it has and we have not is asked for soon."""
        if (heartbeat.epoch, heartbeat.start) != (self.epoch, self.start):
            return self._stranger((heartbeat.epoch, heartbeat.start), -1)
        if len(heartbeat.versions) not in (0, len(self.slots)):
            text = f"{len(heartbeat.versions)} versions where {len(self.slots)} topics are followed"
            return refuse(Refusal.VECTOR, text)
        self.catalog_address = heartbeat.catalog_address or self.catalog_address
        self.offers = heartbeat.offers
        if not heartbeat.versions:
            return None
        while len(self._claims) > 1:
            self._claims.pop()
        self._claims.append(Claim(now, heartbeat.versions, heartbeat.watermark))
        places = zip(self.slots.values(), heartbeat.versions, heartbeat.floors, strict=True)
        for slot, version, floor in places:
            slot.told = version
            if slot.follower.state == LIVE and floor <= slot.topic.version:
                slot.topic.forget(floor)
        self.settle(now=now)
        return None

    def lose_streams(self, *, now: float) -> None:
        """Want anew what is under way: whoever was to answer is gone, or is another."""
        self._asking.clear()
        for slot in tuple(self._behind.values()):
            self._feed(slot, StreamLost(), now)

    def settle(self, *, now: float) -> None:
        """Compare positions with the publisher's heartbeats: adopt a watermark, or catch up."""
        while self._claims:
            claim = self._claims[0]
            places = zip(self.slots.values(), claim.versions, strict=True)
            short = [(slot, version) for slot, version in places if slot.topic.version < version]
            quiet_at = max(claim.at, self.put_at) + QUIET_S
            if short and now < min(quiet_at, claim.at + BELIEVED_S):
                return
            for slot, version in short:
                self._feed(slot, Ahead(self.epoch, version), now)
            if short:
                return
            self.watermark = claim.watermark
            self._claims.popleft()

    def watch(self, *, now: float) -> None:
        """Let followers whose answer is overdue ask again.

        A topic whose turn in a stream has not come is not overdue while the stream flows.
        """
        for slot in tuple(self._behind.values()):
            follower = slot.follower
            if follower.deadline is None or now < follower.deadline:
                continue
            since = self._asking.waits_since(follower.stream, follower.topic, now=now)
            if since is None:
                self._feed(slot, Tick(), now)
            else:
                follower.heard(now=since)

    def acknowledge(self) -> tuple[Tell, ...]:
        """Tell the publisher what was filed since the last time."""
        if not self._unacknowledged:
            return ()
        versions = tuple(self._unacknowledged.items())
        self._unacknowledged = {}
        return (Tell(Filed(epoch=self.epoch, start=self.start, versions=versions)),)

    def ask(self, *, now: float) -> tuple[Tell, ...]:
        """Ask the publisher for everything that is wanted, in one stream."""
        request = self._asking.ask(now=now)
        if request is None:
            return ()
        for wanted in request.wanted:
            self.slots[wanted.topic].follower.opened(request.stream, now=now)
        return (Tell(request),)

    def find(self, wanted: Wanted) -> Topic | Refused:
        """Return the topic that a reader may be caught up from, or why there is none."""
        slot = self.slots.get(wanted.topic)
        if slot is None and self.slots:
            return refuse(Refusal.UNKNOWN, f"no topic {wanted.topic}: there are {self.num_topics}")
        if wanted.level == NONE:
            return refuse(Refusal.LEVEL, "nothing is sent at level none: ask for minimal or full")
        if wanted.epoch > self.epoch:
            text = f"epoch {wanted.epoch} is newer than {self.epoch} here: ask again"
            return refuse(Refusal.AHEAD, text, retry_ms=RETRY_MS)
        if slot is None or slot.follower.state != LIVE:
            text = f"topic {wanted.topic} is being caught up here: ask again"
            return refuse(Refusal.RETRY, text, retry_ms=RETRY_MS)
        return slot.topic

    def check(self) -> None:
        """Assert every invariant."""
        assert tuple(self.slots) == (topic_ids(self.num_topics) if self.slots else ())
        for topic, slot in self.slots.items():
            slot.follower.check()
            assert slot.follower.topic == topic
            assert slot.topic.epoch in (0, self.epoch)
            assert slot.topic.version == slot.follower.version
            assert slot.topic.version <= slot.filed
            assert (slot.follower.state == LIVE) is (topic not in self._behind)
        assert self._unseeded == sum(not slot.seeded for slot in self.slots.values())
        self._asking.check()

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

    def _stranger(self, place: tuple[int, int], topic: int) -> Refused:
        if place == (self.epoch, self.start):
            return refuse(
                Refusal.TOPIC, f"no topic {topic}: there are {self.num_topics}", topic=topic
            )
        ours = f"epoch {self.epoch} start {self.start}"
        text = f"epoch {place[0]} start {place[1]} is not followed, {ours} is: announce it first"
        return refuse(Refusal.START, text, topic=topic)

    def _begin(self, message: Announce) -> None:
        self.epoch, self.num_topics, self.watermark = message.epoch, message.num_topics, 0
        self.slots = {t: Slot(Follower(t, FULL)) for t in topic_ids(message.num_topics)}
        self._behind = dict(self.slots)
        self._unseeded = len(self.slots)

    def _feed(self, slot: Slot, fact: Fact, now: float) -> tuple[Broadcast, ...]:
        follower = slot.follower
        stream = follower.stream
        frames = self._perform(slot, follower.handle(fact, now=now))
        if follower.stream != stream:
            self._asking.left(stream, follower.topic)
        if follower.state == LIVE:
            self._behind.pop(follower.topic, None)
        else:
            self._behind[follower.topic] = slot
        return frames

    def _perform(self, slot: Slot, effects: Iterable[Effect]) -> tuple[Broadcast, ...]:
        frames: tuple[Broadcast, ...] = ()
        for effect in effects:
            match effect:
                case Apply(delta=delta):
                    self._file(slot, delta.entries, delta.to_version)
                    slot.topic.forget(delta.floor)
                    frames += self._hand_on(delta)
                case Reset(epoch=epoch):
                    slot.topic.reset(epoch)
                    slot.filed = slot.stub_bytes = 0
                case File(chunk=chunk):
                    slot.topic.file(chunk.entries)
                    slot.filed = max(slot.filed, chunk.resume_version)
                    slot.stub_bytes += stub_bytes(chunk.entries)
                case CaughtUp(chunk=chunk, from_version=from_version):
                    frames += self._caught_up(slot, chunk, from_version)
                case Want(wanted=wanted):
                    self._asking.want(wanted)
        return frames

    def _file(self, slot: Slot, entries: tuple[Entry, ...], to_version: int) -> None:
        slot.topic.file(entries)
        slot.topic.version = slot.filed = to_version
        self._unacknowledged[slot.follower.topic] = to_version

    def _caught_up(self, slot: Slot, chunk: Chunk, from_version: int) -> tuple[Broadcast, ...]:
        topic = slot.topic
        topic.version = max(from_version, chunk.to_version)
        slot.filed = max(slot.filed, topic.version)
        self._unacknowledged[chunk.topic] = topic.version
        news = slot.seeded and topic.version > from_version
        self._unseeded -= not slot.seeded
        slot.seeded = True
        delta = brought(topic, chunk, from_version=from_version, stub_bytes=slot.stub_bytes)
        frames = self._hand_on(delta) if news else ()
        slot.stub_bytes = 0
        topic.forget(chunk.floor)
        return frames

    def _hand_on(self, delta: Delta) -> tuple[Broadcast, ...]:
        full = Broadcast(encode(delta))
        if delta.topic not in self._minimal:
            return (full,)
        return full, Broadcast(encode(minimal(delta)))
