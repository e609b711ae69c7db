"""An agent that waits for its driver, and the shell that stands for it; no Spark is needed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil
import pytest

from topicast.cli.launch.ahead import SOCKET, TAKEN, waiting_agent
from topicast.subscriber.spark.agent.process import NOT_A_DRIVER
from topicast.tests.waiting import until

AGENT: Final = [sys.executable, "-m", "topicast.cli.start", "agent"]
LOADED_S: Final = 30.0


@contextmanager
def started(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start an agent as a JVM does, which says where it is by its standard input."""
    with subprocess.Popen(
        AGENT,
        env={**os.environ, "TOPICAST_NOTES": str(folder), "OF_THE_DRIVER": "yes"},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def started_for(folder: Path) -> psutil.Process:
    """Return the agent that was started to wait in ``folder``."""

    def found() -> psutil.Process | None:
        for one in psutil.Process().children():
            with suppress(psutil.ZombieProcess):  # of another test
                if one.cmdline()[-1:] == [str(folder)]:
                    return one
        return None

    return until(found, timeout_s=LOADED_S, what="the agent")


def waiting(folder: Path) -> psutil.Process:
    """Return the agent that was started to wait in ``folder``, once it listens."""
    agent = started_for(folder)
    until((folder / SOCKET).exists, timeout_s=LOADED_S, what="its socket")
    return agent


def is_over(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_agent_that_waits_is_that_of_the_first_driver(tmp_path: Path) -> None:
    """Given two drivers, the second's command is an agent itself. Errors are the driver's."""
    with waiting_agent(str(tmp_path), os.environ):
        ahead = waiting(tmp_path)
        with started(tmp_path) as first, started(tmp_path) as second:
            until((tmp_path / TAKEN).exists, timeout_s=LOADED_S, what="who takes it")
            for one in (first, second):
                _, said = one.communicate("no settings\n", timeout=LOADED_S)
                assert (one.returncode, said) == (1, NOT_A_DRIVER)
        until(lambda: is_over(ahead), timeout_s=LOADED_S, what="the end of the agent")


@pytest.mark.parametrize("who", ["the shell", "the agent"])
def test_agent_and_its_shell_end_together(who: str, tmp_path: Path) -> None:
    with waiting_agent(str(tmp_path), os.environ):
        ahead = waiting(tmp_path)
        with started(tmp_path) as shell:
            its = psutil.Process(shell.pid)
            until(lambda: its.cmdline()[:1] == ["/bin/sh"], timeout_s=LOADED_S, what="the shell")
            os.kill(shell.pid if who == "the shell" else ahead.pid, signal.SIGKILL)
            until(lambda: is_over(ahead) and is_over(its), timeout_s=LOADED_S, what="both ends")
            assert shell.wait() == (-signal.SIGKILL if who == "the shell" else 1)


def test_agent_that_nobody_takes_ends_with_the_command(tmp_path: Path) -> None:
    with waiting_agent(str(tmp_path), os.environ):
        ahead = waiting(tmp_path)
    until(lambda: is_over(ahead), timeout_s=LOADED_S, what="the end of the agent")


def test_agent_that_is_late_for_a_short_command_says_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with waiting_agent(str(tmp_path / "gone"), os.environ):
        ahead = started_for(tmp_path / "gone")
        until(lambda: is_over(ahead), timeout_s=LOADED_S, what="the end of the agent")
    assert capfd.readouterr().err == ""


def test_driver_that_is_not_run_by_the_command_has_its_own_agent(tmp_path: Path) -> None:
    with started(tmp_path / "none") as process:
        _, said = process.communicate("no settings\n", timeout=LOADED_S)
        assert (process.returncode, said) == (1, NOT_A_DRIVER)
