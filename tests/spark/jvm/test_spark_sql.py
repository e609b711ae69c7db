"""spark-sql, attached by ``topicast run`` alone: it has no Python, and is as fresh as others."""

from typing import Final

from topicast.tests.cli.processes import is_gone
from topicast.tests.spark.applications import GONE
from topicast.tests.spark.jvm.shells import Place, agent_of
from topicast.tests.spark.pair import BEFORE, WAIT_S
from topicast.tests.waiting import until, until_equal

OLD: Final = [["1", "a"]]
TWO: Final = [["1", "a"], ["2", "a"]]
QUERY: Final = "SELECT * FROM sql.t"


def test_spark_sql_reads_what_another_driver_writes_and_plain_spark_does_not(place: Place) -> None:
    place.create("sql", ("t",))
    place.shows(QUERY, OLD)
    assert place.reader.rows(QUERY) == BEFORE
    place.writer.sql("INSERT INTO sql.t VALUES (2, 'a')")
    place.shows(QUERY, TWO)
    assert place.reader.rows(QUERY) == BEFORE
    place.writer.sql("INSERT OVERWRITE sql.t VALUES (2, 'a')")
    place.shows(QUERY, [["2", "a"]])
    assert GONE in place.reader.rows(QUERY)
    place.writer.sql("ALTER TABLE sql.t ADD COLUMNS (note STRING)")
    place.shows(QUERY, [["2", "NULL", "a"]])
    place.writer.sql("DROP TABLE sql.t", "CREATE TABLE sql.t USING parquet AS SELECT 7 AS other")
    place.shows(QUERY, [["7"]])


def test_its_writes_are_read_by_another_driver(place: Place) -> None:
    """Given a table whose INSERT calls no metastore: the event of Spark says it."""
    place.create("sql_written", {"t": "USING parquet"})
    rows = "SELECT * FROM sql_written.t"
    for _ in range(2):
        assert place.writer.rows(rows) == BEFORE
        place.writer.do(f"handle.sync({WAIT_S})")
    before = place.daemons.status("catalog")["writes"]
    assert place.shell.sql("INSERT INTO sql_written.t VALUES (2, 'a')") == []
    until_equal(lambda: place.writer.rows(rows), [*BEFORE, [2, "a"]], timeout_s=WAIT_S)
    assert place.shell.sql("SELECT 1") == [["1"]]
    assert place.daemons.status("catalog")["writes"] == before + 1, "one, with what it executes"
    assert place.facts()["writes"] == "reported"


def test_its_queries_call_no_metastore(place: Place) -> None:
    place.create("sql_planned", ("t",))
    query = "SELECT * FROM sql_planned.t WHERE ds = 'a'"

    def calls() -> dict[str, int]:
        place.counting.take()
        assert place.shell.sql(query) == OLD
        return dict(place.counting.take())

    until(lambda: calls() == {}, timeout_s=WAIT_S, what="plans from memory")
    assert [calls() for _ in range(3)] == [{}, {}, {}]


def test_what_it_wrote_last_is_reported_and_its_agent_ends_with_it(place: Place) -> None:
    """The last test of the spark-sql: it ends. Operators have seen the driver's own process."""
    place.create("sql_last", {"t": "USING parquet"})
    rows = "SELECT * FROM sql_last.t"
    assert place.writer.rows(rows) == BEFORE
    facts = place.facts()
    assert facts["errors"] == 0, facts["last_error"]
    agent = agent_of(facts["pid"])
    assert agent
    place.shell.write("INSERT INTO sql_last.t VALUES (2, 'a');\n")
    assert place.shell.end() == 0
    until(lambda: is_gone(agent), timeout_s=1, what="the end of the agent")
    until_equal(lambda: place.writer.rows(rows), [*BEFORE, [2, "a"]], timeout_s=WAIT_S)
    said = [line for line in place.shell.log().splitlines() if "topicast" in line.lower()]
    assert said == []
