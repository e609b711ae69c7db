"""Listeners: what Spark's JVM tells that it executed, whoever asked it to, in whichever session.

    listener bus of the context ──every event──▶ TopicastHeard (Java) ──commands, batches──▶ take

An adapter. There is one listener for a context: the events of all its sessions are on one bus,
those of Connect's clients and of sessions that only the JVM has among them. Of queries Python hears
nothing, which cost each of them 0.3 ms: a class of Java, made by Spark's own compiler, lets pass
what may write. ``take`` only hands over: the bus is shared, and a callback that takes long makes it
drop what others are told. Whether callbacks arrive: ``callbacks``.
"""

from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError

from .callbacks import ONLY, Deaf
from .plans import COMMANDS

EXECUTED: Final = "executed"
FAILED: Final = "failed"
PROGRESS: Final = "progress"
REASON_MAX: Final = 200  # characters of what the JVM says

HEARD: Final = """
import java.util.Collection;
import java.util.function.BiConsumer;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.streaming.StreamingQueryListener;

public final class TopicastHeard extends SparkListener {
    private final BiConsumer to;
    private final Collection commands;

    public TopicastHeard(BiConsumer to, Collection commands) {
        this.to = to;
        this.commands = commands;
    }

    public void onOtherEvent(SparkListenerEvent event) {
        if (event instanceof SparkListenerSQLExecutionEnd) {
            SparkListenerSQLExecutionEnd end = (SparkListenerSQLExecutionEnd) event;
            if (end.qe() == null || end.executionName().isEmpty()) return;
            if (!commands.contains(end.executionName().get())) return;
            to.accept(end.executionFailure().isEmpty() ? "executed" : "failed", end.qe());
        } else if (event instanceof StreamingQueryListener.QueryProgressEvent) {
            to.accept("progress", event);
        }
    }
}
"""

_KINDS: Final[WeakKeyDictionary[Any, Any]] = WeakKeyDictionary()  # made once for each JVM

Take = Callable[[str, Any], None]  # what happened, and the object of the JVM that says more


class Taking:
    """What the JVM calls."""

    def __init__(self, take: Take) -> None:
        self._take = take

    def accept(self, what: str, of: Any) -> None:
        """Hand over."""
        self._take(what, of)

    class Java:
        """What it is in the JVM."""

        implements = ("java.util.function.BiConsumer",)


def listen(session: Any, take: Take) -> Callable[[], None]:
    """Have ``take`` called with what the context of ``session`` executes from now on.

    Returns the undoing. Nothing of a session is made by it.

    Raises:
        Deaf: this Spark has no such compiler, or its events are others.
    """
    try:
        context = session._sc._jsc.sc()
        listener = _made(session._jvm, take)
        context.addSparkListener(listener)
    except (Py4JError, TypeError) as exc:  # TypeError: what is a package to Py4J is called
        raise Deaf(f"{ONLY}: no listener for this Spark ({str(exc).strip()[:REASON_MAX]})") from exc
    return lambda: context.removeSparkListener(listener)


def _made(jvm: Any, take: Take) -> Any:
    kind = _KINDS.get(jvm)
    if kind is None:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(HEARD)
        kind = _KINDS[jvm] = compiler.getClassLoader().loadClass("TopicastHeard")
    commands, arguments = jvm.java.util.ArrayList(), jvm.java.util.ArrayList()
    for name in sorted(COMMANDS):
        commands.add(name)
    arguments.add(Taking(take))
    arguments.add(commands)
    return kind.getConstructors()[0].newInstance(arguments.toArray())
