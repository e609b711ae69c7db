"""A Spark stand-alone cluster on this machine: a master and workers, each in a JVM of its own.

master ◀── worker, worker ──start──▶ executors of one core each     none of them has a key of ours
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import psutil
import pyspark

from topicast.tests.cli.processes import steady_port
from topicast.tests.spark.applications import quick_environment
from topicast.tests.waiting import until

HOME: Final = Path(pyspark.__file__).parent
DEPLOY: Final = "org.apache.spark.deploy"
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
HOST: Final = "127.0.0.1"
MEMORY: Final = "480m"  # of an executor: Spark takes no less than 450


@dataclass(frozen=True)
class Cluster:
    """``folder`` holds what executors log and keep."""

    url: str
    folder: Path
    workers: tuple[psutil.Process, ...]

    def settings(self) -> dict[str, str]:
        """Return what an application sets to have an executor on each worker."""
        return {
            "spark.master": self.url,
            "spark.executor.cores": "1",
            "spark.executor.memory": MEMORY,
            "spark.cores.max": str(len(self.workers)),
            "spark.executor.extraJavaOptions": quick_environment()["SPARK_SUBMIT_OPTS"],
        }

    def executors(self) -> list[psutil.Process]:
        """Return the JVMs of executors."""
        below = [one for worker in self.workers for one in worker.children()]
        return [one for one in below if _runs(one, EXECUTOR)]

    def texts(self) -> Iterator[tuple[str, bytes]]:
        """Yield what processes of executors have in their environment, and all that was logged."""
        executors = self.executors()
        below = [one for executor in executors for one in executor.children(recursive=True)]
        places = [Path(f"/proc/{one.pid}") for one in (*executors, *below)]
        known = [place / name for place in places for name in ("environ", "cmdline")]
        logged = [file for file in self.folder.rglob("*") if file.is_file()]
        for file in (*known, *logged):
            with suppress(FileNotFoundError):  # of a process that has ended
                yield str(file), file.read_bytes()


@contextmanager
def cluster(folder: Path, *, workers: int = 2) -> Iterator[Cluster]:
    """Run a cluster in ``folder`` until the block ends; it knows neither our keys nor our hubs."""
    known = {name: value for name, value in os.environ.items() if "TOPICAST" not in name}
    environment = {
        **known,
        **quick_environment(),
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder),
        "SPARK_HOME": str(HOME),
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": quick_environment()["SPARK_SUBMIT_OPTS"],
        "SPARK_LOG_DIR": str(folder),
    }
    port, web = steady_port(), steady_port()
    url = f"spark://{HOST}:{port}"
    at = ("--host", HOST)
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> psutil.Process:
            return stack.enter_context(_running(folder / f"{name}.log", arguments, environment))

        ports = ("--port", str(port), "--webui-port", str(web))
        start("master", f"{DEPLOY}.master.Master", *at, *ports)
        room = ("--cores", "1", "--memory", "1g", "--webui-port", "0")
        started = tuple(
            start(
                name,
                f"{DEPLOY}.worker.Worker",
                *(*at, *room, "--work-dir", str(folder / name), url),
            )
            for name in (f"worker{number}" for number in range(workers))
        )
        registered = (folder / "master.log", b"Registering worker")
        until(lambda: _count(*registered) == workers, timeout_s=60, what="workers of the cluster")
        yield Cluster(url, folder, started)


def page(url: str) -> bytes:
    """Return the page ``url``."""
    with urlopen(url, timeout=120) as response:
        return bytes(response.read())


@contextmanager
def _running(
    log: Path, arguments: Sequence[str], environment: dict[str, str]
) -> Iterator[psutil.Process]:
    with log.open("wb") as file:
        process = subprocess.Popen(
            [str(HOME / "bin" / "spark-class"), *arguments],
            env=environment,
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        try:
            yield psutil.Process(process.pid)
        finally:
            process.kill()
            process.wait()


def _runs(process: psutil.Process, name: str) -> bool:
    try:
        return any(name in argument for argument in process.cmdline())
    except psutil.Error:
        return False


def _count(file: Path, text: bytes) -> int:
    return file.read_bytes().count(text)
