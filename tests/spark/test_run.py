"""An ordinary application under ``topicast run -- spark-submit``: attached, else as it was."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark

from topicast.catalog.metastore.java import cache_folder, java_home_for_spark
from topicast.cli.quickstart.spark_settings import spark_environment
from topicast.tests.cli.processes import command

APPLICATION = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
from topicast.subscriber.spark import attach
status = attach(spark).status()
print("it is", status.state, status.statestores, status.control)
def ours(_):
    return [name for name in sys.modules if name.startswith("topicast.")]
print("workers", spark.sparkContext.parallelize([1], 1).map(ours).collect())
sys.exit(3)
"""


def test_application_is_attached_without_code_and_its_workers_are_not(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APPLICATION)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    words = ["--control=dry-run", "--statestores=tcp://127.0.0.1:1", "--", str(submit), "app.py"]
    done = subprocess.run(
        command("main", "run", *words),
        cwd=tmp_path,
        env={
            **os.environ,
            **spark_environment(java_home_for_spark(cache_folder())),
            "PYSPARK_PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 3, done.stderr[-2000:]
    assert "it is connecting tcp://127.0.0.1:1 dry-run" in done.stdout
    assert "workers [[]]" in done.stdout
    assert "not attached" not in done.stderr
