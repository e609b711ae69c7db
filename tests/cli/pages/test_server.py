import gc
import json
import logging
import re
import socket
import ssl
import struct
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from hashlib import sha256
from http.client import HTTPConnection, HTTPMessage, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import trustme
from tornado.iostream import IOStream

from topicast.cli.pages.access import Access
from topicast.cli.pages.metrics import Facts
from topicast.cli.pages.server import CONNECTIONS_MAX, LOG_S, Pages
from topicast.tests.cli.pages.secrets import TOKEN, access, basic, certificate, secret_file
from topicast.tests.cli.pages.test_answers import FACTS, NEW, sources
from topicast.tests.waiting import until
from topicast.topics.errors import LinkError

AUTHORITY = trustme.CA()
STRANGERS = CONNECTIONS_MAX + 44


@pytest.fixture
def served() -> Iterator[str]:
    with Pages(sources(), access()) as pages:
        yield pages.url


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[str]:
    with Pages(sources(NEW), guard(tmp_path)) as pages:
        yield pages.url


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[str]:
    with Pages(sources(), access(**certificate(AUTHORITY, tmp_path))) as pages:
        yield pages.url


def guard(folder: Path) -> Access:
    return access(
        password_file=secret_file(folder / "passwords", "anna:s3cret"),
        token_file=secret_file(folder / "tokens", TOKEN),
    )


def requested(
    url: str, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[int, HTTPMessage, str]:
    to = urlsplit(url)
    trusting = ssl.create_default_context()
    AUTHORITY.configure_trust(trusting)
    host, port = str(to.hostname), to.port
    connection = (
        HTTPSConnection(host, port, timeout=60, context=trusting)
        if to.scheme == "https"
        else HTTPConnection(host, port, timeout=60)
    )
    with closing(connection):
        connection.request(method, f"{to.path or '/'}?{to.query}", body, headers)
        response = connection.getresponse()
        return response.status, response.headers, response.read().decode()


def get(url: str, **headers: str) -> tuple[int, str, str]:
    status, found, body = requested(url, **headers)
    return status, found["Content-Type"], body


def connected(url: str) -> socket.socket:
    to = urlsplit(url)
    return socket.create_connection((str(to.hostname), to.port or 0), timeout=60)


def received(stranger: socket.socket) -> bytes:
    """Return what comes until the connection is closed, or reset."""
    found = b""
    with suppress(ConnectionResetError):
        while part := stranger.recv(4096):
            found += part
    return found


def flooded(url: str, head: bytes, more: bytes) -> None:
    """Send ``more`` after ``head`` until the connection is cut off.

    Raises:
        AssertionError: 100 MB were taken.
    """
    with connected(url) as stranger, suppress(OSError):
        stranger.sendall(head)
        for _ in range(100_000_000 // len(more)):
            stranger.sendall(more)
        raise AssertionError("it takes everything")


def test_metrics_are_a_page_to_a_browser_with_every_fact_escaped(served: str) -> None:
    status, kind, body = get(f"{served}/metrics", Accept="text/html,*/*;q=0.8")
    assert (status, kind) == (200, "text/html; charset=utf-8")
    assert '<th>data_address</th><td class="number">&lt;tcp&gt;</td>' in body


def test_front_page_comes_as_json_too(served: str) -> None:
    status, kind, body = get(f"{served}/?json")
    assert (status, kind) == (200, "application/json")
    verdict = {"serving": True, "verdict": "serving", "reasons": []}
    assert json.loads(body) == {**verdict, **FACTS, "pages": []}


def test_metrics_are_those_of_prometheus(served: str) -> None:
    status, kind, body = get(f"{served}/metrics")
    assert status == 200
    assert kind.startswith("text/plain; version=")
    assert "topicast_statestored_deltas_total 3.0" in body


@pytest.mark.parametrize("path", ["/secrets", "//[", "/%00", "/healthz/", "/metrics/x", "/?json/x"])
def test_unknown_page_is_not_found_and_named(served: str, path: str) -> None:
    status, _, body = get(served + path)
    assert (status, path in body) == ((404, True) if "?" not in path else (200, False))


def test_head_has_no_body_and_the_headers_of_get(served: str) -> None:
    status, headers, body = requested(f"{served}/healthz", "HEAD")
    assert (status, headers["Content-Length"], body) == (200, "8", "")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "RUBBISH"])
