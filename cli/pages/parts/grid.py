"""A grid: one table of facts, as a page for people and as a document for programs.

A grid has the columns of a daemon's table. A page shows ROWS_MAX rows at a time, and the document
all rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final
from urllib.parse import urlencode

from ....topics.sizes import size
from ....topics.wire.messages.fields import Cell
from ...terminal.lists import in_ms, span
from .document import link

ROWS_MAX: Final = 200  # of a page: 1,000 drivers are five
NUMBERS_AS_THEY_ARE: Final = ("topic", "pid", "port", "version", "floor", "hub", "epoch", "start")
BYTES: Final = "_bytes"
TIME: Final = "time"  # a column of times: a date is not cut at its hyphens
COLUMNS_MAX: Final = 2  # that fit a phone; with more columns, a row is a paragraph there
PROSE_SPACES: Final = 4  # a text with as many is prose, which must not be a word a line on a phone
FACTS: Final = ("name", "value")  # the columns of a grid that is about one thing
Query = Mapping[str, str]
"""The query of an address, by name; if a name is there twice, its first value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The content of one page.

    ``about``: one sentence. ``links``: by column, a function that returns the address of a cell's
    link, given the row by column; empty: no link. ``more``: other addresses, by the texts of their
    links. ``after``: the query of the next rows, if these are not all.
    """

    about: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    links: Mapping[str, Callable[[Mapping[str, Cell]], str]] = field(default_factory=dict)
    more: Mapping[str, str] = field(default_factory=dict)
    empty: str = "none"
    after: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the rows, each by its columns."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"rows": rows, **({"after": dict(self.after)} if self.after else {})}

    def html(self, path: str, query: Query) -> str:
        """Return the HTML under the heading of the page ``path``."""
        first = _whole(query.get("from", ""))
        if first >= len(self.rows):  # it is for another grid of the page, or rows have gone
            first = 0
        rows = self.rows[first : first + ROWS_MAX]
        last = first + len(rows)
        parts = [f"<p>{escape(self.about)}</p>"]
        if self.more:
            parts.append(f"<p>{_links(self.more)}</p>")
        if not rows:
            parts.append(f"<p>{escape(self.empty)}</p>")
            if self.after:
                on = _address(path, query, {"from": "0", **self.after})
                parts.append(f"<p>{_links({'go on': on})}</p>")
            return "".join(parts)
        if self.columns == FACTS:
            return "".join((*parts, self._facts_html(rows)))
        kinds = [self._class(at) for at in range(len(self.columns))]
        head = "".join(
            f"<th{kind}>{escape(in_words(name))}</th>"
            for name, kind in zip(self.columns, kinds, strict=True)
        )
        body = "".join(f"<tr>{self._cells(row, kinds)}</tr>" for row in rows)
        many = " many" if len(self.columns) > COLUMNS_MAX else ""
        parts.append(
            f'<div class="wide"><table class="grid{many}"><tr>{head}</tr>{body}</table></div>'
        )
        pages = {}
        if first:
            pages["previous"] = _address(path, query, {"from": str(max(first - ROWS_MAX, 0))})
        if last < len(self.rows):
            pages["next"] = _address(path, query, {"from": str(last)})
        elif self.after:
            pages["next"] = _address(path, query, {"from": "0", **self.after})
        if pages:
            of = "" if self.after else f" of {len(self.rows):,}"
            parts.append(f"<p>{first + 1:,} to {last:,}{of} · {_links(pages)}</p>")
        return "".join(parts)

    def _facts_html(self, rows: Sequence[Sequence[Cell]]) -> str:
        """Return rows of names and values, which need no heads of columns."""
        lines = (
            f"<tr><th>{escape(in_words(str(row[0])))}</th>"
            f"<td>{self._cell('value', dict(zip(self.columns, row, strict=True)))}</td></tr>"
            for row in rows
        )
        return f'<table class="brief">{"".join(lines)}</table>'

    def _class(self, at: int) -> str:
        """Return the class of a column's cells: numbers are aligned right, prose is wide."""
        if self.columns[at] == TIME:
            return ' class="time"'
        values = [row[at] for row in self.rows]
        is_number = all(type(value) in (int, float) for value in values if value is not None)
        if is_number and any(value is not None for value in values):
            return ' class="right"'
        is_prose = any(isinstance(one, str) and one.count(" ") >= PROSE_SPACES for one in values)
        return ' class="prose"' if is_prose else ""

    def _cells(self, row: Sequence[Cell], kinds: Sequence[str]) -> str:
        """Return the cells of a row; if there are many, each has its column's name, for a phone."""
        by_column = dict(zip(self.columns, row, strict=True))
        is_many = len(self.columns) > COLUMNS_MAX
        return "".join(
            f"<td{kind}{self._head(name, by_column) if is_many else ''}>"
            f"{self._cell(name, by_column)}</td>"
            for name, kind in zip(self.columns, kinds, strict=True)
        )

    def _head(self, name: str, row: Mapping[str, Cell]) -> str:
        """Return the column's name for a cell, unless the cell is empty or the first of its row."""
        if name == self.columns[0] or row[name] in (None, ""):
            return ""
        return f' data-head="{escape(in_words(name))} "'

    def _cell(self, name: str, row: Mapping[str, Cell]) -> str:
        column = str(row["name"]) if self.columns == FACTS and name == "value" else name
        return link(self.links[name](row) if name in self.links else "", shown(column, row[name]))


def in_words(column: str) -> str:
    """Return a column's name as its head."""
    return column.removesuffix(BYTES).removesuffix("_s").removesuffix("_ms").replace("_", " ")


def shown(column: str, value: Cell) -> str:
    """Return a cell's text; sizes and times have units."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    if column.endswith(BYTES):
        return size(int(value))
    if column.endswith("_s"):
        return span(value)
    if column.endswith("_ms"):
        return in_ms(value)
    if isinstance(value, float) or column in NUMBERS_AS_THEY_ARE:
        return str(value)
    return f"{value:,}"


def _links(addresses: Mapping[str, str]) -> str:
    return " · ".join(link(address, text) for text, address in addresses.items())


def _address(path: str, query: Query, changed: Mapping[str, str]) -> str:
    return f"{path}?{urlencode({**query, **changed})}"


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
