"""Foreign: Spark's own tests, plain and attached, on a real metastore; each must end alike.

    each suite ──▶ plain driver    ──▶ ends of its tests ──┐
              └──▶ attached driver ──▶ ends of its tests ──┴──▶ a difference fails

A suite is a module of PySpark's tests, or files of Spark's SQL tests that make or change tables:
"sql.show" are those whose names begin so, and each of their statements is a test.
Both have a metastore of their own, and run at once. Nothing of Spark's source is in this
repository: the caller names a checkout, best of the tag of the installed PySpark. Its tests and
their helpers are used, everything else is the installed PySpark's.
Run: make foreign SPARK_SOURCE=DIR; ARGS="test_catalog sql.show" for some suites
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Final

import pyspark

from topicast.cli.commands.drivers import drivers_of
from topicast.cli.quickstart.processes.spark_settings import submit_arguments
from topicast.tests.cli.processes import command
from topicast.tests.foreign.compare import Both, Ran, differing, ran, summary
from topicast.tests.foreign.statements import INPUTS, files
from topicast.tests.hive.releases import real_metastore
from topicast.tests.integration.daemons import Daemons, both_daemons
from topicast.tests.orphans import end_with_this_process
from topicast.tests.spark.applications import quick_environment

ROOT: Final = Path(__file__).resolve().parents[2]
WORK: Final = ROOT / "build" / "foreign"
TESTS: Final = Path("sql", "tests")  # in PySpark
PACKAGE: Final = "pyspark.sql.tests"
SQL: Final = "sql."  # begins the name of a suite of SQL files; a pattern of these follows
SUITES: Final = (
    "test_catalog",
    "test_readwriter",
    "test_sql",
    "test_session",
    "test_datasources",
    "test_dataframe",
    "streaming.test_streaming",
    "streaming.test_streaming_foreach",
    "streaming.test_streaming_foreach_batch",
    "streaming.test_streaming_listener",
    *(
        f"{SQL}{names}"
        for names in (
            *("[a-c]", "[d-h]", "[i-o]", "[p-r]", "[s-u]", "[v-z]"),
            *("postgreSQL/[a-f]", "postgreSQL/[g-n]", "postgreSQL/[o-z]", "subquery/**/"),
        )
    ),
)
SUITE_S_MAX: Final = 1200.0  # both drivers at once; test_dataframe takes some 3 minutes
LINES_MAX: Final = 20  # of the log of a suite without an end


@dataclass(frozen=True, slots=True)
class Place:
    """Where one of both kinds of drivers runs; ``daemons``: those that it is attached to."""

    folder: Path
    uri: str
    daemons: Daemons | None = None

    def of(self, suite: str) -> Path:
        """Return the folder of a suite, whose name no path of Hadoop's takes for a pattern."""
        return self.folder / re.sub(r"[^\w.]+", "_", suite)

    def drivers(self) -> int:
        """Return how many drivers have attached here so far."""
        assert self.daemons is not None
        with self.daemons.operator() as operator:
            return len(drivers_of(operator))


def main(words: Sequence[str]) -> int:
    """Run the suites; return 1 if a test ends otherwise when attached, 2 if there is none."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("source", help="a checkout of Spark")
    parser.add_argument("suites", nargs="*", help=f"such as {', '.join(SUITES)}, which are run")
    parser.add_argument(
        "--work", type=Path, default=WORK, help="where logs stay until the next run; it is emptied"
    )
    given = parser.parse_args(words)
    work = given.work.resolve()
    package = Path(given.source).resolve() / "python" / "pyspark"
    if not (package / TESTS).is_dir():
        print(
            f"{given.source!r} is no checkout of Spark: it has no python/pyspark/{TESTS};"
            " make foreign SPARK_SOURCE=DIR",
            file=sys.stderr,
        )
        return 2
    suites = given.suites or SUITES
    lacking = [one for one in suites if not _has(package, one)]
    if given.suites and lacking:
        print(f"the checkout has no suite {', '.join(lacking)}", file=sys.stderr)
        return 2
    shutil.rmtree(work, ignore_errors=True)
    with _ended_by_signals():
        print(f"tests of {_version(package)} on PySpark {pyspark.__version__}; logs: {work}")
        for one in lacking:
            print(f"not in this checkout: {one}")
        wanted = [one for one in suites if one not in lacking]
        first = compared(package, wanted, work / "first")
        doubtful = [one for one, both in first.items() if differing(both)]
        again = compared(package, doubtful, work / "again") if doubtful else {}
    code, lines = summary(first, again)
    print(*lines, sep="\n")
    return code


def compared(package: Path, suites: Sequence[str], work: Path) -> dict[str, Both]:
    """Run suites of ``package``, a checkout's PySpark, in both kinds of drivers."""
    found = {}
    with places(package, work) as both:
        for suite in suites:
            print(f"{suite}: ", end="", flush=True)
            began_at = time.monotonic()
            plain, attached = found[suite] = run(suite, both)
            took_s = time.monotonic() - began_at
            said = plain.not_loaded and attached.not_loaded
            said = f"not loaded: {said}" if said else f"plain {plain}; attached {attached}"
            print(f"{said}; {took_s:.0f} s", flush=True)
    return found


