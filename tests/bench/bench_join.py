"""Joining a topic of 100,000 partitions, and dropping it, in a driver with little room to spare.

join     the call, ms; beside hmsclient, which reads as many from a real metastore
others   small changes in another topic while it joins: published -> returned by ``watch``
budget   the most that counted at any moment, while what was pulled gave way to the topic
drop     the call; ``left``: bytes of the topic that count after it

A real statestored, a catalogd of ours, the driver in a process of its own; a hundred times each.
"""

import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Final

from topicast.subscriber import Subscriber
from topicast.subscriber.store.resident_set import Budget
from topicast.tests.bench.bench import DB, Bench
from topicast.tests.bench.bench_representation import KEYS
from topicast.tests.bench.catalogd import NUM_TOPICS, BenchCatalogd, leading
from topicast.tests.bench.metastores import create_large
from topicast.tests.bench.processes import Reporter
from topicast.tests.bench.report import at_most, beside, percentiles, quantile, say
from topicast.tests.bench.source import Catalog
from topicast.tests.bench.stores import blocks_of
from topicast.topics.streams.followers import TopicLevel

PARTITIONS: Final = 100_000
JOINS: Final = 100
IDLE_CHANGES: Final = 400
PIECE: Final = 1000  # partitions that are read in one call
EVERY_S: Final = 0.005
PULLED: Final = 200  # tables that the driver has pulled before
WIDE: Final = tuple(f"a_column_with_a_name_{number:03d}" for number in range(100))
SPARE_BYTES: Final = 300_000  # less than was pulled
JOIN_S_MAX, P99_MS_MAX = 1.0, 20.0
TABLE: Final = "large"


def filled() -> Catalog:
    """Return a catalog with the large table, a table that changes, and tables that are pulled."""
    catalog = Catalog(NUM_TOPICS)
    catalog.create_database(DB)
    catalog.create_table(DB, TABLE, keys=KEYS)
    catalog.fill(DB, TABLE, *blocks_of(PARTITIONS))
    catalog.create_table(DB, changing(catalog))
    for name in pulled(catalog):
        catalog.create_table(DB, name)
        catalog.put_table(DB, name, columns=WIDE)
    return catalog


def changing(catalog: Catalog) -> str:
    """Return the name of a table in another topic than the large table."""
    return next(name for name in _elsewhere(catalog, "changing"))


def pulled(catalog: Catalog) -> list[str]:
    """Return the names of tables in other topics than the large table."""
    names = _elsewhere(catalog, "pulled")
    return [next(names) for _ in range(PULLED)]


def _elsewhere(catalog: Catalog, lead: str) -> Iterator[str]:
    topic = catalog.topic(DB, TABLE)
    number = 0
    while number := number + 1:
        if catalog.topic(DB, name := f"{lead}{number}") != topic:
            yield name


class Driver(Reporter):
    """The process of a driver: joins, drops and watches.

    It answers with seconds, bytes of the topic, the most that ever counted, the budget.
    """

    def __init__(self, hub: str, catalog: Catalog) -> None:
        topic = catalog.topic(DB, TABLE)
        super().__init__(_drive, hub, topic, (changing(catalog), *pulled(catalog)))
        self.seen: list[tuple[int, float]] = []  # version, when


def _drive(
    hub: str, topic: int, tables: tuple[str, ...], reported: Connection, orders: Connection
) -> None:
    most = _watch_budget()
    with Subscriber(hub, levels="auto", budget="1GB", timeout_s=60) as catalog:
        full_bytes = next(one.full_bytes for one in catalog.topics() if one.id == topic)
        budget_bytes = catalog.stats().held_bytes + full_bytes + SPARE_BYTES
    with Subscriber(hub, levels="auto", budget=budget_bytes, timeout_s=60) as catalog:
        for name in tables:
            catalog.table(f"{DB}.{name}")
        threading.Thread(target=_tell, args=(catalog, tables[0], reported), daemon=True).start()
        orders.send((0.0, 0, 0, budget_bytes))
        most.clear()
        while True:
            took = _obey(catalog, *orders.recv(), topic, tables=tables)
            held = next(one.bytes for one in catalog.topics() if one.id == topic)
            orders.send((took, held, max(most, default=0), budget_bytes))


def _obey(catalog: Subscriber, order: str, topic: int, *, tables: tuple[str, ...]) -> float:
    """Do what is ordered; return the seconds."""
    begin = time.monotonic()
    if order == "join":
        catalog.join(topic)
    elif order == "drop":
        catalog.drop(topic)
    else:
        for name in tables:
            catalog.table(f"{DB}.{name}")
    return time.monotonic() - begin


