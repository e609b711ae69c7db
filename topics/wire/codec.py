"""Codec: ``encode`` returns the frame of a message, ``decode`` the message of a frame.

Deltas, chunks and heartbeats have the fixed header and a body of fixed structures (a row has
nothing that nests, so no frame can cost more memory than it is long); everything else is
``CONTROL_PREFIX`` and one MessagePack array ``[type, field, …]`` in the order of the dataclass.
"""

from struct import Struct, error
from typing import Any, Final, cast

import msgpack

from ..errors import WireError
from ..offers import ALL_OFFERED
from ..topic import HEARTBEAT, KEY_BYTES_MAX, PREFIX, STUB, VALUE, Entry
from . import header as h
from .fields import LIST_MAX, Codec, fields_of
from .messages import NUMBERS, Barrier, Chunk, Delta, Heartbeat, Message

ADDRESS_BYTES_MAX: Final = 1024  # of catalogd, in a heartbeat

_ROW = Struct(">BHQQQQ")  # kind, key's length, three versions as offsets, size; key, value
_RESUME = Struct(">QQQH")  # of a chunk: stream, sequence, resume version, resume key's length
_STATE = Struct(">QQQQQHHB")  # of a heartbeat: five numbers, lengths of address and sizes, offers
_U64_BYTES: Final = 8

SHAPES: Final[dict[type, tuple[int, dict[str, Codec]]]] = {
    cls: (number, fields_of(cls)) for number, cls in NUMBERS.items()
}


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
            return h.barrier_prefix(message.nonce)
        case _:
            number, shape = SHAPES[type(message)]
            fields = [codec.write(getattr(message, name)) for name, codec in shape.items()]
            return h.CONTROL_PREFIX + cast(bytes, msgpack.packb([number, *fields]))


def decode(frame: bytes) -> Message:
    """Read one frame.

    Raises:
        VersionMismatch: another protocol version.
        WireError: anything else that is not exactly a frame that ``encode`` could have made.
    """
    h.check_lead(frame)
    if len(frame) > h.FRAME_BYTES_MAX:
        raise WireError(f"frame of {len(frame)} bytes: at most {h.FRAME_BYTES_MAX} allowed")
    if frame.startswith(h.CONTROL_PREFIX):
        return _decode_control(frame[len(h.CONTROL_PREFIX) :])
    if frame.startswith(h.BARRIER_PREFIX):
        nonce = frame[len(h.BARRIER_PREFIX) :]
        if len(nonce) != h.NONCE_BYTES:
            raise WireError(f"barrier nonce of {len(nonce)} bytes")
        return Barrier(nonce=nonce)
    header = h.read_header(frame)
    body = frame[h.HEADER_BYTES :]
    if header.kind == h.DELTA_KIND:
        return delta_of(header, read_entries(header, body))
    if header.kind == h.CHUNK_KIND:
        return _decode_chunk(header, body)
    return _decode_heartbeat(header, body)


def delta_of(header: h.Header, entries: tuple[Entry, ...]) -> Delta:
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
        stubbed=bool(header.flags & h.STUBBED),
        invalidate_all=bool(header.flags & h.INVALIDATE_ALL),
        origin=header.origin,
        hops=header.hops,
    )


def read_entries(header: h.Header, body: bytes) -> tuple[Entry, ...]:
    """Read the entries of a delta whose header was read before; what a hub does on its hot path.

    Raises:
        WireError: the frame is no delta, or the body is not as docs/protocol.md has it.
    """
    if header.kind != h.DELTA_KIND:
        raise WireError(f"no delta: kind={header.kind}")
    return _read_rows(header, body, 0)


def row_bytes(entry: Entry) -> int:
    """Return the bytes that ``entry`` takes in a body."""
    value = entry.value
    return _ROW.size + len(entry.key) + (len(value) if value is not None else 0)


def _encode_delta(delta: Delta) -> bytes:
    header = h.Header(
        h.PROTOCOL,
        delta.topic,
        delta.level,
        h.DELTA_KIND,
        h.STUBBED * delta.stubbed | h.INVALIDATE_ALL * delta.invalidate_all,
        delta.source,
        delta.hops,
        delta.origin,
        0,
        len(delta.entries),
        delta.epoch,
        delta.start,
        delta.from_version,
        delta.to_version,
        delta.floor,
        delta.sent_us,
    )
    return h.pack(header, b"".join(_rows(delta.entries, delta.to_version)))


def _encode_chunk(chunk: Chunk) -> bytes:
    flags = h.FIRST * chunk.first | h.LAST * chunk.last | h.SNAPSHOT * chunk.snapshot
    header = h.Header(
        h.PROTOCOL,
        chunk.topic,
        chunk.level,
        h.CHUNK_KIND,
        flags | h.INVALIDATE_ALL * chunk.invalidate_all,
        0,
        0,
        0,
        0,
        len(chunk.entries),
        chunk.epoch,
        chunk.start,
        chunk.from_version,
        chunk.to_version,
        chunk.floor,
        chunk.sent_us,
    )
    key = chunk.resume_key
    resume = _RESUME.pack(chunk.stream, chunk.sequence, chunk.resume_version, len(key))
    return h.pack(header, b"".join((resume, key, *_rows(chunk.entries, chunk.to_version))))


def _encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    header = h.Header(
        h.PROTOCOL,
        HEARTBEAT,
        0,
        h.HEARTBEAT_KIND,
        0,
        0,
        0,
        0,
        0,
        len(heartbeat.versions),
        heartbeat.epoch,
        heartbeat.start,
        0,
        0,
        0,
        heartbeat.sent_us,
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
    return h.pack(header, state + address + Struct(f">{len(numbers)}Q").pack(*numbers))


def _decode_chunk(header: h.Header, body: bytes) -> Chunk:
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
        first=bool(header.flags & h.FIRST),
        last=bool(header.flags & h.LAST),
        snapshot=bool(header.flags & h.SNAPSHOT),
        invalidate_all=bool(header.flags & h.INVALIDATE_ALL),
    )


def _decode_heartbeat(header: h.Header, body: bytes) -> Heartbeat:
    count = header.entry_count
    try:
        state = _STATE.unpack_from(body)
        hub, sequence, interval_ms, watermark, age_ms, address, sizes, offers = state
        text = body[_STATE.size : _STATE.size + address].decode()
    except (error, UnicodeDecodeError) as exc:
        raise WireError("heartbeat body: state and address expected") from exc
    vectors = body[_STATE.size + address :]
    if len(vectors) != (2 * count + sizes) * _U64_BYTES or address > ADDRESS_BYTES_MAX:
        raise WireError("heartbeat body: vectors of other lengths than it says")
    if offers > ALL_OFFERED:
        raise WireError(f"heartbeat body: offers {offers} of unknown levels")
    numbers = Struct(f">{2 * count + sizes}Q").unpack(vectors)
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
        versions=numbers[:count],
        floors=numbers[count : 2 * count],
        sizes=numbers[2 * count :],
        offers=offers,
    )


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
    return cast(Message, cls(**values))


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


def _read_rows(header: h.Header, body: bytes, at: int) -> tuple[Entry, ...]:
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
            if kind == VALUE and size <= h.VALUE_BYTES_MAX:
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
        raise WireError(f"body is no MessagePack: {str(exc) or type(exc).__name__}") from exc
