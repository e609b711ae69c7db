"""What drivers of the JVM find in their environment: the jar, and how to start an agent."""

import os
import shlex
import sys
from collections.abc import Mapping
from typing import Final

from ...topics.errors import TopicastError

CLASS_PATH: Final = "SPARK_DIST_CLASSPATH"  # which all launchers of Spark append
AGENT: Final = "TOPICAST_AGENT"


def jvm_environment(
    command: str, given: Mapping[str, str], environ: Mapping[str, str], *, notes: str
) -> tuple[dict[str, str], str]:
    """Return the variables with which drivers that ``command`` starts are attached.

    ``given``: settings by their names, before those of ``environ``; ``notes``: the folder in which
    agents note what they did. Instead of the variables there
    may be a text that says why there are none.
    """
    try:
        from ...subscriber.spark.driver.launch import NOTES
        from ...subscriber.spark.jar.builder import kept_jar

        path = str(kept_jar(environ, command))
    except (ImportError, TopicastError) as error:
        return {}, str(error)
    return {
        AGENT: environ.get(AGENT)
        or shlex.join([sys.executable, "-m", "topicast.cli.start", "agent"]),
        NOTES: notes,
        CLASS_PATH: os.pathsep.join(filter(None, (environ.get(CLASS_PATH), path))),
        **{f"TOPICAST_{name.upper()}": value for name, value in given.items()},
    }, ""
