"""Terms: a filter of partitions as a tree, the same for each language of filters, and its form.

There is no term for ``not``: instead, a parser puts the contrary of each comparison. The meaning is
the same, because NULL makes both a comparison and its contrary false. Messages carry a term as its
form:

    term    = ["and" | "or", [term…]]                     of two or more, or of none
            | ["=" | "!=" | "<" | "<=" | ">" | ">=", value, literal]
            | ["in" | "not in", value, [literal…]]        of one or more
            | ["like" | "not like", value, [piece…]]      anything is between two pieces
            | ["null" | "not null", value]
    value   = column | [column, function, …]              lower, upper, cast TYPE, try_cast TYPE
    piece   = [text…]                                     any one character is between two texts
    literal = 12 | "text" | true | false | 1e3 | nil      nil: NULL, in the list of "in"
            | ["int" | "decimal" | "date" | "timestamp", text]

In the normal form, in which equal filters are equal terms, a column is in lower case. An "and" has
no "and" in it, and an "or" no "or". Their terms, and the literals of a list, are sorted by their
MessagePack bytes, and distinct.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from math import isfinite
from sys import intern
from typing import Final, TypeAlias, TypeVar, cast

import msgpack

from ...errors import UsageError, WireError
from .functions import KNOWN, Functions, is_function
from .operands import (
    BOOLEAN,
    DATE,
    DECIMAL,
    DECIMAL_DIGITS_MAX,
    DOUBLE,
    INT,
    NULL,
    TIMESTAMP,
    Typed,
    Value,
    date_of,
    timestamp_of,
    written_time,
)
from .tokens import DEPTH_MAX

TERMS_MAX: Final = 400  # of a message; catalogd tries each on 1,000 names in one turn: 0.1 s
ITEMS_MAX: Final = 20_000  # literals of a message, or names; catalogd reads them in 10 ms
CHARS_MAX: Final = 4096  # of one text of a filter in a message, as of any text of the wire

Literal: TypeAlias = int | str | Typed
Form: TypeAlias = "str | int | float | bool | tuple[Form, ...] | None"
_Item = TypeVar("_Item", "Term", Literal)

_SIGNS: Final = frozenset({"=", "!=", "<", "<=", ">", ">="})
_LISTS: Final = {"in": False, "not in": True}
_LIKES: Final = {"like": False, "not like": True}
_NULLS: Final = {"null": False, "not null": True}
_U64, _I64 = 1 << 64, 1 << 63  # integers of MessagePack: from -_I64, below _U64
_LARGE: Final = re.compile(r"-?[1-9][0-9]*")
_DECIMAL: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?(E[+-][0-9]{1,4})?")


@dataclass(frozen=True, slots=True)
class Comparison:
    """``column sign literal``; ``sign`` is = != < <= > or >=."""

    column: str
    sign: str
    literal: Literal
    of: Functions = ()


@dataclass(frozen=True, slots=True)
class Among:
    """``column in (literals)``, or the contrary."""

    column: str
    literals: tuple[Literal, ...]
    negated: bool
    of: Functions = ()


@dataclass(frozen=True, slots=True)
class Like:
    """The text of ``column`` is ``pieces`` with anything between two of them, or it is not.

    A piece is texts with any one character between two of them: ``a_b%c`` is (a, b), (c).
    """

    column: str
    pieces: tuple[tuple[str, ...], ...]  # at least one, of at least one text
    negated: bool
    of: Functions = ()


@dataclass(frozen=True, slots=True)
class Null:
    """``column`` is NULL, or it is not."""

    column: str
    negated: bool
    of: Functions = ()


@dataclass(frozen=True, slots=True)
class Every:
    """All of ``terms`` hold; of none, all do."""

    terms: "tuple[Term, ...]"


@dataclass(frozen=True, slots=True)
class Some:
    """One of ``terms`` holds; of none, none does."""

    terms: "tuple[Term, ...]"


Leaf: TypeAlias = Comparison | Among | Like | Null
Term: TypeAlias = Leaf | Every | Some


def normal(term: Term) -> Term:
    """Return the normal form of ``term``.

    Raises:
        UsageError: it nests deeper than DEPTH_MAX.
    """
    found = _normal(term)
    if _depth(found) > DEPTH_MAX:
        raise UsageError(f"filter nests deeper than {DEPTH_MAX}")
    return found


def form_of(term: Term) -> Form:
    """Return ``term`` as messages carry it."""
    match term:
        case Every(terms=terms):
            return "and", tuple(map(form_of, terms))
        case Some(terms=terms):
            return "or", tuple(map(form_of, terms))
        case Comparison(sign=sign, literal=literal):
            return sign, _value(term), _literal_form(literal)
        case Among(literals=literals, negated=negated):
            return "not in" if negated else "in", _value(term), tuple(map(_literal_form, literals))
        case Like(pieces=pieces, negated=negated):
            return "not like" if negated else "like", _value(term), pieces
        case Null(negated=negated):
            return "not null" if negated else "null", _value(term)


def is_bounded(term: Term) -> bool:
    """Return whether a message may carry ``term``, as far as its terms and texts go.

    A function of a column and a piece of a like count as a term: they take as long.
    """
    terms = items = 0
    for one in _terms_in(term):
        terms += 1
        if not isinstance(one, Every | Some):
            terms += len(one.of) + (len(one.pieces) if isinstance(one, Like) else 0)
            items += len(one.literals) if isinstance(one, Among) else 0
            if max(map(len, _texts(one))) > CHARS_MAX:
                return False
        if terms > TERMS_MAX or items > ITEMS_MAX:
            return False
    return True


def term_of(form: object) -> Term:
    """Return the term that a message carries as ``form``.

    Raises:
        WireError: it is no term, not in the normal form, or over a bound; says what was expected.
    """
    term = _read(form, DEPTH_MAX)
    if not is_bounded(term):
        most = f"{TERMS_MAX} terms and {ITEMS_MAX} literals, of {CHARS_MAX} characters each"
        raise WireError(f"a filter of at most {most} expected")
    return term


def packed_size(form: Form) -> int:
    """Return the bytes that ``form`` takes in a message."""
    return len(_packed(form))


def _normal(term: Term) -> Term:
    if isinstance(term, Every | Some):
        kind = type(term)
        parts = [_normal(part) for part in _unnested(term.terms, kind)]
        sorted_parts = _sorted(_unnested(parts, kind), form_of)
        return sorted_parts[0] if len(sorted_parts) == 1 else kind(sorted_parts)
    column, of = intern(term.column.lower()), term.of
    match term:
        case Comparison(sign=sign, literal=literal):
            return Comparison(column, sign, literal, of)
        case Among(literals=literals, negated=negated):
            return Among(column, _sorted(literals, _literal_form), negated, of)
        case Like(pieces=pieces, negated=negated):
            return Like(column, pieces, negated, of)
        case Null(negated=negated):
            return Null(column, negated, of)


def _unnested(terms: Iterable[Term], kind: type[Every] | type[Some]) -> Iterable[Term]:
    """Yield ``terms``, and instead of each that is of this ``kind`` those in it."""
    for term in terms:
        if isinstance(term, kind):
            yield from _unnested(term.terms, kind)
        else:
            yield term


def _sorted(items: Iterable[_Item], form: Callable[[_Item], Form]) -> tuple[_Item, ...]:
    found = {_packed(form(item)): item for item in items}
    return tuple([found[key] for key in sorted(found)])


def _packed(form: Form) -> bytes:
    return cast(bytes, msgpack.packb(form))


def _depth(term: Term) -> int:
    if isinstance(term, Every | Some):
        return 1 + max(map(_depth, term.terms), default=0)
    return 1


def _value(leaf: Leaf) -> Form:
    return (leaf.column, *leaf.of) if leaf.of else leaf.column


def _terms_in(term: Term) -> Iterator[Term]:
    """Yield ``term`` and the terms in it."""
    yield term
    if isinstance(term, Every | Some):
        for part in term.terms:
            yield from _terms_in(part)


def _texts(leaf: Leaf) -> Iterable[str]:
    yield leaf.column
    yield from leaf.of
    if isinstance(leaf, Comparison):
        if isinstance(leaf.literal, str):
            yield leaf.literal
    elif isinstance(leaf, Among):
        yield from (one for one in leaf.literals if isinstance(one, str))
    elif isinstance(leaf, Like):
        for piece in leaf.pieces:
            yield from piece


def _literal_form(literal: Literal) -> Form:
    if isinstance(literal, str):
        return literal
    if isinstance(literal, int):
        return literal if -_I64 <= literal < _U64 else (INT, str(literal))
    kind, value = literal.kind, literal.value
    if kind in (BOOLEAN, DOUBLE):
        return cast("bool | float", value)
    if literal == NULL:
        return None
    return kind, written_time(value) if kind == TIMESTAMP else str(value)


def _read(form: object, deeper: int) -> Term:
    match form:
        case ("and" | "or") as word, tuple(parts):
            return _read_parts(Every if word == "and" else Some, parts, deeper)
        case str(word), value if word in _NULLS:
            column, of = _read_value(value)
            return Null(column, _NULLS[word], of)
        case str(word), value, literal if word in _SIGNS:
            column, of = _read_value(value)
            found = _read_literal(literal)
            if found == NULL:
                raise WireError(f"a literal expected beside {word}")
            return Comparison(column, word, found, of)
        case str(word), value, tuple(literals) if word in _LISTS:
            column, of = _read_value(value)
            return Among(column, _read_list(literals, word), _LISTS[word], of)
        case str(word), value, tuple(pieces) if word in _LIKES and pieces:
            column, of = _read_value(value)
            return Like(column, tuple(map(_read_piece, pieces)), _LIKES[word], of)
    raise WireError("a term of a filter expected, which begins with its operator")


def _read_parts(kind: type[Every] | type[Some], parts: tuple[object, ...], deeper: int) -> Term:
    if deeper <= 1:
        raise WireError(f"a filter that nests at most {DEPTH_MAX} deep expected")
    terms = tuple([_read(part, deeper - 1) for part in parts])
    if len(terms) == 1 or any(isinstance(term, kind) for term in terms):
        raise WireError("terms expected that are not of the same kind, and not a single one")
    _check_sorted(map(form_of, terms))
    return kind(terms)


def _read_value(form: object) -> tuple[str, tuple[str, ...]]:
    """Return a column, and the functions of it."""
    column, *functions = form if isinstance(form, tuple) and len(form) > 1 else (form,)
    if not isinstance(column, str) or not column or column != column.lower():
        raise WireError("a column in lower case expected")
    for function in functions:
        if not isinstance(function, str) or not is_function(function):
            raise WireError(f"{KNOWN} expected of a column")
    return intern(column), tuple(cast(list[str], functions))


def _read_list(forms: tuple[object, ...], word: str) -> tuple[Literal, ...]:
    literals = tuple(map(_read_literal, forms))
    _check_sorted(map(_literal_form, literals))
    if not set(literals) - {NULL} or (NULL in literals and word == "not in"):
        raise WireError(f"literals expected that may be {word} a list")
    return literals


def _read_piece(form: object) -> tuple[str, ...]:
    if isinstance(form, tuple) and form and all(isinstance(text, str) for text in form):
        return form
    raise WireError("pieces of texts expected")


def _read_literal(form: object) -> Literal:
    match form:
        case bool():
            return Typed(BOOLEAN, form)
        case int() | str():
            return form
        case float() if isfinite(form):
            return Typed(DOUBLE, form)
        case None:
            return NULL
        case str(kind), str(text) if kind in _READ and len(text) <= CHARS_MAX:
            found = _READ[kind](text)
            if found is not None and _literal_form(found) == form:
                return found
    raise WireError("a literal of a known type expected, as it is written")


def _read_int(text: str) -> Literal | None:
    digits = text.lstrip("-")
    return int(text) if _LARGE.fullmatch(text) and len(digits) <= DECIMAL_DIGITS_MAX else None


def _read_decimal(text: str) -> Literal | None:
    found = _DECIMAL.fullmatch(text)
    return Typed(DECIMAL, Decimal(text)) if found and len(text) <= 2 * DECIMAL_DIGITS_MAX else None


def _typed(kind: str, read: Callable[[str], Value | None]) -> Callable[[str], Literal | None]:
    def read_typed(text: str) -> Literal | None:
        value = read(text)
        return None if value is None else Typed(kind, value)

    return read_typed


def _check_sorted(forms: Iterable[Form]) -> None:
    if any(first >= second for first, second in pairwise(map(_packed, forms))):
        raise WireError("a filter in its normal form expected: sorted, and without repetitions")


_READ: Final[Mapping[str, Callable[[str], Literal | None]]] = {
    INT: _read_int,
    DECIMAL: _read_decimal,
    DATE: _typed(DATE, date_of),
    TIMESTAMP: _typed(TIMESTAMP, timestamp_of),
}
