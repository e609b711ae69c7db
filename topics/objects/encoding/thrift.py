"""Thrift: TBinaryProtocol bytes walked in place, without a library.

The bytes are those of one value in a reply of HMS. Every access is checked: bytes that are cut,
nested deeper than DEPTH_MAX, or of unknown types raise WireError and nothing else, in time
proportional to their length.
Source: https://github.com/apache/thrift/blob/master/doc/specs/thrift-binary-protocol.md
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ...errors import WireError

STOP: Final = 0
BOOL: Final = 2
BYTE: Final = 3
DOUBLE: Final = 4
I16: Final = 6
I32: Final = 8
I64: Final = 10
STRING: Final = 11
STRUCT: Final = 12
MAP: Final = 13
SET: Final = 14
LIST: Final = 15

FIXED_BYTES: Final = {BOOL: 1, BYTE: 1, DOUBLE: 8, I16: 2, I32: 4, I64: 8}
FIELD_HEADER_BYTES: Final = 3  # type and id, before each value
DEPTH_MAX: Final = 32  # HMS nests six deep: partition, skew info, map, list, string


class Field(NamedTuple):
    """One field of a struct: its value's bytes are ``data[start:end]``."""

    id: int
    type: int
    start: int
    end: int


def fields(data: bytes, pos: int = 0, depth: int = 0) -> list[Field]:
    """Return the fields of the struct that begins at ``pos``, in their order."""
    return _walk(data, pos, depth, inner=None)[0]


def fields_and_inner(data: bytes, inner: int) -> tuple[list[Field], list[Field]]:
    """Return the fields of a struct, and those of the struct that is its field ``inner``.

    Its bytes are walked once. If that field is not there, or no struct, it has no fields.
    """
    return _walk(data, 0, 0, inner=inner)


def _walk(
    data: bytes, pos: int, depth: int, *, inner: int | None
) -> tuple[list[Field], list[Field]]:
    found: list[Field] = []
    found_inside: list[Field] = []
    while True:
        kind = data[_bounded(data, pos, 1) - 1]
        if kind == STOP:
            return found, found_inside
        start = _bounded(data, pos + 1, 2)
        id_ = int.from_bytes(data[pos + 1 : start], "big", signed=True)
        if id_ == inner and kind == STRUCT:
            found_inside = fields(data, start, depth + 1)
            end = (found_inside[-1].end if found_inside else start) + 1  # behind its STOP
        else:
            end = skip(data, start, kind, depth=depth + 1)
        found.append(Field(id_, kind, start, end))
        pos = end


def struct_end(data: bytes, pos: int = 0, depth: int = 0) -> int:
    """Return where the struct that begins at ``pos`` ends."""
    try:
        while True:
            kind = data[pos]  # an IndexError unless it is there, and with it all before it
            if kind == STOP:
                return pos + 1
            if kind == STRING:
                pos += 7 + int.from_bytes(data[pos + 3 : pos + 7], "big")
            elif kind in FIXED_BYTES:
                pos += 3 + FIXED_BYTES[kind]
            else:
                pos = skip(data, pos + 3, kind, depth=depth + 1)
    except IndexError as exc:
        raise WireError(f"Thrift struct is cut at {len(data)}") from exc


def check_struct(data: bytes) -> None:
    """Raise WireError unless ``data`` is the bytes of one whole struct."""
    end = struct_end(data)
    if end != len(data):
        raise WireError(f"{len(data) - end} bytes follow a Thrift struct")


def shape(data: bytes, pos: int = 0, depth: int = 0) -> tuple[object, ...]:
    """Return which fields the struct at ``pos`` has, with those of the structs and maps in it.

    Two structs of one shape differ in values only, and in what is in their lists.
    """
    found: list[object] = []
    for one in fields(data, pos, depth):
        inner: object = None
        if one.type == STRUCT:
            inner = shape(data, one.start, depth + 1)
        elif one.type == MAP and data[one.start] == STRING:
            _, kind, count, at = map_header(data, one.start)
            keys = []
            for _ in range(count):
                end = skip(data, at, STRING)
                keys.append(data[at:end])
                at = skip(data, end, kind, depth=depth + 1)
            inner = tuple(sorted(keys))
        found.append((one.id, one.type, inner))
    return tuple(sorted(found, key=repr))


def skip(data: bytes, pos: int, kind: int, *, depth: int = 0) -> int:
    """Return where the value of type ``kind`` that begins at ``pos`` ends."""
    size = FIXED_BYTES.get(kind)
    if size is not None:
        return _bounded(data, pos, size)
    if kind == STRING:
        return _bounded(data, pos + 4, _length(data, pos))
    if depth >= DEPTH_MAX:
        raise WireError(f"Thrift value nests deeper than {DEPTH_MAX}")
    if kind == STRUCT:
        return struct_end(data, pos, depth)
    if kind == MAP:
        key, value, count, pos = map_header(data, pos)
        return _skip_items(data, pos, (key, value), count=count, depth=depth + 1)
    if kind in (LIST, SET):
        item, count, pos = list_header(data, pos)
        return _skip_items(data, pos, (item,), count=count, depth=depth + 1)
    raise WireError(f"unknown Thrift type {kind}")


