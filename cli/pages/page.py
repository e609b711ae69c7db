"""A page of a daemon: grids and figures under a title, read at each request."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from .figure import Bars
from .grid import Grid, Query

NEEDS_SECRET: Final = "once the pages need a password or a token"


Part = Grid | Bars


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page.

    ``answers``: the question that it answers, in one line. ``read``: the parts by their headings,
    given the rest of the path and the query; raises UsageError where there is no such thing.
    ``is_private``: shows what the catalog holds, or what was logged, so that it is shown only where
    a reader has to give a secret.
    """

    title: str
    answers: str
    read: Callable[[str, Query], Mapping[str, Part]]
    is_private: bool = False


def grid_page(
    title: str, answers: str, read: Callable[[str, Query], Grid], *, is_private: bool = False
) -> Page:
    """Return a page of one grid, without a heading of its own."""
    return Page(
        title=title,
        answers=answers,
        read=lambda rest, query: {"": read(rest, query)},
        is_private=is_private,
    )
