"""The writer: a Spark application that changes the catalog; nothing in it uses Topicast.

python -m topicast.cli.quickstart.apps.writer FOLDER
in:  metastore URI, numbers of steps, JOB, then what the job reads     out: one JSON object a line
"""

import json
import signal
import sys
import time
from itertools import takewhile
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from ..comparison import JOB, PLAIN
from ..spark_settings import spark_settings
from ..writer_steps import CLEAN_UP, STEPS
from . import orders_job


def main(folder: Path) -> None:
    """Start Spark, wait for the metastore's address, then run each step that is read."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    context = SparkContext(conf=SparkConf().setAll(list(spark_settings(folder).items())))
    try:
        uri = sys.stdin.readline().strip()
        context._jsc.hadoopConfiguration().set("hive.metastore.uris", uri)
        spark = SparkSession(context)
        spark.sql(CLEAN_UP)
        _say(ready=True)
        for line in takewhile(lambda text: text.strip() != JOB, sys.stdin):
            number = int(line)
            spark.sql(STEPS[number].statement)
            _say(step=number, committed_us=time.time_ns() // 1000)
        orders_job.main(PLAIN, sys.stdin)
    finally:
        context.stop()


def _say(**fact: object) -> None:
    print(json.dumps(fact), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
