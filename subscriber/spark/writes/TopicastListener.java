import java.lang.ref.SoftReference;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import scala.Function1;

/** Queues what one context executes, from its first session on, for the current agent or a later
    one. Spark's listener bus calls it in one thread, which never waits for an agent, except at the
    end of the application. A thread of the agent takes what is queued; threads of the driver's
    Python wait until their statement was handled. The object's lock guards the queue. The class is
    compiled once for all versions of Spark, so it calls by reflection what differs between them. */
public final class TopicastListener extends SparkListener {
    private static final int QUEUE_MAX = 10000;  // executions; a plan of 50 columns has 0.6 MB
    private static final int TAKEN_MAX = 100;  // executions that are kept until they are handled
    private static final long END_MS = 300L;  // the end of an application waits so long
    private static final long START_MS = 2000L;  // likewise, while its first agent starts
    private static final Class[] NONE = new Class[0];
    private static final Object[] NOTHING = new Object[0];

    private static final Collection COMMANDS = new HashSet(Arrays.asList(new String[] {
        "command", "multi-commands"}));  // Spark's names of executions that may write
    private static final Collection WRITES = new HashSet(Arrays.asList(new String[] {
        "InsertIntoHadoopFsRelationCommand", "InsertIntoHiveTable", "InsertIntoHiveDirCommand",
        "CreateDataSourceTableAsSelectCommand", "CreateHiveTableAsSelectCommand",
        "OptimizedCreateHiveTableAsSelectCommand", "LoadDataCommand", "TruncateTableCommand",
        "RepairTableCommand", "AlterTableAddColumnsCommand", "AlterTableChangeColumnCommand",
        "AlterTableSetLocationCommand", "AlterTableSerDePropertiesCommand",
        "RefreshTableCommand", "RefreshTable", "RefreshResource"}));  // classes of plans that write

    private final int max;
    private final ArrayDeque waiting = new ArrayDeque();  // pairs: what happened, soft ref of whose
    private final HashSet open = new HashSet();  // ids of writes that run; for the bus's thread
    private final HashSet same = new HashSet();  // ids that belong to an open write; likewise
    private final HashMap parts = new HashMap();  // id of a root to come -> plan of its open write
    private final AtomicLong marks = new AtomicLong();  // number of the last TopicastMark
    private long seen;  // number of the last mark that came out of the bus
    private final ArrayDeque taken = new ArrayDeque();  // pairs that may not be handled yet
    private long before;  // pairs that the current agent took before these
    private long agent;  // calls of resume(), so that take() of an earlier agent takes nothing
    private String last = "";  // what was taken last, which the agent works on; "": nothing
    private Object of;  // the object of that; null: nothing
    private boolean starting;  // nothing was taken yet, and an agent is to come
    private boolean stopped;
    private int missed;  // executions that were dropped and not told to an agent yet
    private volatile Consumer sessions;  // gets each session that executes; null: no agent yet
    private volatile Runnable end;  // is run once the application has ended

    public TopicastListener() {
        this(Integer.valueOf(QUEUE_MAX));
    }

    public TopicastListener(Integer max) {
        this.max = max.intValue();
    }

    public void tell(Consumer sessions) {
        this.sessions = sessions;
    }

    /** Passes a session of Python's on to ``sessions`` before it executes anything. */
    public void adopt(Object session) throws Exception {
        Consumer told = sessions;
        if (told == null) return;
        told.getClass().getMethod("adopt", new Class[] {Object.class})
            .invoke(told, new Object[] {session});
    }

    /** Sets whether an agent is to come, for which the end of the application waits START_MS. */
    public synchronized void expect(boolean starting) {
        this.starting = starting;
        notifyAll();
    }

    public void atEnd(Runnable end) {
        this.end = end;
    }

