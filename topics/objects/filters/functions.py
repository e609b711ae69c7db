"""Functions: what a filter takes of a column or of a literal before it compares them.

    lcase(…) ──SQL──▶ "lower", the name in messages ──applied──▶ lower of a column's values
                                                    └─folded───▶ lower of a literal, as it is read

A function is its name in messages: one of OF_TEXT, "cast TYPE" or "try_cast TYPE". One more
function of texts is a row of OF_TEXT, and a row of IN_SQL for each name that it has in SQL. The
metastore knows none of them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, TypeAlias

from ...errors import UsageError
from .operands import (
    ANSI,
    BOOLEAN,
    CHAR,
    DATE,
    DECIMAL,
    TEXT,
    TIMESTAMP,
    WHOLE,
    Operand,
    Typed,
    Value,
    date_of,
    kind_of,
    reader,
    texts,
    timestamp_of,
    whole_of,
)

Functions: TypeAlias = tuple[str, ...]  # of a column, the innermost first

OF_TEXT: Final[Mapping[str, Callable[[str], str]]] = {"lower": str.lower, "upper": str.upper}
CASTS: Final = ("cast", "try_cast")  # in SQL with "as TYPE"
IN_SQL: Final = {
    "lower": "lower",
    "lcase": "lower",
    "upper": "upper",
    "ucase": "upper",
    **{name: f"cast {name}" for name in ("string", "date", "timestamp", "boolean", *WHOLE)},
    "to_date": "cast date",
}
KNOWN: Final = f"{', '.join(OF_TEXT)}, cast or try_cast"  # for errors

_CAST: Final = re.compile(rf"({'|'.join(CASTS)}) \w+")


def is_function(name: str) -> bool:
    """Return whether messages may have ``name`` as a function."""
    return name in OF_TEXT or _CAST.fullmatch(name) is not None


def applied(operand: Operand, function: str) -> Operand:
    """Return ``function`` of ``operand``.

    Raises:
        UsageError: it is not known for this kind, or depends on a setting.
    """
    if function in OF_TEXT:
        return texts(operand).then(OF_TEXT[function])
    how, _, type_ = function.partition(" ")
    kind, here = kind_of(type_), operand.kind
    if kind == TEXT:
        return texts(operand)
    if kind == here != DECIMAL:
        return operand
    if kind in WHOLE and here in WHOLE and WHOLE[kind] >= WHOLE[here]:
        return replace(operand, kind=kind)
    if (here, kind) == (TIMESTAMP, DATE):
        return replace(operand.then(lambda at: at.date().isoformat()), kind=DATE)
    if (here, kind) == (DATE, TIMESTAMP):
        return replace(operand.then(datetime.fromisoformat), kind=TIMESTAMP)
    of_text = here in (TEXT, CHAR) and kind in (*WHOLE, BOOLEAN, DATE)
    if of_text and how == "try_cast":
        return replace(operand.then(reader(kind)), kind=kind)
    if of_text:
        raise UsageError(
            f"cast({operand.name} as {kind}): where a text is none, {ANSI} decides: write try_cast"
        )
    raise UsageError(f"no filter casts {operand.name}, which is a {here}, to {type_}")


def folded(function: str, literal: int | str | Typed | None) -> int | str | Typed | None:
    """Return ``function`` of a literal; None if that is no literal, or a setting decides."""
    if not isinstance(literal, str):
        same = isinstance(literal, Typed) and function == f"cast {literal.kind}"
        return literal if same else None
    if function in OF_TEXT:
        return OF_TEXT[function](literal)
    kind = function.partition(" ")[2]
    if kind in WHOLE:
        return whole_of(literal, WHOLE[kind])
    read: dict[str, Callable[[str], Value | None]] = {DATE: date_of, TIMESTAMP: timestamp_of}
    found = read[kind](literal) if kind in read else None
    return literal if kind == TEXT else None if found is None else Typed(kind, found)
