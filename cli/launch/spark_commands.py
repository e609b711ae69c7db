"""The commands that start Spark applications: where their driver runs, and in which language."""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from ...topics.errors import UsageError

ELSEWHERE: Final = (
    "with deploy mode cluster the driver runs elsewhere: give it what 'topicast jar' writes by "
    "--jars, and --conf spark.topicast.statestores=ADDRESSES --conf spark.topicast.agent=COMMAND "
    "(docs/spark.md); or call attach(spark) in the application"
)
SUBMIT: Final = "spark-submit"
_CLUSTER: Final = re.compile(r"(--deploy-mode[ =]|spark\.submit\.deployMode=)cluster( |$)")
_DAEMONS: Final = ("start-connect-server.sh", "start-thriftserver.sh")
_JVM: Final = ("beeline", "java", "run-example", "scala", "spark-class", "spark-shell", "spark-sql")
_ASKS: Final = frozenset({"--help", "--version", "-h"})  # options of Spark's and of Python's
_FLAGS: Final = frozenset({"--supervise", "--verbose", "-v"})  # options without a value


def refuse_cluster(command: Sequence[str]) -> None:
    """Raise a UsageError, which says what to do, if the driver of ``command`` runs elsewhere."""
    if _CLUSTER.search(" ".join(command)):
        raise UsageError(ELSEWHERE)


def is_of_the_jvm(command: Sequence[str]) -> bool:
    """Whether ``command`` runs no Python of the application's."""
    name, at = PurePath(command[0]).name, application_at(command)
    is_jar = at < len(command) and command[at].endswith(".jar")
    return name in (*_JVM, *_DAEMONS) or (name == SUBMIT and is_jar)


def is_daemon(command: Sequence[str]) -> bool:
    """Whether ``command`` ends while the driver that it has started goes on."""
    return PurePath(command[0]).name in _DAEMONS


def only_asks(command: Sequence[str]) -> bool:
    """Whether ``command`` prints a version, or its options, and runs no application."""
    return not _ASKS.isdisjoint(command[1 : application_at(command)])


def application_at(command: Sequence[str]) -> int:
    """Return the index of a spark-submit's application: of the first word that is no option.

    Without an application it is the number of words.
    """
    at = 1
    while at < len(command) and command[at].startswith("-"):
        at += 1 if command[at] in _FLAGS or "=" in command[at] else 2
    return min(at, len(command))
