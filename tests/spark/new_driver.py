"""Runs a whole new driver with one query, plain or by topicast run."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from topicast.cli.quickstart.processes.spark_settings import spark_settings
from topicast.tests.spark.applications import Application, quick_environment

DATABASE = "arrives"
TABLES = (
    f"CREATE DATABASE {DATABASE}",
    f"CREATE TABLE {DATABASE}.days (id INT, ds STRING) USING parquet PARTITIONED BY (ds)",
    f"INSERT INTO {DATABASE}.days SELECT id, concat('2026-', id) FROM range(20)",
)
QUERY = (
    f"SELECT count(*) FROM {DATABASE}.days a JOIN {DATABASE}.days b ON a.id = b.id"
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
assert spark.sql({QUERY!r}).first()[0] == 1
print(time.monotonic() - begin)
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """How long its query, and the whole application took."""

    query_s: float
    whole_s: float


def create(maker: Application) -> None:
    """Make the table that the query joins with itself."""
    maker.sql(*TABLES)


def run(
    folder: Path,
    *,
    uris: str,
    metastore: str,
    under: Sequence[str] = (),
    pause_s: float = 0.0,
) -> Ran:
    """Run the query so long after its session.

    Args:
        folder: A new folder, of this driver.
        uris: Of the metastore, as the driver knows it: what counts its calls.
        metastore: As catalogd knows it.
        under: Words of a command that starts it; none: plain Spark.
        pause_s: Between the session and the query.
    """
    (folder / "scratch").mkdir(parents=True)
    conf = {**spark_settings(folder), "spark.hadoop.hive.metastore.uris": uris}
    (folder / "conf").write_text("".join(f"{key} {conf[key]}\n" for key in conf))
    (folder / "app.py").write_text(APPLICATION)
    begun = time.monotonic()
    done = subprocess.run(
        [*under, sys.executable, "app.py", "conf", str(pause_s)],
        env={**os.environ, **quick_environment(), "TOPICAST_METASTORE": metastore},
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Ran(float(done.stdout.splitlines()[-1]), time.monotonic() - begun)
