"""Operands: partitions' values as Spark reads them, by the type of their column, and literals.

    "04" of an int ──▶ 4        "ab" of a char(4) ──▶ "ab  "        "1.5" of a double ──▶ 1.5

A value that is not of its column's type is NULL, and so is __HIVE_DEFAULT_PARTITION__. A comparison
of two types is that of Spark's coercions, as far as these do not depend on a setting of the
session: where ``spark.sql.ansi.enabled`` decides, as for a text beside a number, it is refused.
Times are compared as they are written, without a time zone.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from math import isnan
from typing import Any, Final, TypeAlias

from ...errors import UsageError
from ..names import NULL_PARTITION

Value: TypeAlias = Any  # of a kind that the operand names; values of one kind can be compared
Read: TypeAlias = Callable[[Any], Value | None]

WHOLE: Final = {"tinyint": 1 << 7, "smallint": 1 << 15, "int": 1 << 31, "bigint": 1 << 63}
INT: Final = "int"  # the kind of each whole number that is a literal
TEXT: Final = "string"
CHAR: Final = "char"
DECIMAL: Final = "decimal"
DOUBLE: Final = "double"
BOOLEAN: Final = "boolean"
DATE: Final = "date"
TIMESTAMP: Final = "timestamp"
ANSI: Final = "spark.sql.ansi.enabled"
DECIMAL_DIGITS_MAX: Final = 38  # as in Spark
TEXT_SCALE_MAX: Final = 6  # of a decimal: for more digits Spark writes 1E-8, unless ANSI is on

_TYPE: Final = re.compile(r"\s*(\w+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)\s*)?")
_ALIASES: Final = {"varchar": TEXT, "timestamp_ntz": TIMESTAMP}
_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}  # as Spark counts them
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,30}")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_DATE: Final = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{1,2}-[0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,6}))?)?)?"
)
_TRUE: Final = frozenset({"t", "true", "y", "yes", "1"})
_FALSE: Final = frozenset({"f", "false", "n", "no", "0"})
_SPECIAL: Final = dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), "inf") | {
    **dict.fromkeys(("-inf", "-infinity"), "-inf"),
    "nan": "nan",
}
_EXACT: Final = Context(prec=100)


@dataclass(frozen=True, slots=True)
class Typed:
    """A literal that is neither a whole number nor a text: ``value`` is of this ``kind``."""

    kind: str
    value: Value


NULL: Final = Typed("null", None)  # in a list, of which it finds nothing


@dataclass(frozen=True, slots=True)
class Operand:
    """A column, or a function of it: ``read`` makes the value of a partition's text.

    ``length``: of a char, or the digits of a decimal, of which ``scale`` are behind the point.
    """

    name: str
    kind: str
    read: Read
    length: int = 0
    scale: int = 0

    def then(self, change: Read) -> "Operand":
        """Return the operand whose values are ``change`` of those of this operand."""
        first = self.read

        def read(text: str) -> Value | None:
            value = first(text)
            return None if value is None else change(value)

        return replace(self, read=read)

    @property
    def is_called(self) -> str:
        """The description for an error, as ``n is a number``."""
        if self.kind in (*WHOLE, DECIMAL, DOUBLE):
            return f"{self.name} is a number"
        return f"{self.name} is a {'text' if self.kind in (TEXT, CHAR) else self.kind}"


def column_operand(name: str, type_: str) -> Operand:
    """Return the operand of a column.

    Raises:
        UsageError: no filter works on a column of this type.
    """
    found = _TYPE.fullmatch(type_.lower())
    kind = _ALIASES.get(found[1], found[1]) if found else type_
    length, scale = (int(one or 0) for one in found.group(2, 3)) if found else (0, 0)
    if kind == DECIMAL and not length:
        length = 10  # as in Spark
    try:
        read = reader(kind, length=length, scale=scale)
    except UsageError:
        raise UsageError(f"no filter works on {name}, which is of type {type_}") from None
    return Operand(
        name, kind, lambda text: None if text == NULL_PARTITION else read(text), length, scale
    )


def kind_of(type_: str) -> str:
    """Return the kind that a cast to ``type_`` makes; no filter casts to a type with a length."""
    found = _TYPE.fullmatch(type_)
    return _ALIASES.get(found[1], found[1]) if found and not found[2] else type_


def reader(kind: str, *, length: int = 0, scale: int = 0) -> Callable[[str], Value | None]:
    """Return what reads a text as a value of ``kind``; None for a text that is none.

    ``length``: of a char, or the digits of a decimal.

    Raises:
        UsageError: there is no such kind.
    """
    if kind in WHOLE:
        bound = WHOLE[kind]
        return lambda text: whole_of(text, bound)
    match kind:
        case "string":
            return lambda text: text
        case "char":
            return lambda text: text.ljust(length)
        case "decimal":
            return lambda text: decimal_of(text, digits=length, scale=scale)
        case "double":
            return double_of
        case "boolean":
            return boolean_of
        case "date":
            return date_of
        case "timestamp":
            return timestamp_of
        case _:
            raise UsageError(f"there is no type {kind}")


def whole_of(text: str, bound: int) -> int | None:
    """Return the whole number in ``text`` between -``bound`` and ``bound`` - 1."""
    stripped = text.strip(" \t\n\r")
    if not _WHOLE.fullmatch(stripped):
        return None
    number = int(stripped)
    return number if -bound <= number < bound else None


def decimal_of(text: str, *, digits: int, scale: int) -> Decimal | None:
    """Return the number in ``text``, rounded to ``scale``; None if it has too many ``digits``."""
    stripped = text.strip(" \t\n\r")
    if not _NUMBER.fullmatch(stripped):
        return None
    found = Decimal(stripped)
    if found and found.adjusted() >= digits - scale:
        return None
    rounded = found.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    return rounded if not rounded or rounded.adjusted() < digits - scale else None


def double_of(text: str) -> tuple[bool, float] | None:
    """Return the number in ``text`` as it is compared: NaN is equal to itself and above all."""
    stripped = text.strip(" \t\n\r")
    special = _SPECIAL.get(stripped.lower())
    if special is None and not _NUMBER.fullmatch(stripped):
        return None
    return comparable(float(special or stripped))


def comparable(number: float) -> tuple[bool, float]:
    """Return a double as it is compared."""
    return (True, 0.0) if isnan(number) else (False, number)


def boolean_of(text: str) -> bool | None:
    """Return the truth value in ``text``."""
    lowered = text.strip(" \t\n\r").lower()
    if lowered in _TRUE:
        return True
    return False if lowered in _FALSE else None


@lru_cache(maxsize=256)  # the terms of a filter look at one value each after the other
def date_of(text: str) -> str | None:
    """Return the date in ``text``, as 2026-11-01; a time behind it is left out, as by Spark."""
    found = _DATE.fullmatch(text.strip(" \t\n\r"))
    return _calendar("-".join(one or "1" for one in found.groups())) if found else None


def timestamp_of(text: str) -> datetime | None:
    """Return the time in ``text``, which names no time zone."""
    found = _TIME.fullmatch(text.strip(" \t\n\r"))
    day = _calendar(found[1]) if found else None
    if found is None or day is None:
        return None
    hour, minute, second = (int(one or 0) for one in found.group(2, 3, 4))
    if hour > 23 or minute > 59 or second > 59:
        return None
    micros = int((found[5] or "").ljust(6, "0"))
    return datetime.fromisoformat(day) + timedelta(
        hours=hour, minutes=minute, seconds=second, microseconds=micros
    )


def _calendar(text: str) -> str | None:
    try:
        return date(*map(int, text.split("-"))).isoformat()
    except ValueError:
        return None


def texts(operand: Operand) -> Operand:
    """Return ``operand`` cast to a text.

    Raises:
        UsageError: what Spark writes of such a value is not known here.
    """
    if operand.kind in (TEXT, CHAR):
        return replace(operand, kind=TEXT)
    if operand.kind == DOUBLE or (operand.kind == DECIMAL and operand.scale > TEXT_SCALE_MAX):
        raise UsageError(f"no filter takes {operand.name}, which is a {operand.kind}, as a text")
    write: Read = {
        BOOLEAN: lambda value: "true" if value else "false",
        DECIMAL: lambda value: f"{value:f}",
        DATE: lambda value: value,
        TIMESTAMP: written_time,
    }.get(operand.kind, str)
    return replace(operand.then(write), kind=TEXT)


def written_time(at: datetime) -> str:
    """Return a time as Spark writes it: without zeros at the end of its fraction."""
    text = at.isoformat(" ")
    return text.rstrip("0") if "." in text else text


def beside(
    operand: Operand, literal: "int | str | Typed", *, listed: bool
) -> tuple[Read | None, Value]:
    """Return ``literal`` as it is compared with ``operand``.

    With it comes what is done to the operand's value before, which may make NULL of it.
    ``listed``: in a list of ``in``, which Spark coerces otherwise.

    Raises:
        UsageError: they cannot be compared, or a setting decides how.
    """
    if isinstance(literal, str):
        return _beside_text(operand, literal, listed=listed)
    kind = _kind(literal)
    value: Value = literal if isinstance(literal, int) else literal.value
    here = operand.kind
    numeric = here in (*WHOLE, DECIMAL, DOUBLE) and kind in (INT, DECIMAL, DOUBLE)
    if numeric and DOUBLE in (here, kind):
        return None if here == DOUBLE else _as_double, _as_double(value)
    if numeric:
        _check_digits(operand, (literal,))
        return None, value
    if here == kind:
        return None, value
    if {here, kind} == {DATE, TIMESTAMP}:
        if here == DATE:
            return datetime.fromisoformat, value
        return None, datetime.fromisoformat(value)
    if (here, kind) == (TEXT, DATE):
        return date_of, value
    raise _mismatch(operand, kind, value)


def beside_each(
    operand: Operand, literals: Sequence["int | str | Typed"]
) -> list[tuple[Read | None, Value]]:
    """Return each of the ``literals`` of a list as ``beside`` does, without NULL.

    Raises:
        UsageError: some cannot be compared, or a setting decides how.
    """
    known = [one for one in literals if one != NULL]
    found = [beside(operand, one, listed=True) for one in known]
    _check_together(operand, set(map(_kind, known)))
    _check_digits(operand, known)
    return found


def _beside_text(operand: Operand, text: str, *, listed: bool) -> tuple[Read | None, Value]:
    """Return a text beside ``operand``: cast to its kind, unless it is a text itself."""
    kind = operand.kind
    if kind == TEXT:
        return None, text
    if kind == CHAR and listed:
        return _unpadded, _unpadded(text)
    if kind == CHAR:
        length = max(len(text), operand.length)
        return (lambda value: value.ljust(length)), text.ljust(length)
    value = double_of(text) if kind == DECIMAL else reader(kind)(text)
    if value is None:
        raise UsageError(f"{operand.is_called}, {text!r} is not: Spark's answer depends on {ANSI}")
    if listed and (kind in (BOOLEAN, DECIMAL, DOUBLE) or _written(value) != text):
        why = f"in a list {ANSI} decides whether texts are compared"
        raise UsageError(f"{operand.is_called}: write {text!r} without quotes: {why}")
    return (_as_double if kind == DECIMAL else None), value


def _check_together(operand: Operand, kinds: set[str]) -> None:
    """Raise UsageError if Spark compares a list of these ``kinds`` not as each literal alone.

    Spark brings a list and its column to one type. That is a text where either is, unless
    ANSI is on, and a double where either is, for which large numbers are rounded.
    """
    here = INT if operand.kind in WHOLE else operand.kind
    mixed: set[str] = set()
    if here in (TEXT, CHAR) or TEXT in kinds:
        mixed = kinds - {TEXT, here}
    elif DOUBLE in kinds and here != DOUBLE:
        mixed = kinds - {DOUBLE}
    if mixed:
        raise UsageError(
            f"{operand.is_called}: write literals of other types with = and or, not in a list"
        )


def _check_digits(operand: Operand, literals: Sequence["int | str | Typed"]) -> None:
    """Raise UsageError if no decimal of Spark holds all of these: it makes some of them NULL."""
    if DECIMAL not in (operand.kind, *map(_kind, literals)):
        return
    sizes = [(operand.length - operand.scale, operand.scale)]
    if operand.kind in WHOLE:
        sizes = [(_DIGITS[operand.kind], 0)]
    for one in literals:
        if isinstance(one, int):
            sizes.append((max(len(str(abs(one))), _DIGITS[INT]), 0))
        elif isinstance(one, Typed) and one.kind == DECIMAL:
            scale = max(-int(one.value.as_tuple().exponent), 0)
            sizes.append((max(one.value.adjusted() + 1, 0), scale))
    if sum(map(max, zip(*sizes, strict=True))) > DECIMAL_DIGITS_MAX:
        why = f"to compare these takes more than {DECIMAL_DIGITS_MAX} digits"
        raise UsageError(f"{operand.is_called}: {why}")


def _kind(literal: "int | str | Typed") -> str:
    if isinstance(literal, Typed):
        return literal.kind
    return INT if isinstance(literal, int) else TEXT


def _as_double(number: "int | float | Decimal") -> tuple[bool, float]:
    return comparable(float(number))


def _unpadded(text: str) -> str:
    return text.rstrip(" ")


def _written(value: Value) -> str:
    return written_time(value) if isinstance(value, datetime) else str(value)


def _mismatch(operand: Operand, kind: str, value: Value) -> UsageError:
    shown = "a number" if kind in (INT, DECIMAL, DOUBLE) else f"a {kind}"
    if operand.kind in (TEXT, CHAR):
        why = f"Spark's answer depends on {ANSI}: write it in quotes"
    else:
        why = "Spark compares these under some settings only, if at all"
    return UsageError(f"{operand.is_called}, {value} is {shown}: {why}")
