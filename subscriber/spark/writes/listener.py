"""Executions of Spark's JVM, in all of its sessions, taken from a queue there.

    bus of the context ──every event──▶ TopicastListener (Java) ──commands, batches──▶ its queue
                        sessions ◀─which─┘                    one thread of ours ──take──┘

An adapter. One listener serves a context, for the events of all its sessions are on one bus, those
of Connect's clients and of sessions that only the JVM has among them. It is a class of Java, made
by Spark's own compiler, so queries never reach Python, which would cost each of them 0.3 ms; and
the bus, which drops events while a listener takes long, never waits for Python, whose lock an
application may hold for minutes. Nothing of the JVM calls Python: ``take`` is a call that waits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from weakref import ref

from ..guard import Guard
from ..java import java_object, java_source, kept_name, kept_objects
from ..sessions import Sessions
from .plans import COMMANDS, WRITES

BEGAN: Final = "began"  # only of what WRITES names, and only if it takes longer than the bus
FAILED: Final = "failed"
INNER_EXECUTED: Final = "inner executed"  # a write inside of another command, which reports it
INNER_FAILED: Final = "inner failed"
STARTED: Final = "started"  # a streaming query
PROGRESS: Final = "progress"  # a batch of it
TERMINATED: Final = "terminated"
MISSED: Final = "missed"  # how many of these were dropped, for want of room
ENDED: Final = "ended"  # the listener was stopped

QUEUE_MAX: Final = 10_000  # executions that wait; each holds its plan in the JVM
RETRY_S: Final = 10.0  # before a context that could not be listened to is tried again
REASON_MAX: Final = 200  # characters of the JVM's reason
ONLY_PYTHON: Final = "only from Python"
NO_ANSWER: Final = f"{ONLY_PYTHON}: Spark's JVM does not answer"

NAME: Final = "TopicastListener"


@dataclass(frozen=True, slots=True)
class Execution:
    """What happened, to the plan of this ``mark``: no two that exist have the same.

    ``of``: returns the QueryExecution, or the event of a stream, until the next one is taken.
    ``missed``: how many were dropped, if that is what happened.
    """

    what: str
    mark: int = 0
    missed: int = 0
    of: Callable[[], Any] = lambda: None


class NoListener(Exception):
    """Executions of the JVM do not reach Python; says why."""


class Listener:
    """Queues what one context executes, from now on until ``stop``; one thread takes it."""

    def __init__(
        self, session: Any, *, found: Any, source: str | None = None, queue_max: int = QUEUE_MAX
    ) -> None:
        """Listen to the context of ``session``, without creating the session's state.

        ``found``: a Consumer of Java's, which gets the session of each execution, in the JVM.
        ``source``: of the class, another one than TopicastListener.java.

        Raises:
            NoListener: this Spark has no such compiler, or its events are others.
        """
        from py4j.protocol import Py4JError

        try:
            self._context = session._sc._jsc.sc()
            source = source or java_source(__package__, NAME)
            self._kept = kept_objects(session._jvm)
            self._name = kept_name(NAME, source, str(session._sc.applicationId))
            listener = self._kept.get(self._name)
            if listener is not None:  # of a process that has ended: it has queued since
                listener.resume()
                self._listener = listener
                return
            lists = [session._jvm.java.util.ArrayList() for _ in range(2)]
            for names, of_java in zip((COMMANDS, WRITES), lists, strict=True):
                for name in sorted(names):
                    of_java.add(name)
            self._listener = java_object(session._jvm, NAME, source, found, *lists, queue_max)
            self._context.addSparkListener(self._listener)
            self._kept[self._name] = self._listener
        except (Py4JError, TypeError) as exc:  # TypeError: what is a package to Py4J is called
            reason = str(exc).strip()[:REASON_MAX]
            raise NoListener(f"{ONLY_PYTHON}: no listener for this Spark ({reason})") from exc

    def take(self, timeout_s: float) -> Execution | None:
        """Return the next execution; None: there was none within ``timeout_s``.

        The one before counts as handled now.
        """
        text = str(self._listener.take(int(timeout_s * 1000)))
        what, _, number = text.rpartition(" ") if text[-1:].isdigit() else (text, "", "0")
        if what == MISSED:
            return Execution(what, missed=int(number))
        return Execution(what, int(number), of=self._listener.of) if what else None

    def settle(self, timeout_s: float) -> bool:
        """Return within ``timeout_s`` whether all events of the bus have been handled."""
        return bool(self._listener.settle(int(timeout_s * 1000)))

    def stop(self) -> None:
        """Take the listener away; executions that wait are dropped. Any thread may call it."""
        self._kept.pop(self._name, None)
        self._context.removeSparkListener(self._listener)
        self._listener.stop()


class ContextListener:
    """Keeps one listener on the context of now.

    For one thread, but for ``settle`` and ``stop``, which are for any.
    """

    def __init__(
        self, sessions: Sessions, *, guard: Guard, listen: Callable[[Any], Listener]
    ) -> None:
        """Begin without a listener.

        Args:
            sessions: Of the process; their context is listened to.
            guard: Where failures end.
            listen: Makes a listener.
        """
        self.problem = ""  # why executions of the JVM do not arrive
        self._sessions = sessions
        self._guard = guard
        self._listen = listen
        self._retry_at = 0.0
        self._context: ref[Any] | None = None  # that is listened to, or was to be
        self._listener: Listener | None = None
        self._is_old = False  # there is another context: what waits is taken, no more comes

    def check(self, *, now: float) -> bool:
        """Listen to the context that there is; return whether something can be taken."""
        session = self._sessions.current()
        if session is not None:
            is_new = self._context is None or self._context() is not session._sc
            if is_new and self._listener is not None:
                self._is_old = True
            elif is_new or (self.problem and now >= self._retry_at):
                self._context = ref(session._sc)
                self._begin(session, now)
        return self._listener is not None

    def take(self, timeout_s: float) -> Execution | None:
        """Return what is executed next; None: nothing within ``timeout_s``, or nothing any more."""
        listener = self._listener
        if listener is None:
            return None
        try:
            found = listener.take(0.0 if self._is_old else timeout_s)
        except Exception as error:  # noqa: BLE001 - Py4J's, of a JVM that has ended
            if not self._is_stopped():
                self._guard.failed("take what Spark's JVM executes", error)
                self.problem = NO_ANSWER
            self.stop()
            return None
        if found is not None and found.what != ENDED:
            return found
        if found is not None or self._is_old:
            self._listener = None
        return None

    def settle(self, timeout_s: float) -> None:
        """Return within ``timeout_s``, once what was executed has been taken, and handled."""
        listener, session = self._listener, self._sessions.current()
        if session is not None:
            with self._guard("wait for Spark's listeners", unless=self._is_stopped):
                bus = session._sc._jsc.sc().listenerBus()
                bus.waitUntilEmpty(int(timeout_s * 1000))
        if listener is not None:
            with self._guard("wait for the last executions", unless=self._is_stopped):
                listener.settle(timeout_s)

    def stop(self) -> None:
        """Take the listener away; what is being taken ends at once."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with self._guard("stop listening", unless=self._is_stopped):
                listener.stop()

    def _begin(self, session: Any, now: float) -> None:
        self._retry_at, self._is_old = now + RETRY_S, False
        try:
            self._listener = self._listen(session)
            self.problem = ""
        except NoListener as error:
            if self._is_stopped():
                self._context = None  # the next one is listened to
                return
            if not self.problem:
                self._guard.failed("listen to Spark's JVM", error)
            self.problem = str(error)

    def _is_stopped(self) -> bool:
        """Whether the context has been stopped: in the JVM, which comes first, or in Python."""
        context = self._context() if self._context is not None else None
        java = context._jsc if context is not None else None
        try:
            return java is None or bool(java.sc().isStopped())
        except Exception:  # noqa: BLE001 - Py4J's, of a JVM that has ended
            return True
