"""The metastore's own filters, as Hive and Spark send them for partitions.

    filter  = all { "or" all }                                   keywords in any case
    all     = term { "and" term }
    term    = "(" filter ")"
            | column ( "=" | "!=" | "<>" | "<" | "<=" | ">" | ">=" ) literal
            | literal ( … ) column
            | column "like" text
            | ( column | "(" column ")" ) [ "not" ] "in" "(" literal { "," literal } ")"
            | column [ "not" ] "between" literal "and" literal
    literal = 12 | -3 | "text" | 'text' | 2026-11-01

As in Hive 2.3, tried on it: text columns take quoted literals, integer columns take numbers and
compare as such ("02" is 2), dates take either form; in texts nothing is escaped; in a ``like``
``.*`` stands for anything, ``.`` for one character, and all else for itself. Differences, where
Spark's answer is given: __HIVE_DEFAULT_PARTITION__ is NULL in text columns too, and never matches;
a CHAR is compared with its spaces; other types, and numbers in quotes, are those of operands.py.
"""

import re
from typing import Final

from .terms import Among, Comparison, Every, Like, Literal, Some, Term
from .tokens import Tokens

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})(?!\w)
    | (?P<number>-?[0-9]{1,18})(?!\w)
    | (?P<word>\w+)
    | (?P<sign><=|>=|<>|!=|[=<>(),])
    | (?P<end>$)
    )""",
    re.VERBOSE | re.DOTALL,
)
_KEYWORDS: Final = frozenset({"and", "or", "not", "in", "like", "between"})
_SIGNS: Final = {sign: sign for sign in ("=", "!=", "<", "<=", ">", ">=")} | {"<>": "!="}
_REVERSED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LITERALS: Final = frozenset({"text", "date", "number"})


def parse_hive(text: str) -> Term:
    """Read a filter of the metastore's.

    Raises:
        UsageError: ``text`` is not a valid filter; says where, and what was expected there.
    """
    return _Parser(text).whole()


class _Parser:
    """Recursive descent over tokens; each method reads what it is named for and moves past it."""

    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text, _TOKEN, _KEYWORDS)

    def whole(self) -> Term:
        term = self._some()
        self._tokens.expect("end", '"and", "or" or the end')
        return term

    def _some(self) -> Term:
        terms = [self._every()]
        while self._tokens.took("or"):
            terms.append(self._every())
        return terms[0] if len(terms) == 1 else Some(tuple(terms))

    def _every(self) -> Term:
        terms = [self._term()]
        while self._tokens.took("and"):
            terms.append(self._term())
        return terms[0] if len(terms) == 1 else Every(tuple(terms))

    def _term(self) -> Term:
        kind = self._tokens.kind
        if kind == "(":
            return self._parenthesis()
        if kind in _LITERALS:
            literal = self._literal()
            sign = self._sign()
            return Comparison(self._column(), _REVERSED[sign], literal)
        column = self._column()
        negated = self._tokens.took("not")
        if negated or self._tokens.kind in ("in", "between"):
            return self._range(column, negated=negated)
        if self._tokens.took("like"):
            text = self._tokens.expect("text", "a text in quotes").text[1:-1]
            return Like(column, _pieces(text), negated=False)
        sign = self._sign()
        return Comparison(column, sign, self._literal())

    def _parenthesis(self) -> Term:
        self._tokens.expect("(", "")
        if (self._tokens.kind, self._tokens.kind_after) == ("word", ")"):
            column = self._column()
            self._tokens.expect(")", "")
            return self._range(column, negated=self._tokens.took("not"))
        self._tokens.enter()
        term = self._some()
        self._tokens.leave()
        self._tokens.expect(")", '")"')
        return term

    def _range(self, column: str, *, negated: bool) -> Term:
        if self._tokens.took("between"):
            low = self._literal()
            self._tokens.expect("and", '"and"')
            high = self._literal()
            if negated:
                return Some((Comparison(column, "<", low), Comparison(column, ">", high)))
            return Every((Comparison(column, ">=", low), Comparison(column, "<=", high)))
        self._tokens.expect("in", '"in" or "between"')
        self._tokens.expect("(", '"("')
        literals = [self._literal()]
        while self._tokens.took(","):
            literals.append(self._literal())
        self._tokens.expect(")", '"," or ")"')
        return Among(column, tuple(literals), negated)

    def _column(self) -> str:
        return self._tokens.expect("word", "a column").text

    def _sign(self) -> str:
        if self._tokens.kind not in _SIGNS:
            raise self._tokens.wrong("a comparison as = or <")
        return _SIGNS[self._tokens.take().kind]

    def _literal(self) -> Literal:
        if self._tokens.kind not in _LITERALS:
            raise self._tokens.wrong("a number, or a text in quotes")
        token = self._tokens.take()
        if token.kind == "number":
            return int(token.text)
        return token.text[1:-1] if token.kind == "text" else token.text


def _pieces(like: str) -> tuple[tuple[str, ...], ...]:
    """Return the pieces of a ``like`` of the metastore's."""
    return tuple(tuple(piece.split(".")) for piece in like.split(".*"))
