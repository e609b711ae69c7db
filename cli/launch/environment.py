"""The environment of drivers: the jar, the command that starts an agent, and settings."""

import json
import os
import shlex
from collections.abc import Mapping
from typing import Final

from ...topics.errors import TopicastError
from ...topics.settings import STATESTORES_DEFAULT

CLASS_PATH: Final = "SPARK_DIST_CLASSPATH"  # all launchers of Spark append it
OPTIONS: Final = "SPARK_SUBMIT_OPTS"  # of a driver's JVM; the user's own setting for Spark wins
STATESTORES: Final = "TOPICAST_STATESTORES"
AGENT: Final = "TOPICAST_AGENT"
ARGUMENTS: Final = "TOPICAST_RUN"  # of attach, as JSON: they come before Spark's configuration
NOTES: Final = "TOPICAST_NOTES"  # a folder in which a JVM that begins to attach makes FOUND
FOUND: Final = "found"


def environment_of(
    command: str, given: Mapping[str, str], environ: Mapping[str, str], *, notes: str
) -> tuple[dict[str, str], str]:
    """Return the environment in which drivers that ``command`` starts are attached.

    With it comes the reason why no driver can be attached; empty: none is known. ``given``:
    arguments of attach; ``notes``: a folder, in which FOUND is once a JVM has begun to attach.
    """
    found = {STATESTORES: STATESTORES_DEFAULT, **environ}  # Spark's configuration comes first
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
