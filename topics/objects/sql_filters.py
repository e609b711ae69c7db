"""The filters of SQL: conditions on partition columns, as Spark's users write them after WHERE.

    filter  = all { "or" all }                                   keywords in any case
    all     = not { "and" not }
    not     = "not" not | "(" filter ")" | test
    test    = column ( "=" | "==" | "<=>" | "!=" | "<>" | "<" | "<=" | ">" | ">=" ) literal
            | literal ( … ) column
            | column [ "not" ] "like" text [ "escape" text ]
            | column [ "not" ] "in" "(" literal { "," literal } ")"
            | column [ "not" ] "between" literal "and" literal
            | column "is" [ "not" ] "null"   |   column "<=>" "null"
    column  = name | `name` | "(" column ")"
    literal = 12 | -3 | 'text' | "text" | date '2026-11-01'

As in Spark: in a ``like`` ``%`` is anything and ``_`` one character, and behind a backslash, or the
character that ``escape`` names, they stand for themselves; a quote is doubled in a text, or stands
behind a backslash; only ``is null`` and ``<=>`` find NULL. Whatever else SQL knows is refused with
its place, and so is what means something else than it seems to: ``d = 2026-11-01`` subtracts.

``in_hive`` writes a filter in the metastore's own form, where that can say it.
"""

import re
from typing import Final

from ..errors import UsageError
from .filters import Among, Comparison, Every, Like, Literal, Null, Some, Term, Tokens, parse

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<text>"(?:[^"\\]|\\.|"")*"|'(?:[^'\\]|\\.|'')*')
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<subtraction>[0-9]{4}-[0-9]{1,2}-[0-9]{1,2})(?!\w)
    | (?P<number>-?[0-9]{1,18})(?!\w)
    | (?P<word>\w+)
    | (?P<sign><=>|<=|>=|<>|!=|==|[=<>(),])
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
_DATE: Final = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_IN_TEXT: Final = re.compile(r"\\(.)|(['\"])\2", re.DOTALL)
_LITERAL: Final = "a number, a text in quotes, or date '2026-11-01'"


def parse_sql(text: str) -> Term:
    """Read a filter of SQL.

    Raises:
        UsageError: ``text`` is not a valid filter; says where, and what was expected there.
    """
    return _Parser(text).whole()


