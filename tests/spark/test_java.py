"""What our classes of Java do when threads meet in them, those of a killed agent among them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from topicast.cli.quickstart.metastore.java import cache_folder, java_home_for_spark
from topicast.subscriber.spark.jar.bootstrap import bootstrap_source
from topicast.subscriber.spark.java import java_object, java_unit
from topicast.tests.spark.applications import SPARK, Application
from topicast.tests.spark.conftest import Drivers
from topicast.tests.waiting import until

PREPARE = """
from threading import Thread
from topicast.subscriber.spark.jar.bootstrap import bootstrap_source
from topicast.subscriber.spark.java import java_class, java_object, java_source, java_unit
from topicast.subscriber.spark.planning.router import Router, router_source
from topicast.subscriber.spark.refresh.catalyst import Catalyst
from topicast.subscriber.spark.refresh.registry import registry_source
attach(spark, hub).detach()  # whatever was attached in other modules
registry = Catalyst.probe(spark).registry
registry.adopt(spark._jsparkSession)
_ = spark.sql("SHOW DATABASES")  # then its catalog is there
first = java_class(spark._jvm, "TopicastBootstrap", bootstrap_source())

def made(name):
    kind = first.getClassLoader().loadClass(name)
    return kind.getConstructors()[0].newInstance(spark._jvm.java.util.ArrayList().toArray())

def router():
    source = router_source(spark._jvm).replace("Topicast", "Other")
    return Router(java_object(spark._jvm, "OtherPlanning", source, registry))
"""
WRITES_WHILE_SYNCED = """
public final class Race extends Thread {
    private final TopicastWrites writes = new TopicastWrites(new TopicastObjects());
    private volatile long passed;
    private volatile boolean ended;

    public void run() {
        while (!ended) writes.synced(passed);
    }

    // Return after how many writes of a table one was not known any more; 0: each was.
    public int lost(int times) {
        setDaemon(true);
        start();
        int lost = 0;
        for (int at = 1; at <= times && lost == 0; at++) {
            writes.mark("shop.orders");
            if (!writes.isDirty("shop.orders")) lost = at;
            passed = writes.newest();
        }
        ended = true;
        return lost;
    }
}
"""
LEASED = """
public final class Leased {
    private static final long MS = 1000000L;

    // Return whether a lease of 3 s holds once so many ms have passed by either clock.
    public boolean after(long running, long wall) {
        TopicastLease lease = new TopicastLease();
        lease.extendAt(3000L, -5L * MS, 1700000000000L);
        return lease.holdsAt((running - 5L) * MS, 1700000000000L + wall);
    }

    public boolean atFirst() {
        return new TopicastLease().holds();
    }
}
"""
UNREADABLE = """
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusCache;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import SEQ;

public final class Unreadable {
    // Return how often the lister of the relation of now has listed when a statement has it do so.
    public int refreshed() throws Exception {
        Index present = new Index(false);
        TopicastFamilies all = new TopicastFamilies();
        all.discarded("session", "shop.orders", new Index(true));
        all.find("session", "shop.orders").loaded(present);
        present.refresh();
        return present.refreshed;
    }

    static final class Index implements FileIndex {
        FileStatusCache fileStatusCache = NoopCache$.MODULE$;
        final boolean fails;
        int refreshed;
        Index(boolean fails) { this.fails = fails; }
        public void refresh() {
            if (fails) throw new IllegalStateException("no such store");
            fileStatusCache.invalidateAll();
            refreshed++;
        }
        public Seq rootPaths() { return null; }
        public Seq listFiles(Seq partitions, Seq data) { return null; }
        public String[] inputFiles() { return new String[0]; }
        public long sizeInBytes() { return 0L; }
        public org.apache.spark.sql.types.StructType partitionSchema() { return null; }
    }
}
"""
TURKISH = """
public final class Turkish {
    public boolean isMeant(String key, String name) {
        java.util.Locale before = java.util.Locale.getDefault();
        java.util.Locale.setDefault(new java.util.Locale("tr"));
        try {
            return TopicastIceberg.isMeant(key, name);
        } finally {
            java.util.Locale.setDefault(before);
        }
    }
}
"""
LISTER = """
leaf = spark.table("superseded.t")._jdf.queryExecution().analyzed().collectLeaves().head()
kept = spark._jvm.java.lang.ref.WeakReference(leaf.relation().location())
"""
NOBODY_TAKES = """
public final class Full {
    // Queue so many executions of 1 MB each, and return what is taken first.
    public String run(int times) throws Exception {
        TopicastListener listener = new TopicastListener(Integer.valueOf(10000));
        for (int at = 0; at < times; at++) listener.add("executed " + at, new byte[1 << 20]);
        return listener.take(0L, 0L);
    }
}
"""
ENDED = """
import java.lang.ref.WeakReference;

