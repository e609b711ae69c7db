"""Lists: a line for each item, as wide as the terminal, the most important columns first; pure.

    records ──columns──▶ widths ──too wide: the least important column is left out──▶ lines

No word is broken and no name cut. Prose, which a column may have, ends with … at the end of a line.
``-o wide`` has every column whole.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:  # the messages take 0.2 s to import
    from ...topics.wire.messages.fields import Cell

Record: TypeAlias = dict[str, Any]

GAP: Final = 2  # characters between two columns
PROSE_CHARS: Final = 44  # of prose: to show as many, less important columns are left out
PROSE_CHARS_MIN: Final = 20  # with room for fewer, the prose itself is left out
ID_CHARS_MIN: Final = 8  # of the beginning of an id, which stands for the id
MORE: Final = "…"
NOTHING: Final = "-"
NO_LIMIT: Final = 1 << 20  # characters of a line that need not fit a terminal


def in_words(cell: Cell) -> str:
    """Return the text of a cell: ``-`` for nothing, ``yes`` and ``no``, numbers short."""
    if cell is None or cell == "":
        return NOTHING
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.3f}".rstrip("0").rstrip(".")
    return str(cell)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The column of the fact ``name`` of each record, headed by ``title``, else by its name.

    ``rank``: if a line is too long, columns of the highest rank are left out first, those of rank 0
    never. ``prose``: the end of its text may be left out. ``wide``: only ``-o wide`` shows it.
    ``text``: returns the text of a cell.
    """

    name: str
    title: str = ""
    rank: int = 1
    prose: bool = False
    wide: bool = False
    text: Callable[[Any], str] = in_words

    @property
    def head(self) -> str:
        """The text above the list."""
        return self.title or self.name

    def cell(self, record: Mapping[str, Any]) -> str:
        """Return the text of its cell for ``record``."""
        value = record.get(self.name)
        return NOTHING if value is None or value == "" else self.text(value)


def listed(
    columns: Sequence[Heading],
    records: Sequence[Mapping[str, Any]],
    *,
    width: int,
    wide: bool = False,
) -> list[str]:
    """Return the heads of the columns, and a line for each record.

    A column that is empty in every record is left out.
    """
    width = NO_LIMIT if wide else width
    shown = [one for one in columns if wide or not one.wide]
    cells = {one: [one.cell(record) for record in records] for one in shown}
    shown = [one for one in shown if not one.rank or any(c != NOTHING for c in cells[one])]
    while _needed(shown, cells) > width and any(one.rank for one in shown):
        shown.remove(max(shown, key=lambda one: (one.rank, shown.index(one))))
    room = width - _needed([one for one in shown if not one.prose], cells) - GAP
    texts = [
        [one.head, *([_cut(c, room) for c in cells[one]] if one.prose else cells[one])]
        for one in shown
    ]
    widths = [max(map(len, column)) for column in texts]
    return [
        (" " * GAP).join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in zip(*texts, strict=True)
    ]


def described(pairs: Iterable[tuple[str, Cell]], *, width: int) -> list[str]:
    """Return lines with each name and its value; a long value goes on in the lines below."""
    held = [(name, in_words(value)) for name, value in pairs]
    indent = max((len(name) for name, _ in held), default=0) + GAP
    found: list[str] = []
    for name, text in held:
        found += wrapped(text, width=width, first=name.ljust(indent), rest=" " * indent)
    return found


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return each row as a line with its columns aligned, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def amount(count: int, one: str, many: str) -> str:
    """Return ``count`` with what is counted: ``1 driver``, ``2 drivers``."""
    return f"{count} {one if count == 1 else many}"


def wrapped(text: str, *, width: int, first: str = "", rest: str = "") -> list[str]:
    """Return ``text`` in lines of ``width`` characters: after ``first``, the others after ``rest``.

    No word is broken: a word that is longer than a line has a longer line. An empty text has no
    line, or ``first`` alone.
    """
    found = textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return found or ([first] if first.strip() else [])


def span(seconds: float) -> str:
    """Return a time in words: ``0.2 s``, ``45 s``, ``12 min``, ``3 h``, ``5 d``."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def in_ms(milliseconds: float) -> str:
    """Return a short time in words: ``34 ms``, ``1.2 s``."""
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else span(milliseconds / 1000)


def short(identity: str) -> str:
    """Return the beginning of an id, which is accepted wherever the id is."""
    return identity[:ID_CHARS_MIN]


def _needed(columns: Sequence[Heading], cells: Mapping[Heading, Sequence[str]]) -> int:
    """Return the characters of the longest line, with as little prose as may be."""
    least = max((one.rank for one in columns), default=0)
    widths = []
    for one in columns:
        longest = max(map(len, (one.head, *cells[one])))
        enough = PROSE_CHARS if one.rank < least else PROSE_CHARS_MIN
        widths.append(min(longest, enough) if one.prose else longest)
    return sum(widths) + GAP * (len(widths) - 1)


def _cut(text: str, room: int) -> str:
    """Return ``text`` up to the last word for which there is room."""
    if len(text) <= room:
        return text
    whole = text[: max(room - len(MORE), 0)].rpartition(" ")[0]
    return f"{whole} {MORE}".lstrip()