def _tell(catalog: Subscriber, table: str, reported: Connection) -> None:
    for change in catalog.watch(f"{DB}.{table}"):
        reported.send((change.version, time.monotonic()))


def _watch_budget() -> list[int]:
    """Note what counts, each time that it grows, from now on."""
    noted: list[int] = []
    hold = Budget.hold

    def noting(budget: Budget, topic_level: TopicLevel, growth: int) -> None:
        hold(budget, topic_level, growth)
        if growth > 0:
            noted.append(budget.held_bytes)

    Budget.hold = noting  # type: ignore[method-assign]  # to look, nothing else
    return noted


class Joining:
    """A driver, and a catalogd that publishes small changes while it is busy."""

    def __init__(self, catalogd: BenchCatalogd, driver: Driver) -> None:
        self._catalogd = catalogd
        self._driver = driver
        self._name = changing(catalogd.catalog)
        self._topic = catalogd.catalog.topic(DB, self._name)
        self.budget_bytes = int(self._answer()[3])

    def idle(self) -> list[float]:
        """Return how long changes take while nothing else happens, ms."""
        for _ in range(IDLE_CHANGES):
            self._publish()
        return self.delays_ms()

    def order(self, what: str) -> tuple[float, ...]:
        """Let the driver do something; small changes come all the while."""
        self._driver.order(what)
        while not self._driver.answered:
            self._publish()
        self._catalogd.turn(0.05)  # what was published arrives
        return self._driver.answer()

    def pull(self) -> None:
        """Let the driver pull again what gave way."""
        self._driver.order("pull")
        self._answer()

    def delays_ms(self) -> list[float]:
        """Return how long changes took since the last call, ms."""
        self._catalogd.turn(0.3)
        self._driver.seen += self._driver.reports()
        at = self._catalogd.at
        found = [
            (seen - at[self._topic, version]) * 1000
            for version, seen in self._driver.seen
            if (self._topic, version) in at
        ]
        self._driver.seen.clear()
        at.clear()
        return found

    def _answer(self) -> tuple[float, ...]:
        while not self._driver.answered:
            self._catalogd.turn(0.01)
        return self._driver.answer()

    def _publish(self) -> None:
        begin = time.monotonic()
        catalogd = self._catalogd
        columns = (f"c{begin}",)
        catalogd.commit(catalogd.catalog.put_table(DB, self._name, columns=columns))
        catalogd.turn(max(begin + EVERY_S - time.monotonic(), 0.0))


def fetch_s(bench: Bench) -> float:
    """Return what it takes hmsclient to read so many: their names, then by names in pieces."""
    hive = bench.metastore()
    client = bench.client(hive)
    create_large(hive, client, (DB, TABLE), partitions=PARTITIONS)
    begin = time.monotonic()
    names = client.get_partition_names(DB, TABLE, -1)
    found = 0
    for at in range(0, PARTITIONS, PIECE):
        found += len(client.get_partitions_by_names(DB, TABLE, names[at : at + PIECE]))
    assert found == PARTITIONS
    return time.monotonic() - begin


def main(bench: Bench) -> None:
    with Bench() as stand:
        hub, catalogd = leading(stand, filled())
        driver = stand.enter_context(Driver(hub.address, catalogd.catalog))
        joining = Joining(catalogd, driver)
        idle = percentiles(joining.idle())
        joins, drops = [], []
        for _ in range(JOINS):
            joins.append(joining.order("join"))
            drops.append(joining.order("drop"))
            joining.pull()
        busy = percentiles(joining.delays_ms())
    seconds = [answer[0] for answer in joins]
    s, held, budget_bytes = max(seconds), int(joins[0][1]), joining.budget_bytes
    facts = {"partitions": PARTITIONS, "bytes": held, "p50_ms": quantile(seconds, 0.5) * 1000}
    say("join", facts, beside("hmsclient's s", s, fetch_s(bench)), at_most(s, JOIN_S_MAX), s=s)
    against = beside("idle p99_ms", busy["p99_ms"], idle["p99_ms"])
    say("others", busy, against, at_most(busy["p99_ms"], P99_MS_MAX))
    most = int(max(answer[2] for answer in (*joins, *drops)))
    against = beside("the budget", most, budget_bytes)
    say("budget", against, at_most(most, budget_bytes), bytes=most)
    left = int(max(answer[1] for answer in drops))
    took_ms = max(answer[0] for answer in drops) * 1000
    say("drop", beside("the bytes held", left, held), at_most(left, 0), ms=took_ms, left=left)
