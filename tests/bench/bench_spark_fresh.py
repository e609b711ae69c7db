"""From a write's return in one Spark driver until every query that begins in another is fresh.

fresh, fresh_busy   until the other's relation is renewed, which is looked at without a pause; 0:
                    it was when the write returned; busy: its Python never lets go of its lock
seen_*              until the other's catalog, which is asked all the time, answers with a
                    table that was created, a partition or a column that was added; plain Spark
                    asks the metastore each time, so that it is 0 there
held_up             what a write waits for us, before and after it, while nobody else works; beside
                    it the p99 of as many bare calls of its JVM, made at the same moments

Beside the others stands what plain Spark needs: REFRESH TABLE, typed. Times are ms, on one clock.
"""

from topicast.tests.bench.bench import Bench
from topicast.tests.bench.report import beside, both_at_most, percentiles, quantile, reference, say
from topicast.tests.spark.applications import Application

WRITES = 60
HELD_UP_WRITES = 200  # p99 is not the slowest one
P50_MS_MAX, P99_MS_MAX = 10.0, 50.0
DDLS = 100  # of each kind
DDL_P50_MS_MAX, DDL_P99_MS_MAX = 5.0, 15.0
HELD_UP_P50_MS_MAX, HELD_UP_P99_MS_MAX = 5.0, 10.0
BARE_CALLS = 6  # of the JVM, as a wrapped write makes
TABLE = "CREATE TABLE bench.t (id INT, ds STRING) USING parquet PARTITIONED BY (ds)"
INSERT = "INSERT INTO bench.t VALUES (1, 'a')"
PREPARE = """
import threading
from topicast.subscriber.spark import attach
"""
INNER = """
from pyspark.sql import SparkSession

def timed(method, sign):
    def run(*args, **named):
        at = time.perf_counter()
        try:
            return method(*args, **named)
        finally:
            held[-1] += sign * (time.perf_counter() - at) * 1000
    return run

held = [0.0]
SparkSession.sql = timed(SparkSession.sql, -1)  # Spark's own time, for an attach wraps it
"""
OUTER = """
SparkSession.sql = timed(SparkSession.sql, 1)

def write():
    held.append(0.0)
    spark.sql(INSERT)
    return time.time_ns()

def write_and_call(calls):
    write()
    bare.append(ms(lambda: [system.nanoTime() for _ in range(calls)]))

system, bare = spark._jvm.java.lang.System, []
"""
READER = """
names = spark._jvm.org.apache.spark.sql.catalyst
key = names.QualifiedTableName("spark_catalog", "bench", "t")
busy = threading.Event()

def count():
    return spark.sql("SELECT * FROM bench.t").count()

def is_cached():
    return spark._jsparkSession.sessionState().catalog().getCachedTable(key) is not None

def look():
    while is_cached():
        pass
    seen.append(time.time_ns())

def begin():
    global seen, looking
    handle.sync(60)
    while not is_cached():
        count()
    seen, looking = [], threading.Thread(target=look)
    looking.start()

def work():
    while busy.is_set():
        sum(range(1000))

def rest(table):
    handle.sync(60)
    spark.table(table).count()
    handle.sync(60)
    spark.table(table).count()
"""


SEEN = """
import java.util.concurrent.locks.LockSupport;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalog;

public final class Seen {
    private static final long PAUSE_NS = 200000L;
    private final ExternalCatalog catalog;

    public Seen(ExternalCatalog catalog) {
        this.catalog = catalog;
    }

    public int number(String kind) {
        if (kind.equals("table")) return catalog.listTables("ddl").size();
        if (kind.equals("column")) return catalog.getTable("ddl", "t").schema().length();
        return catalog.listPartitionNames("ddl", "t", scala.Option.apply(null)).size();
    }

    public long more(String kind, int than) {
        while (number(kind) <= than) LockSupport.parkNanos(PAUSE_NS);
        return System.nanoTime();
    }
}
"""
DDL = {  # by kind of what is seen
    "table": "CREATE TABLE ddl.t{at} (id INT) USING parquet",
    "partition": "ALTER TABLE ddl.t ADD PARTITION (ds = '{at}')",
    "column": "ALTER TABLE ddl.t ADD COLUMNS (c{at} INT)",
}
LOOK = """
from topicast.subscriber.spark.java import java_object

catalog = spark._jsparkSession.sharedState().externalCatalog()
seen = java_object(spark._jvm, "Seen", SEEN, catalog)

def holds(kind):
    handle.sync(60)
    while True:
        before = handle.status().metastore_calls_saved
        found = seen.number(kind)
        if handle.status().metastore_calls_saved > before:
            return found
"""


