"""Requests: messages of Thrift's binary protocol, read from bytes as they arrive, in any parts.

A message is ``80 01 00, kind, name, number, arguments``; the arguments are one struct. A message
does not say how long it is, so the reader reads it value by value. It refuses a value at once that
announces more bytes than a request may have, so that no memory is kept for it.
Source: https://github.com/apache/thrift/blob/master/doc/specs/thrift-binary-protocol.md
"""

from collections.abc import Generator
from typing import Final, NamedTuple, TypeAlias

from ...topics.errors import WireError
from ...topics.objects.encoding.thrift import (
    BOOL,
    DOUBLE,
    FIXED_BYTES,
    LIST,
    MAP,
    SET,
    STOP,
    STRING,
    STRUCT,
    text,
)

VERSION: Final = b"\x80\x01\x00"
CALL: Final = 1
ONEWAY: Final = 4  # of the methods only ``shutdown`` is, after which the connection is closed
NAME_BYTES_MAX: Final = 128  # of a method's name; Hive's longest has 45
DEPTH_MAX: Final = 4  # of nested values; the arguments, a struct in them, and a list in it are 3
REQUEST_BYTES_MAX: Final = 2 << 20  # filters/tokens.py allows a filter of 1 MiB; twice that
ITEMS_MAX: Final = 50_000  # of a list; Hive requests 300 partitions at once

Value: TypeAlias = "bool | int | bytes | list[Value] | dict[int, Value]"
_Reading: TypeAlias = Generator[int, bytes, Value]


class Arguments:
    """A struct of a request, read by the numbers of its fields.

    Each method raises WireError if the field is missing, or of another type.
    """

    def __init__(self, fields: dict[int, Value]) -> None:
        self._fields = fields

    def text(self, number: int) -> str:
        """Return a field that is a string."""
        found = self._fields.get(number)
        if not isinstance(found, bytes):
            raise _missing(number, "a string")
        return text(found)

    def texts(self, number: int) -> tuple[str, ...]:
        """Return a field that is a list of strings."""
        found = self._fields.get(number)
        if not isinstance(found, list):
            raise _missing(number, "a list of strings")
        read = []
        for item in found:
            if not isinstance(item, bytes):
                raise _missing(number, "a list of strings")
            read.append(text(item))
        return tuple(read)

    def number(self, number: int, *, default: int) -> int:
        """Return a field that is an integer, ``default`` if it is missing."""
        found = self._fields.get(number, default)
        if isinstance(found, bool) or not isinstance(found, int):
            raise _missing(number, "an integer")
        return found

    def struct(self, number: int) -> "Arguments":
        """Return a field that is a struct."""
        found = self._fields.get(number)
        if not isinstance(found, dict):
            raise _missing(number, "a struct")
        return Arguments(found)


class Request(NamedTuple):
    """A call of ``method``; the reply repeats its ``number``."""

    method: str
    number: bytes
    arguments: Arguments


class RequestReader:
    """Reads the requests of one connection."""

    def __init__(self, *, bytes_max: int = REQUEST_BYTES_MAX) -> None:
        self.bytes_max = bytes_max  # of one request
        self._buffer = bytearray()  # what has arrived and is not read
        self._read_bytes = 0  # of the present request
        self._reading = _request()
        self._needed = next(self._reading)  # bytes that the next step of reading takes

    @property
    def is_half(self) -> bool:
        """Whether bytes have arrived of a request that ``next`` has not returned yet."""
        return self.held_bytes > 0

    @property
    def held_bytes(self) -> int:
        """How many bytes have arrived of requests that ``next`` has not returned yet."""
        return len(self._buffer) + self._read_bytes

    def feed(self, data: bytes) -> None:
        """Add bytes that have arrived."""
        self._buffer += data

    def next(self) -> Request | None:
        """Return the next request; None: it has not arrived whole.

        Raises:
            WireError: the bytes are no request, or it is too long; no more requests can be read.
        """
        pos = 0
        try:
            while len(self._buffer) - pos >= self._needed:
                chunk = bytes(self._buffer[pos : pos + self._needed])
                pos += self._needed
                self._read_bytes += self._needed
                self._needed = self._reading.send(chunk)
                if self._read_bytes + self._needed > self.bytes_max:
                    raise WireError(f"a request is longer than {self.bytes_max} bytes")
        except StopIteration as done:
            self._read_bytes = 0
            self._reading = _request()
            self._needed = next(self._reading)
            request: Request = done.value
            return request
        finally:
            del self._buffer[:pos]
        return None


def _request() -> Generator[int, bytes, Request]:
    """Read one message: yield how many bytes the next step takes, and be sent these bytes."""
    lead = yield 4
    if lead[:3] != VERSION or lead[3] not in (CALL, ONEWAY):
        raise WireError(f"a request begins with {lead!r}: not a call of the strict binary protocol")
    length = _length((yield 4))
    if length > NAME_BYTES_MAX:
        raise WireError(f"a method's name of {length} bytes, {NAME_BYTES_MAX} allowed")
    method = text((yield length))
    number = yield 4
    arguments = yield from _struct(0)
    assert isinstance(arguments, dict)
    return Request(method, number, Arguments(arguments))


def _struct(depth: int) -> _Reading:
    fields: dict[int, Value] = {}
    while True:
        kind = (yield 1)[0]
        if kind == STOP:
            return fields
        number = int.from_bytes((yield 2), "big", signed=True)
        fields[number] = yield from _value(kind, depth + 1)


def _value(kind: int, depth: int) -> _Reading:
    size = FIXED_BYTES.get(kind)
    if size is not None:
        raw = yield size
        if kind == BOOL:
            return raw != b"\0"
        return raw if kind == DOUBLE else int.from_bytes(raw, "big", signed=True)
    if kind == STRING:
        length = _length((yield 4))
        return (yield length)
    if depth > DEPTH_MAX:
        raise WireError(f"a request nests deeper than {DEPTH_MAX}")
    if kind == STRUCT:
        return (yield from _struct(depth))
    if kind in (LIST, SET):
        item = (yield 1)[0]
        count = _count((yield 4))
        return (yield from _items((item,), count, depth + 1))
    if kind == MAP:
        key, value = yield 2
        count = _count((yield 4))
        return (yield from _items((key, value), count, depth + 1))
    raise WireError(f"unknown Thrift type {kind} in a request")


def _items(kinds: tuple[int, ...], count: int, depth: int) -> _Reading:
    """Read ``count`` times one value of each of ``kinds``."""
    found: list[Value] = []
    for _ in range(count):
        for kind in kinds:
            found.append((yield from _value(kind, depth)))
    return found


def _length(raw: bytes) -> int:
    length = int.from_bytes(raw, "big", signed=True)
    if length < 0:
        raise WireError(f"a negative length in a request: {length}")
    return length


def _count(raw: bytes) -> int:
    count = _length(raw)
    if count > ITEMS_MAX:
        raise WireError(f"a list of {count} items in a request, {ITEMS_MAX} allowed")
    return count


def _missing(number: int, wanted: str) -> WireError:
    return WireError(f"field {number} of a request is not {wanted}")
