"""What the job did and both reports answered, in plain words and in few columns."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from topicast.cli.quickstart.apps import orders_job, orders_report
from topicast.cli.quickstart.comparison import (
    BEGINNING,
    ENDING,
    ROUNDS,
    Repeated,
    RoundAnswers,
    lines_of,
    repeated_text,
    verdict,
    wrapped,
)

README = (Path(__file__).parents[3] / "README.md").read_text("utf-8")
PLAIN = ("2000", "2000", "FAILED_READ_FILE.FILE_NOT_EXIST", "UNRESOLVED_COLUMN.WITH_SUGGESTION")
TABLE = [
    "the job             the query       plain Spark        topicast run  after",
    "makes 2,000 orders  how many?       2,000              2,000         0.25 s",
    "appends 1,000       how many?       2,000: old         3,000         0.25 s",
    "overwrites: 500     how many?       FILE_NOT_EXIST     500           0.25 s",
    "adds a column, tip  how many tips?  UNRESOLVED_COLUMN  20            0.25 s",
]


def answered(*attached: str) -> list[RoundAnswers]:
    return [
        RoundAnswers(round=one, plain=plain, attached=answer, after_s=0.25)
        for one, plain, answer in zip(ROUNDS, PLAIN, attached, strict=False)
    ]


RIGHT = answered(*(one.right for one in ROUNDS))
AGAIN = Repeated(
    plain_calls=40, attached_calls=0, plain_away="TTransportException", attached_away="20"
)


def test_table_fits_a_usual_terminal() -> None:
    assert lines_of(RIGHT, width=80) == TABLE
    assert verdict(RIGHT, AGAIN) == ""


def test_readme_shows_what_make_run_prints() -> None:
    """But for the times."""
    shown = README.partition("$ make run\n")[2].partition("```")[0].splitlines()
    without = [re.sub(r"[\d.]+ s$", "0.25 s", line) for line in shown]
    assert without == lines_of(RIGHT, width=80)


def test_narrow_terminal_gets_paragraphs() -> None:
    lines = lines_of(RIGHT, width=60)
    assert lines[3:6] == [
        "The job appends 1,000. How many?",
        "  plain Spark   2,000: old",
        "  topicast run  3,000, 0.25 s after it",
    ]
    assert max(map(len, lines)) <= 48


def test_wrong_answers_of_the_attached_report_are_printed() -> None:
    wrong = answered("2000", "2000", "7")
    assert [line.split()[-3] for line in lines_of(wrong, width=80)[2:]] == ["old", "wrong"]
    assert verdict(wrong, AGAIN) == (
        "after the job appends 1,000 it answered 2000, not 3000; "
        "after the job overwrites: 500 it answered 7, not 500"
    )


def test_calls_of_both_reports_and_their_answers_without_a_metastore_are_said() -> None:
    text = repeated_text(AGAIN)
    assert "made 40 calls of the metastore, the one under 'topicast run' none" in text
    assert "ended in TTransportException, the one under 'topicast run' answered 20" in text
    fails = replace(AGAIN, attached_calls=3, attached_away="TTransportException")
    assert "'topicast run' 3. While" in repeated_text(fails)
    assert verdict(RIGHT, fails) == "while the metastore was away it answered TTransportException"


def test_text_is_wrapped_to_what_there_is_and_never_long() -> None:
    for text in (BEGINNING, ENDING, repeated_text(AGAIN)):
        assert max(map(len, wrapped(text, width=200).splitlines())) <= 78
        assert max(map(len, wrapped(text, width=50).splitlines())) <= 50


@pytest.mark.parametrize("module", [orders_job, orders_report])
def test_applications_are_ordinary_applications(module: object) -> None:
    """They import nothing of ours, and refresh nothing: their text may be pasted anywhere."""
    text = Path(str(module.__file__)).read_text(encoding="utf-8")  # type: ignore[attr-defined]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            assert not node.level
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert "topicast" not in ast.unparse(node)
    _, _, code = text.partition('"""\n')
    assert "refresh" not in code.lower()
    assert "topicast" not in code.lower()


def test_job_knows_every_step() -> None:
    assert list(orders_job.STEPS) == [one.step for one in ROUNDS]
