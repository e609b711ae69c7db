"""Which executions of Spark's JVM are queued for an agent, and which are not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from topicast.subscriber.spark.writes.listener import NAME
from topicast.tests.spark.applications import Application, Failed
from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.pair import listeners
from topicast.tests.waiting import until

LISTEN = """
from threading import Event, Thread
from topicast.subscriber.spark.jar.bootstrap import bootstrap_source
from topicast.subscriber.spark.java import java_class
from topicast.subscriber.spark.refresh.catalyst import Catalyst
from topicast.subscriber.spark.writes.listener import Queue
attach(spark, hub).detach()  # whatever was attached in other modules
sessions = Catalyst.probe(spark).registry
received, begun, gate = [], [], Event()
gate.set()
context = spark.sparkContext._jsc.sc()
first = java_class(spark._jvm, "TopicastBootstrap", bootstrap_source())
kind = first.getClassLoader().loadClass("TopicastListener")

def take_all(queue):
    while (found := queue.take(60)) is None or found.what != "ended":
        if found is not None:
            begun.append(found.what)
            gate.wait()
            received.append(found.missed or found.what)

class Listener:
    def __init__(self, size=10000, takes=True):
        given = spark._jvm.java.util.ArrayList()
        given.add(size)
        (made,) = [one for one in kind.getConstructors() if one.getParameterCount()]
        self.java = made.newInstance(given.toArray())
        context.addSparkListener(self.java)
        self.queue = Queue(self.java, sessions=sessions)
        if takes:
            Thread(target=take_all, args=(self.queue,), daemon=True).start()

    def stop(self):
        context.removeSparkListener(self.java)
        self.java.stop()

