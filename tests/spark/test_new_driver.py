"""A whole new driver with one query: how often it asks the metastore, plain and by topicast run."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.cli.quickstart.counting import Counting
from topicast.cli.quickstart.spark_settings import spark_settings
from topicast.tests.integration.daemons import both_daemons
from topicast.tests.spark.applications import applications, quick_environment
from topicast.tests.spark.jvm.shells import of_run

pytestmark = pytest.mark.nightly  # five drivers

QUERY = (
    "SELECT count(*) FROM arrives.days a JOIN arrives.days b ON a.id = b.id"
    " WHERE a.ds = '2026-3' AND b.ds >= '2026-3'"
)
APPLICATION = f"""
import sys, time
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]")
for line in open(sys.argv[1]):
    name, _, value = line.rstrip().partition(" ")
    builder = builder.config(name, value)
spark = builder.enableHiveSupport().getOrCreate()
time.sleep(float(sys.argv[2]))
begin = time.monotonic()
print(spark.sql({QUERY!r}).collect())
print(time.monotonic() - begin, file=sys.stderr)
"""
GREETING = "set_ugi"  # of each connection
BEFORE_ANYBODY = 2  # calls, by which Spark makes its catalog and begins its first plan
TRIES = 2  # on a machine where the endpoint is not up by then


@pytest.mark.timeout(600)
def test_query_of_a_new_driver_asks_the_metastore_for_nothing_that_is_followed(
    hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APPLICATION)
    with (
        Counting(hive.uri) as counting,
        both_daemons(tmp_path, hive.uri) as daemons,
        applications(tmp_path, hive.uri, maker={}) as both,
    ):
        both["maker"].sql(
            "CREATE DATABASE arrives",
            "CREATE TABLE arrives.days (id INT, ds STRING) USING parquet PARTITIONED BY (ds)",
            "INSERT INTO arrives.days SELECT id, concat('2026-', id) FROM range(20)",
        )

        def calls(under: Sequence[str], pause_s: int) -> Counter[str]:
            """Run the query so long after its session; return the calls of the whole driver."""
            folder = tmp_path / str(len([*tmp_path.iterdir()]))
            (folder / "scratch").mkdir(parents=True)
            conf = {**spark_settings(folder), "spark.hadoop.hive.metastore.uris": counting.uri}
            (folder / "conf").write_text("".join(f"{key} {conf[key]}\n" for key in conf))
            counting.take()
            done = subprocess.run(
                [*under, sys.executable, "../app.py", "conf", str(pause_s)],
                env={**os.environ, **quick_environment(), "TOPICAST_METASTORE": hive.uri},
                cwd=folder,
                capture_output=True,
                text=True,
                check=True,
            )
            assert "count(1)=1" in done.stdout
            found = counting.take()
            del found[GREETING]
            print(under[-3:], pause_s, dict(found), done.stderr.splitlines()[-1])
            return found

        attached = of_run(daemons.hub_address)
        assert sum(calls([], 0).values()) >= 10
        for pause_s in (0, 10):
            fewest = min(sum(calls(attached, pause_s).values()) for _ in range(TRIES))
            assert fewest <= BEFORE_ANYBODY
