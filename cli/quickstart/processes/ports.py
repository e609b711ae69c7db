"""The usual ports if they are free, else any free ports.

    look: is it free? ──▶ reserve: no other quickstart takes it ──▶ a child binds it, later

Two quickstarts that begin together would both find the usual ports free. A reservation is a name
in Linux's abstract namespace, which ends with the process, however that ends, and leaves no file.
"""

import socket
import sys
from typing import Final

LOOPBACK: Final = "127.0.0.1"
ANY: Final = 0


def usual_or_any(port: int, *, following: int = 0) -> int:
    """Return ``port`` if it and the ``following`` ports after it are free, else 0 for any.

    The port is reserved until this process ends, also against a second call.
    """
    wanted = range(port, port + following + 1)
    return port if all(map(_is_free, wanted)) and all(map(_reserve, wanted)) else ANY


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _reserve(port: int) -> bool:
    """Reserve ``port``; return False if it is reserved already. Without Linux always True."""
    if sys.platform != "linux":
        return True
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as name:
        try:
            name.bind(f"\0topicast quickstart port {port}")
        except OSError:
            return False
        name.detach()  # the socket stays open until this process ends
    return True
