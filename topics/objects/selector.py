"""Selector: the selected partitions of a table; one value from the public call to catalogd.

    TABLE                   none: the table's own entry alone
    BLOCKS                  all
    FILTER  ds > '1'        those whose values match a filter
    NAMES   ds=1, ds=2      those of these names
    VALUES  "1", ""         those that begin with these values; "" means any

``matches`` and ``ranges`` need the table's partition columns: ``ranges`` returns the names to look
at, ``matches`` the test for the partitions found there.

A filter is read once, where a text comes in, and is a term in its normal form from then on
(filters/): selectors that say the same in another order, or in the other language, are equal.

    ds = '2026-11-01' and hour > 3   ──▶   ds=2026-11-01/hour=…

Ranges may be too wide, and never are too narrow. Names are escaped, and therefore not quite in the
order of their values: for an escaped character of a value its name has ``%``. So the literal of a
comparison is cut before such a character. Beside its own range, the ranges cover the names that
equal the literal up to a ``%`` or a ``/``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import ge
from typing import Final, TypeAlias, cast

from ..backports import IntEnum
from ..errors import UsageError, WireError
from .filters.hive import parse_hive
from .filters.matching import bind
from .filters.operands import DATE, date_of
from .filters.sql import parse_sql
from .filters.terms import (
    CHARS_MAX,
    ITEMS_MAX,
    Among,
    Comparison,
    Every,
    Form,
    Leaf,
    Literal,
    Some,
    Term,
    form_of,
    is_bounded,
    normal,
    packed_size,
    term_of,
)
from .names import check_partition_name, partition_name, partition_values
from .tables import Column

RANGES_MAX: Final = 4096  # beyond, looking at every block is as cheap
PLAIN_MAX: Final = 256  # characters of a literal that bound a range: Hive has no longer values
SELECTOR_BYTES_MAX: Final = 256 << 10  # of a message: 10,000 names, or literals of a list
AFTER_ALL: Final = "\U0010ffff"  # sorts behind every character that a name has

RANGED: Final = frozenset({"string", "varchar", DATE})  # their values' texts have their order

KeyRange: TypeAlias = tuple[str, str]  # from the first name on, below the second
Matches: TypeAlias = Callable[[str], bool]
"""Whether a partition is selected, by its name."""


class SelectorKind(IntEnum):
    """The way in which partitions are selected, as a Pull says it."""

    TABLE = 0  # the table's own entry
    BLOCKS = 1  # the table and all its blocks
    FILTER = 2  # the table and the blocks in which partitions match a filter
    NAMES = 3  # the table and the blocks in which partitions of these names may be
    VALUES = 4  # the table and the blocks of partitions that have these values


@dataclass(frozen=True, slots=True)
class Selector:
    """Which partitions; made by the functions below, which check what a caller passes.

    ``filter`` is in its normal form. ``names`` are sorted and distinct. ``values`` are those of the
    first partition columns, and end with the last that is not "".
    """

    kind: SelectorKind
    filter: Term | None = None
    names: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    @property
    def form(self) -> Form:
        """The selector as messages carry it: its kind, and what is selected."""
        match self.kind:
            case SelectorKind.FILTER:
                return int(self.kind), form_of(self._term())
            case SelectorKind.NAMES:
                return int(self.kind), self.names
            case SelectorKind.VALUES:
                return int(self.kind), self.values
            case _:
                return (int(self.kind),)

    @property
    def size(self) -> int:
        """The bytes that the selector takes in a message."""
        return packed_size(self.form)

    @property
    def is_sendable(self) -> bool:
        """Whether a message may carry the selector."""
        if self.filter is not None and not is_bounded(self.filter):
            return False
        return _are_bounded(self.names + self.values) and self.size <= SELECTOR_BYTES_MAX

    def matches(self, columns: Sequence[Column]) -> Matches | None:
        """Return a test of names; None if every partition is selected.

        Raises:
            UsageError: the filter is not for a table with these ``columns``.
        """
        match self.kind:
            case SelectorKind.FILTER:
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
            UsageError: there are more values than ``columns``.
        """
        match self.kind:
            case SelectorKind.FILTER:
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
        assert self.filter is not None, "a filter has a term"
        return self.filter


_KINDS: Final = frozenset(SelectorKind)
_WITH_ITEM: Final = frozenset({SelectorKind.FILTER, SelectorKind.NAMES, SelectorKind.VALUES})

TABLE_ONLY: Final = Selector(SelectorKind.TABLE)
ALL: Final = Selector(SelectorKind.BLOCKS)


def by_filter(text: str) -> Selector:
    """Select the partitions whose values match the filter ``text``, one of the metastore's.

    Raises:
        UsageError: ``text`` is not a valid filter.
    """
    return Selector(SelectorKind.FILTER, filter=normal(parse_hive(text)))


def by_sql(text: str) -> Selector:
    """Select the partitions whose values match ``text``, written as after WHERE in Spark SQL.

    Raises:
        UsageError: ``text`` is not a valid condition, or no filter can express it.
    """
    return Selector(SelectorKind.FILTER, filter=normal(parse_sql(text)))


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


def selector_of(form: object) -> Selector:
    """Return the selector that a message carries as ``form``.

    Raises:
        WireError: it is none, not in its one form, or over a bound; says what was expected.
    """
    kind, *items = form if isinstance(form, tuple) and form else (None,)
    if len(items) != (kind in _WITH_ITEM) or kind not in _KINDS or type(kind) is not int:
        raise WireError("a selector expected: its kind, and what it selects")
    if packed_size(cast(Form, form)) > SELECTOR_BYTES_MAX:
        raise WireError(f"a selector of at most {SELECTOR_BYTES_MAX} bytes expected")
    if kind not in _WITH_ITEM:
        return ALL if kind == SelectorKind.BLOCKS else TABLE_ONLY
    (item,) = items
    if kind == SelectorKind.FILTER:
        return Selector(SelectorKind.FILTER, filter=term_of(item))
    if not isinstance(item, tuple) or set(map(type, item)) - {str} or not _are_bounded(item):
        raise WireError(f"{ITEMS_MAX} texts of at most {CHARS_MAX} characters expected")
    if kind == SelectorKind.NAMES:
        if any(map(ge, item, item[1:])):
            raise WireError("names expected that are sorted, and distinct")
        return Selector(SelectorKind.NAMES, names=item)
    if not item or not item[-1]:
        raise WireError("values expected, of which the last is not empty")
    return Selector(SelectorKind.VALUES, values=item)


def _are_bounded(texts: Sequence[str]) -> bool:
    return len(texts) <= ITEMS_MAX and max(map(len, texts), default=0) <= CHARS_MAX


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
    """Return ``literal`` up to its first character that is escaped in names, or to PLAIN_MAX."""
    first = literal[:PLAIN_MAX]
    return next((first[:at] for at, one in enumerate(first) if _escaped(one) != one), first)


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
