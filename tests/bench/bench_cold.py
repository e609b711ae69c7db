"""A table that catalogd does not hold, asked for by 100 drivers at once, beside straight HMS.

loads   how often it was loaded from the metastore, in reads of what one driver's asking takes
all     ms until the last driver has its answer, beside 100 clients that ask the metastore

Real processes and sockets; each driver is a connection of its own. The mode is minimal, so what
was invalidated is not loaded before it is asked for. The metastore is a real one (Derby), asked by
hmsclient.
Run: make bench ARGS=tests/bench/bench_cold.py
"""

import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.cli.operator import Operator
from topicast.tests.bench.bench_latency import TIMEOUT_S
from topicast.tests.bench.report import beside, say, target, timed_s
from topicast.tests.cli.processes import catalogd, statestored
from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.integration.tables import connect
from topicast.tests.waiting import until
from topicast.topics.bulk import CREDIT_DEFAULT
from topicast.topics.link import Link
from topicast.topics.settings import parse_addresses
from topicast.topics.wire import decode, encode
from topicast.topics.wire.messages import SELECT_BLOCKS, Pull, Pulled

DRIVERS = 100
PARTITIONS = 500
TABLES = ("alone", "cold")


def ask(address: str, table: str, *, drivers: int) -> float:
    """Have so many drivers pull ``table`` at once; return the ms until all have it."""
    names = {f"driver {number}" for number in range(drivers)}
    pull = Pull(request=1, db="bench", table=table, selector=SELECT_BLOCKS, credit=CREDIT_DEFAULT)
    with closing(Link()) as link:
        for name in names:
            link.connect_dealer(name, address)
        begin = time.perf_counter()
        for name in names:
            link.send(name, encode(pull))
        while names:
            for one in link.poll(TIMEOUT_S):
                answer = decode(one.frame)
                assert isinstance(answer, Pulled), answer
                assert answer.found
                names -= {one.name} if answer.last else set()
        return (time.perf_counter() - begin) * 1000


def reads(visit: Operator, *, pulls: int) -> int:
    """Return how often catalogd has read from the metastore, once it has answered ``pulls``."""
    facts: dict[object, object] = {}

    def reported() -> bool:
        facts.update(visit.catalog("status").rows)
        return facts["pulls"] == pulls

    until(reported, timeout_s=TIMEOUT_S, what=f"{pulls} pulls in the status")
    return int(str(facts["reads"]))


def straight_ms(uri: str) -> float:
    """Have as many clients ask the metastore; return the ms until all have the table."""

    def one(_number: int) -> None:
        with connect(uri) as client:
            client.get_table("bench", "cold")
            assert len(client.get_partitions("bench", "cold", -1)) == PARTITIONS

    with ThreadPoolExecutor(DRIVERS) as clients:
        return timed_s(lambda: list(clients.map(one, range(DRIVERS)))) * 1000


@contextmanager
def stack(folder: Path) -> Iterator[tuple[str, Operator]]:
    """Run a metastore with two tables, and hub and catalogd, which has loaded neither."""
    with ExitStack() as started:
        hive = started.enter_context(EmbeddedMetastore(folder / "hive", durable=False))
        client = started.enter_context(connect(hive.uri))
        client.create_database(Database("bench", "", f"file:{folder}", {}))
        for name in TABLES:
            table = make_table("bench", name, location=f"file:{folder}/{name}", keys=["ds"])
            client.create_table(table)
            days = range(PARTITIONS)
            client.add_partitions([make_partition(table, [f"{day:03}"]) for day in days])
        address = started.enter_context(statestored(folder)).ready["address"]
        minimal = "--catalog_topic_mode=minimal"
        started.enter_context(catalogd(folder, minimal, hive=hive.uri, statestores=address))

        def known() -> bool:
            with Operator(parse_addresses(address)) as visit:
                return bool(visit.welcome.catalog_address)

        until(known, timeout_s=TIMEOUT_S, what="catalogd at the hub")
        visit = started.enter_context(Operator(parse_addresses(address), timeout_s=TIMEOUT_S))
        for order in ("refresh", "invalidate"):  # events of their creation may have loaded them
            visit.order(order, ("bench",), sender="bench")
        yield hive.uri, visit


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary, stack(Path(temporary)) as (uri, visit):
        address = visit.welcome.catalog_address
        counts = [reads(visit, pulls=0)]
        ask(address, "alone", drivers=1)
        counts.append(reads(visit, pulls=1))
        took_ms = ask(address, "cold", drivers=DRIVERS)
        counts.append(reads(visit, pulls=1 + DRIVERS))
        one, all_ = counts[1] - counts[0], counts[2] - counts[1]
        facts = {"drivers": DRIVERS, "partitions": PARTITIONS}
        load = beside("reads for one driver", ours=all_, its=one)
        say("cold", "loads", **facts, reads=all_, **load, **target(all_ / one, at_most=1.0))
        say("cold", "all", **facts, ms=took_ms, **beside("HMS", ours=took_ms, its=straight_ms(uri)))


if __name__ == "__main__":
    main()
