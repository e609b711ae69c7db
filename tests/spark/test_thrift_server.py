"""A real Thrift server in an attached driver, and real JDBC sessions of it.

What plain Spark answers a session is shown first, in the same run.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.pair import BEFORE, WAIT_S, Pair
from topicast.tests.spark.servers import thrift_server
from topicast.tests.waiting import until_equal

pytestmark = pytest.mark.nightly  # a minute; sessions of the JVM are in every run

ROWS: Final = [["1", "a"]]
TWO: Final = [["1", "a"], ["2", "a"]]


class Place(Pair):
    """A pair whose reader hosts a Thrift server; the writer's JVM has a JDBC session of it."""

    def query(self, text: str) -> Any:
        return self.writer.do(f"jdbc({text!r})")

    def reads(self, table: str, rows: list[list[str | None]]) -> None:
        until_equal(lambda: self.query(f"SELECT * FROM {table}"), rows, timeout_s=WAIT_S)


@pytest.fixture(scope="module")
def place(drivers: Drivers) -> Iterator[Place]:
    for one in (drivers.reader, drivers.writer):
        one.do("attach(spark).detach()")  # whatever was attached in other modules
    with thrift_server(drivers.reader, drivers.writer):
        yield Place(drivers.writer, drivers.reader, drivers.daemons)
    for one in (drivers.reader, drivers.writer):
        one.do("attach(spark).detach()")


def test_session_of_plain_spark_reads_old_rows_and_a_session_of_an_attached_driver_does_not(
    place: Place,
) -> None:
    place.create("thrift", ("plain", "t"))
    for _ in range(3):
        assert place.query("SELECT * FROM thrift.plain") == ROWS
    place.writer.sql("INSERT INTO thrift.plain VALUES (2, 'a')")
    assert place.query("SELECT * FROM thrift.plain") == ROWS
    place.attach(place.reader)
    place.attach(place.writer)
    place.reads("thrift.plain", TWO)  # what it had cached before
    for _ in range(3):
        place.reads("thrift.t", ROWS)
        place.refreshed()
    place.writer.sql("INSERT INTO thrift.t VALUES (2, 'a')")
    place.reads("thrift.t", TWO)
    place.writer.sql("INSERT OVERWRITE thrift.t VALUES (2, 'a')")
    place.reads("thrift.t", [["2", "a"]])
    place.writer.sql("ALTER TABLE thrift.t ADD COLUMNS (note STRING)")
    place.reads("thrift.t", [["2", None, "a"]])


def test_what_a_session_writes_another_driver_reads(place: Place) -> None:
    place.create("thrift_written", ("t",))
    assert place.writer.rows("SELECT * FROM thrift_written.t") == BEFORE
    place.query("INSERT INTO thrift_written.t VALUES (2, 'a')")
    wanted = [*BEFORE, [2, "a"]]
    rows = "SELECT * FROM thrift_written.t"
    until_equal(lambda: place.writer.rows(rows), wanted, timeout_s=WAIT_S)
