"""The web server of a daemon: Tornado in a thread of its own. No request changes anything.

    connection ──▶ TLS ──▶ request ──▶ Host, method, secret ──▶ answer ──▶ closed

One thread waits for all connections, so an unfinished request costs a descriptor and a buffer, but
no thread. It is cut off after CONNECTION_S, or after GRACE_S if there are too many connections.
"""

import asyncio
import logging
import socket
import ssl
import threading
import time
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, cast

from tornado.http1connection import HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream, SSLIOStream
from tornado.web import Application, HTTPError, RequestHandler

from ...topics.backports import Self
from ...topics.errors import ConfigError, LinkError
from ...topics.settings import Address
from .access import Access
from .answers import HEALTH, TEXT, Answer, Sources, answer, answer_to_probe
from .parts.document import STYLE_HASH

CONNECTION_S: Final = 10.0  # for TLS, request and answer: a scraper needs milliseconds
BACKLOG: Final = 1024  # connections that the kernel holds; further ones try again after 1 s
CONNECTIONS_MAX: Final = 256  # of the 1024 descriptors that a process usually has
HEAD_BYTES_MAX: Final = 16 * 1024  # of a request: browsers send at most 8 KB
BUFFER_BYTES_MAX: Final = 64 * 1024  # of a connection, read and not yet looked at
GRACE_S: Final = 0.25  # that a connection has when there are too many
TICK_S: Final = 0.01  # between two looks whether a connection can be taken
REFUSAL_S: Final = 0.5  # before a wrong secret is refused: trying passwords takes too long
REFRESH_S: Final = 10.0  # between two looks at the files of ``Access``
LOG_S: Final = 60.0  # between two lines of the same kind: a stranger must not fill the disk
HEADERS: Final = {
    "Server": "topicast",
    "Cache-Control": "no-store",
    "Content-Security-Policy": f"default-src 'none'; style-src '{STYLE_HASH}'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

log: Final = logging.getLogger(__name__)


class Pages:
    """A web server in a thread of its own, from ``with`` to its end."""

    def __init__(
        self,
        sources: Sources,
        access: Access,
        *,
        refresh_s: float = REFRESH_S,
        connection_s: float = CONNECTION_S,
    ) -> None:
        """Bind.

        Args:
            sources: The functions that return the content of the pages.
            access: The address to listen at, and who may read.
            refresh_s: The time between two looks at the files of ``access``.
            connection_s: How long a connection may last.

        Raises:
            LinkError: the port is in use, or the interface is not of this machine.
        """
        self._sources = sources
        self._access = access
        self._refresh_s = refresh_s
        self._connection_s = connection_s
        address = access.config.address
        try:
            self._socket = _listening(address)
        except OSError as exc:
            why = str(exc.strerror or exc).partition(" (while")[0]  # the rest repeats the address
            raise LinkError(
                f"web pages cannot listen on {address.host}:{address.port} ({why}): "
                "choose another --webserver_port (0 takes any free one)"
            ) from exc
        self._port = int(self._socket.getsockname()[1])
        self._loop: asyncio.AbstractEventLoop | None = None  # of the thread, while it runs
        self._started = threading.Event()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="pages", daemon=True
        )

    @property
    def address(self) -> Address:
        """The address at which a browser finds the pages."""
        scheme = "https" if self._access.tls else "http"
        return Address(scheme, self._access.config.address.host, self._port)

    @property
    def url(self) -> str:
        """The same as a text."""
        return str(self.address)

    def __enter__(self) -> Self:
        if self._access.config.sends_secrets_in_the_clear:
            log.warning(
                "passwords and tokens of the pages are sent unencrypted, set"
                " --webserver_certificate_file and --webserver_private_key_file, or put a proxy"
                " with TLS in front: url=%s",
                self.url,
            )
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._loop is not None, "it was started"
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    async def _serve(self) -> None:
        """Serve until ``_ended``, in the thread's own loop."""
        self._loop = asyncio.get_running_loop()
        lines = _Lines()
        self._loop.set_exception_handler(lambda _, found: lines.failed(found.get("exception")))
        page = {"sources": self._sources, "access": self._access, "lines": lines}
        server = _Server(
            Application([(r".*", _Page, page)], log_function=lambda _: None),
            no_keep_alive=True,
            connection_s=self._connection_s,
            max_header_size=HEAD_BYTES_MAX,
            max_body_size=HEAD_BYTES_MAX,
        )
        # Tornado logs broken requests, of which a stranger can send any number.
        logging.getLogger("tornado").setLevel(logging.CRITICAL)
        tasks = [
            asyncio.create_task(self._refresh()),
            asyncio.create_task(self._accept(server, lines)),
        ]
        self._started.set()
        await self._ended.wait()
        for task in tasks:
            task.cancel()
        self._socket.close()
        await server.close_all_connections()

    async def _accept(self, server: "_Server", lines: "_Lines") -> None:
        """Take one connection in each turn of the loop, so that open connections go first."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0)
            await server.make_room()
            try:
                connection, address = await loop.sock_accept(self._socket)
            except OSError as exc:  # no descriptor is left
                lines.failed(exc)
                await asyncio.sleep(TICK_S)
                continue
            try:
                server.take(connection, address, self._access.tls)
            except OSError as exc:
                _clear_tracebacks(exc)

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(self._refresh_s)
            try:
                if self._access.refresh():
                    log.info("secrets and certificate of the pages read again")
            except ConfigError as exc:
                log.warning("secrets and certificate of the pages not read again: error=%s", exc)


def _listening(address: Address) -> socket.socket:
    """Return a socket that listens; ``::`` takes IPv4, too, where the system lets it."""
    is_ipv6 = ":" in address.host
    found = socket.create_server(
        (address.host, address.port),
        family=socket.AF_INET6 if is_ipv6 else socket.AF_INET,
        backlog=BACKLOG,
        dualstack_ipv6=is_ipv6 and socket.has_dualstack_ipv6(),
    )
    found.settimeout(0)
    return found


class _Lines:
    """Lines of the log that a stranger may cause: at most one of each kind in LOG_S."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}  # by kind: when the next line may be written

    def refused(self, peer: str) -> None:
        """Log that ``peer`` gave a wrong secret."""
        if self._is_due("refused"):
            log.warning("wrong password or token for the pages: peer=%s", peer)

    def failed(self, error: BaseException | None) -> None:
        """Log that a request, or the loop, failed by a defect or a broken connection."""
        if self._is_due("failed"):
            log.warning("request of the pages failed: error=%r", error, exc_info=error)
        _clear_tracebacks(error)

    def _is_due(self, kind: str) -> bool:
        now = time.monotonic()
        due = now >= self._next.get(kind, now)
        if due:
            self._next[kind] = now + LOG_S
        return due


