"""An agent that is started before its driver: it loads while the JVM does.

    topicast run ──▶ this process: listens, loads, waits
    the JVM ──▶ topicast agent ──hand_over: its input, its errors, its environment──▶ this process
                     └─▶ a shell, which ends as this process does, and ends it

The socket is in a folder that only this user can read, and serves one driver: another JVM of the
command starts an agent of its own, as does a JVM whose agent has ended. If the JVM, the shell or
this process is killed, its connections to the others are closed, so that they end, too.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

SOCKET: Final = "agent"
TAKEN: Final = "agent.taken"
NOT_OURS: Final = ("PYTHONPATH", "PYTHONHOME")  # they are for the application, not for its agent
STDIN: Final = 0
STDERR: Final = 2
LINE_BYTES_MAX: Final = 1 << 22  # an environment; Linux allows 2 MB, and its JSON may be longer
SHELL: Final = ("/bin/sh", "-c", 'read -r code; exit "${code:-1}"', "agent")


@contextmanager
def waiting_agent(folder: str, environ: Mapping[str, str]) -> Iterator[None]:
    """Have an agent wait in ``folder`` for a driver; it ends with the driver, or with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, folder],
        env={name: value for name, value in environ.items() if name not in NOT_OURS},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    try:
        with process.stdin:
            yield
    finally:
        process.returncode = process.poll() or 0  # it ends with its driver: do not wait for it


def hand_over(folder: str) -> None:
    """Hand this driver over to the agent that waits in ``folder``; this process becomes a shell.

    It returns if no agent waits there any more.
    """
    facts = json.dumps({"driver": os.getppid(), "environ": dict(os.environ)})
    try:
        taken = Path(folder, SOCKET).rename(Path(folder, TAKEN))
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(str(taken))
            socket.send_fds(link, [b"\n"], [STDIN, STDERR])
            link.sendall(f"{facts}\n".encode())
            os.dup2(link.fileno(), STDIN)
    except OSError:
        return
    os.execv(SHELL[0], SHELL)


def main(folder: str) -> int:
    """Load an agent, wait for a driver, and be its agent; return the exit code of the shell."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: these are the driver's
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        try:
            listening.bind(str(Path(folder, SOCKET)))
        except OSError:  # the command has ended, or the path is too long: drivers start their own
            return 0
        listening.listen(1)
        from ...subscriber.spark.agent import process

        process.prepare()
        if STDIN in select.select([listening.fileno(), STDIN], [], [])[0]:
            return process.DONE  # the command that has started this process has ended
        link, _ = listening.accept()
    driver = _taken_over(link)
    threading.Thread(target=_end_with, args=(link,), daemon=True).start()
    code = process.main(driver)
    with suppress(OSError):
        link.sendall(f"{code}\n".encode())
    return code


def _taken_over(link: socket.socket) -> int:
    """Take over the input, the errors and the environment of a process; return its parent."""
    _, (its_input, its_errors), *_ = socket.recv_fds(link, 1, 2)
    os.dup2(its_input, STDIN)
    os.dup2(its_errors, STDERR)
    with link.makefile("rb") as lines:
        facts: dict[str, Any] = json.loads(lines.readline(LINE_BYTES_MAX))
    os.environ.clear()
    os.environ.update(facts["environ"])
    return int(facts["driver"])


def _end_with(link: socket.socket) -> None:
    """End this process when the other side of ``link`` ends; it sends nothing before."""
    with suppress(OSError):
        link.recv(1)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
