"""Selector: which partitions of a table are meant; one value from the public call to catalogd.

    TABLE                   none: the table's own entry alone
    BLOCKS                  all
    FILTER  "ds > '1'"      those whose values match a filter
    NAMES   ds=1, ds=2      those of these names
    VALUES  "1", ""         those that begin with these values; "" means any

``matches`` and ``ranges`` need the table's partition columns: ``ranges`` returns the names to look
at, ``matches`` the test for the partitions found there.

Filters are written as Hive and Spark ask for partitions:

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
``.*`` stands for anything, ``.`` for one character, and all else for itself. One difference:
__HIVE_DEFAULT_PARTITION__ is NULL in text columns too, and never matches.

    ds = '2026-11-01' and hour > 3   ──▶   ds=2026-11-01/hour=…

Ranges may be too wide, and never are too narrow. Names are escaped, and so not quite in the order
of their values: where a value has a character that is escaped, the name has ``%``. So a comparison
covers its own range, the few names that differ from its literal by a ``%`` or a ``/``, and
its range ends where its literal has such a character itself.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import takewhile
from operator import eq, ge, gt, le, lt, ne
from typing import Final, NamedTuple, TypeAlias

from ..errors import UsageError
from .names import (
    NULL_PARTITION,
    check_partition_name,
    partition_name,
    partition_values,
)
from .tables import Column

LENGTH_MAX: Final = 1 << 20  # characters of a filter; Spark sends lists of thousands of values
DEPTH_MAX: Final = 100  # of parentheses; Spark nests one for each "or"
PATTERN_MAX: Final = 4096  # characters of a like's text, which is compiled
RANGES_MAX: Final = 4096  # beyond, looking at every block is as cheap
AFTER_ALL: Final = "\U0010ffff"  # sorts behind every character that a name has

KeyRange: TypeAlias = tuple[str, str]  # from this name on, below that one
Literal: TypeAlias = int | str

Matches: TypeAlias = Callable[[str], bool]
"""Whether a partition is selected, by its name."""

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
_DATE: Final = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INTEGER: Final = re.compile("[+-]?[0-9]{1,18}")
_KEYWORDS: Final = frozenset({"and", "or", "not", "in", "like", "between"})
_COMPARE: Final = {"=": eq, "!=": ne, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_REVERSED: Final = {"=": "=", "!=": "!=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
TEXTS: Final = frozenset({"string", "varchar", "char", "date"})
_LITERALS: Final = frozenset({"text", "date", "number"})
_SHOWN_MAX: Final = 200  # characters of a filter in an error


@dataclass(frozen=True, slots=True)
class Comparison:
    """``column sign literal``; ``sign`` is one of = != <> < <= > >= and like."""

    column: str
    sign: str
    literal: Literal


@dataclass(frozen=True, slots=True)
class Among:
    """``column in (literals)``, or the contrary."""

    column: str
    literals: tuple[Literal, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Every:
    """All of ``terms`` hold."""

    terms: "tuple[Term, ...]"


@dataclass(frozen=True, slots=True)
class Some:
    """One of ``terms`` holds."""

    terms: "tuple[Term, ...]"


Term: TypeAlias = Comparison | Among | Every | Some


class SelectorKind(IntEnum):
    """How partitions are selected, as a Pull says it."""

    TABLE = 0  # the table's own entry
    BLOCKS = 1  # the table and all its blocks
    FILTER = 2  # the table and the blocks in which partitions match a filter
    NAMES = 3  # the table and the blocks in which partitions of these names may be
    VALUES = 4  # the table and the blocks of partitions that have these values


@dataclass(frozen=True, slots=True)
class Selector:
    """Which partitions; made by the functions below, which check what a caller passes.

    ``names`` are sorted and distinct. ``values`` are those of the first partition columns.
    """

    kind: SelectorKind
    filter: str = ""
    names: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    parsed: Term | None = field(default=None, compare=False, repr=False)  # of ``filter``

    @property
    def length(self) -> int:
        """How many characters say what is selected, with one between two of them."""
        return len("\0".join((self.filter, *self.names, *self.values)))

    def unparsed(self) -> "Selector":
        """Return the same selector without the parsed filter, to be remembered for long."""
        return self if self.parsed is None else replace(self, parsed=None)

    def matches(self, columns: Sequence[Column]) -> Matches | None:
        """Return a test of names; None if every partition is selected.

        Raises:
            UsageError: the filter is none, or not one for a table with these ``columns``.
        """
        match self.kind:
            case SelectorKind.FILTER:
                places = {column.name.lower(): at for at, column in enumerate(columns)}
                predicate = _bound(self._term(), places, columns)
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
            UsageError: the filter is none, or there are more values than ``columns``.
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
        return _parsed(self.filter) if self.parsed is None else self.parsed


TABLE_ONLY: Final = Selector(SelectorKind.TABLE)
ALL: Final = Selector(SelectorKind.BLOCKS)


def by_filter(text: str) -> Selector:
    """Select the partitions whose values match the filter ``text``.

    Raises:
        UsageError: ``text`` is none.
    """
    return Selector(SelectorKind.FILTER, filter=text, parsed=_parsed(text))


def by_names(names: Iterable[str]) -> Selector:
    """Select the partitions of these ``names``.

    Raises:
        UsageError: one is no name of a partition.
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


