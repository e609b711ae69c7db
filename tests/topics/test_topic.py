"""Topic: its number, levels and entries; the map against a plain dict with its whole history."""

import gc
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from topicast.tests.strategies import entries as any_entries
from topicast.tests.strategies import keys, text, value
from topicast.topics.errors import ConfigError
from topicast.topics.objects.names import group_of
from topicast.topics.topic import (
    ALL_OFFERED,
    BARRIER,
    CONTROL,
    ENTRY_OVERHEAD_BYTES,
    FULL,
    HEARTBEAT,
    MINIMAL,
    NAMESPACE,
    NONE,
    NUM_TOPICS_DEFAULT,
    NUM_TOPICS_MAX,
    PREFIX,
    STUB,
    TOMBSTONE,
    VALUE,
    Entry,
    Topic,
    accounted_bytes,
    check_num_topics,
    is_topic,
    offered,
    offered_names,
    prefix_tombstone,
    stub,
    table_topic,
    tombstone,
    topic_ids,
)

FILE = Path(__file__).parent.parent / "vectors" / "sharding_v1.json"
VECTORS: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
POWERS = st.integers(0, 12).map(lambda exponent: 1 << exponent)
GROUPS = (b"d\0a\0", b"d\0b\0", b"d\0c\0")
KEYS = tuple(group + rest for group in GROUPS for rest in (b"", b"\x01", b"\x01x"))
A, B = GROUPS[0], GROUPS[1]
TABLE = b"sales\0orders\0"
FULL_ENTRY = Entry(TABLE, 7, 7, 7, 1, b"v")
MADE = (FULL_ENTRY, stub(FULL_ENTRY), tombstone(TABLE, 7), prefix_tombstone(TABLE, 7))
State = dict[bytes, Entry]


def applied(state: State, entries: list[Entry]) -> State:
    """Apply ``entries`` as a reader does that has no topic."""
    after = dict(state)
    for entry in entries:
        if entry.kind == PREFIX:
            held = list(after.items())
            gone = [k for k, e in held if group_of(k) == entry.key and e.version < entry.version]
            for key in gone:
                del after[key]
        elif entry.kind == TOMBSTONE:
            after.pop(entry.key, None)
        else:
            after[entry.key] = entry
    return after


def held(topic: Topic) -> State:
    return {entry.key: entry for group in topic.group_ids() for entry in topic.rows(group)}


@st.composite
def transactions(draw: st.DrawFn, version: int) -> list[Entry]:
    """Draw what one transaction changes: each key once, and perhaps groups beneath it all."""
    changed: list[Entry] = [
        prefix_tombstone(group, version)
        for group in draw(st.lists(st.sampled_from(GROUPS), max_size=2, unique=True))
    ]
    for key in draw(st.lists(st.sampled_from(KEYS), max_size=4, unique=True)):
        full = value(key, version, draw(st.binary(max_size=3)))
        changed.append(draw(st.sampled_from((full, full, stub(full), tombstone(key, version)))))
    return draw(st.permutations(changed))


class TopicMachine(RuleBasedStateMachine):
    """A topic, the states that it went through, and a hub's topic that follows it."""

    @initialize(epoch=st.integers(1, 9))
    def begin(self, epoch: int) -> None:
        self.topic, self.hub = Topic(), Topic()
        self.topic.reset(epoch)
        self.hub.reset(epoch)
        self.history: list[State] = [{}]

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        version = self.topic.version + 1
        entries = data.draw(transactions(version))
        before = [entry for entry in entries if entry.kind == PREFIX]
        after = [entry for entry in entries if entry.kind != PREFIX]
        self.history.append(applied(self.history[-1], before + after))
        self.topic.file(entries)
        self.topic.version = version

    @rule(data=st.data())
    def raise_floor(self, data: st.DataObject) -> None:
        floor = data.draw(st.integers(0, self.topic.version))
        before = self.topic.floor
        self.topic.raise_floor(floor)
        assert self.topic.floor == max(before, floor)

    @rule()
    def discard_all_tombstones(self) -> None:
        self.topic.raise_floor(self.topic.version)
        assert self.topic.tombstones() == 0

    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        known = data.draw(st.integers(self.topic.floor, self.topic.version))
        answer = list(self.topic.since(known))
        assert applied(self.history[known], answer) == self.history[-1]
        assert all(known < entry.version <= self.topic.version for entry in answer)
        order = [(entry.version, entry.key, entry.kind != PREFIX) for entry in answer]
        assert order == sorted(set(order))

    @rule()
    def follow(self) -> None:
        if self.hub.version < self.topic.floor:
            self.hub.reset(self.topic.epoch)
        self.hub.file(self.topic.since(self.hub.version))
        self.hub.version = self.topic.version
        self.hub.raise_floor(self.topic.floor)
        assert list(self.hub.since(self.topic.floor)) == list(self.topic.since(self.topic.floor))
        assert held(self.hub) == held(self.topic)

    @rule()
    def follow_with_a_floor_that_comes_too_early(self) -> None:
        if self.hub.version >= self.topic.floor:
            answer = list(self.topic.since(self.hub.version))
            self.hub.raise_floor(self.topic.version)
            self.hub.file(answer)
            self.topic.raise_floor(self.topic.version)
            self.hub.version = self.topic.version
            assert held(self.hub) == held(self.topic)

    @rule(data=st.data())
    def file_again_what_is_held(self, data: st.DataObject) -> None:
        before = list(self.topic.since(0))
        self.topic.file(self.topic.since(data.draw(st.integers(0, self.topic.version))))
        assert list(self.topic.since(0)) == before

    @invariant()
    def holds_what_the_dict_holds(self) -> None:
        self.topic.check()
        self.hub.check()
        state = self.history[-1]
        assert held(self.topic) == state
        assert applied({}, list(self.topic.since(0))) == state
        assert all(self.topic.get(key) == state.get(key) for key in KEYS)
        assert set(self.topic.group_ids()) == {group_of(key) for key in state}
        assert len(self.topic) == len(list(self.topic.since(0)))
        assert self.topic.held_bytes == sum(map(accounted_bytes, list(self.topic.since(0))))


TopicMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
test_topic_holds_what_a_dict_with_history_holds: Any = TopicMachine.TestCase


def test_dropped_group_is_one_entry_and_its_rows_are_gone() -> None:
    """P-ROW-5."""
    topic = Topic()
    topic.file([value(A + b"\x01%d" % n, 1) for n in range(1000)])
    topic.file([prefix_tombstone(A, 2)])
    assert list(topic.since(1)) == [prefix_tombstone(A, 2)]
    assert len(topic) == 1
    assert topic.held_bytes == accounted_bytes(prefix_tombstone(A, 2))


def test_prefix_spares_the_content_of_its_own_version_in_either_order() -> None:
    """P-ROW-5."""
    rows = [value(A, 2), value(A + b"\x01", 2)]
    for entries in ([prefix_tombstone(A, 2), *rows], [*rows, prefix_tombstone(A, 2)]):
        for floor, kept in ((0, [prefix_tombstone(A, 2)]), (2, [])):
            topic = Topic()
            topic.raise_floor(floor)
            topic.file([value(A, 1), value(A + b"\x01old", 1)])
            topic.file(entries)
            assert list(topic.since(0)) == [*kept, *rows]
            topic.check()


def test_prefix_is_not_among_what_came_after_it() -> None:
    """P-FLOOR-3."""
    topic = Topic()
    topic.file([prefix_tombstone(A, 2)])
    topic.file([value(A, 3)])
    assert list(topic.since(2)) == [value(A, 3)]


def test_content_below_a_prefix_does_not_come_back() -> None:
    topic = Topic()
    topic.file([prefix_tombstone(A, 5)])
    topic.file([value(A, 4), prefix_tombstone(A, 3)])
    assert list(topic.since(0)) == [prefix_tombstone(A, 5)]


def test_tombstone_at_the_floor_deletes_and_leaves_no_trace() -> None:
    """P-FLOOR-2."""
    topic = Topic()
    topic.file([value(A, 1), value(A + b"\x01", 2), value(B, 3)])
    topic.raise_floor(9)
    topic.file([tombstone(A, 4), tombstone(b"d\0never\0", 5), prefix_tombstone(B, 6)])
    topic.check()
    assert list(topic.since(0)) == [value(A + b"\x01", 2)]
    assert topic.tombstones() == 0


def test_order_survives_a_tombstone_that_is_filed_late() -> None:
    """P-FLOOR-2: a tombstone put at the end of a group would hide what stands before it."""
    topic = Topic()
    topic.file([value(A, 1), tombstone(A, 7), value(A + b"\x01", 10), value(B, 12)])
    topic.raise_floor(8)
    topic.file([tombstone(A, 7), prefix_tombstone(A, 6)])
    topic.check()
    assert list(topic.since(9)) == [value(A + b"\x01", 10), value(B, 12)]


def test_reset_begins_an_epoch_with_nothing() -> None:
    topic = Topic()
    topic.file([value(A, 3), tombstone(B, 4)])
    topic.version = 4
    topic.raise_floor(1)
    topic.reset(8)
    topic.check()
    assert (topic.epoch, topic.version, topic.floor) == (8, 0, 0)
    assert (topic.held_bytes, len(topic)) == (0, 0)
    assert topic.tombstones() == 0
    assert list(topic.since(0)) == []


def test_unknown_key_and_group_are_empty() -> None:
    topic = Topic()
    assert topic.get(A) is None
    assert topic.rows(A) == ()
    topic.file([tombstone(A, 1)])
    assert topic.get(A) is None
    assert topic.group_ids() == ()


