"""Watchdog: a test process ends if one of its tests, with its fixtures, does not.

pytest-timeout interrupts a test once; what then cleans up may wait for ever, and the run with it.
"""

import faulthandler
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

FIXTURES_S: Final = 300.0  # in which what a test starts first and ends last has done so
ENDED: Final = 70  # the exit code


class Watchdog:
    """Ends this process, after the stacks of its threads, when a test has not ended in time."""

    def __init__(
        self,
        fixtures_s: float = FIXTURES_S,
        *,
        look_s: float = 5.0,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self._fixtures_s, self._look_s, self._end = fixtures_s, look_s, end
        self._deadline: float | None = None
        self._never = threading.Event()
        self._stderr = os.dup(2)  # before pytest captures it
        threading.Thread(target=self._look, name="watchdog", daemon=True).start()

    @contextmanager
    def watch(self, test_s: float) -> Iterator[None]:
        """Give a test its limit of ``test_s``, and its fixtures theirs."""
        self._deadline = time.monotonic() + test_s + self._fixtures_s
        try:
            yield
        finally:
            self._deadline = None

    def _look(self) -> None:
        while not self._never.wait(self._look_s):
            deadline = self._deadline
            if deadline is not None and time.monotonic() > deadline:
                os.write(self._stderr, b"\na test has not ended in time: its process ends\n")
                faulthandler.dump_traceback(self._stderr)
                self._end(ENDED)
                return
