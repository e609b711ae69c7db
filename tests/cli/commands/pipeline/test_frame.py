"""The frame of pipelines, run with a job that needs no Spark."""

import io
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from topicast.cli.commands.pipeline.audit import audit
from topicast.cli.commands.pipeline.convert import convert
from topicast.cli.commands.pipeline.files import list_files
from topicast.cli.commands.pipeline.frame import (
    Frame,
    ProgressLine,
    pipeline_command,
    run_pipeline,
)
from topicast.cli.terminal.output import run
from topicast.pipeline.options import RunOptions
from topicast.pipeline.progress import OnProgress, RunProgress
from topicast.topics.errors import ConfigError, LinkError, TopicastError


@dataclass(frozen=True)
class Counted:
    """The report of a job that counts."""

    counted: int
    problems: tuple[str, ...] = ()

    def summary(self) -> str:
        return f"{self.counted} counted"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Sessions:
    """Stands where Spark is started; notes with what, and whether it was stopped."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}
        self.stopped = False

    @contextmanager
    def __call__(self, name: str, **given: Any) -> Iterator[Any]:
        self.given = {"name": name, **given}
        try:
            yield None
        finally:
            self.stopped = True


OPTIONS = RunOptions(statestores="tcp://h:1")


def test_job_gets_a_session_with_what_was_given_and_its_result_is_printed_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions, report = Sessions(), tmp_path / "report.json"
    frame = Frame(master="local[2]", conf=("a.b=c=d",), packages="x:y:1", report=str(report))

    def count(_spark: Any, *, on_progress: OnProgress, **given: Any) -> Counted:
        on_progress(RunProgress(step="count", done=2, left=1))
        assert given == {"statestores": "tcp://h:1", "dry_run": False, "key_file": None}
        return Counted(2)

    assert run_pipeline("count", count, OPTIONS, frame=frame, sessions=sessions) == 0
    assert sessions.given == {
        "name": "topicast pipeline count",
        "statestores": "tcp://h:1",
        "master": "local[2]",
        "conf": {"a.b": "c=d"},
        "packages": "x:y:1",
        "metastore": True,
    }
    printed = capsys.readouterr()
    assert printed.out == "2 counted\n"
    assert "count: 2 done, 1 left, 0 failing" in printed.err
    assert json.loads(report.read_text()) == {"counted": 2, "problems": []}


def test_what_failed_is_printed_and_the_exit_code_is_1(capsys: pytest.CaptureFixture[str]) -> None:
    problems = tuple(f"t{number}: cannot be read" for number in range(30))
    done = Counted(0, problems)
    code = run_pipeline(
        "count", lambda *_, **_given: done, OPTIONS, frame=Frame(), sessions=Sessions()
    )
    errors = capsys.readouterr().err.splitlines()
    assert code == 1
    assert errors[0] == "error: t0: cannot be read"
    assert errors[-1] == "error: and 10 more: --report FILE has them all"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_job_stops_spark_and_ends_with_130(
    number: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions, report = Sessions(), tmp_path / "report.json"

    def be_interrupted(_spark: Any, *, on_progress: OnProgress, **_: Any) -> Counted:
        on_progress(RunProgress(step="count", done=7, left=3))
        os.kill(os.getpid(), number)
        signal.pause()
        return Counted(10)

    frame = Frame(report=str(report))
    code = run_pipeline("count", be_interrupted, OPTIONS, frame=frame, sessions=sessions)
    assert code == 130
    assert sessions.stopped
    assert "interrupted at count: 7 done, 3 left" in capsys.readouterr().err
    at = {"step": "count", "done": 7, "left": 3, "failing": 0, "detail": ""}
    assert json.loads(report.read_text()) == {"unfinished": "interrupted", "at": at}


def test_report_of_a_job_that_ended_with_an_error_says_so(tmp_path: Path) -> None:
    def fail(_spark: Any, **_: Any) -> Counted:
        raise LinkError("no hub answers")

    report = tmp_path / "report.json"
    with pytest.raises(LinkError):
        run_pipeline("count", fail, OPTIONS, frame=Frame(report=str(report)), sessions=Sessions())
    assert json.loads(report.read_text()) == {"unfinished": "no hub answers", "at": None}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"conf": ("spark.x",)}, "KEY=VALUE"),
        ({"report": "/nonexistent/report.json"}, "a file that can be written"),
    ],
)
def test_wrong_option_is_refused_before_spark_is_started(
    given: dict[str, Any], problem: str
) -> None:
    sessions = Sessions()
    with pytest.raises(ConfigError, match=problem):
        run_pipeline(
            "x", lambda *_, **_given: Counted(0), OPTIONS, frame=Frame(**given), sessions=sessions
        )
    assert sessions.given == {}


@pytest.mark.parametrize(
    ("pipeline", "words", "problem"),
    [
        (convert, "--from=a.b --to=c.d --batch=0", "batch=0 is not valid: 1 or more"),
        (convert, "--from=a.b --to=c.d --keep_s=-1", "keep_s=-1.0 is not valid: 0 or more"),
        (convert, "--from=a.b --to=A.B", "a.b cannot be its own copy"),
        (convert, "--from=ab --to=c.d", "'ab' is not a table's name: write it as db.table"),
        (list_files, "--small_mb=-1", "small_mb=-1 is not valid: 0 or more"),
        (list_files, "--max_requests_per_second=0", "=0.0 is not valid: above 0"),
        (list_files, "--sweep_every_s=nan", "sweep_every_s=nan is not valid: 0 or more"),
        (list_files, ["--full", ""], "'' is no pattern: write a database, or one such as sales.*"),
        (audit, [""], "'' is no pattern"),
        (audit, "--sides=hub,cub", "sides='hub,cub' is not valid: some of metastore, hub, sub"),
    ],
)
def test_wrong_value_is_refused_before_a_hub_is_looked_for(
    pipeline: click.Command, words: str | list[str], problem: str
) -> None:
    given = words.split() if isinstance(words, str) else words
    with pytest.raises(TopicastError) as error:
        pipeline.main([*given, "--statestores=tcp://127.0.0.1:1"], standalone_mode=False)
    assert problem in str(error.value)


def test_exit_code_of_a_command_is_that_of_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = Sessions()

    @pipeline_command(RunOptions, lambda: {"": Counted})
    def count(options: RunOptions, frame: Frame) -> int:
        assert options.dry_run
        report = Counted(0, ("t: gone",))
        return run_pipeline(
            "count", lambda *_, **_given: report, options, frame=frame, sessions=sessions
        )

    monkeypatch.setattr("sys.argv", ["count", "--dry-run", "--conf", "a=b", "--conf", "c=d"])
    with pytest.raises(SystemExit) as ended:
        run(count)
    assert ended.value.code == 1
    assert sessions.given["conf"] == {"a": "b", "c": "d"}


def test_line_of_progress_is_shown_seldom_and_at_the_end() -> None:
    to, now = io.StringIO(), [0.0]
    with ProgressLine(to, clock=lambda: now[0]) as line:
        for done in range(100):
            now[0] = done / 5
            line.show(RunProgress(step="list", done=done, left=99 - done, detail="3 files/s"))
    assert to.getvalue().splitlines() == [
        "list: 0 done, 99 left, 0 failing, 3 files/s",
        "list: 50 done, 49 left, 0 failing, 3 files/s",
        "list: 99 done, 0 left, 0 failing, 3 files/s",
    ]
    now[0] = 1000.0
    with line:
        line.show(RunProgress(step="list", done=100, left=0))
    assert to.getvalue().count("list: 100 done") == 1
