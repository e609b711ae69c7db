"""Readiness, as systemd waits for it."""

import os
import socket
from contextlib import closing
from pathlib import Path

import pytest

from topicast.cli.notify import READY, SOCKET, notify_ready
from topicast.tests.cli.processes import running


def listening(address: str) -> "closing[socket.socket]":
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.bind(address)
    made.settimeout(30)
    return closing(made)


def test_daemon_says_that_it_is_ready(tmp_path: Path) -> None:
    with listening(str(tmp_path / "manager")) as manager:
        environment = {**os.environ, SOCKET: str(tmp_path / "manager")}
        flags = ("--state_store_port=0", "--webserver_port=0")
        log = tmp_path / "log"
        with running(log, "daemons", "statestored", *flags, environment=environment):
            assert manager.recv(100) == READY


def test_abstract_socket_is_found() -> None:
    name = f"topicast-{os.getpid()}"
    with listening(f"\0{name}") as manager:
        notify_ready({SOCKET: f"@{name}"})
        assert manager.recv(100) == READY


def test_manager_that_is_not_there_is_a_line_of_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notify_ready({})
    assert not caplog.records
    notify_ready({SOCKET: str(tmp_path / "none")})
    assert "readiness not notified" in caplog.text
