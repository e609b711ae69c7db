"""Selector: the selected partitions of a table; one value from the public call to catalogd.

    TABLE                   none: the table's own entry alone
    BLOCKS                  all
    FILTER  "ds > '1'"      those whose values match a filter of the metastore's
    SQL     "not ds = '1'"  those whose values match what only SQL can say
    NAMES   ds=1, ds=2      those of these names
    VALUES  "1", ""         those that begin with these values; "" means any

``matches`` and ``ranges`` need the table's partition columns: ``ranges`` returns the names to look
at, ``matches`` the test for the partitions found there.

A filter is held in the metastore's own form (filters/hive.py); what only SQL can say
(filters/sql.py) is a kind of its own, as it was written.

    ds = '2026-11-01' and hour > 3   ──▶   ds=2026-11-01/hour=…

Ranges may be too wide, and never are too narrow. Names are escaped, and so not quite in the order
of their values: where a value has a character that is escaped, the name has ``%``. So a comparison
covers its own range, the few names that differ from its literal by a ``%`` or a ``/``, and
its range ends where its literal has such a character itself.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Final, TypeAlias

from ..backports import IntEnum
from ..errors import UsageError
from .filters.hive import parse_hive
from .filters.matching import bind
from .filters.operands import DATE, date_of
from .filters.sql import in_hive, parse_sql
from .filters.terms import Among, Comparison, Every, Leaf, Literal, Some, Term
from .names import check_partition_name, partition_name, partition_values
from .tables import Column

RANGES_MAX: Final = 4096  # beyond, looking at every block is as cheap
AFTER_ALL: Final = "\U0010ffff"  # sorts behind every character that a name has

RANGED: Final = frozenset({"string", "varchar", DATE})  # their values' texts have their order

KeyRange: TypeAlias = tuple[str, str]  # from the first name on, below the second
Matches: TypeAlias = Callable[[str], bool]
"""Whether a partition is selected, by its name."""


class SelectorKind(IntEnum):
    """How partitions are selected, as a Pull says it."""

    TABLE = 0  # the table's own entry
    BLOCKS = 1  # the table and all its blocks
    FILTER = 2  # the table and the blocks in which partitions match a filter
    NAMES = 3  # the table and the blocks in which partitions of these names may be
    VALUES = 4  # the table and the blocks of partitions that have these values
    SQL = 5  # as FILTER, by what only SQL can say


@dataclass(frozen=True, slots=True)
class Selector:
    """Which partitions; made by the functions below, which check what a caller passes.

    ``names`` are sorted and distinct. ``values`` are those of the first partition columns.
    """

    kind: SelectorKind
    filter: str = ""
    names: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    parsed: Term | None = field(default=None, compare=False, repr=False)  # of ``filter``

    @property
    def length(self) -> int:
        """How many characters say what is selected, with one between two of them."""
        return len("\0".join((self.filter, *self.names, *self.values)))

    def unparsed(self) -> "Selector":
        """Return the same selector without the parsed filter, to be remembered for long."""
        return self if self.parsed is None else replace(self, parsed=None)

    def matches(self, columns: Sequence[Column]) -> Matches | None:
        """Return a test of names; None if every partition is selected.

        Raises:
            UsageError: the filter is not valid, or not for a table with these ``columns``.
        """
        match self.kind:
            case SelectorKind.FILTER | SelectorKind.SQL:
                predicate = bind(self._term(), columns)
                return lambda name: predicate(partition_values(name))
            case SelectorKind.NAMES:
                return frozenset(self.names).__contains__
            case SelectorKind.VALUES:
                return _has_values(self.values)
            case _:
                return None

    def ranges(self, columns: Sequence[Column]) -> tuple[KeyRange, ...] | None:
        """Return the ranges, sorted, outside of which nothing is selected; None if unknown.

        Raises:
            UsageError: the filter is not valid, or there are more values than ``columns``.
        """
        match self.kind:
            case SelectorKind.FILTER | SelectorKind.SQL:
                ranges = _ranges(self._term(), columns)
                return None if ranges is None or len(ranges) > RANGES_MAX else _joined(ranges)
            case SelectorKind.NAMES:
                return tuple([(name, name + "\0") for name in self.names])
            case SelectorKind.VALUES:
                return _ranges_of_values(self.values, columns)
            case SelectorKind.BLOCKS:
                return None
            case SelectorKind.TABLE:
                return ()

    def _term(self) -> Term:
        if self.parsed is not None:
            return self.parsed
        return (parse_sql if self.kind == SelectorKind.SQL else parse_hive)(self.filter)


TABLE_ONLY: Final = Selector(SelectorKind.TABLE)
ALL: Final = Selector(SelectorKind.BLOCKS)


def by_filter(text: str) -> Selector:
    """Select the partitions whose values match the filter ``text``, one of the metastore's.

    Raises:
        UsageError: ``text`` is not a valid filter.
    """
    return Selector(SelectorKind.FILTER, filter=text, parsed=parse_hive(text))


def by_sql(text: str) -> Selector:
    """Select the partitions whose values match ``text``, written as after WHERE in Spark SQL.

    Raises:
        UsageError: ``text`` is not a valid condition, or no filter can express it.
    """
    term = parse_sql(text)
    hive = in_hive(term)
    if hive is None:
        return Selector(SelectorKind.SQL, filter=text, parsed=term)
    return Selector(SelectorKind.FILTER, filter=hive, parsed=term)


def by_names(names: Iterable[str]) -> Selector:
    """Select the partitions of these ``names``.

    Raises:
        UsageError: a text is not the name of a partition.
    """
    wanted = tuple(sorted(set(names)))
    for name in wanted:
        check_partition_name(name)
    return Selector(SelectorKind.NAMES, names=wanted)


def by_values(values: Sequence[str]) -> Selector:
    """Select the partitions with these first ``values``; "" means any."""
    first = list(values)
    while first and not first[-1]:
        first.pop()
    return Selector(SelectorKind.VALUES, values=tuple(first)) if first else ALL


def _has_values(values: Sequence[str]) -> Matches:
    wanted = [(at, value) for at, value in enumerate(values) if value]

    def matches(name: str) -> bool:
        found = partition_values(name)
        return all(found[at] == value for at, value in wanted)

    return matches


def _ranges_of_values(
    values: Sequence[str], columns: Sequence[Column]
) -> tuple[KeyRange, ...] | None:
    """Return the range of the names that begin with ``values``; None if the first may be any."""
    if len(values) > len(columns):
        known = ", ".join(column.name for column in columns) or "none"
        raise UsageError(f"{len(values)} values given; the partition columns are: {known}")
    first = list(takewhile(bool, values))
    if not first:
        return None
    name = partition_name([column.name for column in columns[: len(first)]], first)
    return (_under(name, more=len(first) < len(columns)),)


def _ranges(term: Term, columns: Sequence[Column]) -> list[KeyRange] | None:
    if isinstance(term, Some):
        found: list[KeyRange] = []
        for part in term.terms:
            ranges = _ranges(part, columns)
            if ranges is None:
                return None
            found += ranges
        return found
    terms = list(_flat(term))
    prefix, pinned = "", 0
    for column in columns:
        kind = column.type.partition("(")[0].lower()
        if kind not in RANGED:
            break
        mine = [
            one
            for one in terms
            if one.column.lower() == column.name.lower() and _is_ranged(one, kind)
        ]
        values = _values(mine)
        key = partition_name([column.name], ["x"])[:-1]
        if values is not None and len(values) == 1:
            (value,) = values
            prefix += key + _escaped(value) + "/"
            pinned += 1
            continue
        more = pinned + 1 < len(columns)
        if values is not None:
            return [_under(prefix + key + _escaped(value), more=more) for value in values]
        ranges = _compared(mine, prefix + key, more=more)
        return ranges if ranges is not None else _pinned(prefix)
    if pinned == len(columns):
        prefix = prefix[:-1]
    return _pinned(prefix)


def _is_ranged(term: Leaf, kind: str) -> bool:
    """Return whether values of ``kind`` match ``term`` by their text, in its order."""
    if isinstance(term, Comparison):
        literals: tuple[Literal, ...] = (term.literal,)
    elif isinstance(term, Among):
        literals = term.literals
    else:
        return False
    return not term.of and all(
        isinstance(one, str) and (kind != DATE or date_of(one) == one) for one in literals
    )


def _pinned(prefix: str) -> list[KeyRange] | None:
    return [(prefix, prefix + AFTER_ALL)] if prefix else None


def _flat(term: Term) -> Iterable[Leaf]:
    """Yield what has to hold in any case; what is left out only widens the ranges."""
    if isinstance(term, Every):
        for part in term.terms:
            yield from _flat(part)
    elif not isinstance(term, Some):
        yield term


def _values(terms: Iterable[Leaf]) -> list[str] | None:
    """Return the values that any of ``terms`` allows; None if none of them names any."""
    for term in terms:
        if isinstance(term, Comparison) and term.sign == "=":
            return [str(term.literal)]
        if isinstance(term, Among) and not term.negated:
            return sorted({str(literal) for literal in term.literals})
    return None


def _compared(terms: Iterable[Leaf], lead: str, *, more: bool) -> list[KeyRange] | None:
    """Return the ranges that comparisons of one column allow; its names begin with ``lead``."""
    low, high = lead, lead + AFTER_ALL
    others: list[KeyRange] = []
    for term in terms:
        if not isinstance(term, Comparison):
            continue
        literal = _plain(str(term.literal))
        if term.sign in (">", ">="):
            low = max(low, lead + _escaped(literal))
            others += _leaving(literal, lead, by="%")
        elif term.sign in ("<", "<="):
            high = min(high, lead + _escaped(literal) + AFTER_ALL)
            others += _leaving(literal, lead, by="%")
            others += _leaving(literal, lead, by="/") if more else ()
    if (low, high) == (lead, lead + AFTER_ALL):
        return None
    return [(low, high), *others] if low < high else others


def _leaving(literal: str, lead: str, *, by: str) -> list[KeyRange]:
    """Return the names that are as ``literal`` up to some place, where they have ``by``."""
    starts = [lead + _escaped(literal[:at]) + by for at in range(len(literal) + 1)]
    return [(start, start + AFTER_ALL) for start in starts]


def _plain(literal: str) -> str:
    """Return ``literal`` up to its first character that is escaped in names."""
    return next((literal[:at] for at, one in enumerate(literal) if _escaped(one) != one), literal)


def _under(name: str, *, more: bool) -> KeyRange:
    return (name + "/", name + "/" + AFTER_ALL) if more else (name, name + "\0")


def _escaped(value: str) -> str:
    return partition_name(["k"], [value])[2:] if value else ""


def _joined(ranges: list[KeyRange]) -> tuple[KeyRange, ...]:
    """Return ``ranges`` sorted; ranges that overlap become one range."""
    found: list[KeyRange] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)
