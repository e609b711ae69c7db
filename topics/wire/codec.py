"""Codec: ``encode`` a message to its frame, ``decode`` a frame to its message. Both total.

Deltas, chunks and beacons have the fixed header and a MessagePack body; everything else is
``CONTROL_PREFIX`` and one MessagePack array ``[type, field, …]`` in the order of the dataclass.
"""

from struct import Struct, error
from typing import Any, cast

import msgpack

from ..entries import FULL, KEY_BYTES_MAX, PREFIX, STUB, VALUE, Entry
from ..errors import WireError
from ..sharding import BARRIER, BEACON
from . import header as h
from .control import CLASSES, SHAPES
from .messages import Barrier, Beacon, Chunk, Delta, Message

FIELDS_PER_ENTRY = 7
BEACON_FIELDS = 9


def encode(message: Message) -> bytes:
    """Return the one frame of ``message``."""
    match message:
        case Delta():
            return _encode_delta(message)
        case Chunk():
            return _encode_chunk(message)
        case Beacon():
            return _encode_beacon(message)
        case Barrier():
            return h.barrier_prefix(message.nonce)
        case _:
            number, shape = SHAPES[type(message)]
            fields = [write(getattr(message, name)) for name, _, write in shape]
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
    if frame.startswith(h.prefix(BARRIER, 0)):
        nonce = frame[4:]
        if len(nonce) != h.NONCE_BYTES:
            raise WireError(f"barrier nonce of {len(nonce)} bytes")
        return Barrier(nonce=nonce)
    header = h.read_header(frame)
    body = frame[h.HEADER_BYTES :]
    if header.kind == h.DELTA_KIND:
        return read_delta(header, body)
    if header.kind == h.CHUNK_KIND:
        return _decode_chunk(header, body)
    return _decode_beacon(header, body)


def read_delta(header: h.Header, body: bytes) -> Delta:
    """Read the body of a delta whose header was read before.

    Raises:
        WireError: the body is not as docs/protocol.md has it.
    """
    if header.flags & ~(h.STUBBED | h.HORIZON) or header.kind != h.DELTA_KIND:
        raise WireError(f"no delta: kind={header.kind} flags={header.flags:#04x}")
    if header.from_version == header.to_version or not 0 < header.level <= FULL:
        raise WireError("delta changes nothing, or is of no level")
    entries = _read_rows(_unpack(body), header)
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
        horizon=bool(header.flags & h.HORIZON),
        origin=header.origin,
        hops=header.hops,
    )


def row_bytes(entry: Entry) -> int:
    """Return an upper bound of the bytes that ``entry`` takes in a body."""
    return len(entry.key) + (len(entry.value) if entry.value is not None else 0) + 56


