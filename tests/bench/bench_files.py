"""Files put by hand: found by runs over many partitions, and by a watch.

full         a run that lists PARTITIONS partitions of FILES files each: seconds
incremental  a run after CHANGED of them got a file each: its share of the full run's LIST requests,
             and as incremental_seconds that of its seconds: medians of RUNS of both, in turn.
             The latter has its target at 20,000 partitions: begin and end of a run take 0.1 s
watch        from the rename that puts a file to the first query with it: ms, median of CHANGES

Beside the full run a walk with os.scandir and stat on one thread, and Spark's own listing by a
query for the sizes of all files; beside the watch a run over the same table, which a scheduler
would start for every change.
Run: make bench ARGS=tests/bench/bench_files.py, with PARTITIONS=20000 in the environment for more
"""

import os
import shutil
import time
from pathlib import Path
from statistics import median

from topicast.tests.bench.bench import Bench
from topicast.tests.bench.report import at_most, beside, say
from topicast.tests.spark.applications import Application, Failed
from topicast.tests.waiting import until

PARTITIONS = int(os.environ.get("PARTITIONS", "2000"))
FILES = 10
CHANGED = max(1, PARTITIONS // 200)
RUNS = 5
FULL_SIZE = 20_000
SHARE = 0.05
SMALL_SHARE = 0.2  # of the seconds with fewer partitions: a run has its own costs
OF_SPARK_MAX = 0.5  # of what a query of Spark takes that lists the same files
RUN_S_MAX = 400
CHANGES, SWEEPS = 20, 5
TARGET_MS = 1000
PUT_S_MAX = 60
QUERY = "SELECT count(*) FROM raw.events"
WATCH = """
import threading
from topicast.pipeline.files import files
hub, ended, errors = {address!r}, threading.Event(), []
def watch():
    try:
        files(spark, "raw.*", statestores=hub, watch=True, stop=ended)
    except BaseException as error:
        errors.append(repr(error))
"""


def pair(bench: Bench) -> tuple[Application, Application]:
    """Run an application that watches and an attached one that reads, and all that they need."""
    hive = bench.metastore()
    hub = bench.daemons(hive).hub_address
    watcher, reader = bench.drivers(hive.uri, watcher={}, reader={})
    watcher.do(WATCH.format(address=hub))
    reader.do(f"from topicast.subscriber.spark import attach\nhandle = attach(spark, {hub!r})")
    return watcher, reader


def walk(folder: str) -> int:
    """Return how many files are below ``folder``, having read the status of each."""
    count = 0
    with os.scandir(folder) as found:
        for one in found:
            if one.is_dir():
                count += walk(one.path)
            else:
                count += one.stat().st_size >= 0
    return count


def bench_runs(folder: Path, watcher: Application) -> None:
    """Make many partitions by hand, and list them once and again."""
    table = folder / "many"
    watcher.sql(
        "CREATE DATABASE lake",
        f"CREATE TABLE lake.many (id INT, ds STRING) USING csv PARTITIONED BY (ds) "
        f"LOCATION '{table}'",
    )
    for number in range(PARTITIONS):
        (table / f"ds={number:06}").mkdir(parents=True)
        for file in range(FILES):
            (table / f"ds={number:06}" / f"{file}.csv").write_bytes(b"1\n")
    watcher.sql("MSCK REPAIR TABLE lake.many")
    run = "files(spark, 'lake.*', statestores=hub%s).as_dict()"

    def is_known() -> bool:
        try:
            return bool(watcher.do(run % ", dry_run=True")["partitions"] == PARTITIONS)
        except Failed:  # catalogd is still reading the table
            return False

    until(is_known, timeout_s=RUN_S_MAX)
    first = watcher.do(run % "")
    assert first["files"] == PARTITIONS * FILES
    fulls, founds = [], []
    for turn in range(RUNS):  # not the first: the classes of the JVM are warm, as Spark's are
        fulls.append(watcher.do(run % ", full=True"))
        until(lambda: watcher.do(run % "")["listed"] == 0, timeout_s=RUN_S_MAX)
        for number in range(0, PARTITIONS, PARTITIONS // CHANGED):
            (table / f"ds={number:06}" / f"more{turn}.csv").write_bytes(b"1\n")
        founds.append(watcher.do(run % ""))
        assert (founds[-1]["listed"], founds[-1]["changed_count"]) == (CHANGED, CHANGED)
    full, found = fulls[0], founds[0]
    assert (full["files"], full["listed"]) == (PARTITIONS * FILES, PARTITIONS)
    full_s, found_s = (median(one["seconds"] for one in some) for some in (fulls, founds))
    began = time.perf_counter()
    files = walk(str(table))
    walked_s = time.perf_counter() - began
    query = (
        "import time\nbegan = time.perf_counter()\n"
        f"n = spark.read.format('binaryFile').load('{table}').select('length').count()\n"
        "n, time.perf_counter() - began"
    )
    counted, spark_s = watcher.do(query)
    assert counted == files == PARTITIONS * FILES + RUNS * CHANGED
    facts = {"partitions": PARTITIONS, "files": full["files"], "requests": full["requests"]}
    facts |= {"s": full_s, "first_s": first["seconds"], "spark_query_s": spark_s}
    against = beside("os.scandir on one thread", full_s, walked_s)
    say("full", facts, against, at_most(full_s / spark_s, OF_SPARK_MAX))
    share = found["requests"] / full["requests"]
    facts = {"partitions": PARTITIONS, "changed": CHANGED, "requests": found["requests"]}
    say("incremental", facts, at_most(share, SHARE), requests_share=share, s=found_s)
    of_s = found_s / full_s
    most = SHARE if PARTITIONS >= FULL_SIZE else SMALL_SHARE
    say("incremental_seconds", at_most(of_s, most), s=found_s, s_share=of_s)


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


def main(bench: Bench) -> None:
    """List many files; put some while a watch runs."""
    watcher, reader = pair(bench)
    bench_runs(bench.folder, watcher)
    table = bench.folder / "events"
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
    sweep = "files(spark, 'raw.*', statestores=hub).seconds"
    sweeps = watcher.do(f"[{sweep} for _ in range({SWEEPS})]")
    ours = median(took) * 1000
    against = beside("one sweep, without Spark's start", ours, median(sweeps) * 1000)
    facts = {"changes": CHANGES, "ms": ours, "slowest_ms": max(took) * 1000}
    say("watch", facts, against, at_most(ours, TARGET_MS))
