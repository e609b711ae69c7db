"""Starts, watches and ends child processes, each by its own process id.

    start ──▶ lines, one queue for all children ──▶ Ended ──▶ end: SIGTERM, then SIGKILL

A child and its own children form a session, so that Ctrl-C reaches only this process. They end with
this process even if it is killed (``die_with_parent``). Invariant: after ``end`` no process of any
child's session is left. Only ``next`` is interrupted, so no child is left half started.
"""

import ctypes
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from ....topics.errors import TopicastError
from .die_with_parent import dying_with_parent

TERM_TIMEOUT_S: Final = 8.0  # Spark stops within 1 s, the metastore within 2 s
LEFT_TIMEOUT_S: Final = 4.0  # a JVM whose Python is gone notices within 2.2 s
KILL_TIMEOUT_S: Final = 2.0
WAIT_TURN_S: Final = 0.02
INTERRUPT_TURN_S: Final = 0.2  # between two looks for an interrupt
LINES_MAX: Final = 10_000  # that wait to be taken; a child that writes more has to wait
PUT_TURN_S: Final = 0.5
PR_SET_CHILD_SUBREAPER: Final = 36


@dataclass(frozen=True, slots=True)
class ChildLine:
    """A line that the child ``name`` wrote; ``error``: on standard error."""

    name: str
    text: str
    error: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """The child ``name`` has ended, by ``code`` or by the signal ``-code``."""

    name: str
    code: int


@dataclass(slots=True)
class _Child:
    name: str
    process: "subprocess.Popen[str]"
    command: tuple[str, ...]
    log: Path


class Stack:
    """Child processes with their logs in ``logs``; they end with the context.

    ``interrupted`` returns whether a signal to end has come.
    """

    def __init__(self, logs: Path, *, interrupted: Callable[[], bool] = lambda: False) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        _adopt_orphans()
        self._logs = logs
        self._interrupted = interrupted
        self._children: dict[str, _Child] = {}
        self._events: queue.Queue[ChildLine | Ended] = queue.Queue(LINES_MAX)
        self._ended_by_us: set[int] = set()

    def __enter__(self) -> "Stack":
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    def start(
        self, name: str, command: Sequence[str], *, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start ``command`` as the child ``name``; the name of an ended child may be reused."""
        process = subprocess.Popen(
            dying_with_parent(command),
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        child = _Child(name, process, tuple(command), self._logs / f"{name}.log")
        self._children[name] = child
        threading.Thread(target=self._read_output, args=(child,), daemon=True).start()

    def write(self, name: str, text: str) -> None:
        """Write one line to the child's standard input, unless it has ended."""
        pipe = self._children[name].process.stdin
        assert pipe is not None
        with suppress(OSError):
            pipe.write(text + "\n")
            pipe.flush()

    def next(self, timeout_s: float) -> ChildLine | Ended | None:
        """Return the next line or end of a child; None after ``timeout_s``.

        Raises:
            KeyboardInterrupt: a signal to end has come.
        """
        deadline = time.monotonic() + timeout_s
        while not self._interrupted():
            left_s = max(deadline - time.monotonic(), 0.0)
            with suppress(queue.Empty):
                return self._events.get(timeout=min(left_s, INTERRUPT_TURN_S))
            if left_s <= INTERRUPT_TURN_S:
                return None
        raise KeyboardInterrupt

    def pids(self) -> dict[str, int]:
        """Return the process ids of the children that run."""
        return {
            name: child.process.pid
            for name, child in self._children.items()
            if child.process.poll() is None
        }

    def log(self, name: str) -> Path:
        """Return the file with the standard error of the child."""
        return self._children[name].log

    def command(self, name: str) -> tuple[str, ...]:
        """Return the command that the child was started with."""
        return self._children[name].command

    def failure(self, ended: Ended) -> TopicastError:
        """Return the error for a child that should not have ended."""
        log = self.log(ended.name)
        if ended.code < 0:
            how = f"was ended by {signal.Signals(-ended.code).name}, from outside"
            return TopicastError(f"{ended.name} {how} (its log: {log})")
        lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
        last = lines[-1].removeprefix("error: ") if lines else "it wrote nothing"
        return TopicastError(f"{ended.name} ended with code {ended.code}: {last} (its log: {log})")

    def end(self) -> None:
        """End every child, the youngest first, and wait until they are gone."""
        for name in reversed(self._children):
            self.end_one(name)

    def finish(self, *names: str) -> None:
        """End children that read their standard input to its end, side by side."""
        for name in names:
            self._ended_by_us.add(self._children[name].process.pid)
            self._close_input(name)
        for name in names:
            with suppress(subprocess.TimeoutExpired):
                self._children[name].process.wait(TERM_TIMEOUT_S)
            self.end_one(name)

    def end_one(self, name: str) -> None:
        """End the child ``name`` and its own children; no line of it is queued any more."""
        process = self._children[name].process
        self._ended_by_us.add(process.pid)
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(TERM_TIMEOUT_S)
        if process.poll() is None:
            process.kill()
            process.wait()
        if not _is_over(process.pid, LEFT_TIMEOUT_S):
            for pid in _members(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            _is_over(process.pid, KILL_TIMEOUT_S)
        self._close_input(name)

    def _close_input(self, name: str) -> None:
        pipe = self._children[name].process.stdin
        assert pipe is not None
        with suppress(OSError):
            pipe.close()

    def _read_output(self, child: _Child) -> None:
        """Queue the lines of a child until both its outputs are closed, then its end."""
        errors = threading.Thread(target=self._keep_errors, args=(child,), daemon=True)
        errors.start()
        assert child.process.stdout is not None
        with child.process.stdout as lines:
            self._pass_on(child, lines)
        errors.join()
        self._put(child, Ended(child.name, child.process.wait()))

    def _keep_errors(self, child: _Child) -> None:
        assert child.process.stderr is not None
        with child.process.stderr as lines, child.log.open("a", encoding="utf-8") as log:
            self._pass_on(child, lines, log=log)

    def _pass_on(self, child: _Child, lines: IO[str], *, log: IO[str] | None = None) -> None:
        for line in lines:
            if log is not None:
                log.write(line)
                log.flush()
            self._put(child, ChildLine(child.name, line.rstrip("\n"), log is not None))

    def _put(self, child: _Child, item: ChildLine | Ended) -> None:
        """Queue ``item``; wait while the queue is full; discard it if the child is being ended."""
        while child.process.pid not in self._ended_by_us:
            with suppress(queue.Full):
                self._events.put(item, timeout=PUT_TURN_S)
                return


def _adopt_orphans() -> None:
    """Adopt grandchildren whose parent has died, so that this process can wait for their end."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _is_over(session: int, timeout_s: float) -> bool:
    """Wait until no process of ``session`` is left; return False after ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while _members(session):
        if time.monotonic() > deadline:
            return False
        time.sleep(WAIT_TURN_S)
    return True


def _members(session: int) -> list[int]:
    """Return the processes of ``session`` that live; wait for those that have ended."""
    members = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ChildProcessError):
            # pid (name) state parent group session: a name may hold anything but is in brackets
            stat = (entry / "stat").read_text("utf-8", "replace")
            state, _parent, _group, its = stat.rpartition(")")[2].split()[:4]
            if int(its) != session:
                continue
            if state == "Z":
                os.waitpid(int(entry.name), os.WNOHANG)
            else:
                members.append(int(entry.name))
    return members
