"""Runs a command that ends when its parent ends, however the parent dies.

As a script, ``python die_with_parent.py PARENT_PID COMMAND …`` has Linux send SIGTERM at the
parent's death, and becomes COMMAND. It imports no module of ours, so that it takes only 20 ms.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def dying_with_parent(command: Sequence[str]) -> list[str]:
    """Return a command that runs ``command`` in a process that ends with this process."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def main(parent: int, command: list[str]) -> None:
    """Replace this process by ``command``, tied to ``parent`` where the system can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the call
            sys.exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
