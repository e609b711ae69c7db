"""Offline: become a command in a network that holds nothing but loopback.

python offline.py COMMAND …          exit 77: the kernel forbids it
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
from typing import Final

FORBIDDEN: Final = 77
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWNET: Final = 0x40000000
SIOCSIFFLAGS: Final = 0x8914
IFF_UP: Final = 0x1


def main(command: list[str]) -> None:
    """Leave the network, raise loopback, run ``command``."""
    flags = CLONE_NEWNET if os.geteuid() == 0 else CLONE_NEWUSER | CLONE_NEWNET
    if ctypes.CDLL(None).unshare(flags):
        sys.exit(FORBIDDEN)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))
    except OSError:
        sys.exit(FORBIDDEN)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
