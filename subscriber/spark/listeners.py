"""Listeners: what Spark's JVM tells that it executed, whoever asked it to.

    listener bus ──QueryExecutionListener──▶ Commands (Java) ──▶ Executions ──▶ take: queue it
                 ──StreamingQueryListener────────────────────▶ Batches ─────▶

An adapter. Callbacks only hand over: the bus is shared, and a callback that takes long makes it
drop what others are told. Queries do not even reach Python, which cost each of them 0.3 ms: Spark's
own compiler makes a class of Java that lets commands pass. Whether they arrive: `callbacks`.
"""

from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError

from .catalyst import field_of, in_one_text
from .plans import COMMANDS

EXECUTED: Final = "executed"
FAILED: Final = "failed"
PROGRESS: Final = "progress"

PASS: Final = """
import java.util.Collection;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.util.QueryExecutionListener;

public final class TopicastCommands implements QueryExecutionListener {
    private final QueryExecutionListener to;
    private final Collection names;

    public TopicastCommands(QueryExecutionListener to, Collection names) {
        this.to = to;
        this.names = names;
    }

    public void onSuccess(String name, QueryExecution execution, long duration) {
        if (names.contains(name)) to.onSuccess(name, execution, duration);
    }

    public void onFailure(String name, QueryExecution execution, Exception error) {
        if (names.contains(name)) to.onFailure(name, execution, error);
    }
}
"""

_KINDS: Final[WeakKeyDictionary[Any, Any]] = WeakKeyDictionary()  # made once for each JVM

Take = Callable[[str, Any], None]  # what happened, and the object of the JVM that says more


class Executions:
    """Hears of every execution of one session, and of sessions cloned of it."""

    def __init__(self, take: Take) -> None:
        self._take = take

    def onSuccess(self, name: str, execution: Any, _duration: int) -> None:  # noqa: N802 - Spark's
        """Take a statement that was executed."""
        if name in COMMANDS:
            self._take(EXECUTED, execution)

    def onFailure(self, name: str, execution: Any, _error: Any) -> None:  # noqa: N802 - Spark's
        """Take a statement that failed while it was executed."""
        if name in COMMANDS:
            self._take(FAILED, execution)

    class Java:
        """What it is in the JVM."""

        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)


class Batches:
    """Hears of every batch of the streams of one session."""

    def __init__(self, take: Take) -> None:
        self._take = take

    def onQueryStarted(self, _event: Any) -> None:  # noqa: N802 - Spark's
        """A stream that starts has written nothing."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's
        """Take a batch that is done."""
        self._take(PROGRESS, event)

    def onQueryIdle(self, _event: Any) -> None:  # noqa: N802 - Spark's
        """A stream without a batch has written nothing."""

    def onQueryTerminated(self, _event: Any) -> None:  # noqa: N802 - Spark's
        """What a stream has written was told before."""

    class Java:
        """What it is in the JVM."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


class States:
    """Tells which sessions have their state: whoever makes it fixes what settings it has."""

    def __init__(self) -> None:
        self._field: Any = None

    def has(self, session: Any) -> bool:
        """Tell whether ``session`` has it."""
        if self._field is None:
            kind = session._jsparkSession.getClass()
            self._field = field_of(kind, "sessionState", in_one_text(session))
        return self._field is not None and self._field.get(session._jsparkSession) is not None


def listen(session: Any, take: Take, *, streaming: bool = True) -> Callable[[], None]:
    """Have ``take`` called with what ``session``, which has its state, executes from now on.

    Returns the undoing, which needs what the JVM made of ours: of Python's objects each call
    makes another. ``streaming``: batches, too, for which Spark makes what lives as long as itself.
    """
    java, manager = session._jsparkSession, session._jsparkSession.listenerManager()
    executions = _registered(manager, Executions(take), session._jvm)
    if not streaming:
        return lambda: manager.unregister(executions)
    streams, wrapper = java.streams(), session._jvm.org.apache.spark.sql.streaming
    batches = wrapper.PythonStreamingQueryListenerWrapper(Batches(take))
    streams.addListener(batches)

    def undo() -> None:
        manager.unregister(executions)
        streams.removeListener(batches)

    return undo


def _registered(manager: Any, executions: Executions, jvm: Any) -> Any:
    """Have ``executions`` hear of commands; return what the JVM calls."""
    try:
        listener = _passing(executions, jvm)
        manager.register(listener)
    except (Py4JError, TypeError):  # no such compiler: then it hears of queries, too
        manager.register(executions)
        listener = manager.listListeners()[-1]
    return listener


def _passing(executions: Executions, jvm: Any) -> Any:
    """Return what lets commands pass to ``executions``."""
    kind = _KINDS.get(jvm)
    if kind is None:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(PASS)
        kind = _KINDS[jvm] = compiler.getClassLoader().loadClass("TopicastCommands")
    names, arguments = jvm.java.util.ArrayList(), jvm.java.util.ArrayList()
    for name in sorted(COMMANDS):
        names.add(name)
    arguments.add(executions)
    arguments.add(names)
    return kind.getConstructors()[0].newInstance(arguments.toArray())
