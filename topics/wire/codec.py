"""Codec: ``encode`` returns the frame of a message, ``decode`` the message of a frame.

Deltas, chunks and heartbeats have the fixed header and a body of fixed structures (a row has
nothing that nests, so no frame can cost more memory than it is long). A barrier is what its
subscriber has subscribed to, byte for byte (``barrier_prefix`` in header.py). Everything else is
``CONTROL_PREFIX`` and one MessagePack array ``[type, field, …]`` in the order of the dataclass;
``shapes.py`` writes its fields, and checks them. Nothing is compressed here: the values of entries,
which most bytes are, have been compressed by catalogd (objects/encoding/values.py).
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from struct import Struct, error
from typing import Any, Final, TypeVar, cast
from zlib import crc32

import msgpack

from ..errors import VersionMismatch, WireError
from ..objects.names import KEY_BYTES_MAX
from ..topic import (
    ALL_OFFERED,
    FULL,
    HEARTBEAT,
    MINIMAL,
    NAMESPACE,
    NUM_TOPICS_MAX,
    PREFIX,
    STUB,
    VALUE,
    Entry,
)
from .header import (
    BARRIER_PREFIX,
    CHUNK_KIND,
    CONTROL_PREFIX,
    CRC_AT,
    DELTA_BYTES_MAX,
    DELTA_KIND,
    FIRST,
    FLAGS_OF_KIND,
    FRAME_BYTES_MAX,
    HEADER_BYTES,
    HEARTBEAT_KIND,
    INVALIDATE_ALL,
    LAST,
    LAYOUT,
    LEAD,
    NONCE_BYTES,
    PROTOCOL,
    SNAPSHOT,
    STUBBED,
    VALUE_BYTES_MAX,
    Header,
    barrier_prefix,
)
from .messages.connection import KeepAlive
from .messages.data import Barrier, Chunk, Delta, Heartbeat
from .messages.fields import Message
from .messages.numbers import NUMBERS
from .shapes import LIST_MAX, SHAPES

T = TypeVar("T")

ADDRESS_BYTES_MAX: Final = 1024  # of catalogd, in a heartbeat

_ROW = Struct(">BHQQQQ")  # kind, key's length, three versions as offsets, size; key, value
_RESUME = Struct(">QQQH")  # of a chunk: stream, sequence, resume version, resume key's length
_STATE = Struct(">QQQQQHHB")  # of a heartbeat: five numbers, lengths of address and sizes, offers
_CRC = Struct(">I")
_AFTER_CRC: Final = CRC_AT + _CRC.size
_U64_BYTES: Final = 8


def encode(message: Message) -> bytes:
    """Return the one frame of ``message``."""
    match message:
        case Delta():
            return _encode_delta(message)
        case Chunk():
            return _encode_chunk(message)
        case Heartbeat():
            return _encode_heartbeat(message)
        case Barrier():
            return barrier_prefix(message.nonce)
        case _:
            number, shape = SHAPES[type(message)]
            fields = [codec.write(getattr(message, name)) for name, codec in shape.items()]
            return CONTROL_PREFIX + cast(bytes, msgpack.packb([number, *fields]))


def decode(frame: bytes) -> Message:
    """Read one frame.

    Raises:
        VersionMismatch: another protocol version.
        WireError: anything else that is not exactly a frame that ``encode`` could have made.
    """
    if frame == KEEP_ALIVE_FRAME:
        return KEEP_ALIVE
    _check_lead(frame)
    if len(frame) > FRAME_BYTES_MAX:
        raise WireError(f"frame of {len(frame)} bytes: at most {FRAME_BYTES_MAX} allowed")
    if frame.startswith(CONTROL_PREFIX):
        return _decode_control(frame[len(CONTROL_PREFIX) :])
    if frame.startswith(BARRIER_PREFIX):
        nonce = frame[len(BARRIER_PREFIX) :]
        if len(nonce) != NONCE_BYTES:
            raise WireError(f"barrier nonce of {len(nonce)} bytes")
        return Barrier(nonce=nonce)
    header = read_header(frame)
    body = frame[HEADER_BYTES:]
    if header.kind == DELTA_KIND:
        return delta_of(header, read_entries(header, body))
    if header.kind == CHUNK_KIND:
        return _decode_chunk(header, body)
    return _decode_heartbeat(header, body)


def read_header(frame: bytes) -> Header:
    """Read and check the header of a delta, chunk or heartbeat; only the CRC covers the body.

    Raises:
        VersionMismatch: the frame is of another protocol version.
        WireError: too short or long, an unknown kind, flag, topic or level, versions in
            disorder, or the CRC differs.
    """
    size = len(frame)
    if not HEADER_BYTES <= size <= FRAME_BYTES_MAX or frame[0] != PROTOCOL:
        _check_lead(frame)
        raise WireError(f"frame of {size} bytes: {HEADER_BYTES} to {FRAME_BYTES_MAX} allowed")
    header = Header._make(LAYOUT.unpack_from(frame))
    if header.crc != crc32(frame[_AFTER_CRC:], crc32(frame[:CRC_AT])):
        raise WireError(f"crc differs: topic={header.topic} kind={header.kind}")
    kind, flags = header.kind, header.flags
    if kind not in FLAGS_OF_KIND or flags & ~FLAGS_OF_KIND[kind]:
        raise WireError(f"unknown kind {kind} or flags {flags:#04x}")
    if kind == HEARTBEAT_KIND:
        if header.topic != HEARTBEAT or header.level:
            raise WireError(f"heartbeat of topic {header.topic}, level {header.level}")
    elif NUM_TOPICS_MAX <= header.topic != NAMESPACE or not MINIMAL <= header.level <= FULL:
        raise WireError(f"entries of topic {header.topic}, level {header.level}")
    if header.from_version >= header.to_version:
        _check_versions(header)
    if kind == DELTA_KIND and size > HEADER_BYTES + DELTA_BYTES_MAX:
        raise WireError(f"delta of {size} bytes: a body of {DELTA_BYTES_MAX} allowed")
    return header


def delta_of(header: Header, entries: tuple[Entry, ...]) -> Delta:
    """Return the delta of ``header`` and what ``read_entries`` read of its body."""
    return Delta(
        topic=header.topic,
        level=header.level,
        epoch=header.epoch,
        start=header.start,
        from_version=header.from_version,
        to_version=header.to_version,
        floor=header.floor,
        sent_us=header.sent_us,
        source=header.source,
        entries=entries,
        stubbed=bool(header.flags & STUBBED),
        invalidate_all=bool(header.flags & INVALIDATE_ALL),
    )


def read_entries(header: Header, body: bytes) -> tuple[Entry, ...]:
    """Read the entries of a delta whose header was read before; what a hub does on its hot path.

    Raises:
        WireError: the frame is not a delta, or the body is not as docs/protocol.md has it.
    """
    if header.kind != DELTA_KIND:
        raise WireError(f"not a delta: kind={header.kind}")
    return _read_rows(header, body, 0)


def row_bytes(entry: Entry) -> int:
    """Return the bytes that ``entry`` takes in a body."""
    value = entry.value
    return _ROW.size + len(entry.key) + (len(value) if value is not None else 0)


def fitting(some: Iterable[T], size_of: Callable[[T], int], *, bytes_max: int) -> list[T]:
    """Return the first of ``some`` that take at most ``bytes_max``; always the first item."""
    found: list[T] = []
    for one in some:
        bytes_max -= size_of(one)
        if found and bytes_max < 0:
            break
        found.append(one)
    return found


def is_large(entry: Entry) -> bool:
    """Return whether the value of ``entry`` is too large for a row: only a pull brings it."""
    return entry.kind == VALUE and entry.size > VALUE_BYTES_MAX


def _check_lead(frame: bytes) -> None:
    """Raise WireError unless ``frame`` is long enough, and of this protocol version."""
    if len(frame) <= LEAD.size:
        raise WireError(f"frame of {len(frame)} bytes is too short")
    if frame[0] != PROTOCOL:
        raise VersionMismatch(str(PROTOCOL), str(frame[0]))


def _encode_delta(delta: Delta) -> bytes:
    header = Header(
        topic=delta.topic,
        level=delta.level,
        kind=DELTA_KIND,
        flags=STUBBED * delta.stubbed | INVALIDATE_ALL * delta.invalidate_all,
        source=delta.source,
        entry_count=len(delta.entries),
        epoch=delta.epoch,
        start=delta.start,
        from_version=delta.from_version,
        to_version=delta.to_version,
        floor=delta.floor,
        sent_us=delta.sent_us,
    )
    return pack(header, b"".join(_rows(delta.entries, delta.to_version)))


def _encode_chunk(chunk: Chunk) -> bytes:
    flags = FIRST * chunk.first | LAST * chunk.last | SNAPSHOT * chunk.snapshot
    header = Header(
        topic=chunk.topic,
        level=chunk.level,
        kind=CHUNK_KIND,
        flags=flags | INVALIDATE_ALL * chunk.invalidate_all,
        entry_count=len(chunk.entries),
        epoch=chunk.epoch,
        start=chunk.start,
        from_version=chunk.from_version,
        to_version=chunk.to_version,
        floor=chunk.floor,
        sent_us=chunk.sent_us,
    )
    key = chunk.resume_key
    resume = _RESUME.pack(chunk.stream, chunk.sequence, chunk.resume_version, len(key))
    return pack(header, b"".join((resume, key, *_rows(chunk.entries, chunk.to_version))))


def _encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    header = Header(
        topic=HEARTBEAT,
        kind=HEARTBEAT_KIND,
        entry_count=len(heartbeat.versions),
        epoch=heartbeat.epoch,
        start=heartbeat.start,
        sent_us=heartbeat.sent_us,
    )
    address = heartbeat.catalog_address.encode()
    state = _STATE.pack(
        heartbeat.hub,
        heartbeat.sequence,
        heartbeat.interval_ms,
        heartbeat.watermark,
        heartbeat.age_ms,
        len(address),
        len(heartbeat.sizes),
        heartbeat.offers,
    )
    numbers = (*heartbeat.versions, *heartbeat.floors, *heartbeat.sizes)
    return pack(header, state + address + Struct(f">{len(numbers)}Q").pack(*numbers))


def pack(header: Header, body: bytes) -> bytes:
    """Return the frame of ``header`` (its ``crc`` is ignored and computed) and ``body``."""
    lead = LAYOUT.pack(*header)
    crc = crc32(body, crc32(lead[_AFTER_CRC:], crc32(lead[:CRC_AT])))
    return b"".join((lead[:CRC_AT], _CRC.pack(crc), lead[_AFTER_CRC:], body))


def _check_versions(header: Header) -> None:
    if header.from_version > header.to_version:
        raise WireError(f"from version {header.from_version} above {header.to_version}")
    if header.kind == DELTA_KIND:
        raise WireError(f"delta that changes nothing at version {header.to_version}")


def _decode_chunk(header: Header, body: bytes) -> Chunk:
    try:
        stream, sequence, resume_version, key_bytes = _RESUME.unpack_from(body)
    except error as exc:
        raise WireError(f"chunk body of {len(body)} bytes") from exc
    rows_at = _RESUME.size + key_bytes
    if key_bytes > KEY_BYTES_MAX or resume_version > header.to_version:
        raise WireError(f"chunk resumes at {resume_version} after a key of {key_bytes} bytes")
    return Chunk(
        topic=header.topic,
        level=header.level,
        epoch=header.epoch,
        start=header.start,
        from_version=header.from_version,
        to_version=header.to_version,
        floor=header.floor,
        sent_us=header.sent_us,
        stream=stream,
        sequence=sequence,
        resume_version=resume_version,
        resume_key=body[_RESUME.size : rows_at],
        entries=_read_rows(header, body, rows_at),
        first=bool(header.flags & FIRST),
        last=bool(header.flags & LAST),
        snapshot=bool(header.flags & SNAPSHOT),
        invalidate_all=bool(header.flags & INVALIDATE_ALL),
    )


def _decode_heartbeat(header: Header, body: bytes) -> Heartbeat:
    count = header.entry_count
    try:
        state = _STATE.unpack_from(body)
        hub, sequence, interval_ms, watermark, age_ms, address, sizes, offers = state
        text = body[_STATE.size : _STATE.size + address].decode()
    except (error, UnicodeDecodeError) as exc:
        raise WireError("heartbeat body: state and address expected") from exc
    vectors_at = _STATE.size + address
    if len(body) != vectors_at + (2 * count + sizes) * _U64_BYTES or address > ADDRESS_BYTES_MAX:
        raise WireError("heartbeat body: address and vectors of other lengths than it says")
    if offers > ALL_OFFERED:
        raise WireError(f"heartbeat body: offers {offers} of unknown levels")
    versions, floors, of_topics = _vectors(body[vectors_at:], count)
    return Heartbeat(
        hub=hub,
        epoch=header.epoch,
        start=header.start,
        sequence=sequence,
        interval_ms=interval_ms,
        sent_us=header.sent_us,
        watermark=watermark,
        age_ms=age_ms,
        catalog_address=text,
        versions=versions,
        floors=floors,
        sizes=of_topics,
        offers=offers,
    )


@lru_cache(maxsize=2)  # most heartbeats have the vectors of the last: then nothing is unpacked
def _vectors(packed: bytes, count: int) -> tuple[tuple[int, ...], ...]:
    """Return the versions and floors of ``count`` topics, and the sizes that are behind them."""
    numbers = Struct(f">{len(packed) // _U64_BYTES}Q").unpack(packed)
    return numbers[:count], numbers[count : 2 * count], numbers[2 * count :]


def _decode_control(body: bytes) -> Message:
    fields = _unpack(body)
    if type(fields) is not tuple or not fields or type(fields[0]) is not int:
        raise WireError("control message: an array that begins with its type expected")
    cls = NUMBERS.get(fields[0])
    if cls is None:
        raise WireError(f"unknown message type {fields[0]}")
    shape = SHAPES[cls][1]
    if len(fields) != len(shape) + 1:
        raise WireError(f"{cls.__name__}: {len(shape)} fields expected, {len(fields) - 1} read")
    values = {
        name: codec.read(value, f"{cls.__name__}.{name}")
        for (name, codec), value in zip(shape.items(), fields[1:], strict=True)
    }
    return cls(**values)


def _rows(entries: tuple[Entry, ...], to_version: int) -> list[bytes]:
    rows: list[bytes] = []
    for e in entries:
        version, key = e.version, e.key
        rows += (
            _ROW.pack(
                e.kind,
                len(key),
                to_version - version,
                version - e.schema_version,
                version - e.data_version,
                e.size,
            ),
            key,
        )
        if e.value is not None:
            rows.append(e.value)
    return rows


def _read_rows(header: Header, body: bytes, at: int) -> tuple[Entry, ...]:
    """Read the rows from ``at`` to the end; a truncated body shows at the end."""
    to_version = header.to_version
    back_max = to_version - header.from_version - 1
    unpack, row_size = _ROW.unpack_from, _ROW.size
    entries: list[Entry] = []
    try:
        for _ in range(header.entry_count):
            kind, key_bytes, back, schema, data, size = unpack(body, at)
            key_at = at + row_size
            at = key_at + key_bytes
            key = body[key_at:at]
            value = None
            if kind == VALUE and size <= VALUE_BYTES_MAX:
                value_at = at
                at += size
                value = body[value_at:at]
            elif kind != STUB:
                _check_tombstone(kind, key, size)
            version = to_version - back
            if back > back_max or schema > version or data > version:
                raise WireError(f"row: version {version} out of order or range")
            back_max = back
            if key_bytes > KEY_BYTES_MAX or key.count(0) < 2:
                raise WireError("row: key with two NULs expected")
            entries.append(Entry(key, version, version - schema, version - data, size, value, kind))
    except error as exc:
        raise WireError(f"rows: {header.entry_count} expected, {len(entries)} read") from exc
    if at != len(body):
        raise WireError(f"rows: end at {at} of {len(body)} bytes")
    return tuple(entries)


def _check_tombstone(kind: int, key: bytes, size: int) -> None:
    if size or not VALUE < kind <= PREFIX:
        raise WireError(f"row: kind {kind} of {size} bytes")
    if kind == PREFIX and (key[-1:] != b"\0" or key.count(0) != 2):
        raise WireError("row: a prefix tombstone names a group")


def _unpack(body: bytes) -> Any:
    """Read MessagePack: arrays as tuples; maps and extension types are of no message."""
    try:
        return msgpack.unpackb(
            body,
            use_list=False,
            raw=False,
            max_array_len=LIST_MAX,
            max_map_len=0,
            max_ext_len=0,
        )
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as exc:
        raise WireError(f"body is not MessagePack: {str(exc) or type(exc).__name__}") from exc


KEEP_ALIVE: Final = KeepAlive()
KEEP_ALIVE_FRAME: Final = encode(KEEP_ALIVE)
"""``decode`` compares it as bytes: an idle hub receives little else."""
