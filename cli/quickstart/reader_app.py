"""The reader: a Spark driver with a subscriber inside, that says what it sees and when.

    python -m topicast.cli.quickstart.reader_app FOLDER STATESTORES
    in:  metastore URI     out: one JSON object a line

Its own Spark starts in the background, behind the writer's, and answers one query at the end.
"""

import json
import os
import signal
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from ...subscriber import Subscriber
from .spark_settings import spark_settings
from .steps import QUERY, STEPS

BUDGET: Final = "64MB"
READY_TIMEOUT_S: Final = 60.0
BEHIND_THE_WRITER: Final = 10  # niceness of our Spark: on few cores the first change comes first


def main(folder: Path, statestores: str) -> None:
    """Follow the steps, let Spark query what they made, then report every change there is."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with ThreadPoolExecutor(1) as background:
        spark = background.submit(_start_spark, folder)
        try:
            with Subscriber(statestores, budget=BUDGET, timeout_s=READY_TIMEOUT_S) as catalog:
                _say(ready=True)
                _follow(catalog, spark)
        finally:
            spark.result().sparkContext.stop()


def _start_spark(folder: Path) -> SparkSession:
    os.nice(BEHIND_THE_WRITER)  # of this thread, and of the JVM that it starts
    context = SparkContext(conf=SparkConf().setAll(list(spark_settings(folder).items())))
    uri = sys.stdin.readline().strip()
    context._jsc.hadoopConfiguration().set("hive.metastore.uris", uri)
    return SparkSession(context)


def _follow(catalog: Subscriber, spark: "Future[SparkSession]") -> None:
    changes = catalog.watch("*")
    for number, step in enumerate(STEPS):
        while not (saw := step.seen(catalog)):
            next(changes)
        _say(step=number, seen_us=time.time_ns() // 1000, saw=saw)
    rows, days = spark.result().sql(QUERY).collect()[0]
    _say(answer=f"{rows} orders of {days} days")
    for change in changes:
        _say(object=change.object, kind=change.kind, version=change.version)


def _say(**fact: object) -> None:
    print(json.dumps(fact), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
