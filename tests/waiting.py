"""The one place in which tests wait: for a condition, never for a time."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 2  # times the timeout: what comes ends the wait, and a slow machine is no failure
REST = 2  # times what a condition took pass until its next look: a query of Spark costs a core
REST_S_MAX = 0.5
T = TypeVar("T")


def until(
    condition: Callable[[], T], *, timeout_s: float = 30, what: str = "", interval_s: float = 0.01
) -> T:
    """Return the first true result of ``condition``, called every ``interval_s`` or more seldom.

    What takes long to answer is asked seldom: waiting must not keep busy what is waited for.

    Raises:
        AssertionError: none came within PATIENCE x ``timeout_s``; says ``what`` was waited for.
    """
    timeout_s *= PATIENCE
    deadline = time.monotonic() + timeout_s
    began = time.monotonic()
    while not (answer := condition()):
        took_s = time.monotonic() - began
        assert began + took_s < deadline, f"{what or condition}: not within {timeout_s} s"
        time.sleep(max(interval_s, min(REST * took_s, REST_S_MAX)))
        began = time.monotonic()
    return answer


def until_equal(read: Callable[[], T], wanted: T, *, timeout_s: float = 30) -> None:
    """Wait until ``read`` returns ``wanted``; its first answer is usually right.

    Raises:
        AssertionError: it did not in time; says what it returned last.
    """
    found: list[T] = []

    def is_right() -> bool:
        found.append(read())
        return found[-1] == wanted

    try:
        until(is_right, timeout_s=timeout_s)
    except AssertionError:
        assert found[-1] == wanted, f"{found[-1]} is not {wanted}"
        raise


def seconds(call: Callable[[], object]) -> float:
    """Return how many seconds ``call`` takes."""
    began = time.monotonic()
    call()
    return time.monotonic() - began


def in_time(attempt: Callable[[], float], *, limit_s: float, tries: int = 3) -> None:
    """Assert that ``attempt``, which returns how many seconds it took, takes ``limit_s`` at most.

    A busy machine may delay one attempt, or two: what always takes longer is too slow.

    Raises:
        AssertionError: each of ``tries`` attempts took longer.
    """
    took = []
    for _ in range(tries):
        took.append(attempt())
        if took[-1] <= limit_s:
            return
    raise AssertionError(f"took {took} s, each more than {limit_s} s")


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
