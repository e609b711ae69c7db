"""What goes wrong around the agent of a driver without Python: plain Spark meanwhile."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError

from topicast import __version__
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.cli.terminal.signals import handled
from topicast.subscriber.spark.jar.builder import kept_jar
from topicast.tests.cli.processes import completed, is_gone
from topicast.tests.cli.releases import another_release
from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.jvm.shells import JvmDriver, Place, agent_of, drivers_of, of_run
from topicast.tests.spark.pair import BEFORE, WAIT_S
from topicast.tests.waiting import until, until_equal
from topicast.topics.objects.drivers import LIVE

pytestmark = pytest.mark.nightly  # four minutes; a spark-sql that is well is in every run

OLD: Final = [["1", "a"]]
TWO: Final = [["1", "a"], ["2", "a"]]
OWN: Final = f"{sys.executable} -m topicast.cli.start agent"
STILL_S: Final = 60.0
BUSY_S: Final = 4.0  # of a processor, by which a statement is executed: more than to plan it takes
TABLES: Final = 200  # more than the memory that an agent has left is used for
ANOTHER: Final = 65534  # a user who has nothing
FILLED_MAX: Final = 4  # drivers whose memory is filled, of which Spark itself may not survive some
ANSWER_S: Final = 30.0  # in which one that has survived answers
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
    for _ in range(2):  # so that nothing but the report renews it
        assert place.writer.rows("SELECT * FROM killed_agent.t") == BEFORE
        place.writer.do(f"handle.sync({WAIT_S})")
    pid = place.facts()["pid"]
    agent = agent_of(pid)
    os.kill(agent, signal.SIGKILL)
    until(lambda: is_gone(agent), timeout_s=WAIT_S)
    place.shell.sql("INSERT INTO killed_agent.t VALUES (2, 'a')")  # nobody takes it yet
    wanted = [*BEFORE, [2, "a"]]
    rows = "SELECT * FROM killed_agent.t"
    until_equal(lambda: place.writer.rows(rows), wanted, timeout_s=WAIT_S)
    until(lambda: agent_of(pid) not in (0, agent), timeout_s=WAIT_S, what="another agent")
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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_reads_nothing_of_what_leads_to_the_gateway(place: Place) -> None:
    """Given the input of the agent, its environment, and the folder in which it has waited."""
    place.is_live()
    pid = place.facts()["pid"]
    agent, folder = agent_of(pid), psutil.Process(pid).environ()["TOPICAST_NOTES"]
    for words in (
        ["ls", f"/proc/{agent}/fd/0"],
        ["head", "-c1", f"/proc/{agent}/environ"],
        ["ls", folder],
    ):
        for user, is_allowed in ((os.geteuid(), True), (ANOTHER, False)):
            done = subprocess.run(words, user=user, capture_output=True, check=False)
            assert (done.returncode == 0) == is_allowed, (words, user, done.stderr)


def test_driver_that_stands_still_for_a_minute_is_right_afterwards(place: Place) -> None:
    """Given a process that is stopped, as all of it is by a long collection of its garbage."""
    place.create("still", {"t": "USING parquet"})
    rows = "SELECT * FROM still.t"
    place.shows(rows, OLD)
    place.is_live()
    pid = place.facts()["pid"]
    agent = agent_of(pid)
    os.kill(pid, signal.SIGSTOP)
    try:
        place.writer.sql("INSERT INTO still.t VALUES (2, 'a')")
        again = time.monotonic() + STILL_S
        until(lambda: time.monotonic() >= again, timeout_s=STILL_S + 1, what="the end of it")
    finally:
        os.kill(pid, signal.SIGCONT)
    place.shows(rows, TWO)
    place.is_live()
    assert agent_of(pid) == agent
    assert place.facts()["errors"] == 0, place.facts()["last_error"]


def test_agent_that_gets_no_more_memory_holds_no_statement_up_and_is_right_once_it_does(
    place: Place,
) -> None:
    place.create("no_memory", {"t": "USING parquet"})
    rows = "SELECT * FROM no_memory.t"
    place.shows(rows, OLD)
    assert place.writer.rows(rows) == BEFORE
    place.is_live()
    agent = psutil.Process(agent_of(place.facts()["pid"]))
    resource.prlimit(agent.pid, resource.RLIMIT_AS, (agent.memory_info().vms, -1))
    numbers = range(TABLES)
    try:
        place.writer.sql(*(f"CREATE TABLE no_memory.t{one} (id INT)" for one in numbers))
        began = time.monotonic()
        assert place.shell.sql("INSERT INTO no_memory.t VALUES (2, 'a')") == []
        assert place.shell.sql(rows) == TWO
        assert place.shell.sql(f"SELECT * FROM no_memory.t{TABLES - 1}") == []
        assert time.monotonic() - began < HELD_UP_S
    finally:
        with suppress(ProcessLookupError):  # it has ended by it
            resource.prlimit(agent.pid, resource.RLIMIT_AS, (-1, -1))
    until_equal(lambda: place.writer.rows(rows), [*BEFORE, [2, "a"]], timeout_s=WAIT_S)
    place.is_live()
    place.writer.sql("INSERT OVERWRITE no_memory.t VALUES (3, 'a')")
    place.shows(rows, [["3", "a"]])


def test_driver_that_can_open_no_gateway_is_plain_until_it_can(place: Place) -> None:
    """Given a driver that may open no more files when its agent is to be started again."""
    place.is_live()
    pid = place.facts()["pid"]
    agent, limits = agent_of(pid), resource.prlimit(pid, resource.RLIMIT_NOFILE)
    before = len(place.shell.log())
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (1, limits[1]))
    try:
        os.kill(agent, signal.SIGKILL)
        said = "driver is not attached: its agent cannot be kept: "
        until(lambda: said in place.shell.log()[before:], timeout_s=WAIT_S, what="why not")
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    until(lambda: agent_of(pid) not in (0, agent), timeout_s=WAIT_S, what="another agent")
    place.is_live()
    place.create("no_gateway", {"t": "USING parquet"})
    place.shows("SELECT * FROM no_gateway.t", OLD)


def test_killed_driver_leaves_no_agent(place: Place) -> None:
    """The last test of the spark-sql: it dies."""
    place.is_live()
    pid = place.facts()["pid"]
    agent = agent_of(pid)
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_gone(agent), timeout_s=1, what="the end of the agent")


def test_keys_of_a_terminal_that_end_a_statement_leave_its_agent(
    drivers: Drivers, hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    """Given Ctrl-C, which a spark-sql takes for the end of its statement, and Ctrl-\\, a dump."""
    hub = drivers.daemons.hub_address
    with handled({signal.SIGQUIT: signal.SIG_DFL}):  # which what runs in the background ignores
        shell = JvmDriver(tmp_path / "driver", hive.uri, under=of_run(hub), alone=True)
    try:
        assert shell.sql("SELECT 1") == [["1"]]
        agent = until(lambda: agent_of(shell.process.pid), timeout_s=WAIT_S, what="its agent")
        long = "SELECT count(*) FROM range(1000000000000) WHERE id % 7 = length(uuid())"
        below = psutil.Process(shell.process.pid).children(recursive=True)
        java = next(one for one in below if one.name() == "java")
        busy_s, said = java.cpu_times().user + BUSY_S, len(shell.log())
        shell.send(long)
        until(lambda: java.cpu_times().user > busy_s, timeout_s=WAIT_S, what="its execution")
        os.killpg(shell.process.pid, signal.SIGQUIT)
        os.killpg(shell.process.pid, signal.SIGINT)
        shell.receive(said)
        assert shell.sql("SELECT 2") == [["2"]]
        assert agent_of(shell.process.pid) == agent
    finally:
        assert shell.end() == 0
    assert "Interrupting" in shell.log()
    assert "topicast" not in shell.log().lower()


@pytest.mark.parametrize(("word", "code"), [("exit 7", 7), ("halt 7", 7), ("burst", 1)])
def test_agent_ends_with_its_driver_however_that_ends(
    drivers: Drivers,
    hive: EmbeddedMetastore,
    application: Path,
    word: str,
    code: int,
    tmp_path: Path,
) -> None:
    """Given a driver that leaves, another that falls over, and a third that runs out of memory."""
    hub, name = drivers.daemons.hub_address, f"it ends by {word}"
    more = {"spark.driver.memory": "512m", "spark.app.name": name}
    driver = JvmDriver(tmp_path / "driver", hive.uri, **by_settings(hub, application, **more))
    try:
        assert driver.sql("SELECT 1") == [["1"]]
        live = until(lambda: _live(hub, name), timeout_s=WAIT_S, what="its agent")
        agent = agent_of(live["pid"])
        assert agent
    finally:
        driver.write(f"{word}\n")
        ended = driver.process.wait(WAIT_S)
    until(lambda: is_gone(agent), timeout_s=1, what="the end of the agent")
    assert ended == code
    driver.end()


def test_driver_that_had_no_memory_for_a_moment_is_attached(
    drivers: Drivers, hive: EmbeddedMetastore, application: Path, tmp_path: Path
) -> None:
    """Given a driver that goes on, three times; where Spark's threads have died of it, another."""
    hub, name = drivers.daemons.hub_address, "it is filled"
    more = {"spark.driver.memory": "512m", "spark.app.name": name}
    drivers.writer.do("attach(spark).detach()")
    drivers.writer.do(f"handle = attach(spark, {hub!r})")
    drivers.writer.do(f"handle.sync({WAIT_S})")
    drivers.writer.sql("CREATE DATABASE filled", "CREATE TABLE filled.t (id INT) USING parquet")
    turn, rows = 0, "SELECT * FROM filled.t"
    try:
        for number in range(FILLED_MAX):
            how = by_settings(hub, application, **more)
            driver = JvmDriver(tmp_path / f"driver{number}", hive.uri, **how)
            wanted = [[str(turn)]] if turn else []
            until_equal(lambda: driver.sql(rows), wanted, timeout_s=WAIT_S)  # noqa: B023
            until(lambda: _live(hub, name), timeout_s=WAIT_S, what="its agent")
            while turn < 3 and _is_filled(driver):
                turn += 1
                until(lambda: _live(hub, name), timeout_s=WAIT_S, what="its agent")
                drivers.writer.sql(f"INSERT OVERWRITE filled.t VALUES ({turn})")
                wanted = [[str(turn)]]
                until_equal(lambda: driver.sql(rows), wanted, timeout_s=WAIT_S)  # noqa: B023
            driver.process.kill()
            driver.end()
            assert 'in thread "topicast' not in driver.log()
            if turn == 3:
                break
            until(lambda: not _live(hub, name), timeout_s=WAIT_S, what="its end")
    finally:
        driver.process.kill()
        drivers.writer.do("attach(spark).detach()")
    assert turn == 3