listener = Listener()
"""
DEEP = """
public final class Deep implements java.util.function.Consumer {
    public void accept(Object session) { throw new StackOverflowError("deep"); }
}
"""
VIEW = "CREATE OR REPLACE TEMP VIEW noted AS SELECT 1 AS id"


@pytest.fixture
def driver(drivers: Drivers) -> Iterator[Application]:
    driver = drivers.writer
    driver.do(f"hub = {drivers.daemons.hub_address!r}")
    driver.do(LISTEN)
    yield driver
    driver.do("gate.set(); listener.stop()")


def test_queries_never_reach_python_and_commands_of_every_session_do(
    driver: Application, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_text("a\nb\n")
    driver.do(f"lines = spark.read.text('file:{tmp_path}/lines')")
    for query in ("SELECT 1", f"SELECT count(*) FROM text.`file:{tmp_path}/lines`"):
        driver.do(f"_ = spark.sql({query!r}).collect()")
    driver.do("_ = lines.cache().count(), lines.join(lines, 'value').collect(), lines.take(1)")
    driver.do("_ = spark.newSession().range(9).groupBy('id').count().collect()")
    for session in ("_jsparkSession", "newSession()", "_jsparkSession.newSession()"):
        driver.do(f"_ = spark.{session}.sql({VIEW!r})")
    with pytest.raises(Failed):
        driver.do("spark.sql('CREATE TABLE nowhere.t (id INT) USING parquet')")
    failed = f"INSERT OVERWRITE DIRECTORY '{tmp_path}/out' USING parquet SELECT raise_error('no')"
    with pytest.raises(Failed):
        driver.do(f"spark.sql({failed!r})")
    until(lambda: "failed" in driver.do("received"), timeout_s=20)
    assert driver.do("received")[:3] == ["executed"] * 3
    assert set(driver.do("received")[3:]) <= {"began", "failed"}


def test_statement_that_executes_others_is_one_write(driver: Application) -> None:
    """Given a table that is made of a query, and another that a job in the JVM writes by name."""
    driver.sql("CREATE DATABASE counted")
    driver.do("_ = listener.java.settle(context, 60000); received.clear()")
    for statement in (
        "CREATE TABLE counted.t USING parquet AS SELECT 1 AS id",
        "INSERT INTO counted.t SELECT 2",
    ):
        driver.do(f"_ = spark._jsparkSession.sql({statement!r})")
        assert driver.do("listener.java.settle(context, 60000)") is True
        assert driver.do("received") == ["began", "executed"], statement
        driver.do("received.clear()")


def test_all_sessions_share_a_listener_until_it_is_stopped(driver: Application) -> None:
    assert listeners(driver) == 1
    driver.do("listener.stop()")
    assert listeners(driver) == 0


def test_what_python_has_executed_is_waited_for_until_it_is_handled(driver: Application) -> None:
    """Given no settling of the bus: what was executed before has come out of it."""
    for _ in range(3):
        driver.do(f"before = len(received); _ = spark.sql({VIEW!r})")
        assert driver.do("listener.java.settle(context, 60000), len(received) - before") == [
            True,
            1,
        ]
    driver.do(f"gate.clear(); _ = spark.sql({VIEW!r})")
    assert driver.do("listener.java.settle(context, 3)") is False


def test_python_that_does_not_return_holds_the_bus_up_for_nothing(driver: Application) -> None:
    """Given room for two that wait, then what is beyond is counted."""
    driver.do("listener.stop(); gate.clear(); listener = Listener(2)")
    driver.do(f"_ = spark._jsparkSession.sql({VIEW!r})")
    until(lambda: driver.do("begun") == ["executed"], timeout_s=20)
    driver.do(f"for _ in range(4): spark._jsparkSession.sql({VIEW!r})")
    driver.do("spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(60000)")
    assert driver.do("listener.queue.settle(0.1)") is False
    driver.do("gate.set()")
    assert driver.do("listener.queue.settle(60)") is True
    driver.do(f"_ = spark._jsparkSession.sql({VIEW!r})")
    until(lambda: driver.do("received")[-1] == "executed", timeout_s=20)
    until(lambda: len(driver.do("received")) == 5, timeout_s=20)
    assert driver.do("received").count("executed") == 4
    assert driver.do("received").count(2) == 1


def test_a_query_that_spark_cannot_analyse_leaves_no_failure_of_ours_in_the_log(
    driver: Application,
) -> None:
    """Given the events of it that Spark 4.3 posts: what a listener throws is logged, 70 lines."""
    for query in ("SELECT * FROM nowhere", "INSERT INTO nowhere SELECT 1"):
        with pytest.raises(Failed, match="TABLE_OR_VIEW_NOT_FOUND"):
            driver.do(f"spark.sql({query!r})")
    driver.do("spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(60000)")
    assert f"{NAME} threw" not in driver.log()
    assert driver.do("received") == []


def test_error_of_what_is_told_of_sessions_stops_no_context(driver: Application) -> None:
    """Given a StackOverflowError: for an Error of a listener Spark stops its context."""
    driver.do("from topicast.subscriber.spark.java import java_object")
    driver.do(f"listener.java.tell(java_object(spark._jvm, 'Deep', {DEEP!r}))")
    driver.do(f"_ = spark._jsparkSession.sql({VIEW!r})")
    until(lambda: driver.do("received") == ["executed"], timeout_s=20)
    assert driver.do("context.isStopped()") is False


def test_what_a_process_has_not_handled_when_it_dies_is_taken_once_more(
    driver: Application,
) -> None:
    """Given another agent that takes from the same listener: what has been queued since as well."""
    driver.do("listener.stop(); listener = Listener(takes=False)")
    for _ in range(4):
        driver.do(f"_ = spark._jsparkSession.sql({VIEW!r})")
    driver.do("marks = [listener.queue.take(20, handled=one).mark for one in (True, True, False)]")
    driver.do("listener.java.resume(); queue = Queue(listener.java, sessions=sessions)")
    assert driver.do("[queue.take(20).mark for _ in range(2)] == marks[1:]")
    assert driver.do("queue.take(20).mark not in (0, *marks)")
    assert driver.do("queue.take(0) is None")
    assert listeners(driver) == 1


def test_what_a_dead_process_left_waiting_takes_nothing_from_the_next_process(
    driver: Application,
) -> None:
    """Given its call in the JVM, which goes on after the process has ended."""
    driver.do("listener.stop(); listener = Listener(takes=False); left = []")
    driver.do("Thread(target=lambda: left.append(listener.queue.take(60)), daemon=True).start()")
    driver.do("queue = Queue(listener.java, sessions=sessions)")
    until(lambda: driver.do("listener.java.resume() or left") == [None], timeout_s=20)
    driver.do(f"_ = spark._jsparkSession.sql({VIEW!r})")
    assert driver.do("queue.take(20).what") == "executed"
    assert driver.do("left") == [None]
