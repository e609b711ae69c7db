"""Writes of which the metastore's event shows no difference, or only a time.

So write Hive without statistics, and Spark where it writes a table of Hive by Hive's own code. The
writer is not attached, and its statements leave nothing but events.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.pair import Pair

BY_DAY: Final = "PARTITIONED BY (ds STRING) STORED AS parquet"
FLAT: Final = "STORED AS parquet"
# How Spark is told to write by Hive's own code, of Spark 2.4 the default for partitions.
BY_HIVE: Final = {
    "spark.sql.hive.convertInsertingPartitionedTable": {"by_day": BY_DAY},
    "spark.sql.hive.convertMetastoreParquet": {"by_day": BY_DAY, "flat": FLAT},
}
FIRST: Final = [[1, "a"]]
MORE: Final = [[1, "a"], [2, "a"]]
OTHERS: Final = [[3, "a"], [4, "a"], [5, "a"]]


@pytest.fixture(scope="module")
def pair(drivers: Drivers) -> Iterator[Pair]:
    """A reader that is attached, and a writer that is not."""
    for one in (drivers.writer, drivers.reader):
        one.do("'handle' in globals() and handle.detach()")
    drivers.writer.sql("SET spark.sql.statistics.size.autoUpdate.enabled=false")
    pair = Pair(drivers.writer, drivers.reader, drivers.daemons)
    pair.attach(drivers.reader)
    yield pair
    drivers.reader.do("handle.detach()")


@pytest.mark.nightly  # units have the events
@pytest.mark.parametrize(
    "setting",
    ["spark.sql.hive.convertInsertingPartitionedTable", "spark.sql.hive.convertMetastoreParquet"],
    ids=lambda name: name.rpartition(".")[2],
)
def test_write_by_hives_own_code_is_read_though_its_event_shows_no_difference(
    pair: Pair, setting: str
) -> None:
    db, tables = setting.rpartition(".")[2], list(BY_HIVE[setting])
    pair.writer.sql(f"CREATE DATABASE {db}")
    pair.writer.sql(f"SET {setting}=false")
    try:
        for table, kind in BY_HIVE[setting].items():
            columns = "id INT" if kind == BY_DAY else "id INT, ds STRING"
            pair.writer.sql(f"CREATE TABLE {db}.{table} ({columns}) {kind}")
        pair.insert(db, tables, "(1, 'a')")
        settled(pair, db, dict.fromkeys(tables, FIRST))
        pair.insert(db, tables, "(2, 'a')")
        pair.refreshed()
        assert pair.read(db, tables) == dict.fromkeys(tables, MORE)
        settled(pair, db, dict.fromkeys(tables, MORE))
        pair.insert(db, tables, "(3, 'a'), (4, 'a'), (5, 'a')", how="OVERWRITE")
        pair.refreshed()
        assert pair.read(db, tables) == dict.fromkeys(tables, OTHERS)
    finally:
        pair.writer.sql(f"SET {setting}=true")


def settled(pair: Pair, db: str, wanted: dict[str, Any]) -> None:
    """Let the reader hold relations that no former change renews any more."""
    pair.is_settled(db, wanted)
    pair.refreshed()
    assert pair.read(db, wanted) == wanted
