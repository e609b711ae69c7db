"""Capture: a socket as a Thrift transport, which records every byte of a reply.

socket ──▶ TLS ──▶ login ──▶ frames ──▶ Capture ──▶ C decoder
                                          └──▶ recorded bytes
"""

import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import BytesIO
from itertools import pairwise
from typing import Final

from thrift.transport.TTransport import CReadableTransport, TTransportBase

from .sasl import Frames, Login, negotiation

CONNECT_S_MAX: Final = 2.0  # for a connection; a network that loses a packet sends it after 1 s
SLICE_S: Final = 0.5  # of a wait for an answer; between two the address may be found dead
SLICE_S_MIN: Final = 0.001  # the last slice; 0 would not wait at all
RECV_BYTES: Final = 256 << 10
REPLY_BYTES_MAX: Final = 1 << 30  # one ADD_PARTITION message of 100,000 partitions is 230 MB


class ReplyTooLong(OverflowError):
    """A reply has more bytes than its request allows."""


class Capture(TTransportBase, CReadableTransport):  # type: ignore[misc]  # thrift is untyped
    """A socket as a Thrift transport, which records every byte since ``begin_reply``."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
        login: Login | None = None,
    ) -> None:
        """Connect; ``timeout_s`` limits each wait for bytes, and may be changed.

        Raises:
            OSError: nobody listens there, or not within CONNECT_S_MAX; or ``tls`` does not trust
                the server, or the server has none; or it does not accept ``login``.
        """
        self.timeout_s = timeout_s
        self.reply_bytes_max = REPLY_BYTES_MAX  # of the next replies
        self._received: Callable[[], None] = lambda: None
        self._waiting: Callable[[], None] = lambda: None
        self._socket = socket.create_connection((host, port), min(timeout_s, CONNECT_S_MAX))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if tls is not None:
            self._socket = _encrypted(self._socket, host, tls)
        self._request: list[bytes] = []
        self._frames: Frames | None = None
        self._has_answered = False
        self.begin_reply()
        if login is not None:
            self._log_in(login, host)

    def watch(self, *, received: Callable[[], None], waiting: Callable[[], None]) -> None:
        """Call ``received`` at each arrival; ``waiting`` every SLICE_S without: it may raise."""
        self._received, self._waiting = received, waiting

    def begin_reply(self) -> None:
        """Begin a recording; the next byte read has position 0."""
        self._chunks: list[bytes] = []
        self.received_bytes = 0  # of this reply, also once its recording is discarded
        self._buffer = BytesIO()
        self._buffer_at = 0

    def position(self) -> int:
        """Return how many bytes of the reply have been read."""
        return self._buffer_at + self._buffer.tell()

    def cut(self, positions: Sequence[int]) -> list[bytes]:
        """Return the bytes between each two neighbours of ``positions``, which ascend.

        The recording is discarded part by part, so that a reply is not in memory a second time.
        """
        chunks, self._chunks = deque(self._chunks), []
        at = 0  # the position of the first of them
        found = []
        for begin, end in pairwise(positions):
            parts, position = list[bytes](), begin
            while position < end:
                while at + len(chunks[0]) <= position:
                    at += len(chunks.popleft())
                parts.append(chunks[0][position - at : end - at])
                position += len(parts[-1])
            found.append(b"".join(parts))
        return found

    def end_reply(self) -> None:
        """Discard the recording: a connection that waits for its next request keeps no reply."""
        self._chunks = []
        self._buffer, self._buffer_at = BytesIO(), self.received_bytes

    def write(self, buf: bytes) -> None:
        """Add to the request; nothing leaves before ``flush``."""
        self._request.append(bytes(buf))

    def flush(self) -> None:
        """Send the request."""
        request, self._request = b"".join(self._request), []
        self._socket.settimeout(self.timeout_s)
        self._socket.sendall(request if self._frames is None else self._frames.sent(request))

    def read(self, sz: int) -> bytes:
        """Return at least one byte and at most ``sz``."""
        return self._buffer.read(sz) or self.cstringio_refill(b"", 1).read(sz)

    @property
    def cstringio_buf(self) -> BytesIO:
        """The buffer that the C decoder reads from, by Thrift's contract."""
        return self._buffer

    def cstringio_refill(self, partialread: bytes, reqlen: int) -> BytesIO:
        """Return a buffer that starts with ``partialread`` and holds ``reqlen`` bytes or more."""
        parts, held = [partialread], len(partialread)
        while held < reqlen:
            chunk = self._receive()
            if not chunk:
                raise EOFError(self._closed())
            self.received_bytes += len(chunk)
            if self.received_bytes > self.reply_bytes_max:
                raise ReplyTooLong(f"reply of more than {self.reply_bytes_max} bytes")
            self._chunks.append(chunk)
            parts.append(chunk)
            held += len(chunk)
        self._buffer = BytesIO(b"".join(parts))
        self._buffer_at = self.received_bytes - held
        return self._buffer

    def _closed(self) -> str:
        if self._has_answered:
            return "the metastore closed the connection"
        return "it closed the connection unanswered: does it demand TLS or hive_metastore_auth?"

    def _receive(self) -> bytes:
        ends_at = time.monotonic() + self.timeout_s
        while True:
            self._socket.settimeout(max(min(SLICE_S, ends_at - time.monotonic()), SLICE_S_MIN))
            try:
                chunk = self._socket.recv(RECV_BYTES)
            except TimeoutError:
                if time.monotonic() >= ends_at:
                    raise
                self._waiting()
                continue
            self._received()
            self._has_answered = self._has_answered or bool(chunk)
            content = chunk if self._frames is None else self._frames.received(chunk)
            if content or not chunk:
                return content
            ends_at = time.monotonic() + self.timeout_s

    def _log_in(self, login: Login, host: str) -> None:
        """Authenticate the client; each wait for the server is as short as for a connection."""
        self._socket.settimeout(min(self.timeout_s, CONNECT_S_MAX))
        steps = negotiation(login, host)
        try:
            step = next(steps)
            while True:
                if isinstance(step, int):
                    step = steps.send(self._exactly(step))
                else:
                    self._socket.sendall(step)
                    step = next(steps)
        except StopIteration as end:
            self._frames = Frames(end.value, frame_bytes_max=REPLY_BYTES_MAX)
        except TimeoutError as exc:
            self.close()
            text = f"no answer to {login.mechanism}: is its hive.metastore.sasl.enabled set?"
            raise ConnectionRefusedError(text) from exc
        except OSError:
            self.close()
            raise

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            chunk = self._socket.recv(count - len(found))
            if not chunk:
                raise ConnectionRefusedError("it closed the connection during the login")
            found += chunk
        return found

    def close(self) -> None:
        """Close the socket; a thread that waits for a reply gets its end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _encrypted(plain: socket.socket, host: str, tls: ssl.SSLContext) -> ssl.SSLSocket:
    try:
        return tls.wrap_socket(plain, server_hostname=host)
    except OSError as exc:
        plain.close()
        if isinstance(exc, ssl.SSLCertVerificationError):
            why = f"its certificate is not accepted: {exc.verify_message}"
        else:
            why = f"no TLS there ({exc}): is hive.metastore.use.SSL set at it?"
        raise ConnectionRefusedError(why) from exc
