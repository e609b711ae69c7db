"""What a driver that plans from memory saves: calls of the metastore, and time.

calls       that reach the metastore in 40 filtered joins, once what they read is held
plans_N_M   plans a second of that join, of N threads, the metastore M ms away: attached, beside the
            same driver whose catalog is Spark's own (handle.control("off"))
missing     whether a table exists that does not: it misses everything, and the metastore is asked

A plan is a physical one, made in the JVM; nothing runs. The table has 10,000 partitions, of which
the join needs two.

UNFILTERED=100000 in the environment: instead of these, one plan that needs so many partitions, all
of a table, 7 minutes in all. The heap is that of the driver, after a collection, with the plan.

all_plain   Spark's own catalog
all_N       attached with a budget of N, beside Spark's own; with the memory of its agent at most

"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from topicast.cli.quickstart.processes.counting import Counting
from topicast.subscriber import Subscriber
from topicast.tests.bench.bench import DB, Bench
from topicast.tests.bench.metastores import create_large
from topicast.tests.bench.report import at_least, at_most, beside, reference, say
from topicast.tests.spark.applications import Application
from topicast.tests.spark.jvm.shells import agent_of
from topicast.tests.waiting import until

PARTITIONS = 10_000
ADDED = 2_500  # by one statement
MISSES, MISSES_TURNS = 200, 5
MISS_MS_MAX = 0.2  # that it costs, beside plain Spark
QUERIES = 40
TURN_S = 3.0  # of planning, for each number
WARM_S = 6.0
WAIT_S = 60
DELAYS_MS = {0: 8.0, 20: 40.0}  # how far away the metastore is -> the least ratio, of 4 threads
THREADS = (1, 4)
JOIN = (
    "SELECT count(*) FROM bench.days a JOIN bench.days b ON a.id = b.id"
    " WHERE a.ds = 'd00017' AND b.ds = 'd00018'"
)
UNFILTERED = int(os.environ.get("UNFILTERED", "0"))
BUDGETS = ("64MB", "1GB")  # the default, which is too small for such a list; a budget that keeps it
HEAP = "2g"
BATCHES = {"hive.metastore.direct.sql.batch.size": "1000"}  # Derby compiles no list of 100,000
PLANS = 3
LOAD_S = 300  # until catalogd holds the table
ALL = "SELECT * FROM bench.large WHERE ds IS NOT NULL"  # of which the metastore can select nothing
WHOLE = """
import gc, time
from topicast.subscriber.spark import attach

memory = spark._jvm.java.lang.management.ManagementFactory.getMemoryMXBean()

def planned():
    begun = time.perf_counter()
    plan = spark.sql(ALL)._jdf.queryExecution().sparkPlan()
    took_s = time.perf_counter() - begun
    memory.gc()
    heap_bytes = memory.getHeapMemoryUsage().getUsed()
    del plan
    gc.collect()
    return took_s, heap_bytes / 1e6
"""
PLANNER = """
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import java.util.concurrent.atomic.AtomicInteger;

public final class Plans {
    private final SparkSession session;
    private final String query;

    public Plans(SparkSession session, String query) {
        this.session = session;
        this.query = query;
    }

    public double missingMs(int calls) {
        long[] took = new long[calls];
        for (int at = 0; at < calls; at++) {
            long begun = System.nanoTime();
            if (session.sharedState().externalCatalog().tableExists("bench", "missing" + at)) {
                throw new IllegalStateException("it exists");
            }
            took[at] = System.nanoTime() - begun;
        }
        java.util.Arrays.sort(took);
        return took[calls / 2] / 1e6;
    }

    public int count(int threads, long ms) throws Exception {
        final long until = System.nanoTime() + ms * 1000000L;
        final AtomicInteger found = new AtomicInteger();
        Thread[] all = new Thread[threads];
        for (int at = 0; at < threads; at++) {
            final SparkSession mine = session.newSession();
            all[at] = new Thread() {
                public void run() {
                    SparkSession.setActiveSession(mine);
                    while (System.nanoTime() < until) {
                        ((Dataset) mine.sql(query)).queryExecution().sparkPlan();
                        found.incrementAndGet();
                    }
                }
            };
            all[at].start();
        }
        for (int at = 0; at < threads; at++) all[at].join();
        return found.get();
    }
}
"""
PREPARE = """
from topicast.subscriber.spark import attach
from topicast.subscriber.spark.java import java_object

plans = java_object(spark._jvm, "Plans", PLANNER, spark._jsparkSession, JOIN)
handle = attach(spark, HUB, metastore=METASTORE, max_staleness="300s")
"""


class Planning:
    """An attached driver, what counts and delays its calls, and its table."""

    def __init__(self, driver: Application, counting: Counting) -> None:
        self.driver = driver
        self.counting = counting

    def per_s(self, *, threads: int, for_s: float = TURN_S) -> float:
        """Return how many plans a second are made."""
        return float(self.driver.do(f"plans.count({threads}, {int(for_s * 1000)})")) / for_s

    @contextmanager
    def plain(self) -> Iterator[None]:
        """Let the catalog be Spark's own meanwhile."""
        self._switch("off")
        try:
            yield
        finally:
            self._switch("on")
            self.is_held()

    def is_held(self) -> None:
        """Wait until everything that the join reads is held."""
        self.driver.do(f"handle.sync({WAIT_S})")
        until(lambda: self.calls(1) == 0, timeout_s=WAIT_S, what="plans without a call")

    def calls(self, queries: int) -> int:
        """Return the calls of so many joins."""
        self.counting.take()
        self.driver.do(f"for _ in range({queries}): spark.sql(JOIN).collect()")
        return sum(self.counting.take().values())

    def _switch(self, control: str) -> None:
        self.driver.do(f"handle.control({control!r})")
        status = "handle.status().planning"
        until(lambda: self.driver.do(status) == control, timeout_s=WAIT_S, what=control)


