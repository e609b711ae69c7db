"""The singletons of a process: its handle, and the hook that finds new sessions.

The only module of ours that keeps state of its own: classes of Spark are of the process, too.
"""

import os
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from ..writes.wrappers import Call, wrap


class Attached(Protocol):
    """A handle."""

    def detach(self) -> None:
        """Make the driver plain Spark again."""


A = TypeVar("A", bound=Attached)

_lock: Final = threading.Lock()
_current: Final[list[tuple[int, Any]]] = []  # at most one: pid, handle


def once(make: Callable[[], A]) -> A:
    """Return this process's handle; ``make`` it if there is none.

    At the end of the process the JVM ends, which waits a moment for what was written last.
    """
    with _lock:
        if _current and _current[0][0] == os.getpid():
            held: A = _current[0][1]
            return held
        handle = make()
        _current[:] = [(os.getpid(), handle)]
        return handle


def release(handle: Attached) -> None:
    """Let another handle be made."""
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
