"""A reader that subscribes and then never reads again."""

import socket
import struct


def reader_that_stops(address: str) -> socket.socket:
    """Speak ZMTP 3.0 by hand up to the subscription, then never read again."""
    raw = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
    ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 3) + b"SUB"
    raw.sendall(greeting + bytes([4, len(ready)]) + ready)
    assert b"READY" in _received(raw, len(greeting) + 2 + len(ready))
    raw.sendall(b"\x00\x02\x01a")
    return raw


def _received(raw: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        got += raw.recv(size - len(got))
    return got
