"""The data source of Spark: a whole catalog as DataFrames, and its changes as a stream.

partitions  all of them with their locations and parameters, in rows of a second, beside
            listPartitions of Spark's catalog, which asks the metastore for each table
names       all names of partitions, beside SHOW PARTITIONS
tables      all tables, beside Spark's getTableMetadata of each
stream      ms from a commit in the metastore to its row in foreachBatch, beyond trigger_ms: those
            from a line of a file to its row, by a source of ten lines, which is what Spark takes;
            subscriber_ms: those from the commit to a subscriber

A store of catalogd with 10 partitions for each table on average, which is filled in bulk; the
metastore has one table of 20,000 partitions, of which the same rows of a second are taken.
The target is that of the full size, which is ten times as large:
TABLES=100000 PARTITIONS=1000000 in the environment.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hmsclient import HMSClient

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.bench.bench import Bench
from topicast.tests.bench.bench_start import known_to
from topicast.tests.bench.metastores import create_large
from topicast.tests.bench.processes import resident_mb
from topicast.tests.bench.report import at_most, beside, percentiles, quantile, say
from topicast.tests.bench.stores import fill_store
from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.spark.applications import Application
from topicast.tests.waiting import until

TABLES: Final = int(os.environ.get("TABLES", "10000"))
PARTITIONS: Final = int(os.environ.get("PARTITIONS", "100000"))
PARTITIONED: Final = 2000  # of the tables
FULL_SIZE: Final = 1_000_000  # partitions, for which the ratio is to be reached
ITS_PARTITIONS, ITS_TABLES = 20_000, 500
SMALL_MIN: Final = 2.0  # the same with fewer: more of it is what a query costs without rows
RATIO_MIN: Final = 5.0  # of the rows of a second that Spark has from the metastore
LEAST: Final = RATIO_MIN if PARTITIONS >= FULL_SIZE else SMALL_MIN
CHANGES, WARM_UP = 30, 3
STREAM_P50_MS_MAX: Final = 300.0  # beyond what a trigger takes
DB: Final = "bench"
FULL: Final = "db string, table string, partition string, location string, "
PREPARE: Final = """
def source(name, columns):
    found = spark.read.format("topicast").options(view=name, statestores={hub!r}, asOf=as_of)
    return found.schema(columns).load()

def ours(name, columns):
    return s(lambda: source(name, columns).write.format("noop").mode("overwrite").save())

from topicast.pipeline.datasource import snapshot_version
as_of = snapshot_version({hub!r})
catalog = spark._jsparkSession.sessionState().catalog()
to_table = spark._jvm.org.apache.spark.sql.catalyst.TableIdentifier
none = spark._jvm.scala.Option.empty()

def identifier(name):
    return to_table(name, spark._jvm.scala.Option.apply({db!r}))

def listed(name):
    return s(lambda: catalog.listPartitions(identifier(name), none).size())

def looked_up(numbers):
    return s(lambda: [catalog.getTableMetadata(identifier(f"t{{one:04}}")) for one in numbers])
"""
STREAM: Final = """
import os
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

class Appended(DataSource):
    @classmethod
    def name(cls):
        return "appended"
    def schema(self):
        return "partition string"
    def streamReader(self, schema):
        return AppendedReader(self.options["path"])

class AppendedReader(DataSourceStreamReader):
    def __init__(self, path):
        self.path = path
    def initialOffset(self):
        return {{"at": os.path.getsize(self.path)}}
    def latestOffset(self, *_):
        return {{"at": os.path.getsize(self.path)}}
    def partitions(self, start, end):
        return [InputPartition((start["at"], end["at"]))]
    def read(self, partition):
        begin, end = partition.value
        with open(self.path) as file:
            for line in file.read()[begin:end].splitlines():
                yield (line,)

spark.dataSource.register(Appended)
seen = {{}}

def note(rows, _):
    found = [row[0] for row in rows.select("partition").collect()]
    now = time.monotonic()
    for partition in found:
        seen.setdefault(partition, now)

def stream(format, name, **options):
    rows = spark.readStream.format(format).options(**options).load()
    query = rows.writeStream.foreachBatch(note).trigger(processingTime="0 seconds")
    return query.option("checkpointLocation", {folder!r} + "/checkpoint-" + name).start()

def ours():
    return stream("topicast", "ours", view="changes", tables={db!r} + ".*", statestores={hub!r})

def plain(path):
    return stream("appended", "plain", path=path)

def waits(query):
    if query.exception() is not None:
        raise query.exception()
    return query.status["message"] == "Waiting for data to arrive"
