"""What it costs a driver to be attached: once, and on each query while nothing changes.

attach    to a session that is in use, until the call returns; worst: of all
live      until its state is live; beside both, a query that reads nothing
start     processor time of the agent until nothing of its start is left to do
idle      of a core, by the agent of a driver that does nothing
memory    of that agent: resident, and without what it shares with others
query     short queries of a driver that is attached, and of the same driver unattached: they take
          turns, each after a rest, so that what an attach leaves to do is not in it; the ratio is
          the mean of those of neighbours, without the outer fourths; error: its standard error

"""

from os import getloadavg
from statistics import fmean, stdev

from psutil import Process

from topicast.tests.bench.bench import Bench
from topicast.tests.bench.processes import used_s
from topicast.tests.bench.report import at_most, beside, quantile, say
from topicast.tests.spark.applications import Application
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
from topicast.subscriber.spark import attach

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
        p50, worst = quantile(times, 0.5), max(times)
        against = beside("spark.sql('SELECT 1').collect(), ms", p50, its)
        say(name, against, at_most(worst, most), n=ATTACHES, p50_ms=p50, worst_ms=worst)


def bench_agent(driver: Application) -> None:
    driver.do("on(); live(); handle.sync(60)")
    agent = agent_of(driver.pids[1])
    driver.do(f"time.sleep({SETTLED_S})")
    begun_s = used_s(agent)
    say("start", at_most(begun_s, START_S_MAX), cpu_s=begun_s)
    driver.do(f"time.sleep({IDLE_S})")
    percent = (used_s(agent) - begun_s) / IDLE_S * 100
    reached = at_most(percent, IDLE_PERCENT_MAX)
    say("idle", reached, percent_of_a_core=percent, load=getloadavg()[0])
    memory = Process(agent).memory_full_info()
    resident_mb, own_mb = memory.rss / 1e6, memory.pss / 1e6
    reached = at_most(resident_mb, RESIDENT_MB_MAX)
    say("memory", reached, resident_mb=resident_mb, proportional_mb=own_mb)
    driver.do("handle.detach()")


def bench_query(driver: Application, work: str) -> None:
    pairs = []
    for number in range(PAIRS):
        first = bool(number % 2)  # so that what drifts falls on both
        times = {on: float(driver.do(f"turn({work}, attached={on})")) for on in (first, not first)}
        pairs.append((times[True], times[False]))
    ours, its = (quantile([pair[at] for pair in pairs], 0.5) for at in (0, 1))
    ratios = sorted(mine / other for mine, other in pairs)[PAIRS // 4 : -PAIRS // 4]
    ratio, error = fmean(ratios), stdev(ratios) / len(ratios) ** 0.5
    against = {**beside("one that is not attached, ms", ours, its), "ratio": ratio}
    reached = {"error": error, **at_most(ratio, RATIO_MAX[work])}
    say(f"query_{work}", against, reached, n=PAIRS * QUERIES, p50_ms=ours)


def main(bench: Bench) -> None:
    hive = bench.metastore()
    hub = bench.daemons(hive).hub_address
    (driver,) = bench.drivers(hive.uri, driver={})
    driver.do(f"HUB, QUERIES, REST_S = {hub!r}, {QUERIES}, {REST_S}")
    driver.do(PREPARE)
    driver.sql("CREATE DATABASE bench", "CREATE TABLE bench.t (id INT) USING parquet")
    driver.sql("INSERT INTO bench.t VALUES (1)")
    driver.do("for _ in range(100): read(); select()")
    bench_attach(driver)
    bench_agent(driver)
    for work in ("select", "read"):
        bench_query(driver, work)