def test_nothing_but_reading_is_possible(served: str, method: str) -> None:
    status, headers, _ = requested(served, method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", ["/", "/?json", "/metrics", "/healthz", "/unknown"])
def test_every_answer_tells_browsers_to_keep_embed_and_run_nothing(served: str, path: str) -> None:
    _, headers, _ = requested(served + path)
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["Server"] == "topicast"
    assert "ETag" not in headers


def test_policy_lets_the_style_of_the_page_apply(served: str) -> None:
    _, headers, body = requested(served)
    style = re.search("<style>(.*)</style>", body, re.DOTALL)
    assert style is not None
    digest = b64encode(sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("localhost", 200), ("LOCALHOST:1", 200), ("127.0.0.1:8000", 200), ("[::1]:80", 200)),
        *(("evil.example", 421), ("evil.example:25010", 421), ("127.0.0.1.evil.example", 421)),
        *(("10.0.0.3", 421), ("0.0.0.0", 421), ("localhost.evil", 421), ("[", 421)),
    ],
)
def test_page_of_another_site_whose_name_leads_here_reads_nothing(
    served: str, host: str, status: int
) -> None:
    assert [requested(served + path, Host=host)[0] for path in ("/", "/healthz", "/metrics")] == [
        status
    ] * 3


def test_name_of_the_host_does_not_matter_where_a_secret_is_needed(guarded: str) -> None:
    secret = basic("anna", "s3cret")
    assert requested(guarded, Host="topicast.example", Authorization=secret)[0] == 200


@pytest.mark.parametrize("secret", [basic("anna", "s3cret"), f"Bearer {TOKEN}"])
@pytest.mark.parametrize("path", ["/", "/?json", "/metrics", "/healthz"])
def test_password_and_token_open_every_page(guarded: str, path: str, secret: str) -> None:
    status, _, body = requested(guarded + path, Authorization=secret)
    assert status == (503 if path == "/healthz" else 200)
    assert path == "/metrics" or NEW.what in body


@pytest.mark.parametrize("path", ["/", "/?json", "/metrics", "/unknown"])
def test_without_a_secret_no_page_is_shown(guarded: str, path: str) -> None:
    status, headers, body = requested(guarded + path)
    assert status == 401
    assert headers.get_all("WWW-Authenticate") == [
        'Basic realm="topicast", charset="UTF-8"',
        "Bearer",
    ]
    assert "thing" not in body


def test_probe_needs_no_secret_and_learns_no_reason(guarded: str) -> None:
    assert get(f"{guarded}/healthz")[::2] == (503, "not serving\n")


def test_wrong_secrets_are_refused_late_and_logged_once(
    guarded: str, caplog: pytest.LogCaptureFixture
) -> None:
    for secret in (basic("anna", "guess"), "Bearer guess"):
        assert requested(guarded, Authorization=secret)[0] == 401
        assert requested(f"{guarded}/healthz", Authorization=secret)[0] == 503
    refused = [line for line in caplog.messages if "wrong password or token" in line]
    assert len(refused) == 1, f"one in {LOG_S} s"
    assert "127.0.0.1" in refused[0]
    assert "guess" not in caplog.text


def test_pages_come_by_https_alone_where_there_is_a_certificate(encrypted: str) -> None:
    assert encrypted.startswith("https://127.0.0.1:")
    assert get(f"{encrypted}/healthz")[::2] == (200, "serving\n")
    with connected(encrypted) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert not received(plain).startswith(b"HTTP")


def test_new_certificate_and_tokens_are_served_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    settings = certificate(AUTHORITY, tmp_path)
    tokens = secret_file(tmp_path / "tokens", TOKEN)
    with Pages(sources(), access(**settings, token_file=tokens), refresh_s=0.05) as pages:

        def serial() -> bytes:
            to = urlsplit(pages.url)
            return ssl.get_server_certificate((str(to.hostname), to.port or 0)).encode()

        before = serial()
        settings["certificate_file"].write_text("half of a file")
        until(lambda: "secrets and certificate of the pages not read again" in caplog.text)
        assert serial() == before
        certificate(AUTHORITY, tmp_path)
        secret_file(tokens, f"{TOKEN}-next")
        until(lambda: requested(pages.url, Authorization=f"Bearer {TOKEN}-next")[0] == 200)
        until(lambda: serial() != before)
        assert requested(pages.url, Authorization=f"Bearer {TOKEN}")[0] == 401


