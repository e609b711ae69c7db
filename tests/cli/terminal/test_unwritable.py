"""Commands that cannot print: standard output or error is closed, full, or a pipe nobody reads."""

import os
import shlex
import subprocess

import pytest

from topicast.tests.cli.processes import command
from topicast.tests.keys import user_keys

NOWHERE = "tcp://127.0.0.1:1"
FULL = "error: the output cannot be written: No space left on device"


@pytest.mark.parametrize(
    ("redirection", "code", "error"),
    [
        (">/dev/full", 1, FULL),
        (">&-", 3, "error: no statestored answers"),
        ("2>&-", 3, ""),
        ("| true", 1, "error: no statestored answers"),
    ],
    ids=["a full disk", "a closed output", "a closed standard error", "a pipe that nobody reads"],
)
def test_output_that_cannot_be_written_is_an_error_and_no_fault_of_ours(
    redirection: str, code: int, error: str
) -> None:
    user_keys("operator")
    status = command("main", "status", f"--statestores={NOWHERE}", f"--catalogd={NOWHERE}")
    shell = ["bash", "-o", "pipefail", "-c", f"{shlex.join(status)} {redirection}"]
    buffered = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(shell, capture_output=True, text=True, check=False, env=buffered)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert error in done.stderr
