"""A driver whose Spark lacks what is needed says what it is; what DataFrames hold is known.

Files are listed beside what refreshes.
"""

import re
from pathlib import Path

import pytest

from topicast.subscriber.spark.refresh.registry import FOLDERS_MAX, THREADS_MAX
from topicast.tests.spark.applications import SPARK, Failed
from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.jvm.shells import agent_of
from topicast.tests.waiting import until

CATALOG = "org.apache.spark.sql.catalyst.catalog.SessionCatalog"
OTHER = "org.apache.spark.sql.catalyst.catalog.GlobalTempViewManager"


@pytest.mark.parametrize(
    ("name", "needed", "missing"),
    [
        ("_SESSION_CATALOG", "org.nowhere.Catalog", "there is no class org.nowhere.Catalog"),
        ("_SESSION_CATALOG", OTHER, f"{OTHER} has no field tableRelationCache"),
        ("_METHODS", ("forgetTable",), f"{CATALOG} has no method forgetTable"),
        ("_NAMES", "(int)", f"{CATALOG} does not find relations by three names"),
    ],
)
def test_what_this_spark_lacks_is_said(
    drivers: Drivers, name: str, needed: object, missing: str
) -> None:
    reader = drivers.reader
    reader.do("from topicast.subscriber.spark.refresh import catalyst")
    reader.do(f"had = catalyst.{name}; catalyst.{name} = {needed!r}")
    try:
        with pytest.raises(Failed, match=re.escape(f"Unsupported: {missing}")):
            reader.do("catalyst.Catalyst.probe(spark)")
    finally:
        reader.do(f"catalyst.{name} = had")


def test_what_dataframes_hold_is_known_weakly_and_within_bounds(drivers: Drivers) -> None:
    driver, tables = drivers.writer, [f"remembered.{name}" for name in "abc"]
    driver.do("attach(spark).detach()")
    until(lambda: not agent_of(driver.pids[1]), timeout_s=20, what="nobody else who renews")
    driver.sql("CREATE DATABASE remembered")
    driver.sql(*(f"CREATE TABLE {table} (id INT) USING parquet" for table in tables))
    driver.do("from topicast.subscriber.spark.refresh import catalyst")
    driver.do("it = catalyst.Catalyst.probe(spark); had = catalyst.HELD_MAX")
    driver.do("it.adopt(spark); mine = spark._jsparkSession.sessionUUID()")

    def renewed(*names: str, existing: str = "ALWAYS") -> set[str]:
        how = f"existing=catalyst.Existing.{existing}"
        driver.do(f"for name in {names}: it.renew(mine, name, {how})")
        return set(driver.do("list(it.look()[mine].held)"))

    def collected() -> bool:
        driver.do("spark._jvm.System.gc()")
        gone = not renewed(*tables, existing="IF_GONE")
        driver.do("import gc; gc.collect()")  # Py4J lets go a second after it
        return gone

    driver.do(f"held = [spark.table(name) for name in {tables}]")
    try:
        assert renewed(tables[0]) == {tables[0]}
        assert renewed(tables[0], existing="NEVER") == set(), "it may have other columns"
        driver.do("catalyst.HELD_MAX = 2")
        driver.do(f"held += [spark.table({tables[0]!r})]")
        assert renewed(*tables) == set(tables[1:]), "the oldest goes"
        assert renewed(tables[1]) == set(tables[1:]), "it is in no cache, and held"
        driver.do("held.clear()")
        until(collected, timeout_s=20, what="nobody holds it", interval_s=1.5)
    finally:
        driver.do("catalyst.HELD_MAX = had")


MORE = THREADS_MAX + 1
SLOW = """
from topicast.subscriber.spark.java import java_object
from topicast.subscriber.spark.refresh.catalyst import Catalyst
registry, Latch = Catalyst.probe(spark).registry, spark._jvm.java.util.concurrent.CountDownLatch
registry.adopt(spark._jsparkSession)
mine = spark._jsparkSession.sessionUUID()
latch = Latch(1)
slow, quick, failing = (
    java_object(spark._jvm, "SlowIndex", source, of) for of in (latch, Latch(0), None)
)
"""
SLOW_INDEX = """
import java.util.concurrent.CountDownLatch;
import SEQ;

public final class SlowIndex implements org.apache.spark.sql.execution.datasources.FileIndex {
    private final CountDownLatch latch;
    private int refreshed;
    public SlowIndex(CountDownLatch latch) { this.latch = latch; }
    public int refreshed() { return refreshed; }
    public void refresh() {
        if (latch == null) throw new IllegalStateException("no such store");
        try { latch.await(); } catch (InterruptedException ended) { return; }
        refreshed++;
    }
    public Seq rootPaths() { return null; }
    public Seq listFiles(Seq partitions, Seq data) { return null; }
    public String[] inputFiles() { return new String[0]; }
    public long sizeInBytes() { return 0L; }
    public org.apache.spark.sql.types.StructType partitionSchema() { return null; }
}
"""


