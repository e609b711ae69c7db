"""A table that catalogd does not hold, requested by 100 drivers at once, beside straight HMS.

loads   how often it was loaded from the metastore, in reads of what one driver takes
all     ms until the last driver has its answer, beside 100 clients of the metastore
one     ms until one partition of a cold table of 20,000 is there, by name and by filter in turns,
        beside a client that reads the table, its partitions' names and the one

Real processes and sockets; each driver is a connection of its own. The mode is minimal, so what
was invalidated is not loaded before it is asked for. The metastore is a real one (Derby), asked by
hmsclient.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from hmsclient import HMSClient

from topicast.cli.client.operator import Operator
from topicast.subscriber import Subscriber
from topicast.tests.bench.bench import DB, TIMEOUT_S, Bench
from topicast.tests.bench.metastores import create_large
from topicast.tests.bench.report import at_most, beside, percentiles, quantile, say, timed_s
from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.integration.tables import connect
from topicast.tests.keys import user_keys
from topicast.tests.waiting import until
from topicast.topics.keys.folder import DRIVER
from topicast.topics.link import Link
from topicast.topics.objects.selector import ALL
from topicast.topics.streams.sender import CREDIT_DEFAULT
from topicast.topics.wire import decode, encode
from topicast.topics.wire.messages.answers import NamedFacts
from topicast.topics.wire.messages.catalog import Pull, Pulled
from topicast.topics.wire.messages.questions import ReadStatus

DRIVERS = 100
PARTITIONS = 500
TABLES = ("alone", "cold")
MINIMAL = "--catalog_topic_mode=minimal"
LARGE, CALLS, ONE_MS_MAX = 20_000, 20, 500.0
OF_HMS_MAX = 0.2  # of what as many drivers take at the metastore


def ask(address: str, table: str, *, drivers: int) -> float:
    """Have so many drivers pull ``table`` at once; return the ms until all have it."""
    names = {f"driver {number}" for number in range(drivers)}
    pull = Pull(request=1, db="bench", table=table, selector=ALL, credit=CREDIT_DEFAULT)
    own = user_keys(DRIVER).credential
    with closing(Link(own.pair)) as link:
        for name in names:
            link.connect_dealer(name, address, own.catalogd)
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
        facts.update(visit.catalog(ReadStatus()).rows)
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


def prepared(bench: Bench) -> tuple[HMSClient, str, Operator, str]:
    """Run a metastore with tables, and hub and catalogd, which has loaded none of them."""
    hive = bench.metastore(optimized=False)
    client = bench.client(hive)
    for name in TABLES:
        table = make_table(DB, name, location=f"file:{bench.folder}/{name}", keys=["ds"])
        client.create_table(table)
        days = range(PARTITIONS)
        client.add_partitions([make_partition(table, [f"{day:03}"]) for day in days])
    create_large(hive, client, (DB, "large"), partitions=LARGE)
    address, _ = bench.served(hive, MINIMAL)
    visit = bench.operator(address)
    for order in ("refresh", "invalidate"):  # events of their creation may have loaded them
        visit.order(order, (DB,), NamedFacts, sender="bench")
    return client, hive.uri, visit, address


def one_of_many(client: HMSClient, visit: Operator, catalog: Subscriber) -> None:
    """Say how long a driver waits for one partition of a large table that is not loaded."""
    mine, theirs = [], []
    for number in range(CALLS):
        visit.order("invalidate", ("bench.large",), NamedFacts, sender="bench")
        day = f"{LARGE - 1 - number:08}"
        theirs.append(timed_s(lambda day=day: straight_to_one(client, day)) * 1000)
        how = {"filter": f"ds = '{day}'"} if number % 2 else {"names": [f"ds={day}"]}
        begin = time.perf_counter()
        (found,) = catalog.partitions("bench.large", **how)
        mine.append((time.perf_counter() - begin) * 1000)
        assert found.values == (day,)
    against = beside("HMS", quantile(mine, 0.5), quantile(theirs, 0.5))
    reached = at_most(quantile(mine, 0.99), ONE_MS_MAX)
    say("one", percentiles(mine), against, reached, partitions=LARGE)


def straight_to_one(client: HMSClient, day: str) -> None:
    """Read what a driver reads for one partition of a table that it does not know."""
    client.get_table("bench", "large")
    assert len(client.get_partition_names("bench", "large", -1)) == LARGE
    client.get_partitions_by_names("bench", "large", [f"ds={day}"])


def main(bench: Bench) -> None:
    client, uri, visit, hub = prepared(bench)
    address = visit.welcome.catalog_address
    counts = [reads(visit, pulls=0)]
    ask(address, "alone", drivers=1)
    counts.append(reads(visit, pulls=1))
    took_ms = ask(address, "cold", drivers=DRIVERS)
    counts.append(reads(visit, pulls=1 + DRIVERS))
    one, all_ = counts[1] - counts[0], counts[2] - counts[1]
    facts = {"drivers": DRIVERS, "partitions": PARTITIONS}
    say("loads", facts, beside("reads for one driver", all_, one, most=1.0), reads=all_)
    one_of_many(client, visit, bench.subscriber(hub))
    say("all", facts, beside("HMS", took_ms, straight_ms(uri), most=OF_HMS_MAX), ms=took_ms)
