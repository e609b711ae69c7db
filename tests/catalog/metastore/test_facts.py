"""Functions and column statistics, as the port returns them of the fake and of a real metastore."""

from decimal import Decimal as Number
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import (
    BooleanColumnStatsData,
    ColumnStatistics,
    ColumnStatisticsData,
    ColumnStatisticsDesc,
    ColumnStatisticsObj,
    Date,
    DateColumnStatsData,
    Decimal,
    DecimalColumnStatsData,
    DoubleColumnStatsData,
    FieldSchema,
    Function,
    LongColumnStatsData,
    ResourceUri,
    StringColumnStatsData,
)

from topicast.tests.cluster.fake_metastore import Place, make_partition, make_table
from topicast.topics.errors import ObjectGone
from topicast.topics.objects import metastore_facts as facts

COLUMNS = {
    "flag": ("boolean", ColumnStatisticsData(booleanStats=BooleanColumnStatsData(3, 2, 1))),
    "id": ("bigint", ColumnStatisticsData(longStats=LongColumnStatsData(-5, 9, 0, 4))),
    "rate": ("double", ColumnStatisticsData(doubleStats=DoubleColumnStatsData(0.5, 2.25, 1, 2))),
    "name": ("string", ColumnStatisticsData(stringStats=StringColumnStatsData(12, 4.5, 2, 7))),
    "price": (
        "decimal(10,2)",
        ColumnStatisticsData(
            decimalStats=DecimalColumnStatsData(
                Decimal((-125).to_bytes(2, "big", signed=True), 2), Decimal(b"\x04\xd2", 2), 0, 5
            )
        ),
    ),
    "day": (
        "date",
        ColumnStatisticsData(dateStats=DateColumnStatsData(Date(-1), Date(20_000), 0, 6)),
    ),
}


def function(db: str, name: str, *resources: str) -> Function:
    uris = [ResourceUri(1, uri) for uri in resources]
    return Function(name, db, f"com.shop.{name}", "ann", 1, 1_795_000_000, 1, uris)


def statistics(db: str, table: str, *columns: str, partition: str = "") -> ColumnStatistics:
    """Return statistics of columns, as a writer sends them."""
    of = ColumnStatisticsDesc(not partition, db, table, partition or None, 0)
    return ColumnStatistics(of, [ColumnStatisticsObj(one, *COLUMNS[one]) for one in columns])


def with_columns(place: Place, name: str, *keys: str) -> Any:
    table = make_table(place.db, name, location=f"{place.location}/{name}", keys=keys)
    table.sd.cols = [FieldSchema(one, kind, "") for one, (kind, _) in COLUMNS.items()]
    place.writes.create_table(table)
    return table


def test_functions_of_a_database_are_returned_by_name(place: Place) -> None:
    assert place.reads.functions(place.db) == ()
    place.writes.create_function(function(place.db, "second"))
    place.writes.create_function(function(place.db, "first", "hdfs:///a.jar", "s3://b/c.jar"))
    place.writes.create_function(function("default", f"other_{place.db}"))
    first, second = place.reads.functions(place.db)
    assert first.created_at_s > 0
    assert first == facts.Function(
        db=place.db,
        name="first",
        class_name="com.shop.first",
        owner="ann",
        created_at_s=first.created_at_s,
        resources=("JAR:hdfs:///a.jar", "JAR:s3://b/c.jar"),
    )
    assert (second.name, second.resources) == ("second", ())
    place.writes.drop_function(place.db, "first")
    assert [one.name for one in place.reads.functions(place.db)] == ["second"]
    assert place.reads.functions("nowhere") == ()


def test_statistics_of_a_table_are_returned_of_each_kind_of_column(place: Place) -> None:
    with_columns(place, "measured")
    place.writes.update_table_column_statistics(statistics(place.db, "measured", *COLUMNS))
    found = place.reads.statistics(place.db, "measured", [*COLUMNS, "absent"])
    by_column = {one.column: one for one in found}
    assert [one.column for one in found] == sorted(COLUMNS)
    assert {one.type.partition("(")[0] for one in found} == {
        kind.partition("(")[0] for kind, _ in COLUMNS.values()
    }
    one = by_column["id"]
    assert (one.low, one.high, one.nulls, one.distinct, one.partition) == ("-5", "9", 0, 4, "")
    one = by_column["flag"]
    assert (one.trues, one.falses, one.nulls, one.low) == (3, 2, 1, None)
    one = by_column["name"]
    assert (one.max_length, one.average_length, one.nulls, one.distinct) == (12, 4.5, 2, 7)
    one = by_column["price"]
    assert (Number(one.low or 0), Number(one.high or 0)) == (Number("-1.25"), Number("12.34"))
    assert (by_column["day"].low, by_column["day"].high) == ("1969-12-31", "2024-10-04")
    assert (by_column["rate"].low, by_column["rate"].high) == ("0.5", "2.25")


def test_statistics_of_partitions_are_returned_of_those_that_have_some(place: Place) -> None:
    table = with_columns(place, "days", "ds")
    place.writes.add_partitions([make_partition(table, [day]) for day in "123"])
    for day in "13":
        given = statistics(place.db, "days", "id", "name", partition=f"ds={day}")
        place.writes.update_partition_column_statistics(given)
    found = place.reads.statistics(
        place.db, "days", ["id", "flag"], partitions=["ds=3", "ds=2", "ds=1", "ds=9"]
    )
    assert [(one.partition, one.column) for one in found] == [("ds=1", "id"), ("ds=3", "id")]
    assert place.reads.statistics(place.db, "days", ["id"]) == ()


def test_statistics_of_an_absent_table_are_gone(place: Place) -> None:
    with pytest.raises(ObjectGone):
        place.reads.statistics(place.db, "absent", ["id"])
    with pytest.raises(ObjectGone):
        place.reads.statistics(place.db, "absent", ["id"], partitions=["ds=1"])
