"""The data source and the pipelines on a cluster: what executors read and make is what there is.

master, two workers ── an executor on each ◀── an application that is not attached
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.pipeline.datasource import renewal
from topicast.pipeline.datasource.options import SourceOptions, read_options
from topicast.pipeline.datasource.planning import Work, planning
from topicast.pipeline.datasource.reading import TaskReader
from topicast.pipeline.datasource.renewal import application_of
from topicast.subscriber import Subscriber
from topicast.tests.integration.daemons import Daemons, both_daemons
from topicast.tests.keys import user_keys
from topicast.tests.spark.applications import SPARK, Application, applications
from topicast.tests.spark.standalone import Cluster, cluster, page
from topicast.tests.waiting import until
from topicast.topics.errors import AuthRefused
from topicast.topics.keys.credential import KeyPair, credential_text, read_credential
from topicast.topics.keys.folder import DRIVER

pytestmark = [
    pytest.mark.nightly,  # six JVMs
    pytest.mark.timeout(600),
    pytest.mark.skipif(SPARK < (4, 0), reason="Spark has no data sources in Python"),
]

PLANNER = "pyspark.sql.worker.plan_data_source_read"
COLUMNS = {
    "tables": ("db", "table", "type", "location"),
    "columns": ("db", "table", "column", "type", "position"),
    "partitions": ("db", "table", "partition", "location"),
    "changes": ("topic", "version", "kind", "table", "partition", "after"),
}
PRELUDE = """
import os
from topicast.pipeline.convert import convert
from topicast.pipeline.export import export
from topicast.pipeline.files import files

os.environ["TOPICAST_STATESTORES"] = {address!r}

def view(name, **options):
    source = spark.read.format("topicast").options(view=name, statestores={address!r}, **options)
    return source.load()

def stream(folder, **options):
    source = spark.readStream.format("topicast").options(view="changes", **options)
    rows = source.option("statestores", {address!r}).load()
    sink = rows.writeStream.format("parquet").option("checkpointLocation", folder + "/checkpoint")
    await_end(sink.option("path", folder + "/rows").trigger(availableNow=True))

def slowly(folder):
    from pathlib import Path
    from pyspark import TaskContext
    from topicast.tests.waiting import until

    def wait(batches):
        task = TaskContext.get()
        for batch in batches:
            Path(folder, f"{{task.partitionId()}}.{{task.attemptNumber()}}").touch()
            until(Path(folder, "go").exists, timeout_s=100)
            yield batch

    frame = view("partitions").select("db", "table", "partition")
    return frame.mapInArrow(wait, frame.schema).collect()
"""


@dataclass
class Stand:
    """A cluster with an application, and what that reads."""

    cluster: Cluster
    daemons: Daemons
    one: Application

    def options(self, view: str) -> SourceOptions:
        return read_options({"view": view, "statestores": self.daemons.hub_address})

    def read_here(self, view: str) -> list[list[object]]:
        """Return the rows of a view, planned and read in this process, without Spark."""
        options, columns = self.options(view), COLUMNS[view]
        with planning(options) as planner:
            works = planner.works(options, columns)
        reader = TaskReader(options, columns)
        found = [list(row) for work in works for rows in reader.batches(work) for row in rows]
        return sorted(found, key=str)

    def read(self, view: str) -> Any:
        """Return the rows of a view, as executors read them."""
        return self.one.read(it=f"view({view!r}).select(*{COLUMNS[view]!r})")["it"]

    def sync(self) -> None:
        """Wait until catalogd has what the application has done."""
        with Subscriber(self.daemons.hub_address, timeout_s=60) as catalog:
            catalog.sync()

    def planner(self) -> int:
        """Return the process of Spark's that forks those that plan."""
        return next(one.pid for one in running(PLANNER) if one.info["ppid"] == self.one.pids[1])

    def renewals(self) -> list[psutil.Process]:
        """Return the processes that renew the key of executors."""
        return running(renewal.__name__, self.daemons.hub_address)


def running(*arguments: str) -> list[psutil.Process]:
    """Return the processes with all of ``arguments`` in their command."""
    found = psutil.process_iter(["ppid", "cmdline"])
    return [one for one in found if {*arguments} <= {*(one.info["cmdline"] or ())}]


