"""Notify: how a daemon announces that it listens, and that it serves.

    listening address=… web=…   on standard output, as soon as its sockets are bound
    ready address=… web=…       once: at the first verdict by which /healthz answers 200

The daemon notifies the service manager, as systemd's sd_notify does, of readiness and of each
change of the verdict, which ``systemctl status`` shows.
"""

import logging
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from ..topics.verdict import Serving, Verdict, news

SOCKET: Final = "NOTIFY_SOCKET"  # the service manager waits there, if it is set
READY: Final = "READY=1"
STATUS: Final = "STATUS="

log = logging.getLogger(__name__)


class Announcement:
    """Announces a daemon to its caller and to the service manager; ``where``: its addresses."""

    def __init__(self, where: str, environ: Mapping[str, str] = os.environ) -> None:
        self._where = where
        self._environ = environ
        self._is_ready = False
        self._before: Verdict | None = None  # the verdict that was reported last

    def listening(self) -> None:
        """Announce that peers may connect, but not yet that they are served."""
        _say(f"listening {self._where}")

    def report(self, verdict: Verdict) -> None:
        """Take the daemon's verdict; the first verdict that it serves makes it ready, for good."""
        if self._before is None or news(self._before, verdict):
            notify(f"{STATUS}{verdict.lines[0]}", self._environ)
        self._before = verdict
        if not self._is_ready and verdict.state is not Serving.NOT_SERVING:
            self._is_ready = True
            _say(f"ready {self._where}")
            notify(READY, self._environ)


def notify(state: str, environ: Mapping[str, str] = os.environ) -> None:
    """Send ``state`` to the service manager that started this process, if any."""
    address = environ.get(SOCKET, "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # an abstract address has no file
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
            manager.settimeout(0.0)  # the loop waits for nobody
            manager.connect(address)
            manager.send(state.encode())
    except OSError as error:
        log.warning("service manager not notified: %s=%s error=%s", SOCKET, address, error)


def _say(line: str) -> None:
    with suppress(OSError):  # a closed standard output must not end the daemon
        os.write(1, f"{line}\n".encode())
