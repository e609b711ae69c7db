"""Replies: messages of Thrift's binary protocol, around bytes that the metastore has returned.

    reply = header, result, STOP        result = field 0: the value that the method returns
                                               | field n: an exception that the method declares

A reply is an iterator of pieces, so that the server makes a long reply while the client reads it.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from .requests import VERSION, Request

REPLY: Final = b"\x02"
EXCEPTION: Final = b"\x03"  # a TApplicationException, which no method declares

UNKNOWN_METHOD: Final = 1  # a kind of TApplicationException
INTERNAL_ERROR: Final = 6  # likewise

STRUCT: Final = b"\x0c"
LIST: Final = b"\x0f"
TEXT: Final = b"\x0b"
I32: Final = b"\x08"
STOP: Final = b"\0"
NAMES_AT_ONCE: Final = 1000  # of a list, in one piece: about 30 KB

Pieces = Iterable[bytes]


def result(request: Request, success: Pieces) -> Iterator[bytes]:
    """Return the reply with ``success``, the pieces of field 0; none if the method returns void."""
    return chain((_header(request, REPLY),), success, (STOP,))


def failure(request: Request, field: int, message: str) -> Iterator[bytes]:
    """Return the reply with an exception that the method declares as ``field``, of one text."""
    return iter((_header(request, REPLY) + struct_field(field, _error(message)) + STOP,))


def application_error(request: Request, kind: int, message: str) -> Iterator[bytes]:
    """Return the reply with a TApplicationException of ``kind``."""
    number = I32 + _number(2) + kind.to_bytes(4, "big")
    body = TEXT + _number(1) + packed(message) + number + STOP
    return iter((_header(request, EXCEPTION) + body,))


def struct_field(field: int, struct: bytes) -> bytes:
    """Return the bytes of a field whose value is the struct ``struct``, without its STOP."""
    return STRUCT + _number(field) + struct


def structs_field(field: int, count: int, structs: Pieces) -> Iterator[bytes]:
    """Return the pieces of a field that is a list of ``count`` structs."""
    lead = LIST + _number(field) + STRUCT + count.to_bytes(4, "big")
    return chain((lead,), structs)


def texts_field(field: int, texts: Sequence[str]) -> Iterator[bytes]:
    """Yield the pieces of a field that is a list of texts."""
    yield LIST + _number(field) + TEXT + len(texts).to_bytes(4, "big")
    for at in range(0, len(texts), NAMES_AT_ONCE):
        yield b"".join(map(packed, texts[at : at + NAMES_AT_ONCE]))


def packed(text: str) -> bytes:
    """Return a text as Thrift bytes."""
    raw = text.encode()
    return len(raw).to_bytes(4, "big") + raw


def _error(message: str) -> bytes:
    return TEXT + _number(1) + packed(message) + STOP


def _number(field: int) -> bytes:
    return field.to_bytes(2, "big")


def _header(request: Request, kind: bytes) -> bytes:
    return VERSION + kind + packed(request.method) + request.number
