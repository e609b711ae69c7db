import io
import json
from collections.abc import Callable
from typing import Any

import click
import pytest

from topicast.cli.terminal.lists import Heading, in_words
from topicast.cli.terminal.output import Output, complain, exit_code, run
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

COLUMNS = tuple(Heading(name=name) for name in ("topic", "name", "lag_s", "live"))
ROWS = [
    {"topic": 7, "name": "a", "lag_s": 0.25, "live": True},
    {"topic": 8, "name": "", "lag_s": None, "live": False},
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("rows", "printed"),
    [
        (ROWS, "topic  name  lag_s  live\n7      a     0.25   yes\n8      -     -      no\n"),
        ([], "nobody\n"),
    ],
    ids=["two", "none"],
)
@pytest.mark.parametrize("terminal", [False, True])
def test_rows_are_a_line_each_and_nothing_is_a_sentence(
    rows: list[dict[str, Any]], printed: str, *, terminal: bool
) -> None:
    to = Terminal() if terminal else io.StringIO()
    Output("table", to=to).rows(COLUMNS, rows, nothing="nobody")
    assert to.getvalue() == printed


def test_line_is_as_long_as_the_terminal_and_in_a_pipe_or_wide_as_it_must_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    columns = (Heading(name="a", rank=0), Heading(name="b"))
    rows = [{"a": "x" * 20, "b": "y" * 20}]
    for form, to, wide in (
        ("table", Terminal(), False),
        ("wide", Terminal(), True),
        ("table", io.StringIO(), True),
    ):
        Output(form, to=to).rows(columns, rows, nothing="")
        assert ("y" in to.getvalue()) is wide


def test_facts_are_a_line_each_and_long_facts_go_on_below(monkeypatch: pytest.MonkeyPatch) -> None:
    to = Terminal()
    monkeypatch.setenv("COLUMNS", "20")
    Output("table", to=to).facts({}, [("name", "a text of five words"), ("live", True)])
    assert to.getvalue() == "name  a text of five\n      words\nlive  yes\n"
    to = Terminal()
    Output("json", to=to).facts({"live": True}, [])
    assert json.loads(to.getvalue()) == {"live": True}


def test_sentence_and_notes_break_no_word_on_a_terminal_and_are_a_line_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    text = "drivers of etl are off from now on"
    to, pipe = Terminal(), io.StringIO()
    Output("table", to=to).sentence({}, text=text)
    Output("table", to=pipe).sentence({}, text=text)
    assert (to.getvalue(), pipe.getvalue()) == (
        "drivers of etl are\noff from now on\n",
        f"{text}\n",
    )
    for errors, printed in (
        (Terminal(), "error: drivers of\n  etl are off from\n  now on\n"),
        (io.StringIO(), f"error: {text}\n"),
    ):
        monkeypatch.setattr("sys.stderr", errors)
        complain(text)
        assert errors.getvalue() == printed


def test_rows_in_json_are_one_document_of_objects() -> None:
    to = io.StringIO()
    Output("json", to=to).rows(COLUMNS[:1], ROWS, nothing="")
    assert json.loads(to.getvalue()) == ROWS, "whole, whatever the columns are"


def test_items_of_a_stream_are_one_document_a_line() -> None:
    to = io.StringIO()
    output = Output("json", to=to)
    output.item({"object": "größe"}, text="")
    output.item({"object": "b"}, text="")
    assert [json.loads(line)["object"] for line in to.getvalue().splitlines()] == ["größe", "b"]


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
