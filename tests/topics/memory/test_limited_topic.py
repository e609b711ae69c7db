"""A limited topic answers as a topic that holds everything, whatever is cold."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from topicast.tests.strategies import value
from topicast.tests.topics.test_topic import GROUPS, KEYS, TopicMachine, applied, held
from topicast.topics.errors import StoreError
from topicast.topics.memory.limited_topic import LimitedTopic, WarmGroups
from topicast.topics.objects.names import group_of
from topicast.topics.topic import (
    PREFIX,
    STUB,
    TOMBSTONE,
    VALUE,
    Entry,
    Topic,
    accounted_bytes,
    prefix_tombstone,
    stub,
    tombstone,
)

A, B = GROUPS[0], GROUPS[1]
NUMBER = 7


class Disk:
    """What was committed of one topic, as a store has it; ``reads``: how many entries were read."""

    def __init__(self) -> None:
        self.entries: dict[bytes, Entry] = {}
        self.tombstones: list[Entry] = []
        self.committed = 0
        self.reads = 0

    def commit(self, entries: Iterable[Entry], version: int) -> None:
        ordered = sorted(entries, key=lambda entry: entry.kind != PREFIX)
        self.entries = applied(self.entries, ordered)
        self.tombstones += [one for one in ordered if one.kind in (TOMBSTONE, PREFIX)]
        self.committed = version

    def version(self, topic: int) -> int:
        assert topic == NUMBER
        return self.committed

    def read(self, topic: int, keys: Sequence[bytes]) -> Mapping[bytes, Entry]:
        assert topic == NUMBER
        self.reads += len(keys)
        return {key: self.entries[key] for key in keys if key in self.entries}

    def load(self, warm: WarmGroups, *, floor: int) -> LimitedTopic:
        """Return the topic of a restart."""
        topic = LimitedTopic(NUMBER, warm, self)
        heads = [one._replace(value=None) for _, one in sorted(self.entries.items())]
        topic.load(heads, [one for one in self.tombstones if one.version > floor])
        topic.version = self.committed
        topic.raise_floor(floor)
        return topic


class LimitedMachine(TopicMachine):
    """The machine of a topic; the content of this topic is on a disk, and cooled at any time."""

    @initialize(epoch=st.integers(1, 9))
    def begin(self, epoch: int) -> None:
        self.disk, self.warm = Disk(), WarmGroups(1 << 20)
        self.topic = LimitedTopic(NUMBER, self.warm, self.disk)
        self.hub = Topic()
        self.topic.reset(epoch)
        self.hub.reset(epoch)
        self.history = [{}]
        self.pending: list[tuple[list[Entry], int]] = []

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        before = self.topic.version
        super().commit(data)
        written = list(self.topic.since(before))
        self.pending.append((written, self.topic.version))

    @rule()
    def store(self) -> None:
        for entries, version in self.pending:
            self.disk.commit(entries, version)
        self.pending.clear()

    @rule(group=st.sampled_from(GROUPS))
    def cool(self, group: bytes) -> None:
        self.topic.cool(group)

    @rule(limit=st.integers(0, 2000))
    def shrink(self, limit: int) -> None:
        self.store()
        self.warm.limit_bytes = limit
        assert not self.warm.shrink()
        cold = [group for group in self.topic.group_ids() if not self.topic.cool(group)]
        assert self.topic.held_bytes <= limit or len(cold) == len(self.topic.group_ids())

    @rule()
    def restart(self) -> None:
        self.store()
        epoch = self.topic.epoch
        self.topic = self.disk.load(self.warm, floor=self.topic.floor)
        self.topic.epoch = epoch

    @invariant()
    def holds_what_the_dict_holds(self) -> None:
        state = self.history[-1]
        assert len(self.topic) == len(list(self.topic.since(0)))
        assert applied({}, list(self.topic.since(0))) == state
        assert {key for g in GROUPS for key in (e.key for e in self.topic.heads(g))} == set(state)
        assert held(self.topic) == state
        assert set(self.topic.group_ids()) == {group_of(key) for key in state}
        if len(state) % 2:  # else what is cold stays so
            assert all(self.topic.get(key) == state.get(key) for key in KEYS)
            self.topic.check()
            self.hub.check()


LimitedMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
test_limited_topic_holds_what_a_dict_with_history_holds: Any = LimitedMachine.TestCase


def filled_topic(disk: Disk, *entries: Entry, limit_bytes: int = 0) -> LimitedTopic:
    """Return a topic with ``entries``, which are stored, and cold."""
    topic = LimitedTopic(NUMBER, WarmGroups(limit_bytes), disk)
    topic.file(entries)
    topic.version = max(entry.version for entry in entries)
    disk.commit(entries, topic.version)
    for group in topic.group_ids():
        topic.cool(group)
    return topic


def test_cold_content_takes_a_fraction_of_the_memory_and_is_counted_apart() -> None:
    rows = [value(A + b"\x01%d" % n, n + 1, bytes(1000)) for n in range(100)]
    topic = filled_topic(Disk(), *rows)
    assert topic.held_bytes < 4000
    assert topic.cold_bytes == 100_000
    assert len(topic) == 100
    assert topic.get(rows[5].key) == rows[5]
    assert topic.held_bytes == sum(accounted_bytes(stub(row)) for row in rows) + 1000
    topic.check()


def test_heads_read_nothing_and_a_value_is_read_once() -> None:
    disk = Disk()
    topic = filled_topic(disk, value(A, 1, b"a"), value(A + b"\x01", 2, b"b"))
    assert [entry.value for entry in topic.heads(A)] == [None, None]
    assert topic.head(A) == value(A, 1, b"a")._replace(value=None)
    assert disk.reads == 0
    assert [topic.get(A), topic.get(A)] == [value(A, 1, b"a")] * 2
    assert disk.reads == 1


def test_rows_and_since_leave_what_is_cold_as_it_is() -> None:
    disk = Disk()
    topic = filled_topic(disk, value(A, 1, b"a"), value(A + b"\x01", 2, b"b"))
    before = topic.held_bytes
    assert list(topic.since(0)) == [value(A, 1, b"a"), value(A + b"\x01", 2, b"b")]
    assert topic.held_bytes == before
    assert topic.rows(A) == tuple(topic.since(0))
    assert list(topic.since(1)) == [value(A + b"\x01", 2, b"b")]


def test_what_changes_before_since_has_returned_it_is_a_stub() -> None:
    disk = Disk()
    old, same = value(A, 1, b"a"), value(B, 2, b"b")
    topic = filled_topic(disk, old, same)
    found = topic.since(0)
    new = value(A, 3, b"new")
    topic.file([new])
    disk.commit([new], 3)
    assert list(found) == [stub(old), same]
    assert list(topic.since(2)) == [new]


def test_what_is_not_stored_yet_is_not_cooled() -> None:
    disk = Disk()
    topic = filled_topic(disk, value(A, 1, b"a"))
    topic.file([value(A, 2, b"b")])
    assert topic.cool(A) == 0
    assert topic.get(A) == value(A, 2, b"b")


def test_least_recently_used_groups_are_cooled_first() -> None:
    disk, warm = Disk(), WarmGroups(1 << 20)
    topic = LimitedTopic(NUMBER, warm, disk)
    rows = [value(group, n + 1, bytes(1000)) for n, group in enumerate(GROUPS)]
    topic.file(rows)
    disk.commit(rows, 3)
    topic.get(GROUPS[0])
    warm.limit_bytes = topic.held_bytes - 1
    assert not warm.shrink()
    assert topic.get(GROUPS[0]) == rows[0]
    assert topic.get(GROUPS[2]) == rows[2]
    assert disk.reads == 0
    assert topic.get(GROUPS[1]) == rows[1]
    assert disk.reads == 1
    assert warm.cooled == 1


def test_cold_content_without_a_backing_is_a_stub_of_its_version() -> None:
    warm = WarmGroups(0)
    topic = LimitedTopic(NUMBER, warm)
    rows = [value(A, 1, b"a"), tombstone(A + b"\x01", 2), value(B, 3, b"b")]
    topic.file(rows)
    topic.version = 3
    assert not warm.shrink()
    assert list(topic.since(0)) == [stub(rows[0]), rows[1], stub(rows[2])]
    assert topic.get(A) == stub(rows[0])
    topic.file([value(A, 4, b"new")])
    assert topic.get(A) == value(A, 4, b"new")
    topic.check()


def test_what_a_hub_has_cooled_while_it_is_sent_is_a_stub() -> None:
    warm = WarmGroups(1 << 20)
    topic = LimitedTopic(NUMBER, warm)
    topic.file([value(A, 1, b"a")])
    found = topic.since(0)
    topic.cool(A)
    assert list(found) == [stub(value(A, 1, b"a"))]


def test_store_that_lacks_what_it_had_is_named() -> None:
    disk = Disk()
    topic = filled_topic(disk, value(A, 1, b"a"))
    disk.entries.clear()
    with pytest.raises(StoreError, match="has no value of"):
        topic.get(A)


def test_versions_beyond_32_bits_stay_what_they_are() -> None:
    disk = Disk()
    large = Entry(A, 1 << 40, 1 << 33, 1 << 39, 1, b"a")
    topic = filled_topic(disk, large)
    assert list(topic.since(0)) == [large]


def test_reset_leaves_nothing_to_be_cooled() -> None:
    warm = WarmGroups(0)
    topic = LimitedTopic(NUMBER, warm)
    topic.file([value(A, 1, b"a"), prefix_tombstone(B, 2), value(B, 3, b"b")])
    topic.reset(2)
    assert (len(warm), warm.held_bytes, topic.held_bytes, len(topic)) == (0, 0, 0, 0)
    assert not warm.shrink()
    assert {VALUE, STUB}.isdisjoint(e.kind for e in topic.since(0))
