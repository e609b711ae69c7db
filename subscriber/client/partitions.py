"""The partitions that an application selects: of what is held, or of what a pull brings.

filter · names · values ──▶ Selector ──▶ memory, else a pull ──▶ blocks ──▶ those that match
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from ...topics.errors import UsageError
from ...topics.objects.names import parse_table_name, table_name
from ...topics.objects.selector import ALL, Selector, by_filter, by_names, by_values
from ...topics.objects.tables import Partition
from ...topics.objects.values import decode_listing
from ..fetch.fetcher import TableRequest
from ..store.table_snapshot import TableSnapshot
from .reader import Reader

Values: TypeAlias = Mapping[str, object] | Sequence[object]
"""Of partition columns: some, by name, or the first ones, in order; "" is any."""


def partitions(
    reader: Reader,
    name: str,
    text: str | None,
    *,
    names: Iterable[str] | None = None,
    values: Values | None = None,
) -> tuple[Partition, ...]:
    """Return the partitions of ``name`` that are selected.

    Raises:
        UsageError: they are selected in two ways, or in one that is not for this table.
    """
    db, table = parse_table_name(name)
    selector = _selector(reader, (db, table), text, names=names, values=values)
    found = reader.select(TableRequest(db, table, selector))
    assert isinstance(found, TableSnapshot)
    return found.partitions(db, table, selector)


def partition_names(
    reader: Reader, name: str, text: str | None, *, values: Values | None = None
) -> tuple[str, ...]:
    """Return the names of the partitions of ``name`` that are selected; errors as there."""
    db, table = parse_table_name(name)
    selector = _selector(reader, (db, table), text, values=values)
    found = reader.select(TableRequest(db, table, selector, names_only=True))
    if isinstance(found, TableSnapshot):
        return found.partition_names(db, table, selector)
    return tuple([one for listing in found for one in decode_listing(listing)])


def _selector(
    reader: Reader,
    name: tuple[str, str],
    text: str | None,
    *,
    names: Iterable[str] | None = None,
    values: Values | None = None,
) -> Selector:
    if sum(way is not None for way in (text, names, values)) > 1:
        raise UsageError("partitions are asked for by filter, by names or by values, not by two")
    if text is not None:
        return by_filter(text)
    if names is not None:
        return by_names(names)
    return ALL if values is None else by_values(_in_order(reader, name, values))


def _in_order(reader: Reader, name: tuple[str, str], values: Values) -> Sequence[str]:
    """Return the first values, in the order of the table's partition columns."""
    if isinstance(values, str):
        raise UsageError(f"values are several, or by column: ({values!r},)")
    if not isinstance(values, Mapping):
        return [str(value) for value in values]
    keys = reader.table(*name).head_of(*name).table.partition_keys
    by_key = {key.lower(): str(value) for key, value in values.items()}
    strange = [key for key in by_key if key not in keys]
    if strange:
        known = ", ".join(keys) or "none"
        raise UsageError(
            f"no partition column {strange[0]!r} in {table_name(*name)}; there are: {known}"
        )
    return [by_key.get(key, "") for key in keys]
