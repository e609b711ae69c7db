"""Supervisor: whatever its agent does, it says so, starts another one, and delays nobody."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from topicast.subscriber.endpoint.settings import AgentSettings
from topicast.subscriber.endpoint.supervisor import Address, Supervisor
from topicast.tests.cli.processes import is_gone
from topicast.tests.waiting import until
from topicast.topics.errors import LinkError, NotReady, UsageError
from topicast.topics.topic import Version

SETTINGS = AgentSettings(token="replaced", statestores="tcp://127.0.0.1:1", name="app")
BEGIN = """
import json, os, sys
settings = json.loads(sys.stdin.readline())
def say(**line):
    print(json.dumps(line), flush=True)
def serve():
    say(port=4321, pid=os.getpid())
"""
ANSWER = """
serve()
for line in sys.stdin:
    asked = json.loads(line)
    if asked["do"] == "status":
        say(id=asked["id"], result={"pid": os.getpid(), "settings": settings})
    elif asked["do"] == "versions":
        versions = {name: [7, 3] for name in asked["tables"]}
        say(id=asked["id"], result={"versions": versions | {"a.gone": None}})
    elif asked["do"] == "uses":
        say(id=asked["id"], error=json.dumps(asked["tables"]), retriable=False)
    elif asked["timeout_s"] > 1:
        say(change={"object": "a.b", "version": 9})
        say(lost=True)
        say(id=asked["id"], result={})
"""

Supervise = Callable[..., Supervisor]


@pytest.fixture
def supervise() -> Iterator[Supervise]:
    """Supervise a program in the place of an agent."""
    with ExitStack() as started:

        def start(program: str, **how: Any) -> Supervisor:
            command = (sys.executable, "-c", BEGIN + program)
            return started.enter_context(Supervisor(SETTINGS, command=command, **how))

        yield start


def pid_of(supervisor: Supervisor) -> int:
    until(lambda: supervisor.address)
    return int(supervisor.status()["agent"]["pid"])


def test_agent_gets_its_settings_and_a_token_of_its_own(supervise: Supervise) -> None:
    seen: list[Address | None] = []
    supervisor = supervise(ANSWER, on_address=seen.append)
    address = until(lambda: supervisor.address)
    status = supervisor.status()
    given = status["agent"]["settings"]
    assert (given["statestores"], given["name"]) == ("tcp://127.0.0.1:1", "app")
    assert given["token"] == address.token != "replaced"
    assert len(address.token) >= 32
    assert address.token not in repr(address)
    assert address.uri == "thrift://127.0.0.1:4321"
    assert (status["port"], status["starts"], status["problem"]) == (4321, 1, "")
    supervisor.stop()
    assert is_gone(status["agent"]["pid"])
    assert seen == [address, None]
    with pytest.raises(LinkError):
        supervisor.versions(["a.b"])
    assert supervisor.status()["agent"] is None


def test_requests_are_answered_and_changes_passed_on(supervise: Supervise) -> None:
    changes: list[Any] = []
    supervisor = supervise(ANSWER, on_change=changes.append)
    until(lambda: supervisor.address)
    supervisor.sync(5)
    until(lambda: changes == [{"object": "a.b", "version": 9}, None])
    assert supervisor.versions(["a.b"]) == {"a.b": Version(7, 3), "a.gone": None}
    with pytest.raises(NotReady) as caught:
        supervisor.report_uses({"a.b": (1, 2)})
    assert json.loads(str(caught.value)) == {"a.b": [1, 2]}
    began = time.monotonic()
    with pytest.raises(NotReady, match="within 0.1 s"):
        supervisor.sync(0.1)
    assert time.monotonic() - began < 5
    with pytest.raises(UsageError, match="bytes"):
        supervisor.versions(["a" * (1 << 20)])


def test_agent_that_was_killed_is_replaced_with_another_token(supervise: Supervise) -> None:
    seen: list[Address | None] = []
    supervisor = supervise(ANSWER, on_address=seen.append)
    os.kill(pid_of(supervisor), 9)
    until(lambda: len(seen) == 3)
    first, none, second = seen
    assert none is None
    assert first is not None
    assert second is not None
    assert first.token != second.token
    assert supervisor.status()["starts"] == 2


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("sys.exit(3)", "has ended with 3"),
        ("say(error='no hub')\nsys.exit(1)", "no hub"),
        ("serve()\nprint('rubbish', flush=True)\nsys.stdin.read()", "nobody understands"),
        ("serve()\nprint([1], flush=True)\nsys.stdin.read()", "nobody understands"),
        ("serve()\nsys.stdout.write('x' * (3 << 20))\nsys.stdin.read()", "has ended"),
    ],
)
def test_agent_that_fails_is_started_again_and_its_reason_said(
    supervise: Supervise, program: str, problem: str, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    note = f"open({str(starts)!r}, 'a').write('.')\n"
    supervisor = supervise(note + program)
    until(lambda: problem in supervisor.status()["problem"])
    until(lambda: starts.exists() and len(starts.read_text()) >= 2)


def test_command_that_is_not_there_is_no_error_of_the_driver() -> None:
    with Supervisor(SETTINGS, command=("/no/such/python",)) as supervisor:
        until(lambda: "does not start" in supervisor.status()["problem"])
        assert supervisor.address is None


def test_agent_that_reads_nothing_is_ended(supervise: Supervise) -> None:
    supervisor = supervise("serve()\nimport time\ntime.sleep(600)")
    until(lambda: supervisor.address)
    tables = ["a" * 1000 + ".b"] * 900
    with pytest.raises(LinkError, match="does not read"):  # a pipe holds less
        supervisor.versions(tables)


def test_agent_that_does_not_end_is_killed(supervise: Supervise) -> None:
    program = "import signal, time\nserve()\nsay(change=os.getpid())\nwhile True: time.sleep(1)"
    seen: list[Any] = []
    supervisor = supervise(program, on_change=seen.append)
    (pid,) = until(lambda: seen)
    supervisor.stop()
    assert is_gone(pid)
