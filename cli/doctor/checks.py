"""Checks: run one after the other, each for a limited time, unless a check that it needs failed.

Check ──run──▶ Answer ──▶ CheckResult: ok, warning, wrong; or not tried
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ...topics.backports import StrEnum
from ...topics.errors import TopicastError
from ..terminal.lists import wrapped

CHECK_AT: Final = 11  # the column of a line at which the name of a check begins
FINDING_AT: Final = 26  # the column at which its finding begins
INDENT_MIN: Final = 2  # of the second line of a result and those below
DEFECT: Final = "is this a defect of Topicast? report it with this line"


class CheckOutcome(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a check. ``next_step``: what to do; empty: nothing is to be done."""

    verdict: CheckOutcome
    finding: str
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The answer of the check ``check``."""

    check: str
    answer: Answer

    def __str__(self) -> str:
        """Return it as a line."""
        texts = filter(None, (self.answer.finding, self.answer.next_step))
        head = f"{self.answer.verdict:<{CHECK_AT}}{self.check:<{FINDING_AT - CHECK_AT}}"
        return f"{head}{'; '.join(texts)}"

    def lines(self, width: int) -> list[str]:
        """Return it in lines of ``width`` characters.

        No word is broken: where a path is too long, all lines but the first begin farther left.
        """
        text = str(self)
        longest = max(map(len, text.split()))
        indent = max(min(FINDING_AT, width - longest), INDENT_MIN)
        return wrapped(text, width=width, rest=" " * indent)


@dataclass(frozen=True, slots=True)
class Check:
    """A check. ``run`` returns its answer, or raises TopicastError, whose text says what to do.

    ``after``: checks that must not fail before it. ``limit_s`` None: the limit of all checks.
    """

    name: str
    run: Callable[[], Answer]
    after: tuple[str, ...] = ()
    limit_s: float | None = None


def ok(finding: str) -> Answer:
    """Return the answer that all is well."""
    return Answer(CheckOutcome.OK, finding)


def warning(finding: str, next_step: str) -> Answer:
    """Return the answer that something may be intended, or may go wrong later."""
    return Answer(CheckOutcome.WARNING, finding, next_step)


def wrong(finding: str, next_step: str = "") -> Answer:
    """Return the answer that something does not work."""
    return Answer(CheckOutcome.WRONG, finding, next_step)


def examine(checks: Sequence[Check], *, limit_s: float) -> Iterator[CheckResult]:
    """Yield the result of each of ``checks``, in their order; none takes longer than its limit."""
    failed: set[str] = set()
    for check in checks:
        missing = [name for name in check.after if name in failed]
        if missing:
            answer = Answer(CheckOutcome.NOT_TRIED, f"it needs: {missing[0]}")
        else:
            answer = _bounded(check.run, check.limit_s or limit_s)
        if answer.verdict in (CheckOutcome.WRONG, CheckOutcome.NOT_TRIED):
            failed.add(check.name)
        yield CheckResult(check.name, answer)


def _bounded(run: Callable[[], Answer], limit_s: float) -> Answer:
    """Return the answer of ``run``; abandon its thread if that takes longer than ``limit_s``."""
    answers: list[Answer] = []

    def work() -> None:
        try:
            answers.append(run())
        except TopicastError as error:
            answers.append(wrong(str(error)))
        except Exception as error:  # noqa: BLE001 - the top of a thread; the other checks go on
            answers.append(wrong(f"{type(error).__name__}: {error}", DEFECT))

    thread = threading.Thread(target=work, name="topicast-doctor", daemon=True)
    thread.start()
    thread.join(limit_s)
    return next(iter(answers), wrong(f"no end within {limit_s:g} s", "see --timeout_s"))