"""


def serve_filled(bench: Bench) -> str:
    """Serve a catalog of full size; return the hub's address.

    Its metastore has none of it, and is stopped before catalogd compares the names.
    """
    hive = bench.metastore(optimized=False)
    size = {"tables": TABLES, "partitioned": min(PARTITIONED, TABLES), "partitions": PARTITIONS}
    fill_store(bench.folder / "state", **size, window=known_to(hive.uri))
    address, _ = bench.served(hive)
    hive.stop()
    return address


def application(bench: Bench) -> tuple[Application, EmbeddedMetastore, HMSClient]:
    """Run a stack on a metastore with some tables, one of which has many partitions."""
    hive = bench.metastore()
    client = bench.client(hive)
    create_large(hive, client, (DB, "large"), partitions=ITS_PARTITIONS)
    for number in range(ITS_TABLES):
        client.create_table(make_table(DB, f"t{number:04}", location=f"file:/{DB}/{number}"))
    return bench.drivers(hive.uri, one={})[0], hive, client


def bench_batch(one: Application, *, hub: str) -> None:
    """Read all of each view, beside what Spark has from the metastore."""
    one.do(PREPARE.format(hub=hub, db=DB))
    showing = f"s(lambda: spark.sql('SHOW PARTITIONS {DB}.large').collect())"
    its = {
        "partitions": ITS_PARTITIONS / one.do("listed('large')"),
        "names": ITS_PARTITIONS / one.do(showing),
        "tables": ITS_TABLES / one.do(f"looked_up(range({ITS_TABLES}))"),
    }
    what = {
        "partitions": ("partitions", FULL + "parameters map<string,string>", "listPartitions"),
        "names": ("partitions", "db string, table string, partition string", "SHOW PARTITIONS"),
        "tables": ("tables", "db string, table string, type string, location string", "each table"),
    }
    one.do("ours('databases', 'db string')")  # so that none pays for what is loaded once
    for name, (view, columns, beside_what) in what.items():
        before = resident_mb(*one.pids)
        took_s = one.do(f"ours({view!r}, {columns!r})")
        grown_mb = resident_mb(*one.pids) - before
        rows = one.do(f"source({view!r}, 'db string, table string').count()")
        against = beside(beside_what, rows / took_s, its[name], least=LEAST)
        say(name, against, rows=rows, rows_s=rows / took_s, driver_grown_mb=grown_mb)


def bench_stream(one: Application, client: HMSClient, *, hub: str, folder: Path) -> None:
    """Change what two streams follow, one after the other: ours, and a file that is appended to."""
    table = make_table(DB, "streamed", location=f"file:/{DB}/streamed", keys=["ds"])
    client.create_table(table)
    one.do(STREAM.format(db=DB, hub=hub, folder=str(folder)))
    appended = folder / "appended"
    appended.touch()
    delivered: list[float] = []

    def append(number: int) -> str:
        with appended.open("a", encoding="utf-8") as file:
            file.write(f"line {number}\n")
        return f"line {number}"

    plain = delays(one, f"plain({str(appended)!r})", append)
    with Subscriber(hub, budget="16MB", timeout_s=60) as catalog:
        catalog.sync()
        watch = catalog.watch(f"{DB}.streamed*")

        def add(number: int) -> str:
            watch.all_within(0)
            begun = time.monotonic()
            client.add_partitions([make_partition(table, [str(number)])])
            watch.next_within(60)
            delivered.append((time.monotonic() - begun) * 1000)
            return f"ds={number}"

        ours = delays(one, "ours()", add)
    facts = {"trigger_ms": quantile(plain, 0.5), "subscriber_ms": quantile(delivered, 0.5)}
    beyond = quantile(ours, 0.5) - facts["trigger_ms"]
    say("stream", percentiles(ours), at_most(beyond, STREAM_P50_MS_MAX), **facts, beyond_ms=beyond)


def delays(one: Application, stream: str, change: Callable[[int], str]) -> list[float]:
    """Start ``stream``; return the ms from each ``change`` to the row that it names.

    The first changes, which load classes, do not count. A change is made once the query waits.
    """
    one.do(f"query = {stream}")
    found: list[float] = []
    for number in range(-WARM_UP, CHANGES):
        until(lambda: one.do("waits(query)"), interval_s=0.1, timeout_s=60)
        begun = time.monotonic()
        name = change(number)
        until(lambda: one.do(f"{name!r} in seen"), interval_s=0.5, timeout_s=60)  # noqa: B023
        if number >= 0:
            found.append((one.do(f"seen[{name!r}]") - begun) * 1000)
    one.do("query.stop()")
    return found


def main(bench: Bench) -> None:
    one, hive, client = application(bench)
    with Bench() as filled:
        bench_batch(one, hub=serve_filled(filled))
    with Bench() as followed:
        hub, _ = followed.served(hive)
        bench_stream(one, client, hub=hub, folder=bench.folder)
