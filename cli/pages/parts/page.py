"""A page of a daemon: grids and figures under a title, read at each request."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from .figure import Bars
from .grid import Grid, Query

NEEDS_SECRET: Final = "once the pages need a password or a token"


Peers = Callable[[], Mapping[str, str]]
"""Returns the front pages of other daemons, by their names."""
Part = Grid | Bars
Parts = Mapping[str, Part]
"""The parts of a page by their headings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page.

    ``answers``: the question that the page answers, in one line. ``read``: returns the parts by
    their headings, given the rest of the path and the query; it may wait for another process, and
    raises UsageError if the named object does not exist. ``is_private``: the page has names of the
    catalog or lines of the log, so that it is shown only if readers have to give a secret.
    """

    title: str
    answers: str
    read: Callable[[str, Query], Parts | Awaitable[Parts]]
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
