"""Spark's schema: the columns of a table as Spark keeps them, in the properties of the table.

The metastore has no type for much that Spark has (a timestamp without a time zone, intervals,
variants, collations), spells names in lower case, and has ``col array<string>`` in place of all
columns if Hive cannot read the source, such as csv. So Spark writes its own schema, as JSON:

    spark.sql.sources.schema                     all of it; or, if it is long:
    spark.sql.sources.schema.numParts, .part.N   its parts, to be joined
    spark.sql.sources.schema.numPartCols, .partCol.N    the names of the partition columns

Each type is written as Spark's DESCRIBE writes it ("struct<a:int>", "char(3)", "string collate
UNICODE_CI"), except that a user-defined type is written as the type that stores it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

SCHEMA: Final = "spark.sql.sources.schema"
RESPECTED: Final = "respectsparkschema"  # an option: the schema stands, whatever Hive's columns are
NAME: Final = "name"
CHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"  # in a field's metadata: its type, a string elsewhere
COLLATIONS: Final = "__COLLATIONS"  # in a field's metadata: by path, the provider and the name

_NAMES: Final = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "null": "void",  # of Spark 3.1 and older
    "decimal": "decimal(10,0)",
    "timestamp_ltz": "timestamp",
    "geometry(OGC:CRS84)": "geometry(4326)",
    "geography(OGC:CRS84, SPHERICAL)": "geography(4326)",
}
_COLLATION: Final = re.compile(r" collate \w+")
_PLAIN_DECIMAL: Final = re.compile(r"\bdecimal\b(?!\()")


class SparkColumn(NamedTuple):
    """A column of Spark's schema; ``comment`` is empty if there is none."""

    name: str
    type: str
    comment: str


def columns_of_spark(parameters: Mapping[str, str]) -> tuple[SparkColumn, ...]:
    """Return the columns in the properties of a table, partition columns last.

    There are none if Spark has written no schema, or a damaged schema.
    """
    try:
        schema = json.loads(_joined(parameters))
        columns = tuple([_column(field) for field in schema["fields"]])
        count = _count(parameters, "PartCols")
        keys = [parameters[f"{SCHEMA}.partCol.{at}"] for at in range(count)]
        by_name = {column.name: column for column in columns}
        last = [by_name[key] for key in keys]
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return ()
    return (*(column for column in columns if column.name not in keys), *last)


def is_same_schema(columns: Sequence[SparkColumn], hive: Sequence[tuple[str, str]]) -> bool:
    """Return whether Spark takes ``columns`` to be those of ``hive``, given by name and type.

    They are compared without case and without collations, of which Hive knows neither. If Hive's
    differ, they were changed after Spark had written its own.
    """
    return [(one.name.lower(), _comparable(one.type)) for one in columns] == [
        (name.lower(), _comparable(kind)) for name, kind in hive
    ]


def _comparable(kind: str) -> str:
    return _PLAIN_DECIMAL.sub("decimal(10,0)", _COLLATION.sub("", kind).lower().replace(" ", ""))


def _joined(parameters: Mapping[str, str]) -> str:
    whole = parameters.get(SCHEMA)
    if whole is not None:
        return whole
    count = _count(parameters, "Parts")
    return "".join([parameters[f"{SCHEMA}.part.{at}"] for at in range(count)])


def _count(parameters: Mapping[str, str], what: str) -> int:
    """Return a number of properties; each is looked up, so a number too large is a KeyError."""
    return int(parameters.get(f"{SCHEMA}.num{what}", "0"))


def _column(field: Mapping[str, Any]) -> SparkColumn:
    name, metadata = field[NAME], field.get("metadata", {})
    comment = metadata.get("comment", "")
    if type(name) is not str or type(comment) is not str:
        raise TypeError(name, comment)
    return SparkColumn(name, _type_of(field), comment)


def _type_of(field: Mapping[str, Any]) -> str:
    metadata = field.get("metadata", {})
    if CHAR in metadata:
        return str(metadata[CHAR])
    return _text(field["type"], field[NAME], metadata.get(COLLATIONS, {}))


def _text(kind: object, path: str, collations: Mapping[str, str]) -> str:
    """Return a type as text; ``path`` leads to it from its field, and finds its collation."""
    match kind:
        case str():
            collation = collations.get(path)
            if collation is not None:
                return f"{kind} collate {collation.partition('.')[2]}"
            return _NAMES.get(kind, kind)
        case {"type": "array", "elementType": element}:
            return f"array<{_text(element, f'{path}.element', collations)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            key_text = _text(key, f"{path}.key", collations)
            return f"map<{key_text},{_text(value, f'{path}.value', collations)}>"
        case {"type": "struct", "fields": [*members]}:
            return f"struct<{','.join([f'{one[NAME]}:{_type_of(one)}' for one in members])}>"
        case {"type": "udt", "sqlType": stored}:
            return _text(stored, path, collations)
        case _:
            raise ValueError(kind)
