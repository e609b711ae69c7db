"""The parts that a process has once: its handle, and the hook that finds new sessions.

The handle is the only mutable state of a module in Topicast. It is of the process, as the classes
of PySpark are that the hook changes.
"""

import os
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from ..writes.wrappers import Call, wrap


class Attached(Protocol):
    """A handle, as this module uses it."""

    def detach(self) -> None:
        """Make the driver plain Spark again."""


A = TypeVar("A", bound=Attached)

_lock: Final = threading.Lock()
_current: Final[list[tuple[int, Any]]] = []  # at most one: pid, handle


def once(make: Callable[[], A]) -> A:
    """Return this process's handle; ``make`` it if there is none.

    Nothing has to end the handle: the JVM ends with the process, and waits for the last reports.
    """
    with _lock:
        if _current and _current[0][0] == os.getpid():
            held: A = _current[0][1]
            return held
        handle = make()
        _current[:] = [(os.getpid(), handle)]
        return handle


def release(handle: Attached) -> None:
    """Have ``once`` make another handle, if ``handle`` is this process's."""
    with _lock:
        _current[:] = [one for one in _current if one[1] is not handle]


def on_construction(kind: type, found: Callable[[Any], None]) -> Callable[[], None]:
    """Call ``found`` with every object of ``kind`` made from now on; return what undoes that.

    ``found`` must not raise.
    """

    def around(call: Call) -> None:
        call.run()
        found(call.it)

    return wrap(kind, "__init__", around)
