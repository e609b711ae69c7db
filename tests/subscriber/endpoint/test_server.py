"""Server: real connections on loopback, and the limits that end them."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import MetaException
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from topicast.subscriber.endpoint.server import STRANGER_BYTES_MAX, Limits, Server
from topicast.subscriber.endpoint.service import TOKEN_KEY, TURNED_AWAY, Service
from topicast.tests.cluster.shop import NAMES
from topicast.tests.subscriber.endpoint.conftest import TOKEN
from topicast.tests.subscriber.endpoint.messages import answered, call
from topicast.tests.waiting import until

ANSWER_S = 20.0
ADMISSION = call("set_ugi", TOKEN, ["staff"])
TABLE = call("get_table", "shop", "orders")


class Client:
    """A connection that sends what a test says."""

    def __init__(self, port: int, *, admitted: bool = True, token: str = TOKEN) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
        if admitted:
            assert self.ask("set_ugi", token, ["staff"]) == []

    def ask(self, method: str, *arguments: Any) -> Any:
        self.send(call(method, *arguments))
        return answered(self.reply(method), method)

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def reply(self, method: str) -> bytes:
        """Return one whole reply."""
        data = b""
        while True:
            with suppress(EOFError, TypeError, IndexError):
                with suppress(MetaException):
                    answered(data, method)
                if data:
                    return data
            more = self.sock.recv(1 << 16)
            if not more:
                raise ConnectionError(f"closed after {len(data)} bytes")
            data += more

    @property
    def is_closed(self) -> bool:
        """Whether the server has closed the connection; waits for it."""
        with suppress(ConnectionError):
            while self.sock.recv(1 << 16):
                pass
        return True

    def close(self) -> None:
        self.sock.close()


Connect = Callable[..., Client]


@pytest.fixture
def servers(service: Service) -> Iterator[Callable[..., Server]]:
    with ExitStack() as opened:

        def serve(**how: Any) -> Server:
            server = Server(service, **how)
            server.start()
            return opened.enter_context(closing(server))

        yield serve


@pytest.fixture
def server(servers: Callable[..., Server]) -> Server:
    return servers()


@pytest.fixture
def connect(server: Server) -> Iterator[Connect]:
    with ExitStack() as opened:
        yield lambda **how: opened.enter_context(closing(Client(server.port, **how)))


def turned_away(service: Service) -> dict[str, int]:
    return service.counts.facts()[TURNED_AWAY]


def test_admitted_client_is_answered_again_and_again(connect: Connect) -> None:
    client = connect()
    for _ in range(3):
        assert client.ask("get_table", "shop", "orders").tableName == "orders"
    assert len(client.ask("get_partitions", "shop", "sales", -1)) == 100
    with pytest.raises(MetaException, match="asks the metastore"):
        client.ask("get_table", "shop", "nothing")
    assert set(NAMES) <= set(client.ask("get_all_tables", "shop"))


def test_token_is_a_value_of_a_setting_as_well(connect: Connect) -> None:
    client = connect(admitted=False)
    assert client.ask("set_ugi", "ann", ["staff"]) == []
    assert client.ask("setMetaConf", TOKEN_KEY, TOKEN) is None
    assert client.ask("get_table", "shop", "orders").tableName == "orders"
    assert client.ask("set_ugi", "ann", ["staff"]) == []
    assert client.ask("setMetaConf", TOKEN_KEY, TOKEN) is None
    with pytest.raises(MetaException, match="reads only"):
        client.ask("setMetaConf", "hive.metastore.try.direct.sql", "false")
    assert client.ask("get_table", "shop", "orders").tableName == "orders"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (TABLE, "no token"),
        (call("set_ugi", "ann", []) + TABLE, "no token"),
        (call("setMetaConf", TOKEN_KEY, "wrong"), "wrong token"),
        (call("setMetaConf", "other", TOKEN), "no token"),
        (call("set_ugi", TOKEN[:-1], []) + TABLE, "no token"),
        (b"GET / HTTP/1.1\r\n\r\n", "no request"),
        (call("set_ugi", "a" * STRANGER_BYTES_MAX, []), "no request"),
    ],
)
def test_stranger_is_turned_away(connect: Connect, service: Service, data: bytes, why: str) -> None:
    client = connect(admitted=False)
    client.send(data)
    assert client.is_closed
    assert turned_away(service) == {why: 1}


def test_client_that_leaves_is_no_problem(
    connect: Connect, server: Server, service: Service
) -> None:
    for client in (connect(), connect(admitted=False)):
        client.send(call("shutdown"))
        assert client.is_closed
    connect().close()
    until(lambda: server.connections == 0)
    assert turned_away(service) == {}


def test_requests_that_come_at_once_or_byte_by_byte_are_answered(connect: Connect) -> None:
    client = connect()
    client.send(TABLE * 50)
    whole = b""
    while whole.count(b"get_table") < 50:
        whole += client.sock.recv(1 << 16)
    for byte in TABLE[:-1]:
        client.send(bytes([byte]))
    client.send(TABLE[-1:])
    assert b"orders" in client.reply("get_table")


@pytest.mark.parametrize(
    ("limits", "data", "why"),
    [
        (Limits(admit_s=0.05), b"", "too slow"),
        (Limits(admit_s=0.05), ADMISSION[:9], "too slow"),
        (Limits(request_s=0.05), ADMISSION + TABLE[:9], "too slow"),
        (
            Limits(request_bytes_max=1000),
            ADMISSION + call("get_table", "x" * 1000, ""),
            "no request",
        ),
        (Limits(requests_bytes_max=100), ADMISSION + call("get_table", "x" * 999, "")[:-9], "many"),
    ],
)
def test_limits_end_a_connection(
    servers: Callable[..., Server], service: Service, limits: Limits, data: bytes, why: str
) -> None:
    server = servers(limits=limits)
    with (
        closing(Client(server.port, admitted=False)) as client,
        closing(Client(server.port)) as other,
    ):
        client.send(data)
        assert client.is_closed
        (found,) = turned_away(service)
        assert why in found
        if limits.admit_s > 1 and limits.requests_bytes_max > 1000:
            assert other.ask("get_table", "shop", "orders").tableName == "orders"


def test_half_of_a_second_request_ends_a_connection_too(
    servers: Callable[..., Server], service: Service
) -> None:
    with closing(Client(servers(limits=Limits(request_s=0.05)).port)) as client:
        client.send(TABLE + TABLE[:9])
        assert client.is_closed
    assert turned_away(service) == {"too slow": 1}


def test_connections_beyond_their_number_are_turned_away(
    servers: Callable[..., Server], service: Service
) -> None:
    server = servers(limits=Limits(connections_max=2))
    with ExitStack() as opened:
        first, _ = (opened.enter_context(closing(Client(server.port))) for _ in range(2))
        third = opened.enter_context(closing(Client(server.port, admitted=False)))
        assert third.is_closed
        assert turned_away(service) == {"too many connections": 1}
        assert first.ask("get_table", "shop", "orders").tableName == "orders"
        first.close()
        until(lambda: server.connections == 1)
        fourth = opened.enter_context(closing(Client(server.port)))
        assert fourth.ask("get_table", "shop", "orders").tableName == "orders"


def test_client_that_does_not_read_delays_nobody_and_is_ended(
    servers: Callable[..., Server], service: Service
) -> None:
    server = servers(limits=Limits(reply_s=0.5, request_s=0.5))
    with closing(Client(server.port)) as slow, closing(Client(server.port)) as other:
        slow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        slow.send(call("get_partitions", "shop", "sales", -1) * 400)  # more than sockets hold
        for _ in range(5):
            assert other.ask("get_table", "shop", "orders").tableName == "orders"
        until(lambda: turned_away(service) == {"too slow": 1}, timeout_s=20)
        assert other.ask("get_table", "shop", "orders").tableName == "orders"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=60) | st.just(TABLE) | st.just(ADMISSION), max_size=5))
def test_whatever_strangers_send_others_are_answered(server: Server, parts: list[bytes]) -> None:
    with closing(Client(server.port, admitted=False)) as stranger, suppress(OSError):
        for part in parts:
            stranger.send(part)
    with closing(Client(server.port)) as client:
        assert client.ask("get_table", "shop", "orders").tableName == "orders"


def test_another_user_is_turned_away(servers: Callable[..., Server], service: Service) -> None:
    server = servers(uid=os.getuid() + 1)
    with closing(Client(server.port, admitted=False)) as client:
        with suppress(OSError):
            client.send(ADMISSION)
        assert client.is_closed
    assert turned_away(service) == {"another user": 1}


ASKS = """
import os, socket, sys
"loaded".encode("idna")  # while this user may read the library
os.setuid(int(sys.argv[2]))
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20) as one:
    try:
        one.sendall(bytes.fromhex(sys.argv[3]))
        sys.stdout.write("answered" if one.recv(1) else "closed")
    except OSError:
        sys.stdout.write("closed")
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_process_of_another_user_is_turned_away(server: Server) -> None:
    def ask(uid: int) -> str:
        words = [sys.executable, "-c", ASKS, str(server.port), str(uid), ADMISSION.hex()]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert (ask(0), ask(65534)) == ("answered", "closed")


def test_closed_server_ends_its_connections(servers: Callable[..., Server]) -> None:
    server = servers()
    with closing(Client(server.port)) as client:
        server.close()
        assert client.is_closed
        assert not server.alive
    server.close()
