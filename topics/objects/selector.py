"""A selection of a table's partitions: one value from the public call to catalogd and back.

    TABLE                   none: the table's own entry alone
    BLOCKS                  all
    FILTER  "ds > '1'"      those whose values match a filter
    NAMES   ds=1, ds=2      those of these names
    VALUES  "1", ""         those that begin with these values; "" stands for any

``matches`` and ``ranges`` need the table's partition columns: ``ranges`` tells which keys to look
at, ``matches`` which of the partitions found there are selected.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from .filters import Filter, parse
from .key_ranges import KeyRange, ranges_of_filter, ranges_of_names, ranges_of_values
from .names import check_partition_name, has_values, partition_values
from .tables import Column

Matches = Callable[[str], bool]
"""Tells from a partition's name whether it is selected."""


class SelectorKind(IntEnum):
    """How partitions are selected, as a Pull says it."""

    TABLE = 0  # the table's own entry
    BLOCKS = 1  # the table and all its blocks
    FILTER = 2  # the table and the blocks in which partitions match a filter
    NAMES = 3  # the table and the blocks in which partitions of these names may be
    VALUES = 4  # the table and the blocks of partitions that have these values


@dataclass(frozen=True, slots=True)
class Selector:
    """Which partitions; made by the functions below, which check what a caller passes.

    ``names`` are sorted and distinct. ``values`` are those of the first partition columns.
    """

    kind: SelectorKind
    filter: str = ""
    names: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    parsed: Filter | None = field(default=None, compare=False, repr=False)  # of ``filter``

    @property
    def length(self) -> int:
        """How many characters say what is selected, with one between two of them."""
        return len("\0".join((self.filter, *self.names, *self.values)))

    def unparsed(self) -> "Selector":
        """Return the same selector without the parsed filter, to be remembered for long."""
        return self if self.parsed is None else replace(self, parsed=None)

    def matches(self, columns: Sequence[Column]) -> Matches | None:
        """Return what tells which partitions are selected; None if every one is.

        Raises:
            UsageError: the filter is none, or not one for a table with these ``columns``.
        """
        match self.kind:
            case SelectorKind.FILTER:
                predicate = self._filter().bind(columns)
                return lambda name: predicate(partition_values(name))
            case SelectorKind.NAMES:
                return frozenset(self.names).__contains__
            case SelectorKind.VALUES:
                return has_values(self.values)
            case _:
                return None

    def ranges(self, columns: Sequence[Column]) -> tuple[KeyRange, ...] | None:
        """Return the ranges, sorted, outside of which nothing is selected; None if unknown.

        Raises:
            UsageError: the filter is none, or there are more values than ``columns``.
        """
        match self.kind:
            case SelectorKind.FILTER:
                return ranges_of_filter(self._filter(), columns)
            case SelectorKind.NAMES:
                return ranges_of_names(self.names)
            case SelectorKind.VALUES:
                return ranges_of_values(self.values, columns)
            case SelectorKind.BLOCKS:
                return None
            case SelectorKind.TABLE:
                return ()

    def _filter(self) -> Filter:
        return parse(self.filter) if self.parsed is None else self.parsed


TABLE_ONLY: Final = Selector(SelectorKind.TABLE)
ALL: Final = Selector(SelectorKind.BLOCKS)


def by_filter(text: str) -> Selector:
    """Select the partitions whose values match the filter ``text``.

    Raises:
        UsageError: ``text`` is none.
    """
    return Selector(SelectorKind.FILTER, filter=text, parsed=parse(text))


def by_names(names: Iterable[str]) -> Selector:
    """Select the partitions of these ``names``.

    Raises:
        UsageError: one is no name of a partition.
    """
    wanted = tuple(sorted(set(names)))
    for name in wanted:
        check_partition_name(name)
    return Selector(SelectorKind.NAMES, names=wanted)


def by_values(values: Sequence[str]) -> Selector:
    """Select the partitions with these first ``values``; "" stands for any."""
    first = list(values)
    while first and not first[-1]:
        first.pop()
    return Selector(SelectorKind.VALUES, values=tuple(first)) if first else ALL
