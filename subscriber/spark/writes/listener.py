"""Executions of Spark's JVM, in all of its sessions, taken from a queue there.

    bus of the context ──every event──▶ TopicastListener (Java) ──commands, batches──▶ its queue
                        sessions ◀─which─┘                    a thread of the agent ──take──┘

An adapter. One listener serves a context: the events of all its sessions are on one bus, also those
of Connect's clients and of sessions that only the JVM has. The listener is a class of Java, so that
queries never leave the JVM, and the bus, which drops events while a listener takes long, never
waits for a Python. It queues from the first session on, whether there is an agent or not. The JVM
never calls Python: ``take`` is a call that waits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

BEGAN: Final = "began"  # only of what writes, and only if it takes longer than the bus
FAILED: Final = "failed"
INNER_EXECUTED: Final = "inner executed"  # a write inside of another command, which reports it
INNER_FAILED: Final = "inner failed"
STARTED: Final = "started"  # a streaming query
PROGRESS: Final = "progress"  # a batch of it
TERMINATED: Final = "terminated"
TABLE_REFRESHED: Final = "table refreshed"  # by a call that executes nothing
PATH_REFRESHED: Final = "path refreshed"  # by such a call
MISSED: Final = "missed"  # how many of these were dropped, for want of room
ENDED: Final = "ended"  # the listener was stopped

NAME: Final = "TopicastListener"


@dataclass(frozen=True, slots=True)
class Execution:
    """What happened, to the plan of this ``mark``: no two that exist have the same.

    ``of``: returns the QueryExecution, the event of a stream, or the session and the name that a
    call has refreshed, until the next call is taken. ``missed``: how many were dropped, if that is
    what happened.
    """

    what: str
    mark: int = 0
    missed: int = 0
    of: Callable[[], Any] = lambda: None


class Queue:
    """What one context executes, since its first session; one thread takes it."""

    def __init__(self, listener: Any, *, sessions: Any) -> None:
        """Take it over from a process that has ended, if any.

        Args:
            listener: A TopicastListener.
            sessions: A Consumer of Java's, which gets the session of each execution, in the JVM.
        """
        self._listener = listener
        self._taken = self._handled = 0  # how many
        listener.tell(sessions)

    def take(self, timeout_s: float, *, handled: bool = True) -> Execution | None:
        """Return the next execution; None: there was none within ``timeout_s``.

        The execution before has been worked on by then. ``handled``: none of those that were taken
        need be taken by another process if this process is killed.
        """
        self._handled = self._taken if handled else self._handled
        text = str(self._listener.take(int(timeout_s * 1000), self._handled))
        what, _, number = text.rpartition(" ") if text[-1:].isdigit() else (text, "", "0")
        if what == MISSED:
            return Execution(what, missed=int(number))
        if what in ("", ENDED):
            return Execution(what) if what else None
        self._taken += 1
        return Execution(what, int(number), of=self._listener.of)

    def settle(self, timeout_s: float) -> bool:
        """Return within ``timeout_s`` whether all that was queued has been handled."""
        return bool(self._listener.settle(int(timeout_s * 1000)))

    def stop(self) -> None:
        """Queue nothing any more; what is being taken ends at once."""
        self._listener.stop()
