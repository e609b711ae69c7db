"""The writer: a Spark application that changes the catalog; nothing in it uses Topicast.

python -m topicast.cli.quickstart.apps.writer FOLDER
in:  metastore URI, what the job reads, an empty line, numbers of steps     out: one fact a line
"""

import json
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from ..comparison import PLAIN
from ..processes.spark_settings import spark_settings
from ..writer_steps import CLEAN_UP, STEPS
from . import orders_job


def main(folder: Path) -> None:
    """Start Spark, wait for the metastore's address, then run each step that is read.

    Spark starts in a thread of its own, which SIGTERM does not interrupt: a JVM whose start is
    interrupted stays for good, as PySpark deletes the file that it is about to write.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with ThreadPoolExecutor(1) as background:
        starting = background.submit(_start_spark, folder)
        try:
            _write(starting.result())
        finally:
            starting.result().stop()


def _start_spark(folder: Path) -> SparkContext:
    return SparkContext(conf=SparkConf().setAll(list(spark_settings(folder).items())))


def _write(context: SparkContext) -> None:
    uri = sys.stdin.readline().strip()
    context._jsc.hadoopConfiguration().set("hive.metastore.uris", uri)
    spark = SparkSession(context)
    spark.sql(CLEAN_UP)
    _say(ready=True)
    orders_job.write(spark, PLAIN, takewhile(str.strip, sys.stdin))
    for number in map(int, sys.stdin):
        spark.sql(STEPS[number].statement)
        _say(step=number, committed_us=time.time_ns() // 1000)


def _say(**fact: object) -> None:
    print(json.dumps(fact), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
