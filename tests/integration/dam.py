"""Dam: a port before a hub or a metastore that holds back what is large, until it is opened.

A connection passes bytes until the server has sent ``bytes_max`` on it; the rest waits, or
trickles: PIECE_BYTES in TURN_S.
So a catch-up stops in its middle, however fast the machine is; the end of either side ends both.
"""

import select
import socket
import threading
from contextlib import suppress

from topicast.topics.backports import Self

PIECE_BYTES = 1 << 14
TURN_S = 0.05


class Dam:
    """Stands before the server at ``to`` from ``with`` to its end; clients go to ``address``."""

    def __init__(self, to: str, *, bytes_max: int, trickles: bool = False) -> None:
        self.held = threading.Event()  # something waits
        self.opened = threading.Event()
        self._to = _host_and_port(to)
        self._bytes_max = bytes_max
        self._trickles = trickles
        self._closing = False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(20)

    def _accept(self) -> None:
        while not self._closing:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._pass, args=(near,), daemon=True))
            self._threads[-1].start()

    def _pass(self, near: socket.socket) -> None:
        printed = 0
        with near, suppress(OSError), socket.create_connection(self._to) as far:
            while not self._closing:
                holds = printed >= self._bytes_max and not self.opened.is_set()
                if holds:
                    self.held.set()
                if holds and self._trickles:
                    self.opened.wait(TURN_S)
                    holds = False
                received = _pass_on(near, far, listened=[near] if holds else [near, far])
                if received is None or (holds and _has_ended(far)):
                    return
                printed += received


def _pass_on(
    near: socket.socket, far: socket.socket, *, listened: list[socket.socket]
) -> int | None:
    """Pass one piece on from each readable side; return how much ``far`` sent.

    None: one of them has ended.
    """
    printed = 0
    for source in select.select(listened, [], [], TURN_S)[0]:
        piece = source.recv(PIECE_BYTES)
        if not piece:
            return None
        printed += len(piece) if source is far else 0
        (far if source is near else near).sendall(piece)
    return printed


def _has_ended(far: socket.socket) -> bool:
    """Whether the server is gone: looked for while nothing is read from it."""
    poll = select.poll()
    poll.register(far, select.POLLRDHUP)
    return bool(poll.poll(0))


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.partition("://")[2].partition(":")
    return host, int(port)
