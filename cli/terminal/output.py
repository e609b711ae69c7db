"""The output of commands: results on standard output, errors on standard error; exit codes.

    0 done    1 failed    2 wrong use    3 not reachable    4 timed out
    5 degraded: ``status`` has answers from all, and a daemon does not serve as it should

``--output table`` is for people: a line for each item, which fits a terminal; in a pipe a line may
have any length. ``wide`` has every column. ``json`` is one whole document: numbers are numbers,
times are of ISO 8601; a stream (``watch``) has one document a line.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO, TypedDict

import click

from ...topics.errors import (
    ConfigError,
    LinkError,
    NoSuchObject,
    NotReady,
    NotVisible,
    OverBudget,
    TopicastError,
    UsageError,
)
from .exit_codes import DONE, FAILED, INTERRUPTED, NOT_REACHABLE, TIMED_OUT, WRONG_USE
from .extras import needs
from .lists import NO_LIMIT, Heading, described, listed, wrapped

if TYPE_CHECKING:  # the messages take 0.2 s to import
    from ...topics.wire.messages.fields import Cell

EXIT_CODES: Final = """\b
Exit codes: 0 done, 1 failed, 2 wrong use, 3 not reachable, 4 timed out,
5 degraded."""


_CODES: Final = (  # the first that fits
    (NoSuchObject, FAILED),
    (OverBudget, FAILED),
    (UsageError, WRONG_USE),
    (ConfigError, WRONG_USE),
    (NotReady, TIMED_OUT),
    (LinkError, NOT_REACHABLE),
    (TopicastError, FAILED),
)

# A file system that is full, a quota, a limit of a file's size, a disk that fails.
_UNWRITABLE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class Output:
    """Prints lists, documents and the items of a stream, for people or as JSON."""

    def __init__(self, form: str, *, to: TextIO | None = None) -> None:
        self.form = form
        self._to = to or sys.stdout

    @property
    def is_json(self) -> bool:
        """Whether the output is JSON, for programs."""
        return self.form == "json"

    @property
    def is_terminal(self) -> bool:
        """Whether the output goes to a terminal, and not to a file or another program."""
        return self._to.isatty()

    @property
    def width(self) -> int:
        """The characters of a line; NO_LIMIT in a pipe."""
        return shutil.get_terminal_size().columns if self._to.isatty() else NO_LIMIT

    def rows(
        self, columns: Sequence[Heading], records: Sequence[Mapping[str, Any]], *, nothing: str
    ) -> None:
        """Print a line for each record, or ``nothing``; in JSON a list of whole records."""
        if self.is_json:
            self._dump(records)
        elif records:
            lines = listed(columns, records, width=self.width, wide=self.form == "wide")
            self._write("\n".join(lines))
        else:
            self._write(nothing)

    def document(self, content: Mapping[str, Any] | Sequence[Any], *, text: str) -> None:
        """Print ``content`` in JSON, else ``text``."""
        if self.is_json:
            self._dump(content)
        else:
            self._write(text)

    def sentence(self, content: Mapping[str, Any] | Sequence[Any], *, text: str) -> None:
        """Print ``content`` in JSON, else ``text``, of which no word is broken."""
        self.document(content, text="\n".join(wrapped(text, width=self.width)))

    def facts(self, content: object, pairs: Iterable[tuple[str, Cell]]) -> None:
        """Print ``content`` in JSON, else a line for each name and value."""
        if self.is_json:
            self._dump(content)
        else:
            self._write("\n".join(described(pairs, width=self.width)))

    def item(self, content: Mapping[str, object], *, text: str) -> None:
        """Print one item of a stream on one line, at once."""
        self._write(json.dumps(content, ensure_ascii=False) if self.is_json else text)
        self._to.flush()

    def _dump(self, content: object) -> None:
        self._write(json.dumps(content, ensure_ascii=False, indent=2))

    def _write(self, text: str) -> None:
        print(text, file=self._to)


class WrittenFile(TypedDict):
    """A file that a command has written."""

    file: str
    bytes: int


def checked_place(out: Path) -> Path:
    """Return ``out`` if its folder exists, so that no work is done in vain.

    Raises:
        UsageError: the folder does not exist.
    """
    if not out.parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.parent}: make it, or name another")
    return out


def written(file: Path, size: int, printed: Output) -> None:
    """Print that a command has written ``file``, of ``size`` bytes."""
    printed.document(WrittenFile(file=str(file), bytes=size), text=f"{file}: {size} bytes")


def exit_code(error: TopicastError) -> int:
    """Return the exit code of a command that ended with ``error``."""
    return next(code for kind, code in _CODES if isinstance(error, kind))


def next_step(error: TopicastError) -> str:
    """Return the end of the text of an error: the command that lists existing objects, or says why.

    Empty: the text itself says what to do, if anything can be done.
    """
    if isinstance(error, NotReady) and "topicast " not in str(error):
        return ": topicast status says why"
    if not isinstance(error, NoSuchObject) or isinstance(error, NotVisible):
        return ""
    table, is_partition, _ = error.name.partition("/")
    db, is_table, _ = table.partition(".")
    if " " in error.name:  # topic 7: topicast topics lists them
        return ""
    if is_partition:
        return f": topicast partitions {table} lists those that there are"
    where = f"topicast tables {db}" if is_table else "topicast tables"
    return f": {where} lists what there is; if it was made just now, topicast sync first"


def run(command: click.Command, *, code_of: Callable[[TopicastError], int] = exit_code) -> NoReturn:
    """Run ``command`` with the arguments of this process and end the process."""
    code = FAILED
    _open_what_is_closed()
    try:
        answer = command.main(standalone_mode=False)
        sys.stdout.flush()
        code = answer if isinstance(answer, int) else DONE
    except TopicastError as error:
        complain(f"{error}{next_step(error)}")
        code = code_of(error)
    except ModuleNotFoundError as error:
        complain(needs(error, command))
    except click.ClickException as error:  # wrong use, which click describes
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        code = INTERRUPTED
    except OSError as error:
        if error.errno in _UNWRITABLE:
            complain(f"{error.filename or 'the output'} cannot be written: {error.strerror}")
        elif error.errno != errno.EPIPE:  # else the next command of the pipe has read enough
            raise
        _discard_output()  # Python would fail again
    sys.exit(code)


def _open_what_is_closed() -> None:
    """Discard what is printed where a shell has closed standard output or error (``>&-``)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - until the end


def _discard_output() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)


def note(message: str) -> None:
    """Print on standard error what people must know about the result."""
    _say("note: ", message)


def complain(message: str) -> None:
    """Print an error on standard error."""
    _say("error: ", message)


def _say(head: str, message: str) -> None:
    """Print a line; on a terminal in several lines if need be, without breaking a word."""
    text = f"{head}{message}"
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        lines = (wrapped(one, width=width, rest="  ") for one in text.splitlines())
        text = "\n".join(line for some in lines for line in some)
    print(text, file=sys.stderr, flush=True)
