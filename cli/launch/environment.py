"""The environment of drivers: the jar, the command that starts an agent, and settings."""

import json
import os
import shlex
from collections.abc import Mapping
from typing import Final

from ...topics.errors import TopicastError
from ...topics.settings import STATESTORES_DEFAULT

CLASS_PATH: Final = "SPARK_DIST_CLASSPATH"  # which all launchers of Spark append
OPTIONS: Final = "SPARK_SUBMIT_OPTS"  # of a driver's JVM; what the user sets for Spark replaces it
STATESTORES: Final = "TOPICAST_STATESTORES"
AGENT: Final = "TOPICAST_AGENT"
ARGUMENTS: Final = "TOPICAST_RUN"  # of attach, as JSON: they come before Spark's configuration
NOTES: Final = "TOPICAST_NOTES"  # a folder in which a JVM that begins to attach makes FOUND
FOUND: Final = "found"


def environment_of(
    command: str, given: Mapping[str, str], environ: Mapping[str, str], *, notes: str
) -> tuple[dict[str, str], str]:
    """Return the environment in which drivers that ``command`` starts are attached.

    ``given``: arguments of attach; ``notes``: a folder, where FOUND is once a JVM has begun to
    attach. With it comes why nothing is attached, if that is known.
    """
    found = {STATESTORES: STATESTORES_DEFAULT, **environ}  # behind the configuration of Spark
    try:
        from ...subscriber.spark.jar.bootstrap import NAME, OWN
        from ...subscriber.spark.jar.builder import kept_jar

        jar = str(kept_jar(environ, command))
    except (ImportError, TopicastError) as error:
        return found, str(error)
    found |= {f"TOPICAST_{name.upper()}": value for name, value in given.items()}
    agent = environ.get(AGENT) or shlex.join(OWN)
    found |= {ARGUMENTS: json.dumps(given), NOTES: notes, AGENT: agent}
    # Sessions of PySpark 3.5 look into no service file; from 4.0 on this changes nothing.
    found[OPTIONS] = f"{environ.get(OPTIONS, '')} -Dspark.sql.extensions={NAME}".strip()
    found[CLASS_PATH] = os.pathsep.join(filter(None, (environ.get(CLASS_PATH), jar)))
    return found, ""
