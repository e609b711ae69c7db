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

/** Queues what one context executes, from its first session on, for the agent of now, or a later
    one. Spark's bus calls it in one thread, which waits for nobody; a thread of the agent takes,
    and threads of the driver's Python wait until their statement was handled. The object's lock
    guards the queue. It is compiled once for all versions of Spark: what differs in them is called
    by name. */
public final class TopicastListener extends SparkListener {
    private static final int QUEUE_MAX = 10000;  // executions; a plan of 50 columns has 0.6 MB
    private static final int TAKEN_MAX = 100;  // of them that are kept until they are handled
    private static final long END_MS = 300L;  // that the end of an application waits
    private static final long START_MS = 2000L;  // likewise, while its first agent starts
    private static final Class[] NONE = new Class[0];
    private static final Object[] NOTHING = new Object[0];

    private static final Collection COMMANDS = new HashSet(Arrays.asList(new String[] {
        "command", "multi-commands"}));  // how listeners name what may write
    private static final Collection WRITES = new HashSet(Arrays.asList(new String[] {
        "InsertIntoHadoopFsRelationCommand", "InsertIntoHiveTable", "InsertIntoHiveDirCommand",
        "CreateDataSourceTableAsSelectCommand", "CreateHiveTableAsSelectCommand",
        "OptimizedCreateHiveTableAsSelectCommand", "LoadDataCommand", "TruncateTableCommand",
        "RepairTableCommand", "AlterTableAddColumnsCommand", "AlterTableChangeColumnCommand",
        "AlterTableSetLocationCommand", "AlterTableSerDePropertiesCommand",
        "RefreshTableCommand", "RefreshTable", "RefreshResource"}));  // of plans, by their classes

    private final int max;
    private final ArrayDeque waiting = new ArrayDeque();  // pairs: what happened, of what, softly
    private final HashSet open = new HashSet();  // ids of executions that write, of the bus alone
    private final HashSet same = new HashSet();  // of those that are a part of a write, or it
    private final HashMap parts = new HashMap();  // id of one that has not begun -> what it began
    private final AtomicLong marks = new AtomicLong();  // that were sent through the bus
    private long seen;  // the last of them that came out of it
    private final ArrayDeque taken = new ArrayDeque();  // likewise, not known to be handled yet
    private long before;  // how many were taken before these, by the agent of now
    private long agent;  // how many have begun: what one of before left waiting takes nothing
    private String last = "";  // what was taken last, and is being worked on; "": nothing
    private Object of;  // likewise
    private boolean starting;  // nothing was taken yet, but an agent is to come
    private boolean stopped;
    private int missed;
    private volatile Consumer sessions;  // is told which ones execute; null: no agent was live yet
    private volatile Runnable end;  // what is run once the application has ended

    public TopicastListener() {
        this(Integer.valueOf(QUEUE_MAX));
    }

    public TopicastListener(Integer max) {
        this.max = max.intValue();
    }

    public void tell(Consumer sessions) {
        this.sessions = sessions;
    }

    /** Lets those who are told know a session of Python's, before it executes anything. */
    public void adopt(Object session) throws Exception {
        Consumer told = sessions;
        if (told == null) return;
        told.getClass().getMethod("adopt", new Class[] {Object.class})
            .invoke(told, new Object[] {session});
    }

    /** Says whether an agent is to come that takes what was executed before it. */
    public synchronized void expect(boolean starting) {
        this.starting = starting;
        notifyAll();
    }

    public void atEnd(Runnable end) {
        this.end = end;
    }

    /** Returns what happened, and the mark of its plan; "" after ms, or if another agent has begun
        meanwhile; "ended" once stopped. The first ones that were taken, so many, are handled, and
        kept no longer. */
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

    /** Returns of what the first one is that waits; null: none waits. Those before it for which the
        heap had no room are missed. */
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

    /** Lets what a process has taken that has ended, and not handled, be taken once more. */
    public synchronized void resume() {
        while (!taken.isEmpty()) waiting.addFirst(taken.pollLast());
        agent++;
        before = 0;
        last = "";
        of = null;
        notifyAll();
    }

    /** Returns what was taken last: a QueryExecution, an event of a stream, or what add got. */
    public synchronized Object of() {
        return of;
    }

    /** Returns within ms whether all has been taken, and worked on: take was called again. */
    public synchronized boolean settle(long ms) throws InterruptedException {
        long until = System.nanoTime() + ms * 1000000L;
        while (!waiting.isEmpty() || !last.isEmpty() || missed > 0) {
            long left = (until - System.nanoTime()) / 1000000L;
            if (left <= 0L) return false;
            wait(left);
        }
        return true;
    }

    /** Returns within ms whether what the context has executed has been taken, and handled. */
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

    /** Lets what was executed last be handled: the process that takes it may end with this one. */
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

    /** Takes an event of the bus. Whatever fails here is counted as missed: Spark stops its context
        for an Error of a listener, such as a StackOverflowError, and logs 70 lines for others. */
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
            if (open.size() + same.size() + parts.size() >= max) {  // ends of them were dropped
                open.clear();
                same.clear();
                parts.clear();
            }
            // That of spark-sql begins for the bus once the command that it executes has ended.
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
        try {  // it is of another class in 3.5 than from 4.0 on
            told.accept(QueryExecution.class.getMethod("sparkSession", NONE)
                .invoke(execution, NOTHING));
        } catch (Throwable failed) {  // it is found by its extensions, if by anything
        }
    }

    static LogicalPlan planOf(QueryExecution of) {
        try {
            return of.analyzed();
        } catch (Exception failed) {  // Spark posts events of what it could not analyse, too
            return null;
        }
    }

    static boolean isWrite(LogicalPlan plan) {
        if (plan instanceof Union) plan = firstOf(plan);  // multi-insert
        return plan != null && WRITES.contains(plan.getClass().getSimpleName());
    }

    static LogicalPlan firstOf(LogicalPlan plan) {
        try {  // a sequence of another class in Scala 2.12 than from 2.13 on
            Object children = plan.getClass().getMethod("children", NONE).invoke(plan, NOTHING);
            return (LogicalPlan) ((Function1) children).apply(Integer.valueOf(0));
        } catch (Exception failed) {
            return null;
        }
    }

    // Janino makes a private method static, so that it would lock the class, and not this object:
    // no method that is synchronized is private.
    synchronized void miss() {
        if (!stopped) missed++;
        notifyAll();
    }

    /** Queues what has happened, and of what. That is held softly: while no agent takes it, as
        where none can be started, Java discards it before the driver's heap is full. */
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

/** Goes through the bus behind what was executed before it. */
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
