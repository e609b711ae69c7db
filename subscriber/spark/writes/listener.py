"""Executions of Spark's JVM, in all of its sessions, passed to Python.

    bus of the context ──every event──▶ TopicastListener (Java) ──commands, batches──▶ its queue
                        sessions ◀─which─┘  on_execution ◀── one thread of its own ──┘

An adapter. One listener serves a context, for the events of all its sessions are on one bus, those
of Connect's clients and of sessions that only the JVM has among them. It is a class of Java, made
by Spark's own compiler, so queries never reach Python, which would cost each of them 0.3 ms; and
the bus, which drops events while a listener takes long, never waits for Python, whose lock an
application may hold for minutes. Calls from the JVM need Py4J's callback server, which is Spark's:
we never end it, but anybody may take or end it, so calls are proved to arrive now and then.
"""

from collections.abc import Callable
from typing import Any, Final
from weakref import ref

from ..guard import Guard
from ..java import java_object, java_source
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

QUEUE_MAX: Final = 10_000  # executions that wait for Python; each is held in the JVM
PROVE_S: Final = 10.0  # between two proofs that calls arrive
PROOF_S: Final = 5.0  # for a call to arrive; it takes 1 ms
REASON_MAX: Final = 200  # characters of the JVM's reason
ONLY_PYTHON: Final = "only from Python"
NO_CALLBACKS: Final = f"{ONLY_PYTHON}: the JVM's callbacks do not arrive (Py4J's callback server)"

NAME: Final = "TopicastListener"

OnExecution = Callable[[str, Any], None]  # what happened, and the object of the JVM that says more


class NoListener(Exception):
    """Executions of the JVM do not reach Python; says why."""