def _clear_tracebacks(error: BaseException | None) -> None:
    """Release the frames that led to ``error``: they hold it in turn, which makes a cycle.

    As a rule daemons collect cycles of young objects only, and a connection that is cut off is old.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__context__


class _Server(HTTPServer):
    """Tornado's server, with bounds on the connections, whatever they do."""

    def initialize(self, *args: Any, **settings: Any) -> None:
        """Begin without connections; each lasts ``connection_s`` at most."""
        self._connection_s = float(settings.pop("connection_s"))
        super().initialize(*args, **settings)
        # When each open connection is cut off, the oldest first; at most CONNECTIONS_MAX.
        self._cuts: dict[IOStream, asyncio.TimerHandle] = {}

    async def make_room(self) -> None:
        """Wait until one more connection may be taken; if need be, cut off the oldest."""
        loop = asyncio.get_running_loop()
        while len(self._cuts) >= CONNECTIONS_MAX:
            oldest, cut = next(iter(self._cuts.items()))
            if cut.when() - self._connection_s + GRACE_S <= loop.time():
                del self._cuts[oldest]
                cut.cancel()
                oldest.close()
            else:
                await asyncio.sleep(TICK_S)

    def take(self, connection: socket.socket, address: Any, tls: ssl.SSLContext | None) -> None:
        """Serve a new connection; ``tls``: None if it is plain.

        Raises:
            OSError: it is not open any more.
        """
        try:
            connection.getpeername()  # if the peer reset it, ssl would raise and leave it open
            stream = (
                IOStream(connection, max_buffer_size=BUFFER_BYTES_MAX)
                if tls is None
                else SSLIOStream(
                    tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False),
                    max_buffer_size=BUFFER_BYTES_MAX,
                )
            )
        except OSError:
            connection.close()
            raise
        loop = asyncio.get_running_loop()
        self._cuts[stream] = loop.call_later(self._connection_s, stream.close)
        self.handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        """Discard the state of a connection that was closed."""
        super().on_close(server_conn)
        stream = cast(HTTP1ServerConnection, server_conn).stream
        cut = self._cuts.pop(stream, None)
        if cut is not None:
            cut.cancel()
        _clear_tracebacks(stream.error)
        stream.error = None


