"""Columns: what a subscriber says of a table's columns is what Spark says of them."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pytest

from topicast.subscriber import Subscriber
from topicast.tests.cli.processes import topicast
from topicast.tests.spark.applications import SPARK, Application
from topicast.tests.spark.cells import cells
from topicast.tests.spark.conftest import Drivers
from topicast.tests.waiting import until

DB: Final = "columned"
INTERVALS: Final = (
    *("interval year", "interval year to month", "interval month", "interval day"),
    *("interval day to hour", "interval day to minute", "interval day to second"),
    *("interval hour", "interval hour to minute", "interval hour to second", "interval minute"),
    *("interval minute to second", "interval second"),
)
TYPES: Final = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary"),
    *("decimal", "decimal(38,18)", "decimal(5,2)", "char(5)", "varchar(7)", "date", "timestamp"),
    *("timestamp_ntz", "timestamp_ltz", *INTERVALS),
    *("array<string>", "array<char(3)>", "map<string,int>", "struct<a:int,B:varchar(4)>"),
    "struct<a:struct<`b c`:int,`d e`:array<map<int,decimal(3,1)>>>>",
    "struct<a:int not null comment 'x'>",
)
# What a table of Parquet may have from a release of Spark on.
TYPES_SINCE: Final = {
    (4, 0): (
        *("variant", "array<variant>", "string collate UTF8_LCASE", "string collate de_CI"),
        "map<string,array<string collate UNICODE>>",
        "array<struct<x:string collate UNICODE,y:timestamp_ntz>>",
        "struct<a:string collate UTF8_LCASE,b:map<string,string collate unicode_ci>>",
        "struct<a:struct<`b,c`:int,`d:e`:array<map<int,decimal(3,1)>>>>",
    ),
    (4, 1): ("void",),
}
COLUMNS: Final = tuple(
    f"`Mixed Case {at}` {kind} COMMENT 'it is {at}'"
    for at, kind in enumerate(
        (
            *TYPES,
            *(kind for since, kinds in TYPES_SINCE.items() if since <= SPARK for kind in kinds),
        )
    )
)
SOME: Final = "Id BIGINT, At TIMESTAMP_NTZ, c CHAR(4) COMMENT 'its code'"
BY_NTZ: Final = "(a INT, P TIMESTAMP_NTZ) USING parquet PARTITIONED BY (P)"
EVERY_TABLE: Final = {
    **{f"type_{at}": f"({column}) USING parquet" for at, column in enumerate(COLUMNS)},
    "wide": f"({', '.join(COLUMNS)}) USING parquet",
    "csv": f"({SOME}) USING csv",
    "json": f"(Ds DATE, {SOME}, Hour INT) USING json PARTITIONED BY (Hour, Ds)",
    **({"by_ntz": BY_NTZ} if SPARK >= (4, 0) else {}),
    "hive": "(Id INT, c CHAR(4)) PARTITIONED BY (D VARCHAR(3)) STORED AS PARQUET",
    "hive_textfile": "(Id INT, S STRUCT<X:INT>) STORED AS TEXTFILE",
    "buckets": "(A INT, B INT) USING parquet CLUSTERED BY (A) INTO 4 BUCKETS",
    "defaults": "(a INT DEFAULT 5, b STRING NOT NULL COMMENT 'x') USING parquet",
}
# The wide table has each type, too.
TABLES: Final = cells(EVERY_TABLE, some=[one for one in EVERY_TABLE if "type_" not in one])


@pytest.fixture(scope="module")
def writer(drivers: Drivers) -> Application:
    writer = drivers.writer
    writer.sql(f"CREATE DATABASE {DB}")
    writer.side_by_side(*(f"CREATE TABLE {DB}.{name} {made}" for name, made in TABLES.items()))
    writer.sql(
        f"CREATE VIEW {DB}.seen AS SELECT 1 AS Aa, timestamp_ntz'2026-01-01' AS B",
        f"CREATE TABLE {DB}.altered (Id INT) STORED AS ORC",
        f"ALTER TABLE {DB}.altered ADD COLUMNS (B STRUCT<X:INT>)",
    )
    writer.do(
        """
def described(table):
    rows = spark.sql(f"DESCRIBE {table}").collect()
    names = spark.table(table).columns
    return [[row[0], row[1], row[2] or ""] for row in rows[:len(names)]], names
"""
    )
    return writer


@pytest.fixture(scope="module")
def catalog(drivers: Drivers, writer: Application) -> Iterator[Subscriber]:
    with Subscriber(drivers.daemons.hub_address, timeout_s=60) as catalog:
        until(lambda: {*TABLES, "altered"} <= set(catalog.tables(DB)), timeout_s=60)
        until(lambda: len(catalog.table(f"{DB}.altered").columns) == 2, timeout_s=60)
        yield catalog


def test_columns_of_every_kind_are_those_that_spark_has(
    writer: Application, catalog: Subscriber
) -> None:
    writer.do("spark.conf.set('spark.sql.debug.maxToStringFields', '1000')")
    for name in (*TABLES, "seen", "altered"):
        described, names = writer.do(f"described('{DB}.{name}')")
        found = catalog.table(f"{DB}.{name}")
        columns = (*found.columns, *found.partition_columns)
        assert [[one.name, one.type, one.comment] for one in columns] == described, name
        assert [one.name for one in columns] == names
        hive = (*found.metastore_columns, *found.metastore_partition_columns)
        assert all(one.name == one.name.lower() for one in hive), "the metastore's own"
    (placeholder,) = catalog.table(f"{DB}.csv").metastore_columns
    assert (placeholder.name, placeholder.type) == ("col", "array<string>")
    keys = catalog.table(f"{DB}.json").partition_columns
    assert [one.name for one in keys] == ["Hour", "Ds"]


def test_a_change_of_columns_that_the_metastore_cannot_have_arrives_as_a_change_of_schema(
    writer: Application, catalog: Subscriber
) -> None:
    with closing(catalog.watch(f"{DB}.csv")) as changes:
        writer.sql(f"ALTER TABLE {DB}.csv ADD COLUMNS (More DECIMAL(9,3))")
        assert next(iter(changes)).kind == "schema"
    assert catalog.table(f"{DB}.csv").columns[-1].type == "decimal(9,3)"


def test_describe_says_both(drivers: Drivers, writer: Application) -> None:
    where = f"--statestores={drivers.daemons.hub_address}"
    done = topicast("describe", f"{DB}.json", where)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["At", "timestamp_ntz", "-", "-"] in lines, done.stderr
    assert ["Ds", "date", "yes", "-"] in lines
    other = "metastore columns col array<string>, hour int, ds date"
    assert other.split() in lines
    done = topicast("describe", f"{DB}.json", where, "--output=json")
    found = json.loads(done.stdout)
    assert [one["name"] for one in found["columns"]] == ["Id", "At", "c"]
    assert [one["name"] for one in found["metastore_columns"]] == ["col"]
