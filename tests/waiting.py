"""The one place in which tests wait: for a condition, never for a time."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 2  # times the timeout: what comes ends the wait, and a slow machine is no failure
T = TypeVar("T")


def until(
    condition: Callable[[], T], *, timeout_s: float = 30, what: str = "", interval_s: float = 0.01
) -> T:
    """Return the first true result of ``condition``, called every ``interval_s``.

    Raises:
        AssertionError: none came within PATIENCE x ``timeout_s``; says ``what`` was waited for.
    """
    timeout_s *= PATIENCE
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"{what or condition}: not within {timeout_s} s"
        time.sleep(interval_s)
    return answer


def in_thread(call: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    """Begin a call in a thread of its own; return that, and what it raises."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors
