"""Spark applications as processes, on one metastore; each runs what it is sent, a line at a time.

Application ──{"code": …}──▶ python applications.py ──{"value": …} or {"error": …}──▶
"""

import ast
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pyspark

from topicast.cli.quickstart.metastore.java import cache_folder, java_home_for_spark
from topicast.cli.quickstart.processes.class_archive import application_environment
from topicast.cli.quickstart.processes.spark_settings import spark_settings
from topicast.tests.cli.processes import command

SPARK: Final = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
GONE: Final = "FILE_NOT_EXIST" if SPARK >= (4, 0) else "SparkFileNotFoundException"
"""What the error of a query names whose files are gone."""
STARTED: Final = (
    "import os; spark.version, os.getpid(), spark._jvm.java.lang.ProcessHandle.current().pid()"
)
STARTS_MAX: Final = 3
LATE_WORKER: Final = "Python worker failed to connect back"
END_S = 60
THREADS = 3

FETCH: Final = "spark.python.authenticate.socketTimeout"
FETCH_S: Final = 60  # in which Python fetches rows; after 15 PySpark ends in an UnboundLocalError
BY_SPARK: Final = "spark.hadoop.hive.metastore.uris"  # how an application names its metastore
BY_BUILDER: Final = "hive.metastore.uris"
BY_SITE: Final = "hive-site.xml"
NOTHING: Final[Mapping[str, str]] = {}
SITE: Final = (
    "<configuration><property><name>hive.metastore.uris</name><value>{uri}</value></property>"
    "</configuration>"
)


def quick_environment() -> dict[str, str]:
    """Return what applications find in their environment."""
    java_home = java_home_for_spark(cache_folder())
    return {"PYSPARK_PYTHON": sys.executable, **application_environment(java_home, say=print)}


def pipeline(*words: object, statestores: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run ``topicast pipeline`` to its end, on one thread of Spark, in ``folder``."""
    spark = ("--master=local[1]", "--conf=spark.ui.enabled=false")
    here = ("--conf=spark.driver.host=127.0.0.1", f"--statestores={statestores}")
    return subprocess.run(
        command("main", "pipeline", *words, *spark, *here),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, **quick_environment()},
        cwd=folder,
    )


class Failed(Exception):
    """What an application was sent raised an exception; says which."""


class Application:
    """A driver whose name space holds ``spark``; it starts in the background, by ``under``."""

    def __init__(
        self,
        folder: Path,
        uri: str,
        settings: dict[str, str],
        *,
        by: str = BY_SPARK,
        under: Sequence[str] = (),
    ) -> None:
        self.pids: list[int] = []  # of its Python and of its JVM, once it has started
        (folder / "scratch").mkdir(parents=True)
        self._log = (folder / "log").open("wb")
        conf = {**spark_settings(folder), FETCH: f"{FETCH_S}s", **settings}
        environment = {**quick_environment(), "SPARK_AUTH_SOCKET_TIMEOUT": str(FETCH_S)}
        if by == BY_SITE:
            (folder / BY_SITE).write_text(SITE.format(uri=uri))
            environment["SPARK_CONF_DIR"] = str(folder)
        else:
            conf[by] = uri
        self._process = subprocess.Popen(
            [*under, sys.executable, __file__, json.dumps(conf)],
            env={**os.environ, **environment},
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def do(self, code: str) -> Any:
        """Run statements; return the value of the last, if it is an expression."""
        self.send(code)
        return self.receive()

    def send(self, code: str) -> None:
        """Have statements run."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"code": code}) + "\n")
        self._process.stdin.flush()

    def receive(self) -> Any:
        """Return the value of the statements that it was sent last.

        If a test is interrupted meanwhile, the driver dies: its answer would be the next test's.
        """
        assert self._process.stdout is not None
        try:
            line = self._process.stdout.readline()
        except BaseException:  # pytest-timeout's is no Exception
            self._process.kill()
            self.kill()
            raise
        assert line, self.log()[-3000:]
        answer = json.loads(line)
        if "error" in answer:
            print(answer["text"])  # pytest shows it where a test fails by it
            raise Failed(answer["error"])
        return answer["value"]

    def sql(self, *statements: str) -> None:
        """Run statements, one after the other."""
        for statement in statements:
            self.do(f"_ = spark.sql({statement!r})")

    def side_by_side(self, *statements: str) -> None:
        """Run statements that do not depend on each other."""
        self.do(f"_ = list(threads.map(spark.sql, {statements!r}))")

    def read(self, **frames: str) -> dict[str, Any]:
        """Return, of each DataFrame, its sorted rows, or what the error says that it ends in."""
        pairs = ", ".join(f"{name!r}: lambda: {frame}" for name, frame in frames.items())
        self.do(f"frames = {{{pairs}}}")
        found: dict[str, Any] = self.do("dict(zip(frames, threads.map(read, frames.values())))")
        return found

    def rows(self, query: str) -> Any:
        """Return the sorted rows of ``query``, or what the error says that it ends in."""
        return self.read(it=f"spark.sql({query!r})")["it"]

    def folder(self, table: str) -> Path:
        """Return where the files of ``table`` are."""
        described = self.rows(f"DESCRIBE FORMATTED {table}")
        (location,) = (value for key, value, _ in described if key == "Location")
        return Path(location.removeprefix("file:"))

    def log(self) -> str:
        """Return what it and its JVM have written to standard error."""
        return Path(self._log.name).read_text("utf-8")

    def kill(self) -> None:
        """Let it die on the spot, and its JVM."""
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
        self.is_dead()

    def is_dead(self) -> None:
        """Wait until it has died."""
        self._process.wait(END_S)

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()


class Client(Application):
    """An application of Spark Connect, without a JVM; what is written here is of how it starts."""

    def __init__(self, folder: Path, address: str) -> None:
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, __file__, json.dumps({"spark.remote": address})],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )


@contextmanager
def applications(
    folder: Path,
    uri: str,
    *,
    by: Mapping[str, str] = NOTHING,
    under: Sequence[str] = (),
    **settings: dict[str, str],
) -> Iterator[dict[str, Application]]:
    """Run an application for each name, with its settings; they start side by side.

    ``by``: how some of them name the metastore.
    """
    with ExitStack() as stack:
        started = {}
        for name, conf in settings.items():
            started[name] = Application(
                folder / name, uri, conf, by=by.get(name, BY_SPARK), under=under
            )
            stack.callback(started[name].end)
        for application in started.values():
            version, *application.pids = application.do(STARTED)
            assert version == pyspark.__version__, "another PySpark"
        yield started


def name_of(error: Exception) -> str:
    """Return what Spark calls an error, else its class."""
    for named in ("getCondition", "getErrorClass"):
        if hasattr(error, named) and (found := getattr(error, named)()):
            return str(found)
    java = getattr(error, "java_exception", None)
    return f"{type(error).__name__}: {java if java is not None else error}".splitlines()[0][:300]


def _read(frame: Callable[[], Any]) -> Any:
    try:
        return sorted([list(row) for row in frame().collect()], key=str)
    except Exception as error:  # noqa: BLE001 - whatever it was, it is what a user sees
        return name_of(error)


def _await_end(sink: Any) -> Any:
    """Run a stream that ends by itself, and return its query.

    Spark gives a source's Python 10 s to start, which is too little on a machine that is very busy.
    """
    for left in reversed(range(STARTS_MAX)):
        query = sink.start()
        try:
            query.awaitTermination()
        except Exception as error:
            if not left or LATE_WORKER not in str(error):
                raise
        else:
            break
    return query


def _run(code: str, names: dict[str, Any]) -> Any:
    *body, last = ast.parse(code).body
    exec(compile(ast.Module(body, []), "sent", "exec"), names)  # our own test says what
    if not isinstance(last, ast.Expr):
        exec(compile(ast.Module([last], []), "sent", "exec"), names)
        return None
    return eval(compile(ast.Expression(last.value), "sent", "eval"), names)


def _main(conf: dict[str, str]) -> None:
    from pyspark.sql import SparkSession

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what others print, the JVM among them, is not an answer
    names = {
        "spark": SparkSession.builder.config(map=conf).getOrCreate(),
        "threads": ThreadPoolExecutor(THREADS),
        "read": _read,
        "name_of": name_of,
        "await_end": _await_end,
    }
    for line in sys.stdin:
        try:
            answer = json.dumps({"value": _run(json.loads(line)["code"], names)})
        except Exception as error:  # noqa: BLE001 - whatever it was, it is the answer
            answer = json.dumps({"error": name_of(error), "text": str(error)[-3000:]})
        print(answer, file=answers, flush=True)
    names["threads"].shutdown()
    SparkSession.builder.getOrCreate().stop()


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
