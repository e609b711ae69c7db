"""What leaves catalogd: what a mode withholds, and the deltas of transactions."""

import pytest

from topicast.catalog.model.modes import (
    FORMER_MODES_MAX,
    MODE_DEFAULT,
    OVERRIDES_MAX,
    Mode,
    ModeState,
    Remainder,
    overrides_text,
    pack_mode_state,
    parse_mode,
    unpack_mode_state,
)
from topicast.catalog.model.versions import Transaction
from topicast.catalog.publish.publisher import Unacknowledged, delta_of_transaction, withhold
from topicast.topics.errors import ConfigError
from topicast.topics.objects.names import block_key, table_key
from topicast.topics.streams.sender import STUBS_BYTES_MAX
from topicast.topics.topic import (
    FULL,
    MINIMAL,
    NAMESPACE,
    PREFIX,
    STUB,
    VALUE,
    Entry,
    prefix_tombstone,
    stub,
    tombstone,
)
from topicast.topics.wire import decode, encode
from topicast.topics.wire.codec import row_bytes
from topicast.topics.wire.header import DELTA_BYTES_MAX, HEADER_BYTES, VALUE_BYTES_MAX
from topicast.topics.wire.messages.data import SOURCE_EVENTS, Delta

MIXED, WHOLE, LEAN = Mode("mixed"), Mode("full"), Mode("minimal")


def value(key: bytes, version: int = 3) -> Entry:
    return Entry(key, version, 1, 2, 5, b"value")


@pytest.mark.parametrize(
    ("mode", "offers"),
    [
        (WHOLE, FULL),
        (MIXED, MINIMAL | FULL),
        (LEAN, MINIMAL),
        (parse_mode("minimal", "a.*=full"), MINIMAL | FULL),
        (parse_mode("full", "a.*=minimal"), FULL),
    ],
)
def test_mode_is_an_offer(mode: Mode, offers: int) -> None:
    assert mode.offers == offers


@pytest.mark.parametrize(
    ("mode", "withheld"),
    [
        (WHOLE, []),
        (MIXED, []),
        (LEAN, ["a.t", "a.tmp_x", "b.t"]),
        (parse_mode("mixed", "*.tmp_*=minimal"), ["a.tmp_x"]),
        (parse_mode("minimal", "a.*=full"), ["b.t"]),
        (parse_mode("minimal", "a.tmp_*=minimal, A.*=full"), ["a.tmp_x", "b.t"]),
        (parse_mode("full", "a.*=full,*.*=minimal"), ["b.t"]),
    ],
)
def test_first_override_that_matches_counts_else_the_mode(mode: Mode, withheld: list[str]) -> None:
    names = [("a", "t"), ("a", "tmp_x"), ("b", "t")]
    assert [".".join(name) for name in names if mode.withholds(name)] == withheld
    assert mode.withholds_nothing is (not withheld)


