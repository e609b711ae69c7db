"""A job's writes, and a report's answers after each write, in plain Spark and attached. Pure.

job: a step ──▶ report: a question ──▶ plain: any answer; attached: the right answer, or a failure
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Final

from ..terminal.lists import aligned

BEGINNING: Final = (
    "Two ordinary Spark applications: a job that writes orders, and a report that reads them. "
    "Neither uses Topicast, and neither runs REFRESH. They run as they are, in the writer's and "
    "the reader's Spark, and a second time under 'topicast run'. So does the report in spark-sql, "
    "which runs no code of its own."
)
ENDING: Final = (
    "Each report ran once the job was done, the plain one last; 'after' is how long after the "
    "write the report under 'topicast run' had answered."
)
REPEATED: Final = 10  # queries of each report, after the last round
TEXT_WIDTH_MAX: Final = 78
HEAD: Final = ("the job", "the query", "plain Spark", "topicast run", "after")
IN_SQL: Final = "The report's queries in spark-sql:"
JOB: Final = "job"
PLAIN: Final = "plain"  # databases, and how they are written
ATTACHED: Final = "attached"
FIRST: Final = (  # a report runs these before: the first queries of a driver take seconds
    "SHOW DATABASES",
    "SELECT count(*) FROM range(9)",
)
COUNT: Final = "SELECT count(*) FROM {}.orders"
LONG: Final = ("FAILED_READ_FILE.", ".WITH_SUGGESTION")  # parts of error names that are not shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A step of the job, the query of the report after it, and the right answer."""

    step: str
    did: str
    asks: str
    query: str
    right: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundAnswers:
    """The answers of a round; ``after_s``: from the end of the job's step to the answer."""

    round: Round
    plain: str
    attached: str
    after_s: float

    @property
    def is_right(self) -> bool:
        """Whether the attached report answered right."""
        return self.attached == self.round.right


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """The results of the last query when both reports repeat it, and nothing is written any more.

    ``…_calls``: the calls of the metastore that REPEATED queries make, as ``Counting`` sees them.
    ``…_away``: the answer while no metastore can be reached.
    """

    plain_calls: int
    attached_calls: int
    plain_away: str
    attached_away: str


ROUNDS: Final = (
    Round(step="create", did="makes 2,000 orders", asks="how many?", query=COUNT, right="2000"),
    Round(step="append", did="appends 1,000", asks="how many?", query=COUNT, right="3000"),
    Round(step="overwrite", did="overwrites: 500", asks="how many?", query=COUNT, right="500"),
    Round(
        step="column",
        did="adds a column, tip",
        asks="how many tips?",
        query="SELECT count(tip) FROM {}.orders",
        right="20",
    ),
)


def lines_of(rounds: Sequence[RoundAnswers], *, width: int) -> list[str]:
    """Return a table, or a paragraph for each round if it is too wide."""
    right = [one.round.right for one in rounds]
    rows = [_row(one, before) for one, before in zip(rounds, ["", *right], strict=False)]
    table = aligned([HEAD, *rows])
    if max(map(len, table)) <= width:
        return table
    return [line for row in rows for line in _paragraph(row)]


def repeated_text(found: Repeated) -> str:
    """Return as text the calls of both reports, and their answers without a metastore."""
    attached = f"{found.attached_calls}" if found.attached_calls else "none"
    return (
        f"Then each report ran its last query {REPEATED} times more. The plain one made "
        f"{found.plain_calls} calls of the metastore, the one under 'topicast run' {attached}. "
        f"While the metastore was away the plain one ended in {found.plain_away}, the one under "
        f"'topicast run' answered {found.attached_away}."
    )


def wrapped(text: str, *, width: int) -> str:
    """Return ``text`` in lines that fit."""
    return fill(text, min(width, TEXT_WIDTH_MAX))


def verdict(rounds: Iterable[RoundAnswers], repeated: Repeated) -> str:
    """Return which answers of the attached report are wrong; empty if none."""
    wrong = [
        f"after the job {one.round.did} it answered {one.attached}, not {one.round.right}"
        for one in rounds
        if not one.is_right
    ]
    if repeated.attached_away != ROUNDS[-1].right:
        wrong.append(f"while the metastore was away it answered {repeated.attached_away}")
    return "; ".join(wrong)


def _row(one: RoundAnswers, before: str) -> tuple[str, ...]:
    plain, attached = (_shown(text, one.round, before) for text in (one.plain, one.attached))
    return one.round.did, one.round.asks, plain, attached, f"{one.after_s:.2f} s"


def _shown(answer: str, one: Round, before: str) -> str:
    """Return a short answer, marked if it is wrong, or old: the answer before the step."""
    if not answer.isdecimal():
        return answer.removeprefix(LONG[0]).removesuffix(LONG[1])
    remark = "" if answer == one.right else ": old" if answer == before else ": wrong"
    return f"{int(answer):,}{remark}"


def _paragraph(row: Sequence[str]) -> list[str]:
    did, asks, plain, attached, after = row
    return [
        f"The job {did}. {asks.capitalize()}",
        f"  plain Spark   {plain}",
        f"  topicast run  {attached}, {after} after it",
    ]
