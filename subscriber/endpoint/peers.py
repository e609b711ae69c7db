"""Peers: which user of this machine is at the other end of a loopback connection.

Linux lists every socket with its owner in /proc/net/tcp and tcp6. The sockets of a Java program are
in tcp6, with an IPv4 address inside. Other systems have no such list, so that the token alone
protects the endpoint there.
"""

import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

FILES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
ESTABLISHED: Final = "01"

Address = tuple[str, int]


def is_known() -> bool:
    """Return whether this machine says who owns a socket."""
    return FILES[0].exists()


def owner(peer: Address, own: Address) -> int | None:
    """Return the user id of the owner of the socket at ``peer`` that is connected to ``own``.

    None: there is no such connection, or there is none any more.
    """
    for file in FILES:
        with suppress(OSError), file.open(encoding="ascii") as lines:
            found = owner_in(lines, peer, own)
            if found is not None:
                return found
    return None


def owner_in(lines: Iterable[str], peer: Address, own: Address) -> int | None:
    """Return the same, by the ``lines`` of /proc/net/tcp or tcp6."""
    wanted = {(_ipv4(peer), _ipv4(own)), (_ipv6(peer), _ipv6(own))}
    for line in lines:
        parts = line.split()
        if len(parts) > 7 and (parts[1], parts[2]) in wanted and parts[3] == ESTABLISHED:
            return int(parts[7])
    return None


def _ipv4(address: Address) -> str:
    """Return an address as /proc/net/tcp has it: as a word in the machine's byte order."""
    host, port = address
    word = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    return f"{word:08X}:{port:04X}"


def _ipv6(address: Address) -> str:
    """Return an IPv4 address as /proc/net/tcp6 has it: inside of an IPv6 address."""
    middle = int.from_bytes(b"\0\0\xff\xff", sys.byteorder)
    return f"{'0' * 16}{middle:08X}{_ipv4(address)}"
