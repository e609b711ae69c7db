"""Codec: the same bytes for ever, both ways; of hostile bytes only ``WireError`` comes out."""

import json
from dataclasses import replace
from pathlib import Path

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.tests.strategies import chunks, deltas, entries, heartbeats, messages
from topicast.topics.errors import WireError
from topicast.topics.objects.names import KEY_BYTES_MAX
from topicast.topics.topic import FULL, PREFIX, STUB, TOMBSTONE, Entry, prefix_tombstone
from topicast.topics.wire import header as h
from topicast.topics.wire.codec import (
    ADDRESS_BYTES_MAX,
    KEEP_ALIVE,
    KEEP_ALIVE_FRAME,
    decode,
    delta_of,
    encode,
    fitting,
    pack,
    read_entries,
    read_header,
    row_bytes,
)
from topicast.topics.wire.messages.connection import KeepAlive
from topicast.topics.wire.messages.data import Barrier, Chunk, Delta, Heartbeat
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.numbers import NUMBERS

FILE = Path(__file__).parent.parent.parent / "vectors" / "wire_v1.json"
VECTORS: list[dict[str, str]] = json.loads(FILE.read_text(encoding="utf-8"))
TABLE = b"sales\0orders\0"
DELTA = Delta(
    topic=7,
    level=FULL,
    epoch=5,
    start=6,
    from_version=10,
    to_version=12,
    floor=3,
    sent_us=4,
    source=1,
    entries=(Entry(TABLE, 11, 9, 8, 3, b"abc"), Entry(TABLE + b"\x01k", 12, 12, 12, 2, b"de")),
)
CHUNK = Chunk(
    topic=7,
    level=FULL,
    epoch=5,
    start=6,
    from_version=10,
    to_version=12,
    floor=3,
    sent_us=4,
    stream=1,
    sequence=0,
    resume_version=12,
    resume_key=TABLE + b"\x01k",
    entries=DELTA.entries,
)
HEARTBEAT = Heartbeat(
    hub=1,
    epoch=5,
    start=6,
    sequence=7,
    interval_ms=250,
    sent_us=4,
    watermark=9,
    age_ms=0,
    catalog_address="tcp://h",
    versions=(1, 2),
    floors=(0, 1),
    sizes=(10, 20),
)


def _decodes_or_refuses(frame: bytes) -> Message | None:
    try:
        return decode(frame)
    except WireError:
        return None


def _of(message: Message, body: bytes, **changed: int) -> bytes:
    """Return a frame with the header of ``message``, another body, and a CRC that is right."""
    return pack(read_header(encode(message))._replace(**changed), body)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["name"])
def test_golden_vector_reads_and_writes_the_same_bytes(vector: dict[str, str]) -> None:
    """P-ROW-5, P-MSG-1, P-HDR-1."""
    frame = bytes.fromhex(vector["frame"])
    assert repr(decode(frame)) == vector["message"]
    assert encode(decode(frame)) == frame


def test_there_is_a_vector_of_every_message() -> None:
    kinds = {type(decode(bytes.fromhex(vector["frame"]))) for vector in VECTORS}
    assert kinds == {Delta, Chunk, Heartbeat, Barrier, *NUMBERS.values()}


@given(messages)
def test_message_survives_the_wire(message: Message) -> None:
    assert repr(decode(encode(message))) == repr(message)


@given(deltas() | chunks() | heartbeats())
def test_read_entries_refuses_what_is_no_delta(message: Message) -> None:
    frame = encode(message)
    header, body = read_header(frame), frame[h.HEADER_BYTES :]
    if isinstance(message, Delta):
        assert delta_of(header, read_entries(header, body)) == message
        assert read_entries(header, body) == message.entries
        return
    with pytest.raises(WireError, match="not a delta"):
        read_entries(header, body)


