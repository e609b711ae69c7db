"""Strangers: a process that attacks ports in each way that it knows until its input ends.

Arguments: KEY_FILE HOST:PORT=PUBLIC_KEY … HOST:PORT=http …

KEY_FILE is of a client that has been revoked. It prints how often each attack was made.
"""

import json
import os
import resource
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import product
from pathlib import Path
from typing import Final

import zmq

from topicast.tests.keys import user_keys
from topicast.topics.keys.credential import KeyPair, read_credential
from topicast.topics.keys.folder import OPERATOR
from topicast.topics.link import new_pair
from topicast.topics.link.curve import join

UNFINISHED: Final = 200  # connections at each port that never finish a handshake, at once
IO_S: Final = 2.0
MOMENT_S: Final = 0.5

GREETING: Final = b"\xff" + bytes(8) + b"\x7f\x03\x00"
NULL: Final = GREETING + b"NULL".ljust(20, b"\0") + bytes(32)
CURVE: Final = GREETING + b"CURVE".ljust(20, b"\0") + bytes(32)
READY: Final = b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x06DEALER"
PAGES: Final = "http"  # in the place of a public key
LINE: Final = b"GET / HTTP/1.1\r\n"
HEAD: Final = LINE + b"Host: localhost\r\n"
TLS_HELLO: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
CHUNKED: Final = b"Transfer-Encoding: chunked\r\n\r\n"
HEADERS: Final = b"X-Filler: 0123456789abcdef\r\n" * 2000
CHUNK: Final = b"ffff\r\n" + bytes(0xFFFF) + b"\r\n"
PART: Final = b"\x03" + (60_000).to_bytes(8, "big") + bytes(60_000)  # MORE, and a long size
Address = tuple[str, int]
Attack = Callable[[Address, str], None]


def push(address: Address, *parts: bytes, repeat: bytes = b"") -> None:
    """Send ``parts``, then ``repeat`` until the other end closes the connection, or for a while."""
    until_at = time.monotonic() + IO_S
    with socket.create_connection(address, timeout=IO_S) as raw, suppress(OSError):
        for part in parts:
            raw.sendall(part)
        while repeat and time.monotonic() < until_at:
            raw.sendall(repeat)
        raw.recv(1)


def garbage(address: Address, _server: str) -> None:
    push(address, os.urandom(64), repeat=os.urandom(1 << 16))


def endless_message(address: Address, _server: str) -> None:
    """Without keys, as before there were any: a message of parts without an end."""
    push(address, NULL, READY, repeat=PART)


def endless_handshake(address: Address, _server: str) -> None:
    """In the place of the handshake of CURVE, a message of parts without an end."""
    push(address, CURVE, repeat=PART)


def unfinished_handshakes(address: Address, _server: str) -> None:
    with ExitStack() as up:
        for _ in range(UNFINISHED):
            one = up.enter_context(socket.create_connection(address, timeout=IO_S))
            one.sendall(CURVE)
        one.recv(len(CURVE))
        with suppress(OSError):
            one.recv(1)  # until it is cut off


def unknown_key(address: Address, server: str) -> None:
    refused_key(address, server, new_pair())


