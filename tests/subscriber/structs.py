"""Thrift bytes of databases, tables and partitions, written by hand."""

import struct
from collections.abc import Mapping

from topicast.topics.objects.names import partition_values


def _string(number: int, text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">bhi", 11, number, len(raw)) + raw


def _columns(number: int, names: tuple[str, ...]) -> bytes:
    items = b"".join(_string(1, name) + _string(2, "string") + b"\0" for name in names)
    return struct.pack(">bhbi", 15, number, 12, len(names)) + items


def _map(number: int, items: Mapping[str, str]) -> bytes:
    body = b""
    for key, value in items.items():
        for text in (key, value):
            body += struct.pack(">i", len(text.encode())) + text.encode()
    return struct.pack(">bhbbi", 13, number, 11, 11, len(items)) + body


def _sd(number: int, columns: tuple[str, ...], location: str) -> bytes:
    serde = b"\x0c" + struct.pack(">h", 7) + _string(2, "org.example.Serde") + b"\0"
    return (b"\x0c" + struct.pack(">h", number) + _columns(1, columns) + _string(2, location)) + (
        _string(3, "In") + _string(4, "Out") + serde + b"\0"
    )


def table_struct(
    db: str, name: str, *, columns: tuple[str, ...] = ("id",), keys: tuple[str, ...] = ()
) -> bytes:
    """Return the Thrift bytes of a table."""
    sd = _sd(7, columns, f"file:/w/{db}/{name}")
    head = _string(1, name) + _string(2, db) + _string(3, "me") + sd + _columns(8, keys)
    return head + _map(9, {"k": "v"}) + _string(12, "MANAGED_TABLE") + b"\0"


def partition_struct(db: str, table: str, name: str, parameters: Mapping[str, str]) -> bytes:
    """Return the Thrift bytes of the partition ``name``."""
    values = partition_values(name)
    texts = b"".join(struct.pack(">i", len(v.encode())) + v.encode() for v in values)
    head = struct.pack(">bhbi", 15, 1, 11, len(values)) + texts + _string(2, db)
    head += _string(3, table) + _sd(6, ("id",), f"file:/w/{db}/{table}/{name}")
    return head + _map(7, parameters) + b"\0"


def database_struct(db: str, about: str = "about") -> bytes:
    """Return the Thrift bytes of a database."""
    return _string(1, db) + _string(2, about) + _string(3, f"file:/w/{db}") + b"\0"