public final class Ended {
    // Return what serves a context whose agent does not run, once the context was stopped; perhaps
    // it was detached before.
    public WeakReference served(boolean detached) throws Exception {
        SparkConf conf = new SparkConf().setMaster("local[1]").setAppName("ended");
        SparkContext context = new SparkContext(conf.set("spark.ui.enabled", "false"));
        List command = new ArrayList();
        command.add("false");
        TopicastBootstrap served = new TopicastBootstrap().attach(context, command, "", "{}");
        if (detached) {
            served.stop();
            if (TopicastBootstrap.serve(context, command, "", "{}") != null)
                throw new IllegalStateException("a new session attaches it again");
        }
        context.stop();
        return new WeakReference(served);
    }
}
"""
HEAP_MB = 128
SPARK_HEAP_MB = 512  # less than 450 MB are refused by SparkContext
MARKS = 2_000_000  # 2 s; before, one of half a million was lost


@pytest.fixture(scope="module")
def driver(drivers: Drivers) -> Application:
    driver = drivers.writer
    driver.do(f"hub = {drivers.daemons.hub_address!r}")
    driver.do(PREPARE)
    return driver


def test_what_a_killed_agent_left_waiting_takes_no_question_from_the_next_agent(
    driver: Application,
) -> None:
    """Given its call in the JVM, which goes on after the process has ended."""
    driver.do("board, left, answers = made('TopicastBoard'), [], []")
    driver.do("Thread(target=lambda: left.append(board.request(60000)), daemon=True).start()")
    until(lambda: driver.do("board.resume() or left") == [""], timeout_s=20)
    driver.do("Thread(target=lambda: answers.append(board.ask('what', 60000))).start()")
    assert driver.do("board.request(20000)") == "1 what"
    driver.do("board.answer(1, 'so')")
    until(lambda: driver.do("answers") == ["so"], timeout_s=20)


def test_what_a_killed_agent_left_waiting_takes_no_read_that_is_to_be_confirmed(
    driver: Application,
) -> None:
    driver.do("mine, left = router(), []")
    begin = "mine.begin(bytes_max=1 << 20, validate='catalogd')"
    driver.do(begin)
    try:
        driver.do("Thread(target=lambda: left.append(mine.unconfirmed(60)), daemon=True).start()")
        until(lambda: driver.do(f"{begin} or left") == [[]], timeout_s=20)
    finally:
        driver.do("mine.end()")


def test_sync_that_has_passed_a_write_leaves_a_newer_write_of_the_table(
    driver: Application,
) -> None:
    parts = [f"Topicast{one}" for one in ("Writes", "Objects", "Names", "Sizes", "Lines")]
    room = "topicast.subscriber.spark.planning"
    sources = f"*(java_source({room!r}, one) for one in {parts}), {WRITES_WHILE_SYNCED!r}"
    driver.do(f"source = java_unit({sources})")
    assert driver.do(f"java_object(spark._jvm, 'Race', source).lost({MARKS})") == 0


def test_lease_of_memory_ends_while_the_machine_sleeps(driver: Application) -> None:
    """System.nanoTime() stands still then; the wall clock may be set, forward or back."""
    sources = f"java_source('topicast.subscriber.spark.planning', 'TopicastLease'), {LEASED!r}"
    driver.do(f"leased = java_object(spark._jvm, 'Leased', java_unit({sources}))")
    assert driver.do("leased.atFirst()") is False
    passed = {
        (2_999, 2_999): True,
        (3_000, 2_999): False,
        (100, 3_600_000): False,
        (2_999, -3_600_000): True,
        (3_000, -3_600_000): False,
    }
    for (running, wall), holds in passed.items():
        assert driver.do(f"leased.after({running}, {wall})") is holds, (running, wall)


def test_agent_that_ends_late_leaves_the_catalogs_to_the_agent_that_has_begun_since(
    driver: Application,
) -> None:
    driver.do("before, after = (lambda it: (it, Router(it._java)))(router())")
    driver.do("before.begin(bytes_max=1 << 20); after.begin(bytes_max=1 << 20); before.end()")
    name = "spark._jsparkSession.sharedState().externalCatalog().unwrapped().getClass().getName()"
    assert driver.do(name) == "OtherCatalog"
    driver.do("after.end()")
    assert driver.do(name) == "org.apache.spark.sql.hive.HiveExternalCatalog"


def test_endpoint_of_a_killed_agent_is_not_asked_once_the_next_agent_has_begun(
    driver: Application,
) -> None:
    """Given its port, on which another process may listen by then."""
    driver.do("from topicast.subscriber.spark.planning.router import EndpointAddress")
    driver.do("mine = router(); mine.begin(bytes_max=1 << 20)")
    driver.do("mine.endpoint(EndpointAddress(1, 'x' * 32))")
    until(lambda: driver.do("mine.status()['reader_failures']") != "0", timeout_s=20)
    try:
        driver.do("mine.begin(bytes_max=1 << 20)")
        assert driver.do("mine.status()['reader_failures']") == "0", "it has no readers"
    finally:
        driver.do("mine.end()")


def of_registry(source: str) -> str:
    """Return what makes an object of the class ``source``, beside the registry's own classes."""
    name = source.partition("class ")[2].partition(" ")[0]
    return f"java_object(spark._jvm, {name!r}, java_unit(registry_source(), {source!r}))"


