"""What changes of tables that a driver has not cached cost it, and what its sessions cost.

share       of one core that 1,000 changes a second take, beside the same driver without changes
sessions    that 100 sessions take in all, each with a relation of its own, beside one; a table
            changes each second, so the driver looks at all sessions as often as it ever does

A real Spark with a relation of another table, attached; a real statestored; a catalogd of ours
raises data versions of 1,000 tables, one after the other, as reports of other drivers do. Python
and JVM, by processor time, so that what else runs on the machine counts little.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from topicast.tests.bench.bench import Bench
from topicast.tests.bench.catalogd import BenchCatalogd, leading
from topicast.tests.bench.lake import Lake
from topicast.tests.bench.report import at_most, beside, say
from topicast.tests.spark.applications import Application
from topicast.topics.objects.drivers import CONNECTING, LIVE
from topicast.topics.topic import Entry
from topicast.topics.wire.messages.data import SOURCE_REPORTS, Delta

SEED: Final = 5
TABLES: Final = 1000
PER_S: Final = 1000
SECONDS: Final = 10.0
TURN_S: Final = 0.005
ROUNDS: Final = 3
SHARE_MAX: Final = 0.05
SESSIONS: Final = 100
SESSIONS_SHARE_MAX: Final = 0.05
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

OTHERS: Final = """
others = [spark.newSession() for _ in range({count})]
_ = [one.table("mine").count() for one in others]
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


def share_of_changes(driver: Application, catalogd: BenchCatalogd, lake: Lake) -> None:
    """Say what PER_S changes a second cost."""
    flood(catalogd, lake, per_s=PER_S)  # what is warm is measured
    rounds = [
        tuple(shares(driver, catalogd, lake, per_s=per_s) for per_s in (0, PER_S))
        for _ in range(ROUNDS)
    ]
    idle, busy = min(rounds, key=lambda pair: sum(pair[1][:2]))
    say_share("share", "one that receives nothing", idle, busy, most=SHARE_MAX)


def share_of_sessions(driver: Application, catalogd: BenchCatalogd, lake: Lake) -> None:
    """Say what SESSIONS more sessions cost."""

    def least() -> list[float]:
        rounds = [shares(driver, catalogd, lake, per_s=1) for _ in range(ROUNDS)]
        return min(rounds, key=lambda found: sum(found[:2]))

    one, errors = least(), driver.do("handle.status().errors")
    with ThreadPoolExecutor(1) as threads:
        made = threads.submit(driver.do, OTHERS.format(count=SESSIONS))
        while not made.done():
            catalogd.turn(0.1)
    made.result()
    flood(catalogd, lake, per_s=1)
    known = driver.do("handle.status().sessions")
    assert known == 1 + SESSIONS, known
    say_share("sessions", "one session", one, least(), most=SESSIONS_SHARE_MAX, sessions=known)
    assert driver.do("handle.status().errors") == errors, driver.do("handle.status().last_error")


def say_share(
    name: str, what: str, less: list[float], more: list[float], *, most: float, **facts: object
) -> None:
    """Say what ``more`` costs beyond ``less``."""
    cost = sum(more[:2]) - sum(less[:2])
    facts |= {"share": cost, "of_python": more[0] - less[0], "of_jvm": more[1] - less[1]}
    against = beside(what, sum(more[:2]), sum(less[:2]))
    say(name, facts, against, at_most(cost, most), per_s=more[2])


def main(bench: Bench) -> None:
    lake = Lake(TABLES, partitions=10 * TABLES, seed=SEED)
    hub, catalogd = leading(bench, lake)
    (one,) = bench.drivers(NOWHERE, driver=IN_MEMORY)
    one.do(DRIVER.format(hub=hub.address))
    while (state := one.do("handle.status().state")) != LIVE:
        assert state == CONNECTING, one.do("str(handle.status())")
        catalogd.turn(0.1)
    share_of_changes(one, catalogd, lake)
    share_of_sessions(one, catalogd, lake)
