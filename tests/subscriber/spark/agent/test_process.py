"""The agent's first line decides what it is; tests/spark/jvm has real drivers."""

import subprocess

import pytest

from topicast.tests.cli.processes import command

WAIT_S = 60


def agent(line: str) -> "subprocess.CompletedProcess[str]":
    """Run an agent whose standard input is ``line``, and ends."""
    return subprocess.run(
        command("start", "agent"),
        input=line,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


@pytest.mark.parametrize("line", ["", '{"gateway": 1, "token"'])
def test_without_a_whole_line_it_ends_and_says_nothing(line: str) -> None:
    done = agent(line)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_driver_that_has_ended_meanwhile_is_no_failure() -> None:
    done = agent('{"gateway": 1, "token": "none"}\n')
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_driver_that_does_not_answer_is_one_line() -> None:
    """Given a gateway at a port that nobody has."""
    with subprocess.Popen(
        command("start", "agent"), stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write('{"gateway": 1, "token": "none"}\n')
        process.stdin.flush()
        assert process.wait(WAIT_S) == 1
        (line,) = process.stderr.read().splitlines()
    assert line.startswith("topicast agent: ERROR the driver does not answer: ")


def test_line_of_another_kind_is_refused_with_what_it_is() -> None:
    done = agent('{"statestores": "tcp://127.0.0.1:1"}\n')
    assert done.returncode == 1
    assert "token" in done.stderr
