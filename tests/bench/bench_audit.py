"""Audit: each side of a catalog beside catalogd's store, and the memory of Spark's driver.

metastore   tables and partitions of a second, beside one thread that only reads the metastore
hub         the same at a hub, on the driver
subscriber  the same of a subscriber that holds one topic at a time, on the driver

``driver_grown_mb`` is the most that Python and JVM of the driver took in addition, at any time.
A tenth of the tables share the partitions of a real metastore, on local[2].
TABLES=20000 PARTITIONS=200000 in the environment: on ten times as many.
"""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from hmsclient import HMSClient

from topicast.catalog.metastore.hms import Hms
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.bench.bench import Bench
from topicast.tests.bench.metastores import FIRST_ID, create_large
from topicast.tests.bench.processes import resident_mb
from topicast.tests.bench.report import beside, say, timed_s
from topicast.tests.cluster.fake_metastore import make_table
from topicast.tests.integration.tables import connect
from topicast.tests.spark.applications import Application
from topicast.tests.waiting import until

TABLES: Final = int(os.environ.get("TABLES", "2000"))
PARTITIONS: Final = int(os.environ.get("PARTITIONS", "20000"))
COUNT: Final = TABLES + PARTITIONS
LARGE: Final = 20  # tables that have partitions
CREATING: Final = 4  # threads that create tables
RATIO_MIN: Final = {"metastore": 0.8, "hub": 3.0, "subscriber": 1.5}  # of one thread's objects/s
READ_MAX: Final = 1000  # tables or partitions of one request
DB: Final = "audited"
PREPARE: Final = """
from functools import partial
from topicast.catalog.metastore.hive_site import MetastoreFlags
from topicast.catalog.metastore.hms import connection
from topicast.pipeline.audit import audit

def audited(side):
    metastore = partial(connection, MetastoreFlags(hive_metastore_uris={uri!r}))
    found = audit(spark, "{db}", metastore=metastore, sides=side, statestores={hub!r})
    return found.as_dict()
"""


def create(hive: EmbeddedMetastore, client: HMSClient) -> None:
    """Make the tables of the database, of which LARGE share the partitions."""
    for number in range(LARGE):
        name, first_id = (DB, f"large{number:02}"), FIRST_ID * (number + 1)
        create_large(hive, client, name, partitions=PARTITIONS // LARGE, first_id=first_id)

    def some(first: int) -> None:
        with connect(hive.uri) as client:
            for number in range(first, TABLES - LARGE, CREATING):
                table = make_table(DB, f"t{number:06}", location=f"file:/{DB}/{number}")
                client.create_table(table)

    with ThreadPoolExecutor(CREATING) as threads:
        list(threads.map(some, range(CREATING)))


def read_all(uri: str) -> None:
    """Read every table and partition once, with one thread, as catalogd would."""
    metastore = Hms(uri, timeout_s=600.0)
    names = [*metastore.names(DB)]
    for at in range(0, len(names), READ_MAX):
        metastore.tables(DB, names[at : at + READ_MAX])
    for table in (name for name in names if name.startswith("large")):
        partitions = metastore.partition_names(DB, table)
        for at in range(0, len(partitions), READ_MAX):
            metastore.partitions(DB, table, partitions[at : at + READ_MAX])
    metastore.close()


@contextmanager
def grown_mb(one: Application) -> Iterator[list[float]]:
    """Yield a list that has, at the end, by how many MB the driver has grown at the most."""
    before, ended, most = resident_mb(*one.pids), threading.Event(), [0.0]

    def look() -> None:
        while not ended.wait(0.2):
            most[0] = max(most[0], resident_mb(*one.pids) - before)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()


def bench_side(one: Application, side: str, *, its: float) -> None:
    with grown_mb(one) as grown:
        begin = time.perf_counter()
        report = one.do(f"audited({side!r})")
        took_s = time.perf_counter() - begin
    assert (report["differing"], report["unread"], report["not_loaded"]) == (0, {}, 0), report
    what = "one thread that reads the metastore"
    of_reading = beside(what, COUNT / took_s, its, least=RATIO_MIN[side])
    say(side, of_reading, objects=COUNT, s=took_s, driver_grown_mb=grown[0])


def main(bench: Bench) -> None:
    hive = bench.metastore()
    create(hive, bench.client(hive, DB))
    its = COUNT / timed_s(lambda: read_all(hive.uri))
    address, _ = bench.served(hive)
    (one,) = bench.drivers(hive.uri, one={})
    one.do(PREPARE.format(uri=hive.uri, hub=address, db=DB))
    until(
        lambda: one.do("audited('metastore')")["not_loaded"] == 0,
        timeout_s=1800,
        interval_s=5,
        what="catalogd to have loaded all tables",
    )
    for side in ("metastore", "hub", "subscriber"):
        bench_side(one, side, its=its)