@given(entries(), deltas())
def test_row_bytes_are_what_an_entry_adds_to_a_frame(entry: Entry, delta: Delta) -> None:
    """P-CREDIT-2: both sides count the same."""
    alone = replace(delta, from_version=0, to_version=entry.version, entries=(entry,))
    assert len(encode(alone)) == h.HEADER_BYTES + row_bytes(entry)


@given(messages, st.data())
def test_cut_frame_is_refused(message: Message, data: st.DataObject) -> None:
    """P-BAD-1."""
    frame = encode(message)
    with pytest.raises(WireError):
        decode(frame[: data.draw(st.integers(0, len(frame) - 1))])


@given(messages, st.data())
def test_mutated_frame_is_refused_or_read(message: Message, data: st.DataObject) -> None:
    """P-BAD-1."""
    frame = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    _decodes_or_refuses(bytes(frame))


@given(messages, st.data())
def test_mutated_body_under_a_right_crc_is_refused_or_read(
    message: Message, data: st.DataObject
) -> None:
    """P-BAD-1: any peer that has the protocol can compute a CRC; data frames have one spelling."""
    frame = encode(message)
    if not isinstance(message, Delta | Chunk | Heartbeat):
        return
    body = bytearray(frame[h.HEADER_BYTES :])
    for _ in range(data.draw(st.integers(0, 4)) if body else 0):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    count = data.draw(st.integers(0, 4) | st.integers(0, (1 << 32) - 1))
    hostile = _of(message, bytes(body), entry_count=count)
    read = _decodes_or_refuses(hostile)
    assert read is None or encode(read) == hostile


@given(messages, messages, st.data())
def test_spliced_frames_are_refused_or_read(
    one: Message, other: Message, data: st.DataObject
) -> None:
    """P-BAD-1."""
    head, tail = encode(one), encode(other)
    at, begin = data.draw(st.integers(0, len(head))), data.draw(st.integers(0, len(tail)))
    _decodes_or_refuses(head[:at] + tail[begin:])


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_read(noise: bytes) -> None:
    """P-BAD-1."""
    _decodes_or_refuses(noise)
    _decodes_or_refuses(h.CONTROL_PREFIX + noise)
    _decodes_or_refuses(h.HEARTBEAT_PREFIX + noise)


@pytest.mark.parametrize(
    "bomb",
    [
        b"\xdd\x00\x0f\xff\xff" * 200_000,
        b"\x91" * 900_000,
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\x92\x0e\xc7\x00\x05",
        b"\x92\x0e\xd6\xff\x00\x00\x00\x00",
        b"\x92\x09\xa1\xff",
        b"\x81\x01\x02",
        b"\xc1",
        msgpack.packb([20, 1]) + b"\x00",
    ],
    ids=lambda bomb: bomb[:6].hex(),
)
def test_bomb_of_message_pack_is_refused(bomb: bytes) -> None:
    """P-BAD-2."""
    with pytest.raises(WireError, match=r"MessagePack|expected"):
        decode(h.CONTROL_PREFIX + bomb)


@pytest.mark.parametrize(
    ("part", "limit"), [(b"\x81\x01\x02", "max_map_len"), (b"\xd4\x05\x00", "max_ext_len")]
)
def test_map_or_extension_is_refused_before_it_is_built(part: bytes, limit: str) -> None:
    """P-BAD-2."""
    with pytest.raises(WireError, match=limit):
        decode(h.CONTROL_PREFIX + b"\x92\x14" + part)


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ([], []),
        (["too long", "a", "b"], ["too long"]),
        (["abc", "de"], ["abc", "de"]),
        (["abc", "def", "g"], ["abc"]),
    ],
)
def test_first_items_that_fit_are_taken_at_least_one(words: list[str], first: list[str]) -> None:
    """P-SCAN-3: nothing behind the first that does not fit is looked at."""
    some = iter(words)
    assert fitting(some, len, bytes_max=5) == first
    assert list(some) == words[len(first) + 1 :]


