import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from topicast.cli.pages.metrics import STATESTORED, registry_of
from topicast.cli.pages.server import Facts, Pages, Sources, answer
from topicast.topics.errors import LinkError

FACTS: Facts = {"hub": 7, "data_address": "<tcp>", "deltas": 3}


def sources(problem: str = "", warning: str = "") -> Sources:
    facts: Facts = {**FACTS, "problem": problem, "warning": warning}
    return Sources(
        title="statestored",
        facts=lambda: facts,
        meanings=STATESTORED,
        metrics=registry_of("statestored", STATESTORED, lambda: FACTS),
    )


@pytest.fixture
def served() -> Iterator[str]:
    with Pages(sources(), interface="127.0.0.1", port=0) as pages:
        yield pages.url


def get(url: str, method: str = "GET") -> tuple[int, str, str]:
    to = urlsplit(url)
    connection = HTTPConnection(str(to.hostname), to.port, timeout=5)
    try:
        connection.request(method, f"{to.path or '/'}?{to.query}")
        response = connection.getresponse()
        return response.status, response.headers["Content-Type"], response.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("source", "status", "body"),
    [
        (sources(), 200, b"ok\n"),
        (sources("no catalogd was heard"), 503, b"no catalogd was heard\n"),
        (sources(warning="the metastore is away"), 200, b"ok\nwarning: the metastore is away\n"),
    ],
    ids=["serves", "does not serve", "serves with a warning"],
)
def test_healthz_says_whether_the_daemon_serves(source: Sources, status: int, body: bytes) -> None:
    assert answer(source, "/healthz")[::2] == (status, body)


def test_front_page_shows_every_fact_and_escapes_it(served: str) -> None:
    status, kind, body = get(served)
    assert (status, kind) == (200, "text/html; charset=utf-8")
    assert '<th>data_address</th><td class="number">&lt;tcp&gt;</td>' in body


def test_front_page_comes_as_json_too(served: str) -> None:
    status, kind, body = get(f"{served}/?json")
    assert (status, kind) == (200, "application/json")
    assert json.loads(body) == {"serving": True, **FACTS, "problem": "", "warning": ""}


def test_metrics_are_those_of_prometheus(served: str) -> None:
    status, kind, body = get(f"{served}/metrics")
    assert status == 200
    assert kind.startswith("text/plain; version=")
    assert "topicast_statestored_deltas_total 3.0" in body


def test_unknown_page_is_not_found_and_named(served: str) -> None:
    status, _, body = get(f"{served}/secrets")
    assert status == 404
    assert "/secrets" in body


def test_head_has_no_body(served: str) -> None:
    assert get(f"{served}/healthz", "HEAD")[::2] == (200, "")


def test_nothing_but_reading_is_possible(served: str) -> None:
    assert get(served, "POST")[0] == 501


def test_garbage_ends_its_own_connection_only(served: str) -> None:
    to = urlsplit(served)
    with socket.create_connection((str(to.hostname), to.port or 0), timeout=5) as stranger:
        stranger.sendall(b"\x00\xff" * 50 + b"\r\n\r\n")
        assert b"400" in stranger.recv(4096)
    assert get(f"{served}/healthz")[0] == 200


def test_port_in_use_is_a_clear_error(served: str) -> None:
    port = urlsplit(served).port
    assert port is not None
    with pytest.raises(LinkError, match=f"127.0.0.1:{port}.*in use.*--webserver_port"):
        Pages(sources(), interface="127.0.0.1", port=port)