    /** Returns what happened, and the hash of its plan; "" after ms, or if another agent has begun
        meanwhile; "ended" once stopped. ``handled`` is how many of what it took the agent has
        handled: these are dropped, and the others are kept for resume(). */
    public synchronized String take(long ms, long handled) throws InterruptedException {
        long mine = agent;
        starting = false;
        while (!taken.isEmpty() && (before < handled || taken.size() > 2 * TAKEN_MAX)) {
            taken.poll();
            taken.poll();
            before++;
        }
        last = "";
        of = null;
        notifyAll();
        long until = System.nanoTime() + ms * 1000000L;
        while (missed == 0 && waiting.isEmpty() && !stopped) {
            long left = (until - System.nanoTime()) / 1000000L;
            if (left <= 0L) return "";
            wait(left);
            if (mine != agent) return "";
        }
        Object first = firstAlive();
        if (missed > 0) {
            last = "missed " + missed;
            missed = 0;
        } else if (first == null) {
            return "ended";
        } else {
            of = first;
            last = (String) waiting.poll();
            taken.add(last);
            taken.add(waiting.poll());
        }
        return last;
    }

    /** Returns the object of the first pair that waits; null if none waits. Pairs whose object Java
        has discarded, for want of memory, are dropped and count as missed. */
    Object firstAlive() {
        while (!waiting.isEmpty()) {
            Object what = waiting.poll();
            SoftReference held = (SoftReference) waiting.poll();
            Object found = held.get();
            if (found != null) {
                waiting.addFirst(held);
                waiting.addFirst(what);
                return found;
            }
            missed++;
        }
        return null;
    }

    /** Lets the next agent take what an agent that has ended took and did not handle. */
    public synchronized void resume() {
        while (!taken.isEmpty()) waiting.addFirst(taken.pollLast());
        agent++;
        before = 0;
        last = "";
        of = null;
        notifyAll();
    }

    /** Returns the object of what was taken last: a QueryExecution, an event of a stream, or what
        add() got. */
    public synchronized Object of() {
        return of;
    }

    /** Waits at most ms until all was taken, and take() was called once more, which says that the
        last is handled; returns whether that is so. */
    public synchronized boolean settle(long ms) throws InterruptedException {
        long until = System.nanoTime() + ms * 1000000L;
        while (!waiting.isEmpty() || !last.isEmpty() || missed > 0) {
            long left = (until - System.nanoTime()) / 1000000L;
            if (left <= 0L) return false;
            wait(left);
        }
        return true;
    }

    /** Waits at most ms until what the context has executed was handled; returns whether it was.
        A mark that is sent through the bus shows that the listener has all of it. */
    public boolean settle(SparkContext context, long ms) throws InterruptedException {
        long until = System.nanoTime() + ms * 1000000L;
        long mark = marks.incrementAndGet();
        context.listenerBus().post(new TopicastMark(this, mark));
        synchronized (this) {
            while (seen < mark) {
                long left = (until - System.nanoTime()) / 1000000L;
                if (left <= 0L) return false;
                wait(left);
            }
        }
        return settle((until - System.nanoTime()) / 1000000L);
    }

    public synchronized void stop() {
        waiting.clear();
        taken.clear();
        missed = 0;
        stopped = true;
        notifyAll();
    }

