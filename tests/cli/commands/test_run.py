"""``topicast run``: the command is unchanged, and an application that is not attached logs why."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from topicast.cli.commands.run import STATESTORES
from topicast.cli.commands.run import run as run_command
from topicast.cli.terminal.signals import handled
from topicast.tests.cli.processes import command, completed, topicast
from topicast.tests.waiting import until
from topicast.topics.settings import STATESTORES_DEFAULT


def run(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return topicast("run", *words, **environment)


def test_output_and_exit_code_are_the_commands_own() -> None:
    done = run(
        "--", sys.executable, "-c", "import sys; print('hello', *sys.argv[1:]); sys.exit(7)", "-x"
    )
    assert (done.returncode, done.stdout) == (7, "hello -x\n")
    assert done.stderr.startswith("topicast: not attached: no Spark session was made where")


def test_the_address_is_that_of_every_command_unless_another_is_given() -> None:
    """It is the last that a driver looks for: its own configuration comes before."""
    shown = f"import os; print(os.environ.get({STATESTORES!r}))"
    words = "--", sys.executable, "-c", shown
    without = {name: value for name, value in os.environ.items() if name != STATESTORES}
    done = subprocess.run(
        command("main", "run", *words), env=without, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{STATESTORES_DEFAULT}\n"
    assert topicast("run", *words, TOPICAST_STATESTORES="tcp://h:1").stdout == "tcp://h:1\n"


@pytest.mark.parametrize(
    "words",
    [
        ("--deploy-mode", "cluster"),
        ("--deploy-mode=cluster",),
        ("--conf", "spark.submit.deployMode=cluster"),
        ("--conf=spark.submit.deployMode=cluster",),
    ],
)
def test_driver_that_runs_elsewhere_is_refused_with_what_works(words: tuple[str, ...]) -> None:
    done = run("--", "spark-submit", *words, "app.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--jars" in done.stderr
    assert "spark.topicast.statestores=" in done.stderr
    assert "spark.topicast.agent=" in done.stderr


@pytest.mark.parametrize(
    ("lines", "name", "words", "said"),
    [
        (("mkdir $TOPICAST_NOTES/found",), "spark-sql", (), 0),
        ((), "spark-sql", (), 1),
        ((), "start-thriftserver.sh", (), 0),
        ((), "spark-submit", ("--version",), 0),
        ((), "spark-submit", ("app.py", "--version"), 1),
    ],
    ids=["a JVM has begun", "none has", "it goes on", "a version", "an application's own option"],
)
def test_application_whose_jvm_has_not_found_the_jar_is_told(
    lines: tuple[str, ...], name: str, words: tuple[str, ...], said: int, tmp_path: Path
) -> None:
    done = run("--", str(_stub(tmp_path / name, *lines)), *words)
    assert done.returncode == 5
    assert done.stderr.count("topicast: not attached: no Spark session was made") == said


def test_application_that_is_excluded_is_said_to_be_so(tmp_path: Path) -> None:
    done = run("--", str(_stub(tmp_path / "spark-sql")), TOPICAST_STATESTORES="")
    assert done.returncode == 5
    assert done.stderr == (
        "topicast: not attached: TOPICAST_STATESTORES is empty, and spark.topicast.statestores "
        "names none\n"
    )


def test_application_finds_the_jar_and_the_settings(tmp_path: Path) -> None:
    script = _stub(
        tmp_path / "spark-sql",
        'echo "$SPARK_DIST_CLASSPATH"; echo "$TOPICAST_AGENT"; echo "$SPARK_SUBMIT_OPTS"',
        'echo "$TOPICAST_STATESTORES $TOPICAST_CONTROL $TOPICAST_RUN"',
    )
    hub = "tcp://127.0.0.1:9"
    done = run(
        f"--statestores={hub}",
        *("--control=off", "--", str(script)),
        SPARK_DIST_CLASSPATH="/x",
        SPARK_SUBMIT_OPTS="-Da=b",
    )
    paths, agent, options, settings = done.stdout.splitlines()
    assert options == "-Da=b -Dspark.sql.extensions=TopicastBootstrap"
    before, path = paths.split(":")
    arguments = f'{{"statestores": "{hub}", "control": "off"}}'
    assert (before, settings) == ("/x", f"{hub} off {arguments}"), "they come before Spark's"
    assert agent == f"{sys.executable} -m topicast.cli.start agent"
    with ZipFile(path) as jar:
        names = jar.namelist()
    assert "TopicastBootstrap.class" in names
    assert "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider" in names


def test_application_whose_jar_cannot_be_kept_is_run_and_said_to_be_plain(
    tmp_path: Path,
) -> None:
    done = run("--", str(_stub(tmp_path / "spark-sql")), XDG_CACHE_HOME="/proc/none")
    assert done.returncode == 5
    assert done.stderr.count("not attached") == 1
    assert "XDG_CACHE_HOME" in done.stderr


def _stub(script: Path, *lines: str) -> Path:
    """Write a command that prints something and ends with 5."""
    script.write_text("\n".join(["#!/bin/sh", *lines, "exit 5"]))
    script.chmod(0o755)
    return script


def test_application_is_run_where_no_folder_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "tempdir", str(tmp_path / "none"))
        with pytest.raises(SystemExit) as ended:
            run_command.main(["--", sys.executable, "-c", "exit(7)"], standalone_mode=False)
    assert ended.value.code == 7
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("run", "--control=off", "--", sys.executable, "-c", "exit(7)"), 7, "not attached: "),
        (("run", "--", "no-such-command"), 127, "error: no-such-command: No such file"),
        (("run",), 1, "error: "),
        (("drivers",), 1, "error: "),
    ],
)
def test_without_our_libraries_the_application_is_run_as_it_is(
    words: tuple[str, ...], code: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "topicast").symlink_to(Path(__file__).parents[3])
    start = [sys.executable, "-S", "-m", "topicast.cli.start", *words]
    done = completed(start, PYTHONPATH=str(tmp_path))
    assert done.returncode == code
    assert said in done.stderr
    assert "No module named" in done.stderr


def test_command_that_is_not_there_is_named() -> None:
    done = run("--", "no-such-command")
    assert (done.returncode, done.stderr) == (
        127,
        "error: no-such-command: there is no such program on the PATH\n",
    )


def test_option_that_does_not_exist_is_no_command() -> None:
    done = run("--statestore", "tcp://127.0.0.1:1", "--", "true")
    assert (done.returncode, "No such option '--statestore'" in done.stderr) == (2, True)


def test_signal_that_ends_us_ends_the_command(tmp_path: Path) -> None:
    there = tmp_path / "there"
    code = f"import pathlib, signal; pathlib.Path({str(there)!r}).touch(); signal.pause()"
    process = subprocess.Popen(
        command("main", "run", "--", sys.executable, "-c", code), stderr=subprocess.PIPE
    )
    until(there.exists, timeout_s=30, what="the command")
    os.kill(process.pid, signal.SIGTERM)
    _, printed = process.communicate(timeout=60)
    assert (process.returncode, b"no Spark session" in printed) == (128 + signal.SIGTERM, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_keys_of_a_terminal_are_the_commands_own(number: signal.Signals, tmp_path: Path) -> None:
    """Given a command that handles them, as a JVM does Ctrl-\\, after which it goes on."""
    there = tmp_path / "there"
    code = f"signal.signal({int(number)}, lambda *_: exit(7)); pathlib.Path({str(there)!r}).touch()"
    code = f"import pathlib, signal; {code}; signal.pause()"
    with handled({number: signal.SIG_DFL}):  # which what runs in the background ignores
        process = subprocess.Popen(
            command("main", "run", "--", sys.executable, "-c", code),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    until(there.exists, timeout_s=30, what="the command")
    os.killpg(process.pid, number)
    assert process.wait(60) == 7
