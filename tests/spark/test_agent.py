"""The agent of a driver in Python: what happens without it, and what its handle says then."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

import pytest

from topicast.tests.cli.processes import is_gone
from topicast.tests.spark.applications import Failed
from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.jvm.shells import agent_of
from topicast.tests.spark.pair import BEFORE, WAIT_S, Pair
from topicast.tests.waiting import until

STATE: Final = "(lambda it: [it.state, it.reason])(handle.status())"
TIMED: Final = f"""
import time
began = time.monotonic()
said = {STATE}
waited_s = time.monotonic() - began
"""
SECOND: Final = """
import sys
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from topicast.subscriber.spark import attach

gateway = launch_gateway()
java = gateway.jvm.org.apache.spark
context = java.api.java.JavaSparkContext.fromSparkContext(java.SparkContext.getOrCreate())
conf = SparkConf(_jconf=context.getConf())
spark = SparkSession(SparkContext(gateway=gateway, jsc=context, conf=conf))
handle = attach(spark, sys.argv[1])
handle.sync(60)
spark.sql("INSERT INTO two_pythons.t VALUES (2, 'a')")
print(handle.status().state)
"""
FIFTY: Final = 50
WRITES: Final = 5  # a turn
WRITES_S: Final = 1.5  # that they take, about
KILLS: Final = 4  # pauses of 1, 2, 4 and 8 s


@pytest.fixture(scope="module")
def pair(drivers: Drivers) -> Iterator[Pair]:
    """Both are attached."""
    pair = Pair(drivers.writer, drivers.reader, drivers.daemons)
    pair.writer.sql("SET spark.sql.statistics.size.autoUpdate.enabled=false")
    for one in (pair.writer, pair.reader):
        one.do("attach(spark).detach()")
        pair.attach(one)
    yield pair
    for one in (pair.writer, pair.reader):
        one.do("handle.detach()")


def agent(pair: Pair) -> int:
    """Return the writer's agent; 0: there is none."""
    return agent_of(pair.writer.pids[1])


def test_agent_that_cannot_be_started_is_said_by_the_status_and_leaves_plain_spark(
    pair: Pair,
) -> None:
    driver = pair.writer
    driver.do("handle.detach(); import os; os.environ['TOPICAST_AGENT'] = \"'/no where/agent' x\"")
    try:
        driver.do(f"handle = attach(spark, {pair.daemons.hub_address!r})")
        until(lambda: driver.do(STATE)[0] == "plain", timeout_s=WAIT_S, what="why not")
        assert "its agent does not start" in driver.do(STATE)[1]
        assert "/no where/agent" in driver.do(STATE)[1]
        with pytest.raises(Failed, match="NotReady"):
            driver.do("handle.sync(0.1)")
        assert driver.do("spark.sql('SELECT 1 AS id').first().id") == 1
    finally:
        driver.do("handle.detach(); del os.environ['TOPICAST_AGENT']")
        pair.attach(driver)
    assert driver.do(STATE) == ["live", ""]


def test_agent_that_is_late_begins_as_it_was_switched_before(pair: Pair) -> None:
    driver = pair.writer
    late = f"sh -c 'sleep 2; exec {sys.executable} -m topicast.cli.start agent'"
    driver.do(f"handle.detach(); import os; os.environ['TOPICAST_AGENT'] = {late!r}")
    try:
        driver.do(f"handle = attach(spark, {pair.daemons.hub_address!r})")
        driver.do("handle.control('off')")
        until(lambda: driver.do(STATE)[0] == "live", timeout_s=WAIT_S, what="the agent")
        assert driver.do("handle.status().control") == "off"
        assert driver.do("handle.status().planning") == "off"
    finally:
        driver.do("handle.detach(); del os.environ['TOPICAST_AGENT']")
        pair.attach(driver)
    assert driver.do("handle.status().control") == "on"


def test_detached_driver_has_no_agent_and_its_status_is_what_it_was(pair: Pair) -> None:
    driver, before = pair.writer, agent(pair)
    assert before
    driver.do("handle.detach()")
    until(lambda: is_gone(before), timeout_s=WAIT_S, what="the end of the agent")
    assert driver.do(STATE)[0] == "detached"
    assert driver.do("handle.status().primitives") != ""
    pair.attach(driver)
    assert agent(pair) not in (0, before)


