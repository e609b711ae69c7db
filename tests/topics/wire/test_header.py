"""Header: prefixes, and what a hub refuses before it has read a body."""

from zlib import crc32

import pytest
from hypothesis import given

from topicast.tests.strategies import deltas
from topicast.topics.errors import VersionMismatch, WireError
from topicast.topics.topic import (
    BARRIER,
    CONTROL,
    FULL,
    HEARTBEAT,
    MINIMAL,
    NAMESPACE,
    NUM_TOPICS_MAX,
)
from topicast.topics.wire import encode
from topicast.topics.wire import header as h
from topicast.topics.wire.codec import pack, read_header
from topicast.topics.wire.messages.data import Delta

PLAIN = h.Header(1, 7, 2, h.DELTA_KIND, 0, 1, 0, 0, 5, 6, 10, 11, 9, 123)
OF_HEARTBEAT = {"topic": HEARTBEAT, "level": 0, "kind": h.HEARTBEAT_KIND, "from_version": 11}


def _frame(body: bytes = b"", **changed: int) -> bytes:
    return pack(PLAIN._replace(**changed), body)


def test_prefix_is_protocol_topic_and_level() -> None:
    """P-HDR-2."""
    assert h.prefix(0x0102, 2) == b"\x01\x01\x02\x02"
    assert _frame(topic=0x0102).startswith(h.prefix(0x0102, 2))
    assert h.barrier_prefix(b"n" * 16) == b"\x01\xff\xfd\x00" + b"n" * 16
    assert h.HEARTBEAT_PREFIX == b"\x01\xff\xff\x00"
    assert h.CONTROL_PREFIX == b"\x01\xff\xfc\x00\x04"


def test_topic_set_is_a_window_of_256_topics_and_a_bit_for_each() -> None:
    """P-SUB-5."""
    topics = (256, 257, 511)
    assert {h.window_of(topic) for topic in topics} == {1}
    subscribed = h.set_prefix(topics, MINIMAL)
    assert subscribed == b"\x01\xff\xfb\x01" + b"\x01" + b"\x80" + bytes(30) + b"\x03"
    assert h.prefixes_in(subscribed) == tuple(h.prefix(topic, MINIMAL) for topic in topics)
    whole = h.set_prefix(range(256), FULL)
    assert h.prefixes_in(whole) == tuple(h.prefix(topic, FULL) for topic in range(256))


@pytest.mark.parametrize(
    "subscribed",
    [
        b"",
        h.prefix(7, FULL),
        h.HEARTBEAT_PREFIX,
        h.set_prefix([1], FULL)[:-1],
        h.set_prefix([1], FULL) + b"\0",
        h.set_prefix([1], 0),
        h.set_prefix([1], 3),
        h.set_prefix([NUM_TOPICS_MAX], FULL),
        h.set_prefix([HEARTBEAT], FULL),
    ],
)
def test_what_is_no_topic_set_is_a_prefix_of_its_own(subscribed: bytes) -> None:
    """P-SUB-5."""
    assert h.prefixes_in(subscribed) == (subscribed,)


def test_header_is_63_bytes_big_endian_in_the_order_of_its_fields() -> None:
    """P-HDR-1."""
    frame = _frame(b"body")
    assert h.HEADER_BYTES == 63
    assert frame[:7].hex() == "01000702010001"
    assert [int.from_bytes(frame[at : at + 8], "big") for at in range(15, 63, 8)] == [
        *(PLAIN.epoch, PLAIN.start, PLAIN.from_version, PLAIN.to_version, PLAIN.floor, 123)
    ]
    assert frame[63:] == b"body"


@given(deltas())
def test_header_reads_back_what_was_packed(delta: Delta) -> None:
    frame = encode(delta)
    header = read_header(frame)
    assert pack(header, frame[h.HEADER_BYTES :]) == frame
    assert (header.topic, header.epoch, header.to_version) == (
        *(delta.topic, delta.epoch, delta.to_version),
    )
    assert header.entry_count == len(delta.entries)


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("at", [7, 10, 11, 14, 15, 62, 63, 66])
def test_every_flipped_bit_after_the_prefix_is_noticed(at: int, bit: int) -> None:
    """P-HDR-3."""
    frame = bytearray(_frame(b"body"))
    frame[at] ^= 1 << bit
    with pytest.raises(WireError, match="crc differs"):
        read_header(bytes(frame))


