"""Many small partitions of CSV into a Parquet twin, beside one batch job that is written by hand.

first   every partition is new: rows of a second, with all changes of the metastore
again   nothing has changed: ms, for the listing of all files and the comparison

By hand it is one INSERT with dynamic partitions, into a table that Spark manages; both once before,
in small, so that neither pays for classes that are loaded. What a partition holds is the same.
Run: make bench ARGS=tests/bench/bench_convert.py
The target is that of 1,000 partitions: PARTITIONS=1000 python -m topicast.tests.bench.bench_convert
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.tests.bench.report import beside, least, say, target
from topicast.tests.integration.daemons import both_daemons
from topicast.tests.spark.applications import Application, applications

PARTITIONS, WARM_UP = int(os.environ.get("PARTITIONS", "200")), 20
ROWS = 500  # of a partition
RATIO_MIN = 0.7  # of the rows of a second by hand
AGAIN_MS_MAX = 1000.0  # when nothing has changed
SETTINGS = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
PREPARE = """
import os, time
from pathlib import Path
from topicast.pipeline.convert import convert

def s(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin

def fill(table, folder, partitions, rows):
    text = "".join(f"{at},{at / 4},city {at % 97}\\n" for at in range(rows))
    for number in range(partitions):
        day = Path(folder, f"ds={number:05}")
        day.mkdir(parents=True)
        (day / "part.csv").write_text(text)
    columns = "id BIGINT, amount DOUBLE, city STRING, ds STRING"
    spark.sql(
        f"CREATE TABLE raw.{table} ({columns}) USING csv PARTITIONED BY (ds) LOCATION '{folder}'"
    )
    spark.sql(f"MSCK REPAIR TABLE raw.{table}")
    spark.sql(f"CREATE TABLE lake.{table}_hand ({columns}) USING parquet PARTITIONED BY (ds)")

def by_hand(table):
    return s(lambda: spark.sql(
        f"INSERT OVERWRITE lake.{table}_hand SELECT id, amount, city, ds FROM raw.{table}"
    ))

def ours(table, partitions):
    done = []
    took_s = s(lambda: done.append(convert(spark, f"raw.{table}", f"lake.{table}")))
    assert len(done[0].created) in (0, partitions) and not done[0].quarantined, done[0]
    return took_s

def same(table):
    hand, twin = (spark.table(f"lake.{table}{end}") for end in ("_hand", ""))
    return hand.count() == twin.count() and not hand.exceptAll(twin).count()
"""


@contextmanager
def application(folder: Path) -> Iterator[Application]:
    """Run one, and all that it needs."""
    with ExitStack() as up:
        hive = up.enter_context(EmbeddedMetastore(folder / "hive", durable=False, optimized=True))
        daemons = up.enter_context(both_daemons(folder, hive.uri))
        found = up.enter_context(applications(folder, hive.uri, ours=SETTINGS))["ours"]
        found.do(PREPARE + f"os.environ['TOPICAST_STATESTORES'] = {daemons.hub_address!r}")
        found.sql("CREATE DATABASE raw", "CREATE DATABASE lake")
        yield found


def main() -> None:
    """Convert by hand and by ours, in turns, then compare what came of it."""
    with tempfile.TemporaryDirectory() as name, application(Path(name)) as one:
        for table, partitions in (("warm", WARM_UP), ("events", PARTITIONS)):
            one.do(f"fill({table!r}, {f'{name}/{table}'!r}, {partitions}, {ROWS})")
            its_s, ours_s = one.do(f"[by_hand({table!r}), ours({table!r}, {partitions})]")
        assert one.do("same('events')")
        rows = PARTITIONS * ROWS
        say(
            "bench_convert",
            "first",
            partitions=PARTITIONS,
            rows=rows,
            rows_s=rows / ours_s,
            **beside("one INSERT with dynamic partitions", ours=rows / ours_s, its=rows / its_s),
            **least(its_s / ours_s, at_least=RATIO_MIN),
        )
        again_s = one.do(f"ours('events', {PARTITIONS})")
        say(
            "bench_convert",
            "again",
            partitions=PARTITIONS,
            ms=again_s * 1000,
            **target(again_s * 1000, at_most=AGAIN_MS_MAX),
        )


if __name__ == "__main__":
    main()
