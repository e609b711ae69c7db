"""Paths: the values of a Thrift struct of the metastore, under readable names.

    Table ──▶ {"owner": "ann", "sd.cols[0].type": "int", "parameters[rev]": "7", …}

Two structs say the same if these are equal: the order of a map, which the metastore is free to
choose at each answer, counts for nothing. A field without a name here is called by its number.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ...topics.objects.thrift import (
    BOOL,
    DOUBLE,
    LIST,
    MAP,
    SET,
    STRING,
    STRUCT,
    fields,
    list_header,
    map_header,
    skip,
)


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


def said_by(thrift: bytes, shape: Shape) -> dict[str, str]:
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
            for number in range(count):
                yield from self._value(at, item, shape, path=f"{path}[{number}]")
                at = skip(self._data, at, item)
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