def test_statement_does_not_fail_because_files_that_it_does_not_read_cannot_be_listed(
    driver: Application,
) -> None:
    """Given a former relation of the table, at another location that cannot be reached."""
    seq = "scala.collection.immutable.Seq" if SPARK >= (4, 0) else "scala.collection.Seq"
    source = UNREADABLE.replace("SEQ", seq)
    assert driver.do(f"{of_registry(source)}.refreshed()") == 2, "once for the others"


def test_table_of_iceberg_is_known_by_its_name_in_each_language(driver: Application) -> None:
    """Given a JVM in Turkish, where TITLE in lower case has an i without a dot."""
    driver.do(f"turkish = {of_registry(TURKISH)}")
    assert driver.do("turkish.isMeant('shop.TITLE', 'shop.title')") is True
    assert driver.do("turkish.isMeant('SHOP.ITEMS', 'shop')") is True
    assert driver.do("turkish.isMeant('shop.titles', 'shop.title')") is False


def test_relation_that_a_query_has_superseded_is_not_kept_alive(driver: Application) -> None:
    """Given no refresh after it, as when the driver is detached meanwhile."""
    driver.sql("CREATE DATABASE superseded", "CREATE TABLE superseded.t USING parquet AS SELECT 1")
    driver.rows("SELECT * FROM superseded.t")
    driver.do("import gc; its = Catalyst.probe(spark); mine = spark._jsparkSession.sessionUUID()")
    driver.do(LISTER)
    driver.do("registry.supersede('superseded', 't')")
    driver.do("del leaf; gc.collect()")

    def is_gone() -> bool:
        driver.do("spark._jvm.System.gc(); gc.collect()")
        return driver.do("kept.get() is None") is True

    until(is_gone, timeout_s=20, what="nobody holds it", interval_s=1.5)
    assert driver.do("'superseded.t' in its.look()[mine].tables"), "a refresh finds that it was"


@contextmanager
def small_jvm(heap_mb: int) -> Iterator[Any]:
    """Run a JVM that has Spark's classes, and so much heap, until the block ends."""
    jars = Path(pyspark.__file__).parent / "jars"
    java_home = java_home_for_spark(cache_folder())
    port, token, process = launch_gateway(
        jarpath=str(next(jars.glob("py4j-*.jar"))),
        classpath=str(jars / "*"),
        javaopts=[f"-Xmx{heap_mb}m", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"],
        java_path=str(java_home / "bin" / "java"),
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait()


def test_executions_that_no_agent_takes_are_missed_before_they_fill_the_heap() -> None:
    """Given an agent that cannot be started: before, each insert held 0.6 MB of the heap."""
    source = java_unit(bootstrap_source(), NOBODY_TAKES)
    with small_jvm(HEAP_MB) as jvm:
        assert str(java_object(jvm, "Full", source).run(3 * HEAP_MB)).startswith("missed ")


@pytest.mark.parametrize("detached", [False, True])
def test_jvm_keeps_nothing_of_a_context_that_has_ended(detached: bool) -> None:
    """Given no other context after it: before, the JVM kept it until the next one began."""
    with small_jvm(SPARK_HEAP_MB) as jvm:
        served = java_object(jvm, "Ended", java_unit(bootstrap_source(), ENDED)).served(detached)
        until(lambda: jvm.System.gc() or served.get() is None, timeout_s=20, interval_s=0.5)