def test_slow_file_system_delays_nobody_and_a_failing_one_is_logged(
    drivers: Drivers,
) -> None:
    """Of a relation at most one listing runs, and one waits behind it, however often it changes.

    Of a table a few run at once, also if more relations of it hang than there are threads.
    """
    driver = drivers.writer
    seq = "scala.collection.immutable.Seq" if SPARK >= (4, 0) else "scala.collection.Seq"
    driver.do(f"source = {SLOW_INDEX.replace('SEQ', seq)!r}")
    driver.do(SLOW)
    driver.do("for _ in range(5): registry.relist(mine, 'd.slow', slow, True)")
    made = "java_object(spark._jvm, 'SlowIndex', source, latch)"
    driver.do(f"more = [{made} for _ in range({MORE})]")
    driver.do("for one in more: registry.relist(mine, 'd.slow', one, True)")
    driver.do("registry.relist(mine, 'd.quick', quick, True)")
    until(lambda: driver.do("quick.refreshed()") == 1, timeout_s=20)
    assert driver.do("slow.refreshed(), registry.settle(10)") == [0, False]
    assert driver.do("registry.unfinished()") == "d.slow"
    driver.do("latch.countDown()")
    assert driver.do("registry.settle(20000), slow.refreshed()") == [True, 2]
    assert driver.do("{one.refreshed() for one in more} == {1}, registry.unfinished()") == [
        True,
        "",
    ]
    driver.do("registry.relist(mine, 'd.failing', failing, True); registry.settle(20000)")
    said = [line for line in driver.do("registry.look()").splitlines() if line.startswith("!")]
    mine = driver.do("mine")
    assert said == [f"! {mine} d.failing java.lang.IllegalStateException: no such store"]


LOOKED_AT = """
from topicast.subscriber.spark.refresh.catalyst import Catalyst
it, other = Catalyst.probe(spark), spark.newSession()
it.adopt(spark)
frame = other.read.text(where)  # a DataFrame that was executed keeps its plan: each reads anew

def rows():
    it.renew_paths("d.lines", where, always=False)
    assert it.settle(20)
    return sorted([row[1].day, row[0]] for row in frame.select('*').collect())
"""


def test_dataframe_over_a_path_reads_anew_once_any_of_its_files_cannot_be_read(
    drivers: Drivers, tmp_path: Path
) -> None:
    """One of any folder that is gone, or replaced under its name; nothing for what is added."""
    driver, days = drivers.writer, [tmp_path / f"day=2026-11-{day:02}" for day in (1, 2)]

    def write(day: int, name: str, text: str) -> None:
        (days[day - 1] / name).write_text(text)

    for number, folder in enumerate(days, 1):
        folder.mkdir()
        write(number, "part-0", "a")
        write(number, "part-1", "b")
    driver.do(f"where = {str(tmp_path)!r}")
    driver.do(LOOKED_AT)
    was = [[1, "a"], [1, "b"], [2, "a"], [2, "b"]]
    assert driver.do("rows()") == was
    write(1, "part-2", "added")
    assert driver.do("rows()") == was, "as in plain Spark"
    write(2, "part-1", "longer")  # as Hive does: its files have the same names each time
    was = [[1, "a"], [1, "added"], [1, "b"], [2, "a"], [2, "longer"]]
    assert driver.do("rows()") == was
    for number in (1, 2):
        (days[number - 1] / "part-1").unlink()
        was = [row for row in was if row not in ([number, "b"], [number, "longer"])]
        assert driver.do("rows()") == was
    for part in days[0].iterdir():
        part.unlink()
    days[0].rmdir()
    assert driver.do("rows()") == [[2, "a"]], "in the middle of an overwrite"
    days[0].mkdir()
    write(1, "part-3", "c")
    assert driver.do("rows()") == [[1, "c"], [2, "a"]], "at its end, at which nothing is gone"


MOUNTED = """
mounts = spark.sparkContext._jsc.hadoopConfiguration()
mounts.set("fs.viewfs.mounttable.spelled.link./mounted", "file:" + mounted)
"""


def test_dataframe_over_another_spelling_of_a_location_reads_anew(
    drivers: Drivers, tmp_path: Path
) -> None:
    """A table's location names its files, the DataFrame a mount of ``viewfs`` above them."""
    driver, day = drivers.writer, tmp_path / "lines" / "day=2026-11-01"
    day.mkdir(parents=True)
    (day / "part-0").write_text("a")
    driver.do(f"mounted, where = {str(tmp_path)!r}, 'viewfs://spelled/mounted/lines'")
    driver.do(MOUNTED)
    driver.do(LOOKED_AT.replace('"d.lines", where', f'"d.lines", "file://{tmp_path}/lines"'))
    assert driver.do("rows()") == [[1, "a"]]
    (day / "part-0").unlink()
    (day / "part-1").write_text("b")
    assert driver.do("rows()") == [[1, "b"]]


@pytest.mark.nightly
def test_of_many_folders_the_last_are_looked_at(drivers: Drivers, tmp_path: Path) -> None:
    driver = drivers.writer
    days = [tmp_path / f"day={number:03}" for number in range(FOLDERS_MAX + 1)]
    for folder in days:
        folder.mkdir()
        (folder / "part-0").write_text("a")
    driver.do(f"where = {str(tmp_path)!r}")
    driver.do(LOOKED_AT.replace("row[1].day", "row[1]"))
    assert len(driver.do("rows()")) == FOLDERS_MAX + 1
    (days[0] / "part-1").write_text("b")
    for looked_at, rows in ((0, FOLDERS_MAX + 1), (-1, FOLDERS_MAX + 2)):
        part = days[looked_at] / "part-0"
        part.rename(part.with_name("part-9"))
        if not looked_at:
            driver.do("it.renew_paths('d.lines', where, always=False); it.settle(20)")
            part.with_name("part-9").rename(part)
        assert len(driver.do("rows()")) == rows
