"""Topics to catch up from, what they answer, and a copy that is fed from the answers."""

from collections.abc import Iterator

from hypothesis import strategies as st

from topicast.topics.bulk import Part, Send, chunks
from topicast.topics.follower import CaughtUp, File, Follower, PeerAt, Reset, Tick, Want
from topicast.topics.topic import FULL, Entry, Topic, group_of, prefix_tombstone, tombstone
from topicast.topics.wire.messages import Bye, Chunk, Message, Refused, Wanted

TABLE = b"d\0t\0"
BYE = Bye(reason="")


def value(version: int, rest: bytes = b"", size: int = 1) -> Entry:
    return Entry(TABLE + rest, version, version, version, size, bytes(size))


def topic_of(entries: list[Entry], *, version: int, floor: int = 0) -> Topic:
    topic = Topic()
    topic.reset(5)
    topic.file(entries)
    topic.version = version
    topic.raise_floor(floor)
    return topic


def want(version: int, level: int = FULL, *, epoch: int = 5, **resume: int | bytes) -> Wanted:
    return Wanted(topic=7, level=level, epoch=epoch, version=version, **resume)


def answer(topic: Topic | Refused, *wanted: Wanted, stream: int = 9) -> list[Message]:
    found = chunks(stream, wanted, find=lambda _: topic, stamp=lambda: (3, 4))
    return [message for _, message in found]


def answered(topic: Topic, wanted: Wanted) -> list[Chunk]:
    return [part for part in answer(topic, wanted) if isinstance(part, Chunk)]


def content(parts: list[Chunk]) -> list[Entry]:
    return [entry for part in parts for entry in part.entries]


def parts(*costs: int) -> Iterator[Part]:
    return iter([(cost, BYE) for cost in costs])


def peers(sends: tuple[Send, ...]) -> bytes:
    return b"".join(send.peer for send in sends)


KEYS = tuple(b"d\0%c\0" % letter + rest for letter in b"ab" for rest in (b"", b"\x01", b"\x01x"))
changes = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(("put", "put", "delete", "drop"))),
    min_size=1,
    max_size=4,
)


def commit(topic: Topic, changed: list[tuple[bytes, str]]) -> None:
    version = topic.version + 1
    rows: dict[bytes, Entry] = {}
    graves: dict[bytes, Entry] = {}
    for key, what in changed:
        if what == "drop":
            graves[group_of(key)] = prefix_tombstone(group_of(key), version)
        elif what == "put":
            rows[key] = Entry(key, version, version, version, 1, b"v")
        else:
            rows[key] = tombstone(key, version)
    topic.file([*graves.values(), *rows.values()])
    topic.version = version


def live_rows(topic: Topic) -> dict[bytes, Entry]:
    return {entry.key: entry for group in topic.group_ids() for entry in topic.rows(group)}


class Copy:
    """A reader of one topic: its follower, and what the follower had it file."""

    def __init__(self) -> None:
        self.follower = Follower(7, FULL)
        self.topic = Topic()
        self.now = 0.0

    def catch_up(self, source: Topic, *, broken_at: int | None = None) -> None:
        """Ask ``source`` for what is new; its stream is lost before part ``broken_at``."""
        self.now += 10
        effects = self.follower.handle(PeerAt(source.epoch, source.version), now=self.now)
        effects += self.follower.handle(Tick(), now=self.now)
        for effect in effects:
            assert isinstance(effect, Want)
            self.follower.opened(int(self.now), now=self.now)
            parts = answer(source, effect.wanted, stream=int(self.now))
            for part in parts[:broken_at]:
                assert isinstance(part, Chunk)
                self.take(part)

    def take(self, part: Chunk) -> None:
        for effect in self.follower.handle(part, now=self.now):
            match effect:
                case Reset(epoch=epoch):
                    self.topic.reset(epoch)
                case File(chunk=filed):
                    self.topic.file(filed.entries)
                    self.topic.check()
                case _:
                    assert isinstance(effect, CaughtUp)
                    self.topic.version = effect.chunk.to_version
                    self.topic.raise_floor(effect.chunk.floor)
        self.follower.check()
