"""Terms: a filter of partitions as a tree, whatever language it was written in.

A term has no ``not``: it stands in the terms below it, where NULL leaves both a comparison and its
contrary false.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from .operands import Typed

Literal: TypeAlias = int | str | Typed
Functions: TypeAlias = tuple[str, ...]  # of a column, the innermost first; the metastore has none


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


def terms_in(term: Term) -> Iterator[Term]:
    """Yield ``term`` and the terms in it."""
    yield term
    if isinstance(term, Every | Some):
        for part in term.terms:
            yield from terms_in(part)
