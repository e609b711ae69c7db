"""Blocks: up to 32 partitions of one table as one value, in columns.

    value == pack([names, ages, numbers, groups])

``names`` are NUL-separated and sorted. ``ages`` are how many versions before the block's own
each record last changed, ``numbers`` which of the table's templates it has (RAW: none), and
``groups`` holds, by ascending number, what fills the slots of the records with that number:
one column a slot. A column whose records agree is that one value, else a list.

What depends on the table's templates is checked when a record is joined with its template.
Source: docs/design/0002-representation.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final, NamedTuple

from ..errors import WireError
from .edits import Leaves, edit
from .names import check_partition_name
from .templates import RAW, SlotValues, Templates
from .values import column, pack, read_column, read_ints, read_names, unpack, write_names

RECORDS_MAX: Final = 32  # 8 cost twice the memory, 128 three times the rewrite


class PartitionRecord(NamedTuple):
    """One partition in a block; ``templates.join`` makes its Thrift struct of it.

    A NamedTuple, for a block's worth of them is built at each edit and each read.
    """

    name: str
    version: int
    template: int
    slots: SlotValues


@dataclass(frozen=True, slots=True)
class PartitionBlock:
    """A decoded block: the names at once, the records when they are asked for."""

    names: tuple[str, ...]
    _version: int
    _ages: tuple[int, ...]
    _numbers: tuple[int, ...]
    _groups: tuple[tuple[int, list[object]], ...]

    def records(self) -> list[PartitionRecord]:
        """Return the block's records, sorted by name.

        Raises:
            WireError: a column is not as long as its group, or holds what fills no slot.
        """
        filling = {
            number: _rows(columns, self._numbers.count(number)) for number, columns in self._groups
        }
        slots = [next(filling[number]) for number in self._numbers]
        versions = [self._version - age for age in self._ages]
        rows = zip(self.names, versions, self._numbers, slots, strict=True)
        return list(map(PartitionRecord._make, rows))


@dataclass(frozen=True, slots=True)
class EditedPartitions:
    """Changed blocks by bound (None: removed), the names changed, and all templates, by number."""

    blocks: tuple[tuple[str, bytes | None], ...]
    names: tuple[str, ...]
    templates: tuple[bytes, ...]


def encode_block(records: Sequence[PartitionRecord], version: int) -> bytes:
    """Return the value of the block of ``records``, sorted by name, that gets ``version``.

    Raises:
        UsageError: it is too large for a value.
    """
    assert len(records) <= RECORDS_MAX
    groups: dict[int, list[SlotValues]] = {}
    for record in records:
        groups.setdefault(record.template, []).append(record.slots)
    return pack(
        [
            write_names([record.name for record in records]),
            column([version - record.version for record in records]),
            column([record.template for record in records]),
            [
                [column(filling) for filling in zip(*groups[number], strict=True)]
                for number in sorted(groups)
            ],
        ]
    )


def decode_block(value: bytes, version: int) -> PartitionBlock:
    """Read the block that has ``version``.

    Raises:
        WireError: ``value`` is no block of partitions.
    """
    document = unpack(value)
    if type(document) is not list or len(document) != 4:
        raise WireError("a block of partitions has four parts")
    names = read_names(document[0], records_max=RECORDS_MAX)
    ages = read_ints(document[1], len(names))
    numbers = read_ints(document[2], len(names), least=RAW)
    groups = document[3]
    present = sorted(set(numbers))
    if type(groups) is not list or [type(group) for group in groups] != [list] * len(present):
        raise WireError("a block of partitions has one group of columns for each template")
    return PartitionBlock(names, version, ages, numbers, tuple(zip(present, groups, strict=True)))


def restamp_block(value: bytes, old: int, new: int) -> bytes:
    """Return the block of version ``old`` with version ``new``; its records keep their versions.

    Raises:
        WireError: ``value`` is no block of partitions.
        UsageError: it becomes too large for a value.
    """
    assert new >= old
    names = decode_block(value, old).names
    parts = unpack(value)
    assert type(parts) is list
    parts[1] = column([age + new - old for age in read_ints(parts[1], len(names))])
    return pack(parts)


def edit_partitions(
    leaves: Leaves,
    changes: Mapping[str, bytes | None],
    *,
    templates: Sequence[bytes],
    location: str,
    version: int,
) -> EditedPartitions:
    """Change partitions of a table that has ``templates`` and lies at ``location``.

    Args:
        leaves: The table's blocks as they are.
        changes: By partition name, its Thrift struct; None deletes.
        templates: As they stand in the table's value.
        location: The table's own; empty if it has none.
        version: Of the transaction: of every changed block and record.

    Returns:
        What is to be written with ``version``. The templates are those given, and new ones
        after them. A struct that is what it was changes nothing and keeps its version.

    Raises:
        UsageError: a name is not a partition's, or one struct is too large for a value.
        WireError: a struct is not one, or a stored block is damaged.

    Cost: O(touched blocks + changes + templates).
    """
    for name in changes:
        check_partition_name(name)
    kind = PartitionKind(Templates(templates, location), version)
    edited = edit(leaves, changes, kind)
    return EditedPartitions(edited.blocks, edited.names, tuple(kind.templates.skeletons))


class PartitionKind:
    """Blocks of partitions, as an edit to ``version`` sees them."""

    records_max = RECORDS_MAX

    def __init__(self, templates: Templates, version: int) -> None:
        self.templates = templates
        self._version = version
        self._likely = RAW

    def decode(self, value: bytes, version: int) -> list[PartitionRecord]:
        """Return the records of a block, sorted by name."""
        return decode_block(value, version).records()

    def encode(self, records: Sequence[PartitionRecord]) -> bytes:
        """Return the value of a block of ``records``."""
        return encode_block(records, self._version)

    def merge(self, name: str, old: PartitionRecord | None, change: bytes) -> PartitionRecord:
        """Return the record ``name`` with the Thrift struct ``change``; ``old`` if it had that."""
        likely = self._likely if old is None else old.template
        number, slots = self.templates.split(change, name, likely=likely)
        self._likely = number
        if old is not None:
            if number == old.template and slots == old.slots:
                return old
            if self.templates.join(old.template, old.slots, name) == change:
                return old  # a template that came later says the same
        return PartitionRecord(name, self._version, number, slots)


def _rows(columns: list[object], count: int) -> Iterator[SlotValues]:
    if not columns:
        return repeat((), count)
    return zip(*[read_column(found, count) for found in columns], strict=True)
