"""Matching: a term as a test of the values of a partition of one table.

A value that is NULL, or of another type than its column, matches no comparison, as in SQL.
"""

import re
from collections.abc import Callable, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Final, TypeAlias

from ...errors import UsageError
from ..tables import Column
from .functions import applied
from .operands import (
    CHAR,
    NULL,
    Operand,
    Read,
    Value,
    beside,
    beside_each,
    column_operand,
    texts,
)
from .terms import Among, Comparison, Every, Like, Literal, Null, Some, Term

PATTERN_MAX: Final = 4096  # characters of a like's text, which is compiled

Predicate: TypeAlias = Callable[[Sequence[str]], bool]
"""Whether a partition matches, by its values."""

_COMPARE: Final = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def bind(term: Term, columns: Sequence[Column]) -> Predicate:
    """Return ``term`` as a test of the values of a table's partition ``columns``.

    Raises:
        UsageError: it names another column, or compares a column with a literal of another type.
    """
    if isinstance(term, Every | Some):
        inner = [bind(part, columns) for part in term.terms]
        if isinstance(term, Every):
            return lambda values: all(holds(values) for holds in inner)
        return lambda values: any(holds(values) for holds in inner)
    wanted = term.column.lower()
    position = next((at for at, one in enumerate(columns) if one.name.lower() == wanted), None)
    if position is None:
        known = ", ".join(column.name for column in columns) or "none"
        raise UsageError(f"{term.column} is not a partition column; these are: {known}")
    operand = column_operand(term.column, columns[position].type)
    for function in term.of:
        operand = applied(operand, function)
    if isinstance(term, Like):
        operand = texts(operand)
    read = operand.read
    if isinstance(term, Null):
        negated = term.negated
        return lambda values: (read(values[position]) is None) is not negated
    holds = _test(term, operand)

    def matches(values: Sequence[str]) -> bool:
        value = read(values[position])
        return value is not None and holds(value)

    return matches


def _test(term: Comparison | Among | Like, operand: Operand) -> Callable[[Value], bool]:
    """Return ``term`` as a test of a value, which is not NULL, of ``operand``."""
    if isinstance(term, Like):
        like, unlike = _pattern(term.pieces), term.negated
        return lambda value: (like.fullmatch(value) is not None) is not unlike
    if isinstance(term, Comparison):
        return _compared(operand, _COMPARE[term.sign], term.literal)
    negated = term.negated
    if operand.kind == CHAR and NULL in term.literals:
        why = f"leave NULL out: with it Spark does not pad the texts of a list for {operand.name}"
        raise UsageError(f"{operand.is_called}: {why}")
    found = beside_each(operand, term.literals)
    plain = frozenset(value for change, value in found if change is None)
    others: dict[Read, set[Value]] = {}
    for change, literal in found:
        if change is not None:
            others.setdefault(change, set()).add(literal)

    def among(value: Value) -> bool:
        if value in plain:
            return not negated
        changed = [(change(value), literals) for change, literals in others.items()]
        if any(one in literals for one, literals in changed):
            return not negated
        return negated and all(one is not None for one, _ in changed)

    return among


def _compared(
    operand: Operand, compare: Callable[[Value, Value], bool], literal: Literal
) -> Callable[[Value], bool]:
    change, wanted = beside(operand, literal, listed=False)
    if change is None:
        return lambda value: compare(value, wanted)
    first = change

    def holds(value: Value) -> bool:
        changed = first(value)
        return changed is not None and compare(changed, wanted)

    return holds


def _pattern(pieces: Sequence[Sequence[str]]) -> re.Pattern[str]:
    """Return what ``pieces`` match; each is sought once, so no text takes long."""
    length = sum(sum(map(len, piece)) + len(piece) for piece in pieces) - 1
    if length > PATTERN_MAX:
        raise UsageError(f"a like of {length} characters, {PATTERN_MAX} allowed")
    texts = [".".join(map(re.escape, piece)) for piece in pieces]
    first, *middle, last = texts if len(texts) > 1 else (*texts, "")
    sought = "".join([f"(?=(?P<p{at}>.*?{piece}))(?P=p{at})" for at, piece in enumerate(middle)])
    gap = ".*" if len(texts) > 1 else ""
    return re.compile(f"{first}{sought}{gap}{last}", re.DOTALL)
