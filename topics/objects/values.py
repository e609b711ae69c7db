"""Values: what the entries of tables, databases and blocks of names hold, as bytes and back.

    table       pack([incarnation, partitions, Thrift struct, [template, …]])
    database    pack([Thrift struct])
    names       pack([names, [types], incarnations, versions])

A table's incarnation is the version of the namespace topic at which its name appeared; it
stands in the block of names and in the table's value, and content is answered only where the
two agree. Every ``decode`` is total: bytes in, a value or WireError out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..errors import WireError
from .columns import column, read_ints, read_names, write_names
from .edits import Edited, Leaves, edit
from .packing import pack, unpack
from .templates import TEMPLATES_MAX

ABSENT: Final = 0  # the partitions of a table: none are here
LOADING: Final = 1  # some are here; never answered from
COMPLETE: Final = 2  # all are here

NAMES_MAX: Final = 64  # of a block of names: about 1 KB


@dataclass(frozen=True, slots=True, kw_only=True)
class TableValue:
    """A table's entry: the struct that HMS returned, and the templates of its partitions."""

    incarnation: int
    partitions: int
    thrift: bytes
    templates: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class NameRecord:
    """That a table exists: its name, its type as HMS says it, and of which incarnation it is."""

    name: str
    type: str
    incarnation: int
    version: int


def encode_table_value(value: TableValue) -> bytes:
    """Return the bytes of a table's entry.

    Raises:
        UsageError: it is too large for a value.
    """
    assert value.partitions in (ABSENT, LOADING, COMPLETE)
    return pack([value.incarnation, value.partitions, value.thrift, value.templates])


def decode_table_value(value: bytes) -> TableValue:
    """Read a table's entry.

    Raises:
        WireError: ``value`` is none.
    """
    match unpack(value):
        case [int(incarnation), int(partitions), bytes(thrift), list(templates)] if (
            incarnation >= 0
            and partitions in (ABSENT, LOADING, COMPLETE)
            and len(templates) <= TEMPLATES_MAX
            and all(type(template) is bytes for template in templates)
        ):
            return TableValue(
                incarnation=int(incarnation),
                partitions=int(partitions),
                thrift=thrift,
                templates=tuple(templates),
            )
        case _:
            raise WireError("value is not a table's")


def encode_database_value(thrift: bytes) -> bytes:
    """Return the bytes of a database's entry."""
    return pack([thrift])


def decode_database_value(value: bytes) -> bytes:
    """Return the Thrift struct in a database's entry.

    Raises:
        WireError: ``value`` is none.
    """
    match unpack(value):
        case [bytes(thrift)]:
            return thrift
        case _:
            raise WireError("value is not a database's")


def encode_names(records: Sequence[NameRecord]) -> bytes:
    """Return the value of the block of names ``records``, sorted by name."""
    assert len(records) <= NAMES_MAX
    return pack(
        [
            write_names([record.name for record in records]),
            column([record.type for record in records]),
            column([record.incarnation for record in records]),
            column([record.version for record in records]),
        ]
    )


def decode_names(value: bytes) -> tuple[NameRecord, ...]:
    """Read a block of names.

    Raises:
        WireError: ``value`` is none.
    """
    document = unpack(value)
    if type(document) is not list or len(document) != 4:
        raise WireError("a block of names has four parts")
    names = read_names(document[0], records_max=NAMES_MAX)
    types = document[1] if type(document[1]) is list else [document[1]] * len(names)
    if len(types) != len(names) or not all(type(item) is str for item in types):
        raise WireError("the types in a block of names are not one text for each")
    incarnations = read_ints(document[2], len(names))
    versions = read_ints(document[3], len(names))
    return tuple(map(NameRecord, names, types, incarnations, versions))


def edit_names(leaves: Leaves, changes: Mapping[str, NameRecord | None]) -> Edited:
    """Change table names of one database; None deletes.

    A record that differs from the one before in its version only changes nothing.

    Cost: O(touched blocks + changes). Raises WireError if a stored block is damaged.
    """
    return edit(leaves, changes, NamesKind())


class NamesKind:
    """Blocks of names, as an edit sees them."""

    records_max = NAMES_MAX

    def decode(self, value: bytes, _version: int) -> list[NameRecord]:
        """Return the records of a block, sorted by name."""
        return list(decode_names(value))

    def encode(self, records: Sequence[NameRecord]) -> bytes:
        """Return the value of a block of ``records``."""
        return encode_names(records)

    def merge(self, name: str, old: NameRecord | None, change: NameRecord) -> NameRecord:
        """Return ``change``, or ``old`` if it says the same."""
        assert name == change.name
        same = old is not None and (old.type, old.incarnation) == (change.type, change.incarnation)
        return old if old is not None and same else change
