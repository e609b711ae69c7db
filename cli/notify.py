"""Notify: reports to the service manager that a daemon is ready, as systemd's sd_notify does."""

import logging
import os
import socket
from collections.abc import Mapping
from typing import Final

SOCKET: Final = "NOTIFY_SOCKET"  # the service manager waits there, if it is set
READY: Final = b"READY=1"

log = logging.getLogger(__name__)


def notify_ready(environ: Mapping[str, str] = os.environ) -> None:
    """Report that this process serves to the service manager that started it and waits."""
    address = environ.get(SOCKET, "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # an abstract one has no file
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
            manager.connect(address)
            manager.send(READY)
    except OSError as error:
        log.warning("readiness not notified: %s=%s error=%s", SOCKET, address, error)
