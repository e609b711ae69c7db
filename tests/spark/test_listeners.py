"""What Spark's JVM tells of what it executes, and of what Python hears nothing."""

from collections.abc import Iterator

import pytest

from topicast.tests.spark.applications import Application, Failed
from topicast.tests.spark.conftest import Drivers
from topicast.tests.waiting import until

HEAR = """
from pyspark.java_gateway import ensure_callback_server_started
from topicast.subscriber.spark import listeners
attach(spark, hub).detach()  # whatever was attached in other modules
ensure_callback_server_started(spark.sparkContext._gateway)
heard = []
unlisten = listeners.listen(spark, lambda what, of: heard.append(what))
"""
VIEW = "CREATE OR REPLACE TEMP VIEW noted AS SELECT 1 AS id"
OURS = "listeners._KINDS[spark._jvm]"  # the class of what listens
COUNT = "spark.sparkContext._jsc.sc().listenerBus().findListenersByClass(tag).size()"


@pytest.fixture
def driver(drivers: Drivers) -> Iterator[Application]:
    driver = drivers.writer
    driver.do(f"hub = {drivers.daemons.hub_address!r}")
    driver.do(HEAR)
    yield driver
    driver.do("unlisten()")


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
    driver.do(f"tag = spark._jvm.scala.reflect.ClassTag.apply({OURS})")
    assert driver.do(COUNT) == 1
    driver.do("unlisten()")
    assert driver.do(COUNT) == 0


def test_spark_that_lacks_what_is_needed_is_said(driver: Application) -> None:
    driver.do("had = listeners.HEARD; listeners.HEARD = 'no class'; listeners._KINDS.clear()")
    try:
        with pytest.raises(Failed, match="Deaf: only from Python: no listener for this Spark"):
            driver.do("listeners.listen(spark, None)")
    finally:
        driver.do("listeners.HEARD = had")
