"""The report: an ordinary Spark application that reads; nothing in it uses Topicast.

python orders_report.py
in:  a query on each line     out: a JSON object on each line
"""

import json
import re
import sys
from collections.abc import Iterable

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def main() -> None:
    """Answer each query that is read, in a session of its own."""
    spark = SparkSession.builder.appName("orders report").enableHiveSupport().getOrCreate()
    answer(spark, sys.stdin)
    spark.stop()


def answer(spark: SparkSession, queries: Iterable[str]) -> None:
    """Answer ``queries``, each with one value or with the name of the error in Spark."""
    for query in queries:
        try:
            found = str(spark.sql(query).collect()[0][0])
        except (PySparkException, Py4JJavaError) as error:
            named = re.search(r"\[([A-Z_.]+)\]", str(error))
            found = named[1] if named else type(error).__name__
        print(json.dumps({"answered": found}), flush=True)


if __name__ == "__main__":
    main()
