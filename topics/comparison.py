"""Comparison: whether two structs of the metastore say the same, and which of their values differ.

    metastore, catalogd, hub, subscriber ──two structs──▶ same_struct ──no──▶ differences, by path
    Table ──▶ {"owner": "ann", "sd.cols[0].type": "int", "parameters[rev]": "7", …}

Reconciliation, events that are applied in place, and the audit of pipelines compare by it. The
order of fields, and of the items of a map or a set, does not count: the metastore may choose
another one at each answer. A field that has no name here is called by its number.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from .objects.encoding.thrift import (
    BOOL,
    DOUBLE,
    FIELD_HEADER_BYTES,
    LIST,
    MAP,
    SET,
    STOP,
    STRING,
    STRUCT,
    fields,
    list_header,
    map_header,
    skip,
)
from .objects.encoding.values import encode_database_value
from .wire.header import VALUE_BYTES_MAX

DATABASE_PARAMETERS: Final = 4  # the number of this field in the struct of a database
DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Shape:
    """The names of a struct's fields, and the shapes of those that hold structs."""

    names: Mapping[int, str] = field(default_factory=dict)
    inner: Mapping[int, "Shape"] = field(default_factory=dict)


def _shape(names: str, **inner: Shape) -> Shape:
    """Return the shape of a struct with fields of these ``names``, numbered from 1."""
    numbered = dict(enumerate(names.split(), 1))
    return Shape(numbered, {at: inner[name] for at, name in numbered.items() if name in inner})


_ANY: Final = Shape()
_COLUMN: Final = _shape("name type comment")
_STORAGE: Final = _shape(
    "cols location inputFormat outputFormat compressed numBuckets serdeInfo bucketCols sortCols "
    "parameters skewedInfo storedAsSubDirectories",
    cols=_COLUMN,
    serdeInfo=_shape("name serializationLib parameters"),
    sortCols=_shape("col order"),
)
DATABASE: Final = _shape("name description locationUri parameters privileges ownerName ownerType")
TABLE: Final = _shape(
    "tableName dbName owner createTime lastAccessTime retention sd partitionKeys parameters "
    "viewOriginalText viewExpandedText tableType privileges temporary rewriteEnabled",
    sd=_STORAGE,
    partitionKeys=_COLUMN,
)
PARTITION: Final = _shape(
    "values dbName tableName createTime lastAccessTime sd parameters privileges catName",
    sd=_STORAGE,
)


def same_struct(one: bytes, other: bytes) -> bool:
    """Return whether two structs say the same.

    Raises:
        WireError: a value is damaged.
    """
    return one == other or _said(one, 0, STRUCT)[0] == _said(other, 0, STRUCT)[0]


def digest(thrift: bytes) -> bytes:
    """Return a digest that is the same for two structs exactly if they say the same.

    Raises:
        WireError: the struct is damaged.
    """
    said = repr(_said(thrift, 0, STRUCT)[0]).encode()
    return blake2b(said, digest_size=DIGEST_BYTES).digest()


def differences(
    there: bytes, held: bytes, shape: Shape
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the path of each value that differs, with the value of each side; None: it has none.

    Nothing is yielded exactly if the two structs say the same.

    Raises:
        WireError: a value is damaged.
    """
    if same_struct(there, held):
        return
    one, other = _values_in(there, shape), _values_in(held, shape)
    paths = [path for path in sorted({*one, *other}) if one.get(path) != other.get(path)]
    yield from ((path, one.get(path), other.get(path)) for path in paths)
    if not paths:  # the values have the same texts, and other bytes or types
        yield "bytes", digest(there).hex(), digest(held).hex()


def database_as_held(thrift: bytes) -> bytes:
    """Return what is held of a database: it has no parameters if they are too large for a frame.

    A database is sent to every reader, and never pulled.
    """
    if len(encode_database_value(thrift)) <= VALUE_BYTES_MAX:
        return thrift
    others = [found for found in fields(thrift) if found.id != DATABASE_PARAMETERS]
    kept = [thrift[found.start - FIELD_HEADER_BYTES : found.end] for found in others]
    return b"".join(kept) + bytes((STOP,))


def _values_in(thrift: bytes, shape: Shape) -> dict[str, str]:
    """Return each value in the struct ``thrift`` by its path; a list also says its length.

    Raises:
        WireError: the bytes are not a struct.
    """
    return dict(_Struct(thrift).values(0, shape, ""))


class _Struct:
    """The values in the bytes of one struct, each with its path."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def values(self, pos: int, shape: Shape, path: str) -> Iterator[tuple[str, str]]:
        """Yield the values of the struct that begins at ``pos``; ``path`` is its own."""
        dot = "." if path else ""
        for one in fields(self._data, pos):
            inner = shape.inner.get(one.id, _ANY)
            name = shape.names.get(one.id, f"field {one.id}")
            yield from self._value(one.start, one.type, inner, path=f"{path}{dot}{name}")

    def _value(self, pos: int, kind: int, shape: Shape, *, path: str) -> Iterator[tuple[str, str]]:
        if kind == STRUCT:
            yield from self.values(pos, shape, path)
        elif kind == MAP:
            yield from self._map(pos, shape, path)
        elif kind in (LIST, SET):
            item, count, at = list_header(self._data, pos)
            yield f"{path} (length)", str(count)
            places = []
            for _ in range(count):
                places.append(at)
                at = skip(self._data, at, item)
            if kind == SET:
                places.sort(key=lambda place: repr(_said(self._data, place, item)[0]))
            for number, place in enumerate(places):
                yield from self._value(place, item, shape, path=f"{path}[{number}]")
        else:
            yield path, self._text(pos, kind)

    def _map(self, pos: int, shape: Shape, path: str) -> Iterator[tuple[str, str]]:
        key_kind, value_kind, count, at = map_header(self._data, pos)
        for _ in range(count):
            value = skip(self._data, at, key_kind)
            key = " ".join(text for _, text in self._value(at, key_kind, _ANY, path=""))
            yield from self._value(value, value_kind, shape, path=f"{path}[{key}]")
            at = skip(self._data, value, value_kind)

    def _text(self, pos: int, kind: int) -> str:
        data, end = self._data, skip(self._data, pos, kind)
        if kind == STRING:
            return data[pos + 4 : end].decode(errors="backslashreplace")
        if kind == BOOL:
            return "true" if data[pos] else "false"
        if kind == DOUBLE:
            return data[pos:end].hex()
        return str(int.from_bytes(data[pos:end], "big", signed=True))


def _said(data: bytes, pos: int, kind: int, *, depth: int = 0) -> tuple[object, int]:
    """Return what the value of type ``kind`` at ``pos`` says, comparable, and where it ends."""
    if kind == STRUCT:
        found = fields(data, pos, depth)
        end = found[-1].end if found else pos
        said = {
            one.id: (one.type, _said(data, one.start, one.type, depth=depth + 1)[0])
            for one in sorted(found)
        }
        return said, end + 1  # behind its STOP
    if kind not in (MAP, LIST, SET):
        end = skip(data, pos, kind, depth=depth)
        return data[pos:end], end
    *kinds, count, pos = (map_header if kind == MAP else list_header)(data, pos)
    items: list[tuple[object, ...]] = []
    for _ in range(count):
        item: list[object] = []
        for one in kinds:
            value, pos = _said(data, pos, one, depth=depth + 1)
            item.append(value)
        items.append(tuple(item))
    return items if kind == LIST else sorted(items, key=repr), pos
