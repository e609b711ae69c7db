import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from topicast.cli.quickstart.processes.stack import ChildLine, Ended, Stack
from topicast.tests.cli.processes import is_gone
from topicast.tests.waiting import until

SAYS = "import sys; print('out', flush=True); print('error: no such port', file=sys.stderr)"
STUBBORN = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print(child.pid, flush=True)
signal.pause()
"""
LEAVES_A_CHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print(child.pid, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with Stack(tmp_path / "logs") as made:
        yield made


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def printed(stack: Stack) -> ChildLine:
    line = until(lambda: stack.next(0.1), what="a line")
    assert isinstance(line, ChildLine)
    return line


def end_of(stack: Stack) -> Ended:
    def look() -> Ended | None:
        happened = stack.next(0.1)
        return happened if isinstance(happened, Ended) else None

    found = until(look, what="the end of a child")
    assert found is not None
    return found


def test_what_children_say_comes_by_name_and_errors_go_to_a_log(stack: Stack) -> None:
    stack.start("one", python(SAYS))
    lines = {printed(stack), printed(stack)}
    assert lines == {ChildLine("one", "out", False), ChildLine("one", "error: no such port", True)}
    assert end_of(stack) == Ended("one", 0)
    assert stack.log("one").read_text() == "error: no such port\n"


def test_child_receives_its_input(stack: Stack) -> None:
    stack.start("echo", python("print(input().upper(), flush=True)"))
    stack.write("echo", "hello")
    assert printed(stack).text == "HELLO"


def test_input_for_an_ended_child_is_no_error(stack: Stack) -> None:
    stack.start("short", python(""))
    end_of(stack)
    stack.write("short", "hello")


def test_failure_names_the_child_its_last_words_and_its_log(stack: Stack) -> None:
    stack.start("one", python(SAYS + "; sys.exit(3)"))
    failure = stack.failure(end_of(stack))
    assert str(failure) == f"one ended with code 3: no such port (its log: {stack.log('one')})"


def test_failure_names_the_signal(stack: Stack) -> None:
    stack.start("one", python("import signal; signal.pause()"))
    os.kill(stack.pids()["one"], signal.SIGKILL)
    assert "one was ended by SIGKILL, from outside" in str(stack.failure(end_of(stack)))


def test_end_leaves_no_process_even_if_one_ignores_sigterm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topicast.cli.quickstart.processes.stack.TERM_TIMEOUT_S", 0.2)
    monkeypatch.setattr("topicast.cli.quickstart.processes.stack.LEFT_TIMEOUT_S", 0.2)
    with Stack(tmp_path) as stack:
        stack.start("stubborn", python(STUBBORN))
        grandchild = int(printed(stack).text)
        child = stack.pids()["stubborn"]
    until(lambda: is_gone(child) and is_gone(grandchild), what="the end of both")


def test_end_reaches_what_an_ended_child_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topicast.cli.quickstart.processes.stack.LEFT_TIMEOUT_S", 0.2)
    with Stack(tmp_path) as stack:
        stack.start("parent", python(LEAVES_A_CHILD))
        grandchild = int(printed(stack).text)
        stack.write("parent", "")
        until(lambda: not stack.pids(), what="the parent's end")
        assert not is_gone(grandchild)
    until(lambda: is_gone(grandchild), what="the grandchild's end")


def test_children_that_read_on_may_end_by_themselves(stack: Stack, tmp_path: Path) -> None:
    """Given children that write a file at the end of their input, then both files are there."""
    for name in ("one", "two"):
        code = f"import sys; sys.stdin.read(); open({str(tmp_path / name)!r}, 'w').close()"
        stack.start(name, python(code))
    stack.finish("one", "two")
    assert stack.pids() == {}
    assert (tmp_path / "one").exists()
    assert (tmp_path / "two").exists()
    assert stack.next(0.2) is None


def test_child_ended_by_us_is_no_event(stack: Stack) -> None:
    stack.start("one", python("import signal; print('up', flush=True); signal.pause()"))
    printed(stack)
    stack.end_one("one")
    assert stack.pids() == {}
    assert stack.next(0.2) is None