def test_frame_over_the_limit_is_refused_unread() -> None:
    """P-LIM-1."""
    with pytest.raises(WireError, match="at most 1048576 allowed"):
        decode(h.CONTROL_PREFIX + bytes(h.FRAME_BYTES_MAX))
    with pytest.raises(WireError, match=r"^(?!.*allowed)"):  # of that size it is read
        decode(h.CONTROL_PREFIX.ljust(h.FRAME_BYTES_MAX, b"\0"))


@pytest.mark.parametrize("length", [0, 15, 17])
def test_barrier_of_another_length_is_refused(length: int) -> None:
    """P-SUB-2."""
    with pytest.raises(WireError):
        decode(h.barrier_prefix(bytes(length)))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (7, "begins with its type"),
        ([], "begins with its type"),
        ([True], "begins with its type"),
        (["20"], "begins with its type"),
        ([0], "unknown message type 0"),
        ([99, 1], "unknown message type 99"),
        ([20], "Sync: 2 fields expected, 0 read"),
        ([20, 1, "", 2], "Sync: 2 fields expected, 3 read"),
    ],
)
def test_control_message_of_no_shape_is_refused(fields: object, reason: str) -> None:
    """P-MSG-2."""
    with pytest.raises(WireError, match=reason):
        decode(h.CONTROL_PREFIX + msgpack.packb(fields))


def _row(entry: Entry, **header: int) -> bytes:
    """Return a delta of ``entry`` as it stands, even if it breaks a rule."""
    like = read_header(encode(DELTA))._replace(entry_count=1, **header)
    return pack(like, encode(replace(DELTA, entries=(entry,)))[h.HEADER_BYTES :])


GROUP_OF_THREE = b"a\0b\0c\0"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (Entry(b"sales\0orders", 12, 1, 1, 1, b"a"), "two NULs"),
        (Entry(TABLE + b"k" * KEY_BYTES_MAX, 12, 1, 1, 1, b"a"), "two NULs"),
        (Entry(TABLE, 12, 1, 1, 0, None, 4), "kind 4"),
        (Entry(TABLE, 12, 1, 1, 1, None, TOMBSTONE), "kind 2 of 1 bytes"),
        (Entry(TABLE, 12, 1, 1, 1, None, PREFIX), "kind 3 of 1 bytes"),
        (prefix_tombstone(TABLE + b"k", 12), "names a group"),
        (prefix_tombstone(GROUP_OF_THREE, 12), "names a group"),
        (prefix_tombstone(b"", 12), "names a group"),
        (Entry(TABLE, 12, 1, 1, h.VALUE_BYTES_MAX + 1, b"a"), "kind 0 of"),
        (Entry(TABLE, 12, 1, 1, 2, b"a"), "end at"),
        (Entry(TABLE, 12, 1, 1, 0, b"a"), "end at"),
        (Entry(TABLE, 10, 1, 1, 1, b"a"), "version 10 out of order or range"),
        (Entry(TABLE, 0, 0, 0, 1, b"a"), "version 0 out of order or range"),
        (Entry(TABLE, 12, -1, 1, 1, b"a"), "out of order or range"),
        (Entry(TABLE, 12, 1, -1, 1, b"a"), "out of order or range"),
    ],
)
def test_row_that_breaks_a_rule_is_refused(entry: Entry, reason: str) -> None:
    """P-ROW-1, P-ROW-2, P-ROW-3, P-ROW-4, P-ROW-5, P-LIM-4, P-LIM-5."""
    with pytest.raises(WireError, match=reason):
        decode(_row(entry))


