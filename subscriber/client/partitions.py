"""Partitions: which of a table's an application wants, and what it gets of what is held or came.

filter · names · values ──▶ memory, else a pull of that ──▶ its blocks ──▶ those that match
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from ...topics.errors import UsageError
from ...topics.objects.listing import decode_listing
from ...topics.objects.names import check_partition_name, parse_table_name, table_key, table_name
from ...topics.objects.tables import Partition
from ..fetch.targets import selection
from ..protocol.facts import AskTable
from ..store.decode import reach_of, read_partition_names, read_partitions
from ..store.table_snapshot import TableSnapshot
from .calls import Calls

Values: TypeAlias = Mapping[str, object] | Sequence[object]
"""Of partition columns: some, by name, or the first ones, in order; "" is any."""


def partitions(
    calls: Calls,
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
    ask = _asked(calls, name, text, names=names, values=values)
    found = calls.select(ask)
    assert isinstance(found, TableSnapshot)
    head = found.head_of(ask.db, ask.table)
    spans = reach_of(head, text, ask.names, values=ask.values)
    blocks = found.blocks(table_key(ask.db, ask.table), spans)
    return read_partitions(head, blocks, text, names=ask.names, values=ask.values)


def partition_names(
    calls: Calls, name: str, text: str | None, *, values: Values | None = None
) -> tuple[str, ...]:
    """Return the names of the partitions of ``name`` that are selected; errors as there."""
    ask = _asked(calls, name, text, values=values, names_only=True)
    found = calls.select(ask)
    if not isinstance(found, TableSnapshot):
        return tuple([one for listing in found for one in decode_listing(listing)])
    head = found.head_of(ask.db, ask.table)
    spans = reach_of(head, text, values=ask.values)
    blocks = found.blocks(table_key(ask.db, ask.table), spans)
    return read_partition_names(head, blocks, text, values=ask.values)


def _asked(
    calls: Calls,
    name: str,
    text: str | None,
    *,
    names: Iterable[str] | None = None,
    values: Values | None = None,
    names_only: bool = False,
) -> AskTable:
    if sum(way is not None for way in (text, names, values)) > 1:
        raise UsageError("partitions are asked for by filter, by names or by values, not by two")
    wanted = None if names is None else tuple(names)
    for one in wanted or ():
        check_partition_name(one)
    db, table = parse_table_name(name)
    first = None if values is None else _in_order(calls, (db, table), values)
    return selection(db, table, text, names=wanted, values=first, names_only=names_only)


def _in_order(calls: Calls, name: tuple[str, str], values: Values) -> tuple[str, ...] | None:
    """Return the first values, in the order of the table's partition columns; None: any."""
    if isinstance(values, str):
        raise UsageError(f"values are several, or by column: ({values!r},)")
    if not isinstance(values, Mapping):
        first = [str(value) for value in values]
    else:
        keys = calls.table(*name).head_of(*name).table.partition_keys
        by_key = {key.lower(): str(value) for key, value in values.items()}
        strange = [key for key in by_key if key not in keys]
        if strange:
            known = ", ".join(keys) or "none"
            raise UsageError(
                f"no partition column {strange[0]!r} in {table_name(*name)}; there are: {known}"
            )
        first = [by_key.get(key, "") for key in keys]
    while first and not first[-1]:
        first.pop()
    return tuple(first) or None
