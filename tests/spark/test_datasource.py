"""The catalog as DataFrames: what the data source shows is what the metastore has."""

import re
from pathlib import Path
from typing import Any

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.spark.applications import SPARK, Application, Failed
from topicast.tests.spark.cells import EVERY_CELL
from topicast.tests.spark.conftest import Drivers
from topicast.tests.waiting import until

DB = "sourced"
DOCUMENT = Path(__file__).parents[2] / "docs" / "pipelines.md"
BLOCK = re.compile(r"^```(python|sql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Examples that run a pipeline, or read what one wrote: test_export.py and its neighbours
# run the pipelines themselves. CELLS=all runs these examples, too.
PIPELINES = ("topicast.pipeline", "/lake/catalog/v1", "catalog_files GROUP")

needs_sources = pytest.mark.skipif(SPARK < (4, 0), reason="Spark has no data sources in Python")


@pytest.fixture(scope="module")
def reader(drivers: Drivers) -> Application:
    """An application that reads what the other one writes."""
    address = drivers.daemons.hub_address
    drivers.reader.do(
        f"""
def view(name, *columns, schema=None, **options):
    source = spark.read.format("topicast").options(view=name, statestores={address!r}, **options)
    found = (source if schema is None else source.schema(schema)).load()
    return sorted(tuple(row) for row in (found.select(*columns) if columns else found).collect())

def snapshot_version():
    from topicast.pipeline.datasource import snapshot_version
    return snapshot_version({address!r})

def problem(read):
    try:
        read()
    except Exception as error:
        return str(error)
"""
    )
    drivers.writer.sql(
        f"CREATE DATABASE {DB}",
        f"CREATE TABLE {DB}.sales (id INT, city STRING) PARTITIONED BY (ds STRING) "
        "STORED AS PARQUET",
        f"CREATE TABLE {DB}.stock (id INT) STORED AS PARQUET",
        f"INSERT INTO {DB}.sales VALUES (1, 'a', '2026-11-01'), (2, 'b', '2026-11-02')",
        f"CREATE VIEW {DB}.cities AS SELECT DISTINCT city FROM {DB}.sales",
    )
    return drivers.reader


def view(reader: Application, name: str, *columns: str, **options: str) -> Any:
    return reader.do(f"view({name!r}, *{columns!r}, tables='{DB}.*', **{options!r})")


@needs_sources
def test_data_source_is_found_by_its_name_and_shows_what_the_metastore_has(
    reader: Application,
) -> None:
    days = [["sales", "ds=2026-11-01"], ["sales", "ds=2026-11-02"]]
    until(lambda: view(reader, "partitions", "table", "partition") == days, timeout_s=60)
    assert view(reader, "tables", "table", "type", "partition_columns") == [
        ["cities", "VIRTUAL_VIEW", []],
        ["sales", "MANAGED_TABLE", ["ds"]],
        ["stock", "MANAGED_TABLE", []],
    ]
    columns = view(reader, "columns", "table", "column", "type", "is_partition")
    assert ["sales", "ds", "string", True] in columns
    assert [DB] in reader.do("view('databases', 'db')")


@needs_sources
def test_read_as_of_a_snapshot_version_is_the_same_after_a_change(
    drivers: Drivers, reader: Application
) -> None:
    before = reader.do("snapshot_version()")
    found = view(reader, "partitions", "partition", asOf=before)
    drivers.writer.sql(f"ALTER TABLE {DB}.sales ADD PARTITION (ds = '2026-11-03')")
    until(lambda: ["ds=2026-11-03"] in view(reader, "partitions", "partition"), timeout_s=60)
    assert view(reader, "partitions", "partition", asOf=before) == found


@needs_sources
def test_sql_reads_it_and_a_schema_chooses_columns(drivers: Drivers, reader: Application) -> None:
    address = drivers.daemons.hub_address
    reader.sql(
        "CREATE OR REPLACE TEMPORARY VIEW catalog_tables USING topicast "
        f"OPTIONS (view 'tables', tables '{DB}.*', statestores '{address}')"
    )
    assert reader.rows("SELECT count(*) FROM catalog_tables") == [[3]]
    assert view(reader, "tables", schema="table string") == [["cities"], ["sales"], ["stock"]]


PUSHED = """
def pushed(setting):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", setting)
    source = spark.read.format("topicast").options(view="tables", statestores={address!r})
    found = source.load().where("db = '{db}' AND table LIKE 's%'").select("table")
    plan = found._jdf.queryExecution().executedPlan().toString()
    return plan, sorted(row[0] for row in found.collect())
"""


@needs_sources
@pytest.mark.skipif(SPARK < (4, 1), reason="Spark pushes no filters down")
def test_filters_on_names_are_pushed_down(drivers: Drivers, reader: Application) -> None:
    reader.do(PUSHED.format(db=DB, address=drivers.daemons.hub_address))
    names = ["sales", "stock"]
    plan, found = reader.do("pushed('false')")
    assert (f"= {DB})" in plan, found) == (True, names)
    plan, found = reader.do("pushed('true')")
    assert (f"= {DB})" in plan, found) == (False, names)  # Spark leaves them to the source
    reader.do("spark.conf.unset('spark.sql.python.filterPushdown.enabled')")


@needs_sources
@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("view('nonsense')", "not valid: databases, tables, columns, partitions"),
        *(
            pytest.param(*one, marks=pytest.mark.nightly)
            for one in (
                ("view('tables', schema='tabel string')", "columns of tables: db string"),
                ("view('tables', asOf='now')", "a version, as"),
                ("view('tables', pattern='x')", "one of view, statestores"),
            )
        ),
    ],
)
def test_wrong_option_ends_the_query_and_says_what_is_allowed(
    reader: Application, code: str, problem: str
) -> None:
    assert problem in reader.do(f"problem(lambda: {code})")