def _parsed(text: str) -> Term:
    """Read a filter; raises UsageError with the place where ``text`` is none."""
    if len(text) > LENGTH_MAX:
        raise UsageError(f"a filter of {len(text)} characters, {LENGTH_MAX} allowed")
    return _Parser(text).whole()


class _Token(NamedTuple):
    kind: str  # text, date, number, word, end; a keyword or a sign is its own kind
    text: str
    at: int


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    pos = 0
    while not tokens or tokens[-1].kind != "end":
        found = _TOKEN.match(text, pos)
        if found is None:
            raise UsageError(f"filter {_shown(text)} has at {pos} what no filter has")
        kind = found.lastgroup or "end"
        token = found[kind]
        pos = found.end()
        if kind == "sign" or (kind == "word" and token.lower() in _KEYWORDS):
            kind = token.lower()
        tokens.append(_Token(kind, token, pos - len(token)))
    return tokens


class _Parser:
    """Recursive descent over tokens; each method reads what it is named for and moves past it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0

    def whole(self) -> Term:
        term = self._some()
        self._expect("end", '"and", "or" or the end')
        return term

    def _some(self) -> Term:
        terms = [self._every()]
        while self._took("or"):
            terms.append(self._every())
        return terms[0] if len(terms) == 1 else Some(tuple(terms))

    def _every(self) -> Term:
        terms = [self._term()]
        while self._took("and"):
            terms.append(self._term())
        return terms[0] if len(terms) == 1 else Every(tuple(terms))

    def _term(self) -> Term:
        kind = self._tokens[self._at].kind
        if kind == "(":
            return self._parenthesis()
        if kind in _LITERALS:
            literal = self._literal()
            sign = self._sign()
            return Comparison(self._column(), _REVERSED[sign], literal)
        column = self._column()
        negated = self._took("not")
        if negated or self._tokens[self._at].kind in ("in", "between"):
            return self._range(column, negated=negated)
        if self._took("like"):
            return Comparison(column, "like", self._expect("text", "a text in quotes").text[1:-1])
        sign = self._sign()
        return Comparison(column, sign, self._literal())

    def _parenthesis(self) -> Term:
        self._expect("(", "")
        inner, after = self._tokens[self._at].kind, self._tokens[self._at : self._at + 2][-1].kind
        if (inner, after) == ("word", ")"):
            column = self._column()
            self._expect(")", "")
            return self._range(column, negated=self._took("not"))
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise UsageError(f"filter {_shown(self._text)} nests deeper than {DEPTH_MAX}")
        term = self._some()
        self._depth -= 1
        self._expect(")", '")"')
        return term

    def _range(self, column: str, *, negated: bool) -> Term:
        if self._took("between"):
            low = self._literal()
            self._expect("and", '"and"')
            high = self._literal()
            if negated:
                return Some((Comparison(column, "<", low), Comparison(column, ">", high)))
            return Every((Comparison(column, ">=", low), Comparison(column, "<=", high)))
        self._expect("in", '"in" or "between"')
        self._expect("(", '"("')
        literals = [self._literal()]
        while self._took(","):
            literals.append(self._literal())
        self._expect(")", '"," or ")"')
        return Among(column, tuple(literals), negated)

    def _column(self) -> str:
        return self._expect("word", "a column").text

    def _sign(self) -> str:
        token = self._tokens[self._at]
        if token.kind not in _COMPARE:
            raise self._wrong("a comparison as = or <")
        self._at += 1
        return token.kind

    def _literal(self) -> Literal:
        token = self._tokens[self._at]
        if token.kind not in _LITERALS:
            raise self._wrong("a number, or a text in quotes")
        self._at += 1
        if token.kind == "number":
            return int(token.text)
        return token.text[1:-1] if token.kind == "text" else token.text

    def _took(self, kind: str) -> bool:
        if self._tokens[self._at].kind != kind:
            return False
        self._at += 1
        return True

    def _expect(self, kind: str, wanted: str) -> _Token:
        token = self._tokens[self._at]
        if not self._took(kind):
            raise self._wrong(wanted)
        return token

    def _wrong(self, wanted: str) -> UsageError:
        token = self._tokens[self._at]
        found = "it ends" if token.kind == "end" else f"{_shown(token.text)} stands"
        return UsageError(f"filter {_shown(self._text)}: at {token.at} {found}, not {wanted}")


def _bound(term: Term, places: Mapping[str, int], columns: Sequence[Column]) -> Predicate:
    """Return ``term`` as a predicate; ``places`` are the columns' by lower-case name."""
    if isinstance(term, Every | Some):
        inner = [_bound(part, places, columns) for part in term.terms]
        if isinstance(term, Every):
            return lambda values: all(holds(values) for holds in inner)
        return lambda values: any(holds(values) for holds in inner)
    at = places.get(term.column.lower())
    if at is None:
        known = ", ".join(column.name for column in columns) or "none"
        raise UsageError(f"{term.column} is no partition column; these are: {known}")
    place, name = at, term.column
    kind = columns[at].type.partition("(")[0].lower()
    is_number, is_date = kind in _INTEGERS, kind == "date"
    if not is_number and kind not in TEXTS:
        raise UsageError(f"no filter works on {name}, which is of type {kind}")
    if isinstance(term, Comparison) and term.sign == "like":
        if is_number or is_date:
            raise UsageError(
                f"{name} is a {'date' if is_date else 'number'}, which is like no text"
            )
        like = _pattern(str(term.literal))
        return lambda values: (
            values[place] != NULL_PARTITION and like.fullmatch(values[place]) is not None
        )
    if is_number:
        holds = _test(term, lambda literal: _number(literal, name))
        return lambda values: (
            _INTEGER.fullmatch(values[place]) is not None and holds(int(values[place]))
        )
    holds = _test(term, lambda literal: _quoted(literal, name, is_date=is_date))
    return lambda values: values[place] != NULL_PARTITION and holds(values[place])