    /** Waits until what was executed last is handled, because the agent may end with this JVM. */
    public void onApplicationEnd(SparkListenerApplicationEnd event) {
        try {
            long until = System.nanoTime() + START_MS * 1000000L;
            synchronized (this) {
                while (starting && !waiting.isEmpty()) {
                    long left = (until - System.nanoTime()) / 1000000L;
                    if (left <= 0L) break;
                    wait(left);
                }
            }
            settle(END_MS);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
        if (end != null) end.run();
    }

    /** Handles an event of the bus. Any failure counts as a missed execution, and goes no further:
        Spark stops its context for an Error of a listener, such as a StackOverflowError, and logs
        70 lines for an exception. */
    public void onOtherEvent(SparkListenerEvent event) {
        try {
            handle(event);
        } catch (Throwable failed) {
            miss();
        }
    }

    void handle(SparkListenerEvent event) {
        if (event instanceof SparkListenerSQLExecutionStart) {
            SparkListenerSQLExecutionStart start = (SparkListenerSQLExecutionStart) event;
            Long id = Long.valueOf(start.executionId());
            QueryExecution began = SQLExecution.getQueryExecution(id.longValue());
            if (began == null) return;
            tellOf(began);
            LogicalPlan plan = planOf(began);
            if (!isWrite(plan)) return;
            Object root = start.rootExecutionId().isEmpty() ? null : start.rootExecutionId().get();
            if (open.size() + same.size() + parts.size() >= max) {  // the bus has dropped ends
                open.clear();
                same.clear();
                parts.clear();
            }
            // In spark-sql the bus delivers the start of the root only after the end of the command
            // that it executes, so the root belongs to the write that is known already.
            if (open.contains(root) || parts.get(id) == plan) {
                same.add(id);
                return;
            }
            open.add(id);
            if (root != null && !root.equals(id)) parts.put(root, plan);
            add("began " + System.identityHashCode(plan), began);
        } else if (event instanceof SparkListenerSQLExecutionEnd) {
            SparkListenerSQLExecutionEnd end = (SparkListenerSQLExecutionEnd) event;
            if (end.qe() == null) return;
            tellOf(end.qe());
            Long id = Long.valueOf(end.executionId());
            parts.remove(id);
            if (same.remove(id)) return;
            boolean inner = !open.remove(id) && (end.executionName().isEmpty()
                || !COMMANDS.contains(end.executionName().get()));
            LogicalPlan plan = planOf(end.qe());
            if (plan == null || inner && !isWrite(plan)) return;
            String what = (inner ? "inner " : "")
                + (end.executionFailure().isEmpty() ? "executed " : "failed ");
            add(what + System.identityHashCode(plan), end.qe());
        } else if (event instanceof StreamingQueryListener.QueryStartedEvent) {
            add("started", event);
        } else if (event instanceof StreamingQueryListener.QueryProgressEvent) {
            add("progress", event);
        } else if (event instanceof StreamingQueryListener.QueryTerminatedEvent) {
            add("terminated", event);
        } else if (event instanceof TopicastMark && ((TopicastMark) event).of == this) {
            synchronized (this) {
                seen = Math.max(seen, ((TopicastMark) event).number);
                notifyAll();
            }
        }
    }

    void tellOf(QueryExecution execution) {
        Consumer told = sessions;
        if (told == null) return;
        try {  // sparkSession() returns another class in 3.5 than from 4.0 on
            told.accept(QueryExecution.class.getMethod("sparkSession", NONE)
                .invoke(execution, NOTHING));
        } catch (Throwable failed) {  // the session's extensions may still find it
        }
    }

    static LogicalPlan planOf(QueryExecution of) {
        try {
            return of.analyzed();
        } catch (Exception failed) {  // Spark also posts events of plans that it cannot analyse
            return null;
        }
    }

    static boolean isWrite(LogicalPlan plan) {
        if (plan instanceof Union) plan = firstOf(plan);  // a multi-insert
        return plan != null && WRITES.contains(plan.getClass().getSimpleName());
    }

    static LogicalPlan firstOf(LogicalPlan plan) {
        try {  // children() returns another class in Scala 2.12 than from 2.13 on
            Object children = plan.getClass().getMethod("children", NONE).invoke(plan, NOTHING);
            return (LogicalPlan) ((Function1) children).apply(Integer.valueOf(0));
        } catch (Exception failed) {
            return null;
        }
    }

    // Janino compiles private methods as static ones. A synchronized one would lock the class and
    // not this object, so no synchronized method is private.
    synchronized void miss() {
        if (!stopped) missed++;
        notifyAll();
    }

    /** Queues what has happened, and its object. The object is held softly: if no agent takes it,
        Java discards it before the driver's heap is full. */
    public synchronized void add(String what, Object of) {
        if (stopped) return;
        if (waiting.size() >= 2 * max) {
            missed++;
        } else {
            waiting.add(what);
            waiting.add(new SoftReference(of));
        }
        notifyAll();
    }
}

/** An event that settle() sends through the bus: when it comes out, so have all before it. */
final class TopicastMark implements SparkListenerEvent {
    final TopicastListener of;
    final long number;

    TopicastMark(TopicastListener of, long number) {
        this.of = of;
        this.number = number;
    }

    public boolean logEvent() {
        return false;
    }
}