@pytest.mark.parametrize("kind", [TOMBSTONE, STUB])
def test_check_notices_a_topic_that_was_filed_out_of_order(kind: int) -> None:
    topic = Topic()
    topic.file([value(A, 9), Entry(A + b"\x01", 3, 0, 0, 0, None, kind)])
    with pytest.raises(AssertionError):
        topic.check()


@given(any_entries())
def test_stub_of_a_value_keeps_all_but_the_value(entry: Entry) -> None:
    reported = stub(entry)
    assert reported.value is None
    assert reported.kind == (STUB if entry.kind == VALUE else entry.kind)
    assert (reported.key, reported.version, reported.size) == (entry.key, entry.version, entry.size)
    assert reported.schema_version == entry.schema_version
    assert reported.data_version == entry.data_version
    assert stub(reported) == reported


def test_tombstones_hold_no_value_and_changed_when_they_were_made() -> None:
    assert tombstone(TABLE + b"\x01a", 7) == Entry(TABLE + b"\x01a", 7, 7, 7, 0, None, TOMBSTONE)
    assert prefix_tombstone(TABLE, 7) == Entry(TABLE, 7, 7, 7, 0, None, PREFIX)


@pytest.mark.parametrize("kind", [VALUE, STUB, TOMBSTONE, PREFIX])
def test_kinds_do_not_make_tuples_visible_to_the_garbage_collector(kind: int) -> None:
    row = (7, TABLE, kind)  # what a topic keeps of each tombstone
    gc.collect()
    assert not gc.is_tracked(row)
    assert {type(made.kind) for made in MADE} == {int}


@given(any_entries())
def test_accounted_bytes_cover_what_an_entry_takes(entry: Entry) -> None:
    numbers = (entry.version, entry.schema_version, entry.data_version, entry.size)
    taken = sum(map(sys.getsizeof, (entry, entry.key, *numbers)))
    taken += sys.getsizeof(entry.value) if entry.value is not None else 0
    assert taken <= accounted_bytes(entry)
    assert accounted_bytes(tombstone(TABLE, 1)) == ENTRY_OVERHEAD_BYTES + len(TABLE)


@given(keys)
def test_group_ends_at_the_second_nul(key: bytes) -> None:
    group = group_of(key)
    assert key.startswith(group)
    assert group.count(b"\0") == 2
    assert group.endswith(b"\0")


@pytest.mark.parametrize("key", [b"", b"sales", b"sales\0orders"])
def test_key_without_two_nuls_has_no_group(key: bytes) -> None:
    with pytest.raises(ValueError, match="not found"):
        group_of(key)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['db']}.{v['table']}/{v['num']}")
def test_golden_vector_gives_the_same_topic(vector: dict[str, Any]) -> None:
    """P-SHARD-1."""
    assert table_topic(vector["db"], vector["table"], vector["num"]) == vector["topic"]


@given(text, text, POWERS)
def test_topic_of_a_table_holds_entries(db: str, table: str, num_topics: int) -> None:
    topic = table_topic(db, table, num_topics)
    assert is_topic(topic, num_topics)
    assert topic != NAMESPACE
    assert topic == table_topic(db, table, num_topics * 2) // 2  # doubling splits in place


def test_vectors_name_tables_first_and_the_namespace_last() -> None:
    """P-SHARD-3."""
    assert topic_ids(4) == (0, 1, 2, 3, NAMESPACE)
    assert all(is_topic(topic, 4) for topic in topic_ids(4))


@pytest.mark.parametrize("topic", [-1, 4, HEARTBEAT, BARRIER, CONTROL])
def test_other_ids_hold_no_entries(topic: int) -> None:
    assert not is_topic(topic, 4)


@pytest.mark.parametrize("number", [-2, 0, 3, 255, NUM_TOPICS_MAX * 2])
def test_number_of_topics_is_a_power_of_two(number: int) -> None:
    """P-SHARD-2."""
    assert [check_num_topics(1 << power) for power in range(13)][8] == NUM_TOPICS_DEFAULT
    with pytest.raises(ConfigError, match="a power of two from 1 to 4096"):
        check_num_topics(number)


@pytest.mark.parametrize(
    ("offers", "topic", "levels"),
    [
        (ALL_OFFERED, 7, [MINIMAL, FULL]),
        (MINIMAL, 7, [MINIMAL]),
        (FULL, 7, [FULL]),
        (MINIMAL, NAMESPACE, [MINIMAL, FULL]),
        (FULL, NAMESPACE, [FULL]),
    ],
)
def test_levels_that_may_be_joined(offers: int, topic: int, levels: list[int]) -> None:
    assert [one for one in (NONE, MINIMAL, FULL) if offered(offers, topic, one)] == levels


def test_offers_have_names() -> None:
    assert offered_names(ALL_OFFERED) == "none, minimal, full"
    assert offered_names(MINIMAL) == "none, minimal"