class _Page(RequestHandler):
    """Answers one request for any path."""

    SUPPORTED_METHODS = ("GET", "HEAD")

    def initialize(self, sources: Sources, access: Access, lines: _Lines) -> None:
        """Take what all requests share."""
        self._sources = sources
        self._access = access
        self._lines = lines
        self._admitted = False

    def set_default_headers(self) -> None:
        """Set the headers of every answer, an error's included."""
        for name, value in HEADERS.items():
            self.set_header(name, value)

    async def prepare(self) -> None:
        """Answer with an error if the browser's user may not see the page."""
        request = self.request
        given = request.headers.get("Authorization", "")
        self._admitted = self._access.admits(given)
        if not self._access.config.needs_secret and not self._names_this_machine():
            text = "without a password these pages are for http://localhost only\n"
            self._send((HTTPStatus.MISDIRECTED_REQUEST, TEXT, text.encode()))
            return
        if given and not self._admitted:
            self._lines.refused(str(request.remote_ip))
            await asyncio.sleep(REFUSAL_S)
        if not self._admitted and request.path != HEALTH:
            for challenge in self._access.challenges:
                self.add_header("WWW-Authenticate", challenge)
            text = "this page needs a password or a token; /healthz needs none\n"
            self._send((HTTPStatus.UNAUTHORIZED, TEXT, text.encode()))

    async def get(self) -> None:
        """Answer a reader who may read; a probe reads /healthz without a secret."""
        if self._admitted:
            self._send(
                await answer(
                    self._sources,
                    str(self.request.uri),
                    accepts=self.request.headers.get("Accept", ""),
                )
            )
        else:
            self._send(answer_to_probe(self._sources))

    head = get

    def write_error(self, status_code: int, **_: Any) -> None:
        """Answer what no page answers, in plain text."""
        if status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            self.set_header("Allow", ", ".join(self.SUPPORTED_METHODS))
        status = HTTPStatus(status_code)
        self._send((status, TEXT, f"{status_code} {status.phrase}\n".encode()))

    def log_exception(
        self,
        typ: type[BaseException] | None,  # noqa: ARG002  the library's
        value: BaseException | None,
        tb: TracebackType | None,  # noqa: ARG002  the library's
    ) -> None:
        """Log a defect of ours; a refused request is no defect."""
        if not isinstance(value, HTTPError):
            self._lines.failed(value)

    def compute_etag(self) -> None:
        """Set no etag, so that no answer is kept: each is as of now."""

    def _names_this_machine(self) -> bool:
        """Whether ``Host`` is loopback; else another site's page may read (DNS rebinding)."""
        return Address("http", self.request.host_name.strip("[]"), 0).is_loopback

    def _send(self, answer: Answer) -> None:
        status, kind, body = answer
        self.set_status(status)
        self.set_header("Content-Type", kind)
        self.finish(body)
