"""The singletons of a process: its handle, and the hook that finds new sessions.

The only module of ours that keeps state of its own: classes of Spark are of the process, too.
"""

import atexit
import os
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, Protocol, TypeVar


class Attached(Protocol):
    """A handle."""

    def detach(self) -> None:
        """Make the driver plain Spark again."""


A = TypeVar("A", bound=Attached)

_lock: Final = threading.Lock()
_current: Final[list[tuple[int, Attached]]] = []  # at most one: pid, handle


def once(kind: type[A], make: Callable[[], A]) -> A:
    """Return this process's handle; ``make`` it if there is none. It is detached at exit."""
    with _lock:
        if _current and _current[0][0] == os.getpid():
            handle = _current[0][1]
            assert isinstance(handle, kind)
            return handle
        handle = make()
        _current[:] = [(os.getpid(), handle)]
        atexit.register(handle.detach)
        return handle


def release(handle: Attached) -> None:
    """Let another handle be made."""
    with _lock:
        _current[:] = [one for one in _current if one[1] is not handle]
    atexit.unregister(handle.detach)


def on_construction(kind: type, found: Callable[[Any], None]) -> Callable[[], None]:
    """Call ``found`` with every object of ``kind`` made from now on; return what undoes that.

    The constructor is wrapped in the class that has it, so that users' subclasses count, too.
    ``found`` must not raise. The undoing leaves a hook that others have put over ours.
    """
    owner = next(one for one in kind.__mro__ if "__init__" in one.__dict__)
    original: Callable[..., None] = owner.__dict__["__init__"]
    on = True

    @wraps(original)
    def init(self: object, *args: Any, **named: Any) -> None:
        original(self, *args, **named)
        if on:
            found(self)

    def undo() -> None:
        nonlocal on
        on = False
        if owner.__dict__["__init__"] is init:
            setattr(owner, "__init__", original)  # noqa: B010 - mypy allows it this way only

    setattr(owner, "__init__", init)  # noqa: B010 - as above
    return undo
