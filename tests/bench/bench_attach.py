"""What it costs a driver to be attached: once, and on each query while nothing changes.

attach    to a session that is in use, until the call returns; worst: of all
live      until its state is live; beside both, a query that reads nothing
start     processor time of the agent until nothing of its start is left to do
idle      of a core, by the agent of a driver that does nothing
memory    of that agent: resident, and without what it shares with others
query     short queries of a driver that is attached, and of the same one that is not: they take
          turns, each after a rest, so that what an attach leaves to do is not in it; the ratio is
          the mean of those of neighbours, without the outer fourths; error: its standard error

Run: make bench ARGS=tests/bench/bench_attach.py
"""

import tempfile
from contextlib import ExitStack
from os import getloadavg
from pathlib import Path
from statistics import fmean, stdev

from psutil import Process

from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.tests.bench.report import beside, quantile, say, target
from topicast.tests.integration.daemons import both_daemons
from topicast.tests.spark.applications import Application, applications
from topicast.tests.spark.jvm.shells import agent_of

ATTACHES = 20
PAIRS = 20
QUERIES = 60  # of a turn
REST_S = 1.0  # before it
ATTACH_MS_MAX = 150.0
LIVE_MS_MAX = 2500.0  # in which a process starts, which is the driver's agent
RATIO_MAX = {"select": 1.01, "read": 1.0}
START_S_MAX = 0.5  # of a processor
SETTLED_S = 8.0  # after which nothing of a start is left to do
IDLE_S = 60.0
IDLE_PERCENT_MAX = 0.2
RESIDENT_MB_MAX = 45.0
PREPARE = """
import time
from topicast.subscriber.spark import attach

def ms(work):
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1000

def select():
    spark.sql("SELECT 1").collect()

def read():
    spark.sql("SELECT * FROM bench.t").collect()

def on():
    global handle
    handle = attach(spark, HUB)

def live():
    while handle.status().state != "live":
        time.sleep(0.0005)

def attached():
    begin = time.perf_counter()
    on()
    returned = time.perf_counter()
    live()
    found = [(returned - begin) * 1000, (time.perf_counter() - begin) * 1000]
    return found

def turn(work, *, attached):
    if attached:
        on()
        live()
        handle.sync(60)
        work()
        handle.sync(60)
    time.sleep(REST_S)
    for _ in range(5):
        work()
    times = sorted(ms(work) for _ in range(QUERIES))
    if attached:
        handle.detach()
    return times[len(times) // 2]
"""


def bench_attach(driver: Application) -> None:
    returned, live = [], []
    for _ in range(ATTACHES):
        first, second = driver.do("attached()")
        returned.append(first)
        live.append(second)
        driver.do("handle.detach()")
    its = quantile([float(driver.do("ms(select)")) for _ in range(ATTACHES)], 0.5)
    for name, times, most in (("attach", returned, ATTACH_MS_MAX), ("live", live, LIVE_MS_MAX)):
        p50 = quantile(times, 0.5)
        against = beside("spark.sql('SELECT 1').collect(), ms", ours=p50, its=its)
        worst = max(times)
        reached = target(worst, at_most=most)
        say("attach", name, n=ATTACHES, p50_ms=p50, worst_ms=worst, **against, **reached)


def bench_agent(driver: Application) -> None:
    driver.do("on(); live(); handle.sync(60)")
    agent = Process(agent_of(driver.pids[1]))
    driver.do(f"time.sleep({SETTLED_S})")
    begun_s = _used_s(agent)
    say("attach", "start", cpu_s=begun_s, **target(begun_s, at_most=START_S_MAX))
    driver.do(f"time.sleep({IDLE_S})")
    percent = (_used_s(agent) - begun_s) / IDLE_S * 100
    facts = {"percent_of_a_core": percent, "load": getloadavg()[0]}
    say("attach", "idle", **facts, **target(percent, at_most=IDLE_PERCENT_MAX))
    memory = agent.memory_full_info()
    resident_mb, own_mb = memory.rss / 1e6, memory.pss / 1e6
    facts = {"resident_mb": resident_mb, "proportional_mb": own_mb}
    say("attach", "memory", **facts, **target(resident_mb, at_most=RESIDENT_MB_MAX))
    driver.do("handle.detach()")


def _used_s(process: Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def bench_query(driver: Application, work: str) -> None:
    pairs = []
    for number in range(PAIRS):
        first = bool(number % 2)  # so that what drifts falls on both
        times = {on: float(driver.do(f"turn({work}, attached={on})")) for on in (first, not first)}
        pairs.append((times[True], times[False]))
    ours, its = (quantile([pair[at] for pair in pairs], 0.5) for at in (0, 1))
    ratios = sorted(mine / other for mine, other in pairs)[PAIRS // 4 : -PAIRS // 4]
    ratio, error = fmean(ratios), stdev(ratios) / len(ratios) ** 0.5
    against = {**beside("one that is not attached, ms", ours=ours, its=its), "ratio": ratio}
    reached = {"error": error, **target(ratio, at_most=RATIO_MAX[work])}
    say("attach", f"query_{work}", n=PAIRS * QUERIES, p50_ms=ours, **against, **reached)


def main() -> None:
    with ExitStack() as up:
        folder = Path(up.enter_context(tempfile.TemporaryDirectory()))
        hive = up.enter_context(EmbeddedMetastore(folder / "hive", durable=False, optimized=True))
        daemons = up.enter_context(both_daemons(folder, hive.uri))
        driver = up.enter_context(applications(folder, hive.uri, driver={}))["driver"]
        driver.do(f"HUB, QUERIES, REST_S = {daemons.hub_address!r}, {QUERIES}, {REST_S}")
        driver.do(PREPARE)
        driver.sql("CREATE DATABASE bench", "CREATE TABLE bench.t (id INT) USING parquet")
        driver.sql("INSERT INTO bench.t VALUES (1)")
        driver.do("for _ in range(100): read(); select()")
        bench_attach(driver)
        bench_agent(driver)
        for work in ("select", "read"):
            bench_query(driver, work)


if __name__ == "__main__":
    main()
