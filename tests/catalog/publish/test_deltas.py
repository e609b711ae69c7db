import pytest

from topicast.catalog.model.versions import Transaction
from topicast.catalog.publish.modes import MODE_DEFAULT, Mode
from topicast.catalog.publish.publisher import (
    UNACKED_BYTES_MAX,
    Unacknowledged,
    delta_of,
)
from topicast.topics.topic import PREFIX, STUB, VALUE, Entry, prefix_tombstone, tombstone
from topicast.topics.wire import decode, encode
from topicast.topics.wire.header import DELTA_BYTES_MAX, HEADER_BYTES
from topicast.topics.wire.messages import SOURCE_EVENTS, Delta


def entry(number: int, size: int) -> Entry:
    return Entry(b"a\0b\0\x01%05d" % number, 8, 3, 8, size, b"x" * size)


def delta(*entries: Entry, floor: int = 0, mode: Mode = MODE_DEFAULT) -> Delta:
    transaction = Transaction(
        topic=2,
        from_version=7,
        to_version=8,
        entries=entries,
        source=SOURCE_EVENTS,
        at_us=5,
    )
    made = delta_of(transaction, epoch=9, start=1, floor=floor, sent_us=6, mode=mode)
    assert len(encode(made)) <= HEADER_BYTES + DELTA_BYTES_MAX
    assert decode(encode(made)) == made
    return made


def test_what_is_withheld_goes_out_as_stubs_that_no_catch_up_would_fill() -> None:
    """P-DATA-5."""
    made = delta(prefix_tombstone(b"a\0b\0", 8), entry(1, 100_000), mode=Mode("minimal"))
    assert [one.kind for one in made.entries] == [PREFIX, STUB]
    assert made.entries[1].size == 100_000
    assert not made.stubbed, "a reader at full applies it, and catches up with nothing"


def test_small_transaction_goes_out_with_its_values() -> None:
    entries = (prefix_tombstone(b"a\0b\0", 8), tombstone(b"a\0c\0", 8), entry(1, 100))
    made = delta(*entries, floor=4)
    assert made.entries == entries
    assert (made.topic, made.epoch, made.start, made.source) == (2, 9, 1, SOURCE_EVENTS)
    assert (made.from_version, made.to_version, made.floor, made.sent_us) == (7, 8, 4, 6)
    assert (made.stubbed, made.invalidate_all) == (False, False)


def test_transaction_up_to_64_kb_goes_out_with_its_values_and_one_above_as_stubs() -> None:
    fits = delta(entry(1, DELTA_BYTES_MAX - 67))
    assert [e.kind for e in fits.entries] == [VALUE]
    assert not fits.stubbed
    large = delta(tombstone(b"a\0c\0", 8), entry(1, DELTA_BYTES_MAX - 66))
    assert large.stubbed
    assert not large.invalidate_all
    assert large.entries[0] == tombstone(b"a\0c\0", 8)
    assert [(e.kind, e.value, e.size) for e in large.entries[1:]] == [
        (STUB, None, DELTA_BYTES_MAX - 66)
    ]


def test_transaction_with_too_many_stubs_goes_out_as_an_invalidate_all_marker() -> None:
    made = delta(*(entry(number, 10) for number in range(5000)))
    assert (made.stubbed, made.invalidate_all, made.entries) == (True, True, ())


def test_floor_is_never_above_the_delta() -> None:
    assert delta(entry(1, 1), floor=99).floor == 8


def test_unacknowledged_is_bounded_by_bytes_and_filed_versions_make_room() -> None:
    """P-START-7."""
    waiting = Unacknowledged()
    half = UNACKED_BYTES_MAX // 2
    assert waiting.put(1, 1, half)
    assert waiting.put(1, 2, half)
    assert not waiting.put(2, 1, 1)
    assert (len(waiting), waiting.held_bytes) == (2, 2 * half)
    waiting.filed(2, 9)
    assert not waiting.put(2, 1, 1)
    waiting.filed(1, 1)
    assert waiting.put(2, 1, half)
    waiting.filed(1, 5)
    waiting.filed(2, 1)
    assert (len(waiting), waiting.held_bytes) == (0, 0)


@pytest.mark.parametrize("version", [0, 4])
def test_filing_below_what_waits_makes_no_room(version: int) -> None:
    waiting = Unacknowledged()
    waiting.put(1, 5, 10)
    waiting.filed(1, version)
    assert waiting.held_bytes == 10
