"""What an attached driver writes without an event, another one reads at once, without REFRESH.

The tables have no statistics, so the metastore records nothing of what is written to them. With
CELLS=all every way to write is tried, else a way of each kind.
"""

from pathlib import Path
from typing import Any, Final

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.cli.processes import topicast
from topicast.tests.spark.applications import Failed, applications
from topicast.tests.spark.cells import cells
from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.pair import BEFORE, DAYS, WAIT_S, Pair
from topicast.tests.waiting import until

INSERTED, OVERWRITTEN = [[1, "a"], [2, "a"]], [[2, "a"]]
EVERY_WRITE = {  # table -> how it is written, and the rows that there are then
    "insert": ("spark.sql(\"INSERT INTO {t} VALUES (2, 'a')\")", INSERTED),
    "static": ("spark.sql(\"INSERT INTO {t} PARTITION (ds = 'a') VALUES (2)\")", INSERTED),
    "over": ("spark.sql(\"INSERT OVERWRITE {t} VALUES (2, 'a')\")", OVERWRITTEN),
    "multi": (
        "spark.sql('FROM view_of_two INSERT INTO {t} SELECT * INSERT INTO {t} SELECT *')",
        [*INSERTED, [2, "a"]],
    ),
    "truncate": ("spark.sql(\"TRUNCATE TABLE {t} PARTITION (ds = 'a')\")", []),
    "insert_into": ("two.write.insertInto('{t}')", INSERTED),
    "insert_over": ("two.write.insertInto('{t}', overwrite=True)", OVERWRITTEN),
    "save_as": ("two.write.mode('append').partitionBy('ds').saveAsTable('{t}')", INSERTED),
    "save": ("two.write.mode('append').partitionBy('ds').save(where + '/save')", INSERTED),
    "save_over": (
        "two.write.mode('overwrite').partitionBy('ds').save(where + '/save_over')",
        OVERWRITTEN,
    ),
    "path": ("two.drop('ds').write.mode('append').parquet(where + '/path/ds=a')", INSERTED),
    "viewed": (
        "two.drop('ds').write.mode('append').parquet('viewfs://lake/w/viewed/ds=a')",
        INSERTED,
    ),
    "current": ("spark.sql('USE reported') and two.write.insertInto('current')", INSERTED),
    "session": ("spark.newSession().sql(\"INSERT INTO {t} VALUES (2, 'a')\")", INSERTED),
    "typed": ("typed().sql(\"INSERT INTO Reported.Typed VALUES (2, 'a')\")", INSERTED),
    "named": (
        "spark.sql('INSERT INTO IDENTIFIER(:t) TABLE view_of_two', {{'t': '{t}'}})",
        INSERTED,
    ),
    "java": ("spark._jsparkSession.sql('INSERT INTO {t} TABLE view_of_two')", INSERTED),
    "java_over": (
        "spark._jsparkSession.sql('INSERT OVERWRITE {t} TABLE view_of_two')",
        OVERWRITTEN,
    ),
    "java_alone": (
        "spark._jsparkSession.newSession().sql(\"INSERT INTO {t} VALUES (2, 'a')\")",
        INSERTED,
    ),
    "batch": ("batches('{t}').start().awaitTermination()", INSERTED),
    "sink": (  # of which readers take what its own log lists
        "stream('sink').partitionBy('ds').start(where + '/sink').awaitTermination()",
        OVERWRITTEN,
    ),
    "to_table": (
        "stream('to_table').partitionBy('ds').toTable('{t}').awaitTermination()",
        OVERWRITTEN,
    ),
    "failed": ("fails(\"INSERT OVERWRITE {t} SELECT raise_error('no'), 'a'\")", []),
    "recreated": ("drop('{t}') and recreate('{t}')", [[2, "a"]]),
    "repaired": (
        "put_by_hand(where + '/repaired/ds=a') or spark.sql('MSCK REPAIR TABLE {t}')",
        INSERTED,
    ),
}
WRITES = cells(
    EVERY_WRITE,
    some=(
        *("insert", "over", "truncate", "failed", "repaired"),  # by an SQL text
        *("save_as", "save_over", "java"),  # as what the JVM executed: of a table, of a path
        *("batch", "sink"),  # by a stream
    ),
)
EVERY_OTHER = {  # table -> what it is, how it is written, and the rows that there are then
    "load": (
        "STORED AS parquet",
        "spark.sql(f\"LOAD DATA LOCAL INPATH '{{files}}' INTO TABLE {t}\")",
        INSERTED,
    ),
    "load_over": (
        "STORED AS parquet",
        "spark.sql(f\"LOAD DATA LOCAL INPATH '{{files}}' OVERWRITE INTO TABLE {t}\")",
        OVERWRITTEN,
    ),
    "text": (
        "STORED AS textfile",
        "spark.sql(\"INSERT OVERWRITE {t} VALUES (2, 'a')\")",
        OVERWRITTEN,
    ),
    "whole": ("USING parquet", "spark.sql(\"INSERT INTO {t} VALUES (2, 'a')\")", INSERTED),
    "truncated": ("USING orc", "spark.sql('TRUNCATE TABLE {t}')", []),
    "column": (
        "USING csv",
        "spark.sql('ALTER TABLE {t} ADD COLUMNS (note STRING)')",
        [[1, "a", None]],
    ),
    "moved": (
        "USING parquet",
        "spark.sql(f\"ALTER TABLE {t} SET LOCATION '{{files}}'\")",
        OVERWRITTEN,
    ),
    "day_moved": (
        DAYS,
        "spark.sql(f\"ALTER TABLE {t} PARTITION (ds = 'a') SET LOCATION '{{files}}'\")",
        OVERWRITTEN,
    ),
    "made": (
        "USING csv",
        "drop('{t}') and spark.sql('CREATE TABLE {t} USING orc AS TABLE view_of_two')",
        OVERWRITTEN,
    ),
    "write_to": (
        DAYS,
        "drop('{t}') and two.writeTo('{t}').using('orc').create()",
        OVERWRITTEN,
    ),
}
OTHERS = cells(EVERY_OTHER, some=("load_over", "text", "whole", "column", "day_moved", "made"))
# What Spark itself refuses for tables of this catalog: nothing is written, or to be reported.
REFUSED = ("append()", "overwritePartitions()", "using('parquet').createOrReplace()")
# DataFrames that exist over these, partitioned tables see that their old files are gone …
GONE = tuple(
    one for one in ("over", "truncate", "insert_over", "save_over", "java_over") if one in WRITES
)
KEPT = ("insert", "save_as", "java")  # … and over these go on reading what they have listed
PREPARE = """
import shutil
from pathlib import Path

two = spark.sql("SELECT 2 id, 'a' ds")
two.createOrReplaceTempView("view_of_two")
two.write.json(where + "/json")
files = where + "/files"
two.coalesce(1).write.parquet(files)
spark._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.lake.link./w", where)

def stream(name):
    rows = spark.readStream.schema("id INT, ds STRING").json(where + "/json")
    stream = rows.writeStream.trigger(availableNow=True)
    return stream.option("checkpointLocation", where + "/checkpoint/" + name)

def typed():
    session = spark.newSession()
    session.conf.set("spark.sql.caseSensitive", True)
    return session

def batches(table):
    return stream("batches").foreachBatch(lambda batch, _: batch.write.insertInto(table))

def fails(statement):
    try:
        spark.sql(statement)
    except Exception:
        return
    raise AssertionError("it did not fail")

def drop(table):
    return spark.sql("DROP TABLE " + table)

def recreate(table):
    two.write.format("orc").saveAsTable(table)

def put_by_hand(folder):
    two.select("id").coalesce(1).write.parquet(where + "/elsewhere")
    for file in Path(where.removeprefix("file:") + "/elsewhere").glob("*.parquet"):
        shutil.copy(file, folder.removeprefix("file:"))
"""


