"""Filters: the partitions that a filter selects by their values; the filters of the metastore.

    filter text ──parse──▶ Term ──bind to a table's columns──▶ Predicate of a partition's values

What is NULL, or of another type than its column, matches no comparison, as in SQL. A term has no
``not``: it stands in the terms below it, where NULL leaves both a comparison and its contrary
false. The filters of SQL, as Spark's users write them: ``sql_filters.py``.

The metastore's own filters, as Hive and Spark send it for partitions, and as messages carry them:

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Final, NamedTuple, TypeAlias

from ..errors import UsageError
from .operands import (
    CHAR,
    NULL,
    Operand,
    Typed,
    Value,
    applied,
    beside,
    beside_each,
    column_operand,
    texts,
)
from .tables import Column

LENGTH_MAX: Final = 1 << 20  # characters of a filter; Spark sends lists of thousands of values
DEPTH_MAX: Final = 100  # of parentheses; Spark nests one for each "or"
SHOWN_MAX: Final = 20  # characters of a filter from where it is not understood
PATTERN_MAX: Final = 4096  # characters of a like's text, which is compiled

Literal: TypeAlias = int | str | Typed
Functions: TypeAlias = tuple[str, ...]  # of a column, the innermost first; the metastore has none

Predicate: TypeAlias = Callable[[Sequence[str]], bool]
"""Whether a partition matches, by its values."""

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
_COMPARE: Final = {"=": eq, "!=": ne, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_REVERSED: Final = {"=": "=", "!=": "!=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LITERALS: Final = frozenset({"text", "date", "number"})
_SHOWN_MAX: Final = 200  # characters of a filter in an error


@dataclass(frozen=True, slots=True)
class Comparison:
    """``column sign literal``; ``sign`` is = != <> < <= > or >=."""

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

    A piece is characters, of which "" is any one.
    """

    column: str
    pieces: tuple[tuple[str, ...], ...]  # at least one
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


def parse(text: str) -> Term:
    """Read a filter of the metastore's.

    Raises:
        UsageError: ``text`` is not a valid filter; says where, and what was expected there.
    """
    return _Parser(text).whole()


class Token(NamedTuple):
    """``kind``: text, date, number, word, end; a keyword or a sign is its own kind."""

    kind: str
    text: str
    at: int


class Tokens:
    """The words of a filter, and how far it has been read."""

    def __init__(self, text: str, pattern: re.Pattern[str], keywords: frozenset[str]) -> None:
        """``pattern`` matches any token, in a group of its kind; ``end`` at the end.

        Raises:
            UsageError: ``text`` is too long, or has what ``pattern`` does not match.
        """
        if len(text) > LENGTH_MAX:
            raise UsageError(f"a filter of {len(text)} characters, {LENGTH_MAX} allowed")
        self._text = text
        self._tokens = list(self._split(pattern, keywords))
        self._at = 0
        self._depth = 0

    @property
    def kind(self) -> str:
        """The kind of the next token."""
        return self._tokens[self._at].kind

    @property
    def kind_after(self) -> str:
        """The kind of the token after the next token."""
        return self._tokens[self._at : self._at + 2][-1].kind

    def is_word(self, word: str) -> bool:
        """Tell whether the next token is ``word``, in any case, and no keyword."""
        token = self._tokens[self._at]
        return token.kind == "word" and token.text.lower() == word

    def take(self) -> Token:
        """Return the next token, and move past it."""
        self._at += 1
        return self._tokens[self._at - 1]

    def took(self, kind: str) -> bool:
        """Move past the next token if it is of this kind; tell whether it was."""
        if self.kind != kind:
            return False
        self._at += 1
        return True

    def expect(self, kind: str, wanted: str) -> Token:
        """Return the next token, which is of this kind, and move past it."""
        if self.kind != kind:
            raise self.wrong(wanted)
        return self.take()

    def enter(self) -> None:
        """Note that one more parenthesis is open."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise UsageError(f"filter {shown(self._text)} nests deeper than {DEPTH_MAX}")

    def leave(self) -> None:
        """Note that a parenthesis is closed."""
        self._depth -= 1

    def wrong(self, wanted: str, *, back: int = 0) -> UsageError:
        """Return the error that at the next token, or ``back`` before it, ``wanted`` is missing."""
        token = self._tokens[self._at - back]
        found = "it ends" if token.kind == "end" else f"{shown(token.text)} stands"
        return UsageError(f"filter {shown(self._text)}: at {token.at} {found}, not {wanted}")

    def _split(self, pattern: re.Pattern[str], keywords: frozenset[str]) -> Iterator[Token]:
        pos, kind = 0, ""
        while kind != "end":
            found = pattern.match(self._text, pos)
            if found is None:
                rest = self._text[pos:].lstrip()
                where = f"at {len(self._text) - len(rest)}: {shown(rest[:SHOWN_MAX])}"
                raise UsageError(f"filter {shown(self._text)} is not understood {where}")
            kind = found.lastgroup or "end"
            token, pos = found[kind], found.end()
            if kind == "sign" or (kind == "word" and token.lower() in keywords):
                kind = token.lower()
            yield Token(kind, token, pos - len(token))


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
        if self._tokens.kind not in _COMPARE:
            raise self._tokens.wrong("a comparison as = or <")
        return self._tokens.take().kind

    def _literal(self) -> Literal:
        if self._tokens.kind not in _LITERALS:
            raise self._tokens.wrong("a number, or a text in quotes")
        token = self._tokens.take()
        if token.kind == "number":
            return int(token.text)
        return token.text[1:-1] if token.kind == "text" else token.text


def bind(term: Term, columns: Sequence[Column]) -> Predicate:
    """Return ``term`` as a test of the values of a table's partition ``columns``.

    Raises:
        UsageError: it names another column, or compares one with a literal of another type.
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
    others = [one for one in found if one[0] is not None]

    def among(value: Value) -> bool:
        if value in plain:
            return not negated
        changed = [(change(value), literal) for change, literal in others if change is not None]
        if any(one == literal for one, literal in changed):
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


def _pieces(like: str) -> tuple[tuple[str, ...], ...]:
    """Return the pieces of a ``like`` of the metastore's."""
    return tuple(tuple("" if char == "." else char for char in piece) for piece in like.split(".*"))


def _pattern(pieces: Sequence[Sequence[str]]) -> re.Pattern[str]:
    """Return what ``pieces`` match; each is sought once, so no text takes long."""
    length = sum(map(len, pieces)) + len(pieces) - 1
    if length > PATTERN_MAX:
        raise UsageError(f"a like of {length} characters, {PATTERN_MAX} allowed")
    texts = ["".join([re.escape(char) or "." for char in piece]) for piece in pieces]
    first, *middle, last = texts if len(texts) > 1 else (*texts, "")
    sought = "".join([f"(?=(?P<p{at}>.*?{piece}))(?P=p{at})" for at, piece in enumerate(middle)])
    gap = ".*" if len(texts) > 1 else ""
    return re.compile(f"{first}{sought}{gap}{last}", re.DOTALL)


def shown(text: str) -> str:
    """Return ``text`` as an error shows it."""
    return repr(text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…")
