"""A subscriber inside a live Spark driver: neither disturbs the other."""

import os
import subprocess
import sys
from pathlib import Path

from topicast.tests.cluster.served import served
from topicast.tests.cluster.shop import NAMES
from topicast.tests.spark.applications import quick_environment

DRIVER = """
import asyncio, sys
from pyspark.sql import SparkSession
from topicast.subscriber import Subscriber

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
with Subscriber(sys.argv[1]) as catalog:
    print("tables", *catalog.tables("shop"))
    print("sum", spark.range(1000).selectExpr("sum(id)").first()[0])
    numbers = spark.sparkContext.parallelize(range(4)).map(lambda number: number + 1)
    print("workers", numbers.sum())  # Python workers are forked while the subscriber is open
    print("partitions", len(catalog.partitions("shop.sales")))
    print("asyncio", len(asyncio.run(asyncio.to_thread(catalog.tables, "shop"))))
spark.stop()
"""


def test_subscriber_works_inside_a_live_spark_driver(tmp_path: Path) -> None:
    with served(tmp_path) as running:
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, running.address],
            env={**os.environ, **quick_environment()},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert said["tables"].split() == list(NAMES)
    assert (said["sum"], said["workers"]) == ("499500", "10")
    assert (said["partitions"], said["asyncio"]) == ("100", "6")
