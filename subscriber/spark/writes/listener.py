"""Queue: the writes that Spark executes in any session of a context, taken from its JVM.

    bus of the context ──every event──▶ TopicastListener (Java) ──commands, batches──▶ its queue
                   registry ◀──session──┘                    a thread of the agent ◀──take──┘

An adapter. One listener serves a context, on whose bus are the events of all sessions, also of
those of Connect's clients and those that only the JVM has. The listener is a class of Java, so that
queries never leave the JVM, and so that the bus never waits for Python: it drops events while a
listener is slow. The listener queues from the first session on, whether there is an agent or not.
The JVM never calls Python: ``take`` is a call that waits in the JVM.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

BEGAN: Final = "began"  # of a write, if it still runs when the bus has brought its begin
FAILED: Final = "failed"
INNER_EXECUTED: Final = "inner executed"  # a write inside of another command, which reports it
INNER_FAILED: Final = "inner failed"
STARTED: Final = "started"  # a streaming query
PROGRESS: Final = "progress"  # a batch of a streaming query has ended
TERMINATED: Final = "terminated"  # a streaming query
TABLE_REFRESHED: Final = "table refreshed"  # by a call for which Spark executes nothing
PATH_REFRESHED: Final = "path refreshed"  # by such a call
MISSED: Final = "missed"  # the queue had no room, and has dropped executions
ENDED: Final = "ended"  # the listener was stopped

NAME: Final = "TopicastListener"


@dataclass(frozen=True, slots=True)
class Execution:
    """One entry of the queue.

    ``what``: one of the texts above, or executed. ``mark``: identifies the plan among all that
    exist. ``missed``: of MISSED, how many executions were dropped. ``of``: returns the
    QueryExecution, the event of a stream, or the session and the name that a call has refreshed;
    only until the next entry is taken.
    """

    what: str
    mark: int = 0
    missed: int = 0
    of: Callable[[], Any] = lambda: None


class Queue:
    """The executions of one context since its first session; for one thread."""

    def __init__(self, listener: Any, *, sessions: Any) -> None:
        """Take the queue over, perhaps from an agent that has ended.

        Args:
            listener: The context's TopicastListener.
            sessions: A Consumer of Java's, to which the listener passes the session of each
                execution, in the JVM.
        """
        self._listener = listener
        self._taken = 0  # entries
        self._handled = 0  # of the entries taken, those that no other agent has to take again
        listener.tell(sessions)

    def take(self, timeout_s: float, *, handled: bool = True) -> Execution | None:
        """Return the next entry; None: there was none within ``timeout_s``.

        Caller: has worked on the entry before. ``handled``: if this agent is killed, the next agent
        need not take again any of the entries taken so far.
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
        """Wait, at most ``timeout_s``, until all entries are handled; return whether they are."""
        return bool(self._listener.settle(int(timeout_s * 1000)))

    def stop(self) -> None:
        """Have the listener queue nothing any more; a ``take`` that waits returns at once."""
        self._listener.stop()