@pytest.mark.parametrize(
    "entry",
    [
        Entry(TABLE, 12, 12, 12, 1 << 50, None, STUB),
        Entry(TABLE.ljust(KEY_BYTES_MAX, b"k"), 12, 12, 12, 1, b"a"),
        Entry(TABLE, 12, 0, 0, h.VALUE_BYTES_MAX, bytes(h.VALUE_BYTES_MAX)),
    ],
    ids=["stub of any size", "longest key", "largest value"],
)
def test_row_at_its_bounds_is_read(entry: Entry) -> None:
    """P-ROW-1, P-ROW-2, P-ROW-4, P-LIM-4, P-LIM-5."""
    largest = replace(CHUNK, entries=(entry,))
    assert decode(encode(largest)) == largest


def _body(message: Message) -> bytes:
    return encode(message)[h.HEADER_BYTES :]


EMPTY = replace(CHUNK, entries=())
MALFORMED = {
    "rows out of order": (encode(replace(DELTA, entries=DELTA.entries[::-1])), "11 out of order"),
    **{
        f"{count} rows": (_of(DELTA, _body(DELTA), entry_count=count), "rows:")
        for count in (0, 1, 3, (1 << 32) - 1)
    },
    "chunk without a body": (_of(CHUNK, b"", entry_count=0), "chunk body"),
    "chunk with a cut body": (_of(CHUNK, bytes(25), entry_count=0), "chunk body"),
    "chunk with a cut key": (_of(EMPTY, _body(EMPTY)[:-1]), "rows: end at"),
    "resumes after its cut": (encode(replace(CHUNK, resume_version=13)), "resumes at 13"),
    "resumes after no key": (
        encode(replace(CHUNK, resume_key=bytes(KEY_BYTES_MAX + 1))),
        "after a key of 1025 bytes",
    ),
    "heartbeat without a body": (_of(HEARTBEAT, b""), "state and address"),
    "heartbeat with a cut body": (_of(HEARTBEAT, bytes(43)), "state and address"),
    "address that is no text": (
        _of(HEARTBEAT, _body(HEARTBEAT).replace(b"tcp", b"t\xffp")),
        "state and address",
    ),
    "endless address": (
        encode(replace(HEARTBEAT, catalog_address="x" * (ADDRESS_BYTES_MAX + 1))),
        "other lengths",
    ),
    "short vectors": (_of(HEARTBEAT, _body(HEARTBEAT), entry_count=3), "other lengths"),
    "long vectors": (_of(HEARTBEAT, _body(HEARTBEAT), entry_count=1), "other lengths"),
    "address beyond the body": (
        _of(HEARTBEAT, bytes(40) + b"\x01\x00" + bytes(3), entry_count=0),
        "other lengths",
    ),
    "unknown levels": (encode(replace(HEARTBEAT, offers=4)), "offers 4"),
}


@pytest.mark.parametrize(("frame", "reason"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_body_is_refused(frame: bytes, reason: str) -> None:
    """P-ROW-3, P-ROW-6, P-CATCH-3, P-HEARTBEAT-1, P-HEARTBEAT-5."""
    with pytest.raises(WireError, match=reason):
        decode(frame)


def test_address_of_catalogd_may_have_a_kilobyte() -> None:
    """P-HEARTBEAT-1."""
    longest = replace(HEARTBEAT, catalog_address="x" * ADDRESS_BYTES_MAX)
    assert decode(encode(longest)) == longest


@pytest.mark.parametrize("offers", range(4))
def test_known_levels_may_be_offered(offers: int) -> None:
    """P-HEARTBEAT-5."""
    offer = replace(HEARTBEAT, offers=offers)
    assert decode(encode(offer)) == offer


@pytest.mark.parametrize("more", [b"\0", KEEP_ALIVE_FRAME], ids=["a byte", "another one"])
def test_keep_alive_is_known_by_its_bytes_and_has_no_others(more: bytes) -> None:
    """P-LIVE-6."""
    assert decode(KEEP_ALIVE_FRAME) is KEEP_ALIVE
    assert decode(encode(KeepAlive())) == KeepAlive()
    with pytest.raises(WireError):
        decode(KEEP_ALIVE_FRAME + more)
