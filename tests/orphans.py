"""Orphans: what a test process has started ends with it, even if it is killed.

    test process ──pipe──▶ orphans.py ──at the end of the pipe──▶ SIGKILL to all that have its mark

The mark is in the environment, so that descendants have it, too, whatever session they are in.
"""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

MARK: Final = "STARTED_BY_TEST_PROCESS"  # not TOPICAST_: applications have none of that
LOOKS_MAX: Final = 100  # a process that starts others all the time needs several looks


def end_with_this_process() -> Callable[[], None]:
    """Tie all that is started from now on to this process; return what ends it at once.

    It is for Linux; elsewhere nothing is tied.
    """
    if sys.platform != "linux":
        return lambda: None
    mark = uuid.uuid4().hex
    watching = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, mark],
        stdin=subprocess.PIPE,
        start_new_session=True,  # signals to our group are not for it
        env={name: value for name, value in os.environ.items() if name != MARK},
    )
    os.environ[MARK] = mark
    return watching.communicate


def processes(name: str, value: str) -> list[int]:
    """Return the living processes whose environment had ``name=value`` when they began."""
    wanted = f"{name}={value}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # of somebody else, or gone
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def main(mark: str) -> None:
    """Wait for the end of standard input, then kill all that have the mark."""
    sys.stdin.read()
    for _ in range(LOOKS_MAX):
        left = processes(MARK, mark)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return


if __name__ == "__main__":
    main(sys.argv[1])
