"""What commands print: results on standard output, errors on standard error; and their exit codes.

    0 done    1 failed    2 wrong use    3 not reachable    4 timed out
    5 degraded: ``status`` has answers from all, and one does not serve as it should

``--output table`` is to be read: with rules on a terminal, plain columns in a pipe. What has more
columns than the terminal has room for is printed there one record after the other.
``--output json`` is one document; a stream (``watch``) is one document a line.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO

import click

from ..topics.errors import (
    ConfigError,
    LinkError,
    NoSuchObject,
    NotReady,
    OverBudget,
    TopicastError,
    UsageError,
)
from .exit_codes import DONE, FAILED, INTERRUPTED, NOT_REACHABLE, TIMED_OUT, WRONG_USE
from .extras import needs

if TYPE_CHECKING:  # the messages take 0.2 s to import
    from ..topics.wire.messages import Cell

EXIT_CODES: Final = """\b
Exit codes: 0 done, 1 failed, 2 wrong use, 3 not reachable, 4 timed out,
5 degraded."""

NOTHING: Final = "-"
NO_LIMIT: Final = 1 << 20  # characters of a line that nobody has to see whole
CELL_CHARS_MIN: Final = 8  # of a cell of a ruled table that has more: its lines can be read
RULE_CHARS: Final = 3  # beside each cell

_CODES: Final = (  # the first that fits
    (NoSuchObject, FAILED),
    (OverBudget, FAILED),
    (UsageError, WRONG_USE),
    (ConfigError, WRONG_USE),
    (NotReady, TIMED_OUT),
    (LinkError, NOT_REACHABLE),
    (TopicastError, FAILED),
)


class Output:
    """Prints rows, documents and the items of a stream as a table or as JSON."""

    def __init__(self, form: str, *, to: TextIO | None = None) -> None:
        self._json = form == "json"
        self._to = to or sys.stdout

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads along, and not a file or another program."""
        return self._to.isatty()

    @property
    def width(self) -> int:
        """The characters of a line; a pipe has room for any."""
        return shutil.get_terminal_size().columns if self._to.isatty() else NO_LIMIT

    def rows(self, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
        """Print a table; in JSON a list of objects."""
        held = [tuple(row) for row in rows]
        if self._json:
            self._dump([dict(zip(columns, row, strict=True)) for row in held])
        elif not self._to.isatty():
            self._print_columns(columns, held)
        elif not _fits(columns, held, width=shutil.get_terminal_size().columns):
            self._print_records(columns, held)
        elif not self._print_ruled(columns, held):
            self._print_columns(columns, held)

    def document(self, content: Mapping[str, Any], *, text: str) -> None:
        """Print ``content`` in JSON, else ``text``."""
        if self._json:
            self._dump(content)
        else:
            self._write(text)

    def facts(
        self, content: Mapping[str, Any], columns: Sequence[str], rows: Iterable[Sequence[Cell]]
    ) -> None:
        """Print ``content`` in JSON, else a table."""
        if self._json:
            self._dump(content)
        else:
            self.rows(columns, rows)

    def item(self, content: Mapping[str, Cell], *, text: str) -> None:
        """Print one item of a stream on one line, at once."""
        self._write(json.dumps(content, ensure_ascii=False) if self._json else text)
        self._to.flush()

    def _dump(self, content: object) -> None:
        self._write(json.dumps(content, ensure_ascii=False, indent=2))

    def _write(self, text: str) -> None:
        print(text, file=self._to)

    def _print_ruled(self, columns: Sequence[str], rows: list[tuple[Cell, ...]]) -> bool:
        """Print a table with rules; False if the library for it (extra cli) is not installed."""
        try:
            from rich.console import Console
            from rich.table import Table
        except ModuleNotFoundError:
            return False
        table = Table(header_style="bold")
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*map(in_words, row))
        Console(file=self._to, markup=False, highlight=False).print(table)
        return True

    def _print_records(self, columns: Sequence[str], rows: list[tuple[Cell, ...]]) -> None:
        """Print a line for each fact of a record, without those that hold nothing."""
        if not rows:
            self._write("none")
        for number, row in enumerate(rows):
            facts = zip(columns, map(in_words, row), strict=True)
            shown = [(name, text) for name, text in facts if text != NOTHING]
            self._write("\n".join(["", *aligned(shown)] if number else aligned(shown)))

    def _print_columns(self, columns: Sequence[str], rows: list[tuple[Cell, ...]]) -> None:
        for line in aligned([tuple(columns), *(tuple(map(in_words, row)) for row in rows)]):
            self._write(line)


def _fits(columns: Sequence[str], rows: list[tuple[Cell, ...]], *, width: int) -> bool:
    """Tell whether a ruled table of ``width`` characters can be read."""
    cells = [tuple(columns), *(tuple(map(in_words, row)) for row in rows)]
    widths = (max(map(len, column)) for column in zip(*cells, strict=True))
    return sum(min(one, CELL_CHARS_MIN) + RULE_CHARS for one in widths) <= width


def in_words(cell: Cell) -> str:
    """Return the text of a cell: ``-`` for nothing, ``yes`` and ``no``, numbers short."""
    if cell is None or cell == "":
        return NOTHING
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.3f}".rstrip("0").rstrip(".")
    return str(cell)


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
    """Return ``text`` in lines of ``width`` characters, behind ``first`` and then ``rest``.

    No word is broken: one that is longer than a line has a longer one. Nothing has no line, but
    for what ``first`` says.
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


def exit_code(error: TopicastError) -> int:
    """Return the exit code of a command that ended with ``error``."""
    return next(code for kind, code in _CODES if isinstance(error, kind))


def run(command: click.Command, *, code_of: Callable[[TopicastError], int] = exit_code) -> NoReturn:
    """Run ``command`` with the arguments of this process and end the process."""
    code = FAILED
    try:
        answer = command.main(standalone_mode=False)
        code = answer if isinstance(answer, int) else DONE
    except TopicastError as error:
        complain(str(error))
        code = code_of(error)
    except ModuleNotFoundError as error:
        complain(needs(error, command))
    except click.ClickException as error:  # wrong use, which click describes
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        code = INTERRUPTED
    sys.exit(code)


def note(message: str) -> None:
    """Print on standard error what a reader must know of the result."""
    print(f"note: {message}", file=sys.stderr, flush=True)


def complain(message: str) -> None:
    """Print an error on standard error."""
    print(f"error: {message}", file=sys.stderr, flush=True)
