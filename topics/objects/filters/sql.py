"""The filters of SQL: conditions on partition columns, as Spark's users write them after WHERE.

    filter  = all { "or" all }                                   keywords in any case
    all     = not { "and" not }
    not     = ( "not" | "!" ) not | "(" filter ")" | test
    test    = value ( "=" | "==" | "<=>" | "!=" | "<>" | "<" | "<=" | ">" | ">=" ) literal
            | literal ( … ) value
            | value [ "not" ] ( "like" | "ilike" ) text [ "escape" text ]
            | value [ "not" ] "in" "(" literal { "," literal } ")"
            | value [ "not" ] "between" literal "and" literal
            | value "is" [ "not" ] ( "null" | "true" | "false" | "distinct" "from" literal )
            | value | "true" | "false"
    value   = name | `name` | "(" value ")" | function "(" value ")"
            | ( "cast" | "try_cast" ) "(" value "as" type ")"
    literal = 12 | -3 | 1.5 | 1e3 | 'text' | "text" | "true" | "false" | "null"
            | date '2026-11-01' | timestamp '2026-11-01 12:00:00'

As in Spark: in a ``like`` ``%`` is anything and ``_`` one character, and behind a backslash, or the
character that ``escape`` names, they stand for themselves; a quote is doubled in a text, or stands
behind a backslash; only ``is null`` and ``<=>`` find NULL. operands.py says which types are
compared, and how. Whatever else SQL knows is refused with its place, and so is what means something
else than it seems to: ``d = 2026-11-01`` subtracts.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from math import isinf
from typing import Final

from ...errors import UsageError
from .functions import CASTS, IN_SQL, Functions, folded
from .operands import (
    BOOLEAN,
    DATE,
    DECIMAL,
    DECIMAL_DIGITS_MAX,
    DOUBLE,
    NULL,
    TIMESTAMP,
    Typed,
    date_of,
    timestamp_of,
)
from .terms import Among, Comparison, Every, Like, Literal, Null, Some, Term
from .tokens import Tokens

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<text>"(?:[^"\\]|\\.|"")*"|'(?:[^'\\]|\\.|'')*')
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<subtraction>[0-9]{4}-[0-9]{1,2}-[0-9]{1,2})(?!\w)
    | (?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?
        (?:[lLsSyYdD]|[bB][dD])?)(?![\w.])
    | (?P<word>\w+)
    | (?P<sign><=>|<=|>=|<>|!=|==|[=<>(),!])
    | (?P<end>$)
    )""",
    re.VERBOSE | re.DOTALL,
)
_KEYWORDS: Final = frozenset(
    {"and", "or", "not", "in", "like", "between", "is", "null", "escape"},
)
_SIGNS: Final = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">"}
_COMPARE: Final = {**_SIGNS, ">=": ">=", "<=>": "<=>"}
_REVERSED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_CONTRARY: Final = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_FOR_LIKE: Final = ("%", "_")  # whose backslash stays in the text
_IN_TEXT: Final = re.compile(r"\\(.)|(['\"])\2", re.DOTALL)
_NUMBER: Final = re.compile(r"([+-]?[0-9.]+)(e[+-]?[0-9]+)?([a-z]*)")
_LITERAL: Final = "a number, a text in quotes, or date '2026-11-01'"
_TIMES: Final = (DATE, TIMESTAMP, "timestamp_ntz")
_VALUE: Final = "a column, or lower, upper, date, string or cast of one"
NEVER: Final = Some(())  # what is compared with NULL is neither true nor false


def parse_sql(text: str) -> Term:
    """Read a filter of SQL.

    Raises:
        UsageError: ``text`` is not a valid filter; says where, and what was expected there.
    """
    return _Parser(text).whole()


@dataclass(frozen=True, slots=True)
class _Of:
    """A column, or functions of it."""

    column: str
    of: Functions = ()


@dataclass(frozen=True, slots=True)
class _Literal:
    """A literal; None: it is NULL."""

    literal: Literal | None


