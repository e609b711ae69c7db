"""Listeners: what Spark's JVM tells that it executed, whoever asked it to, in whichever session.

    bus of the context ──every event──▶ TopicastHeard (Java) ──commands, batches──▶ its queue
                                                  take ◀── one thread of its own ──┘

An adapter. There is one listener for a context: the events of all its sessions are on one bus,
those of Connect's clients and of sessions that only the JVM has among them. It is a class of Java,
made by Spark's own compiler. Of queries Python hears nothing, which cost each of them 0.3 ms; and
the bus, which drops what others are told while a listener takes long, never waits for Python,
whose lock an application may hold for minutes. Whether callbacks arrive: ``callbacks``.
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
MISSED: Final = "missed"  # how many of these were not told, for want of room
QUEUE_MAX: Final = 10_000  # executions that wait to be told; each is held in the JVM
REASON_MAX: Final = 200  # characters of what the JVM says

HEARD: Final = """
import java.util.Collection;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.streaming.StreamingQueryListener;

public final class TopicastHeard extends SparkListener
        implements java.util.concurrent.ThreadFactory,
                   java.util.concurrent.RejectedExecutionHandler {
    private final BiConsumer to;
    private final Collection commands;
    private final AtomicInteger missed = new AtomicInteger();
    private final AtomicInteger waiting = new AtomicInteger();
    private final ThreadPoolExecutor teller;

    public TopicastHeard(BiConsumer to, Collection commands, Integer max) {
        this.to = to;
        this.commands = commands;
        ArrayBlockingQueue queue = new ArrayBlockingQueue(max.intValue());
        this.teller = new ThreadPoolExecutor(1, 1, 10L, TimeUnit.SECONDS, queue, this, this);
        this.teller.allowCoreThreadTimeOut(true);  // nobody ends it if its context is stopped
    }

    public void onOtherEvent(SparkListenerEvent event) {
        if (event instanceof SparkListenerSQLExecutionEnd) {
            SparkListenerSQLExecutionEnd end = (SparkListenerSQLExecutionEnd) event;
            if (end.qe() == null || end.executionName().isEmpty()) return;
            if (!commands.contains(end.executionName().get())) return;
            tell(end.executionFailure().isEmpty() ? "executed" : "failed", end.qe());
        } else if (event instanceof StreamingQueryListener.QueryProgressEvent) {
            tell("progress", event);
        }
    }

    public boolean settle(long ms) throws InterruptedException {
        long until = System.nanoTime() + ms * 1000000L;
        while (waiting.get() > 0 && System.nanoTime() < until) Thread.sleep(2L);
        return waiting.get() == 0;
    }

    public void stop() {
        teller.shutdownNow();
    }

    public Thread newThread(Runnable work) {
        Thread thread = new Thread(work, "topicast-teller");
        thread.setDaemon(true);
        return thread;
    }

    public void rejectedExecution(Runnable work, ThreadPoolExecutor by) {
        waiting.decrementAndGet();
        missed.incrementAndGet();
    }

    private void tell(final String what, final Object of) {
        waiting.incrementAndGet();
        teller.execute(new Runnable() {
            public void run() {
                int untold = missed.getAndSet(0) + 1;
                try {
                    if (untold > 1) to.accept("missed", Integer.valueOf(untold - 1));
                    untold = 1;
                    to.accept(what, of);
                    untold = 0;
                } catch (RuntimeException deaf) {  // counted below
                } finally {
                    missed.addAndGet(untold);
                    waiting.decrementAndGet();
                }
            }
        });
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


class Listening:
    """Has ``take`` called with what a context executes, from now on until ``stop``."""

    def __init__(self, session: Any, take: Take) -> None:
        """``session``: any one of the context; nothing of it is made by this.

        Raises:
            Deaf: this Spark has no such compiler, or its events are others.
        """
        try:
            self._context = session._sc._jsc.sc()
            self._listener = _made(session._jvm, take)
            self._context.addSparkListener(self._listener)
        except (Py4JError, TypeError) as exc:  # TypeError: what is a package to Py4J is called
            reason = str(exc).strip()[:REASON_MAX]
            raise Deaf(f"{ONLY}: no listener for this Spark ({reason})") from exc

    def settle(self, timeout_s: float) -> bool:
        """Return within that time whether all is told that the bus has brought."""
        return bool(self._listener.settle(int(timeout_s * 1000)))

    def stop(self) -> None:
        """Hear no more, and tell no more of what was heard."""
        self._context.removeSparkListener(self._listener)
        self._listener.stop()


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
    for argument in (Taking(take), commands, QUEUE_MAX):
        arguments.add(argument)
    return kind.getConstructors()[0].newInstance(arguments.toArray())
