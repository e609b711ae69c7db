"""Followers for tests, and a walk of one among messages that are lost, doubled and out of order."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from topicast.topics.streams import sender
from topicast.topics.streams.follower import (
    LIVE,
    SILENCE_S_MAX,
    Apply,
    CaughtUp,
    Due,
    Effect,
    File,
    Follower,
    PeerAt,
    Reset,
    StreamLost,
    Want,
)
from topicast.topics.topic import FULL, PREFIX, Entry, Topic, prefix_tombstone, stub, tombstone
from topicast.topics.wire.messages.data import Chunk, Delta
from topicast.topics.wire.messages.readers import Wanted

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


def requested(effects: tuple[Effect, ...]) -> Wanted:
    """Return what ``effects`` ask for; nothing else is among them."""
    [want] = effects
    assert isinstance(want, Want)
    return want.wanted


def live(version: int = 10, level: int = FULL) -> Follower:
    """Return a follower that a snapshot brought to ``version`` of epoch 5."""
    follower = Follower(7, level)
    follower.handle(Due(), now=0)
    follower.opened(1, now=0)
    follower.handle(chunk(1, 0, version, snapshot=True, level=level), now=0)
    assert (follower.state, follower.version) == (LIVE, version)
    follower.check()
    return follower


def behind(version: int = 10, level: int = FULL) -> Follower:
    """Return a follower that was LIVE at ``version`` and has stream 2 open from second 10 on."""
    follower = live(version, level)
    requested(follower.handle(PeerAt(5, 99), now=10))
    follower.opened(2, now=10)
    return follower


KEYS = tuple(b"d\0%c\0" % letter + rest for letter in b"abc" for rest in (b"", b"\x01", b"\x01x"))


def rows_of(topic: Topic) -> dict[bytes, Entry]:
    return {entry.key: entry for group in topic.group_ids() for entry in topic.rows(group)}


Pick = Callable[[int, int], int]  # a number from the first to the last, from whatever draws


class Walk:
    """A writer, two copies that lag behind it, and a follower whose messages may be lost."""

    def __init__(self) -> None:
        self.now = 100.0
        self.writer = Topic()
        self.copies = (Topic(), Topic())
        for topic in (self.writer, *self.copies):
            topic.reset(1)
        self.log: list[Delta] = []
        self.states: dict[tuple[int, int], dict[bytes, Entry]] = {(1, 0): {}}
        self.reader = Follower(7, FULL)
        self.held = Topic()  # what the reader has filed
        self.answered: tuple[int, int] = (0, 0)
        self.streams: dict[int, list[Any]] = {}
        self.want: Wanted | None = None
        self.last_stream = 0

    def act(self, pick: Pick) -> None:
        """Perform one step that ``pick`` chooses."""
        actions = (
            *(self.commit,) * 4,
            *(self.deliver_a_delta,) * 3,
            *(self.open_stream,) * 5,
            *(self.deliver_a_chunk,) * 7,
            *(self.feed_a_copy,) * 2,
            self.report_the_newest,
            self.raise_the_floor,
            self.lose_the_stream,
            self.wait,
        )
        number = pick(0, 60)
        if number == 60 and self.writer.epoch < 3:
            self.writer.reset(self.writer.epoch + 1)
            self.states[self.writer.epoch, 0] = {}
        else:
            actions[number % len(actions)](pick)
        if self.reader.state is LIVE:
            assert (self.reader.epoch, self.reader.version) == self.answered

    def heal(self) -> None:
        """End the faults: the reader reaches the version of the writer."""
        for _ in range(20):
            self.feed(self.copies[0])
            self.receive(PeerAt(self.writer.epoch, self.writer.version))
            self.now += SILENCE_S_MAX + 1
            self.receive(Due())
            if self.want is None:
                break
            self.open(self.copies[0])
            for part in self.streams.pop(self.last_stream):
                self.receive(part)
        newest = (self.writer.epoch, self.writer.version)
        assert (self.reader.state, self.answered) == (LIVE, newest)
        floor = self.writer.floor
        assert list(self.held.since(floor)) == list(self.writer.since(floor)), "not as a hub needs"

    def receive(self, fact: Any) -> None:
        for effect in self.reader.handle(fact, now=self.now):
            self.perform(effect)
        self.reader.check()

    def perform(self, effect: Effect) -> None:
        match effect:
            case Apply(delta=reported):
                assert reported.from_version == self.answered[1]
                self.file(reported.entries)
                self.compare((reported.epoch, reported.to_version))
            case File(chunk=part):
                self.file(part.entries)
            case Reset(epoch=epoch):
                self.held.reset(epoch)
            case Want(wanted=wanted):
                self.want = wanted
            case CaughtUp(chunk=last, from_version=before):
                self.compare((last.epoch, max(before, last.to_version)))
                self.held.raise_floor(last.floor)

    def file(self, entries: tuple[Entry, ...]) -> None:
        """File ``entries``; what is held is never replaced by something older."""
        for one in entries:
            have = self.held.get(one.key)
            assert have is None or one.version >= have.version
        self.held.file(entries)
        self.held.check()

    def compare(self, place: tuple[int, int]) -> None:
        """Compare the content that a reader would be answered now with the writer's history."""
        assert place >= self.answered, "rolled back"
        assert rows_of(self.held) == self.states[place], "not the state of any moment"
        self.answered = place

    def commit(self, pick: Pick) -> None:
        version = self.writer.version + 1
        entries = [prefix_tombstone(KEYS[3 * pick(0, 2)], version)] if pick(0, 3) == 0 else []
        for key in {KEYS[pick(0, len(KEYS) - 1)]: True for _ in range(pick(1, 3))}:
            entries.append(tombstone(key, version) if pick(0, 2) == 0 else entry(version, key))
        self.writer.file(entries)
        self.writer.version = version
        self.states[self.writer.epoch, version] = rows_of(self.writer)
        stubbed = pick(0, 3) == 0
        self.log.append(
            delta(
                version - 1,
                version,
                epoch=self.writer.epoch,
                entries=tuple(map(stub, entries)) if stubbed else tuple(entries),
                stubbed=stubbed,
            )
        )

    def raise_the_floor(self, pick: Pick) -> None:
        self.writer.raise_floor(pick(self.writer.floor, self.writer.version))

    def feed_a_copy(self, pick: Pick) -> None:
        self.feed(self.copies[1 if pick(0, 5) == 0 else 0])  # the second lags far behind

    def feed(self, copy: Topic) -> None:
        wanted = Wanted(topic=7, level=FULL, epoch=copy.epoch, version=copy.version)
        for part in self.parts(0, wanted, self.writer):
            if part.snapshot:
                copy.reset(part.epoch)
            copy.file(part.entries)
        copy.version = self.writer.version
        copy.raise_floor(self.writer.floor)
        copy.check()
        assert list(copy.since(copy.floor)) == list(self.writer.since(copy.floor))

    def deliver_a_delta(self, pick: Pick) -> None:
        if self.log:
            back = pick(0, min(3, len(self.log) - 1))
            reported = self.log[-1 - back]
            before = self.log[-2 - back] if len(self.log) > back + 1 else reported
            joins = before.epoch == reported.epoch and before.to_version == reported.from_version
            if joins and pick(0, 3) == 0:  # one delta over both, compacted
                last = {one.key: one for one in (*before.entries, *reported.entries)}
                wiped = any(one.kind == PREFIX for one in (*before.entries, *reported.entries))
                if not (wiped or before.stubbed or reported.stubbed):
                    entries = tuple(sorted(last.values(), key=lambda one: one.version))
                    reported = replace(reported, from_version=before.from_version, entries=entries)
            self.receive(reported)

    def report_the_newest(self, pick: Pick) -> None:
        self.receive(PeerAt(self.writer.epoch, self.writer.version))

    def open_stream(self, pick: Pick) -> None:
        if self.want is not None:
            self.open(self.copies[pick(0, 1)])

    def open(self, copy: Topic) -> None:
        assert self.want is not None
        self.last_stream += 1
        self.streams[self.last_stream] = self.parts(self.last_stream, self.want, copy)
        self.reader.opened(self.last_stream, now=self.now)
        self.want = None

    def parts(self, stream: int, wanted: Wanted, source: Topic) -> list[Any]:
        found = sender.chunks(stream, (wanted,), find=lambda _: source, stamp=lambda: (1, 0))
        return [part for _, part in found]

    def deliver_a_chunk(self, pick: Pick) -> None:
        if not self.streams:
            return
        newest = pick(0, 4) > 0
        stream = max(self.streams) if newest else sorted(self.streams)[0]
        parts = self.streams[stream]
        at = pick(0, len(parts) - 1) if pick(0, 5) == 0 else 0
        part = parts[at] if pick(0, 5) == 0 else parts.pop(at)
        if not parts:
            del self.streams[stream]
        self.receive(part)

    def lose_the_stream(self, pick: Pick) -> None:
        self.receive(StreamLost())

    def wait(self, pick: Pick) -> None:
        self.now += (0.05, 0.3, 3.0)[pick(0, 2)]
        self.receive(Due())


def walk(pick: Pick, *, steps: int) -> None:
    """Let ``steps`` things happen to a reader, chunks being of one entry or few, then heal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sender, "CHUNK_BYTES_MAX", (1, 100, 300)[pick(0, 2)])
        walked = Walk()
        for _ in range(steps):
            walked.act(pick)
        walked.heal()
