"""Many small partitions of CSV into a Parquet copy, beside one batch job that is written by hand.

first   every partition is new: rows of a second, with all changes of the metastore
again   nothing has changed: ms, for the listing of all files and the comparison

By hand it is one INSERT with dynamic partitions, into a table that Spark manages; both once before,
in small, so that neither pays for classes that are loaded. What a partition holds is the same.
The target is that of 1,000 partitions: PARTITIONS=1000 in the environment.
"""

import os

from topicast.tests.bench.bench import Bench
from topicast.tests.bench.report import at_most, beside, say

PARTITIONS, WARM_UP = int(os.environ.get("PARTITIONS", "200")), 20
ROWS = 500  # of a partition
RATIO_MIN = 0.7  # of the rows of a second by hand
AGAIN_MS_MAX = 1000.0  # when nothing has changed
SETTINGS = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
PREPARE = """
import os
from pathlib import Path
from topicast.pipeline.convert import convert

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
    hand, copy = (spark.table(f"lake.{table}{end}") for end in ("_hand", ""))
    return hand.count() == copy.count() and not hand.exceptAll(copy).count()
"""


def main(bench: Bench) -> None:
    """Convert by hand and by ours, in turns, then compare what came of it."""
    hive = bench.metastore()
    hub = bench.daemons(hive).hub_address
    (one,) = bench.drivers(hive.uri, ours=SETTINGS)
    one.do(PREPARE + f"os.environ['TOPICAST_STATESTORES'] = {hub!r}")
    one.sql("CREATE DATABASE raw", "CREATE DATABASE lake")
    for table, partitions in (("warm", WARM_UP), ("events", PARTITIONS)):
        one.do(f"fill({table!r}, {f'{bench.folder}/{table}'!r}, {partitions}, {ROWS})")
        its_s, ours_s = one.do(f"[by_hand({table!r}), ours({table!r}, {partitions})]")
    assert one.do("same('events')")
    rows = PARTITIONS * ROWS
    what, facts = "one INSERT with dynamic partitions", {"partitions": PARTITIONS, "rows": rows}
    against = beside(what, rows / ours_s, rows / its_s, least=RATIO_MIN)
    say("first", facts, against, rows_s=rows / ours_s)
    ms = one.do(f"ours('events', {PARTITIONS})") * 1000
    say("again", at_most(ms, AGAIN_MS_MAX), partitions=PARTITIONS, ms=ms)
