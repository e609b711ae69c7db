import io
import json
from collections.abc import Callable

import click
import pytest

from topicast.cli.output import Output, exit_code, in_words, run
from topicast.topics.errors import (
    ConfigError,
    LinkError,
    NoSuchObject,
    NotReady,
    OverBudget,
    SourceError,
    TopicastError,
    UsageError,
)

COLUMNS = ("topic", "name", "lag_s", "live")
ROWS = [(7, "a", 0.25, True), (8, "", None, False)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("rows", "printed"),
    [
        (ROWS, "topic  name  lag_s  live\n7      a     0.25   yes\n8      -     -      no\n"),
        ([], "topic  name  lag_s  live\n"),
    ],
    ids=["two", "none"],
)
def test_rows_in_a_pipe_are_plain_columns(
    rows: list[tuple[int, str, float | None, bool]], printed: str
) -> None:
    to = io.StringIO()
    Output("table", to=to).rows(COLUMNS, rows)
    assert to.getvalue() == printed


def test_rows_on_a_terminal_are_a_ruled_table() -> None:
    to = Terminal()
    Output("table", to=to).rows(COLUMNS, ROWS)
    assert to.getvalue().startswith("┏━")
    assert "│ 7     │ a    │ 0.25  │ yes  │" in to.getvalue()


WIDE = tuple(f"column_{number}" for number in range(8))


@pytest.mark.parametrize(
    ("rows", "printed"),
    [
        (
            [("a", *[None] * 6, 7), ("b", *[""] * 6, False)],
            "column_0  a\ncolumn_7  7\n\ncolumn_0  b\ncolumn_7  no\n",
        ),
        ([], "none\n"),
    ],
    ids=["two", "none"],
)
def test_rows_that_a_terminal_is_too_narrow_for_are_records(
    rows: list[tuple[str | int | None, ...]], printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column of two characters cannot be read."""
    to, wide = Terminal(), Terminal()
    monkeypatch.setenv("COLUMNS", "80")
    Output("table", to=to).rows(WIDE, rows)
    assert to.getvalue() == printed
    monkeypatch.setenv("COLUMNS", "100")
    Output("table", to=wide).rows(WIDE, rows)
    assert wide.getvalue().startswith("┏━")


def test_rows_in_json_are_one_document_of_objects() -> None:
    to = io.StringIO()
    Output("json", to=to).rows(COLUMNS, ROWS)
    assert json.loads(to.getvalue())[1] == {"topic": 8, "name": "", "lag_s": None, "live": False}


def test_items_of_a_stream_are_one_document_a_line() -> None:
    to = io.StringIO()
    output = Output("json", to=to)
    output.item({"object": "größe"}, text="")
    output.item({"object": "b"}, text="")
    assert [json.loads(line)["object"] for line in to.getvalue().splitlines()] == ["größe", "b"]


def test_markup_in_names_is_shown_as_it_is() -> None:
    to = Terminal()
    Output("table", to=to).rows(("name",), [("[red]x[/red]",)])
    assert "[red]x[/red]" in to.getvalue()


@pytest.mark.parametrize(
    ("cell", "words"),
    [(None, "-"), ("", "-"), (True, "yes"), (0, "0"), (1.5, "1.5"), (2.0, "2"), (0.0004, "0")],
)
def test_cells_are_short_words(cell: object, words: str) -> None:
    assert in_words(cell) == words  # type: ignore[arg-type]  # every kind of cell


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("port", -1, "0 or more"), 2),
        (LinkError("no statestored answers"), 3),
        (NotReady("no answer"), 4),
        (NoSuchObject("a.b"), 1),
        (OverBudget("the namespace", needed_bytes=2, free_bytes=1), 1),
        (UsageError("the filter is not valid"), 2),
        (SourceError("metastore"), 1),
    ],
)
def test_each_error_has_its_exit_code(error: TopicastError, code: int) -> None:
    assert exit_code(error) == code


def fails(error: BaseException) -> Callable[[], None]:
    def does() -> None:
        raise error

    return does


@pytest.mark.parametrize(
    ("does", "arguments", "code", "printed"),
    [
        (lambda: None, [], 0, ""),
        (lambda: 3, [], 3, ""),
        (lambda: None, ["--nonsense"], 2, "--nonsense"),
        (fails(LinkError("nobody answers: start one")), [], 3, "error: nobody answers: start one"),
        (fails(KeyboardInterrupt()), [], 130, ""),  # as a shell has it
    ],
    ids=["done", "its own code", "wrong use", "error", "interrupted"],
)
def test_run_ends_with_the_code_of_what_happened_and_prints_errors_on_standard_error(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    does: Callable[[], int | None],
    arguments: list[str],
    code: int,
    printed: str,
) -> None:
    monkeypatch.setattr("sys.argv", ["x", *arguments])
    with pytest.raises(SystemExit) as end:
        run(click.Command("x", callback=does))
    shown = capsys.readouterr()
    assert (end.value.code, shown.out) == (code, "")
    assert printed in shown.err
    assert bool(printed) == bool(shown.err.strip())
