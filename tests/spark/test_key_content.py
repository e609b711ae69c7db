"""A driver whose key is the content of TOPICAST_KEY: its Python workers do not have it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from topicast.tests.spark.applications import SPARK, quick_environment
from topicast.topics.keys.folder import KEY, KeysFolder
from topicast.topics.link import new_pair

APPLICATION = """
import os
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from topicast.subscriber.spark import attach

def look(_):
    return str([value for name, value in os.environ.items() if name == "TOPICAST_KEY"])

conf = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
spark = SparkSession.builder.master("local[1]").config(map=conf).getOrCreate()
nowhere = "tcp://127.0.0.1:1"
attach(spark, nowhere)
print("the JVM has it", bool(spark._jvm.System.getenv("TOPICAST_KEY")))
print("a function has", spark.range(1).select(udf(look)("id")).collect()[0][0])
print("an RDD has", spark.sparkContext.parallelize([1], 1).map(look).collect()[0])
"""
READ = """
from pyspark_topicast import register
register(spark)
try:
    spark.read.format("topicast").option("statestores", nowhere).load().collect()
except Exception as error:
    print("a read ends in", [one for one in ("LinkError", "ConfigError") if one in str(error)])
"""


@pytest.fixture
def environment() -> dict[str, str]:
    """Return that of an application; what it needs is made first, which may take a minute."""
    return {**os.environ, **quick_environment()}


@pytest.mark.nightly  # 100 s, with a driver of its own
def test_python_workers_of_a_driver_have_no_key_that_it_has_as_content(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """And a read of the catalog has it: it fails only because no hub is there.

    Spark 3.5 has no data sources in Python: there only the workers are looked at.
    """
    reads = SPARK >= (4, 0)
    folder = KeysFolder(tmp_path / "keys")
    folder.make(new_pair)
    (tmp_path / "app.py").write_text(APPLICATION + (READ if reads else ""))
    own = {KEY: folder.file("driver").read_text(), "XDG_STATE_HOME": str(tmp_path / "state")}
    ran = subprocess.run(
        [sys.executable, "app.py"],
        cwd=tmp_path,
        env={**environment, **own},
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    assert ran.stdout.splitlines() == [
        "the JVM has it True",
        "a function has ['']",
        "an RDD has ['']",
        *(["a read ends in ['LinkError']"] if reads else []),
    ]
