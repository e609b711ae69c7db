"""Whatever answers in the place of the endpoint, a query has the rows that the metastore leads to.

The router runs alone: a server of the test takes the token, and then answers nonsense. An endpoint
that answers late is asked once more, and waited for, if the metastore is away.
"""

import secrets
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.cli.quickstart.processes.counting import Counting
from topicast.subscriber import Subscriber
from topicast.subscriber.endpoint.server import Server
from topicast.subscriber.endpoint.service import Service
from topicast.tests.integration.daemons import both_daemons
from topicast.tests.spark.applications import Application, applications
from topicast.tests.waiting import until

pytestmark = pytest.mark.nightly

VERSION: Final = 0x80010000  # of Thrift's strict binary protocol
REPLY: Final = 2
EXCEPTION: Final = 3
STOP: Final = b"\0"
SETTLE_S: Final = 60
QUERIES: Final = 3
COUNT_MAX: Final = 1 << 20  # of bytes that a server here reads of one connection

Answer = Callable[[bytes, int], bytes | None]  # of a method and a sequence id; None: say nothing


def reply(name: bytes, number: int, body: bytes = STOP) -> bytes:
    """Return the bytes of an answer."""
    return struct.pack(f">II{len(name)}sI", VERSION | REPLY, len(name), name, number) + body


def unknown(name: bytes, number: int) -> bytes:
    """Return the bytes by which a server, ours, too, says that it does not know a method."""
    text = b"topicast has no method"
    kind = field(I32, 2, struct.pack(">I", UNKNOWN_METHOD))
    body = field(TEXT, 1, struct.pack(">I", len(text)) + text) + kind + STOP
    return struct.pack(f">II{len(name)}sI", VERSION | EXCEPTION, len(name), name, number) + body


def field(kind: int, number: int, content: bytes) -> bytes:
    """Return the bytes of a field of a struct."""
    return struct.pack(">BH", kind, number) + content


I32, TEXT, STRUCT, LIST = 8, 11, 12, 15
UNKNOWN_METHOD: Final = 1
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
    """A server on loopback that takes every token, and gives ``answer`` to everything else.

    ``ends``: a connection ends after its first answer.
    """

    def __init__(self, answer: Answer, *, ends: bool = True) -> None:
        self._answer = answer
        self._ends = ends
        self.connections = 0
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
            self.connections += 1
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
                if self._ends:
                    return


@pytest.fixture(scope="module")
def metastore(hive: EmbeddedMetastore) -> Iterator[Counting]:
    """What leads to the metastore."""
    with Counting(hive.uri) as counting:
        yield counting


@pytest.fixture(scope="module")
def driver(metastore: Counting, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    folder = tmp_path_factory.mktemp("garbage")
    with applications(folder, metastore.uri, driver={}) as both:
        found = both["driver"]
        found.sql(
            "CREATE DATABASE garbage",
            "CREATE TABLE garbage.days (id INT, ds STRING) USING parquet PARTITIONED BY (ds)",
            "INSERT INTO garbage.days VALUES (1, 'a'), (2, 'b')",
        )
        found.do("from topicast.subscriber.spark.planning.router import EndpointAddress, Router")
        found.do("from topicast.subscriber.spark.refresh.catalyst import Catalyst")
        found.do("catalyst = Catalyst.probe(spark)")
        found.do("_ = catalyst.registry.adopt(spark._jsparkSession)")
        found.do("router = Router.of(spark._jvm, catalyst.registry)")
        found.do("import threading")
        yield found
        found.do("router.end()")


def status(driver: Application, name: str) -> str:
    return str(driver.do(f"router.status()[{name!r}]"))


@pytest.mark.parametrize("kind", GARBAGE)
def test_query_has_right_rows_whatever_the_endpoint_answers(driver: Application, kind: str) -> None:
    server = Nonsense(GARBAGE[kind])
    try:
        driver.do("router.begin(bytes_max=1 << 20)")
        driver.do("router.follow(['garbage'])")
        driver.do("router.live(600.0)")
        for _ in range(QUERIES):
            driver.do(f"router.endpoint(EndpointAddress({server.port}, 'x' * 32))")
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


def test_reader_whose_method_is_unknown_keeps_its_connection(driver: Application) -> None:
    """Spark makes another client after such an answer, which has not presented the token."""
    server = Nonsense(unknown, ends=False)
    try:
        driver.do("router.begin(bytes_max=1 << 20)")
        driver.do("router.follow(['garbage'])")
        driver.do("router.live(600.0)")
        driver.do(f"router.endpoint(EndpointAddress({server.port}, 'x' * 32))")
        until(lambda: int(status(driver, "readers")) >= 2, timeout_s=SETTLE_S, what="readers")
        connections = server.connections
        catalog = "spark._jsparkSession.sharedState().externalCatalog()"
        for _ in range(QUERIES):
            assert driver.do(f"{catalog}.getDatabase('garbage').name()") == "garbage"
            driver.do("router.changed_all(late_s=0.0)")
        assert server.asked == QUERIES
        assert server.connections == connections
        assert status(driver, "reader_failures") == "0", status(driver, "reader_failure")
    finally:
        driver.do("router.end()")
        server.close()


LATE_S: Final = 1.0  # more than a first read is waited for, less than a second read
FOLLOW: Final = """
def follow():
    while following:
        for number, name in router.wanted(1.0):
            router.known(number, name, is_followed=True)

following = [True]
follower = threading.Thread(target=follow, daemon=True)
follower.start()
"""


def test_endpoint_that_is_late_is_asked_again_while_the_metastore_is_away(
    hive: EmbeddedMetastore, metastore: Counting, driver: Application, tmp_path: Path
) -> None:
    token = secrets.token_hex(16)
    with (
        both_daemons(tmp_path, hive.uri) as daemons,
        Subscriber(daemons.hub_address) as subscriber,
    ):
        subscriber.sync(SETTLE_S)
        until(lambda: subscriber.follows("garbage.days"), timeout_s=SETTLE_S, what="its entry")
        server = Server(
            Service(subscriber.contents(may_wait=False), subscriber.contents(), token=token)
        )
        server.start()
        with Counting(f"thrift://127.0.0.1:{server.port}") as endpoint:
            port = endpoint.uri.rpartition(":")[2]
            driver.do("router.begin(bytes_max=1 << 20)")
            driver.do("router.follow(['garbage'])")
            driver.do(FOLLOW)
            driver.do("router.live(600.0)")
            driver.do(f"router.endpoint(EndpointAddress({port}, {token!r}))")
            until(lambda: int(status(driver, "readers")) >= 2, timeout_s=SETTLE_S, what="readers")
            endpoint.delay_s = LATE_S
            metastore.close()
            try:
                get = "spark._jsparkSession.sharedState().externalCatalog().getTable"
                assert driver.do(f"{get}('garbage', 'days').identifier().table()") == "days"
            finally:
                metastore.is_open = True
            endpoint.take()
            assert driver.rows("SELECT * FROM garbage.none") == "TABLE_OR_VIEW_NOT_FOUND"
            assert endpoint.take()["get_table"] <= 1, "that it is missing is an answer"
        driver.do("following.clear()")
        driver.do("follower.join()")
        driver.do("router.end()")
        server.close()
