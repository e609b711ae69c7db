"""Processes of their own, which a bench gives orders, and which report to it.

Process.order ──pipe──▶ work ──pipe──▶ Process.answer
                          └────pipe──▶ Reporter.reports
"""

import multiprocessing
from collections.abc import Callable, Iterator
from typing import Any, Final

import psutil

from topicast.topics.backports import Self

SPAWN: Final = multiprocessing.get_context("spawn")


def used_s(pid: int) -> float:
    """Return the CPU seconds of a process until now."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def resident_mb(*pids: int) -> float:
    """Return what processes hold in memory together."""
    return sum(psutil.Process(pid).memory_info().rss for pid in pids) / 1e6


class Process:
    """A process that runs ``work(*arguments, pipe)``; its pipe brings orders, and takes answers."""

    def __init__(self, work: Callable[..., None], *arguments: object) -> None:
        self._pipe, theirs = SPAWN.Pipe()
        self._process = SPAWN.Process(target=work, args=(*arguments, theirs), daemon=True)
        self._process.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def order(self, *words: object) -> None:
        """Send ``words`` as a tuple."""
        self._pipe.send(words)

    @property
    def answered(self) -> bool:
        """Whether an answer has come; also if the process has ended, of which `answer` raises."""
        return self._pipe.poll()

    def answer(self) -> Any:
        """Wait for what the process sends next, and return it."""
        return self._pipe.recv()

    def end(self) -> None:
        self._process.kill()
        self._process.join()


class Reporter(Process):
    """A process that runs ``work(*arguments, reports, pipe)``: it also sends what it was not asked.

    ``reports`` is another pipe, so that an answer waits behind no report.
    """

    def __init__(self, work: Callable[..., None], *arguments: object) -> None:
        self._reports, theirs = SPAWN.Pipe(duplex=False)
        super().__init__(work, *arguments, theirs)

    def reports(self) -> Iterator[Any]:
        """Yield what was reported by now."""
        while self._reports.poll():
            yield self._reports.recv()
