"""Server: the metastore's read methods on a port of the loopback, in a thread of its own.

    accept ──own user, room──▶ reading ──whole request──▶ writing ──reply sent──▶ reading …
                                           └──not at once──▶ in another thread ──┘

The server makes a reply while it sends it: a connection has one piece of its reply in memory, and
its turn ends after TURN_BYTES. A connection that exceeds a limit is closed, so that the Hive client
at its other end asks the metastore, and connects again.
"""

import logging
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from queue import SimpleQueue
from typing import Final

from ...topics.errors import TopicastError, WireError
from ..client.contents import NotAtOnce
from . import peers
from .requests import REQUEST_BYTES_MAX, Request, RequestReader
from .service import SENT_BYTES, TURNED_AWAY, WAITED, WORK, Left, NotAdmitted, Service

HOST: Final = "127.0.0.1"
RECV_BYTES: Final = 64 << 10  # received at once
PIECE_BYTES: Final = 64 << 10  # of a reply, sent at once: smaller pieces are joined
TURN_BYTES: Final = 256 << 10  # 0.5 ms of work; then other connections have their turn
STRANGER_BYTES_MAX: Final = 4 << 10  # of a request before the token: a user's name and 100 groups
JOIN_S: Final = 1.0  # for the thread to end

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many connections there may be, and when the server closes one."""

    connections_max: int = 64  # a router has 4 to 8 clients, and replaces broken connections
    backlog_max: int = 16  # connections that the kernel keeps until the server accepts them
    admit_s: float = 5.0  # from connecting to the token
    request_s: float = 5.0  # from a request's first byte to its last: requests are short
    reply_s: float = 60.0  # for a client to read a reply, which keeps an old version in memory
    request_bytes_max: int = REQUEST_BYTES_MAX
    requests_bytes_max: int = 8 << 20  # of the requests that have arrived in part, in sum
    pullers_max: int = 4  # threads that wait for catalogd


class _Connection:
    """One client. ``deadline``: when the server closes the connection; inf: it waits."""

    __slots__ = ("admitted", "deadline", "pending", "reader", "reply", "sock")

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self.sock = sock
        self.reader = RequestReader(bytes_max=STRANGER_BYTES_MAX)
        self.admitted = False
        self.deadline = deadline
        self.reply: Iterator[bytes] | None = None  # the pieces of the reply that are left
        self.pending = memoryview(b"")  # the piece that is being sent


class Server:
    """Listens from ``start`` to ``close``, meanwhile on ``port``."""

    def __init__(
        self,
        service: Service,
        *,
        limits: Limits | None = None,
        uid: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin without a socket that listens.

        Args:
            service: Answers the requests.
            limits: The bounds; None: the defaults of ``Limits``.
            uid: The only user who may connect, if this machine knows the user of a connection;
                None: the user of this process.
            clock: For the deadlines of connections, in seconds.
        """
        self._service = service
        self._limits = limits or Limits()
        self._uid = os.getuid() if uid is None else uid
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._wake_up, self._waker = socket.socketpair()
        self._connections: dict[socket.socket, _Connection] = {}
        self._to_pull: SimpleQueue[tuple[_Connection, Request] | None] = SimpleQueue()
        self._pulled: deque[tuple[_Connection, Iterator[bytes] | None]] = deque()
        self._thread = threading.Thread(target=self._run, name="topicast-endpoint", daemon=True)
        self._pullers: list[threading.Thread] = []
        self._closing = False
        self.port = 0

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    @property
    def alive(self) -> bool:
        """Whether the server listens."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Listen on a free port, and answer from now on.

        Raises:
            OSError: no port is free, or this process has too many sockets.
        """
        self._listener.bind((HOST, 0))
        self._listener.listen(self._limits.backlog_max)
        self.port = self._listener.getsockname()[1]
        for sock in (self._listener, self._wake_up, self._waker):
            sock.settimeout(0)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_up, selectors.EVENT_READ)
        self._thread.start()
        for number in range(self._limits.pullers_max):
            name = f"topicast-endpoint-pull-{number}"
            self._pullers.append(threading.Thread(target=self._pull_all, name=name, daemon=True))
            self._pullers[-1].start()

    def close(self) -> None:
        """End every connection, and do not wait for catalogd's answers to the pullers."""
        self._closing = True
        self._wake()
        for _ in self._pullers:
            self._to_pull.put(None)
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    # The server's thread

    def _run(self) -> None:
        try:
            while not self._closing:
                self._turn()
        except Exception:
            log.exception("the endpoint has ended")
        finally:
            for connection in list(self._connections.values()):
                self._end(connection)
            for sock in (self._listener, self._wake_up, self._waker):
                sock.close()
            self._selector.close()

    def _turn(self) -> None:
        """Wait until a socket, a puller or a deadline has work for this thread, and do it."""
        now = self._clock()
        first = min((one.deadline for one in self._connections.values()), default=inf)
        for key, events in self._selector.select(None if first == inf else max(first - now, 0)):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is self._wake_up:
                with suppress(BlockingIOError):
                    self._wake_up.recv(RECV_BYTES)
            elif key.data.sock in self._connections:
                act = self._read if events & selectors.EVENT_READ else self._go_on
                self._guarded(act, key.data)
        while self._pulled:
            connection, reply = self._pulled.popleft()
            connection.reply = reply
            if reply is None:
                self._end(connection)
            elif connection.sock in self._connections:
                connection.deadline = self._clock() + self._limits.reply_s
                self._guarded(self._go_on, connection)
        now = self._clock()
        for late in [one for one in self._connections.values() if one.deadline <= now]:
            self._turn_away(late, "too slow")

    def _guarded(self, act: Callable[[_Connection], None], connection: _Connection) -> None:
        """Call ``act`` for a connection; an error of it ends no other connection."""
        try:
            act(connection)
        except Left:
            self._end(connection)
        except NotAdmitted as error:
            self._turn_away(connection, str(error))
        except WireError as error:
            log.warning("a connection is ended: %s", error)
            self._turn_away(connection, "no request")
        except OSError:
            self._end(connection)
        except TopicastError as error:  # a part of the reply is sent, so it cannot be refused
            log.warning("a reply is cut: %s", error)
            self._end(connection)
        except Exception:
            log.exception("a connection is ended")
            self._end(connection)

    def _accept(self) -> None:
        try:
            sock, peer = self._listener.accept()
        except OSError:
            return
        why = ""
        if len(self._connections) >= self._limits.connections_max:
            why = "too many connections"
        elif peers.is_known() and peers.owner(peer, (HOST, self.port)) != self._uid:
            why = "another user"
        if why:
            self._service.counts.add(TURNED_AWAY, why)
            log.warning("a connection from port %d is turned away: %s", peer[1], why)
            sock.close()
            return
        sock.settimeout(0)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = _Connection(sock, self._clock() + self._limits.admit_s)
        self._connections[sock] = connection
        self._selector.register(sock, selectors.EVENT_READ, connection)

    def _read(self, connection: _Connection) -> None:
        data = connection.sock.recv(RECV_BYTES)
        if not data:
            self._end(connection)
            return
        connection.reader.feed(data)
        self._go_on(connection)
        half_bytes = sum(one.reader.held_bytes for one in self._connections.values())
        if half_bytes > self._limits.requests_bytes_max:
            self._turn_away(connection, "too many bytes")

    def _go_on(self, connection: _Connection) -> None:
        """Send what is left of a reply, else answer the next request; one request a turn."""
        if connection.reply is None:
            request = connection.reader.next()
            if request is None:
                self._await_request(connection)
                return
            if not self._answer(connection, request):
                return
        if not self._send(connection):
            self._wait_for(connection, selectors.EVENT_WRITE)
            return
        connection.reply = None
        more = connection.reader.is_half  # of a whole request, too: it waits for the next turn
        self._wait_for(connection, selectors.EVENT_WRITE if more else selectors.EVENT_READ)
        if connection.admitted:
            connection.deadline = self._clock() + self._limits.request_s if more else inf

    def _await_request(self, connection: _Connection) -> None:
        self._wait_for(connection, selectors.EVENT_READ)
        if connection.reader.is_half and connection.deadline == inf:
            connection.deadline = self._clock() + self._limits.request_s

    def _answer(self, connection: _Connection, request: Request) -> bool:
        """Begin the reply; return False if a puller has to make it."""
        if not connection.admitted:
            connection.admitted, connection.reply = self._service.admit(request)
            if connection.admitted:
                connection.reader.bytes_max = self._limits.request_bytes_max
            return True
        try:
            connection.reply = self._service.answer(request)
        except NotAtOnce:
            self._selector.unregister(connection.sock)
            connection.deadline = inf  # the puller's call of the subscriber has its own timeout
            self._service.counts.add(WORK, WAITED)
            self._to_pull.put((connection, request))
            return False
        connection.deadline = self._clock() + self._limits.reply_s
        return True

    def _send(self, connection: _Connection) -> bool:
        """Send TURN_BYTES of the reply, or what the socket takes; return whether all is sent."""
        left = TURN_BYTES
        while left > 0:
            if not connection.pending and not self._fill(connection):
                return True
            try:
                sent = connection.sock.send(connection.pending)
            except BlockingIOError:
                return False
            connection.pending = connection.pending[sent:]
            self._service.counts.add(WORK, SENT_BYTES, sent)
            left -= sent
        return False

    def _fill(self, connection: _Connection) -> bool:
        """Make the next piece of the reply; return False if there is none."""
        pieces: list[bytes] = []
        length = 0
        for piece in connection.reply or ():
            pieces.append(piece)
            length += len(piece)
            if length >= PIECE_BYTES:
                break
        connection.pending = memoryview(b"".join(pieces))
        return length > 0

    def _wait_for(self, connection: _Connection, event: int) -> None:
        try:
            if self._selector.get_key(connection.sock).events != event:
                self._selector.modify(connection.sock, event, connection)
        except KeyError:
            self._selector.register(connection.sock, event, connection)

    def _turn_away(self, connection: _Connection, why: str) -> None:
        self._service.counts.add(TURNED_AWAY, why)
        log.warning("a connection is ended: %s", why)
        self._end(connection)

    def _end(self, connection: _Connection) -> None:
        if self._connections.pop(connection.sock, None) is None:
            return
        with suppress(KeyError):
            self._selector.unregister(connection.sock)
        connection.sock.close()
        connection.reply = None

    # Pullers

    def _pull_all(self) -> None:
        """Answer requests that have to wait for catalogd, in a thread of the pullers."""
        while (waiting := self._to_pull.get()) is not None:
            connection, request = waiting
            try:
                reply: Iterator[bytes] | None = self._service.answer(request, may_wait=True)
            except Exception:
                log.exception("%s failed", request.method)
                reply = None
            self._pulled.append((connection, reply))
            self._wake()

    def _wake(self) -> None:
        with suppress(OSError):
            self._waker.send(b"\0")