def test_crc_is_in_its_place_and_covers_all_but_itself() -> None:
    frame = _frame(b"body")
    assert int.from_bytes(frame[7:11], "big") == crc32(frame[:7] + frame[11:])
    assert read_header(frame).crc == crc32(frame[:7] + frame[11:])


@pytest.mark.parametrize("version", [0, 2, 255])
def test_other_protocol_version_is_distinguished_from_garbage(version: int) -> None:
    """P-HDR-4."""
    assert read_header(_frame()).kind == h.DELTA_KIND, "of ours"
    with pytest.raises(VersionMismatch, match=f"protocol version {version} offered"):
        read_header(_frame(protocol=version))


@pytest.mark.parametrize("length", [0, 1, 4, 5, 62])
def test_frame_shorter_than_the_header_is_refused(length: int) -> None:
    with pytest.raises(WireError, match=f"frame of {length} bytes"):
        read_header(_frame()[:length])


def test_frame_over_the_limit_is_refused_before_it_is_summed() -> None:
    """P-LIM-1, P-HDR-3."""
    chunk = {"kind": h.CHUNK_KIND}
    room = h.FRAME_BYTES_MAX - h.HEADER_BYTES
    assert read_header(_frame(bytes(room), **chunk)).kind == h.CHUNK_KIND
    with pytest.raises(WireError, match="63 to 1048576 allowed"):
        read_header(_frame(bytes(room + 1), **chunk))


def test_delta_over_the_limit_is_refused() -> None:
    """P-LIM-2."""
    assert read_header(_frame(bytes(h.DELTA_BYTES_MAX))).kind == h.DELTA_KIND
    with pytest.raises(WireError, match="a body of 65536 allowed"):
        read_header(_frame(bytes(h.DELTA_BYTES_MAX + 1)))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        *(({"kind": kind}, f"unknown kind {kind}") for kind in (0, h.CONTROL_KIND, 5, 255)),
        *(({"flags": flag}, f"flags {flag:#04x}") for flag in (h.FIRST, h.LAST, h.SNAPSHOT, 32)),
        *(
            ({"kind": h.CHUNK_KIND, "flags": flag}, f"flags {flag:#04x}")
            for flag in (h.STUBBED, 128)
        ),
        ({"from_version": 12}, "from version 12 above 11"),
        ({"from_version": 11}, "changes nothing at version 11"),
        *(
            ({"topic": topic}, f"entries of topic {topic}")
            for topic in (NUM_TOPICS_MAX, BARRIER, HEARTBEAT, CONTROL)
        ),
        *(({"level": level}, f"level {level}") for level in (0, 3, 255)),
        ({**OF_HEARTBEAT, "topic": 7}, "heartbeat of topic"),
        ({**OF_HEARTBEAT, "level": 1}, "heartbeat of topic"),
    ],
    ids=str,
)
def test_field_with_a_value_that_its_kind_does_not_have_is_refused(
    changed: dict[str, int], reason: str
) -> None:
    """P-HDR-5, P-HDR-6, P-HDR-7, P-HDR-8, P-HDR-9, P-DATA-1."""
    with pytest.raises(WireError, match=reason):
        read_header(_frame(**changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": h.CHUNK_KIND, "from_version": 11},  # moves nothing, and is an answer
        *({"topic": topic} for topic in (0, NUM_TOPICS_MAX - 1, NAMESPACE)),
        *({"level": level} for level in (MINIMAL, FULL)),
        OF_HEARTBEAT,
    ],
    ids=str,
)
def test_field_with_any_other_value_is_read(changed: dict[str, int]) -> None:
    """P-HDR-5, P-HDR-8, P-HDR-9."""
    found = read_header(_frame(**changed))._asdict()
    assert found | changed == found
