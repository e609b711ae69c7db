"""Commands that cannot print: standard output or error is closed, full, or a pipe nobody reads."""

import shlex
import subprocess

import pytest

from topicast.tests.cli.processes import command


@pytest.mark.parametrize(
    ("redirection", "code", "error"),
    [
        (
            ">/dev/full",
            1,
            "error: the output cannot be written: No space left on device\n",
        ),
        (">&-", 0, ""),
        ("2>&-", 0, ""),
        ("| true", 0, ""),
    ],
    ids=["a full disk", "a closed output", "a closed standard error", "a pipe that nobody reads"],
)
def test_output_that_cannot_be_written_is_an_error_and_no_fault_of_ours(
    redirection: str, code: int, error: str
) -> None:
    words = shlex.join(command("main", "completion", "bash"))
    done = subprocess.run(
        ["bash", "-c", f"{words} {redirection}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (code, error)
