import io
import json
from collections.abc import Callable

import click
import pytest

from topicast.cli.output import Output, aligned, exit_code, in_words, run
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


def test_rows_in_a_pipe_are_plain_columns() -> None:
    to = io.StringIO()
    Output("table", to=to).rows(COLUMNS, ROWS)
    assert to.getvalue().splitlines() == [
        "topic  name  lag_s  live",
        "7      a     0.25   yes",
        "8      -     -      no",
    ]


def test_rows_on_a_terminal_are_a_ruled_table() -> None:
    to = Terminal()
    Output("table", to=to).rows(COLUMNS, ROWS)
    assert to.getvalue().startswith("┏━")
    assert "│ 7     │ a    │ 0.25  │ yes  │" in to.getvalue()


def test_rows_without_any_row_still_name_their_columns() -> None:
    to = io.StringIO()
    Output("table", to=to).rows(COLUMNS, [])
    assert to.getvalue() == "topic  name  lag_s  live\n"


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


def test_columns_stand_under_each_other() -> None:
    assert aligned([("a", "b"), ("long", "c")]) == ["a     b", "long  c"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("port", -1, "0 or more"), 2),
        (LinkError("no statestored answers"), 3),
        (NotReady("no answer"), 4),
        (NoSuchObject("a.b"), 1),
        (OverBudget("the namespace", needed_bytes=2, free_bytes=1), 1),
        (UsageError("the filter is none"), 2),
        (SourceError("metastore"), 1),
    ],
)
def test_each_error_has_its_exit_code(error: TopicastError, code: int) -> None:
    assert exit_code(error) == code


def ended(does: Callable[[], int | None], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["x", *arguments])
    with pytest.raises(SystemExit) as end:
        run(click.Command("x", callback=does))
    assert isinstance(end.value.code, int)
    return end.value.code


def test_run_ends_with_what_the_command_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(lambda: None, monkeypatch) == 0
    assert ended(lambda: 3, monkeypatch) == 3


def test_errors_are_printed_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise LinkError("no statestored answers at tcp://a:1: start one")

    assert ended(fails, monkeypatch) == 3
    printed = capsys.readouterr()
    assert printed.err == "error: no statestored answers at tcp://a:1: start one\n"
    assert printed.out == ""


def test_wrong_use_ends_with_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(lambda: None, monkeypatch, "--nonsense") == 2
    assert "--nonsense" in capsys.readouterr().err


def test_interrupt_ends_as_a_shell_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    assert ended(interrupted, monkeypatch) == 130