def list_header(data: bytes, pos: int) -> tuple[int, int, int]:
    """Return the type and number of a list's items, and where the first begins."""
    count = _length(data, pos + 1)
    return data[pos], count, pos + 5


def map_header(data: bytes, pos: int) -> tuple[int, int, int, int]:
    """Return a map's key type, value type and size, and where the first key begins."""
    count = _length(data, pos + 2)
    return data[pos], data[pos + 1], count, pos + 6


def read_int(data: bytes, field: Field) -> int:
    """Return a field that is an integer of any width."""
    if field.type not in (BYTE, I16, I32, I64):
        raise _mismatch(field, "an integer")
    return int.from_bytes(data[field.start : field.end], "big", signed=True)


def read_bool(data: bytes, field: Field) -> bool:
    """Return a field that is a boolean."""
    if field.type != BOOL:
        raise _mismatch(field, "a boolean")
    return data[field.start] != 0


def read_text(data: bytes, field: Field) -> str:
    """Return a field that is a string."""
    if field.type != STRING:
        raise _mismatch(field, "a string")
    return text(data[field.start + 4 : field.end])


def read_texts(data: bytes, field: Field) -> tuple[str, ...]:
    """Return a field that is a list of strings."""
    spans = _items(data, field, STRING, wanted="a list of strings")
    return tuple([text(data[start + 4 : end]) for start, end in spans])


def read_structs(data: bytes, field: Field) -> tuple[int, ...]:
    """Return where each struct of a field that is a list of structs begins."""
    return tuple([start for start, _ in _items(data, field, STRUCT, wanted="a list of structs")])


def read_text_map(data: bytes, field: Field) -> dict[str, str]:
    """Return a field that is a map from string to string, in its order."""
    if field.type != MAP:
        raise _mismatch(field, "a map of strings")
    key_type, value_type, count, pos = map_header(data, field.start)
    if count and (key_type != STRING or value_type != STRING):
        raise _mismatch(field, "a map of strings")
    pairs = text_pairs(data, pos, count)
    return {text(key): text(data[start + 4 : end]) for key, start, end in pairs}


def text_pairs(data: bytes, pos: int, count: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the key of each pair of a map of strings, and where its value starts and ends.

    ``pos`` is that of the first key.
    """
    for _ in range(count):
        start = skip(data, pos, STRING)
        end = skip(data, start, STRING)
        yield data[pos + 4 : start], start, end
        pos = end


def text(raw: bytes) -> str:
    """Return ``raw`` as text; HMS writes nothing but UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError as exc:
        raise WireError(f"string {raw[:64]!r} is not UTF-8") from exc


def _items(data: bytes, field: Field, kind: int, *, wanted: str) -> list[tuple[int, int]]:
    """Return where each item of a field that is a list of ``kind`` starts and ends."""
    if field.type != LIST:
        raise _mismatch(field, wanted)
    item, count, pos = list_header(data, field.start)
    if count and item != kind:
        raise _mismatch(field, wanted)
    spans = []
    for _ in range(count):
        end = skip(data, pos, kind)
        spans.append((pos, end))
        pos = end
    return spans


def _skip_items(data: bytes, pos: int, kinds: tuple[int, ...], *, count: int, depth: int) -> int:
    """Skip ``count`` times one value of each of ``kinds``; no value is empty, so data ends it."""
    sizes = [FIXED_BYTES.get(kind, 0) for kind in kinds]
    if all(sizes):
        return _bounded(data, pos, count * sum(sizes))
    if kinds == (STRUCT,) and depth < DEPTH_MAX:  # as columns are: the most of what is walked
        for _ in range(count):
            pos = struct_end(data, pos, depth)
        return pos
    for _ in range(count):
        for kind in kinds:
            pos = skip(data, pos, kind, depth=depth)
    return pos


def _length(data: bytes, pos: int) -> int:
    """Read the length or count at ``pos``; what precedes ``pos`` is then known to exist too."""
    length = int.from_bytes(data[pos : _bounded(data, pos, 4)], "big", signed=True)
    if length < 0:
        raise WireError(f"negative length in Thrift bytes at {pos}")
    return length


def _bounded(data: bytes, pos: int, size: int) -> int:
    end = pos + size
    if end > len(data):
        raise WireError(f"Thrift bytes end at {len(data)}, {end} needed")
    return end


def _mismatch(field: Field, wanted: str) -> WireError:
    return WireError(f"Thrift field {field.id} has type {field.type} where {wanted} belongs")
