"""A real hub core that tests drive one fact at a time, and the peers that speak to it."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from typing import Any

from topicast.statestore.effects import (
    Admit,
    Answered,
    Broadcast,
    Fact,
    MessageReceived,
    Subscription,
    TurnEnd,
)
from topicast.statestore.hub import Hub
from topicast.statestore.status import HubStatus
from topicast.tests.keys import client_for
from topicast.tests.strategies import value
from topicast.topics.keys.clients import Client, Clients
from topicast.topics.streams.sender import Sender, chunks
from topicast.topics.topic import FULL, Entry, Topic, topic_ids
from topicast.topics.turn import Turn
from topicast.topics.wire import decode, encode
from topicast.topics.wire.header import prefix
from topicast.topics.wire.messages.connection import (
    BULK_CHANNEL,
    CONTROL_CHANNEL,
    PUBLISHER,
    READER,
    Hello,
    Refused,
)
from topicast.topics.wire.messages.data import Chunk, Delta, Heartbeat
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.publishers import Announce
from topicast.topics.wire.messages.questions import Question
from topicast.topics.wire.messages.readers import Cancel, CatchUp, Credit, Position, Wanted

CATALOG = "tcp://127.0.0.1:26000"
DATA = "tcp://127.0.0.1:24001"
CONTROL = b"publisher-control"
BULK = b"publisher-bulk"
READER_CONTROL = b"reader-control"
READER_BULK = b"reader-bulk"
KEY = b"db\0table\0"
AMPLE = 10 << 20  # bytes of credit: more than any catch-up here takes


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
    )


def large(version: int) -> Entry:
    """Return a value of which a chunk holds only four."""
    return value(b"db\0t%02d\0" % version, version, b"x" * 60_000)


def at(topic: int, version: int = 0, *, level: int = FULL, epoch: int = 10) -> Position:
    return Position(topic=topic, level=level, epoch=epoch, version=version)


def want(topic: int, version: int = 0, *, epoch: int = 10) -> Wanted:
    return Wanted(topic=topic, level=FULL, epoch=epoch, version=version)


def chunk(**changed: Any) -> Chunk:
    """Return a chunk of stream 4, which is the last of its catch-up to version 6 of topic 1."""
    like = Chunk(
        topic=1,
        level=FULL,
        epoch=10,
        start=5,
        from_version=0,
        to_version=6,
        floor=0,
        sent_us=77,
        stream=4,
        sequence=3,
        resume_version=0,
        resume_key=b"",
        entries=(),
        last=True,
    )
    return replace(like, **changed)


def refused(messages: list[Message]) -> Refused:
    """Return the one message, which is a refusal."""
    (message,) = messages
    assert isinstance(message, Refused)
    return message


def codes(messages: Iterable[Message]) -> list[str]:
    """Return the codes of the refusals among ``messages``."""
    return [message.code for message in messages if isinstance(message, Refused)]


def catch_ups(messages: Iterable[Message]) -> list[CatchUp]:
    return [message for message in messages if isinstance(message, CatchUp)]


def contents(topic: Topic) -> dict[bytes, bytes | None]:
    """Return what a topic holds, tombstones left out."""
    return {
        entry.key: entry.value for group in sorted(topic.group_ids()) for entry in topic.rows(group)
    }


class PublisherPeer:
    """A publisher that sends what a test orders: real topics and chunks, no decisions."""

    def __init__(self, *, epoch: int = 10, start: int = 5, num_topics: int = 4) -> None:
        self.epoch = epoch
        self.start = start
        self.num_topics = num_topics
        self.topics = {topic: Topic() for topic in topic_ids(num_topics)}
        for topic in self.topics.values():
            topic.reset(epoch)
        self._sender = Sender(Turn())
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

    def change(self, number: int, key: bytes = KEY, content: bytes = b"value") -> Delta:
        """Commit one value."""
        return self.commit(number, value(key, self.topics[number].version + 1, content))

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

    def answer(self, messages: Iterable[Message]) -> list[Message]:
        """Serve the requests of a hub; return as many chunks as its credit allows."""
        for message in messages:
            if isinstance(message, CatchUp):
                parts = chunks(
                    message.stream,
                    message.wanted,
                    find=lambda wanted: self.topics[wanted.topic],
                    stamp=lambda: (self.start, 1),
                )
                self._sender.open(b"hub", message.stream, credit=message.credit, parts=parts)
            elif isinstance(message, Credit):
                self._sender.credit(b"hub", message.stream, message.amount)
            elif isinstance(message, Cancel):
                self._sender.cancel(b"hub", message.stream)
        return [send.message for send in self._sender.send_some(1 << 20)]


class HubDriver:
    """A hub whose invariants are checked at each step.

    ``sent``, ``frames``, ``admitted`` and ``answered`` hold its effects.
    """

    def __init__(self, **settings: Any) -> None:
        self.hub = Hub(hub_id=77, data_address=DATA, **settings)
        self.now = 1000.0
        self.sent: list[tuple[bytes, Message]] = []
        self.frames: list[bytes] = []
        self.admitted: list[Clients] = []
        self.answered: list[Answered] = []
        self.clients: dict[bytes, Client] = {}  # by connection: whose key it has

    @property
    def status(self) -> HubStatus:
        return self.hub.status(now=self.now)

    def topic(self, number: int) -> Topic:
        """Return what the hub holds of a topic."""
        return self.hub.ingest.followed[number].topic

    def handle(self, fact: Fact) -> list[Message]:
        """Return the messages that the hub sends after ``fact``, to any peer."""
        messages: list[Message] = []
        for effect in self.hub.handle(fact, now=self.now):
            if isinstance(effect, Broadcast):
                self.frames.append(effect.frame)
            elif isinstance(effect, Admit):
                self.admitted.append(effect.clients)
            elif isinstance(effect, Answered):
                self.answered.append(effect)
            else:
                messages.append(decode(encode(effect.message)))
                self.sent.append((effect.peer, messages[-1]))
        self.hub.check()
        return messages

    def receive(self, peer: bytes, *messages: Message) -> list[Message]:
        """Return what the hub sends after ``messages``; after a delta, that of the next tick.

        After a question, that of as many ticks as the answer needs.
        """
        sent: list[Message] = []
        for message in messages:
            if isinstance(message, Delta):
                self.put(message, peer)
                sent += self.tick()
            else:
                if isinstance(message, Hello) or peer not in self.clients:
                    self.clients[peer] = client_for(message)
                sent += self.handle(MessageReceived(peer, message, self.clients[peer]))
            while isinstance(message, Question) and self.hub.answering:
                sent += self.tick()
        return sent

    def put(self, delta: Delta, peer: bytes = BULK) -> None:
        """Put a delta; what the hub sends besides frames comes of the next tick."""
        self.frames += self.hub.take_delta(peer, encode(delta), now=self.now)
        self.hub.check()

    def tick(self, after_s: float = 0.0) -> list[Message]:
        self.now += after_s
        return self.handle(TurnEnd(int(self.now * 1e6)))

    def pass_time(self, seconds: float) -> list[Message]:
        """Tick in steps that no liveness takes for a stall."""
        messages = self.tick()
        for _ in range(round(seconds / 0.05)):
            messages += self.tick(0.05)
        return messages

    def turn(self) -> list[Message]:
        """Return what the hub sends to its readers in one turn."""
        sends = self.hub.send_some(1 << 20)
        self.sent += [(send.peer, send.message) for send in sends]
        return [send.message for send in sends]

    def subscribe(self, topic: int, level: int) -> None:
        self.handle(Subscription(b"\1" + prefix(topic, level)))

    def deltas(self) -> list[Delta]:
        """Return the deltas that were broadcast since the last call."""
        frames, self.frames = self.frames, []
        messages = [decode(frame) for frame in frames]
        assert not [one for one in messages if isinstance(one, Chunk)], "a catch-up was forwarded"
        return [one for one in messages if isinstance(one, Delta)]

    def heartbeat(self, after_s: float = 0.25) -> Heartbeat:
        """Return the heartbeat that is broadcast after some time."""
        kept, self.frames = self.frames, []
        self.tick(after_s)
        heartbeats = [one for one in map(decode, self.frames) if isinstance(one, Heartbeat)]
        self.frames = kept
        return heartbeats[0]

    def greet(
        self, name: str = "reader", role: int = READER, *, as_client: Client | None = None
    ) -> list[Message]:
        """Connect a peer on both channels, as ``name-control`` and ``name-bulk``."""
        messages: list[Message] = []
        for channel in (CONTROL_CHANNEL, BULK_CHANNEL):
            message = hello(name, role, channel)
            peer = f"{name}-{channel.name.lower()}".encode()
            self.clients[peer] = as_client or client_for(message)
            messages += self.handle(MessageReceived(peer, message, self.clients[peer]))
        return messages

    def connect(self, publisher: PublisherPeer, name: str = "publisher") -> list[Message]:
        """Let a publisher say Hello and announce itself; the hub is not seeded yet."""
        messages = self.greet(name, PUBLISHER)
        return messages + self.receive(f"{name}-control".encode(), publisher.announce())

    def serve(self, publisher: PublisherPeer) -> None:
        """Let the publisher serve the hub's catch-ups until there is none."""
        messages = self.tick()
        while messages:
            messages = self.receive(BULK, *publisher.answer(messages))
            messages += self.tick()


def seeded(**settings: Any) -> tuple[HubDriver, PublisherPeer]:
    """Return a hub that has caught up with an empty publisher."""
    driver, publisher = HubDriver(**settings), PublisherPeer()
    driver.connect(publisher)
    driver.serve(publisher)
    driver.sent.clear()
    driver.frames.clear()
    return driver, publisher
