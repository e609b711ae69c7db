"""The deltas that a hub derives: those at minimal, and the stubs of a catch-up."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.statestore.content.stub_deltas import catch_up_stubs, minimal, stub_bytes
from topicast.tests.statestore.hub_driver import KEY, PublisherPeer, chunk
from topicast.tests.strategies import value
from topicast.topics.streams.sender import STUBS_BYTES_MAX
from topicast.topics.topic import (
    FULL,
    MINIMAL,
    PREFIX,
    STUB,
    TOMBSTONE,
    Entry,
    Topic,
    prefix_tombstone,
    stub,
    tombstone,
)
from topicast.topics.wire import decode, encode
from topicast.topics.wire.header import HEADER_BYTES
from topicast.topics.wire.messages.data import SOURCE_CATCH_UP, Delta

OTHER = b"db\0other\0"
ENTRIES = (
    prefix_tombstone(KEY, 4),
    value(KEY, 4, b"content"),
    tombstone(OTHER, 5),
    stub(value(b"db\0third\0", 6, b"withheld")),
)


def delta(*entries: Entry, stubbed: bool = False) -> Delta:
    sent = PublisherPeer().change(1)
    return replace(sent, from_version=3, to_version=6, entries=entries, stubbed=stubbed)


def topic(*entries: Entry, version: int = 6, floor: int = 0) -> Topic:
    made = Topic()
    made.reset(10)
    made.file(entries)
    made.version = version
    made.raise_floor(floor)
    return made


def test_minimal_delta_has_every_key_and_no_value() -> None:
    """P-DATA-2."""
    full = delta(*ENTRIES)
    derived = minimal(full)
    assert [entry.kind for entry in derived.entries] == [PREFIX, STUB, TOMBSTONE, STUB]
    assert [entry.value for entry in derived.entries] == [None] * 4
    assert [entry.size for entry in derived.entries] == [0, len(b"content"), 0, len(b"withheld")]
    assert replace(derived, level=FULL, entries=full.entries) == full
    assert decode(encode(derived)) == derived


def test_stubbed_delta_is_complete_at_minimal() -> None:
    """P-FOLLOW-6: there nothing is missing, so a catch-up would bring nothing."""
    derived = minimal(delta(*map(stub, ENTRIES), stubbed=True))
    assert (derived.level, derived.stubbed) == (MINIMAL, False)


@given(st.lists(st.sampled_from(ENTRIES), max_size=8))
def test_bytes_of_stubs_are_those_on_the_wire(entries: list[Entry]) -> None:
    chosen = sorted(entries, key=lambda entry: entry.version)
    frame = encode(minimal(delta(*chosen)))
    assert stub_bytes(chosen) == len(frame) - HEADER_BYTES


def test_catch_up_is_reported_as_stubs_of_the_changes_since_the_old_position() -> None:
    """P-DATA-4."""
    held = topic(value(OTHER, 2), value(KEY, 3), value(b"db\0third\0", 6))
    report = catch_up_stubs(held, chunk(), from_version=2, stub_bytes=0)
    assert (report.from_version, report.to_version) == (2, 6)
    assert [(entry.key, entry.kind) for entry in report.entries] == [
        (KEY, STUB),
        (b"db\0third\0", STUB),
    ]
    assert (report.level, report.stubbed, report.invalidate_all) == (FULL, True, False)
    assert (report.topic, report.epoch, report.start, report.sent_us) == (1, 10, 5, 77)
    assert report.source == SOURCE_CATCH_UP
    assert decode(encode(report)) == report


@pytest.mark.parametrize(
    ("from_version", "floor", "stub_bytes", "invalidate_all"),
    [
        (0, 0, 0, True),
        (1, 0, 0, False),
        (3, 3, 0, False),
        (2, 3, 0, True),
        (2, 0, STUBS_BYTES_MAX, False),
        (2, 0, STUBS_BYTES_MAX + 1, True),
    ],
)
def test_report_is_an_invalidate_all_marker_where_stubs_may_be_missing_or_too_many(
    from_version: int, floor: int, stub_bytes: int, invalidate_all: bool
) -> None:
    """P-DATA-4: after a snapshot, below the floor, and beyond a frame."""
    held = topic(value(KEY, 5), floor=floor)
    report = catch_up_stubs(held, chunk(), from_version=from_version, stub_bytes=stub_bytes)
    assert report.invalidate_all is invalidate_all
    assert bool(report.entries) is not invalidate_all
    assert (report.from_version, report.to_version, report.stubbed) == (from_version, 6, True)


@pytest.mark.parametrize(("held", "received"), [(0, 4), (4, 0), (2, 3)])
def test_report_carries_the_higher_floor_of_the_topic_and_the_chunk(
    held: int, received: int
) -> None:
    """P-FLOOR-4."""
    report = catch_up_stubs(
        topic(value(KEY, 5), floor=held), chunk(floor=received), from_version=5, stub_bytes=0
    )
    assert report.floor == max(held, received)


def test_report_ends_at_the_version_of_the_topic_though_the_last_chunk_is_older() -> None:
    report = catch_up_stubs(topic(value(KEY, 9), version=9), chunk(), from_version=8, stub_bytes=0)
    assert (report.from_version, report.to_version) == (8, 9)
