"""Makes Thrift's JSON of an event's object into the bytes that the metastore returns of it.

A struct is ``{"field id": {"type": value}}``; a map ``["key type", "value type", count, {…}]``; a
list ``["item type", count, …]``. The code knows no fields, so that unknown fields survive.
Source: https://github.com/apache/thrift/blob/master/lib/java/src/main/java/org/apache/thrift/protocol/TJSONProtocol.java
"""

import json
from collections.abc import Mapping
from struct import error, pack
from typing import Any, Final

from ....topics.errors import WireError
from ....topics.objects.encoding.thrift import (
    BOOL,
    BYTE,
    DEPTH_MAX,
    DOUBLE,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    SET,
    STOP,
    STRING,
    STRUCT,
)

_TYPES: Final = {
    "tf": BOOL,
    "i8": BYTE,
    "dbl": DOUBLE,
    "i16": I16,
    "i32": I32,
    "i64": I64,
    "str": STRING,
    "rec": STRUCT,
    "map": MAP,
    "set": SET,
    "lst": LIST,
}
_FORMATS: Final = {BYTE: ">b", I16: ">h", I32: ">i", I64: ">q", DOUBLE: ">d"}


def parsed(text: str, what: str = "an object") -> Mapping[str, Any]:
    """Return the struct that ``text`` has as JSON; errors name it ``what``.

    Raises:
        WireError: the text is no JSON object.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise WireError(f"{what} is not JSON: {exc}") from exc
    if not isinstance(found, dict):
        raise WireError(f"{what} is not a JSON object")
    return found


def struct_bytes(found: Mapping[str, object]) -> bytes:
    """Return the bytes of a struct, its fields in the order of their ids.

    Raises:
        WireError: ``found`` is not a struct in Thrift's JSON.
    """
    try:
        return _struct(found, 0)
    except (ValueError, TypeError, AttributeError, KeyError, error, RecursionError) as exc:
        raise WireError(f"an object is not Thrift's JSON: {exc}") from exc


def _struct(found: Mapping[str, Any], depth: int) -> bytes:
    if depth > DEPTH_MAX:
        raise ValueError(f"it nests deeper than {DEPTH_MAX}")
    pieces: list[bytes] = []
    for number in sorted(found, key=int):
        ((name, value),) = found[number].items()
        kind = _TYPES[name]
        pieces += (pack(">bh", kind, int(number)), _value(kind, value, depth))
    return b"".join((*pieces, bytes((STOP,))))


def _value(kind: int, value: Any, depth: int) -> bytes:
    if kind == STRING:
        raw = str(value).encode()
        return pack(">i", len(raw)) + raw
    if kind == STRUCT:
        return _struct(value, depth + 1)
    if kind == BOOL:
        return pack(">b", int(value))
    if kind in _FORMATS:
        return pack(_FORMATS[kind], value)
    if kind == MAP:
        key_name, item_name, count, pairs = value
        key, item = _TYPES[key_name], _TYPES[item_name]
        if count != len(pairs):
            raise ValueError(f"a map of {len(pairs)} says that it has {count}")
        header = pack(">bbi", key, item, count)
        return header + b"".join(
            _value(key, k if key == STRING else json.loads(k), depth) + _value(item, v, depth)
            for k, v in pairs.items()
        )
    item_name, count, *items = value
    if count != len(items):
        raise ValueError(f"a list of {len(items)} says that it has {count}")
    item = _TYPES[item_name]
    return pack(">bi", item, count) + b"".join(_value(item, one, depth) for one in items)
