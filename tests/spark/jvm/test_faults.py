"""What goes wrong around the agent of a driver without Python: plain Spark meanwhile."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

import psutil
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError

from topicast import __version__
from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.subscriber.spark.jar.builder import kept_jar
from topicast.tests.cli.processes import completed, is_gone
from topicast.tests.cli.releases import another_release
from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.jvm.shells import JvmDriver, Place, agent_of, of_run
from topicast.tests.spark.pair import BEFORE, WAIT_S
from topicast.tests.waiting import until, until_equal

pytestmark = pytest.mark.nightly  # four minutes; a spark-sql that is well is in every run

OLD: Final = [["1", "a"]]
TWO: Final = [["1", "a"], ["2", "a"]]
HELD_UP_S: Final = 30.0  # on a machine that is very busy; an agent that hangs hangs for good


def test_job_of_one_insert_is_reported(
    place: Place, hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    """Given a spark-sql that ends with its only statement, begun before its agent is live."""
    place.create("only_one", {"t": "USING parquet"})
    rows = "SELECT * FROM only_one.t"
    for _ in range(2):
        assert place.writer.rows(rows) == BEFORE
        place.writer.do(f"handle.sync({WAIT_S})")
    job = JvmDriver(
        tmp_path / "job",
        hive.uri,
        program=("spark-sql", "-e", "INSERT INTO only_one.t VALUES (2, 'a')"),
        under=of_run(place.daemons.hub_address),
    )
    assert job.end() == 0
    until_equal(lambda: place.writer.rows(rows), [*BEFORE, [2, "a"]], timeout_s=WAIT_S)


def test_agent_that_is_killed_is_started_again_and_no_write_is_lost(place: Place) -> None:
    place.create("killed_agent", {"t": "USING parquet"})
    place.shows("SELECT * FROM killed_agent.t", OLD)
    assert place.writer.rows("SELECT * FROM killed_agent.t") == BEFORE
    pid = place.facts()["pid"]
    agent = agent_of(pid)
    os.kill(agent, signal.SIGKILL)
    until(lambda: is_gone(agent), timeout_s=WAIT_S)
    place.shell.sql("INSERT INTO killed_agent.t VALUES (2, 'a')")  # nobody takes it yet
    wanted = [*BEFORE, [2, "a"]]
    rows = "SELECT * FROM killed_agent.t"
    until_equal(lambda: place.writer.rows(rows), wanted, timeout_s=WAIT_S)
    assert agent_of(pid) not in (0, agent)
    place.is_live()
    place.writer.sql("INSERT OVERWRITE killed_agent.t VALUES (2, 'a')")
    place.shows(rows, [["2", "a"]])
    facts = place.facts()
    assert (facts["writes"], facts["errors"]) == ("reported", 0), facts["last_error"]
    until(lambda: place.facts()["planning"] == "on", timeout_s=WAIT_S, what="plans from memory")


def test_agent_that_hangs_holds_no_statement_up(place: Place) -> None:
    place.create("hung_agent", {"t": "USING parquet"})
    rows = "SELECT * FROM hung_agent.t"
    place.shows(rows, OLD)
    assert place.writer.rows(rows) == BEFORE
    place.is_live()
    agent = agent_of(place.facts()["pid"])
    os.kill(agent, signal.SIGSTOP)
    try:
        for text, answer in (
            ("INSERT INTO hung_agent.t VALUES (2, 'a')", []),
            (rows, TWO),
            ("CREATE TABLE hung_agent.other USING parquet AS SELECT 1 AS id", []),
            ("SELECT * FROM hung_agent.other", [["1"]]),
        ):
            began = time.monotonic()
            assert place.shell.sql(text) == answer
            assert time.monotonic() - began < HELD_UP_S, text
    finally:
        os.kill(agent, signal.SIGCONT)
    until_equal(lambda: place.writer.rows(rows), [*BEFORE, [2, "a"]], timeout_s=WAIT_S)


def test_gateway_answers_nobody_without_its_token(place: Place) -> None:
    place.is_live()
    driver = psutil.Process(place.facts()["pid"])
    agent = psutil.Process(agent_of(driver.pid))
    listening = {
        one.laddr.port: one.laddr.ip
        for one in driver.net_connections("tcp")
        if one.status == psutil.CONN_LISTEN
    }
    (port,) = {one.raddr.port for one in agent.net_connections("tcp") if one.raddr} & set(listening)
    assert listening[port] in ("127.0.0.1", "::ffff:127.0.0.1")
    for token in (None, "", "0" * 48):
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        with pytest.raises(Py4JError):
            gateway.jvm.java.lang.System.currentTimeMillis()
        gateway.close()


def test_killed_driver_leaves_no_agent(place: Place) -> None:
    """The last test of the spark-sql: it dies."""
    place.is_live()
    pid = place.facts()["pid"]
    agent = agent_of(pid)
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_gone(agent), timeout_s=1, what="the end of the agent")


def test_without_an_agent_it_is_plain_spark_and_one_line_says_so(
    drivers: Drivers, hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    shell = JvmDriver(
        tmp_path / "driver",
        hive.uri,
        under=of_run(drivers.daemons.hub_address),
        environment={"TOPICAST_AGENT": "/nowhere/topicast agent"},
    )
    try:
        for _ in range(2):
            assert shell.sql("SELECT java_method('java.lang.Thread', 'sleep', bigint(2000))")
    finally:
        assert shell.end() == 0
    said = [line for line in shell.log().splitlines() if "topicast" in line]
    assert len(said) == 1, said
    assert "its agent does not start" in said[0]
    assert "/nowhere/topicast" in said[0]


def test_jar_of_another_release_than_the_agent_is_said_in_one_line_with_both(
    drivers: Drivers, hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    another_release(tmp_path / "its", ("__init__.py", __version__, "99.0"))
    jar = tmp_path / "topicast.jar"
    done = completed(
        [sys.executable, "-m", "topicast.cli.main", "jar", f"--out={jar}"],
        PYTHONPATH=str(tmp_path / "its"),
    )
    assert done.returncode == 0, done.stderr
    shell = JvmDriver(
        tmp_path / "driver",
        hive.uri,
        settings={
            "spark.driver.extraClassPath": str(jar),
            "spark.topicast.statestores": drivers.daemons.hub_address,
            "spark.topicast.agent": f"{sys.executable} -m topicast.cli.start agent",
        },
    )
    try:
        assert shell.sql("SELECT 1") == [["1"]]
        until(lambda: "topicast" in shell.log(), timeout_s=WAIT_S, what="a line")
    finally:
        assert shell.end() == 0
    said = [line for line in shell.log().splitlines() if "topicast" in line.lower()]
    assert len(said) == 1, said
    assert f"is of Topicast 99.0, and this is {__version__}" in said[0]


def test_jar_does_nothing_where_no_statestores_are_named(
    hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    jar = str(kept_jar(os.environ, "spark-submit"))
    shell = JvmDriver(tmp_path / "driver", hive.uri, environment={"SPARK_DIST_CLASSPATH": jar})
    try:
        assert shell.sql("SELECT 1") == [["1"]]
        assert agent_of(shell.process.pid) == 0
        threads = "java_method('java.lang.Thread', 'getAllStackTraces')"
        assert "topicast" not in str(shell.sql(f"SELECT {threads}"))
    finally:
        assert shell.end() == 0
    assert "topicast" not in shell.log()
