"""The reader: a Spark driver with a subscriber, which prints each change that it sees, and when.

    python -m topicast.cli.quickstart.apps.reader FOLDER STATESTORES
    in:  metastore URI, what a report reads, an empty line     out: one JSON object a line

Its own Spark starts in the background, with a lower priority than the writer's. That Spark answers
the report's queries, and a query at the end, without Topicast, as plain as the writer's.
"""

import json
import os
import signal
import sys
import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from ....subscriber import Subscriber
from ..processes.spark_settings import spark_settings
from ..writer_steps import QUERY, STEPS
from . import orders_report

NAME: Final = "reader"
BUDGET: Final = "64MB"
READY_TIMEOUT_S: Final = 60.0
BEHIND_THE_WRITER: Final = 10  # niceness of our Spark: on few cores the first change comes first


def main(folder: Path, statestores: str) -> None:
    """Follow the steps, run a query in Spark, then print every further change."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    uri: Future[str] = Future()
    with ThreadPoolExecutor(1) as background:
        spark = background.submit(_start_spark, folder, uri)
        try:
            with Subscriber(
                statestores, budget=BUDGET, timeout_s=READY_TIMEOUT_S, name=NAME
            ) as catalog:
                _say(ready=True)
                uri.set_result(sys.stdin.readline().strip())
                orders_report.answer(spark.result(), takewhile(str.strip, sys.stdin))
                _follow(catalog, spark.result())
        finally:
            uri.cancel()
            _stop(spark)


def _start_spark(folder: Path, uri: "Future[str]") -> SparkSession:
    os.nice(BEHIND_THE_WRITER)  # of this thread, and of the JVM that it starts
    context = SparkContext(conf=SparkConf().setAll(list(spark_settings(folder).items())))
    context._jsc.hadoopConfiguration().set("hive.metastore.uris", uri.result())
    return SparkSession(context)


def _stop(spark: "Future[SparkSession]") -> None:
    with suppress(CancelledError):  # Spark never got the metastore's address
        spark.result().stop()


def _follow(catalog: Subscriber, spark: SparkSession) -> None:
    catalog.sync()  # so that objects of an earlier run, which the writer has dropped, are gone
    changes = catalog.watch("*")
    _say(begun=True)
    for number, step in enumerate(STEPS):
        while not (saw := step.seen(catalog)):
            next(changes)
        _say(step=number, seen_us=time.time_ns() // 1000, saw=saw)
    rows, days = spark.sql(QUERY).collect()[0]
    _say(answer=f"{rows} orders of {days} days")
    spark.stop()
    for change in catalog.watch("*"):  # from now on: the steps have been printed
        _say(object=change.object, kind=change.kind, version=change.version)


def _say(**fact: object) -> None:
    print(json.dumps(fact), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