@pytest.fixture(scope="module")
def pair(drivers: Drivers) -> Pair:
    drivers.writer.sql("SET spark.sql.statistics.size.autoUpdate.enabled=false")
    for one in (drivers.writer, drivers.reader):
        one.do("'handle' in globals() and handle.detach()")
    return Pair(drivers.writer, drivers.reader, drivers.daemons)


@pytest.fixture(scope="module")
def attached(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Both are attached, and the writer has what it writes."""
    pair.attach(pair.reader)
    pair.attach(pair.writer)
    pair.writer.do(f"where = 'file:{tmp_path_factory.mktemp('prepared')}'")
    pair.writer.do(PREPARE)
    return pair


def test_every_way_to_write_is_seen_by_the_other_driver(attached: Pair) -> None:
    pair, writer = attached, attached.writer
    pair.create("reported", tuple(WRITES))
    writer.do(f"where = 'file:{pair.location('reported')}'")
    writer.do(PREPARE)
    pair.is_settled("reported", dict.fromkeys(WRITES, BEFORE))
    pair.reader.do(f"held = {{t: spark.table('reported.' + t) for t in {GONE + KEPT}}}")
    for table, (how, _) in WRITES.items():
        writer.do(f"_ = {how.format(t=f'reported.{table}')}")
    pair.sees("reported", {table: rows for table, (_, rows) in WRITES.items()})
    held = pair.reader.read(**{table: f"held[{table!r}].select('*')" for table in GONE + KEPT})
    assert held == {table: WRITES[table][1] for table in GONE} | dict.fromkeys(KEPT, BEFORE)
    until(lambda: pair.intents() == 0, timeout_s=WAIT_S, what="the end of each write that began")
    assert (pair.status("errors"), pair.status("writes")) == (0, "reported")


LAKE = """
thread = spark._jvm.java.lang.Thread.currentThread()
compiler = spark._jvm.org.codehaus.janino.SimpleCompiler()
before = thread.getContextClassLoader()
compiler.setParentClassLoader(before)
kind = "org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension"
compiler.cook("public final class LakeCatalog extends " + kind + " {}")
lake = spark.newSession()
lake.conf.set("spark.sql.catalog.spark_catalog", "LakeCatalog")
thread.setContextClassLoader(compiler.getClassLoader())
lake.sql("SHOW TABLES IN plugged").collect()
thread.setContextClassLoader(before)
"""


@pytest.mark.nightly
def test_plain_tables_are_reported_where_a_format_replaces_the_catalog(attached: Pair) -> None:
    """As Delta's and Iceberg's catalogs do, which leave to Spark what is not theirs."""
    pair, writer = attached, attached.writer
    pair.create("plugged", ("sql", "frame", "over"))
    pair.is_settled("plugged", dict.fromkeys(("sql", "frame", "over"), BEFORE))
    writer.do(LAKE)
    writer.do("_ = lake.sql(\"INSERT INTO plugged.sql VALUES (2, 'a')\")")
    writer.do("lake.sql(\"SELECT 2 id, 'a' ds\").write.insertInto('plugged.frame')")
    writer.do("_ = lake.sql(\"INSERT OVERWRITE plugged.over VALUES (2, 'a')\")")
    pair.sees("plugged", {"sql": INSERTED, "frame": INSERTED, "over": OVERWRITTEN})
    assert pair.status("writes") == "reported"
    writer.do("_ = spark.sql(\"INSERT INTO plugged.sql VALUES (3, 'a')\")")
    pair.sees("plugged", {"sql": [*INSERTED, [3, "a"]]})


@pytest.mark.nightly
def test_what_needs_a_table_of_another_kind_is_seen_too(attached: Pair) -> None:
    pair, writer = attached, attached.writer
    pair.create("others", {table: kind for table, (kind, _, _) in OTHERS.items()})
    pair.is_settled("others", dict.fromkeys(OTHERS, BEFORE))
    pair.reader.do("held = spark.table('others.load_over')")
    for table, (_, how, _) in OTHERS.items():
        writer.do(f"_ = {how.format(t=f'others.{table}')}")
    pair.sees("others", {table: rows for table, (_, _, rows) in OTHERS.items()})
    assert pair.reader.read(it="held.select('*')") == {"it": OVERWRITTEN}
    for how in REFUSED:
        with pytest.raises(Failed):
            writer.do(f"two.writeTo('others.made').{how}")
    assert pair.status("errors") == 0


@pytest.mark.nightly
def test_partition_with_a_location_of_its_own_is_its_tables_by_path(attached: Pair) -> None:
    """Relations over that path are refreshed, too, whoever writes the partition."""
    pair, writer, reader = attached, attached.writer, attached.reader
    pair.create("placed", ("t",))
    own = f"file:{pair.location('placed')}/own"
    writer.do(f"one = spark.sql('SELECT 2 id').coalesce(1); one.write.parquet({own!r})")
    writer.sql(f"ALTER TABLE placed.t ADD PARTITION (ds = 'b') LOCATION '{own}'")
    pair.is_settled("placed", {"t": [[1, "a"], [2, "b"]]})
    reader.do("fresh = spark.newSession()")  # a session from before the attach is not looked into
    reader.do(f"_ = fresh.sql(\"CREATE TEMP VIEW own USING parquet OPTIONS (path '{own}')\")")

    def by_path() -> Any:
        return reader.read(it="fresh.table('own')")["it"]

    assert by_path() == [[2]]
    writer.do(f"one.write.mode('append').parquet({own!r})")
    pair.sees("placed", {"t": [[1, "a"], [2, "b"], [2, "b"]]})
    until(lambda: by_path() == [[2], [2]], timeout_s=WAIT_S)
    writer.sql("INSERT OVERWRITE placed.t PARTITION (ds = 'b') VALUES (3)")
    pair.sees("placed", {"t": [[1, "a"], [3, "b"]]})
    until(lambda: by_path() == [[3]], timeout_s=WAIT_S)
    assert (pair.status("errors"), pair.status("writes")) == (0, "reported")


def test_table_of_a_source_at_a_location_is_seen_by_path(attached: Pair, tmp_path: Path) -> None:
    """Of CSV at a LOCATION the metastore names a folder that does not exist."""
    pair, folder = attached, str(tmp_path / "csv")
    pair.writer.sql(
        "CREATE DATABASE by_path",
        f"CREATE TABLE by_path.t (id INT) USING csv LOCATION '{folder}'",
        "INSERT INTO by_path.t VALUES (1)",
    )
    pair.is_settled("by_path", {"t": [[1]]})
    pair.writer.do(f"spark.sql('SELECT 2 id').write.mode('append').csv({folder!r})")
    pair.sees("by_path", {"t": [[1], [2]]})
    assert (pair.status("errors"), pair.status("writes")) == (0, "reported")


COPY = """
import shutil
from pathlib import Path
(made,) = Path({folder!r}).glob("t/*/part*")
_ = shutil.copy(made, made.with_name("copy-{number}.parquet"))
"""


REFRESHES: Final = {  # table -> how somebody says that it has changed
    "sql": "spark.sql('REFRESH TABLE {t}')",
    "catalog": "spark.catalog.refreshTable('Refreshed.`Catalog`')",
    "path": "spark.sql(f\"REFRESH '{{where}}/path'\")",
    "by_path": "spark.catalog.refreshByPath(where + '/by_path')",
    "java": "spark._jsparkSession.sql('REFRESH TABLE {t}')",
    "java_path": "spark._jsparkSession.sql(f\"REFRESH '{{where}}/java_path/ds=a'\")",
    "lake": "lake.sql('REFRESH TABLE {t}')",
    "java_lake": "lake._jsparkSession.sql('REFRESH TABLE {t}')",
}
COPY_EACH: Final = """
for made in Path(where.removeprefix("file:")).glob("*/ds=a/part*.parquet"):
    _ = shutil.copy(made, made.with_name(made.name.replace("part", "copy")))
"""


@pytest.mark.nightly  # 60 s; that it is reported is a unit of statements
def test_refresh_that_one_driver_types_refreshes_all_drivers(attached: Pair) -> None:
    """It knows better than the metastore: files were put there by other means."""
    pair, writer, reader = attached, attached.writer, attached.reader
    pair.create("refreshed", tuple(REFRESHES))
    writer.do(f"import shutil; where = 'file:{pair.location('refreshed')}'")
    writer.do("from pathlib import Path")
    writer.do(LAKE.replace("plugged", "refreshed"))
    pair.is_settled("refreshed", dict.fromkeys(REFRESHES, BEFORE))
    reader.do("handle.detach()")
    reader.do(f"handle = attach(spark, {pair.daemons.hub_address!r}, refresh_cached=True)")
    pair.is_settled("refreshed", dict.fromkeys(REFRESHES, BEFORE))
    reader.do("_ = spark.sql('CACHE TABLE refreshed.sql')")
    writer.do(COPY_EACH)
    pair.refreshed()
    assert pair.read("refreshed", REFRESHES) == dict.fromkeys(REFRESHES, BEFORE), "plain Spark"
    before = pair.daemons.status("catalog")["writes"]
    for table, how in REFRESHES.items():
        writer.do(f"_ = {how.format(t=f'refreshed.{table}')}")
    pair.sees("refreshed", dict.fromkeys(REFRESHES, BEFORE * 2))
    pair.refreshed()  # and the reader, which has computed cached data again, reports nothing
    assert pair.daemons.status("catalog")["writes"] == before + len(REFRESHES)
    for _ in range(3):
        with pytest.raises(Failed):
            writer.sql("REFRESH TABLE refreshed.nothing")
    until(lambda: pair.intents() == 0, timeout_s=WAIT_S, what="the end of each")
    assert (pair.status("errors"), pair.status("writes")) == (0, "reported")
    reader.do("_ = spark.sql('UNCACHE TABLE refreshed.sql')")
    reader.do("handle.detach()")
    pair.attach(reader)


def test_unreported_write_is_read_behind_a_step_of_a_scheduler(attached: Pair) -> None:
    pair = attached
    pair.create("by_hand", ("t",))
    pair.is_settled("by_hand", {"t": BEFORE})
    for number, of in enumerate(("by_hand.t/ds=a", "by_hand.t", "by_hand"), start=1):
        pair.writer.do(COPY.format(folder=pair.location("by_hand"), number=number))
        pair.refreshed()
        assert pair.read("by_hand", ["t"]) == {"t": BEFORE * number}, "plain Spark"
        where = f"--statestores={pair.daemons.hub_address}"
        done = topicast("refresh", of, "--data", where, f"--timeout_s={WAIT_S}")
        assert (done.returncode, done.stderr) == (0, "")
        pair.sees("by_hand", {"t": BEFORE * (number + 1)})


def test_write_while_catalogd_is_away_is_reported_when_it_is_back(attached: Pair) -> None:
    pair, tables = attached, ("sql", "java")
    pair.create("no_catalogd", tables)
    pair.is_settled("no_catalogd", dict.fromkeys(tables, BEFORE))
    pair.daemons.kill("catalogd")
    pair.writer.sql("INSERT OVERWRITE no_catalogd.sql VALUES (2, 'a')")
    pair.writer.do(
        "_ = spark._jsparkSession.sql(\"INSERT OVERWRITE no_catalogd.java VALUES (2, 'a')\")"
    )
    assert pair.status("errors") == 0
    pair.daemons.start("catalogd")
    pair.sees("no_catalogd", dict.fromkeys(tables, OVERWRITTEN))


STREAM = """
two.write.json(where + "/in")
def stream_of_rows():
    rows = spark.readStream.schema("id INT, ds STRING").json(where + "/in")
    stream = rows.writeStream.option("checkpointLocation", where + "/checkpoint")
    return stream.partitionBy("ds").trigger(processingTime="100 milliseconds")

stream = stream_of_rows().start(where + "/t")
stream.processAllAvailable()
"""


@pytest.mark.nightly
def test_stream_that_was_started_before_the_attach_is_reported(attached: Pair) -> None:
    """While a stream is active its next batch counts as begun, in case that the driver dies."""
    pair, writer = attached, attached.writer

    pair.create("early", ("t",))
    pair.is_settled("early", {"t": BEFORE})
    writer.do("handle.detach()")
    writer.do(f"where = 'file:{pair.location('early')}'")
    writer.do(STREAM)
    pair.attach(writer)
    until(lambda: pair.listeners() == 1, timeout_s=WAIT_S)
    writer.do("two.write.mode('append').json(where + '/in'); stream.processAllAvailable()")
    pair.sees("early", {"t": OVERWRITTEN * 2})
    until(lambda: pair.intents() == 1, timeout_s=WAIT_S, what="the intent of its next batch")
    writer.do("stream.stop()")
    until(lambda: pair.intents() == 0, timeout_s=WAIT_S, what="it was stopped")
    writer.do("stream = stream_of_rows().start(where + '/t')")
    until(lambda: pair.intents() == 1, timeout_s=WAIT_S, what="the intent of its first batch")
    writer.do("stream.stop()")
    until(lambda: pair.intents() == 0, timeout_s=WAIT_S, what="it was stopped")


def test_last_write_is_reported_before_spark_stops(attached: Pair) -> None:
    pair, writer = attached, attached.writer
    pair.create("ended", ("java", "later"))
    pair.is_settled("ended", dict.fromkeys(("java", "later"), BEFORE))
    writer.do("conf = dict(spark.sparkContext.getConf().getAll())")
    writer.do(
        "_ = spark._jsparkSession.sql(\"INSERT INTO ended.java VALUES (2, 'a')\"); spark.stop()"
    )
    pair.sees("ended", {"java": INSERTED, "later": BEFORE})
    writer.do("from pyspark.sql import SparkSession")
    writer.do("conf['hive.metastore.uris'] = conf.pop('spark.hadoop.hive.metastore.uris')")
    writer.do("spark = SparkSession.builder.config(map=conf).getOrCreate()")
    writer.sql("INSERT INTO ended.later VALUES (2, 'a')")
    pair.sees("ended", {"java": INSERTED, "later": INSERTED})
    assert pair.status("errors") == 0


def test_detached_driver_is_as_it_was_and_reports_nothing(attached: Pair) -> None:
    pair, writer = attached, attached.writer
    pair.create("let_go", ("t",))
    pair.is_settled("let_go", {"t": BEFORE})
    writer.do("handle.detach()")
    writer.do("from pyspark.sql import SparkSession")
    assert writer.do("hasattr(SparkSession.sql, '__wrapped__')") is False
    assert pair.listeners() == 0
    writer.sql("INSERT INTO let_go.t VALUES (2, 'a')")
    pair.refreshed()
    assert pair.read("let_go", ["t"]) == {"t": BEFORE}
    pair.attach(writer)
    writer.sql("INSERT INTO let_go.t VALUES (3, 'a')")
    pair.sees("let_go", {"t": [*INSERTED, [3, "a"]]})


@pytest.mark.nightly  # test_last_write_... has an application that stops Spark
def test_write_of_an_application_that_never_stops_spark_is_reported_at_its_end(
    attached: Pair, hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    pair = attached
    pair.create("unstopped", ("t",))
    pair.is_settled("unstopped", {"t": BEFORE})
    with applications(tmp_path, hive.uri, last={}) as found:
        last = found["last"]
        last.do("from topicast.subscriber.spark import attach")
        pair.attach(last)
        last.do("_ = spark._jsparkSession.sql(\"INSERT INTO unstopped.t VALUES (2, 'a')\")")
        last.do("from pyspark.sql import SparkSession; SparkSession.stop = lambda self: None")
    # At its end the JVM waits a moment for what was executed last
    pair.sees("unstopped", {"t": INSERTED})


NAMED_LATER: Final = {  # how a later session of the process names the metastore
    "beside": """
SparkSession._instantiatedSession = None
spark._jvm.SparkSession.clearDefaultSession()
builder = SparkSession.builder.config("hive.metastore.uris", uris).enableHiveSupport()
later = builder.getOrCreate()
""",
    "next": """
spark.stop()
builder = SparkSession.builder.config(map=unnamed)
spark = later = builder.config("spark.hive.metastore.uris", uris).enableHiveSupport().getOrCreate()
""",
}


@pytest.mark.nightly
@pytest.mark.parametrize("by", ["next", pytest.param("beside", marks=pytest.mark.nightly)])
def test_metastore_that_only_a_later_session_names_is_reported(attached: Pair, by: str) -> None:
    """Given an attached driver whose first session has a catalog in memory.

    The later session is of the same context, by its builder, or of the next, by spark.hive.*.
    """
    pair, writer, db = attached, attached.writer, f"later_{by}"
    pair.create(db, ("python", "java"))
    pair.is_settled(db, dict.fromkeys(("python", "java"), BEFORE))
    writer.do("from pyspark.sql import SparkSession")
    writer.do("named = dict(spark.sparkContext.getConf().getAll())")
    writer.do("uris = next(named[one] for one in named if one.endswith('hive.metastore.uris'))")
    writer.do("unnamed = {one: named[one] for one in named if 'metastore' not in one}")
    writer.do("unnamed['spark.sql.catalogImplementation'] = 'in-memory'")
    writer.do("other = spark.newSession()")
    writer.do("other.conf.set('spark.sql.sources.parallelPartitionDiscovery.threshold', 0)")
    folder = f"spark.table('{db}.python').inputFiles()[0].rpartition('/')[0]"
    writer.do(f"other.read.parquet({folder}).createTempView('over_path')")
    writer.do("of_before = other.table('over_path')")  # whose files are listed by jobs, always
    writer.do("handle.detach(); spark.stop()")
    try:
        writer.do("spark = SparkSession.builder.config(map=unnamed).getOrCreate()")
        pair.attach(writer)
        writer.sql(f"CREATE TABLE own_{by} USING parquet AS SELECT 1 AS id")
        assert pair.status("writes") == "not reported: its catalog is in-memory, not hive"
        writer.do(NAMED_LATER[by])
        writer.do(f"_ = later.sql(\"INSERT INTO {db}.python VALUES (2, 'a')\")")
        writer.do(f"_ = later._jsparkSession.sql(\"INSERT INTO {db}.java VALUES (2, 'a')\")")
        pair.sees(db, dict.fromkeys(("python", "java"), INSERTED))
        errors = pair.status("errors"), pair.status("last_error")
        assert (*errors, pair.status("writes")) == (0, "", "reported")
    finally:
        writer.do("spark.stop(); spark = SparkSession.builder.config(map=named).getOrCreate()")
        writer.sql("SET spark.sql.statistics.size.autoUpdate.enabled=false")
