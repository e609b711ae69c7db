"""A real server of Spark Connect in an attached driver, and a real client of it, without a JVM.

The client never says REFRESH. What plain Spark answers it is shown first, in the same run.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from topicast.tests.spark.applications import SPARK, Application, Client
from topicast.tests.spark.cells import cells
from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.pair import BEFORE, SLOW_ROWS, WAIT_S, Pair
from topicast.tests.spark.servers import connect_server
from topicast.tests.waiting import until

if SPARK < (4, 0):
    pytest.skip(
        "PySpark 3.5 as pip installs it has no jar of Spark Connect's server",
        allow_module_level=True,
    )

STATISTICS = "spark.sql.statistics.size.autoUpdate.enabled"
EVERY_KIND = {
    "parquet": "USING parquet",
    "parquet_by_day": "USING parquet PARTITIONED BY (ds)",
    "hive_parquet": "STORED AS parquet",
}
KINDS = cells(EVERY_KIND, some=("parquet", "hive_parquet"))
PLAIN = {kind: KINDS[kind] for kind in ("parquet",)}  # tests/spark/test_refresh.py has all
THREE, NOTE = "(30, 'a'), (40, 'a'), (50, 'a')", "ADD COLUMNS (note STRING)"
OVERWRITTEN = [[30, "a"], [40, "a"], [50, "a"]]
NO_SERVER = "Seeker()(spark) is None"
BY_STREAM = """[
    spark.sql("SELECT 6 AS id").write.json(where + "-in"),
    spark.readStream.schema("id INT").json(where + "-in").writeStream
    .option("checkpointLocation", where + "-checkpoint").trigger(availableNow=True)
    .start(where).awaitTermination(),
]"""


@dataclass
class Place(Pair):
    """A pair: ``writer`` is a driver, ``reader`` a Connect client of the server in ``host``."""

    host: Application
    address: str

    @property
    def client(self) -> Application:
        return self.reader

    def refreshed(self) -> None:
        """Wait until the host has refreshed all that was written."""
        self.host.do(f"handle.sync({WAIT_S})")

    def status(self, field: str) -> Any:
        """Return a field of the host's status."""
        return self.host.do(f"handle.status().{field}")


@pytest.fixture(scope="module")
def unserved(drivers: Drivers) -> dict[str, Any]:
    """What an attached driver is before it hosts a server."""
    host, hub = drivers.reader, drivers.daemons.hub_address
    host.do("from topicast.subscriber.spark.agent.connect import Seeker")
    for one in (drivers.reader, drivers.writer):
        one.do("attach(spark).detach()")  # whatever was attached in other modules
    drivers.writer.sql(f"SET {STATISTICS}=true")
    host.do(f"handle = attach(spark, {hub!r}); handle.sync({WAIT_S})")
    found = {
        "not loaded": host.do(NO_SERVER),
        "connect_sessions": host.do("handle.status().connect_sessions"),
        "errors": host.do("handle.status().errors"),
    }
    host.do("handle.detach()")
    return found


@pytest.fixture(scope="module")
def place(drivers: Drivers, unserved: object, tmp_path_factory: Any) -> Iterator[Place]:
    """A client of a server in a driver that is not attached yet."""
    with connect_server(drivers.reader) as address:
        client = Client(tmp_path_factory.mktemp("client"), address)
        try:
            assert drivers.reader.do(NO_SERVER) is False, "so that it means something before"
            yield Place(drivers.writer, client, drivers.daemons, drivers.reader, address)
        finally:
            client.end()
    drivers.reader.do("handle.detach()")


@pytest.fixture(scope="module")
def plain(place: Place) -> dict[str, dict[str, Any]]:
    """What the client is answered by plain Spark after each change, by kind of table."""
    found = {}
    place.create("plain_connect", PLAIN)
    place.sees("plain_connect", dict.fromkeys(PLAIN, BEFORE))
    place.insert("plain_connect", PLAIN, "(2, 'a')")
    found["append"] = place.read("plain_connect", PLAIN)
    place.insert("plain_connect", PLAIN, THREE, how="OVERWRITE")
    found["overwrite"] = place.read("plain_connect", PLAIN)
    place.alter("plain_connect", PLAIN, NOTE)
    found["widen"] = place.read("plain_connect", PLAIN, "note")
    return found


@pytest.fixture(scope="module")
def attached(place: Place, plain: object) -> Place:
    place.host.do(f"handle = attach(spark, {place.daemons.hub_address!r})")
    place.refreshed()
    return place


def test_without_a_server_none_of_its_classes_is_loaded(unserved: dict[str, Any]) -> None:
    assert unserved == {"not loaded": True, "connect_sessions": 0, "errors": 0}


def test_client_of_plain_spark_reads_old_rows_and_then_fails(
    plain: dict[str, dict[str, Any]],
) -> None:
    assert plain["append"]["parquet"] == BEFORE
    assert "FILE_NOT_EXIST" in plain["overwrite"]["parquet"]
    assert "UNRESOLVED_COLUMN" in plain["widen"]["parquet"]


def test_client_that_was_there_before_is_right_once_the_driver_is_attached(
    attached: Place,
) -> None:
    assert attached.read("plain_connect", PLAIN, "id, ds") == {"parquet": OVERWRITTEN}
    assert (attached.status("connect_sessions"), attached.status("errors")) == (1, 0)


