"""Properties: a table's or partition's properties by name, and the differences of two states."""

from collections.abc import Iterator, Mapping
from typing import Final

from .tables import Partition, Table

TEXT_CHARS_MAX: Final = 500  # of what was there before, and after


def table_properties(table: Table | None) -> dict[str, str]:
    """Return the properties of ``table`` by name; none if there is no table.

    The metastore's columns are among them where Spark does not have the same columns.
    """
    if table is None:
        return {}
    sparks = {(one.name.lower(), one.type) for one in (*table.columns, *table.partition_columns)}
    others = {
        f"metastore column {one.name}": one.type
        for one in (*table.metastore_columns, *table.metastore_partition_columns)
        if (one.name, one.type) not in sparks
    }
    columns = {f"column {one.name}": one.type for one in table.columns}
    keys = {f"partition column {one.name}": one.type for one in table.partition_columns}
    order = {"columns": ", ".join(one.name for one in table.columns)}
    facts = {
        "type": table.type,
        "owner": table.owner,
        "location": table.location,
        "serde": table.storage.serde,
        "view": table.view_text,
    }
    return columns | keys | order | others | facts | _parameters(table.parameters)


def partition_properties(partition: Partition | None) -> dict[str, str]:
    """Return the properties of ``partition`` by name; none if there is no partition."""
    if partition is None:
        return {}
    return {"location": partition.location} | _parameters(partition.parameters)


def _parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    return {f"parameter {key}": value for key, value in parameters.items()}


def different(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, str]:
    """Return what differs of two sets of properties, as texts: that before, and that after."""
    return _text(before, after), _text(after, before)


def _text(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    def parts() -> Iterator[str]:
        for name, value in one.items():
            if value and other.get(name) != value:
                yield f"{name}={value}"

    text = "; ".join(parts())
    return text if len(text) <= TEXT_CHARS_MAX else text[: TEXT_CHARS_MAX - 1] + "…"