def in_hive(term: Term) -> str | None:
    """Return ``term`` as a filter of the metastore's; None if that has no word for it."""
    try:
        text = _written(term)
        return text if parse(text) == term else None
    except UsageError:
        return None


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
        while self._tokens.took("not"):
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
        if self._is_literal():
            literal = self._literal()
            sign = self._sign()
            return _comparison(self._column(), _REVERSED.get(sign, sign), literal, negated=negated)
        return self._test_of(self._column(), negated=negated)

    def _test_of(self, column: str, *, negated: bool) -> Term:
        tokens = self._tokens
        if tokens.took("is"):
            negated = tokens.took("not") is not negated
            tokens.expect("null", '"null", or "not null"')
            return Null(column, negated)
        if tokens.took("not"):
            if tokens.kind not in ("in", "between", "like"):
                raise tokens.wrong('"in", "between" or "like"')
            negated = not negated
        if tokens.took("like"):
            return Like(column, self._pieces(), negated)
        if tokens.took("in"):
            return Among(column, self._list(), negated)
        if tokens.took("between"):
            return self._between(column, negated=negated)
        sign = self._sign()
        if sign == "<=>" and tokens.took("null"):
            return Null(column, negated)
        return _comparison(column, sign, self._literal(), negated=negated)

    def _between(self, column: str, *, negated: bool) -> Term:
        low = self._literal()
        self._tokens.expect("and", '"and"')
        high = self._literal()
        above = _comparison(column, ">=", low, negated=negated)
        below = _comparison(column, "<=", high, negated=negated)
        return _together([above, below], every=not negated)

    def _list(self) -> tuple[Literal, ...]:
        self._tokens.expect("(", '"("')
        literals = [self._literal()]
        while self._tokens.took(","):
            literals.append(self._literal())
        self._tokens.expect(")", '"," or ")"')
        return tuple(literals)

    def _pieces(self) -> tuple[tuple[str, ...], ...]:
        """Read the text of a ``like``, and its ``escape``."""
        text, escape = self._text(), "\\"
        if self._tokens.took("escape"):
            escape = self._text()
            if len(escape) != 1:
                raise self._tokens.wrong("one character in quotes", back=1)
        pieces: list[list[str]] = [[]]
        chars = iter(text)
        for char in chars:
            if char == escape:
                found = next(chars, "")
                if found not in (*_FOR_LIKE, escape):
                    raise UsageError(f"in like {text!r} {escape!r} is not before %, _ or itself")
                pieces[-1].append(found)
            elif char == "%":
                pieces.append([])
            else:
                pieces[-1].append("" if char == "_" else char)
        return tuple(map(tuple, pieces))

    def _is_column(self) -> bool:
        return self._tokens.kind in ("word", "quoted")

    def _column(self) -> str:
        if not self._is_column():
            raise self._tokens.wrong("a column")
        token = self._tokens.take()
        return token.text if token.kind == "word" else token.text[1:-1].replace("``", "`")

    def _sign(self) -> str:
        if self._tokens.kind not in _COMPARE:
            raise self._tokens.wrong('a comparison, as = or "like"')
        return _COMPARE[self._tokens.take().kind]

    def _is_date(self) -> bool:
        """Tell whether ``date '…'`` follows: a column may be called so, too."""
        return (self._tokens.kind_after == "text") and self._tokens.is_word("date")

    def _is_literal(self) -> bool:
        return self._tokens.kind in ("text", "number", "subtraction") or self._is_date()

    def _literal(self) -> Literal:
        if self._tokens.kind == "null":
            raise self._tokens.wrong(f'{_LITERAL}: "is null" finds NULL')
        if self._tokens.kind == "subtraction":
            raise self._tokens.wrong(f"{_LITERAL}: this subtracts")
        if self._is_date():
            self._tokens.take()
            found = self._text()
            if not _DATE.fullmatch(found):
                raise self._tokens.wrong("a date as '2026-11-01'", back=1)
            return found
        if self._tokens.kind == "number":
            return int(self._tokens.take().text)
        return self._text(_LITERAL)

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


def _comparison(column: str, sign: str, literal: Literal, *, negated: bool) -> Term:
    if sign != "<=>":
        return Comparison(column, _CONTRARY[sign] if negated else sign, literal)
    if negated:
        return Some((Comparison(column, "!=", literal), Null(column, negated=False)))
    return Comparison(column, "=", literal)


def _written(term: Term) -> str:
    """Return ``term`` as the metastore writes it, as far as it can.

    Raises:
        UsageError: it has no word for it.
    """
    match term:
        case Every(terms=terms) | Some(terms=terms):
            word = " and " if isinstance(term, Every) else " or "
            inner = [(_written(one), isinstance(one, Every | Some)) for one in terms]
            return word.join(f"({text})" if compound else text for text, compound in inner)
        case Comparison(column=column, sign=sign, literal=literal):
            return f"{column} {sign} {_quoted(literal)}"
        case Among(column=column, literals=literals, negated=negated):
            listed = ", ".join(map(_quoted, literals))
            return f"{column} {'not in' if negated else 'in'} ({listed})"
        case Like(column=column, pieces=pieces, negated=False):
            text = ".*".join("".join(char or "." for char in piece) for piece in pieces)
            return f"{column} like {_quoted(text)}"
        case _:
            raise UsageError("the metastore's filters have no word for it")


def _quoted(literal: Literal) -> str:
    if isinstance(literal, int):
        return str(literal)
    quote = "'" if "'" not in literal else '"'
    return f"{quote}{literal}{quote}"
