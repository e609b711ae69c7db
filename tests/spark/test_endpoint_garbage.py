"""Whatever answers in the place of the endpoint, a query has the rows that the metastore leads to.

The router runs alone: a server of the test takes the token, and then answers nonsense.
"""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.tests.spark.applications import Application, applications
from topicast.tests.waiting import until

pytestmark = pytest.mark.nightly

VERSION: Final = 0x80010000  # of Thrift's strict binary protocol
REPLY: Final = 2
STOP: Final = b"\0"
SETTLE_S: Final = 60
QUERIES: Final = 3
COUNT_MAX: Final = 1 << 20  # of bytes that a server here reads of one connection

Answer = Callable[[bytes, int], bytes | None]  # of a method and a sequence id; None: say nothing


def reply(name: bytes, number: int, body: bytes = STOP) -> bytes:
    """Return the bytes of an answer."""
    return struct.pack(f">II{len(name)}sI", VERSION | REPLY, len(name), name, number) + body


def field(kind: int, number: int, content: bytes) -> bytes:
    """Return the bytes of a field of a struct."""
    return struct.pack(">BH", kind, number) + content


TEXT, STRUCT, LIST = 11, 12, 15
GARBAGE: Final[dict[str, Answer]] = {
    "closed": lambda _name, _number: b"",
    "silence": lambda _name, _number: None,
    "random bytes": lambda _name, _number: bytes(range(256)),
    "half a reply": lambda name, number: reply(name, number)[:9],
    "another sequence id": lambda name, number: reply(name, number + 7),
    "another method": lambda _name, number: reply(b"get_all_functions", number),
    "an empty result": reply,
    "a string of 1 GB": lambda name, number: reply(
        name, number, field(STRUCT, 0, field(TEXT, 1, struct.pack(">I", 1 << 30) + b"x" * 100))
    ),
    "a list of 2 billion": lambda name, number: reply(
        name, number, field(LIST, 0, struct.pack(">BI", STRUCT, 0x7FFFFFFF))
    ),
    "a list of minus one": lambda name, number: reply(
        name, number, field(LIST, 0, struct.pack(">BI", STRUCT, 0xFFFFFFFF))
    ),
}


class Nonsense:
    """A server on loopback that takes every token, and gives ``answer`` to everything else."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.asked = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            while asked := client.recv(COUNT_MAX):  # one call is less than a packet
                length = struct.unpack_from(">I", asked, 4)[0]
                name, number = asked[8 : 8 + length], struct.unpack_from(">I", asked, 8 + length)[0]
                if name == b"setMetaConf":
                    client.sendall(reply(name, number))
                    continue
                self.asked += 1
                answer = self._answer(name, number)
                if answer is None:
                    continue
                client.sendall(answer)
                return


@pytest.fixture(scope="module")
def driver(
    hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Application]:
    folder = tmp_path_factory.mktemp("garbage")
    with applications(folder, hive.uri, driver={}) as both:
        found = both["driver"]
        found.sql(
            "CREATE DATABASE garbage",
            "CREATE TABLE garbage.days (id INT, ds STRING) USING parquet PARTITIONED BY (ds)",
            "INSERT INTO garbage.days VALUES (1, 'a'), (2, 'b')",
        )
        found.do("from topicast.subscriber.spark.planning.router import Address, Router")
        found.do("from topicast.subscriber.spark.refresh.catalyst import Catalyst")
        found.do("catalyst = Catalyst.probe(spark)")
        found.do("_ = catalyst.registry.adopt(spark._jsparkSession)")
        found.do("router = Router.of(spark._jvm, catalyst.registry)")
        yield found
        found.do("router.end()")


def status(driver: Application, name: str) -> str:
    return str(driver.do(f"router.status()[{name!r}]"))


@pytest.mark.parametrize("kind", GARBAGE)
def test_query_has_right_rows_whatever_the_endpoint_answers(driver: Application, kind: str) -> None:
    server = Nonsense(GARBAGE[kind])
    try:
        driver.do("router.begin(bytes_max=1 << 20, confirms=False)")
        driver.do("router.follow(['garbage'])")
        driver.do("router.live(600.0)")
        for _ in range(QUERIES):
            driver.do(f"router.endpoint(Address({server.port}, 'x' * 32))")
            until(lambda: status(driver, "readers") != "0", timeout_s=SETTLE_S, what="readers")
            driver.do("router.changed_all(late_s=0.0)")
            assert driver.rows("SELECT * FROM garbage.days WHERE ds >= 'b'") == [[2, "b"]]
        assert server.asked >= QUERIES
        assert status(driver, "errors") == "0", status(driver, "last_error")
        assert status(driver, "endpoint") == "0", "nothing was taken for an answer"
        driver.do("router.end()")
        assert driver.rows("SELECT * FROM garbage.days WHERE ds >= 'b'") == [[2, "b"]]
    finally:
        server.close()
