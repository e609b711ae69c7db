"""``topicast run``: the command is unchanged, and an application that is not attached logs why."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from topicast.tests.cli.processes import command
from topicast.tests.waiting import until


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command("main", "run", *words), capture_output=True, text=True, timeout=60, check=False
    )


def test_output_and_exit_code_are_the_commands_own() -> None:
    done = run(
        "--", sys.executable, "-c", "import sys; print('hello', *sys.argv[1:]); sys.exit(7)", "-x"
    )
    assert (done.returncode, done.stdout) == (7, "hello -x\n")
    assert done.stderr == "topicast: not attached: no Spark session was made\n"


@pytest.mark.parametrize(
    "words",
    [(sys.executable, "-E"), (sys.executable, "-I"), ("env", "-i", sys.executable)],
    ids=["-E", "-I", "env -i"],
)
def test_python_without_the_package_is_reported(words: tuple[str, ...]) -> None:
    done = run("--", *words, "-c", "pass")
    assert "no Python has loaded Topicast (python -E or -I" in done.stderr


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
    assert "topicast hook install" in done.stderr
    assert "spark.yarn.appMasterEnv.TOPICAST_STATESTORES=" in done.stderr
    assert "spark.kubernetes.driverEnv.TOPICAST_STATESTORES=" in done.stderr
    assert "spark.topicast.statestores=" in done.stderr


def test_command_that_is_not_there_is_named() -> None:
    done = run("--", "no-such-command")
    assert (done.returncode, done.stderr) == (
        127,
        "error: no-such-command: No such file or directory\n",
    )


def test_signal_that_ends_us_ends_the_command(tmp_path: Path) -> None:
    there = tmp_path / "there"
    code = f"import pathlib, signal; pathlib.Path({str(there)!r}).touch(); signal.pause()"
    process = subprocess.Popen(
        command("main", "run", "--", sys.executable, "-c", code), stderr=subprocess.PIPE
    )
    until(there.exists, timeout_s=30, what="the command")
    os.kill(process.pid, signal.SIGTERM)
    _, printed = process.communicate(timeout=30)
    assert (process.returncode, b"no Spark session" in printed) == (128 + signal.SIGTERM, True)
