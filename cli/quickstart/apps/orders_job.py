"""The job: an ordinary Spark application that writes orders; nothing in it uses Topicast.

python orders_job.py DATABASE
in:  the name of a step on each line     out: a JSON object on each line
"""

import json
import sys
from collections.abc import Iterable
from typing import Final

from pyspark.sql import SparkSession

STEPS: Final = {
    "create": (
        "DROP DATABASE IF EXISTS {0} CASCADE",
        "CREATE DATABASE {0}",
        "CREATE TABLE {0}.orders USING parquet AS SELECT id, 10D AS amount FROM range(2000)",
    ),
    "append": ("INSERT INTO {0}.orders SELECT id, 10.0 FROM range(2000, 3000)",),
    "overwrite": ("INSERT OVERWRITE {0}.orders SELECT id, 10.0 FROM range(500)",),
    "column": (
        "ALTER TABLE {0}.orders ADD COLUMNS (tip DOUBLE)",
        "INSERT INTO {0}.orders SELECT id, 10.0, 1.5 FROM range(500, 520)",
    ),
}


def main(database: str) -> None:
    """Run each step that is read, in a session of its own."""
    spark = SparkSession.builder.appName("orders job").enableHiveSupport().getOrCreate()
    write(spark, database, sys.stdin)
    spark.stop()


def write(spark: SparkSession, database: str, steps: Iterable[str]) -> None:
    """Run each step, and print that it is done."""
    for step in map(str.strip, steps):
        for statement in STEPS[step]:
            spark.sql(statement.format(database))
        print(json.dumps({"did": step}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