@pytest.mark.parametrize(
    ("is_encrypted", "sent"),
    [
        (False, b""),
        (False, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "),
        (True, b""),
        (True, b"\x16\x03\x01\x02"),
    ],
    ids=["nothing", "half a head", "no handshake", "half a handshake"],
)
def test_pages_answer_beside_connections_that_never_finish(
    sent: bytes, is_encrypted: bool, tmp_path: Path
) -> None:
    settings = certificate(AUTHORITY, tmp_path) if is_encrypted else {}
    gc.collect()  # what other tests have left keeps files open
    process = psutil.Process()
    with Pages(sources(), access(**settings), connection_s=2) as pages, ExitStack() as held:
        before, threads = process.num_fds(), threading.active_count()
        strangers = [held.enter_context(connected(pages.url)) for _ in range(STRANGERS)]
        for stranger in strangers:
            stranger.sendall(sent)
        for _ in range(10):
            assert requested(pages.url)[0] == 200
        assert threading.active_count() == threads
        assert process.num_fds() - before - STRANGERS <= CONNECTIONS_MAX + 1
        assert received(strangers[-1]) == b"", "the newest is cut off, too"
        until(lambda: process.num_fds() - before <= STRANGERS + 1)


def test_reader_that_does_not_read_is_cut_off() -> None:
    facts: Facts = {"hub": "x" * 10_000_000}  # more than the sockets' buffers take
    source = replace(sources(), facts=lambda: facts)
    gc.collect()  # what other tests have left keeps files open
    process = psutil.Process()
    with Pages(source, access(), connection_s=1) as pages:
        before = process.num_fds()
        with connected(pages.url) as slow:
            slow.sendall(b"GET /?json HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until(lambda: process.num_fds() == before + 2)
            assert requested(f"{pages.url}/metrics")[0] == 200
            until(lambda: process.num_fds() == before + 1)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Let nobody collect cycles, as nobody collects those of old objects in a daemon."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_connection_is_forgotten_however_it_ends(is_encrypted: bool, tmp_path: Path) -> None:
    """Count Tornado's streams: what a failure leaves in a cycle would stay in a daemon."""
    settings = certificate(AUTHORITY, tmp_path) if is_encrypted else {}
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
    reset = struct.pack("ii", 1, 0)
    with Pages(sources(), access(**settings), connection_s=0.5) as pages:
        assert requested(pages.url)[0] == 200
        for sent in (b"", b"\x16\x03\x01", b"x" * 100_000, head + b"Content-Length: 9\r\n\r\n"):
            connected(pages.url).close()
            with connected(pages.url) as stranger, suppress(OSError):
                stranger.sendall(sent)
            with connected(pages.url) as stranger, suppress(OSError):
                stranger.sendall(sent)
                stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            with connected(pages.url) as stranger, suppress(OSError):
                stranger.sendall(sent)
                received(stranger)
        assert requested(pages.url, "POST")[0] == 405
        until(lambda: not any(isinstance(one, IOStream) for one in gc.get_objects()))


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\xff" * 50 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    ],
)
def test_garbage_ends_its_own_connection_only(
    served: str, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with connected(served) as stranger:
        stranger.sendall(sent)
        assert b"HTTP/1.1 400" in stranger.recv(4096)
    assert get(f"{served}/healthz")[0] == 200
    assert caplog.messages == []


@pytest.mark.parametrize("filler", [b"X: y\r\n", b"x"])
def test_head_without_end_is_cut_off(served: str, filler: bytes) -> None:
    flooded(served, b"GET / HTTP/1.1\r\nHost: localhost\r\n", filler * 10_000)
    assert get(f"{served}/healthz")[0] == 200


def test_body_is_not_taken(served: str) -> None:
    assert requested(served, "GET", b"x" * 1000)[0] == 200
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    flooded(served, head, b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n")
    assert get(f"{served}/healthz")[0] == 200


def test_page_that_fails_says_so_and_the_log_says_why_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def facts() -> dict[str, str]:
        raise ZeroDivisionError("planted")

    failing = replace(sources(), facts=facts)
    with Pages(failing, access()) as pages:
        for _ in range(3):
            assert get(pages.url)[::2] == (500, "500 Internal Server Error\n")
        assert get(f"{pages.url}/metrics")[0] == 200
    assert caplog.text.count("Traceback") == 1
    assert "planted" in caplog.text


def test_secrets_in_the_clear_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = secret_file(tmp_path / "tokens", TOKEN)
    encrypted = certificate(AUTHORITY, tmp_path)
    for settings, warned in (
        ({"token_file": tokens}, False),
        ({"token_file": tokens, "interface": "0.0.0.0", **encrypted}, False),
        ({"token_file": tokens, "interface": "0.0.0.0"}, True),
    ):
        with Pages(sources(), access(**settings)):
            assert ("sent unencrypted" in caplog.text) is warned


def test_interface_of_both_families_is_served_to_both(tmp_path: Path) -> None:
    tokens = secret_file(tmp_path / "tokens", TOKEN)
    with Pages(sources(), access(interface="::", token_file=tokens)) as pages:
        port = urlsplit(pages.url).port
        for host in ("127.0.0.1", "[::1]"):
            assert get(f"http://{host}:{port}/healthz")[0] == 200


def test_ipv6_is_served() -> None:
    with Pages(sources(), access(interface="::1")) as pages:
        assert pages.url.startswith("http://[::1]:")
        assert requested(f"{pages.url}/healthz")[0] == 200


def test_port_in_use_is_a_clear_error(served: str) -> None:
    port = urlsplit(served).port
    assert port is not None
    with pytest.raises(LinkError, match=f"127.0.0.1:{port}.*in use.*--webserver_port"):
        Pages(sources(), access(port=port))
