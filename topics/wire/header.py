"""The header of what carries entries or positions: read by a hub without the body.

    0 protocol u8 │ 1 topic u16 │ 3 level u8 │ 4 kind u8 │ 5 flags u8 │ 6 source u8 │ 7 hops u8
    8 origin u64 │ 16 crc32 u32 │ 20 count u32 │ 24 epoch u64 │ 32 start u64
    40 from_version u64 │ 48 to_version u64 │ 56 floor u64 │ 64 sent_us u64 │ 72 body

Big endian. The first four bytes are the subscription prefix. The CRC is over every other byte
of the frame. Authority: docs/protocol.md, section "Header".
"""

from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from ..errors import VersionMismatch, WireError
from ..topic import BARRIER, CONTROL, FULL, HEARTBEAT, MINIMAL, NAMESPACE, NUM_TOPICS_MAX

PROTOCOL: Final = 1
PROTOCOL_MIN: Final = 1
FEATURES: Final = 0  # feature bits spoken here; none is defined yet

DELTA_KIND: Final = 1
CHUNK_KIND: Final = 2
HEARTBEAT_KIND: Final = 3
CONTROL_KIND: Final = 4

STUBBED: Final = 1  # flags
INVALIDATE_ALL: Final = 2
FIRST: Final = 4
LAST: Final = 8
SNAPSHOT: Final = 16
FLAGS_OF_KIND: Final = {
    DELTA_KIND: STUBBED | INVALIDATE_ALL,
    CHUNK_KIND: INVALIDATE_ALL | FIRST | LAST | SNAPSHOT,
    HEARTBEAT_KIND: 0,
}

DELTA_BYTES_MAX: Final = 64 * 1024  # a delta's body: 1,000 of them queue for a stopped reader
CHUNK_BYTES_MAX: Final = 256 * 1024  # on the plateau of throughput, 4 times less blocking than 1 MB
VALUE_BYTES_MAX: Final = 768 * 1024  # a chunk holds at least one value and ends below 1 MiB
FRAME_BYTES_MAX: Final = 1024 * 1024  # the largest frame of any kind
NONCE_BYTES: Final = 16

_HEADER = Struct(">BHBBBBBQIIQQQQQQ")
_LEAD = Struct(">BHB")
_CRC = Struct(">I")
_CRC_AT: Final = 16
_AFTER_CRC: Final = 20
HEADER_BYTES: Final = _HEADER.size


class Header(NamedTuple):
    """The fields of the header in the order of the wire."""

    protocol: int
    topic: int
    level: int
    kind: int
    flags: int
    source: int
    hops: int
    origin: int
    crc: int
    entry_count: int
    epoch: int
    start: int
    from_version: int
    to_version: int
    floor: int
    sent_us: int


def prefix(topic: int, level: int) -> bytes:
    """Return the four bytes that a subscriber of ``topic`` at ``level`` subscribes to."""
    return _LEAD.pack(PROTOCOL, topic, level)


def barrier_prefix(nonce: bytes) -> bytes:
    """Return the prefix of a subscriber's barrier, which is also the barrier's whole frame."""
    return prefix(BARRIER, 0) + nonce


HEARTBEAT_PREFIX: Final = prefix(HEARTBEAT, 0)
BARRIER_PREFIX: Final = prefix(BARRIER, 0)
CONTROL_PREFIX: Final = prefix(CONTROL, 0) + bytes((CONTROL_KIND,))


def pack(header: Header, body: bytes) -> bytes:
    """Return the frame of ``header`` (its ``crc`` is ignored and computed) and ``body``."""
    lead = _HEADER.pack(*header)
    crc = crc32(body, crc32(lead[_AFTER_CRC:], crc32(lead[:_CRC_AT])))
    return b"".join((lead[:_CRC_AT], _CRC.pack(crc), lead[_AFTER_CRC:], body))


def read_header(frame: bytes) -> Header:
    """Read and check the header of a delta, chunk or heartbeat; only the CRC covers the body.

    Raises:
        VersionMismatch: the frame is of another protocol version.
        WireError: too short or long, a kind, flag, topic or level that is none, versions in
            disorder, or the CRC differs.
    """
    size = len(frame)
    if not HEADER_BYTES <= size <= FRAME_BYTES_MAX or frame[0] != PROTOCOL:
        check_lead(frame)
        raise WireError(f"frame of {size} bytes: {HEADER_BYTES} to {FRAME_BYTES_MAX} allowed")
    header = Header._make(_HEADER.unpack_from(frame))
    if header.crc != crc32(frame[_AFTER_CRC:], crc32(frame[:_CRC_AT])):
        raise WireError(f"crc differs: topic={header.topic} kind={header.kind}")
    kind, flags = header.kind, header.flags
    if kind not in FLAGS_OF_KIND or flags & ~FLAGS_OF_KIND[kind]:
        raise WireError(f"unknown kind {kind} or flags {flags:#04x}")
    if kind == HEARTBEAT_KIND:
        _check_heartbeat(header)
    elif NUM_TOPICS_MAX <= header.topic != NAMESPACE or not MINIMAL <= header.level <= FULL:
        raise WireError(f"entries of topic {header.topic}, level {header.level}")
    if header.from_version >= header.to_version:
        _check_versions(header)
    if kind == DELTA_KIND and size > HEADER_BYTES + DELTA_BYTES_MAX:
        raise WireError(f"delta of {size} bytes: a body of {DELTA_BYTES_MAX} allowed")
    return header


def check_lead(frame: bytes) -> None:
    """Check the bytes that every frame begins with.

    Raises:
        VersionMismatch: another protocol version.
        WireError: shorter than the shortest frame.
    """
    if len(frame) <= _LEAD.size:
        raise WireError(f"frame of {len(frame)} bytes is too short")
    if frame[0] != PROTOCOL:
        raise VersionMismatch(str(PROTOCOL), str(frame[0]))


def _check_heartbeat(header: Header) -> None:
    if header.topic != HEARTBEAT or header.level:
        raise WireError(f"heartbeat of topic {header.topic}, level {header.level}")


def _check_versions(header: Header) -> None:
    if header.from_version > header.to_version:
        raise WireError(f"from version {header.from_version} above {header.to_version}")
    if header.kind == DELTA_KIND:
        raise WireError(f"delta that changes nothing at version {header.to_version}")
