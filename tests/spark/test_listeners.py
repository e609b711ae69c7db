"""What Spark's JVM tells of what it executes, and of what Python hears nothing."""

from collections.abc import Iterator

import pytest

from topicast.tests.spark.applications import Application, Failed
from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.pair import listeners
from topicast.tests.waiting import until

HEAR = """
import time
from pyspark.java_gateway import ensure_callback_server_started
from topicast.subscriber.spark.writes import listener as listeners
attach(spark, hub).detach()  # whatever was attached in other modules
ensure_callback_server_started(spark.sparkContext._gateway)
heard, slow_s = [], 0

def take(what, of):
    time.sleep(slow_s)
    heard.append(what if what != "missed" else of)

listening = listeners.Listening(spark, take)
"""
VIEW = "CREATE OR REPLACE TEMP VIEW noted AS SELECT 1 AS id"


@pytest.fixture
def driver(drivers: Drivers) -> Iterator[Application]:
    driver = drivers.writer
    driver.do(f"hub = {drivers.daemons.hub_address!r}")
    driver.do(HEAR)
    yield driver
    driver.do("listening.stop()")


def test_queries_never_reach_python_and_commands_of_every_session_do(driver: Application) -> None:
    driver.do("_ = spark.sql('SELECT 1').collect()")
    for session in ("_jsparkSession", "newSession()", "_jsparkSession.newSession()"):
        driver.do(f"_ = spark.{session}.sql({VIEW!r})")
    with pytest.raises(Failed):
        driver.do("spark.sql('CREATE TABLE nowhere.t (id INT) USING parquet')")
    failed = "INSERT OVERWRITE DIRECTORY '/nowhere' USING parquet SELECT raise_error('no')"
    with pytest.raises(Failed):
        driver.do(f"spark.sql({failed!r})")
    until(lambda: "failed" in driver.do("heard"), timeout_s=20)
    assert driver.do("heard")[:3] == ["executed"] * 3
    assert set(driver.do("heard")[3:]) == {"failed"}


def test_what_listens_is_one_for_all_sessions_and_goes(driver: Application) -> None:
    assert listeners(driver) == 1
    driver.do("listening.stop()")
    assert listeners(driver) == 0


def test_spark_that_lacks_what_is_needed_is_said(driver: Application) -> None:
    driver.do("had = listeners.HEARD, listeners._KINDS.pop(spark._jvm)")
    driver.do("listeners.HEARD = 'no class'")
    try:
        with pytest.raises(Failed, match="Deaf: only from Python: no listener for this Spark"):
            driver.do("listeners.Listening(spark, None)")
    finally:
        driver.do("listeners.HEARD, listeners._KINDS[spark._jvm] = had")


def test_python_that_takes_long_holds_the_bus_up_for_nothing(driver: Application) -> None:
    """Given room for two that wait, then what is beyond is counted."""
    driver.do("listening.stop(); listeners.QUEUE_MAX = 2; slow_s = 3")
    try:
        driver.do("listening = listeners.Listening(spark, take)")
        driver.do(f"for _ in range(5): spark._jsparkSession.sql({VIEW!r})")
        driver.do("begin = time.monotonic()")
        driver.do("spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(20000)")
        assert driver.do("time.monotonic() - begin") < 2
        assert driver.do("listening.settle(0.1)") is False
        driver.do("slow_s = 0")
        assert driver.do("listening.settle(60)") is True
        driver.do(f"_ = spark._jsparkSession.sql({VIEW!r})")
        until(lambda: driver.do("heard")[-1] == "executed", timeout_s=20)
        until(lambda: len(driver.do("heard")) == 5, timeout_s=20)
        assert driver.do("heard").count("executed") == 4
        assert driver.do("heard").count(2) == 1
    finally:
        driver.do("listeners.QUEUE_MAX = 10_000")
