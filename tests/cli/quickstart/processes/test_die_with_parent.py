import os
import pathlib
import signal
import subprocess
import sys

import pytest

from topicast.cli.quickstart.processes import die_with_parent
from topicast.tests.cli.processes import is_gone
from topicast.tests.waiting import until

SLEEPER = [sys.executable, "-c", "import signal; signal.pause()"]
PARENT = """
import os, subprocess, sys
launcher, *command = sys.argv[1:]
child = subprocess.Popen([sys.executable, launcher, str(os.getpid()), *command])
print(child.pid, flush=True)
child.wait()
"""


def test_command_runs_in_the_place_of_the_launcher() -> None:
    command = [sys.executable, die_with_parent.__file__, str(os.getpid()), "echo", "here"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"here\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a parent's death")
def test_command_ends_with_a_parent_that_was_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, die_with_parent.__file__, *SLEEPER], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        until(lambda: b"pause" in command_line(child), what="the launcher became the sleeper")
        parent.send_signal(signal.SIGKILL)
    until(lambda: is_gone(child), what="the child's end")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a parent's death")
def test_command_is_not_started_for_a_parent_that_is_gone() -> None:
    command = [sys.executable, die_with_parent.__file__, "1", "echo", "here"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")


def command_line(pid: int) -> bytes:
    with pathlib.Path(f"/proc/{pid}/cmdline").open("rb") as file:
        return file.read()