@pytest.mark.parametrize(
    ("name", "overrides", "said"),
    [
        ("most", "", "catalog_topic_mode='most' is not valid: full, mixed or minimal"),
        ("", "", "full, mixed or minimal"),
        ("full", "a.*", "catalog_topic_mode_overrides='a.*' is not valid: PATTERN=full or"),
        ("full", "a.*=mixed", "'a.*=mixed'"),
        ("full", "a.*=full,,b.*=full", "''"),
        ("full", "tmp=minimal", "'tmp=minimal'"),
        ("full", "=minimal", "'=minimal'"),
        ("full", "a b.*=minimal", "'a b.*=minimal'"),
        ("full", "a.*==minimal", "'a.*==minimal'"),
        ("full", "a.\n*=minimal", "valid"),
        ("full", ",".join(["a.b=full"] * (OVERRIDES_MAX + 1)), f"at most {OVERRIDES_MAX}"),
        ("full", "a.b=full," * 500, "at most 4096 characters"),
    ],
)
def test_what_is_no_mode_is_refused_by_name(name: str, overrides: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_mode(name, overrides)
    assert said in str(caught.value)


def test_overrides_are_written_as_they_are_read() -> None:
    text = "tmp_*.*=minimal,other.*=full"
    assert overrides_text(parse_mode("mixed", text.replace(",", " , "))) == text
    assert overrides_text(parse_mode("mixed", "  ")) == ""


def test_what_is_withheld_leaves_as_stubs_and_everything_else_as_it_is() -> None:
    """P-DATA-5."""
    mode = parse_mode("mixed", "a.*=minimal")
    mine, other = table_key("a", "t"), table_key("b", "t")
    block = block_key("a", "t", "ds=1")
    entries = (
        prefix_tombstone(mine, 3),
        value(mine),
        value(block),
        value(other),
        tombstone(block, 3),
    )
    left = withhold(mode, 0, entries)
    assert [one.kind for one in left] == [3, STUB, STUB, 0, 2]
    assert (left[1].version, left[1].schema_version, left[1].size) == (3, 1, 5)
    assert (left[0], left[3], left[4]) == (entries[0], entries[3], entries[4])
    assert withhold(LEAN, 0, (value(other),))[0].kind == STUB
    names = (value(b"n\0a\0"), value(b"d\0a\0"))
    assert withhold(LEAN, NAMESPACE, names) == names


@pytest.mark.parametrize("mode", [WHOLE, MIXED, LEAN, parse_mode("full", "b.*=minimal")])
def test_value_that_no_frame_holds_is_withheld_in_every_mode(mode: Mode) -> None:
    """P-LIM-4: a delta with it has no flag, for no catch-up brings more."""
    size = VALUE_BYTES_MAX + 1
    large = Entry(table_key("a", "t"), 3, 1, 2, size, bytes(size))
    small = value(block_key("a", "t", "x"))
    rows = (large, small, tombstone(block_key("a", "t", "y"), 3))
    left = withhold(mode, 0, rows)
    largest = large._replace(size=VALUE_BYTES_MAX, value=bytes(VALUE_BYTES_MAX))
    assert (withhold(mode, 0, (largest,)) == (largest,)) is (mode is not LEAN)
    assert left[0] == large._replace(value=None, kind=STUB)
    assert (left[1].kind == VALUE) is (mode is not LEAN)
    one = Transaction(
        topic=0, from_version=2, to_version=3, entries=rows, source=SOURCE_EVENTS, at_us=9
    )
    delta = delta_of_transaction(one, epoch=5, start=7, floor=0, sent_us=9, mode=mode)
    assert (delta.entries, delta.stubbed) == (left, False)
    assert decode(encode(delta)) == delta


def test_what_was_withheld_is_backfilled_up_to_the_versions_at_the_change() -> None:
    mode_state = ModeState(LEAN).changed(MIXED, (1, 2))
    assert mode_state == ModeState(MIXED, Remainder((LEAN,), (1, 2)))
    assert mode_state.changed(WHOLE, (3, 4)) == ModeState(WHOLE, mode_state.remainder), (
        "nothing was withheld since"
    )
    again = mode_state.changed(LEAN, (3, 4)).changed(MIXED, (5, 6))
    assert again == ModeState(MIXED, Remainder((LEAN,), (5, 6)))
    for former in (MIXED, LEAN):
        assert ModeState(former).changed(LEAN, (1, 2)) == ModeState(LEAN), (
            "nothing was withheld before"
        )


def test_more_modes_than_are_remembered_backfill_every_table() -> None:
    mode_state = ModeState(MIXED)
    for number in range(FORMER_MODES_MAX + 2):
        mode_state = mode_state.changed(parse_mode("mixed", f"a.t{number}=minimal"), (number,))
    assert mode_state.remainder is not None
    assert len(mode_state.remainder.modes) <= FORMER_MODES_MAX
    assert mode_state.remainder.includes(("b", "t"))


@pytest.mark.parametrize(
    "mode_state",
    [
        ModeState(),
        ModeState(LEAN),
        ModeState(
            parse_mode("mixed", "a.*=full"),
            Remainder((LEAN, parse_mode("full", "b.*=minimal")), (1, 9)),
        ),
    ],
)
def test_mode_state_is_read_back_as_it_was_stored(mode_state: ModeState) -> None:
    assert unpack_mode_state(pack_mode_state(mode_state)) == mode_state
    assert unpack_mode_state("") == ModeState(), "that of a new store"


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"mode": 1, "owed": [], "versions": []}'])
def test_text_that_is_no_mode_state_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="state of a mode|Expecting"):
        unpack_mode_state(text)


def entry(number: int, size: int) -> Entry:
    return Entry(b"a\0b\0\x01%05d" % number, 8, 3, 8, size, b"x" * size)


def delta(*entries: Entry, floor: int = 0, mode: Mode = MODE_DEFAULT) -> Delta:
    versions = {"from_version": 7, "to_version": 8}
    transaction = Transaction(topic=2, entries=entries, source=SOURCE_EVENTS, at_us=5, **versions)
    made = delta_of_transaction(transaction, epoch=9, start=1, floor=floor, sent_us=6, mode=mode)
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


def test_transaction_up_to_64_kb_goes_out_with_its_values_and_a_larger_as_stubs() -> None:
    """P-DATA-5: unlike what is withheld, such a delta is marked as stubbed."""
    size = DELTA_BYTES_MAX - row_bytes(entry(1, 0))
    fits = delta(entry(1, size))
    assert [e.kind for e in fits.entries] == [VALUE]
    assert not fits.stubbed
    assert delta(entry(1, size + 1)).stubbed
    large = delta(tombstone(b"a\0c\0", 8), entry(1, size))
    assert large.stubbed
    assert not large.invalidate_all
    assert large.entries[0] == tombstone(b"a\0c\0", 8)
    assert [(e.kind, e.value, e.size) for e in large.entries[1:]] == [(STUB, None, size)]


def test_transaction_with_too_many_stubs_goes_out_as_an_invalidate_all_marker() -> None:
    """P-DATA-5."""
    count, left = divmod(STUBS_BYTES_MAX, row_bytes(stub(entry(0, 10))))
    *others, last = (entry(number, 10) for number in range(count))
    fits = delta(*others, last._replace(key=last.key + b"x" * left))
    assert (fits.stubbed, fits.invalidate_all, len(fits.entries)) == (True, False, count)
    made = delta(*others, last._replace(key=last.key + b"x" * (left + 1)))
    assert (made.stubbed, made.invalidate_all, made.entries) == (True, True, ())


def test_floor_is_never_above_the_delta() -> None:
    assert delta(entry(1, 1), floor=99).floor == 8


@pytest.mark.parametrize("version", [0, 4])
def test_filing_below_what_waits_makes_no_room(version: int) -> None:
    waiting = Unacknowledged()
    waiting.put(1, 5, 10)
    waiting.filed(1, version)
    assert waiting.held_bytes == 10
