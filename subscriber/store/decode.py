"""Reads: what a user gets, made of the entries that are held. The way from bytes to objects."""

from collections.abc import Iterable
from dataclasses import dataclass

from ...topics.entries import Entry
from ...topics.errors import WireError
from ...topics.objects.blocks import decode_block
from ...topics.objects.rules import Rule, decode_rules
from ...topics.objects.selector import ALL, Selector
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


def read_partitions(
    head: Head, blocks: Iterable[Entry], selector: Selector = ALL
) -> tuple[Partition, ...]:
    """Read the partitions in ``blocks`` that ``selector`` selects, sorted by name.

    Raises:
        UsageError: the selector is not one for this table.

    Cost: O(blocks) to tell which match, by their names, and O(matching) to build them.
    """
    matches = selector.matches(head.table.partition_columns)
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
    head: Head, blocks: Iterable[Entry], selector: Selector = ALL
) -> tuple[str, ...]:
    """Read the names of the partitions in ``blocks`` that ``selector`` selects, sorted.

    Raises:
        UsageError: the selector is not one for this table.
    """
    names = [name for one in blocks for name in decode_block(_value(one), one.version).names]
    return tuple(filter(selector.matches(head.table.partition_columns), names))


def _value(entry: Entry) -> bytes:
    if entry.value is None:
        raise WireError(f"entry {entry.key!r} has no value here")
    return entry.value