def _is_filled(driver: JvmDriver) -> bool:
    """Fill the memory of a driver for a moment; return whether Spark itself goes on after it."""
    driver.write("fill\n")
    timer = threading.Timer(ANSWER_S, driver.process.kill)
    timer.start()
    try:
        return driver.sql("SELECT 1") == [["1"]] and "no memory was left" in driver.log()
    except (AssertionError, OSError):  # it was killed
        return False
    finally:
        timer.cancel()


def _live(hub: str, name: str) -> dict[str, Any]:
    """Return what operators see of a driver that is live; nothing: it is not."""
    found = (one for one in drivers_of(hub, name) if one["state"] == LIVE)
    return next(found, {})


def by_settings(hub: str, application: Path, **more: str) -> dict[str, Any]:
    """Return how the application is attached without a variable of ours."""
    settings = {
        "spark.driver.extraClassPath": str(kept_jar(os.environ, "spark-submit")),
        "spark.topicast.statestores": hub,
        "spark.topicast.agent": OWN,
        **more,
    }
    program = ("spark-submit", "--class", "LineByLine", str(application))
    return {"program": program, "settings": settings}


def test_without_an_agent_it_is_plain_spark_and_one_line_says_so(
    drivers: Drivers, hive: EmbeddedMetastore, application: Path, tmp_path: Path
) -> None:
    """Given an application with a context for each; an agent is started again and again."""
    (tmp_path / "topicast").symlink_to(Path(__file__).parents[3])
    start = "from topicast.cli.start import main; main()"
    without = f"import sys; sys.path.insert(0, '{tmp_path}')"
    old = "import sys; sys.version_info = (3, 8, 18)"
    agents = {
        "/nowhere/topicast agent": "its agent does not start: ",
        f'{sys.executable} -c "{old}; {start}" agent': "Topicast needs Python 3.10 or newer, and ",
        f'{sys.executable} -S -c "{without}; {start}" agent': ": pip install topicast",
        f"{sys.executable} -S -m topicast.cli.start agent": "No module named 'topicast'",
        "/bin/sh -c 'kill -9 $$'": "its agent has ended with 137; ",
        f"/bin/sh -c 'ulimit -v 40000; exec {OWN}'": "its agent has ended with 1: ",
    }
    how = by_settings(drivers.daemons.hub_address, application)
    driver = JvmDriver(tmp_path / "driver", hive.uri, **how)
    try:
        for agent, why in agents.items():
            driver.write(f"again spark.topicast.agent {agent}\n")
            before = len(driver.log())
            for _ in range(2):  # the second start is after a second, the third after three
                assert driver.sql("SELECT java_method('java.lang.Thread', 'sleep', bigint(2000))")
            said = [line for line in driver.log()[before:].splitlines() if "opicast" in line]
            assert len(said) == 1, said
            assert "topicast: driver is not attached: its agent " in said[0]
            assert why in said[0]
    finally:
        assert driver.end() == 0


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
            "spark.topicast.agent": OWN,
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
