"""Small deltas while a reader takes in 150 MB of one table, beside the same when it does not.

loading_other   the reader that loads, and a table of another topic
beside_other    a reader that holds everything, and a table of another topic
beside_same     a reader that holds everything, and a small table of the topic that is loaded

Published -> returned by ``watch``, with a real statestored and real subscribers. The loaded table
is shown when it is whole: then the loading reader has every change that came meanwhile.
"""

import time

from topicast.tests.bench.bench import DB, Bench
from topicast.tests.bench.catalogd import (
    BenchCatalogd,
    Reader,
    delays_ms,
    filled,
    small_tables,
    stand,
)
from topicast.tests.bench.report import at_most, beside, percentiles, say

SEED = 7
MEGABYTES = 150
IDLE_CHANGES = 400
LOADS = 5
EVERY_S = 0.01
TABLE = "large"
P99_MS_MAX = 20.0


def publish(catalogd: BenchCatalogd, number: int) -> None:
    """Change a small table: in turn that of another topic and that of the same."""
    begin = time.monotonic()
    name = small_tables(catalogd.catalog)[number % 2]
    catalogd.commit(catalogd.catalog.put_table(DB, name, columns=(f"c{number}",)))
    catalogd.turn(max(begin + EVERY_S - time.monotonic(), 0.0))


def loads(catalogd: BenchCatalogd, reader: Reader) -> list[float]:
    """Return the seconds of each load, with small changes all the while."""
    topic = catalogd.catalog.topic(DB, TABLE)
    took, number = [], 0
    for _ in range(LOADS):
        reader.order("drop", topic)  # what freeing 150 MB takes is not measured
        catalogd.wait_for(reader)
        reader.order("join", topic)
        while not reader.answered:
            publish(catalogd, number)
            number += 1
        seconds = reader.answer()
        assert isinstance(seconds, float)
        took.append(seconds)
    return took


def check_whole(catalogd: BenchCatalogd, reader: Reader) -> None:
    """The reader that loaded has what was published meanwhile."""
    _, near = small_tables(catalogd.catalog)
    topic = catalogd.catalog.topic(DB, near)
    newest = max(version for t, version in catalogd.at if t == topic)
    reader.order("version", f"{DB}.{near}")
    assert catalogd.wait_for(reader) == newest


def measure(catalogd: BenchCatalogd, holder: Reader, loader: Reader) -> None:
    catalog = catalogd.catalog
    other, near = small_tables(catalog)
    for number in range(IDLE_CHANGES):
        publish(catalogd, number)
    catalogd.turn(0.2)
    idle_at = dict(catalogd.at)
    catalogd.at.clear()
    took = loads(catalogd, loader)
    catalogd.turn(0.2)
    check_whole(catalogd, loader)
    for reader in (holder, loader):
        reader.collect()
    facts = {"megabytes": MEGABYTES, "load_s": sum(took) / len(took)}
    for name, reader, table in (
        ("loading_other", loader, other),
        ("beside_other", holder, other),
        ("beside_same", holder, near),
    ):
        topic = catalog.topic(DB, table)
        idle = percentiles(delays_ms(reader, table, topic, idle_at))
        busy = percentiles(delays_ms(reader, table, topic, catalogd.at))
        against = beside("idle p99_ms", busy["p99_ms"], idle["p99_ms"])
        reached = at_most(busy["p99_ms"], P99_MS_MAX)
        say(name, facts, busy, against, reached, idle_p50_ms=idle["p50_ms"])


def main(bench: Bench) -> None:
    _, catalogd, readers = stand(bench, filled(TABLE, MEGABYTES, seed=SEED), readers=2)
    measure(catalogd, *readers)
