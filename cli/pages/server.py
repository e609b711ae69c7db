"""The web server of a daemon. It reads immutable facts and changes nothing.

/          one page for people; ?json gives the same as a document
/healthz   200 when the daemon serves (with a warning if there is one), else 503 with the reason;
           that no change can arrive any more is a reason, too
/metrics   Prometheus
"""

import json
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from ...topics.errors import LinkError
from .front import Fact, Meanings, front

REQUEST_TIMEOUT_S: Final = 5.0  # a connection without a request is closed
TEXT: Final = "text/plain; charset=utf-8"
HTML: Final = "text/html; charset=utf-8"
JSON: Final = "application/json"
Facts = Mapping[str, Fact]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the pages' answers come from; each function may be called by any thread.

    The fact ``problem`` is why the daemon does not serve, or the empty text when it does;
    ``warning``, if there is one, is what is wrong while it serves on.
    """

    title: str
    facts: Callable[[], Facts]
    meanings: Meanings
    metrics: CollectorRegistry


class Pages:
    """A web server in a thread of its own, from ``with`` to its end."""

    def __init__(self, sources: Sources, *, interface: str, port: int) -> None:
        """Bind.

        Raises:
            LinkError: the port is in use, or the interface is not of this machine.
        """
        try:
            self._server = _server_class(interface)((interface, port), _handler_class(sources))
        except (OSError, OverflowError) as exc:
            raise LinkError(
                f"web pages cannot listen on {interface}:{port} ({exc}): "
                "choose another --webserver_port (0 takes any free one)"
            ) from exc
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="pages"
        )

    @property
    def url(self) -> str:
        """Where a browser finds the pages."""
        host, port = self._server.server_address[:2]
        text = host.decode() if isinstance(host, bytes | bytearray) else str(host)
        return f"http://{f'[{text}]' if ':' in text else text}:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _server_class(interface: str) -> type[ThreadingHTTPServer]:
    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in interface else socket.AF_INET
        block_on_close = False

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Log nothing: a client that hung up is no event."""

    return Server


def _handler_class(sources: Sources) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_TIMEOUT_S
        server_version = "topicast"
        sys_version = ""

        def do_GET(self) -> None:
            """Answer one request."""
            status, kind, body = answer(sources, self.path)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815  the library's name

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's
            """Log nothing: one line for each scrape would drown the others."""

    return Handler


def answer(sources: Sources, target: str) -> tuple[HTTPStatus, str, bytes]:
    """Return status, content type and body for the request's ``target``."""
    url = urlsplit(target)
    match url.path:
        case "/":
            return _front(sources, as_json="json" in parse_qs(url.query, keep_blank_values=True))
        case "/healthz":
            return _health(sources.facts())
        case "/metrics":
            return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(sources.metrics)
        case path:
            text = f"no page {path}: there are /, /healthz and /metrics\n"
            return HTTPStatus.NOT_FOUND, TEXT, text.encode()


def _health(facts: Facts) -> tuple[HTTPStatus, str, bytes]:
    problem, warning = facts.get("problem"), facts.get("warning")
    status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
    text = f"{problem or 'ok'}\n" + (f"warning: {warning}\n" if warning else "")
    return status, TEXT, text.encode()


def _front(sources: Sources, *, as_json: bool) -> tuple[HTTPStatus, str, bytes]:
    facts = sources.facts()
    trouble = facts.get("problem")
    if as_json:
        document = {"serving": not trouble, **facts}
        return HTTPStatus.OK, JSON, json.dumps(document, indent=2).encode()
    page = front(sources.title, facts, sources.meanings)
    return HTTPStatus.OK, HTML, page.encode()
