"""Spark settings of the two applications: one machine, no network, quick to start."""

from pathlib import Path
from typing import Final

from ...catalog.metastore.embedded.java import QUICK

JAVA_OPTIONS: Final = " ".join((*QUICK, "-XX:+UseSerialGC", "-Xshare:auto"))


def spark_settings(folder: Path) -> dict[str, str]:
    """Return the configuration of an application that has all its files in ``folder``.

    The metastore's address is not in it: it is set when the metastore is there, so that Spark
    and the metastore start side by side.
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


def write_settings(folder: Path, metastore_uri: str) -> Path:
    """Write Spark's configuration for an application; return its folder (SPARK_CONF_DIR)."""
    settings = {**spark_settings(folder), "spark.hadoop.hive.metastore.uris": metastore_uri}
    found = folder / "conf"
    found.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    (found / "spark-defaults.conf").write_text(text, encoding="utf-8")
    return found


def spark_environment(java_home: Path) -> dict[str, str]:
    """Return what Spark's launcher reads from the environment."""
    return {
        "JAVA_HOME": str(java_home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LAUNCHER_OPTS": JAVA_OPTIONS,
    }
