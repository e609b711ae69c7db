"""The commands that start Spark applications: where their driver runs, and in which language."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

CLUSTER: Final = "cluster"
HOW_IN_A_CLUSTER: Final = (
    "give it what 'topicast jar' writes by --jars, and"
    " --conf spark.topicast.statestores=ADDRESSES --conf spark.topicast.agent=COMMAND"
    " (docs/spark.md); or call attach(spark) in the application"
)
_DAEMONS: Final = frozenset({"start-connect-server.sh", "start-thriftserver.sh"})
_OF_THE_JVM: Final = _DAEMONS | frozenset(
    {
        "beeline",
        "java",
        "run-example",
        "scala",
        "spark-class",
        "spark-shell",
        "spark-sql",
    }
)
SUBMIT: Final = "spark-submit"
_FLAGS: Final = frozenset({"--supervise", "--verbose", "-v"})  # its options without a value


def is_of_the_jvm(command: Sequence[str]) -> bool:
    """Whether ``command`` runs no Python of the application's."""
    name = PurePath(command[0]).name
    if name in _OF_THE_JVM:
        return True
    at = application_at(command)
    return name == SUBMIT and at < len(command) and command[at].endswith(".jar")


def is_daemon(command: Sequence[str]) -> bool:
    """Whether ``command`` ends while the driver that it has started goes on."""
    return PurePath(command[0]).name in _DAEMONS


def application_at(command: Sequence[str]) -> int:
    """Return which word of a spark-submit is the application: the first that is not an option.

    Without one it is the number of the words.
    """
    words = iter(range(1, len(command)))
    for at in words:
        word = command[at]
        if not word.startswith("-"):
            return at
        if word not in _FLAGS and "=" not in word:
            next(words, 0)
    return len(command)


def is_cluster(command: Sequence[str]) -> bool:
    """Whether the driver of ``command`` runs elsewhere."""
    pairs = zip(command, (*command[1:], ""), strict=True)
    return any(
        (word == "--deploy-mode" and following == CLUSTER)
        or word in {f"--deploy-mode={CLUSTER}", f"spark.submit.deployMode={CLUSTER}"}
        or word == f"--conf=spark.submit.deployMode={CLUSTER}"
        for word, following in pairs
    )
