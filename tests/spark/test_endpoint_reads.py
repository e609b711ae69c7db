"""What a driver has not read before is answered by its agent's endpoint, and never worse.

The driver of this module has its endpoint on; the calls that reach the metastore are counted.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.subscriber.client.write_reports import report_write
from topicast.subscriber.engine.write_outbox import Outbox
from topicast.tests.spark.applications import Application
from topicast.tests.spark.test_planning import (
    DAYS,
    JOIN,
    LATE_S,
    WAIT_S,
    Planned,
    attached_driver,
    check_own_writes,
    create,
    forget,
    late_log,
    reads_without_a_call,
)
from topicast.tests.waiting import until

AGENT: Final = "topicast.subscriber.endpoint.agent"  # in its command line

pytestmark = pytest.mark.nightly  # that it is asked at all is in test_planning


@pytest.fixture(scope="module")
def planned(hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planned]:
    with attached_driver(hive, tmp_path_factory.mktemp("endpoint"), endpoint="on") as found:
        create(found, "first")
        create(found, "second")
        yield found


def agents(driver: Application) -> list[int]:
    """Return the process ids of a driver's agents."""
    found, parent = [], driver.do("__import__('os').getpid()")
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            is_child = stat.read_text().rpartition(")")[2].split()[1] == str(parent)
            if is_child and AGENT in (stat.parent / "cmdline").read_text():
                found.append(int(stat.parent.name))
    return found


def test_change_of_another_application_is_read_at_once_after_a_sync(planned: Planned) -> None:
    name = "second.hive"
    for at in range(5):
        planned.driver.rows(f"SELECT * FROM {name}")
        planned.alter(name, column=f"c{at}")
        planned.driver.do(f"handle.sync({WAIT_S})")
        assert f"c{at}" in planned.driver.do(f"spark.table({name!r}).columns")


def test_partition_that_a_reported_write_has_made_is_read_before_the_log_is(
    planned: Planned,
) -> None:
    """The agent has heard of the write then, and has the table as it was before."""
    query = "SELECT count(*) FROM second.days WHERE ds >= '2026-'"
    planned.holds(query)
    outbox = Outbox(driver=b"makes a partition"[:16], metastore=planned.log.uri)
    with Subscriber(planned.daemons.hub_address, outbox=outbox) as another:
        another.sync(WAIT_S)
        with late_log(planned):
            begin = time.monotonic()
            made = planned.client.get_partition("second", "days", ["2026-1"])
            made.values = ["2026-made"]
            planned.client.add_partitions([made])
            number = report_write(outbox, "second.days")
            assert outbox.wait(number, timeout_s=WAIT_S)
            until(lambda: planned.driver.rows(query) == [[DAYS + 1]], what="its rows")
            assert planned.driver.rows(query) == [[DAYS + 1]], "it is not forgotten again"
            assert time.monotonic() - begin < LATE_S, "the log was read meanwhile"


@pytest.mark.parametrize("read", ["listPartitions(*days, none)", "getPartition(*days, spec)"])
def test_partitions_that_hive_asks_for_with_privileges_are_read_from_the_endpoint(
    planned: Planned, read: str
) -> None:
    """At the first of these calls Hive replaces its client, whose connection it closes."""
    driver = planned.driver
    driver.do(
        "catalog = spark._jsparkSession.sharedState().externalCatalog()\n"
        "days, none = ('first', 'days'), spark._jvm.scala.Option.apply(None)\n"
        "values = spark._jvm.java.util.HashMap()\n"
        "values.put('ds', '2026-1')\n"
        "spec = spark._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(values)"
    )
    planned.holds("SELECT * FROM first.days")

    def without_a_call() -> bool:
        forget(planned)
        before = int(planned.status("endpoint_reads"))
        planned.counting.take()
        driver.do(f"_ = catalog.{read}")
        return not planned.counting.take() and int(planned.status("endpoint_reads")) > before

    until(without_a_call, timeout_s=WAIT_S / 2, what="a first read that makes no call")


def test_driver_reads_its_own_writes(planned: Planned) -> None:
    check_own_writes(planned, "own")


def test_what_was_never_read_is_planned_while_the_metastore_is_away(planned: Planned) -> None:
    query = "SELECT * FROM second.plain"
    planned.holds(query)
    forget(planned)
    planned.counting.close()
    try:
        assert planned.driver.rows(query) == [[1]]
    finally:
        planned.counting.is_open = True
    planned.driver.rows("SHOW DATABASES")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_queries_go_on_without_the_agent_and_use_the_next_one(
    planned: Planned, number: signal.Signals
) -> None:
    query = JOIN.format(db="first", day="2026-4")
    rows = planned.driver.rows(query)
    forget(planned)
    (pid,) = agents(planned.driver)
    os.kill(pid, number)
    try:
        for day in range(5, 9):
            assert planned.driver.rows(JOIN.format(db="first", day=f"2026-{day}")) == rows
    finally:
        with suppress(ProcessLookupError):  # it was silent for so long that it was ended
            os.kill(pid, signal.SIGCONT)
    reads_without_a_call(planned, query)


def test_detached_driver_has_no_agent(planned: Planned) -> None:
    assert len(agents(planned.driver)) == 1
    planned.driver.do("handle.control('off')")
    until(lambda: agents(planned.driver) == [], timeout_s=20, what="the agent's end")
    planned.driver.do("handle.control('on')")
    planned.is_live()