@pytest.mark.nightly  # it is another Python, and 10 s
def test_second_python_of_a_jvm_has_the_agent_of_the_first(pair: Pair) -> None:
    """Given no jar: the classes that the first has compiled are found. A write counts once."""
    pair.create("two_pythons", {"t": "USING parquet"})
    pair.is_settled("two_pythons", {"t": BEFORE})
    its, listening = agent(pair), pair.listeners()
    before = pair.daemons.status("catalog")["writes"]
    at = "spark.sparkContext._gateway.gateway_parameters"
    gateway = pair.writer.do(f"(lambda it: [it.port, it.auth_token])({at})")
    done = subprocess.run(
        [sys.executable, "-c", SECOND, pair.daemons.hub_address],
        env={
            **os.environ,
            "PYSPARK_GATEWAY_PORT": str(gateway[0]),
            "PYSPARK_GATEWAY_SECRET": gateway[1],
        },
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "live\n"), done.stderr
    assert (agent(pair), pair.listeners()) == (its, listening)
    pair.sees("two_pythons", {"t": [*BEFORE, [2, "a"]]})
    pair.writer.sql("INSERT INTO two_pythons.t VALUES (3, 'a')")
    pair.sees("two_pythons", {"t": [*BEFORE, [2, "a"], [3, "a"]]})
    assert pair.daemons.status("catalog")["writes"] == before + 2
    assert pair.status("state") == "live"


@pytest.mark.nightly  # 40 s
def test_agent_that_is_killed_again_and_again_loses_no_write(pair: Pair) -> None:
    pair.create("killed_often", {"t": "USING parquet"})
    pair.is_settled("killed_often", {"t": BEFORE})
    rows = list(BEFORE)
    for turn in range(2, 2 + KILLS):
        before = agent(pair)
        if turn % 2:
            os.kill(before, signal.SIGKILL)
        pair.writer.sql(f"INSERT INTO killed_often.t VALUES ({turn}, 'a')")
        if not turn % 2:
            os.kill(before, signal.SIGKILL)
        rows.append([turn, "a"])
        until(lambda of=before: is_gone(of), timeout_s=WAIT_S)  # type: ignore[misc]  # of this turn
        pair.sees("killed_often", {"t": rows})
        until(lambda: pair.writer.do(STATE) == ["live", ""], timeout_s=WAIT_S, what="another one")
    assert pair.status("errors") == 0, pair.status("last_error")


@pytest.mark.nightly  # ten minutes
@pytest.mark.timeout(1800)
def test_fifty_agents_that_are_killed_at_any_instant_of_writes_lose_none(pair: Pair) -> None:
    """Given 5 writes a turn, of which none waits for an agent.

    What a killed agent had reported, and not yet counted as handled, is reported once more: a
    reader lists the files once more for it, and is as right as before.
    """
    rng, rows, writes = random.Random(29), list(BEFORE), 0
    pair.create("killed_fifty", {"t": "USING parquet"})
    pair.is_settled("killed_fifty", {"t": BEFORE})
    counted = pair.daemons.status("catalog")["writes"]
    for turn in range(FIFTY):
        values = [[2 + WRITES * turn + one, "a"] for one in range(WRITES)]
        inserts = [f"INSERT INTO killed_fifty.t VALUES ({number}, 'a')" for number, _ in values]
        pid = agent(pair)
        pair.writer.send(f"[spark.sql(one) and None for one in {inserts!r}]")
        kill_at = time.monotonic() + rng.uniform(0.0, WRITES_S)
        until(lambda at=kill_at: time.monotonic() >= at, timeout_s=WAIT_S)  # type: ignore[misc]
        os.kill(pid, signal.SIGKILL)
        pair.writer.receive()
        rows, writes = [*rows, *values], writes + WRITES
        pair.sees("killed_fifty", {"t": sorted(rows, key=str)})
        pair.writer.do("handle.detach()")  # else the pause before the next agent doubles
        pair.attach(pair.writer)
    found = pair.daemons.status("catalog")["writes"] - counted
    assert writes <= found <= writes + FIFTY, "at most one that a killed agent had reported"


@pytest.mark.nightly  # as above
def test_agent_that_hangs_holds_nothing_up(pair: Pair) -> None:
    pair.create("hung", {"t": "USING parquet"})
    pair.is_settled("hung", {"t": BEFORE})
    driver, pid = pair.writer, agent(pair)
    until(lambda: driver.do(STATE)[0] == "live", timeout_s=WAIT_S, what="what is said last")
    os.kill(pid, signal.SIGSTOP)
    try:
        driver.do(TIMED)
        assert driver.do("said") == ["live", "its agent does not answer"]
        assert driver.do("waited_s") < WAIT_S / 10
        driver.sql("INSERT INTO hung.t VALUES (2, 'a')")
        assert driver.rows("SELECT * FROM hung.t") == [*BEFORE, [2, "a"]]
    finally:
        os.kill(pid, signal.SIGCONT)
    pair.sees("hung", {"t": [*BEFORE, [2, "a"]]})