def drivers(bench: Bench) -> tuple[Application, Application, str]:
    """Run two drivers, and all that is between them."""
    hive = bench.metastore()
    hub = bench.daemons(hive).hub_address
    writer, reader = both = bench.drivers(hive.uri, writer={}, reader={})
    for one in both:
        one.do(PREPARE)
    writer.do(f"INSERT = {INSERT!r}")
    writer.sql("CREATE DATABASE bench", TABLE, INSERT)
    return writer, reader, hub


def bench_fresh(writer: Application, reader: Application, *, name: str) -> None:
    delays, rows = [], int(reader.do("count()"))
    for _ in range(WRITES):
        reader.do("begin()")
        returned_ns = int(writer.do("write()"))
        seen_ns = int(reader.do("looking.join() or seen[0]"))
        delays.append(max(0.0, (seen_ns - returned_ns) / 1e6))
        rows += 1
        assert reader.do("count()") == rows, "what counts as fresh is right"
    its = quantile([float(reader.do(REFRESH)) for _ in range(20)], 0.5)
    facts = percentiles(delays)
    reached = both_at_most((facts["p50_ms"], P50_MS_MAX), (facts["p99_ms"], P99_MS_MAX))
    if name != "fresh":
        reached = reference("beside work in all of Spark's threads: it is only stated")
    say(name, facts, beside("REFRESH TABLE, typed", facts["p50_ms"], its), reached)


def bench_seen(writer: Application, reader: Application, kind: str) -> None:
    delays = []
    for at in range(DDLS):
        number = reader.do(f"holds({kind!r})")
        reader.send(f"seen.more({kind!r}, {number})")
        ended_ns = int(writer.do(f"run({DDL[kind].format(at=at)!r})"))
        delays.append(max(0.0, (int(reader.receive()) - ended_ns) / 1e6))
    facts = percentiles(delays)
    reached = both_at_most((facts["p50_ms"], DDL_P50_MS_MAX), (facts["p99_ms"], DDL_P99_MS_MAX))
    say(f"seen_{kind}", facts, reached)


REFRESH = "ms(lambda: spark.sql('REFRESH TABLE bench.t'))"


def bench_held_up(writer: Application) -> None:
    writer.do("held.clear()")
    writer.do(f"for _ in range({HELD_UP_WRITES}): write_and_call({BARE_CALLS})")
    held, bare = ([float(one) for one in writer.do(name)] for name in ("held", "bare"))
    p50, p99 = quantile(held, 0.5), quantile(held, 0.99)
    against = beside("bare calls of the JVM, p99", p99, quantile(bare, 0.99))
    reached = both_at_most((p50, HELD_UP_P50_MS_MAX), (p99, HELD_UP_P99_MS_MAX))
    say("held_up", percentiles(held), against, reached)


def main(bench: Bench) -> None:
    writer, reader, hub = drivers(bench)
    writer.do(INNER)
    for one in (reader, writer):
        one.do(f"handle = attach(spark, {hub!r})")
    writer.do(OUTER)
    reader.do(READER)
    reader.do("rest('bench.t')")
    bench_fresh(writer, reader, name="fresh")
    writer.do("def run(statement):\n    spark.sql(statement)\n    return time.monotonic_ns()")
    writer.sql("CREATE DATABASE ddl", TABLE.replace("bench.t", "ddl.t"))
    reader.do(f"SEEN = {SEEN!r}")
    reader.do(LOOK)
    for kind in DDL:
        bench_seen(writer, reader, kind)
    bench_held_up(writer)
    reader.do("busy.set(); threading.Thread(target=work, daemon=True).start()")
    bench_fresh(writer, reader, name="fresh_busy")