@pytest.fixture(scope="module")
def stand(hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    folder = tmp_path_factory.mktemp("standalone")
    (folder / "cluster").mkdir()
    ui = {"spark.ui.enabled": "true", "spark.ui.port": "0"}
    with (
        both_daemons(folder, hive.uri) as daemons,
        cluster(folder / "cluster") as found,
        applications(folder, hive.uri, one={**found.settings(), **ui}) as started,
    ):
        one = started["one"]
        one.do(PRELUDE.format(address=daemons.hub_address))
        one.sql(
            "CREATE DATABASE cluster_raw",
            "CREATE DATABASE cluster_lake",
            "CREATE TABLE cluster_raw.events (id INT, city STRING, ds STRING) USING csv "
            "PARTITIONED BY (ds)",
            "INSERT INTO cluster_raw.events VALUES (1, 'a', '1'), (2, 'b', '2')",
        )
        yield Stand(found, daemons, one)


def test_source_and_pipelines_give_on_executors_what_they_give_here(
    stand: Stand, tmp_path: Path
) -> None:
    one = stand.one
    converted = one.do(
        "convert(spark, 'cluster_raw.events', 'cluster_lake.events', once=True).as_dict()"
    )
    assert (len(converted["created"]), converted["rows"], converted["quarantined"]) == (2, 2, {})
    one.sql("REFRESH TABLE cluster_lake.events")
    source, copy = (
        one.rows(f"SELECT id, city, ds FROM {db}.events") for db in ("cluster_raw", "cluster_lake")
    )
    assert copy == source == [[1, "a", "1"], [2, "b", "2"]]

    stand.sync()
    for view in COLUMNS:
        assert stand.read(view) == stand.read_here(view), view
    one.do(f"stream({str(tmp_path)!r}, startingVersion='earliest')")
    streamed = f"spark.read.parquet('{tmp_path}/rows').select(*{COLUMNS['changes']!r})"
    assert one.read(it=streamed)["it"] == stand.read_here("changes")

    first = one.do("files(spark, 'cluster_raw.*').as_dict()")
    assert (first["partitions"], first["files"], first["unreadable"]) == (2, 2, {})
    folder = folder_of(stand, "cluster_raw", "events", "ds=1")
    shutil.copyfile(next(folder.glob("part-*")), folder / "by_hand.csv")
    assert one.do("files(spark, 'cluster_raw.*').as_dict()")["changed"] == [
        "cluster_raw.events/ds=1"
    ]

    report = one.do(f"export(spark, '{tmp_path}/catalog').as_dict()")
    for view in ("tables", "columns", "partitions"):
        rows = stand.read_here(view)
        assert report["rows"][view] == len(rows)
        exported = f"spark.read.parquet('{tmp_path}/catalog/v1/{view}').select(*{COLUMNS[view]!r})"
        assert one.read(it=exported)["it"] == rows


def folder_of(stand: Stand, db: str, table: str, partition: str) -> Path:
    """Return the folder of a partition."""
    found = {tuple(row[:3]): str(row[3]) for row in stand.read_here("partitions")}
    return Path(found[(db, table, partition)].removeprefix("file:"))


def test_read_is_of_one_moment_whatever_dies_and_changes_meanwhile(
    stand: Stand, tmp_path: Path
) -> None:
    one, folder = stand.one, tmp_path / "rows"
    folder.mkdir()
    one.sql(
        "CREATE TABLE cluster_raw.dropped (id INT) PARTITIONED BY (ds STRING) STORED AS PARQUET",
        "INSERT INTO cluster_raw.dropped VALUES (1, '1'), (2, '2')",
    )
    stand.sync()
    before = [row[:3] for row in stand.read_here("partitions")]
    one.do(f"reading = threads.submit(slowly, {str(folder)!r})")
    until(lambda: list(folder.iterdir()), timeout_s=60)
    one.sql(
        "DROP TABLE cluster_raw.dropped",
        "ALTER TABLE cluster_raw.events ADD PARTITION (ds = '3')",
        "ALTER TABLE cluster_raw.events ADD COLUMNS (more INT)",
    )
    stand.sync()
    stand.daemons.kill("catalogd")
    stand.daemons.kill("statestored")
    for executor in stand.cluster.executors():
        executor.kill()
    stand.daemons.start("statestored")
    stand.daemons.start("catalogd")
    (folder / "go").touch()
    assert sorted(one.do("[list(row) for row in reading.result()]")) == sorted(before)
    attempts = {file.suffix for file in folder.iterdir()}
    assert len(attempts) > 1  # the task was tried again

    stand.sync()
    after = [row[:3] for row in stand.read_here("partitions")]
    assert [row[:3] for row in stand.read("partitions")] == after
    assert after != before


def test_executors_have_no_key_of_the_driver_and_theirs_ends_with_the_application(
    stand: Stand,
) -> None:
    stand.read("tables")
    driver = user_keys(DRIVER).credential
    executors = application_of(stand.planner()).pair_of(driver)
    web, name = stand.one.do("spark.sparkContext.uiWebUrl, spark.sparkContext.applicationId")
    shown = [*stand.cluster.texts()]
    for what in ("environment", "executors", "jobs", "stages", "sql?details=true"):
        shown.append((what, page(f"{web}/api/v1/applications/{name}/{what}")))
    conf = stand.one.do("[list(pair) for pair in spark.sparkContext.getConf().getAll()]")
    shown.append(("configuration", str(conf).encode()))
    assert len(shown) > 12
    for pair in (driver.pair, executors):
        assert [what for what, text in shown if pair.secret.encode() in text] == []

    work = work_of(stand, executors)
    assert read_at_once(stand, work)
    assert stand.renewals()
    stand.one.do("spark.stop()")
    until(lambda: not stand.renewals(), timeout_s=20)
    with pytest.raises(AuthRefused, match="ends with the application"):
        read_at_once(stand, work)


def work_of(stand: Stand, pair: KeyPair) -> Work:
    """Return the work of reading all tables with the key ``pair``."""
    options = stand.options("tables")
    with planning(options) as planner:
        (work, *_) = planner.works(options, COLUMNS["tables"])
    found = read_credential(work.credential, source="work")
    return replace(work, credential=credential_text(replace(found, pair=pair)))


def read_at_once(stand: Stand, work: Work) -> list[object]:
    """Return what ``work`` reads; its key has to be admitted now."""
    reader = TaskReader(stand.options("tables"), COLUMNS["tables"], refused_s=0)
    return [row for rows in reader.batches(work) for row in rows]
