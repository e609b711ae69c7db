"""The ranges of names in which selected partitions lie, so that few blocks have to be read.

    ds = '2026-11-01' and hour > 3   ──▶   ds=2026-11-01/hour=…

Ranges may be too wide, and never are too narrow. Names are escaped, and so not quite in the order
of their values: where a value has a character that is escaped, the name has ``%``. So a comparison
covers, beside its own range, the few names that differ from its literal by a ``%`` or a ``/``, and
its range ends where its literal has such a character itself.
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final, TypeAlias

from ..errors import UsageError
from .filters import TEXTS, Among, Comparison, Every, Filter, Some, Term
from .names import partition_name
from .tables import Column

KeyRange: TypeAlias = tuple[str, str]  # from this name on, below that one

AFTER_ALL: Final = "\U0010ffff"  # sorts behind every character that a name has
RANGES_MAX: Final = 4096  # beyond, looking at every block is as cheap


def ranges_of_filter(wanted: Filter, columns: Sequence[Column]) -> tuple[KeyRange, ...] | None:
    """Return the ranges outside of which no name matches, sorted; None if that is unknown."""
    ranges = _ranges(wanted.term, columns)
    return None if ranges is None or len(ranges) > RANGES_MAX else _joined(ranges)


def ranges_of_names(names: Iterable[str]) -> tuple[KeyRange, ...]:
    """Return one range for each of ``names``, in their order."""
    return tuple([(name, name + "\0") for name in names])


def ranges_of_values(
    values: Sequence[str], columns: Sequence[Column]
) -> tuple[KeyRange, ...] | None:
    """Return the range of the partitions whose first values are ``values``; "" stands for any.

    None: it is unknown, for the first value may be any.

    Raises:
        UsageError: there are more values than ``columns``.
    """
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
        if column.type.partition("(")[0].lower() not in TEXTS:
            break
        mine = [one for one in terms if one.column.lower() == column.name.lower()]
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


def _pinned(prefix: str) -> list[KeyRange] | None:
    return [(prefix, prefix + AFTER_ALL)] if prefix else None


def _flat(term: Term) -> Iterable[Comparison | Among]:
    """Yield what has to hold in any case; what is left out only widens the ranges."""
    if isinstance(term, Every):
        for part in term.terms:
            yield from _flat(part)
    elif not isinstance(term, Some):
        yield term


def _values(terms: Iterable[Comparison | Among]) -> list[str] | None:
    """Return the values that one of ``terms`` allows; None if none of them names any."""
    for term in terms:
        if isinstance(term, Comparison) and term.sign == "=":
            return [str(term.literal)]
        if isinstance(term, Among) and not term.negated:
            return sorted({str(literal) for literal in term.literals})
    return None


def _compared(
    terms: Iterable[Comparison | Among], lead: str, *, more: bool
) -> list[KeyRange] | None:
    """Return the ranges that comparisons of one column allow; its names begin with ``lead``."""
    low, high = lead, lead + AFTER_ALL
    beside: list[KeyRange] = []
    for term in terms:
        if not isinstance(term, Comparison):
            continue
        literal = _plain(str(term.literal))
        if term.sign in (">", ">="):
            low = max(low, lead + _escaped(literal))
            beside += _leaving(literal, lead, by="%")
        elif term.sign in ("<", "<="):
            high = min(high, lead + _escaped(literal) + AFTER_ALL)
            beside += _leaving(literal, lead, by="%")
            beside += _leaving(literal, lead, by="/") if more else ()
    if (low, high) == (lead, lead + AFTER_ALL):
        return None
    return [(low, high), *beside] if low < high else beside


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
    """Return ``ranges`` sorted, with those that overlap made one."""
    found: list[KeyRange] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)
