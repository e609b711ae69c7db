"""A follower for tests to look at, and a machine that lets everything go wrong around it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from topicast.topics import bulk
from topicast.topics.entries import FULL, Entry, prefix_tombstone, stub, tombstone
from topicast.topics.follower import (
    LIVE,
    Ahead,
    Apply,
    CaughtUp,
    Effect,
    File,
    Follower,
    Reset,
    StreamLost,
    Tick,
    Want,
)
from topicast.topics.topic import Topic
from topicast.topics.wire.messages import Chunk, Delta, Wanted

KEY = b"d\0t\0"


def entry(version: int, key: bytes = KEY, content: bytes = b"v") -> Entry:
    return Entry(key, version, version, version, len(content), content)


def delta(start: int, end: int, *, epoch: int = 5, **changed: Any) -> Delta:
    like = Delta(
        topic=7,
        level=FULL,
        epoch=epoch,
        start=1,
        from_version=start,
        to_version=end,
        floor=0,
        sent_us=0,
        source=0,
        entries=tuple(
            entry(version, KEY + b"%d" % version) for version in range(start + 1, end + 1)
        ),
    )
    return replace(like, **changed)


def chunk(stream: int, start: int, end: int, **changed: Any) -> Chunk:
    like = Chunk(
        topic=7,
        level=FULL,
        epoch=5,
        start=1,
        from_version=start,
        to_version=end,
        floor=0,
        sent_us=0,
        stream=stream,
        sequence=0,
        resume_version=0,
        resume_key=b"",
        entries=(),
        first=True,
        last=True,
    )
    made = replace(like, **changed)
    last = made.entries[-1] if made.entries else None
    return replace(made, resume_version=last.version, resume_key=last.key) if last else made


def asked(effects: tuple[Effect, ...]) -> Wanted:
    """Return what ``effects`` ask for; nothing else is among them."""
    [want] = effects
    assert isinstance(want, Want)
    return want.wanted


def live(version: int = 10, level: int = FULL) -> Follower:
    """Return a follower that a snapshot brought to ``version`` of epoch 5."""
    follower = Follower(7, level)
    follower.handle(Tick(), now=0)
    follower.opened(1, now=0)
    follower.handle(chunk(1, 0, version, snapshot=True, level=level), now=0)
    assert (follower.state, follower.version) == (LIVE, version)
    follower.check()
    return follower


def behind(version: int = 10, level: int = FULL) -> Follower:
    """Return a follower that was LIVE at ``version`` and has stream 2 open from second 10 on."""
    follower = live(version, level)
    asked(follower.handle(Ahead(5, 99), now=10))
    follower.opened(2, now=10)
    return follower


KEYS = tuple(b"d\0%c\0" % letter + rest for letter in b"abc" for rest in (b"", b"\x01", b"\x01x"))


def apply(state: dict[bytes, Entry], entries: tuple[Entry, ...]) -> None:
    """Obey ``entries`` as a reader does; what is held is never replaced by something older."""
    held = Topic()
    held.file(sorted(state.values(), key=lambda one: one.version))
    for one in entries:
        have = state.get(one.key)
        assert have is None or one.version >= have.version
    held.file(entries)
    state.clear()
    state.update({e.key: e for group in held.group_ids() for e in held.rows(group)})


class Hub:
    """One sender of the lineage: a topic, and how far it is behind the writer."""

    def __init__(self) -> None:
        self.topic = Topic()


class FollowerMachine(RuleBasedStateMachine):
    """A writer, two hubs that lag behind it, and a reader whose every message may go wrong."""

    @initialize(chunk_bytes=st.sampled_from((1, 100, 300)))
    def begin(self, chunk_bytes: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(bulk, "CHUNK_BYTES_MAX", chunk_bytes)
        self.now = 100.0
        self.writer = Topic()
        self.writer.reset(1)
        self.log: list[Delta] = []
        self.states: dict[tuple[int, int], dict[bytes, Entry]] = {(1, 0): {}}
        self.hubs = (Hub(), Hub())
        self.reader = Follower(7, FULL)
        self.state: dict[bytes, Entry] = {}
        self.answered: tuple[int, int] = (0, 0)
        self.streams: dict[int, list[Any]] = {}
        self.want: Wanted | None = None
        self.last_stream = 0
        for hub in self.hubs:
            hub.topic.reset(1)

    def tell(self, fact: Any) -> None:
        for effect in self.reader.handle(fact, now=self.now):
            self.perform(effect)
        self.reader.check()

    def perform(self, effect: Effect) -> None:
        match effect:
            case Apply(delta=told):
                assert told.from_version == self.answered[1]
                apply(self.state, told.entries)
            case File(chunk=part):
                apply(self.state, part.entries)
            case Reset():
                self.state = {}
            case Want(wanted=wanted):
                self.want = wanted
        if isinstance(effect, Apply):
            self.look((effect.delta.epoch, effect.delta.to_version))
        if isinstance(effect, CaughtUp):
            version = max(effect.from_version, effect.chunk.to_version)
            self.look((effect.chunk.epoch, version))

    def look(self, place: tuple[int, int]) -> None:
        """Hold what a reader may be answered at this moment against the writer's history."""
        assert place >= self.answered, "rolled back"
        assert self.state == self.states[place], "not the state of any moment"
        self.answered = place

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        version = self.writer.version + 1
        entries: list[Entry] = []
        if data.draw(st.booleans()):
            group = data.draw(st.sampled_from(KEYS[::3]))
            entries.append(prefix_tombstone(group, version))
        for key in data.draw(st.lists(st.sampled_from(KEYS), max_size=3, unique=True)):
            gone = data.draw(st.booleans())
            entries.append(tombstone(key, version) if gone else entry(version, key))
        stubbed = data.draw(st.booleans())
        self.writer.file(entries)
        self.writer.version = version
        self.states[self.writer.epoch, version] = {
            e.key: e for group in self.writer.group_ids() for e in self.writer.rows(group)
        }
        told = tuple(map(stub, entries)) if stubbed else tuple(entries)
        self.log.append(
            delta(version - 1, version, epoch=self.writer.epoch, entries=told, stubbed=stubbed)
        )

    @rule()
    def begin_an_epoch(self) -> None:
        if self.writer.epoch < 3:
            self.writer.reset(self.writer.epoch + 1)
            self.states[self.writer.epoch, 0] = {}

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        self.writer.forget(data.draw(st.integers(0, self.writer.version)))

    @rule(which=st.integers(0, 1))
    def feed_hub(self, which: int) -> None:
        topic = self.hubs[which].topic
        if topic.epoch != self.writer.epoch or topic.version < self.writer.floor:
            topic.reset(self.writer.epoch)
        topic.file(self.writer.since(topic.version))
        topic.version = self.writer.version
        topic.forget(self.writer.floor)
        topic.check()

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def deliver_a_delta(self, data: st.DataObject) -> None:
        recent = st.integers(max(0, len(self.log) - 3), len(self.log) - 1)
        self.tell(self.log[data.draw(recent | st.integers(0, len(self.log) - 1))])

    @rule()
    def beacon(self) -> None:
        self.tell(Ahead(self.writer.epoch, self.writer.version))

    @precondition(lambda self: self.want is not None)
    @rule(which=st.integers(0, 1))
    def open_stream(self, which: int) -> None:
        assert self.want is not None
        self.last_stream += 1
        topic = self.hubs[which].topic
        parts = bulk.chunks(
            self.last_stream, (self.want,), find=lambda _: topic, place=lambda: (1, 0)
        )
        self.streams[self.last_stream] = [part for _, part in parts]
        self.reader.opened(self.last_stream, now=self.now)
        self.want = None

    @precondition(lambda self: self.streams)
    @rule(data=st.data())
    def deliver_a_chunk(self, data: st.DataObject) -> None:
        stream = data.draw(st.sampled_from(sorted(self.streams)))
        parts = self.streams[stream]
        at = data.draw(st.integers(0, len(parts) - 1)) if data.draw(st.booleans()) else 0
        part = parts[at] if data.draw(st.booleans()) else parts.pop(at)
        if not parts:
            del self.streams[stream]
        self.tell(part)

    @rule()
    def lose_the_stream(self) -> None:
        self.tell(StreamLost())

    @rule(seconds=st.sampled_from((0.05, 0.3, 3.0)))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.tell(Tick())

    @invariant()
    def whoever_is_live_stands_where_it_was_answered(self) -> None:
        if self.reader.state == LIVE:
            assert (self.reader.epoch, self.reader.version) == self.answered

    def teardown(self) -> None:
        """After the faults end, the reader gets to where the writer stands."""
        if not hasattr(self, "writer"):
            return
        try:
            self.heal()
        finally:
            self.patch.undo()

    def heal(self) -> None:
        for _ in range(20):
            self.feed_hub(0)
            self.beacon()
            self.wait(3.0)
            if self.want is None:
                break
            self.open_stream(0)
            for part in self.streams.pop(self.last_stream):
                self.tell(part)
        assert (self.reader.state, self.answered) == (
            LIVE,
            (self.writer.epoch, self.writer.version),
        )