def refused_key(address: Address, server: str, pair: KeyPair) -> None:
    """Send messages with a key that is not in the list."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        join(dealer, pair, server)
        dealer.connect(f"tcp://{address[0]}:{address[1]}")
        with suppress(zmq.Again):
            for _ in range(10):
                dealer.send_multipart([bytes(60_000)] * 10, zmq.NOBLOCK)
        dealer.poll(100)


def revoked_key(file: Path) -> Attack:
    """Return the attack with the key in ``file``."""
    pair = read_credential(file.read_text(), source=str(file)).pair

    def revoked_key(address: Address, server: str) -> None:
        refused_key(address, server, pair)

    return revoked_key


def wrong_server_key(address: Address, _server: str) -> None:
    unknown_key(address, new_pair().public)


def replayed_handshake(address: Address, server: str) -> None:
    """Send again what a client with a good key has sent to open a connection."""
    push(address, *recorded(address, server))


def recorded(address: Address, server: str) -> list[bytes]:
    """Return what an operator sends to a server until its first message is there."""
    sent: list[bytes] = []
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        zmq.Context() as context,
        context.socket(zmq.DEALER) as dealer,
    ):
        dealer.linger = 0
        join(dealer, user_keys(OPERATOR).credential.pair, server)
        dealer.connect(f"tcp://127.0.0.1:{listening.getsockname()[1]}")
        near, _ = listening.accept()
        with near, socket.create_connection(address, timeout=IO_S) as far:
            pass_on(near, far, sent)
    return sent


def pass_on(near: socket.socket, far: socket.socket, sent: list[bytes]) -> None:
    """Pass on what both sides send for a moment; keep what comes from ``near``."""
    until_at = time.monotonic() + MOMENT_S
    ends = {end.fileno(): end for end in (near, far)}
    poller = select.poll()
    for number in ends:
        poller.register(number, select.POLLIN)
    while time.monotonic() < until_at:
        for number, _ in poller.poll(50):
            ready = ends[number]
            chunk = ready.recv(1 << 16)
            (far if ready is near else near).sendall(chunk)
            if ready is near:
                sent.append(chunk)


def slow_request_line(address: Address, _server: str) -> None:
    """Hold connections that send their request line one byte at a time."""
    with ExitStack() as up:
        held = [
            up.enter_context(socket.create_connection(address, timeout=IO_S))
            for _ in range(UNFINISHED)
        ]
        for byte, _ in product(LINE[:-2], range(3)):
            for one in held:
                one.sendall(bytes([byte]))
        with suppress(OSError):
            held[-1].recv(1)


def idle_connections(address: Address, _server: str) -> None:
    with ExitStack() as up:
        for _ in range(UNFINISHED):
            last = up.enter_context(socket.create_connection(address, timeout=IO_S))
        with suppress(OSError):
            last.recv(1)


def endless_request_line(address: Address, _server: str) -> None:
    push(address, b"GET /", repeat=b"x" * (1 << 16))


def endless_headers(address: Address, _server: str) -> None:
    push(address, HEAD, repeat=HEADERS)


def endless_body(address: Address, _server: str) -> None:
    push(address, HEAD.replace(b"GET", b"POST"), CHUNKED, repeat=CHUNK)


def tls_hello(address: Address, _server: str) -> None:
    """The beginning of TLS, which is not spoken there, and no end of it."""
    push(address, TLS_HELLO, repeat=bytes(1 << 16))


def foreign_page(address: Address, _server: str) -> None:
    """Request pages as a browser does that another site's name has led here, with a password."""
    secret = b"Authorization: Basic YW5uYTpndWVzcw==\r\n"
    push(address, LINE, b"Host: evil.example\r\n", secret, b"\r\n")


ANYWHERE: Final[tuple[Attack, ...]] = (garbage, idle_connections, tls_hello)
AT_PAGES: Final[tuple[Attack, ...]] = (
    *ANYWHERE,
    slow_request_line,
    endless_request_line,
    endless_headers,
    endless_body,
    foreign_page,
)
AT_SOCKETS: Final[tuple[Attack, ...]] = (
    *ANYWHERE,
    endless_message,
    endless_handshake,
    unfinished_handshakes,
    unknown_key,
    wrong_server_key,
    replayed_handshake,
)


def main() -> None:
    """Attack until standard input ends."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    at_sockets = (*AT_SOCKETS, revoked_key(Path(sys.argv[1])))
    ended, tries = threading.Event(), dict[str, int]()

    def keep_on(attack: Attack, address: Address, server: str) -> None:
        while not ended.is_set():
            with suppress(OSError):  # refused while its queue of connections is full
                attack(address, server)
                tries[attack.__name__] += 1

    threads = []
    for word in sys.argv[2:]:
        where, _, server = word.partition("=")
        host, _, port = where.rpartition(":")
        attacks = AT_PAGES if server == PAGES else at_sockets
        tries |= {one.__name__: 0 for one in attacks}
        threads += [
            threading.Thread(target=keep_on, args=(attack, (host, int(port)), server))
            for attack in attacks
        ]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()
    print(json.dumps(tries), flush=True)


if __name__ == "__main__":
    main()
