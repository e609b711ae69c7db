"""A stage for hubs: real topics on both sides, and whoever talks to the hub says its lines."""

from collections.abc import Iterable
from itertools import count

from topicast.statestore.facts import Fact, MessageReceived, Put, Subscription, Tick
from topicast.statestore.hub import Hub
from topicast.statestore.ingest import Broadcast
from topicast.topics.bulk import Sender, chunks
from topicast.topics.entries import FULL, Entry
from topicast.topics.sharding import topic_ids
from topicast.topics.topic import Topic
from topicast.topics.wire import decode, encode
from topicast.topics.wire.header import prefix
from topicast.topics.wire.messages import (
    BULK_CHANNEL,
    CONTROL_CHANNEL,
    PUBLISHER,
    READER,
    Announce,
    Cancel,
    CatchUp,
    Chunk,
    Credit,
    Delta,
    Heartbeat,
    Hello,
    Message,
    Refused,
    Wanted,
)

CATALOG = "tcp://127.0.0.1:26000"
DATA = "tcp://127.0.0.1:24001"
CONTROL = b"publisher-control"
BULK = b"publisher-bulk"
READER_CONTROL = b"reader-control"
READER_BULK = b"reader-bulk"


def registration(name: str) -> bytes:
    return name.encode().ljust(16, b".")[:16]


def hello(name: str, role: int, channel: int, *, protocol: tuple[int, int] = (1, 1)) -> Hello:
    return Hello(
        role=role,
        channel=channel,
        name=name,
        registration=registration(name),
        protocol_min=protocol[0],
        protocol_max=protocol[1],
        features=0,
    )


def value(key: bytes, version: int, content: bytes = b"value") -> Entry:
    return Entry(key, version, version, version, len(content), content)


class Stage:
    """A hub whose every step is checked; ``sent`` and ``frames`` hold what it ordered."""

    def __init__(self, **settings: int) -> None:
        self.hub = Hub(hub_id=77, data_address=DATA, **settings)
        self.now = 1000.0
        self.sent: list[tuple[bytes, Message]] = []
        self.frames: list[bytes] = []

    def tell(self, fact: Fact) -> list[Message]:
        """Tell the hub a fact; return what it answered, in the order of its effects."""
        said: list[Message] = []
        for effect in self.hub.handle(fact, now=self.now):
            if isinstance(effect, Broadcast):
                self.frames.append(effect.frame)
            else:
                self.sent.append((effect.peer, decode(encode(effect.message))))
                said.append(self.sent[-1][1])
        self.hub.check()
        return said

    def say(self, peer: bytes, message: Message) -> list[Message]:
        return self.tell(MessageReceived(peer, message))

    def put(self, peer: bytes, message: Delta) -> list[Message]:
        return self.tell(Put(peer, encode(message)))

    def tick(self, after_s: float = 0.0) -> list[Message]:
        self.now += after_s
        return self.tell(Tick(int(self.now * 1e6)))

    def pass_time(self, seconds: float) -> list[Message]:
        """Tick in steps that no liveness takes for a stall."""
        said = self.tick()
        for _ in range(round(seconds / 0.05)):
            said += self.tick(0.05)
        return said

    def turn(self) -> list[Message]:
        """Send what readers may be sent."""
        sends = self.hub.turn(1 << 20)
        self.sent += [(send.peer, send.message) for send in sends]
        return [send.message for send in sends]

    def listen(self, topic: int, level: int) -> None:
        """Let somebody subscribe to a topic."""
        self.tell(Subscription(b"\1" + prefix(topic, level)))

    def deltas(self) -> list[Delta]:
        """Take the deltas that were broadcast since the last time."""
        frames, self.frames = self.frames, []
        said = [decode(frame) for frame in frames]
        assert not [one for one in said if isinstance(one, Chunk)], "a catch-up was forwarded"
        return [one for one in said if isinstance(one, Delta)]

    def heartbeat(self, after_s: float = 0.25) -> Heartbeat:
        """Wait for the next heartbeat."""
        kept = self.frames
        self.frames = []
        self.tick(after_s)
        heartbeats = [one for one in map(decode, self.frames) if isinstance(one, Heartbeat)]
        self.frames = kept
        return heartbeats[0]

    def greet(self, name: str = "reader", role: int = READER) -> list[Message]:
        peer = name.encode()
        said = self.say(peer + b"-control", hello(name, role, CONTROL_CHANNEL))
        return said + self.say(peer + b"-bulk", hello(name, role, BULK_CHANNEL))

    def answers(self) -> list[Message]:
        """Take what readers and others were told since the last time."""
        sent, self.sent = self.sent, []
        return [message for _, message in sent]