STREAM = """
def stream(folder, **options):
    source = spark.readStream.format("topicast").options(view="changes", tables="{db}.*", **options)
    rows = source.option("statestores", {address!r}).load()
    sink = rows.writeStream.format("parquet").option("checkpointLocation", folder + "/checkpoint")
    query = await_end(sink.option("path", folder + "/rows").trigger(availableNow=True))
    return sum(progress.numInputRows > 0 for progress in query.recentProgress)

def streamed(folder):
    rows = spark.read.parquet(folder + "/rows").orderBy("version", "partition")
    columns = "kind", "table", "partition", "origin"
    return [tuple(row) for row in rows.select(*columns).collect()]
"""


@needs_sources
@pytest.mark.nightly  # 90 s
def test_stream_has_each_change_once_and_resumes_from_its_checkpoint(
    drivers: Drivers, reader: Application, tmp_path: Path
) -> None:
    folder = str(tmp_path / "stream")
    reader.do(STREAM.format(db=DB, address=drivers.daemons.hub_address))
    reader.do(f"stream({folder!r})")  # begins at the present
    expected = []
    for day in ("2026-11-20", "2026-11-21"):
        before = reader.do("snapshot_version()")
        drivers.writer.sql(f"ALTER TABLE {DB}.sales ADD PARTITION (ds = '{day}')")
        until(lambda: reader.do("snapshot_version()") != before)  # noqa: B023 - called at once
        until(lambda: [f"ds={day}"] in view(reader, "partitions", "partition"))  # noqa: B023
        reader.do(f"stream({folder!r})")
        expected.append(["created", "sales", f"ds={day}", "events"])
        assert reader.do(f"streamed({folder!r})") == expected
    for day in ("2026-12-01", "2026-12-02", "2026-12-03"):
        drivers.writer.sql(f"ALTER TABLE {DB}.sales ADD PARTITION (ds = '{day}')")
        until(lambda: [f"ds={day}"] in view(reader, "partitions", "partition"))  # noqa: B023
        expected.append(["created", "sales", f"ds={day}", "events"])
    batches = [reader.do(f"stream({folder!r}, maxEntriesPerTrigger='1')")]
    while SPARK < (4, 2) and len(batches) < 3 and reader.do(f"streamed({folder!r})") != expected:
        batches.append(reader.do(f"stream({folder!r}, maxEntriesPerTrigger='1')"))
    assert batches == [3] if SPARK >= (4, 2) else set(batches) == {1}
    assert reader.do(f"streamed({folder!r})") == expected
    text = reader.do(f"problem(lambda: stream({folder!r} + '2', asOf=snapshot_version()))")
    assert "startingVersion, in a stream" in text
    reader.do(f"stream({folder!r} + '3', latestState='true')")
    kinds = {row[0] for row in reader.do(f"streamed({folder!r} + '3')")}
    assert kinds == {"snapshot"}


@needs_sources
@pytest.mark.nightly  # its statements are those of the other tests
def test_examples_of_the_documentation_run(
    drivers: Drivers, reader: Application, hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    address = drivers.daemons.hub_address
    found = BLOCK.findall(DOCUMENT.read_text(encoding="utf-8"))
    blocks = [(kind, block) for kind, block in found if "raw.events" not in block]
    assert [kind for kind, _ in blocks] == ["python"] * 11 + ["sql"] * 6
    reader.do(
        f"import os; os.environ['TOPICAST_STATESTORES'] = {address!r}"
    )  # for snapshot_version()
    given = f'format("topicast").option("statestores", "{address}")'
    for kind, block in blocks:
        if not EVERY_CELL and any(one in block for one in PIPELINES):
            continue
        if kind == "sql":
            reader.do(f"len(spark.sql({block!r}).collect())")
            continue
        code = block.replace('format("topicast")', given)
        code = code.replace("/lake/", f"{tmp_path}/").replace("thrift://metastore:9083", hive.uri)
        reader.do(code.replace("(view 'columns')", f"(view 'columns', statestores '{address}')"))


@pytest.mark.skipif(SPARK >= (4, 0), reason="Spark has data sources in Python")
def test_error_of_an_older_spark_says_that_it_has_no_such_sources(drivers: Drivers) -> None:
    with pytest.raises(Failed, match=r"Spark 4\.0 or newer"):
        drivers.reader.do("import pyspark_topicast")