def create(driver: Application) -> None:
    driver.sql(
        "CREATE DATABASE bench",
        "CREATE TABLE bench.days (id INT, ds STRING) USING parquet PARTITIONED BY (ds)",
    )
    for begin in range(0, PARTITIONS, ADDED):
        days = " ".join(f"PARTITION (ds = 'd{day:05}')" for day in range(begin, begin + ADDED))
        driver.sql(f"ALTER TABLE bench.days ADD {days}")


def bench_calls(planning: Planning) -> None:
    with planning.plain():
        plain = planning.calls(QUERIES)
    attached = planning.calls(QUERIES)
    against = beside("the same queries in plain Spark, calls", attached, plain)
    say("calls", against, at_most(attached, 0), n=QUERIES, calls=attached)


def bench_plans(planning: Planning, delay_ms: int, *, least: float) -> None:
    planning.counting.delay_s = delay_ms / 1000
    with planning.plain():
        its = {threads: planning.per_s(threads=threads) for threads in THREADS}
    ours = {threads: planning.per_s(threads=threads) for threads in THREADS}
    planning.counting.delay_s = 0.0
    for threads in THREADS:
        per_s, its_per_s = ours[threads], its[threads]
        reached = reference("one thread: planning itself is the limit")
        if threads > 1:
            reached = at_least(per_s / its_per_s, least)
        against = beside("plain Spark, plans/s", per_s, its_per_s)
        name, n = f"plans_{threads}_{delay_ms}", int(per_s * TURN_S)
        say(name, against, reached, n=n, per_s=per_s)


def bench_missing(planning: Planning) -> None:
    """Say what a read costs that neither memory nor the endpoint can answer."""
    ask = f"plans.missingMs({MISSES})"
    ours, its = [], []
    for _ in range(MISSES_TURNS):
        with planning.plain():
            its.append(float(planning.driver.do(ask)))
        ours.append(float(planning.driver.do(ask)))
    mine, other = median(ours), median(its)
    against, reached = beside("plain Spark, ms", mine, other), at_most(mine - other, MISS_MS_MAX)
    facts = {"n": MISSES * MISSES_TURNS, "p50_ms": mine, "more_ms": mine - other}
    say("missing", facts, against, reached)


def bench_all(driver: Application, counting: Counting, *, hub: str, metastore: str) -> None:
    """Say what one plan of all partitions of a table takes."""
    driver.do(f"ALL = {ALL!r}")
    driver.do(WHOLE)
    plain_s, facts = plans_of_all(driver, counting)
    say("all_plain", facts, reference("what Spark itself takes"))
    for budget in BUDGETS:
        given = f"{hub!r}, metastore={metastore!r}, budget={budget!r}, max_staleness='300s'"
        driver.do(f"handle = attach(spark, {given})")
        driver.do(f"handle.sync({LOAD_S})")
        until(lambda: driver.do("handle.status().endpoint") == "on", timeout_s=WAIT_S, what="it")
        took_s, facts = plans_of_all(driver, counting)
        facts["agent_mb"] = peak_mb(agent_of(driver.pids[1]))
        against = beside("plain Spark, s", took_s, plain_s)
        say(f"all_{budget}", facts, against, reference("its memory is bounded"))
        driver.do("handle.detach()")


def plans_of_all(driver: Application, counting: Counting) -> tuple[float, dict[str, Any]]:
    """Return the seconds of one of several such plans, and the facts of all of them."""
    driver.do("planned()")  # what a JVM does once
    counting.take()
    found = [driver.do("planned()") for _ in range(PLANS)]
    took_s = median(one for one, _ in found)
    heap_mb = max(one for _, one in found)
    calls = sum(counting.take().values()) / PLANS
    return took_s, {"partitions": UNFILTERED, "s": took_s, "calls": calls, "heap_mb": heap_mb}


def peak_mb(pid: int) -> float:
    """Return the most that a process has had in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = (line for line in lines if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1000


def main_of_all(bench: Bench) -> None:
    hive = bench.metastore(settings=BATCHES)
    create_large(hive, bench.client(hive), (DB, "large"), partitions=UNFILTERED)
    hub = bench.daemons(hive).hub_address
    with Subscriber(hub, timeout_s=LOAD_S) as catalog:
        assert len(catalog.partition_names("bench.large")) == UNFILTERED  # catalogd has them
    counting = bench.enter_context(Counting(hive.uri))
    (driver,) = bench.drivers(counting.uri, driver={"spark.driver.memory": HEAP})
    bench_all(driver, counting, hub=hub, metastore=hive.uri)


def main(bench: Bench) -> None:
    if UNFILTERED:
        main_of_all(bench)
        return
    hive = bench.metastore()
    hub = bench.daemons(hive).hub_address
    counting = bench.enter_context(Counting(hive.uri))
    (driver,) = bench.drivers(counting.uri, driver={})
    create(driver)
    driver.do(f"HUB, METASTORE = {hub!r}, {hive.uri!r}")
    driver.do(f"PLANNER, JOIN = {PLANNER!r}, {JOIN!r}")
    driver.do(PREPARE)
    planning = Planning(driver, counting)
    planning.is_held()
    planning.per_s(threads=max(THREADS), for_s=WARM_S)
    bench_calls(planning)
    bench_missing(planning)
    for delay_ms, least in DELAYS_MS.items():
        bench_plans(planning, delay_ms, least=least)
    driver.do("handle.detach()")
