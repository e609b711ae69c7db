"""Tables that share a folder: what is written by one table's name is read by the others' names."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.pair import Pair

BY_DAY: Final = "(id INT, ds STRING) USING parquet PARTITIONED BY (ds)"
STATISTICS: Final = "spark.sql.statistics.size.autoUpdate.enabled"


@pytest.fixture(scope="module")
def pair(drivers: Drivers) -> Iterator[Pair]:
    """Two drivers, of which the reader is attached."""
    for one in (drivers.writer, drivers.reader):
        one.do("'handle' in globals() and handle.detach()")
    pair = Pair(drivers.writer, drivers.reader, drivers.daemons)
    pair.attach(drivers.reader)
    yield pair
    drivers.reader.do("handle.detach()")


@contextmanager
def writing(pair: Pair, how: str) -> Iterator[None]:
    """Let the writer's changes arrive by its reports alone, or by events alone."""
    events = str(how == "events").lower()
    pair.writer.sql(f"SET {STATISTICS}={events}")
    if how == "reports":
        pair.attach(pair.writer)
    yield
    if how == "reports":
        pair.writer.do("handle.detach()")
    pair.writer.sql(f"SET {STATISTICS}=false")


@pytest.mark.nightly  # 100 s; without Spark both are tests of catalogd
@pytest.mark.parametrize("how", ["reports", "events"])
def test_write_by_one_name_is_read_by_the_other_names_of_its_folder(pair: Pair, how: str) -> None:
    db = f"aliased_{how}"
    pair.writer.sql(f"CREATE DATABASE {db}")
    folder = f"{pair.location(db)}/days/ds=a"
    pair.writer.sql(f"CREATE TABLE {db}.days {BY_DAY}")
    pair.writer.sql(f"INSERT INTO {db}.days VALUES (1, 'a')")
    pair.writer.sql(f"CREATE TABLE {db}.staging (id INT) USING parquet LOCATION '{folder}'")
    pair.writer.sql(f"CREATE TABLE {db}.odd {BY_DAY}")
    pair.writer.sql(f"ALTER TABLE {db}.odd ADD PARTITION (ds='x') LOCATION '{folder}'")
    with writing(pair, how):
        for number, name, values in (
            (2, "days", "(2, 'a')"),
            (3, "staging", "(3)"),
            (4, "odd", "(4, 'x')"),
        ):
            before = rows(range(1, number))
            pair.is_settled(db, before)
            pair.refreshed()
            assert pair.read(db, before) == before
            pair.writer.sql(f"INSERT INTO {db}.{name} VALUES {values}")
            pair.refreshed()
            assert pair.read(db, before) == rows(range(1, number + 1)), name


def rows(numbers: range) -> dict[str, Any]:
    """Return what is in each table."""
    return {
        "days": [[number, "a"] for number in numbers],
        "staging": [[number] for number in numbers],
        "odd": [[number, "x"] for number in numbers],
    }
