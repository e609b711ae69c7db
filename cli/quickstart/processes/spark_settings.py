"""Spark settings of the two applications: one machine, no network, quick to start."""

from pathlib import Path
from shlex import quote
from typing import Final

from ..metastore.java import QUICK

JAVA_OPTIONS: Final = " ".join((*QUICK, "-XX:+UseSerialGC", "-Xshare:auto"))


def spark_settings(folder: Path) -> dict[str, str]:
    """Return the configuration of an application that has all its files in ``folder``.

    It lacks the metastore's address, which is set once the metastore is there, so that Spark and
    the metastore start side by side.
    """
    scratch = folder / "scratch"
    return {
        "spark.master": "local[2]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={scratch}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch),
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"file:{folder}/warehouse",
        "spark.sql.shuffle.partitions": "2",
        "spark.hadoop.hive.exec.scratchdir": f"{scratch}/hive",
        "spark.hadoop.hive.exec.local.scratchdir": f"{scratch}/local",
        "spark.hadoop.hive.downloaded.resources.dir": f"{scratch}/resources",
    }


def submit_arguments(folder: Path, metastore_uri: str) -> str:
    """Write Spark's configuration for an application; return its PYSPARK_SUBMIT_ARGS."""
    return f"--properties-file {quote(str(properties_file(folder, metastore_uri)))} pyspark-shell"


def properties_file(folder: Path, metastore_uri: str) -> Path:
    """Write Spark's configuration for an application; return its file.

    A SPARK_CONF_DIR would change the class path, and the JVM would not map the class archive.
    """
    settings = {**spark_settings(folder), "spark.hadoop.hive.metastore.uris": metastore_uri}
    file = folder / "spark.conf"
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    file.write_text(text, encoding="utf-8")
    return file


def spark_environment(java_home: Path) -> dict[str, str]:
    """Return the variables that Spark's launcher reads from the environment."""
    return {
        "JAVA_HOME": str(java_home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LAUNCHER_OPTS": JAVA_OPTIONS,
    }