class ScriptedPublisher:
    """A catalogd that says its lines: real topics, real chunks, no judgement."""

    def __init__(self, *, epoch: int = 10, start: int = 5, num_topics: int = 4) -> None:
        self.epoch = epoch
        self.start = start
        self.num_topics = num_topics
        self.topics = {topic: Topic() for topic in topic_ids(num_topics)}
        for topic in self.topics.values():
            topic.reset(epoch)
        self.sender = Sender()
        self.asked: list[CatchUp] = []
        self._sequence = count(1)

    def announce(self) -> Announce:
        return Announce(
            epoch=self.epoch,
            start=self.start,
            num_topics=self.num_topics,
            catalog_address=CATALOG,
            catalog_name="hive",
        )

    def commit(self, number: int, *entries: Entry, stubbed: bool = False) -> Delta:
        """Make ``entries`` the next version of a topic; their own versions must be that."""
        topic = self.topics[number]
        before, topic.version = topic.version, topic.version + 1
        assert {entry.version for entry in entries} <= {topic.version}
        topic.file(entries)
        return Delta(
            topic=number,
            level=FULL,
            epoch=self.epoch,
            start=self.start,
            from_version=before,
            to_version=topic.version,
            floor=topic.floor,
            sent_us=1,
            source=1,
            entries=() if stubbed else entries,
            stubbed=stubbed,
            invalidate_all=stubbed,
        )

    def change(self, number: int, key: bytes = b"db\0table\0", content: bytes = b"value") -> Delta:
        """Commit one value."""
        version = self.topics[number].version + 1
        return self.commit(number, value(key, version, content))

    def heartbeat(self, *, watermark: int = 0) -> Heartbeat:
        return Heartbeat(
            hub=0,
            epoch=self.epoch,
            start=self.start,
            sequence=next(self._sequence),
            interval_ms=1000,
            sent_us=1,
            watermark=watermark,
            age_ms=0,
            catalog_address=CATALOG,
            versions=tuple(topic.version for topic in self.topics.values()),
            floors=tuple(topic.floor for topic in self.topics.values()),
        )

    def hear(self, said: Iterable[Message]) -> list[Message]:
        """Take what a hub says; return the answers, as much as its credit allows."""
        for message in said:
            if isinstance(message, CatchUp):
                self.asked.append(message)
                parts = chunks(
                    message.stream, message.wanted, find=self._find, stamp=lambda: (self.start, 1)
                )
                self.sender.open(b"hub", message.stream, credit=message.credit, parts=parts)
            elif isinstance(message, Credit):
                self.sender.credit(b"hub", message.stream, message.amount)
            elif isinstance(message, Cancel):
                self.sender.cancel(b"hub", message.stream)
        return [send.message for send in self.sender.turn(1 << 20)]

    def _find(self, wanted: Wanted) -> Topic | Refused:
        return self.topics[wanted.topic]


def connect(stage: Stage, publisher: ScriptedPublisher) -> list[Message]:
    """Say hello and announce; nothing is seeded yet."""
    said = stage.say(CONTROL, hello("publisher", PUBLISHER, CONTROL_CHANNEL))
    said += stage.say(BULK, hello("publisher", PUBLISHER, BULK_CHANNEL))
    return said + stage.say(CONTROL, publisher.announce())


def serve(stage: Stage, publisher: ScriptedPublisher) -> list[Message]:
    """Let hub and publisher talk until neither has anything to say."""
    heard: list[Message] = []
    said = stage.tick()
    while said:
        heard += said
        said = [one for part in publisher.hear(said) for one in stage.say(BULK, part)]
        said += stage.tick()
    return heard


def seeded(**settings: int) -> tuple[Stage, ScriptedPublisher]:
    """Return a hub that has caught up with an empty publisher."""
    stage, publisher = Stage(**settings), ScriptedPublisher()
    connect(stage, publisher)
    serve(stage, publisher)
    stage.sent.clear()
    stage.frames.clear()
    return stage, publisher


def contents(topic: Topic) -> dict[bytes, bytes | None]:
    """Return what a topic holds, tombstones left out."""
    return {
        entry.key: entry.value for group in sorted(topic.group_ids()) for entry in topic.rows(group)
    }
