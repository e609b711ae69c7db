"""Ports: the usual ones where they are free, else any free one."""

import socket
from typing import Final

LOOPBACK: Final = "127.0.0.1"
ANY: Final = 0


def usual_or_any(port: int, *, beside: int = 0) -> int:
    """Return ``port`` if it and the ``beside`` ports after it are free, else 0 for any."""
    return port if all(_is_free(port + step) for step in range(beside + 1)) else ANY


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