class Listener:
    """Calls ``on_execution`` for what one context executes, from now on until ``stop``.

    The calls come one at a time, from a thread of Py4J's; the next one waits until it returns.
    """

    def __init__(
        self,
        session: Any,
        on_execution: OnExecution,
        *,
        found: Any,
        source: str | None = None,
        queue_max: int = QUEUE_MAX,
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
            lists = [session._jvm.java.util.ArrayList() for _ in range(2)]
            for names, of_java in zip((COMMANDS, WRITES), lists, strict=True):
                for name in sorted(names):
                    of_java.add(name)
            source = source or java_source(__package__, NAME)
            given = (_Consumer(on_execution), found, *lists, queue_max)
            self._listener = java_object(session._jvm, NAME, source, *given)
            self._context.addSparkListener(self._listener)
        except (Py4JError, TypeError) as exc:  # TypeError: what is a package to Py4J is called
            reason = str(exc).strip()[:REASON_MAX]
            raise NoListener(f"{ONLY_PYTHON}: no listener for this Spark ({reason})") from exc

    def settle(self, timeout_s: float) -> bool:
        """Return within ``timeout_s`` whether all events of the bus have been handled."""
        return bool(self._listener.settle(int(timeout_s * 1000)))

    def stop(self) -> None:
        """Take the listener away; executions that wait are dropped."""
        self._context.removeSparkListener(self._listener)
        self._listener.stop()


class CallbackProof:
    """Proves that the JVM's calls arrive in this process."""

    def __init__(self, timeout_s: float = PROOF_S) -> None:
        self._timeout_s = timeout_s
        self._call: Any = None  # the last one, which may still wait for its answer

    def __call__(self, session: Any) -> None:
        """Start the callback server of this process, if nobody has, and have it called.

        While a call waits for its answer no other is made: each holds a thread of the JVM.

        Raises:
            NoListener: calls do not arrive.
        """
        from pyspark import java_gateway

        java_gateway.ensure_callback_server_started(session._sc._gateway)  # type: ignore[no-untyped-call]  # PySpark's
        if self._call is not None and not self._call.isDone():
            raise NoListener(NO_CALLBACKS)
        called, concurrent = _Called(), session._jvm.java.util.concurrent
        try:  # on another thread of the JVM: on this one's it would take the call's way back
            self._call = concurrent.CompletableFuture.runAsync(called)
            self._call.get(int(self._timeout_s * 1000), concurrent.TimeUnit.MILLISECONDS)
        except Exception as exc:
            raise NoListener(NO_CALLBACKS) from exc
        if not called.arrived:
            raise NoListener(NO_CALLBACKS)


class ContextListener:
    """Keeps one listener on the context of now, as long as calls arrive.

    For one thread, but for ``settle``, which is for any.
    """

    def __init__(
        self,
        sessions: Sessions,
        on_execution: OnExecution,
        *,
        guard: Guard,
        prove: Callable[[Any], None],
        listen: Callable[[Any, OnExecution], Listener],
        prove_s: float = PROVE_S,
    ) -> None:
        """Begin without a listener.

        Args:
            sessions: Of the process; their context is listened to.
            on_execution: Takes what the context executes.
            guard: Where failures end.
            prove: Raises NoListener if calls of the session's JVM do not arrive.
            listen: Makes a listener.
            prove_s: Between two proofs.
        """
        self.problem = ""  # why executions of the JVM do not arrive
        self._sessions = sessions
        self._on_execution = on_execution
        self._guard = guard
        self._prove = prove
        self._listen = listen
        self._prove_s = prove_s
        self._prove_at = 0.0
        self._context: ref[Any] | None = None  # that is listened to, or was to be
        self._listener: Listener | None = None

    def check(self, *, now: float) -> None:
        """Listen to the context that there is; prove that calls arrive, if it is time to."""
        session = self._sessions.current()
        if session is None:
            return
        if self._context is None or self._context() is not session._sc:
            self._context, self._listener = ref(session._sc), None
        elif now < self._prove_at:
            return
        self._prove_at = now + self._prove_s
        try:
            self._prove(session)
            if self._listener is None:
                self._listener = self._listen(session, self._on_execution)
            self.problem = ""
        except NoListener as error:
            if self._is_stopped():
                self._context = None  # the next one is listened to
                return
            if not self.problem:
                self._guard.failed("listen to Spark's JVM", error)
            self.problem = str(error)
            self.stop()

    def settle(self, timeout_s: float) -> None:
        """Return within ``timeout_s``, once ``on_execution`` was called for what was executed."""
        listener, session = self._listener, self._sessions.current()
        if session is not None:
            with self._guard("wait for Spark's listeners", unless=self._is_stopped):
                bus = session._sc._jsc.sc().listenerBus()
                bus.waitUntilEmpty(int(timeout_s * 1000))
        if listener is not None:
            with self._guard("wait for the last executions", unless=self._is_stopped):
                listener.settle(timeout_s)

    def stop(self) -> None:
        """Take the listener away: while calls do not arrive the JVM has none of ours."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with self._guard("stop listening", unless=self._is_stopped):
                listener.stop()

    def _is_stopped(self) -> bool:
        """Whether the context has been stopped: in the JVM, which comes first, or in Python."""
        context = self._context() if self._context is not None else None
        java = context._jsc if context is not None else None
        try:
            return java is None or bool(java.sc().isStopped())
        except Exception:  # noqa: BLE001 - Py4J's, of a JVM that has ended
            return True


class _Consumer:
    """What the JVM calls."""

    def __init__(self, on_execution: OnExecution) -> None:
        self._on_execution = on_execution

    def accept(self, what: str, of: Any) -> None:
        """Hand over."""
        self._on_execution(what, of)

    class Java:
        """What it is in the JVM."""

        implements = ("java.util.function.BiConsumer",)


class _Called:
    """Notes whether it was called."""

    def __init__(self) -> None:
        self.arrived = False

    def run(self) -> None:
        """Note that it was called."""
        self.arrived = True

    class Java:
        """What it is in the JVM."""

        implements = ("java.lang.Runnable",)
