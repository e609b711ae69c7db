"""Marked: a command whose every descendant can be found, wherever it went."""

import os
import signal
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from topicast.tests.orphans import processes
from topicast.tests.waiting import until

MARK: Final = "TOPICAST_TEST_MARK"
END_S: Final = 60.0  # a JVM of Spark that ends while it starts gives two of its hooks 30 s each


@dataclass(frozen=True, slots=True)
class Marked:
    """A running command, its output so far, and the mark of all its descendants."""

    process: "subprocess.Popen[bytes]"
    output: Path
    mark: str

    def printed(self) -> str:
        """Return everything that it printed, on both outputs."""
        return self.output.read_text(encoding="utf-8")

    def says(self, text: str, *, timeout_s: float) -> None:
        """Wait until it has printed ``text``; fail at once if it ends before."""

        def look() -> bool:
            ended = self.process.poll()
            if text in self.printed():
                return True
            assert ended is None, f"ended with {ended}"
            return False

        try:
            until(look, timeout_s=timeout_s, what=repr(text))
        except AssertionError as late:
            raise AssertionError(f"{late}; it has printed:\n{self.printed()}") from late

    def living(self) -> list[str]:
        """Return the command lines of those that are still there."""
        return [line for line in map(_command_line, processes(MARK, self.mark)) if line]

    def interrupt(self) -> None:
        """Do what Ctrl-C in a terminal does: SIGINT to the whole foreground group."""
        os.killpg(self.process.pid, signal.SIGINT)


@contextmanager
def marked(
    command: Sequence[str], output: Path, *, cwd: Path, environment: Mapping[str, str]
) -> Iterator[Marked]:
    """Start ``command``; at the end nothing that it started is left."""
    mark = uuid.uuid4().hex
    with output.open("wb") as to:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**environment, MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=to,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    running = Marked(process, output, mark)
    try:
        yield running
    finally:
        process.kill()
        for pid in processes(MARK, mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        until(lambda: not running.living(), timeout_s=END_S, what=f"the end of {running.living()}")


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
