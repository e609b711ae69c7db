"""Each kind of driver without Python, attached by ``topicast run``, or by the jar's settings alone.

What plain Spark answers is shown in the same run, by the reader, which nobody has attached.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from topicast.cli.quickstart.processes.spark_settings import spark_settings
from topicast.subscriber.spark.jar.builder import kept_jar
from topicast.tests.cli.processes import is_gone, steady_port
from topicast.tests.spark.applications import SPARK, Client, quick_environment
from topicast.tests.spark.jvm.scene import Scene, started
from topicast.tests.spark.jvm.shells import (
    BIN,
    JvmDriver,
    Rows,
    ScalaShell,
    agent_of,
    of_run,
)
from topicast.tests.spark.pair import WAIT_S
from topicast.tests.spark.servers import jdbc_session
from topicast.tests.waiting import until, until_equal

pytestmark = pytest.mark.nightly  # each test starts a JVM; spark-sql is in every run

THRIFT: Final = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
DAEMONS: Final = {  # Spark's scripts, the names of their applications, and what they run
    "start-thriftserver.sh": ("Thrift JDBC/ODBC Server", THRIFT),
    "start-connect-server.sh": ("Spark Connect server", SERVER),
}
STARTS: Final = 4  # of a spark-shell: its class loader is the compiler's, which is for one thread
COUNTED: Final = re.compile(r"^ *\d+: +(\d+) +\d+ +(\S+)", re.MULTILINE)  # objects of a class
KEPT_MAX: Final = 20  # of 200: those that a thread has used last, and what Spark keeps of its own
OF_A_SESSION: Final = (
    "SparkSession",
    "sql.internal.SessionState",
    "LogicalRelation",
    "HadoopFsRelation",
    "opicast",
)


@pytest.mark.parametrize("start", range(STARTS))
def test_spark_shell_starts_each_time_and_is_fresh(
    scene: Scene, tmp_path: Path, start: int
) -> None:
    with started(ScalaShell, tmp_path / "shell", scene, program=("spark-shell",)) as shell:
        assert shell.sql("SELECT 1") == [["1"]]
        scene.live("Spark shell")
        scene.is_fresh(f"scala_{start}", shell.sql)
    assert "AssertionError" not in shell.log()


def test_application_in_a_jar_is_fresh_by_settings_alone_in_each_of_its_contexts(
    scene: Scene, application: Path, tmp_path: Path
) -> None:
    """Given no variable of ours: the class path, the statestores and the agent are settings."""
    settings = {
        "spark.driver.extraClassPath": str(kept_jar(os.environ, "spark-submit")),
        "spark.topicast.statestores": scene.hub,
        "spark.topicast.agent": f"{sys.executable} -m topicast.cli.start agent",
        "spark.app.name": "line-by-line",
    }
    program = ("spark-submit", "--class", "LineByLine", str(application))
    more = {"under": (), "program": program, "settings": settings}
    with started(JvmDriver, tmp_path / "jar", scene, **more) as driver:
        assert driver.sql("SELECT 1") == [["1"]]
        first = scene.live("line-by-line")
        agent = agent_of(first["pid"])
        scene.is_fresh("by_jar", driver.sql)
        driver.write("again\n")
        assert driver.sql("SELECT 1") == [["1"]]
        until(lambda: is_gone(agent), timeout_s=WAIT_S, what="the end of the first agent")
        second = scene.live("line-by-line", but=first["driver"])
        assert second["application_id"] != first["application_id"]
        scene.is_fresh("by_jar_again", driver.sql)


def test_sessions_that_come_and_go_leave_nothing_in_the_heap(
    scene: Scene, application: Path, tmp_path: Path
) -> None:
    """Given 200, each of which reads a table that others change; the JVM counts its objects."""
    program = ("spark-submit", "--class", "LineByLine", str(application))
    settings = {"spark.app.name": "come-and-go"}
    writer = scene.drivers.writer
    writer.sql("CREATE DATABASE heap", "CREATE TABLE heap.t USING parquet AS SELECT 1 AS id")
    with started(JvmDriver, tmp_path / "driver", scene, program=program, settings=settings) as one:
        assert one.sql("SELECT 1") == [["1"]]
        scene.live("come-and-go")

        def objects() -> dict[str, int]:
            """Return how many there are, by class, once it has collected its garbage."""
            lines = "\n".join(row[0] for row in one.sql("heap"))
            every = {name: int(count) for count, name in COUNTED.findall(lines)}
            return {name: every[name] for name in every if any(map(name.count, OF_A_SESSION))}

        one.write("sessions 20 heap.t\n")
        before = objects()
        assert "TopicastListener" in before
        for number in range(4):
            one.write("sessions 50 heap.t\n")
            writer.sql(f"INSERT INTO heap.t VALUES ({number})")
        wanted = [["0"], ["1"], ["1"], ["2"], ["3"]]
        until_equal(lambda: one.sql("SELECT * FROM heap.t"), wanted, timeout_s=WAIT_S)

        def grown() -> dict[str, int]:
            now = objects()
            more = {name: now[name] - before.get(name, 0) for name in now}
            return {name: count for name, count in more.items() if count > KEPT_MAX}

        until_equal(grown, {}, timeout_s=WAIT_S)


def test_thrift_server_is_fresh(scene: Scene, tmp_path: Path) -> None:
    port = steady_port()
    where = {"HIVE_SERVER2_THRIFT_PORT": str(port), "HIVE_SERVER2_THRIFT_BIND_HOST": "127.0.0.1"}
    program = ("spark-submit", "--class", THRIFT, "spark-internal")
    more = {"end": "terminate", "program": program, "environment": where}
    writer = scene.drivers.writer

    with (
        started(JvmDriver, tmp_path / "thrift", scene, **more) as server,
        jdbc_session(writer, port),
    ):
        scene.live("SparkSQL")
        scene.is_fresh("by_thrift", lambda text: writer.do(f"jdbc({text!r})"))
    assert "not attached" not in server.log()


@pytest.mark.skipif(SPARK < (4, 0), reason="PySpark 3.5 has no jar of Spark Connect's server")
def test_connect_server_is_fresh(scene: Scene, tmp_path: Path) -> None:
    port = steady_port()
    program = ("spark-submit", "--class", SERVER, "spark-internal")
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.app.name": "connect-server",
    }
    more = {"end": "terminate", "program": program, "settings": settings}
    with started(JvmDriver, tmp_path / "connect", scene, **more):
        scene.live("connect-server")
        client = Client(_made(tmp_path / "client"), f"sc://127.0.0.1:{port}")
        try:

            def ask(text: str) -> Rows:
                rows = client.rows(text)
                return rows if isinstance(rows, str) else [[*map(str, row)] for row in rows]

            scene.is_fresh("by_connect", ask)
        finally:
            client.end()


@pytest.mark.parametrize("name", list(DAEMONS))
def test_server_that_goes_on_as_a_daemon_is_attached(
    scene: Scene, name: str, tmp_path: Path
) -> None:
    """Given Spark's own scripts; those that this PySpark has not are written here."""
    application, server = DAEMONS[name]
    if name == "start-connect-server.sh" and SPARK < (4, 0):
        pytest.skip("PySpark 3.5 has no jar of Spark Connect's server")
    (tmp_path / "scratch").mkdir()
    conf = {**spark_settings(tmp_path), "spark.hadoop.hive.metastore.uris": scene.uri}
    conf["spark.connect.grpc.binding.port"] = str(steady_port())
    (tmp_path / "conf").write_text("".join(f"{key} {conf[key]}\n" for key in conf))
    script = BIN.parent / "sbin" / name
    if not script.exists():
        script = tmp_path / name
        exec_ = "exec $SPARK_HOME/sbin/spark-daemon.sh submit"
        script.write_text(f"#!/bin/bash\n{exec_} {server} 1 --name '{application}' \"$@\"")
        script.chmod(0o755)
    own = {
        "SPARK_HOME": str(BIN.parent),
        "SPARK_LOG_DIR": str(tmp_path / "logs"),
        "SPARK_PID_DIR": str(tmp_path / "pids"),
        "HIVE_SERVER2_THRIFT_PORT": str(steady_port()),
        "HIVE_SERVER2_THRIFT_BIND_HOST": "127.0.0.1",
    }
    done = subprocess.run(
        [*of_run(scene.hub), str(script), "--properties-file", str(tmp_path / "conf")],
        env={**os.environ, **quick_environment(), **own},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.returncode, "not attached" in done.stderr) == (0, False), done.stderr
    pid = int(next((tmp_path / "pids").iterdir()).read_text())
    try:
        assert scene.live(application)["pid"] == pid
        assert agent_of(pid)
    finally:
        os.kill(pid, signal.SIGTERM)
        until(lambda: is_gone(pid), timeout_s=WAIT_S, what="its end")


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
