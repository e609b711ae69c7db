"""Kills: convert runs on a cluster, and a process dies; no partition is lost or doubled.

    rows are added ──▶ topicast pipeline convert ──▶ kill -9 ──▶ the copy is read ──┐ KILLS times
         └──────────────────────────────────────────────────────────────────────────┘
    ──▶ one more run, to its end: the copy is what the source is

The driver, an executor, catalogd or the metastore dies at a random instant of the run; what is
needed again is started at once.

Run: KILLS=50 SEED=1 python -m topicast.tests.spark.kills
"""

import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import psutil

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.cli.quickstart.processes.spark_settings import submit_arguments
from topicast.tests.cli.processes import command
from topicast.tests.integration.daemons import Daemons
from topicast.tests.spark.applications import Application, applications, quick_environment
from topicast.tests.spark.standalone import Cluster, cluster
from topicast.tests.waiting import until

PARTS: Final = 8  # partitions, of which each round changes some
WITHIN_S: Final = 3.0  # of the first line of progress, which is before anything is written
LEASE_S: Final = 60.0  # more than a killed run keeps others waiting, and Spark's start
VICTIMS: Final = ("driver", "driver", "executor", "catalogd", "metastore")
PAIR: Final = ("--from=raw.k", "--to=lake.k")


def started(environment: dict[str, str]) -> "subprocess.Popen[str] | None":
    """Start convert, and return once it has compared; None: it is refused, or was disturbed."""
    process = subprocess.Popen(
        command("main", "pipeline", "convert", *PAIR, "--once", "--batch=3"),
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a group with its JVM, so that both are killed at once
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("compared"):
            return process
    process.communicate()
    return None


def ended(process: "subprocess.Popen[str]", timeout_s: float) -> bool:
    """Return whether ``process`` ends in time; read what it prints if it does."""
    try:
        process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def doubled(one: Application) -> object:
    """Return the ids that the copy has twice, or the error that reading it ends in."""
    one.sql("REFRESH TABLE lake.k")
    return one.rows("SELECT id FROM lake.k GROUP BY id HAVING count(*) > 1")


class Stack:
    """What convert needs: a metastore, a hub with catalogd, and a cluster; each may be killed."""

    def __init__(self, folder: Path, hive: EmbeddedMetastore, spark: Cluster) -> None:
        self._hive = hive
        self._spark = spark
        self.daemons = Daemons(folder, hive.uri)
        self.daemons.start("statestored")
        self.daemons.start("catalogd")
        (folder / "job" / "scratch").mkdir(parents=True)
        arguments = submit_arguments(folder / "job", hive.uri)
        with (folder / "job" / "spark.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} {value}\n" for name, value in spark.settings().items())
        self.environment = {
            **os.environ,
            **quick_environment(),
            "TOPICAST_STATESTORES": self.daemons.hub_address,
            "PYSPARK_SUBMIT_ARGS": arguments,
        }

    def kill(self, victim: str, process: "subprocess.Popen[str]") -> None:
        """Kill ``victim``, or the driver, which is ``process``; start again what others need."""
        match victim:
            case "executor":
                with suppress(psutil.NoSuchProcess):  # it has just ended by itself
                    for executor in self._spark.executors()[:1]:
                        executor.kill()  # its worker starts another executor
            case "catalogd":
                self.daemons.kill("catalogd")
                self.daemons.start("catalogd")
            case "metastore":
                assert self._hive.pid is not None
                os.kill(self._hive.pid, signal.SIGKILL)
                self._hive.stop()
                self._hive.start()
            case _:
                os.killpg(process.pid, signal.SIGKILL)


def main() -> int:
    """Kill, and return 1 if a partition was lost or doubled."""
    kills, rng = int(os.environ.get("KILLS", "50")), random.Random(os.environ.get("SEED", "1"))
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it says that a metastore is dead
    with ExitStack() as started:
        folder = Path(started.enter_context(tempfile.TemporaryDirectory()))
        (folder / "spark").mkdir()
        hive = started.enter_context(EmbeddedMetastore(folder / "hive", durable=True))
        stack = Stack(folder, hive, started.enter_context(cluster(folder / "spark")))
        started.callback(stack.daemons.close)
        one = started.enter_context(applications(folder, hive.uri, one={}))["one"]
        return _rounds(one, stack, kills=kills, rng=rng)


def _rounds(one: Application, stack: Stack, *, kills: int, rng: random.Random) -> int:
    one.sql(
        "CREATE DATABASE raw",
        "CREATE DATABASE lake",
        "CREATE TABLE raw.k (id INT, part INT) USING csv PARTITIONED BY (part)",
    )
    environment, died = stack.environment, 0
    for number in range(kills):
        values = ", ".join(f"({number * PARTS + at}, {rng.randrange(PARTS)})" for at in range(4))
        one.sql(f"INSERT INTO raw.k VALUES {values}")
        process = until(lambda: started(environment), timeout_s=LEASE_S, what="a run")
        victim = rng.choice(VICTIMS)
        if not ended(process, rng.uniform(0.0, WITHIN_S)):
            died += 1
            stack.kill(victim, process)
            process.communicate()
        twice = doubled(one) if one.rows("SHOW TABLES IN lake") else []
        print(f"kill {number + 1}: {victim}, exit {process.returncode}, twice {twice}", flush=True)
        if twice:
            return 1
    until(lambda: _is_done(environment), timeout_s=LEASE_S, what="a run that is not disturbed")
    one.sql("REFRESH TABLE raw.k", "REFRESH TABLE lake.k")
    source, copy = (one.rows(f"SELECT id, part FROM {db}.k") for db in ("raw", "lake"))
    print(f"{died} of {kills} died: {len(source)} rows, the copy is the same: {source == copy}")
    return 0 if source == copy else 1


def _is_done(environment: dict[str, str]) -> bool:
    process = started(environment)
    return process is not None and ended(process, LEASE_S) and process.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
