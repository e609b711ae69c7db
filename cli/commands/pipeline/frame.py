"""The frame of every pipeline: its options, Spark, a line of progress, a report, Ctrl-C."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from ....topics.backports import Self
from ....topics.errors import ConfigError, TopicastError
from ....topics.flags import declared_flags, option
from ....topics.keys.folder import DRIVER, find_credential
from ....topics.settings import STATESTORES_DEFAULT, parse_addresses
from ...client.operator import Operator
from ...options.flags import Documents, command, flags_of, prints
from ...terminal.exit_codes import DONE, FAILED, INTERRUPTED
from ...terminal.extras import require
from ...terminal.output import Output, complain
from ...terminal.signals import Handler, handled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ....pipeline.options import RunOptions
    from ....pipeline.progress import RunProgress, RunReport

LINE_S: Final = 10.0  # between two lines of progress without a terminal
REWRITE_S: Final = 0.2  # between two lines of progress on a terminal
PROBLEMS_SHOWN_MAX: Final = 20  # the report has all


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """How a command runs its pipeline, and where the results go."""

    master: str | None = option(
        "Where Spark runs, as spark-submit takes it; else as Spark is configured.", default=None
    )
    conf: tuple[str, ...] = option("A property of Spark.", default=(), metavar="KEY=VALUE")
    packages: str | None = option("Packages that Spark fetches.", default=None, metavar="LIST")
    report: str | None = option(
        "Write a report in JSON to this file.", default=None, metavar="FILE"
    )
    output: str = "table"


Sessions = Callable[..., AbstractContextManager["SparkSession"]]


def pipeline_command(
    options: type["RunOptions"],
    documents: Callable[[], Documents],
    *,
    frame: type[Frame] = Frame,
    defaults: Mapping[str, Any] = MappingProxyType({}),
    **how: Any,
) -> Callable[[Callable[[Any, Any], int]], click.Command]:
    """Make a command of a function of ``options`` and of a ``frame``.

    A value that is not allowed ends the command before Spark starts. ``documents``: as of
    ``prints``. ``defaults``: replace the defaults of the fields. ``how``: other keywords of a
    command.
    """
    names = [name for name, own in declared_flags(options).items() if own.in_command]
    make: Callable[[Callable[..., int]], click.Command] = command(**how)
    usual = {"statestores": STATESTORES_DEFAULT, **defaults}

    def decorate(run: Callable[[Any, Any], int]) -> click.Command:
        @make
        @flags_of(options, defaults=usual, of_command=True)
        @flags_of(frame, of_command=True)
        @prints(documents)
        @wraps(run)
        def made(**given: Any) -> int:
            own = {name: given.pop(name) for name in names}
            return run(options(**own), frame(**given))

        return made

    return decorate


def run_pipeline(
    name: str,
    work: Callable[..., "RunReport"],
    options: "RunOptions",
    *,
    frame: Frame,
    metastore: bool = True,
    sessions: Sessions | None = None,
) -> int:
    """Run ``work`` with a session of Spark and ``options``; show its progress.

    Returns the exit code.

    ``metastore``: Spark needs a metastore. ``sessions``: starts Spark; None: ``open_session``.

    Raises:
        ConfigError: a property is not valid, or the report cannot be written. Nothing was started.
        LinkError: no statestored answers; says within 2 s what to do.
    """
    require("pyspark")
    from ....pipeline.session import open_session

    conf = _properties(frame.conf)
    report = None if frame.report is None else _writable(Path(frame.report))
    if sessions is None:
        _reach(options.hubs)
    line = ProgressLine(sys.stderr)
    started = (sessions or open_session)(
        f"topicast pipeline {name}",
        statestores=options.hubs,
        master=frame.master,
        conf=conf,
        packages=frame.packages,
        metastore=metastore,
    )
    try:
        with handled(_ended_by_sigterm()), started as spark, line:
            done = work(spark, **options.arguments(on_progress=line.show))
    except KeyboardInterrupt:
        complain(f"interrupted{line.reached}: finished work stays; run it again for the rest")
        _keep(report, line.unfinished("interrupted"))
        return INTERRUPTED
    except TopicastError as error:
        _keep(report, line.unfinished(str(error)))
        raise
    _keep(report, done.as_dict())
    Output(frame.output).document(done.as_dict(), text=done.summary())
    for problem in done.problems[:PROBLEMS_SHOWN_MAX]:
        complain(problem)
    if len(done.problems) > PROBLEMS_SHOWN_MAX:
        complain(f"and {len(done.problems) - PROBLEMS_SHOWN_MAX} more: --report FILE has them all")
    return FAILED if done.problems else DONE


class ProgressLine:
    """One line of progress: rewritten on a terminal, else a new line every LINE_S."""

    def __init__(self, to: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._to = to
        self._clock = clock
        self._shown_at: float | None = None
        self._last: RunProgress | None = None  # what was reported last, shown or not
        self._shown: RunProgress | None = None  # the last that was shown
        self._width = 0  # characters of the line on the terminal

    @property
    def reached(self) -> str:
        """The last progress of the run, as text; empty: it had not begun."""
        return "" if self._last is None else f" at {self._last}"

    def unfinished(self, why: str) -> dict[str, Any]:
        """Return the report of a run that did not finish: why, and its last progress."""
        return {"unfinished": why, "at": None if self._last is None else asdict(self._last)}

    def show(self, progress: "RunProgress") -> None:
        """Show the progress of the run, unless some was shown a moment ago."""
        self._last = progress
        pause_s = REWRITE_S if self._to.isatty() else LINE_S
        now = self._clock()
        if self._shown_at is None or now >= self._shown_at + pause_s:
            self._shown_at = now
            self._write(progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Show the last progress of the run."""
        if self._last is not None and self._last != self._shown:
            self._write(self._last)
        if self._width:
            self._to.write("\n")

    def _write(self, progress: "RunProgress") -> None:
        self._shown, text = progress, str(progress)
        if self._to.isatty():
            self._to.write(f"\r{text.ljust(self._width)}")
            self._width = len(text)
        else:
            self._to.write(f"{text}\n")
        self._to.flush()


def _reach(statestores: str) -> None:
    """Check that a statestored answers, so that Spark does not start in vain."""
    addresses = parse_addresses(statestores, setting="statestores")
    with Operator(addresses, credential=find_credential(DRIVER, environ=os.environ)):
        pass


def _properties(given: tuple[str, ...]) -> Mapping[str, str]:
    found = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not key or not equals:
            raise ConfigError("conf", one, "KEY=VALUE, as spark-submit has it")
        found[key] = value
    return found


def _keep(report: Path | None, facts: Mapping[str, Any]) -> None:
    if report is not None:
        text = json.dumps(facts, ensure_ascii=False, indent=2)
        report.write_text(f"{text}\n", encoding="utf-8")


def _writable(path: Path) -> Path:
    """Return ``path``; create it if it is missing, so that a wrong path is known at once."""
    try:
        with path.open("a", encoding="utf-8"):
            return path
    except OSError as error:
        allowed = f"a file that can be written ({error.strerror})"
        raise ConfigError("report", str(path), allowed) from error


def _ended_by_sigterm() -> Mapping[signal.Signals, Handler]:
    """Return what SIGTERM does: the same as Ctrl-C, so that Spark is stopped and state is kept."""

    def interrupt(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    return {signal.SIGTERM: interrupt}
