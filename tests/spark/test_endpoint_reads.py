"""What a driver has not read before is answered by its own subscriber, and never worse.

The calls that reach the metastore are counted.
"""

import time
from collections.abc import Iterator
from typing import Final

import psutil
import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.subscriber.client.write_reports import report_write
from topicast.subscriber.engine.write_outbox import WriteOutbox
from topicast.tests.spark.jvm.shells import agent_of
from topicast.tests.spark.test_planning import (
    DAYS,
    JOIN,
    LATE_S,
    WAIT_S,
    Planned,
    attach,
    attached_driver,
    check_own_writes,
    create,
    forget,
    late_log,
    reads_without_a_call,
)
from topicast.tests.waiting import until

pytestmark = pytest.mark.nightly  # that it is asked at all is in test_planning


@pytest.fixture(scope="module")
def planned(hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planned]:
    with attached_driver(hive, tmp_path_factory.mktemp("endpoint"), endpoint="on") as found:
        create(found, "first")
        create(found, "second")
        yield found


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
    """The endpoint has the table as it was before, until the log is read."""
    query = "SELECT count(*) FROM second.days WHERE ds >= '2026-'"
    planned.holds(query)
    outbox = WriteOutbox(driver=b"makes a partition"[:16], metastore=planned.log.uri)
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


def test_table_that_catalogd_has_in_a_newer_version_is_read_from_the_metastore(
    planned: Planned,
) -> None:
    """The hub is silent, so the driver has not received what catalogd has published."""
    attach(planned, endpoint="on", validate="catalogd")
    query = JOIN.format(db="first", day="2026-4")
    try:
        planned.holds(query, "SELECT * FROM second.hive")
        columns = "spark.table('second.hive').columns"
        before = planned.driver.do(columns)
        planned.daemons.freeze("statestored")
        try:
            assert planned.calls(query) == {}
            planned.alter("second.hive", column="newer")
            until(lambda: planned.driver.do(columns) == [*before, "newer"], what="a column")
            assert planned.reasons(columns) == {"not confirmed"}
            assert planned.calls(query) == {}, "others are current"
        finally:
            planned.daemons.thaw("statestored")
        planned.is_live()
        planned.holds("SELECT * FROM second.hive")
        assert planned.driver.do(columns) == [*before, "newer"]
        planned.daemons.freeze("catalogd")
        try:
            assert planned.reasons(columns) == {"not confirmed"}
            planned.counting.close()
            assert planned.driver.do(columns) == [*before, "newer"], "from memory: nobody answers"
        finally:
            planned.counting.is_open = True
            planned.daemons.thaw("catalogd")
        planned.driver.rows("SHOW DATABASES")
        planned.is_live()
    finally:
        attach(planned, endpoint="on")


HOLD: Final = """
import ctypes, threading
sleep = ctypes.PyDLL(None).sleep  # which keeps Python's lock, as code in C may
holders = [threading.Thread(target=sleep, args=(2,)) for _ in range(3)]
for one in holders:
    one.start()
"""


def test_queries_go_on_while_the_drivers_python_holds_its_lock(planned: Planned) -> None:
    """The endpoint then says nothing: its clients are replaced, and the metastore answers."""
    query = JOIN.format(db="first", day="2026-4")
    rows = planned.driver.rows(query)
    forget(planned)
    planned.driver.do(HOLD)
    for day in range(5, 9):
        assert planned.driver.rows(JOIN.format(db="first", day=f"2026-{day}")) == rows
    reads_without_a_call(planned, query)


def listening(planned: Planned) -> list[int]:
    """Return the ports at which the driver's agent listens."""
    agent = psutil.Process(agent_of(planned.driver.pids[1]))
    found = [one for one in agent.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    return [one.laddr.port for one in found]


def test_nobody_listens_once_it_is_off(planned: Planned) -> None:
    assert len(listening(planned)) == 1
    planned.driver.do("handle.control('off')")
    until(lambda: listening(planned) == [], what="its end")
    planned.driver.do("handle.control('on')")
    planned.is_live()