def test_client_sees_each_change(attached: Place) -> None:
    place = attached
    place.create("connected", KINDS)
    place.sees("connected", dict.fromkeys(KINDS, BEFORE))
    place.client.do(
        "frame = spark.table('connected.parquet').na.fill(0).select('id'); frame.columns"
    )
    place.insert("connected", KINDS, "(2, 'a')")
    place.refreshed()
    assert place.read("connected", KINDS) == {kind: [*BEFORE, [2, "a"]] for kind in KINDS}
    assert place.client.read(it="frame") == {"it": [[1], [2]]}, "its plan is not kept either"
    place.insert("connected", KINDS, THREE, how="OVERWRITE")
    place.refreshed()
    assert place.read("connected", KINDS) == dict.fromkeys(KINDS, OVERWRITTEN)
    place.alter("connected", KINDS, NOTE)
    place.refreshed()
    without = [[number, None] for number, _ in OVERWRITTEN]
    assert place.read("connected", KINDS, "id, note") == dict.fromkeys(KINDS, without)
    assert place.client.read(it="frame") == {"it": [[30], [40], [50]]}
    assert place.status("errors") == 0


HOSTED = """
def hosted():
    found = [one.getValue().session() for one in Seeker()(spark).sessions().entrySet().toArray()]
    return {one.sessionUUID(): one for one in found}

before = set(hosted())
"""
OTHER = """
(weak,) = [
    java.java.lang.ref.WeakReference(one) for name, one in hosted().items() if name not in before
]
"""


@pytest.mark.nightly
def test_session_is_released_when_its_client_ends_it(attached: Place) -> None:
    place = attached
    place.host.do(HOSTED)
    place.client.do("from pyspark.sql import SparkSession")
    place.client.do(f"other = SparkSession.builder.remote({place.address!r}).create()")
    place.client.do("_ = other.sql('SELECT * FROM plain_connect.parquet').collect()")
    until(lambda: place.status("connect_sessions") == 2, timeout_s=WAIT_S)
    place.host.do("import gc; java = spark._jvm")
    place.host.do(OTHER)
    place.client.do("other.stop()")
    until(lambda: place.status("connect_sessions") == 1, timeout_s=WAIT_S)
    gone = "gc.collect(), java.java.lang.System.gc(), weak.get() is None"
    until(lambda: place.host.do(gone)[-1], timeout_s=WAIT_S, what="nobody holds it")
    assert place.status("errors") == 0


@pytest.mark.nightly
def test_what_a_client_writes_without_an_event_another_driver_reads(attached: Place) -> None:
    place, table = attached, "written.by_client"
    place.writer.sql(
        f"SET {STATISTICS}=false",
        "CREATE DATABASE written",
        f"CREATE TABLE {table} (id INT) USING parquet",
        f"INSERT INTO {table} VALUES (1)",
    )
    place.attach(place.writer)
    rows = [[1]]
    assert place.writer.rows(f"SELECT * FROM {table}") == rows
    location = "spark.table('written.by_client').inputFiles()[0].rpartition('/')[0]"
    place.client.do(f"where = {place.writer.do(location)!r}")
    place.client.do("from pyspark.sql import SparkSession")
    place.client.do(f"remote = SparkSession.builder.remote({place.address!r})")
    for number, write in enumerate(
        (
            f"spark.sql('INSERT INTO {table} VALUES (2)')",
            f"spark.createDataFrame([(3,)], 'id INT').write.insertInto('{table}')",
            f"spark.createDataFrame([(4,)], 'id INT').write.mode('append').saveAsTable('{table}')",
            f"remote.create().sql('INSERT INTO {table} VALUES (5)')",
            BY_STREAM,
        ),
        start=2,
    ):
        place.client.do(f"_ = {write}")
        rows = [*rows, [number]] if write != BY_STREAM else [[6]]  # what the sink's log lists
        until(
            lambda wanted=rows: place.writer.rows(f"SELECT * FROM {table}") == wanted,  # type: ignore[misc]  # of this turn
            timeout_s=WAIT_S,
            what=write,
        )
    place.writer.do("handle.detach()")


@pytest.mark.nightly
def test_what_a_client_begins_to_write_is_known_until_it_ends(attached: Place) -> None:
    """So a server that is killed midway leaves a write that counts as a change."""
    place = attached
    place.writer.sql("CREATE DATABASE begun", "CREATE TABLE begun.t (id INT) USING parquet")
    write = f"INSERT INTO begun.t {SLOW_ROWS}"
    place.client.do(f"writing = threads.submit(lambda: spark.sql({write!r}).collect())")
    until(lambda: place.intents() == 1, timeout_s=WAIT_S, what="its intent")
    # Interrupted before its job has begun, it would run on, and be interrupted no more.
    running = "len(spark.sparkContext.statusTracker().getActiveStageIds())"
    until(lambda: bool(place.host.do(running)), timeout_s=WAIT_S, what="its job")
    place.client.do("_ = spark.interruptAll()")
    until(lambda: place.intents() == 0, timeout_s=WAIT_S, what="its end")
    assert place.client.do("writing.exception() is not None")
