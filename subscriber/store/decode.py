"""Reads: what a user gets, made of the entries that are held. The way from bytes to objects."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ...topics.entries import Entry
from ...topics.errors import WireError
from ...topics.objects.blocks import decode_block
from ...topics.objects.filters import parse
from ...topics.objects.key_ranges import Span, reach, reach_of_values
from ...topics.objects.names import has_values, partition_values
from ...topics.objects.rules import Rule, decode_rules
from ...topics.objects.tables import (
    Database,
    Partition,
    PartitionReader,
    Table,
    read_database,
    read_table,
)
from ...topics.objects.values import (
    ABSENT,
    COMPLETE,
    NameRecord,
    decode_database_value,
    decode_names,
    decode_table_value,
)
from ..protocol.versions import Version


@dataclass(frozen=True, slots=True)
class Head:
    """What a table's own entry says; ``complete``: its blocks are all its partitions."""

    table: Table
    incarnation: int
    complete: bool
    templates: tuple[bytes, ...]


def read_head(entry: Entry, *, epoch: int = 0) -> Head:
    """Read a table's entry, whose version counts in ``epoch``."""
    value = decode_table_value(_value(entry))
    table = read_table(value.thrift, Version(entry.version, epoch))
    plain = value.partitions == ABSENT and not table.partition_columns
    return Head(
        table=table,
        incarnation=value.incarnation,
        complete=plain or value.partitions == COMPLETE,
        templates=value.templates,
    )


def read_database_entry(entry: Entry) -> Database:
    """Read a database's entry."""
    return read_database(decode_database_value(_value(entry)), entry.version)


def read_names_entry(entry: Entry) -> tuple[NameRecord, ...]:
    """Read a block of table names."""
    return decode_names(_value(entry))


def read_rules_entry(entry: Entry) -> tuple[Rule, ...]:
    """Read what operators want drivers to be."""
    return decode_rules(_value(entry))


def reach_of(
    head: Head,
    text: str | None,
    names: Iterable[str] | None = None,
    *,
    values: Sequence[str] | None = None,
) -> tuple[Span, ...] | None:
    """Return between which names lies what matches the filter ``text``, or is one of ``names``.

    Or has these first ``values``. None: that is unknown.

    Raises:
        UsageError: ``text`` is no filter, or ``values`` are more than there are columns.
    """
    if values is not None:
        span = reach_of_values(values, head.table.partition_columns)
        return None if span is None else (span,)
    if names is not None:
        return tuple([(name, name + "\0") for name in sorted(set(names))])
    return None if text is None else reach(parse(text), head.table.partition_columns)


def read_partitions(
    head: Head,
    blocks: Iterable[Entry],
    text: str | None = None,
    *,
    names: Iterable[str] | None = None,
    values: Sequence[str] | None = None,
) -> tuple[Partition, ...]:
    """Read the partitions in ``blocks`` that match the filter ``text``, or have one of ``names``.

    Or these first ``values``. Sorted by name.

    Raises:
        UsageError: ``text`` is no filter, or not one for this table.

    Cost: O(blocks) to tell which match, by their names, and O(matching) to build them.
    """
    matches = _matching(head, text, values)
    if names is not None:
        matches = frozenset(names).__contains__
    reader = PartitionReader(head.templates)
    found: list[Partition] = []
    for entry in blocks:
        block = decode_block(_value(entry), entry.version)
        if matches is None:
            found += map(reader.read, block.records())
            continue
        wanted = {name for name in block.names if matches(name)}
        if wanted:
            found += [reader.read(one) for one in block.records() if one.name in wanted]
    return tuple(found)


def read_partition_names(
    head: Head,
    blocks: Iterable[Entry],
    text: str | None = None,
    *,
    values: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Read the names of the partitions in ``blocks`` that match the filter ``text``, sorted.

    Or have these first ``values``.

    Raises:
        UsageError: ``text`` is no filter, or not one for this table.
    """
    names = [name for one in blocks for name in decode_block(_value(one), one.version).names]
    return tuple(filter(_matching(head, text, values), names))


def _matching(
    head: Head, text: str | None, values: Sequence[str] | None
) -> Callable[[str], bool] | None:
    if values is not None:
        return has_values(values)
    if text is None:
        return None
    predicate = parse(text).bind(head.table.partition_columns)
    return lambda name: predicate(partition_values(name))


def _value(entry: Entry) -> bytes:
    if entry.value is None:
        raise WireError(f"entry {entry.key!r} has no value here")
    return entry.value