@contextmanager
def places(package: Path, work: Path) -> Iterator[tuple[Place, Place]]:
    """Run what both kinds of drivers need; the second driver is attached."""
    plain, attached = work / "plain", work / "attached"
    for folder in (plain, attached):
        assemble(package, folder)
    with (
        real_metastore(plain / "hive", durable=False) as first,
        real_metastore(attached / "hive", durable=False) as second,
        both_daemons(attached, second.uri) as daemons,
    ):
        yield Place(plain, first.uri), Place(attached, second.uri, daemons)


def assemble(package: Path, folder: Path) -> None:
    """Link the installed PySpark in ``folder``/python, with the tests of a checkout's ``package``.

    Processes run in ``folder``: the tests read files by paths that begin with python/test_support.
    Spark's Python workers are started by ``folder``/worker: they, too, import functions of tests,
    and Spark puts an archive of the installed PySpark before the path that they inherit.
    """
    installed = Path(pyspark.__file__).parent
    python = folder / "python"
    (python / "pyspark" / "sql").mkdir(parents=True)
    for one in (*installed.iterdir(), *(installed / "sql").iterdir(), package / TESTS):
        base = package if one.is_relative_to(package) else installed
        if one not in (installed / "sql", installed / "testing", installed / TESTS):
            (python / "pyspark" / one.relative_to(base)).symlink_to(one)
    (python / "pyspark" / "testing").symlink_to(package / "testing")
    (python / "test_support").symlink_to(package.parent / "test_support")
    (folder / "sql").symlink_to(package.parents[1] / "sql")
    worker = _worker(folder)
    words = f'PYTHONPATH={quote(str(python))}:"$PYTHONPATH" exec {quote(sys.executable)} "$@"'
    worker.write_text(f"#!/bin/sh\n{words}\n", encoding="utf-8")
    worker.chmod(0o755)


def run(suite: str, both: tuple[Place, Place]) -> Both:
    """Run a suite in both places at once, so that each has the machine for as long."""
    deadline = time.monotonic() + SUITE_S_MAX
    before = both[1].drivers()
    with ExitStack() as stack:
        started = [stack.enter_context(_started(suite, place)) for place in both]
        plain, attached = (
            _ended(process, suite, place, deadline)
            for process, place in zip(started, both, strict=True)
        )
    if not attached.not_loaded and not attached.problem and both[1].drivers() == before:
        attached = Ran(problem=f"no driver attached\n{_last_lines(both[1].of(suite))}")
    if suite.startswith(SQL) and not attached.problem and not attached.memory_reads:
        attached = replace(attached, problem="no read was answered from memory")
    return plain, attached


@contextmanager
def _started(suite: str, place: Place) -> "Iterator[subprocess.Popen[bytes]]":
    """Start a suite in a process group of its own; at the end the group is gone."""
    folder = place.of(suite)
    (folder / "scratch").mkdir(parents=True)
    hub = [] if place.daemons is None else [place.daemons.hub_address]
    if suite.startswith(SQL):
        given = [INPUTS, _answer(folder), suite.removeprefix(SQL), *hub]
        words = command("topicast.tests.foreign.statements", *given)
    else:
        words = command("topicast.tests.foreign.suites", f"{PACKAGE}.{suite}", _answer(folder))
    if hub:
        words = command("main", "run", f"--statestores={hub[0]}", "--") + words
    path = [str(place.folder / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            words,
            cwd=place.folder,
            env={
                **os.environ,
                **quick_environment(),
                "PYTHONPATH": os.pathsep.join(path),
                "PYSPARK_PYTHON": str(_worker(place.folder)),
                "PYTHONDONTWRITEBYTECODE": "1",  # into the checkout
                "PYSPARK_SUBMIT_ARGS": submit_arguments(folder, place.uri),
                "SPARK_HOME": str(Path(pyspark.__file__).parent),
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for us, and we end the group
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _ended(process: "subprocess.Popen[bytes]", suite: str, place: Place, deadline: float) -> Ran:
    folder, problem = place.of(suite), ""
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        problem = f"it took longer than {SUITE_S_MAX:.0f} s"
    answer = _answer(folder)
    lines = answer.read_text("utf-8").splitlines(keepends=True) if answer.exists() else []
    found = ran(lines, problem)
    if found.problem:
        found = replace(found, problem=f"{found.problem}\n{_last_lines(folder)}")
    return found


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """End all that is started in the block at its end, and at once at Ctrl-C or SIGTERM."""
    end_all = end_with_this_process()

    def stop(number: int, _frame: object) -> None:
        end_all()
        os._exit(128 + number)  # all that the blocks around would end has ended

    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, stop)
    try:
        yield
    finally:
        end_all()


def _has(package: Path, suite: str) -> bool:
    """Return whether a checkout has a suite."""
    if suite.startswith(SQL):
        return bool(files(package.parents[1] / INPUTS, suite.removeprefix(SQL)))
    return (package / TESTS / f"{suite.replace('.', '/')}.py").is_file()


def _worker(folder: Path) -> Path:
    return folder / "worker"


def _answer(folder: Path) -> Path:
    return folder / "ends.json"


def _last_lines(folder: Path) -> str:
    lines = (folder / "log").read_text("utf-8", errors="replace").splitlines()
    return "\n".join(f"    {line}" for line in lines[-LINES_MAX:])


def _version(package: Path) -> str:
    text = (package / "version.py").read_text("utf-8")
    return text.rpartition("=")[2].strip().strip('"')


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
