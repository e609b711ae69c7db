"""What Spark's JVM tells of what it executes, and of what Python hears nothing."""

from collections.abc import Iterator

import pytest

from topicast.tests.spark.applications import Application
from topicast.tests.spark.conftest import Drivers
from topicast.tests.waiting import until

NOTED = """
from pyspark.java_gateway import ensure_callback_server_started
from topicast.subscriber.spark import listeners
names = []

class Noted(listeners.Executions):
    def onSuccess(self, name, execution, duration):
        names.append(name)

def note():
    names.clear()
    return listeners._registered(manager, Noted(None), spark._jvm)

attach(spark).detach()  # whatever was attached in other modules
ensure_callback_server_started(spark.sparkContext._gateway)
manager = spark._jsparkSession.listenerManager()
noted = note()
"""
READ_AND_COMMAND = (
    "_ = spark.sql('SELECT 1').collect()",
    "_ = spark.sql('CREATE OR REPLACE TEMP VIEW noted AS SELECT 1 AS id')",
)


@pytest.fixture
def driver(drivers: Drivers) -> Iterator[Application]:
    driver = drivers.writer
    driver.do(f"hub = {drivers.daemons.hub_address!r}")
    driver.do(NOTED.replace("attach(spark)", "attach(spark, hub)"))
    yield driver
    driver.do("manager.unregister(noted); listeners.PASS = had; listeners._KINDS.clear()")


def test_queries_never_reach_python_and_commands_do(driver: Application) -> None:
    """Given a JVM without the compiler, then both do, and what is heard of is the same."""
    driver.do("had = listeners.PASS")
    for statement in READ_AND_COMMAND:
        driver.do(statement)
    until(lambda: driver.do("names") == ["command"], timeout_s=20)
    driver.do("listeners.PASS = 'no class'; listeners._KINDS.clear()")
    driver.do("manager.unregister(noted); noted = note()")
    for statement in READ_AND_COMMAND:
        driver.do(statement)
    until(lambda: driver.do("names") == ["collectToPython", "command"], timeout_s=20)