def _test(
    term: Comparison | Among, read: Callable[[Literal], Literal]
) -> Callable[[Literal], bool]:
    """Return ``term`` as a test of one value; ``read`` checks its literals."""
    if isinstance(term, Among):
        wanted, negated = frozenset(map(read, term.literals)), term.negated
        return lambda value: (value in wanted) is not negated
    compare, literal = _COMPARE[term.sign], read(term.literal)
    return lambda value: compare(value, literal)


def _number(literal: Literal, column: str) -> int:
    if type(literal) is not int:
        raise UsageError(f"{column} is a number, {literal!r} is not: write it without quotes")
    return literal


def _quoted(literal: Literal, column: str, *, is_date: bool) -> str:
    if type(literal) is not str:
        raise UsageError(f"{column} is no number, {literal} is one: write it in quotes")
    if is_date and not _DATE.fullmatch(literal):
        raise UsageError(f"{column} is a date, {literal!r} is not: write it as 2026-11-01")
    return literal


def _pattern(like: str) -> re.Pattern[str]:
    """Return what ``like`` matches; each piece is sought once, so no text takes long."""
    if len(like) > PATTERN_MAX:
        raise UsageError(f"a like of {len(like)} characters, {PATTERN_MAX} allowed")
    pieces = [
        "".join(["." if char == "." else re.escape(char) for char in piece])
        for piece in like.split(".*")
    ]
    first, *middle, last = pieces if len(pieces) > 1 else (*pieces, "")
    sought = "".join([f"(?>.*?{piece})" for piece in middle])
    gap = ".*" if len(pieces) > 1 else ""
    return re.compile(f"{first}{sought}{gap}{last}", re.DOTALL)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…")


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
