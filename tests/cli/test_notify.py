"""What a daemon announces, as people, scripts and systemd wait for it."""

import os
import socket
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from topicast.cli.notify import READY, SOCKET, Announcement, notify
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.cli.processes import catalogd, running
from topicast.topics.verdict import Reason, Serving, Verdict

NEW = Verdict((Reason(state=Serving.NOT_SERVING, code="new", what="new", mend="wait"),))
AWAY = Verdict((Reason(state=Serving.DEGRADED, code="away", what="away 1 s", mend="start it"),))
LATER = Verdict((Reason(state=Serving.DEGRADED, code="away", what="away 9 s", mend="start it"),))
WHERE = "address=tcp://127.0.0.1:1"


def listening(address: str) -> "closing[socket.socket]":
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.bind(address)
    made.settimeout(30)
    return closing(made)


def received(manager: socket.socket) -> list[str]:
    """Return what has arrived."""
    found = []
    manager.settimeout(0.0)
    while True:
        try:
            found.append(manager.recv(1000).decode())
        except BlockingIOError:
            return found


def test_daemon_notifies_of_its_state_and_is_ready_when_it_serves(
    hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    with ExitStack() as up:
        manager = up.enter_context(listening(str(tmp_path / "manager")))
        environment = {**os.environ, SOCKET: str(tmp_path / "manager")}
        flags = ("--state_store_port=0", "--webserver_port=0")
        log = tmp_path / "log"
        hub = up.enter_context(
            running(log, "daemons", "statestored", *flags, environment=environment)
        )
        status = manager.recv(1000).decode()
        assert status.startswith("STATUS=not serving: no catalogd has announced itself yet")
        up.enter_context(catalogd(tmp_path, hive=hive.uri, statestores=hub.ready["address"]))
        hub.becomes_ready()
        notices = [manager.recv(1000).decode()]
        while notices[-1] != READY:
            notices.append(manager.recv(1000).decode())
        assert notices[-2:] == ["STATUS=serving", READY]


@pytest.mark.parametrize(
    ("verdicts", "lines", "notices"),
    [
        ([NEW, NEW], ["listening"], ["STATUS=not serving: new; wait"]),
        (
            [NEW, Verdict(), NEW, Verdict()],
            ["listening", "ready"],
            [
                *("STATUS=not serving: new; wait", "STATUS=serving", READY),
                *("STATUS=not serving: new; wait", "STATUS=serving"),
            ],
        ),
        ([AWAY, LATER], ["listening", "ready"], ["STATUS=degraded: away 1 s; start it", READY]),
    ],
    ids=["never", "once", "degraded, too"],
)
def test_ready_is_announced_once_and_each_change_of_the_verdict(
    verdicts: list[Verdict],
    lines: list[str],
    notices: list[str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with listening(str(tmp_path / "manager")) as manager:
        announcement = Announcement(WHERE, {SOCKET: str(tmp_path / "manager")})
        announcement.listening()
        for verdict in verdicts:
            announcement.report(verdict)
        assert received(manager) == notices
    assert capfd.readouterr().out.splitlines() == [f"{line} {WHERE}" for line in lines]


def test_abstract_socket_is_found() -> None:
    name = f"topicast-{os.getpid()}"
    with listening(f"\0{name}") as manager:
        notify(READY, {SOCKET: f"@{name}"})
        assert received(manager) == [READY]


def test_manager_that_is_not_there_is_a_line_of_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notify(READY, {})
    assert not caplog.records
    notify(READY, {SOCKET: str(tmp_path / "none")})
    assert "service manager not notified" in caplog.text
