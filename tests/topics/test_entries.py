"""Entries: stubs, tombstones, what is accounted, groups of keys."""

import gc
import sys

import pytest
from hypothesis import given

from topicast.tests.strategies import entries, keys
from topicast.topics.objects.names import group_of
from topicast.topics.topic import (
    ENTRY_OVERHEAD_BYTES,
    PREFIX,
    STUB,
    TOMBSTONE,
    VALUE,
    Entry,
    accounted_bytes,
    prefix_tombstone,
    stub,
    tombstone,
)

TABLE = b"sales\0orders\0"
FULL_ENTRY = Entry(TABLE, 7, 7, 7, 1, b"v")
MADE = (FULL_ENTRY, stub(FULL_ENTRY), tombstone(TABLE, 7), prefix_tombstone(TABLE, 7))


@given(entries())
def test_stub_of_a_value_keeps_all_but_the_value(entry: Entry) -> None:
    reported = stub(entry)
    assert reported.value is None
    assert reported.kind == (STUB if entry.kind == VALUE else entry.kind)
    assert (reported.key, reported.version, reported.size) == (entry.key, entry.version, entry.size)
    assert reported.schema_version == entry.schema_version
    assert reported.data_version == entry.data_version


@given(entries())
def test_stub_of_a_stub_is_itself(entry: Entry) -> None:
    assert stub(stub(entry)) == stub(entry)


def test_tombstones_hold_no_value_and_changed_when_they_were_made() -> None:
    assert tombstone(TABLE + b"\x01a", 7) == Entry(TABLE + b"\x01a", 7, 7, 7, 0, None, TOMBSTONE)
    assert prefix_tombstone(TABLE, 7) == Entry(TABLE, 7, 7, 7, 0, None, PREFIX)


@pytest.mark.parametrize("kind", [VALUE, STUB, TOMBSTONE, PREFIX])
def test_kinds_do_not_make_tuples_visible_to_the_garbage_collector(kind: int) -> None:
    row = (7, TABLE, kind)  # what a topic keeps of each tombstone
    gc.collect()
    assert not gc.is_tracked(row)
    assert {type(made.kind) for made in MADE} == {int}


@given(entries())
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
