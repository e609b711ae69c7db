"""A short Spark application, in which the JVM records the classes that applications need.

Run: python -m topicast.cli.quickstart.apps.class_archive FOLDER, in the environment that
``processes.class_archive`` makes.
"""

import sys
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from ..processes.spark_settings import spark_settings

STATEMENTS: Final = (
    "CREATE TABLE t (id INT, ds STRING) USING parquet PARTITIONED BY (ds)",
    "INSERT INTO t SELECT id, concat('a', id % 2) FROM range(9)",
    "SELECT ds, count(*), count(DISTINCT id) FROM t WHERE ds > 'a' GROUP BY ds ORDER BY ds",
)


def main(folder: Path) -> None:
    """Run the statements in ``folder``; return when the JVM has ended."""
    (folder / "scratch").mkdir()
    builder = SparkSession.builder
    for name, value in spark_settings(folder).items():
        builder = builder.config(name, value)
    spark = builder.config("spark.sql.catalogImplementation", "in-memory").getOrCreate()
    for statement in STATEMENTS:
        spark.sql(statement).collect()
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.proc.stdin.close()  # this ends the JVM
    gateway.proc.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
