"""The columns that Spark keeps in the properties of a table, and when they stand."""

import json
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ttypes

from topicast.tests.topics.objects.structs import written
from topicast.topics.objects.spark_schema import columns_of_spark
from topicast.topics.objects.tables import Column, Table, read_table

SCHEMA = "spark.sql.sources.schema"
PROVIDER = {"spark.sql.sources.provider": "json"}
HIVE = {"ds": "string"}  # the partition columns of Hive


def field(name: str, kind: Any, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def schema(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "struct", "fields": fields})


def array(kind: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": True}


def pairs(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def table(
    parameters: dict[str, str],
    *,
    columns: dict[str, str] | None = None,
    keys: dict[str, str] | None = None,
    kind: str = "MANAGED_TABLE",
    options: dict[str, str] | None = None,
) -> Table:
    """Return a table of Hive's ``columns`` (``col array<string>``) with these properties."""
    hive = {"col": "array<string>"} if columns is None else columns
    made = ttypes.Table(
        tableName="t",
        dbName="d",
        tableType=kind,
        parameters=parameters,
        partitionKeys=[ttypes.FieldSchema(*one) for one in (keys or {}).items()],
        sd=ttypes.StorageDescriptor(
            cols=[ttypes.FieldSchema(*one) for one in hive.items()],
            serdeInfo=ttypes.SerDeInfo(parameters=options or {}),
        ),
    )
    return read_table(written(made), 1)


def names(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"{one.name} {one.type}" for one in columns)


@pytest.mark.parametrize(
    ("kind", "metadata", "text"),
    [
        ("byte", {}, "tinyint"),
        ("short", {}, "smallint"),
        ("integer", {}, "int"),
        ("long", {}, "bigint"),
        ("null", {}, "void"),
        ("timestamp_ltz", {}, "timestamp"),
        ("timestamp_ntz", {}, "timestamp_ntz"),
        ("decimal", {}, "decimal(10,0)"),
        ("decimal(5,2)", {}, "decimal(5,2)"),
        ("interval day to second", {}, "interval day to second"),
        ("variant", {}, "variant"),
        ("geometry(OGC:CRS84)", {}, "geometry(4326)"),
        ("a type of the future", {}, "a type of the future"),
        ("string", {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}, "char(5)"),
        (array("string"), {"__CHAR_VARCHAR_TYPE_STRING": "array<char(3)>"}, "array<char(3)>"),
        ("string", {"__COLLATIONS": {"C": "icu.de_CI"}}, "string collate de_CI"),
        (
            pairs("string", array("string")),
            {"__COLLATIONS": {"C.value.element": "spark.UTF8_LCASE"}},
            "map<string,array<string collate UTF8_LCASE>>",
        ),
        (
            array(
                {
                    "type": "struct",
                    "fields": [
                        field("x", "string", __COLLATIONS={"x": "icu.UNICODE"}),
                        field("b c", pairs("integer", "byte")),
                    ],
                }
            ),
            {},
            "array<struct<x:string collate UNICODE,b c:map<int,tinyint>>>",
        ),
        (
            {"type": "udt", "class": "a.B", "pyClass": "a.B", "sqlType": array("double")},
            {},
            "array<double>",
        ),
    ],
)
def test_each_type_is_written_as_spark_writes_it(kind: Any, metadata: Any, text: str) -> None:
    found = columns_of_spark({SCHEMA: schema(field("C", kind, comment="of it", **metadata))})
    assert found == (("C", text, "of it"),)


def test_spark_s_columns_stand_before_the_metastore_s_and_both_are_offered() -> None:
    written_by_spark = schema(field("Id", "long"), field("at", "timestamp_ntz"))
    found = table({**PROVIDER, SCHEMA: written_by_spark})
    assert names(found.columns) == "Id bigint, at timestamp_ntz"
    assert names(found.metastore_columns) == "col array<string>"
    assert (found.partition_columns, found.metastore_partition_columns) == ((), ())


def test_partition_columns_are_spark_s_wherever_they_stand_in_its_schema() -> None:
    written_by_spark = schema(field("Ds", "date"), field("Id", "long"))
    keys = {f"{SCHEMA}.numPartCols": "1", f"{SCHEMA}.partCol.0": "Ds"}
    found = table({**PROVIDER, **keys, SCHEMA: written_by_spark}, keys={"ds": "string"})
    assert (names(found.columns), names(found.partition_columns)) == ("Id bigint", "Ds date")
    assert names(found.metastore_partition_columns) == "ds string"
    assert found.partition_keys == ("ds",), "as the names of partitions have it"


def test_a_column_by_which_only_spark_partitions_is_a_column() -> None:
    """The metastore has no partitions that a filter could find by it."""
    keys = {f"{SCHEMA}.numPartCols": "1", f"{SCHEMA}.partCol.0": "P"}
    found = table({**PROVIDER, **keys, SCHEMA: schema(field("A", "long"), field("P", "time(6)"))})
    assert (names(found.columns), found.partition_columns) == ("A bigint, P time(6)", ())


def test_a_wide_schema_is_read_of_its_parts() -> None:
    whole = schema(*(field(f"c{number}", "long") for number in range(100)))
    parts = {f"{SCHEMA}.part.{at}": whole[at * 1000 : (at + 1) * 1000] for at in range(9)}
    assert "".join(parts.values()) == whole
    found = table({**PROVIDER, **parts, f"{SCHEMA}.numParts": "9"})
    assert [one.name for one in found.columns] == [f"c{number}" for number in range(100)]


@pytest.mark.parametrize(
    "damaged",
    [
        {SCHEMA: "{"},
        {SCHEMA: "[]"},
        {SCHEMA: "7"},
        {SCHEMA: '{"type":"struct"}'},
        {SCHEMA: '{"type":"struct","fields":[{"name":"a"}]}'},
        {SCHEMA: '{"type":"struct","fields":[{"name":7,"type":"long"}]}'},
        {SCHEMA: '{"type":"struct","fields":["a"]}'},
        {SCHEMA: '{"type":"struct","fields":[{"name":"a","type":"long","metadata":7}]}'},
        {SCHEMA: schema(field("a", {"type": "tuple"}))},
        {SCHEMA: schema(field("a", "string", __COLLATIONS=7))},
        {SCHEMA: schema(field("a", "string", __COLLATIONS={"a": 7}))},
        {SCHEMA: schema(field("a", "long", comment=7))},
        {SCHEMA: '{"type":"struct","fields":' + "[" * 100_000},
        {f"{SCHEMA}.numParts": "2", f"{SCHEMA}.part.0": "{"},
        {f"{SCHEMA}.numParts": "many"},
        {f"{SCHEMA}.numParts": "999999999999"},
        {SCHEMA: schema(field("a", "long")), f"{SCHEMA}.numPartCols": "1"},
        {
            SCHEMA: schema(field("a", "long")),
            f"{SCHEMA}.numPartCols": "1",
            f"{SCHEMA}.partCol.0": "b",
        },
        {},
    ],
)
def test_a_damaged_schema_leaves_the_metastore_s_columns(damaged: dict[str, str]) -> None:
    found = table({**PROVIDER, **damaged}, keys=HIVE)
    assert names(found.columns) == "col array<string>"
    assert names(found.partition_columns) == "ds string"
    assert found.columns is found.metastore_columns


def test_partitions_that_spark_s_schema_does_not_have_leave_the_metastore_s_columns() -> None:
    found = table({**PROVIDER, SCHEMA: schema(field("Id", "long"), field("b", "long"))}, keys=HIVE)
    assert names(found.columns) == "col array<string>"


@pytest.mark.parametrize(
    ("columns", "options", "wanted"),
    [
        ({"id": "bigint", "c": "string", "n": "decimal(10,0)"}, {}, "Id bigint, c string"),
        ({"id": "bigint", "c": "string", "n": "decimal"}, {}, "Id bigint, c string"),
        ({"id": "bigint", "c": "string"}, {}, "id bigint, c string"),  # Hive has dropped a column
        ({"id": "string", "c": "string", "n": "decimal(10,0)"}, {}, "id string, c string"),
        ({"id": "string"}, {"respectSparkSchema": "true"}, "Id bigint, c string"),
        ({"id": "string"}, {"respectSparkSchema": "false"}, "id string"),
    ],
)
def test_of_a_hive_table_spark_s_columns_stand_until_hive_changes_its_own(
    columns: dict[str, str], options: dict[str, str], wanted: str
) -> None:
    """As Spark's HiveExternalCatalog decides: they are compared without case and collation."""
    collated = field("c", "string", __COLLATIONS={"c": "icu.UNICODE"})
    mine = schema(field("Id", "long"), collated, field("n", "decimal(10,0)"))
    found = names(table({SCHEMA: mine}, columns=columns, options=options).columns)
    assert found.replace(" collate UNICODE", "").startswith(wanted)
    assert ("collate" in found) == wanted.startswith("Id")


def test_the_columns_of_a_view_are_spark_s() -> None:
    found = table({SCHEMA: schema(field("Aa", "timestamp_ntz"))}, kind="VIRTUAL_VIEW")
    assert names(found.columns) == "Aa timestamp_ntz"


def test_columns_that_are_the_same_are_held_once() -> None:
    found = table({**PROVIDER, SCHEMA: schema(field("id", "long"))}, columns={"id": "bigint"})
    assert found.columns is found.metastore_columns
