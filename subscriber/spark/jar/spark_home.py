"""Finds a Spark distribution, and the Py4J in it, for a Python that may have neither installed."""

import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ....topics.errors import ConfigError

HOME: Final = "SPARK_HOME"


def spark_home(environ: Mapping[str, str], command: str = "spark-submit") -> Path:
    """Return the folder of a Spark: SPARK_HOME, else that of ``command``, else that of PySpark.

    Raises:
        ConfigError: none of these is the folder of a Spark.
    """
    found = [Path(environ[HOME])] if environ.get(HOME) else []
    file = shutil.which(command, path=environ.get("PATH"))
    if file:
        found.append(Path(file).resolve().parents[1])
        found += Path(file).absolute().parents[1].glob("lib/python*/site-packages/pyspark")
    spec = find_spec("pyspark")
    found += [Path(one) for one in spec.submodule_search_locations or ()] if spec else []
    for home in found:
        if (home / "jars").is_dir():
            return home
    raise ConfigError(HOME, environ.get(HOME, ""), "the folder of a Spark, with its jars")


def add_py4j(environ: Mapping[str, str]) -> None:
    """Have imports find the Py4J of SPARK_HOME, if this Python has none."""
    if find_spec("py4j") is None and environ.get(HOME):
        sys.path += map(str, Path(environ[HOME]).glob("python/lib/py4j-*.zip"))