class _Parser:
    """Recursive descent over tokens; each method reads what it is named for and moves past it.

    ``negated``: a ``not`` stands somewhere before it, so the contrary is returned. NULL makes both
    a comparison and its contrary neither true nor false.
    """

    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text, _TOKEN, _KEYWORDS)

    def whole(self) -> Term:
        term = self._some(negated=False)
        self._tokens.expect("end", '"and", "or" or the end')
        return term

    def _some(self, *, negated: bool) -> Term:
        terms = [self._every(negated=negated)]
        while self._tokens.took("or"):
            terms.append(self._every(negated=negated))
        return terms[0] if len(terms) == 1 else _together(terms, every=negated)

    def _every(self, *, negated: bool) -> Term:
        terms = [self._not(negated=negated)]
        while self._tokens.took("and"):
            terms.append(self._not(negated=negated))
        return terms[0] if len(terms) == 1 else _together(terms, every=not negated)

    def _not(self, *, negated: bool) -> Term:
        while self._tokens.took("not") or self._tokens.took("!"):
            negated = not negated
        if not self._tokens.took("("):
            return self._test(negated=negated)
        if self._is_column() and self._tokens.kind_after == ")":
            column = self._column()
            self._tokens.expect(")", "")
            return self._test_of(column, negated=negated)
        self._tokens.enter()
        term = self._some(negated=negated)
        self._tokens.leave()
        self._tokens.expect(")", '"and", "or" or ")"')
        return term

    def _test(self, *, negated: bool) -> Term:
        found = self._side()
        if isinstance(found, _Of):
            return self._test_of(found, negated=negated)
        literal = found.literal
        if isinstance(literal, Typed) and literal.kind == BOOLEAN and self._ends_test():
            return Every(()) if literal.value is not negated else NEVER
        sign = self._sign()
        other = self._side()
        if not isinstance(other, _Of):
            raise self._tokens.wrong("a column on one side", back=1)
        return _comparison(other, _REVERSED.get(sign, sign), literal, negated=negated)

    def _test_of(self, value: "_Of", *, negated: bool) -> Term:
        tokens = self._tokens
        if self._ends_test():
            return _comparison(value, "=", Typed(BOOLEAN, value=True), negated=negated)
        if tokens.took("is"):
            return self._is(value, negated=tokens.took("not") is not negated)
        if tokens.took("not"):
            if tokens.kind not in ("in", "between", "like") and not tokens.is_word("ilike"):
                raise tokens.wrong('"in", "between" or "like"')
            negated = not negated
        if tokens.took("like"):
            return Like(value.column, self._pieces(), negated, value.of)
        if tokens.is_word("ilike"):
            tokens.take()
            lowered = tuple(tuple(map(str.lower, piece)) for piece in self._pieces())
            return Like(value.column, lowered, negated, (*value.of, "lower"))
        if tokens.took("in"):
            return self._among(value, negated=negated)
        if tokens.took("between"):
            return self._between(value, negated=negated)
        sign = self._sign()
        return _comparison(value, sign, self._literal(), negated=negated)

    def _ends_test(self) -> bool:
        return self._tokens.kind in ("and", "or", ")", "end")

    def _is(self, value: "_Of", *, negated: bool) -> Term:
        """Read what stands behind ``is``, and ``not``, which is in ``negated`` already."""
        tokens = self._tokens
        for word in ("true", "false"):
            if tokens.is_word(word):
                tokens.take()
                literal = Typed(BOOLEAN, value=word == "true")
                return _comparison(value, "<=>", literal, negated=negated)
        if tokens.is_word("distinct"):
            tokens.take()
            if not tokens.is_word("from"):
                raise tokens.wrong('"from"')
            tokens.take()
            return _comparison(value, "<=>", self._literal(), negated=not negated)
        tokens.expect("null", '"null", or "not null"')
        return Null(value.column, negated, value.of)

    def _between(self, value: "_Of", *, negated: bool) -> Term:
        low = self._literal()
        self._tokens.expect("and", '"and"')
        high = self._literal()
        above = _comparison(value, ">=", low, negated=negated)
        below = _comparison(value, "<=", high, negated=negated)
        return _together([above, below], every=not negated)

    def _among(self, value: "_Of", *, negated: bool) -> Term:
        self._tokens.expect("(", '"("')
        found = [self._literal()]
        while self._tokens.took(","):
            found.append(self._literal())
        self._tokens.expect(")", '"," or ")"')
        literals = tuple(NULL if one is None else one for one in found)
        if set(literals) == {NULL} or (negated and NULL in literals):
            return NEVER
        return Among(value.column, literals, negated, value.of)

    def _pieces(self) -> tuple[tuple[str, ...], ...]:
        """Read the text of a ``like``, and its ``escape``."""
        text, escape = self._text(), "\\"
        if self._tokens.took("escape"):
            escape = self._text()
            if len(escape) != 1:
                raise self._tokens.wrong("one character in quotes", back=1)
        pieces: list[list[str]] = [[""]]
        chars = iter(text)
        for char in chars:
            if char == escape:
                found = next(chars, "")
                if found not in (*_FOR_LIKE, escape):
                    raise UsageError(f"in like {text!r} {escape!r} is not before %, _ or itself")
                pieces[-1][-1] += found
            elif char == "%":
                pieces.append([""])
            elif char == "_":
                pieces[-1].append("")
            else:
                pieces[-1][-1] += char
        return tuple(map(tuple, pieces))

    def _is_column(self) -> bool:
        return self._tokens.kind in ("word", "quoted")

    def _column(self) -> "_Of":
        if not self._is_column():
            raise self._tokens.wrong("a column")
        token = self._tokens.take()
        name = token.text if token.kind == "word" else token.text[1:-1].replace("``", "`")
        return _Of(name)

    def _side(self) -> "_Of | _Literal":
        """Read a column or a literal, or a function of either."""
        if self._is_literal():
            return _Literal(self._literal())
        if not (self._tokens.kind == "word" and self._tokens.kind_after == "("):
            return self._column()
        name = self._tokens.take().text.lower()
        if name not in IN_SQL and name not in CASTS:
            raise self._tokens.wrong(_VALUE, back=1)
        self._tokens.expect("(", "")
        self._tokens.enter()
        inner = self._side()
        function = IN_SQL.get(name) or f"{name} {self._type()}"
        self._tokens.leave()
        self._tokens.expect(")", '")"')
        if isinstance(inner, _Of):
            return _Of(inner.column, (*inner.of, function))
        value = folded(function, inner.literal)
        if value is None:
            raise self._tokens.wrong(_LITERAL, back=2)
        return _Literal(value)

    def _type(self) -> str:
        """Read ``as`` and a type without spaces."""
        if not self._tokens.is_word("as"):
            raise self._tokens.wrong('"as" and a type')
        self._tokens.take()
        return self._tokens.expect("word", "a type such as string or date").text.lower()

    def _sign(self) -> str:
        if self._tokens.kind not in _COMPARE:
            raise self._tokens.wrong('a comparison, as = or "like"')
        return _COMPARE[self._tokens.take().kind]

    def _is_time(self) -> bool:
        """Return whether ``date '…'`` follows, or the like: a column may be called so, too."""
        return self._tokens.kind_after == "text" and any(map(self._tokens.is_word, _TIMES))

    def _time(self) -> Literal:
        kind = self._tokens.take().text.lower().removesuffix("_ntz")
        text = self._text()
        found = date_of(text) if kind == DATE else timestamp_of(text)
        if found is None:
            wanted = "a date as '2026-11-01', or a time as '2026-11-01 12:00:00', without a zone"
            raise self._tokens.wrong(wanted, back=1)
        return Typed(kind, found)

    def _is_literal(self) -> bool:
        tokens = self._tokens
        return (
            tokens.kind in ("text", "number", "subtraction", "null")
            or self._is_time()
            or tokens.is_word("true")
            or tokens.is_word("false")
        )

    def _literal(self) -> Literal | None:
        """Read a literal; None: it is NULL."""
        tokens = self._tokens
        if tokens.took("null"):
            return None
        if tokens.kind == "subtraction":
            raise tokens.wrong(f"{_LITERAL}: this subtracts")
        if self._is_time():
            return self._time()
        if tokens.is_word("true") or tokens.is_word("false"):
            return Typed(BOOLEAN, value=tokens.take().text.lower() == "true")
        if tokens.kind == "number":
            return self._number()
        if tokens.kind == "word" and tokens.kind_after == "(":
            found_side = self._side()
            if isinstance(found_side, _Literal):
                return found_side.literal
            raise tokens.wrong(_LITERAL, back=1)
        return self._text(_LITERAL)

    def _number(self) -> Literal:
        token = self._tokens.take()
        found = _NUMBER.fullmatch(token.text.lower())
        assert found is not None, token
        digits, exponent, suffix = found[1], found[2] or "", found[3]
        if sum(map(str.isdigit, digits)) > DECIMAL_DIGITS_MAX:
            raise self._tokens.wrong(f"a number of at most {DECIMAL_DIGITS_MAX} digits", back=1)
        if suffix == "d" or (exponent and not suffix):
            double = float(digits + exponent)
            if isinf(double):
                raise self._tokens.wrong("a number that is a double", back=1)
            return Typed(DOUBLE, double)
        if suffix == "bd" or ("." in digits and not suffix):
            return Typed(DECIMAL, Decimal(digits + exponent))
        if "." in digits or exponent:
            raise self._tokens.wrong(_LITERAL, back=1)
        return int(digits)

    def _text(self, wanted: str = "a text in quotes") -> str:
        token = self._tokens.expect("text", wanted)
        quote, inner = token.text[0], token.text[1:-1]
        for one in _IN_TEXT.finditer(inner):
            if one[1] and one[1] not in (*_ESCAPES, *_FOR_LIKE):
                raise self._tokens.wrong(f"a text in which \\{one[1]} is \\\\{one[1]}", back=1)
        return _IN_TEXT.sub(lambda one: _meant(one, quote), inner)


def _meant(found: re.Match[str], quote: str) -> str:
    """Return what a backslash with its character, or a doubled quote, means in a text."""
    if found[2]:
        return quote if found[2] == quote else found[0]
    return found[0] if found[1] in _FOR_LIKE else _ESCAPES[found[1]]


def _together(terms: list[Term], *, every: bool) -> Term:
    return Every(tuple(terms)) if every else Some(tuple(terms))


def _comparison(value: "_Of", sign: str, literal: Literal | None, *, negated: bool) -> Term:
    if literal is None:
        return Null(value.column, negated, value.of) if sign == "<=>" else NEVER
    if sign != "<=>":
        return Comparison(value.column, _CONTRARY[sign] if negated else sign, literal, value.of)
    if negated:
        null = Null(value.column, negated=False, of=value.of)
        return Some((Comparison(value.column, "!=", literal, value.of), null))
    return Comparison(value.column, "=", literal, value.of)
