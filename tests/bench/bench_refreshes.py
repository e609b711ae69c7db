"""What 1,000 refreshes a second of tables that a driver has not cached cost it.

share    of one core that the driver takes, Python and JVM, beside the same one without changes

A real Spark with a relation of another table, attached; a real statestored; a catalogd of ours
raises data versions of 1,000 tables, one after the other, as reports of other drivers do. By
processor time, so that what else runs on the machine counts little.
Run: make bench ARGS=tests/bench/bench_refreshes.py
"""

import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from topicast.subscriber.spark.status import CONNECTING, LIVE
from topicast.tests.bench.catalogd import BenchCatalogd, leading
from topicast.tests.bench.lake import Lake
from topicast.tests.bench.report import beside, say, target
from topicast.tests.spark.applications import Application, applications
from topicast.topics.topic import Entry
from topicast.topics.wire.messages import SOURCE_REPORTS, Delta

SEED: Final = 5
TABLES: Final = 1000
PER_S: Final = 1000
SECONDS: Final = 10.0
TURN_S: Final = 0.005
ROUNDS: Final = 3
SHARE_MAX: Final = 0.05
NOWHERE: Final = "thrift://127.0.0.1:1"
IN_MEMORY: Final = {"spark.sql.catalogImplementation": "in-memory"}
DRIVER: Final = """
import os, time
from topicast.subscriber.spark import attach
handle = attach(spark, {hub!r})
jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
_ = spark.sql("CREATE TABLE mine USING parquet AS SELECT 1 AS id")
_ = spark.table("mine").count()

def used_s():
    with open(f"/proc/{{jvm}}/stat") as stat:
        words = stat.read().rpartition(")")[2].split()
    of_java = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return time.process_time(), of_java, handle.status().changes
"""


def raised(lake: Lake, number: int) -> Delta:
    """Raise the data version of a table, in a transaction."""
    topic, key = lake.place(number)
    own = lake.topics[topic].get(key)
    assert own is not None
    version = lake.next(topic)
    news = Entry(key, version, own.schema_version, version, own.size, own.value)
    return lake.commit(topic, [news], SOURCE_REPORTS)


def flood(catalogd: BenchCatalogd, lake: Lake, *, per_s: int) -> None:
    """Change ``per_s`` tables a second, evenly, for SECONDS."""
    begin = time.monotonic()
    done = 0
    while (now := time.monotonic()) < begin + SECONDS:
        while done < (now - begin) * per_s:
            catalogd.commit(raised(lake, done % TABLES))
            done += 1
        catalogd.turn(TURN_S)


def shares(driver: Application, catalogd: BenchCatalogd, lake: Lake, *, per_s: int) -> list[float]:
    """Return of how much of a core Python and JVM take, and how many changes a second came."""
    before, begin = driver.do("used_s()"), time.monotonic()
    flood(catalogd, lake, per_s=per_s)
    after, end = driver.do("used_s()"), time.monotonic()
    return [(new - old) / (end - begin) for new, old in zip(after, before, strict=True)]


def main() -> None:
    lake = Lake(TABLES, partitions=10 * TABLES, seed=SEED)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        hub, catalogd = stack.enter_context(leading(lake))
        one = stack.enter_context(applications(folder, NOWHERE, driver=IN_MEMORY))["driver"]
        one.do(DRIVER.format(hub=hub.ready["address"]))
        while (state := one.do("handle.status().state")) != LIVE:
            assert state == CONNECTING, one.do("str(handle.status())")
            catalogd.turn(0.1)
        flood(catalogd, lake, per_s=PER_S)  # what is warm is measured
        rounds = [
            (
                shares(one, catalogd, lake, per_s=0),
                shares(one, catalogd, lake, per_s=PER_S),
            )
            for _ in range(ROUNDS)
        ]
    idle, busy = min(rounds, key=lambda pair: sum(pair[1][:2]))
    cost = sum(busy[:2]) - sum(idle[:2])
    say(
        "refreshes",
        "share",
        share=cost,
        of_python=busy[0] - idle[0],
        of_jvm=busy[1] - idle[1],
        per_s=busy[2],
        **beside("one that hears nothing", ours=sum(busy[:2]), its=sum(idle[:2])),
        **target(cost, at_most=SHARE_MAX),
    )


if __name__ == "__main__":
    main()
