import java.util.ArrayDeque;
import java.util.Collection;
import java.util.function.Consumer;
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

public final class TopicastListener extends SparkListener {
    private static final long END_MS = 300L;  // that the end of an application waits

    private final Consumer sessions;
    private final Collection commands;
    private final Collection writes;
    private final int max;
    private final ArrayDeque waiting = new ArrayDeque();  // pairs: what happened, and of what
    private String last = "";  // what was taken, and is being handled; "": nothing
    private Object taken;  // likewise, what of() returns
    private boolean again;  // it is to be taken once more
    private boolean stopped;
    private int missed;

    public TopicastListener(Consumer sessions, Collection commands, Collection writes,
            Integer max) {
        this.sessions = sessions;
        this.commands = commands;
        this.writes = writes;
        this.max = max.intValue();
    }

    /** Returns what happened, and the mark of its plan; "" after ms, "ended" once stopped. */
    public synchronized String take(long ms) throws InterruptedException {
        if (again) {
            again = false;
            return last;
        }
        last = "";
        taken = null;
        notifyAll();
        long until = System.nanoTime() + ms * 1000000L;
        while (missed == 0 && waiting.isEmpty() && !stopped) {
            long left = (until - System.nanoTime()) / 1000000L;
            if (left <= 0L) return "";
            wait(left);
        }
        if (missed == 0 && waiting.isEmpty()) return "ended";
        if (missed > 0) {
            last = "missed " + missed;
            missed = 0;
        } else {
            last = (String) waiting.poll();
            taken = waiting.poll();
        }
        return last;
    }

    /** Lets what was taken last, by a process that has ended, be taken once more. */
    public synchronized void resume() {
        again = !last.isEmpty();
    }

    /** Returns what was taken last: a QueryExecution, or an event of a stream. */
    public synchronized Object of() {
        return taken;
    }

    /** Returns within ms whether all has been taken, and handled: take was called again. */
    public synchronized boolean settle(long ms) throws InterruptedException {
        long until = System.nanoTime() + ms * 1000000L;
        while (!waiting.isEmpty() || !last.isEmpty() || missed > 0) {
            long left = (until - System.nanoTime()) / 1000000L;
            if (left <= 0L) return false;
            wait(left);
        }
        return true;
    }

    public synchronized void stop() {
        waiting.clear();
        missed = 0;
        stopped = true;
        notifyAll();
    }

    /** Lets what was executed last be handled: the process that takes it may end with this one. */
    public void onApplicationEnd(SparkListenerApplicationEnd event) {
        try {
            settle(END_MS);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    public void onOtherEvent(SparkListenerEvent event) {
        if (event instanceof SparkListenerSQLExecutionStart) {
            long id = ((SparkListenerSQLExecutionStart) event).executionId();
            QueryExecution began = SQLExecution.getQueryExecution(id);
            if (began == null) return;
            sessions.accept(began.sparkSession());
            LogicalPlan plan = planOf(began);
            if (isWrite(plan)) add("began " + System.identityHashCode(plan), began);
        } else if (event instanceof SparkListenerSQLExecutionEnd) {
            SparkListenerSQLExecutionEnd end = (SparkListenerSQLExecutionEnd) event;
            if (end.qe() == null) return;
            sessions.accept(end.qe().sparkSession());
            boolean inner = end.executionName().isEmpty()
                || !commands.contains(end.executionName().get());
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
        }
    }

    private static LogicalPlan planOf(QueryExecution of) {
        try {
            return of.analyzed();
        } catch (Exception failed) {  // Spark posts events of what it could not analyse, too
            return null;
        }
    }

    private boolean isWrite(LogicalPlan plan) {
        if (plan instanceof Union) plan = (LogicalPlan) plan.children().head();  // multi-insert
        return plan != null && writes.contains(plan.getClass().getSimpleName());
    }

    // Not private: Janino makes a private method static, and then it locks nothing.
    synchronized void add(String what, Object of) {
        if (stopped) return;
        if (waiting.size() >= 2 * max) {
            missed++;
        } else {
            waiting.add(what);
            waiting.add(of);
        }
        notifyAll();
    }
}