def _encode_delta(delta: Delta) -> bytes:
    header = h.Header(
        h.PROTOCOL,
        delta.topic,
        delta.level,
        h.DELTA_KIND,
        h.STUBBED * delta.stubbed | h.HORIZON * delta.horizon,
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
    return h.pack(header, msgpack.packb(_rows(delta.entries, delta.to_version)))


def _encode_chunk(chunk: Chunk) -> bytes:
    flags = h.FIRST * chunk.first | h.LAST * chunk.last | h.SNAPSHOT * chunk.snapshot
    header = h.Header(
        h.PROTOCOL,
        chunk.topic,
        chunk.level,
        h.CHUNK_KIND,
        flags | h.HORIZON * chunk.horizon,
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
    place = [chunk.stream, chunk.sequence, chunk.resume_version, chunk.resume_key]
    return h.pack(header, msgpack.packb([*place, _rows(chunk.entries, chunk.to_version)]))


def _encode_beacon(beacon: Beacon) -> bytes:
    header = h.Header(
        h.PROTOCOL,
        BEACON,
        0,
        h.BEACON_KIND,
        0,
        0,
        0,
        0,
        0,
        len(beacon.versions),
        beacon.epoch,
        beacon.start,
        0,
        0,
        0,
        beacon.sent_us,
    )
    body = [
        beacon.hub,
        beacon.sequence,
        beacon.interval_ms,
        beacon.watermark,
        beacon.age_ms,
        beacon.catalog_address,
        *map(_vector, (beacon.versions, beacon.floors, beacon.sizes)),
    ]
    return h.pack(header, msgpack.packb(body))


def _decode_chunk(header: h.Header, body: bytes) -> Chunk:
    if header.flags & h.STUBBED or not 0 < header.level <= FULL:
        raise WireError(f"no chunk: flags={header.flags:#04x} level={header.level}")
    fields = _unpack(body)
    if type(fields) is not tuple or len(fields) != 5:
        raise WireError("chunk body: five fields expected")
    stream, sequence, resume_version, resume_key, rows = fields
    _unsigned(stream, sequence, resume_version)
    if type(resume_key) is not bytes or len(resume_key) > KEY_BYTES_MAX:
        raise WireError("chunk body: resume key expected")
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
        resume_key=resume_key,
        entries=_read_rows(rows, header),
        first=bool(header.flags & h.FIRST),
        last=bool(header.flags & h.LAST),
        snapshot=bool(header.flags & h.SNAPSHOT),
        horizon=bool(header.flags & h.HORIZON),
    )


def _decode_beacon(header: h.Header, body: bytes) -> Beacon:
    fields = _unpack(body)
    if header.topic != BEACON or header.level or header.flags:
        raise WireError("beacon of a topic, a level or with flags")
    if type(fields) is not tuple or len(fields) != BEACON_FIELDS:
        raise WireError(f"beacon body: {BEACON_FIELDS} fields expected")
    hub, sequence, interval_ms, watermark, age_ms, address, versions, floors, sizes = fields
    _unsigned(hub, sequence, interval_ms, watermark, age_ms)
    if type(address) is not str or len(address) > KEY_BYTES_MAX:
        raise WireError("beacon body: catalog address expected")
    vectors = tuple(map(_read_vector, (versions, floors, sizes)))
    if len(vectors[0]) != header.entry_count or len(vectors[1]) != header.entry_count:
        raise WireError("beacon body: vectors of other lengths than its header says")
    return Beacon(
        hub=hub,
        epoch=header.epoch,
        start=header.start,
        sequence=sequence,
        interval_ms=interval_ms,
        sent_us=header.sent_us,
        watermark=watermark,
        age_ms=age_ms,
        catalog_address=address,
        versions=vectors[0],
        floors=vectors[1],
        sizes=vectors[2],
    )


def _decode_control(body: bytes) -> Message:
    fields = _unpack(body)
    if type(fields) is not tuple or not fields or type(fields[0]) is not int:
        raise WireError("control message: an array that begins with its type expected")
    cls = CLASSES.get(fields[0])
    if cls is None:
        raise WireError(f"unknown message type {fields[0]}")
    shape = SHAPES[cls][1]
    if len(fields) != len(shape) + 1:
        raise WireError(f"{cls.__name__}: {len(shape)} fields expected, {len(fields) - 1} read")
    values = {
        name: read(value, f"{cls.__name__}.{name}")
        for (name, read, _), value in zip(shape, fields[1:], strict=True)
    }
    return cast(Message, cls(**values))


def _rows(entries: tuple[Entry, ...], to_version: int) -> list[object]:
    rows: list[object] = []
    for e in entries:
        changed = (to_version - e.version, e.version - e.schema_version, e.version - e.data_version)
        rows += (e.kind, e.key, *changed, e.size, e.value)
    return rows


def _read_rows(rows: Any, header: h.Header) -> tuple[Entry, ...]:
    if type(rows) is not tuple or len(rows) != FIELDS_PER_ENTRY * header.entry_count:
        raise WireError(f"rows: {header.entry_count} entries expected")
    to_version = header.to_version
    fields = iter(rows)
    return tuple(
        _read_row(to_version, *row) for row in zip(*[fields] * FIELDS_PER_ENTRY, strict=True)
    )


def _read_row(  # noqa: PLR0913 - the fields of a row in the order of the wire
    to_version: int, kind: Any, key: Any, back: Any, schema: Any, data: Any, size: Any, value: Any
) -> Entry:
    if type(kind) is not int or not VALUE <= kind <= PREFIX:
        raise WireError(f"row: unknown kind {kind!r}")
    if type(key) is not bytes or len(key) > KEY_BYTES_MAX or key.count(b"\0", 0) < 2:
        raise WireError("row: key with two NULs expected")
    if kind == PREFIX and (key[-1] or key.count(b"\0") != 2):
        raise WireError("row: a prefix tombstone names a group")
    _unsigned(back, schema, data, size)
    version = to_version - back
    if version < 0 or schema > version or data > version:
        raise WireError("row: version below 0")
    if kind == VALUE:
        if type(value) is not bytes or len(value) != size or size > h.VALUE_BYTES_MAX:
            raise WireError("row: value of the stated size expected")
    elif value is not None or (kind != STUB and size):
        raise WireError("row: value where there is none")
    return Entry(key, version, version - schema, version - data, size, value, kind)


def _unsigned(*values: Any) -> None:
    for value in values:
        if type(value) is not int or not 0 <= value < 1 << 64:
            raise WireError(f"unsigned 64-bit integer expected, {type(value).__name__} read")


def _vector(numbers: tuple[int, ...]) -> bytes:
    return Struct(f">{len(numbers)}Q").pack(*numbers)


def _read_vector(data: Any) -> tuple[int, ...]:
    if type(data) is not bytes:
        raise WireError("vector of 64-bit integers expected")
    try:
        return Struct(f">{len(data) // 8}Q").unpack(data)
    except error as exc:
        raise WireError("vector of 64-bit integers expected") from exc


def _unpack(body: bytes) -> Any:
    """Read MessagePack: arrays as tuples; maps and extension types are of no message."""
    try:
        return msgpack.unpackb(body, use_list=False, raw=False, max_map_len=0, max_ext_len=0)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as exc:
        raise WireError(f"body is no MessagePack: {exc}") from exc
