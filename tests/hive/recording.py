"""A forwarder in front of a metastore that records each call: the request's bytes, and the reply's.

A client of Hive's has one call at a time on a connection, so a request ends where the reply begins.
"""

import socket
import threading
from contextlib import suppress
from typing import Final, NamedTuple

from topicast.topics.backports import Self

RECV_BYTES: Final = 1 << 16


class Recorded(NamedTuple):
    """One call on a connection."""

    method: str
    request: bytes
    reply: bytes


class RecordingForwarder:
    """Listens on loopback while it is entered; ``calls`` are those so far, in their order."""

    def __init__(self, uri: str) -> None:
        host, _, port = uri.removeprefix("thrift://").partition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self._lock = threading.Lock()
        self.calls: list[Recorded] = []

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self._listener.getsockname()[1]}"

    def methods(self) -> list[str]:
        """Return the methods that were called, in their order."""
        with self._lock:
            return [one.method for one in self.calls]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        """Forward one connection by turns: what the client sends, then what the server does."""
        parts: list[tuple[bool, bytes]] = []
        lock = threading.Lock()

        def forward(source: socket.socket, target: socket.socket, *, is_request: bool) -> None:
            with suppress(OSError):
                while data := source.recv(RECV_BYTES):
                    with lock:
                        self._note(parts, data, is_request=is_request)
                    target.sendall(data)
            with lock:
                self._file(parts)
            for one in (source, target):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

        back = threading.Thread(
            target=forward, args=(server, client), kwargs={"is_request": False}, daemon=True
        )
        back.start()
        forward(client, server, is_request=True)

    def _note(self, parts: list[tuple[bool, bytes]], data: bytes, *, is_request: bool) -> None:
        if is_request and parts and not parts[-1][0]:
            self._file(parts)
        parts.append((is_request, data))

    def _file(self, parts: list[tuple[bool, bytes]]) -> None:
        request = b"".join(data for is_request, data in parts if is_request)
        reply = b"".join(data for is_request, data in parts if not is_request)
        parts.clear()
        if not request:
            return
        length = int.from_bytes(request[4:8], "big")
        with self._lock:
            self.calls.append(Recorded(request[8 : 8 + length].decode(), request, reply))
