"""Audit: each side of a catalog beside catalogd's store, and the memory of Spark's driver.

metastore   tables and partitions of a second, beside one thread that only reads the metastore
hub         the same at a hub, on the driver
subscriber  the same of a subscriber that holds one topic at a time, on the driver

``driver_grown_mb`` is the most that Python and JVM of the driver took in addition, at any time.
A tenth of the tables share the partitions of a real metastore, on local[2].
Run: python -m topicast.tests.bench.bench_audit --tables 20000 --partitions 200000
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.catalog.metastore.hms import Hms
from topicast.subscriber import Subscriber
from topicast.tests.bench.bench_datasource import memory_mb
from topicast.tests.bench.metastores import FIRST_ID, create_large
from topicast.tests.bench.report import beside, least, say, timed_s
from topicast.tests.cli.processes import catalogd, statestored
from topicast.tests.cluster.fake_metastore import make_table
from topicast.tests.integration.tables import connect
from topicast.tests.spark.applications import Application, applications
from topicast.tests.waiting import until

TABLES, PARTITIONS = 2_000, 20_000
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
    found = audit(spark, "{db}", metastore=metastore, sides=[side], statestores={hub!r})
    return found.as_dict()
"""


def create(hive: EmbeddedMetastore, *, tables: int, partitions: int) -> None:
    """Make one database with ``tables``, of which LARGE share ``partitions``."""
    with connect(hive.uri) as client:
        client.create_database(Database(DB, "", f"file:/{DB}", {}))
        for number in range(LARGE):
            name, first_id = (DB, f"large{number:02}"), FIRST_ID * (number + 1)
            share = partitions // LARGE
            create_large(hive, client, name, partitions=share, first_id=first_id)

    def some(first: int) -> None:
        with connect(hive.uri) as client:
            for number in range(first, tables - LARGE, CREATING):
                client.create_table(
                    make_table(DB, f"t{number:06}", location=f"file:/{DB}/{number}")
                )

    with ThreadPoolExecutor(CREATING) as threads:
        list(threads.map(some, range(CREATING)))


def read_all(uri: str) -> None:
    """Read every table and partition once, with one thread, as catalogd would."""
    metastore = Hms(uri, timeout_s=600.0)
    names = [name for name, _ in metastore.table_names(DB)]
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
    before, ended, most = memory_mb(one), threading.Event(), [0.0]

    def look() -> None:
        while not ended.wait(0.2):
            most[0] = max(most[0], memory_mb(one) - before)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()


def bench_side(one: Application, side: str, *, count: int, its: float) -> None:
    with grown_mb(one) as grown:
        begin = time.perf_counter()
        report = one.do(f"audited({side!r})")
        took_s = time.perf_counter() - begin
    assert (report["differing"], report["unread"], report["not_loaded"]) == (0, {}, 0), report
    facts = {"objects": count, "s": took_s, "driver_grown_mb": grown[0]}
    of_reading = beside("one thread that reads the metastore", ours=count / took_s, its=its)
    reached = least(count / took_s / its, at_least=RATIO_MIN[side])
    say("bench_audit", side, **facts, **of_reading, **reached)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tables", type=int, default=TABLES)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    given = parser.parse_args()
    count = given.tables + given.partitions
    with ExitStack() as up:
        folder = Path(up.enter_context(tempfile.TemporaryDirectory()))
        hive = up.enter_context(EmbeddedMetastore(folder / "hive", durable=False, optimized=True))
        create(hive, tables=given.tables, partitions=given.partitions)
        its = count / timed_s(lambda: read_all(hive.uri))
        address = up.enter_context(statestored(folder)).ready["address"]
        up.enter_context(catalogd(folder, hive=hive.uri, statestores=address))
        one = up.enter_context(applications(folder / "apps", hive.uri, one={}))["one"]
        one.do(PREPARE.format(uri=hive.uri, hub=address, db=DB))
        with Subscriber(address, budget="64MB", timeout_s=600) as catalog:
            catalog.sync(600)
        until(
            lambda: one.do("audited('metastore')")["not_loaded"] == 0,
            timeout_s=1800,
            interval_s=5,
            what="catalogd to have loaded all tables",
        )
        for side in ("metastore", "hub", "subscriber"):
            bench_side(one, side, count=count, its=its)


if __name__ == "__main__":
    main()
