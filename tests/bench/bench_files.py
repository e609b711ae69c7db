"""Files put by hand, until an attached driver's plain query has their rows, with a watch.

watch   from the rename that puts a file to the first query that counts it: ms, median of CHANGES

Beside it a sweep of the same table, which a scheduler would start for every change.
Run: make bench ARGS=tests/bench/bench_files.py
"""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.tests.bench.report import beside, say, target
from topicast.tests.integration.daemons import Daemons
from topicast.tests.spark.applications import Application, applications
from topicast.tests.waiting import until

CHANGES, SWEEPS = 20, 5
TARGET_MS = 1000
PUT_S_MAX = 60
QUERY = "SELECT count(*) FROM raw.events"
WATCH = """
import threading
from topicast.subscriber.pipeline.files import files
hub, ended, errors = {address!r}, threading.Event(), []
def watch():
    try:
        files(spark, "raw.*", statestores=hub, watch=True, stop=ended)
    except BaseException as error:
        errors.append(repr(error))
"""


@contextmanager
def pair(folder: Path) -> Iterator[tuple[Application, Application]]:
    """Run an application that watches and an attached one that reads, and all that they need."""
    with ExitStack() as started:
        hive = started.enter_context(
            EmbeddedMetastore(folder / "hive", durable=False, optimized=True)
        )
        daemons = Daemons(folder, hive.uri)
        started.callback(daemons.close)
        daemons.start("statestored")
        daemons.start("catalogd")
        both = started.enter_context(applications(folder, hive.uri, watcher={}, reader={}))
        both["watcher"].do(WATCH.format(address=daemons.hub_address))
        both["reader"].do(
            "from topicast.subscriber.spark import attach\n"
            f"handle = attach(spark, {daemons.hub_address!r})"
        )
        yield both["watcher"], both["reader"]


def put_s(table: Path, number: int, reader: Application) -> float:
    """Return how long after a file was put by hand its row was there."""
    rows = reader.rows(QUERY)[0][0]
    part = next((table / "ds=1").glob("part-*"))
    shutil.copyfile(part, table / "ds=1" / f".{number}")
    began = time.perf_counter()
    (table / "ds=1" / f".{number}").replace(table / "ds=1" / f"{number}.csv")
    while reader.rows(QUERY) != [[rows + 1]]:  # without a pause, which would count
        assert time.perf_counter() < began + PUT_S_MAX, "the row is not there"
    return time.perf_counter() - began


def main() -> None:
    """Put files while a watch runs, then sweep."""
    with tempfile.TemporaryDirectory() as name, pair(Path(name)) as (watcher, reader):
        table = Path(name) / "events"
        watcher.sql(
            "CREATE DATABASE raw",
            f"CREATE TABLE raw.events (id INT, ds STRING) USING csv PARTITIONED BY (ds) "
            f"LOCATION '{table}'",
            "INSERT INTO raw.events VALUES (1, '1')",
        )
        until(lambda: reader.rows(QUERY) == [[1]], timeout_s=60)
        watcher.do("thread = threading.Thread(target=watch); thread.start()")
        put_s(table, 0, reader)
        took = [put_s(table, number, reader) for number in range(1, CHANGES + 1)]
        watcher.do("ended.set(); thread.join(60); assert not errors, errors")
        sweeps = watcher.do(
            "begin = []\n"
            f"for _ in range({SWEEPS}): "
            "begin.append(files(spark, 'raw.*', statestores=hub).seconds)\n"
            "begin"
        )
        ours = median(took) * 1000
        say(
            "bench_files",
            "watch",
            changes=CHANGES,
            ms=ours,
            slowest_ms=max(took) * 1000,
            **beside("one sweep, without Spark's start", ours=ours, its=median(sweeps) * 1000),
            **target(ours, at_most=TARGET_MS),
        )


if __name__ == "__main__":
    main()
