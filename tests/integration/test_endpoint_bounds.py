"""An endpoint answers from a bounded memory, whoever does not read, and never with what is old."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

import pytest

from topicast.subscriber import Subscriber
from topicast.subscriber.endpoint.server import Server
from topicast.subscriber.endpoint.service import Service
from topicast.tests.bench.catalogd import BenchCatalogd
from topicast.tests.bench.source import Catalog
from topicast.tests.bench.stores import blocks_of
from topicast.tests.cli.processes import statestored
from topicast.tests.integration import endpoint_process
from topicast.tests.subscriber.endpoint.messages import call
from topicast.tests.subscriber.endpoint.test_server import Client
from topicast.tests.waiting import until

BUDGET_BYTES = 16 << 20
RSS_BYTES_MAX = (45 << 20) + BUDGET_BYTES * 5 // 4
PARTITIONS = 50_000  # 70 MB as Thrift, 2 MB as blocks
TOKEN = "t" * 24
CHANGES = 200


class Hub(NamedTuple):
    """A statestored, and a catalogd: the test itself commits what that publishes."""

    address: str
    catalog: Catalog
    commit: Callable[[Any], None]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    catalog = Catalog()
    catalog.create_database("bench")
    catalog.create_table("bench", "plain")
    catalog.create_table("bench", "days", keys=("ds",))
    catalog.fill("bench", "days", *blocks_of(PARTITIONS))
    with ExitStack() as started:
        daemon = started.enter_context(statestored(tmp_path_factory.mktemp("hub")))
        catalogd = BenchCatalogd(catalog, daemon.ready["address"])
        started.callback(catalogd.close)
        catalogd.settle()
        lock, ended = threading.Lock(), threading.Event()

        def turn() -> None:
            while not ended.is_set():
                with lock:
                    catalogd.turn(0.02)

        thread = threading.Thread(target=turn, daemon=True)
        thread.start()
        started.callback(thread.join)
        started.callback(ended.set)

        def commit(delta: Any) -> None:
            with lock:
                catalogd.commit(delta)

        yield Hub(daemon.ready["address"], catalog, commit)


@pytest.mark.timeout(120)
def test_what_a_watch_has_told_is_what_is_answered(hub: Hub) -> None:
    """The router asks after each change that the same subscriber has told of."""
    with Subscriber(hub.address, timeout_s=60) as subscriber, ExitStack() as opened:
        subscriber.join("bench.plain", "full")
        at_once = subscriber.contents(may_wait=False)
        server = opened.enter_context(closing(Server(Service(at_once, at_once, token=TOKEN))))
        server.start()
        client = opened.enter_context(closing(Client(server.port, token=TOKEN)))
        watch = opened.enter_context(closing(subscriber.watch("bench.plain")))

        def columns() -> int:
            return len(client.ask("get_table", "bench", "plain").sd.cols)

        until(lambda: at_once.version("bench", "plain"), timeout_s=30, what="the table")
        for number in range(2, CHANGES):
            names = tuple(f"c{at}" for at in range(number))
            hub.commit(hub.catalog.put_table("bench", "plain", columns=names))
            until(lambda: watch.all_within(1.0), timeout_s=30, what="the change")
            assert columns() == number


@pytest.mark.timeout(180)
def test_memory_is_bounded_whoever_does_not_read(hub: Hub) -> None:
    request = call("get_partitions", "bench", "days", -1)
    words = [sys.executable, endpoint_process.__file__, hub.address, str(BUDGET_BYTES), TOKEN]
    with (
        subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process,
        ExitStack() as opened,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        opened.callback(process.stdin.close)
        port = int(process.stdout.readline())

        def used() -> list[int]:
            """Return the resident bytes, and the number of connections."""
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            found: list[int] = json.loads(process.stdout.readline())
            return found

        def connect() -> Client:
            return opened.enter_context(closing(Client(port, token=TOKEN)))

        slow = [connect() for _ in range(20)]
        for client in slow:
            client.send(request)
        other = connect()
        assert other.ask("get_table", "bench", "days").tableName == "days"
        assert len(other.ask("get_partition_names", "bench", "days", 5)) == 5
        rss_bytes, connections = used()
        assert rss_bytes <= RSS_BYTES_MAX
        assert connections == len(slow) + 1
        received = 0
        while received < PARTITIONS * 1000:
            received += len(slow[0].sock.recv(1 << 20))
        assert used()[0] <= RSS_BYTES_MAX
