import java.util.Collection;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;
import org.apache.spark.sql.streaming.StreamingQueryListener;

public final class TopicastListener extends SparkListener
        implements java.util.concurrent.ThreadFactory,
                   java.util.concurrent.RejectedExecutionHandler {
    private final BiConsumer to;
    private final Consumer sessions;
    private final Collection commands;
    private final Collection writes;
    private final AtomicInteger missed = new AtomicInteger();
    private final AtomicInteger waiting = new AtomicInteger();
    private final ThreadPoolExecutor caller;

    public TopicastListener(BiConsumer to, Consumer sessions, Collection commands,
            Collection writes, Integer max) {
        this.to = to;
        this.sessions = sessions;
        this.commands = commands;
        this.writes = writes;
        ArrayBlockingQueue queue = new ArrayBlockingQueue(max.intValue());
        this.caller = new ThreadPoolExecutor(1, 1, 10L, TimeUnit.SECONDS, queue, this, this);
        this.caller.allowCoreThreadTimeOut(true);  // nobody ends it if its context is stopped
    }

    public void onOtherEvent(SparkListenerEvent event) {
        if (event instanceof SparkListenerSQLExecutionStart) {
            long id = ((SparkListenerSQLExecutionStart) event).executionId();
            QueryExecution began = SQLExecution.getQueryExecution(id);
            if (began == null) return;
            sessions.accept(began.sparkSession());
            if (isWrite(began)) call("began", began);
        } else if (event instanceof SparkListenerSQLExecutionEnd) {
            SparkListenerSQLExecutionEnd end = (SparkListenerSQLExecutionEnd) event;
            if (end.qe() == null) return;
            sessions.accept(end.qe().sparkSession());
            boolean inner = end.executionName().isEmpty()
                || !commands.contains(end.executionName().get());
            if (inner && !isWrite(end.qe())) return;
            String what = end.executionFailure().isEmpty() ? "executed" : "failed";
            call(inner ? "inner " + what : what, end.qe());
        } else if (event instanceof StreamingQueryListener.QueryStartedEvent) {
            call("started", event);
        } else if (event instanceof StreamingQueryListener.QueryProgressEvent) {
            call("progress", event);
        } else if (event instanceof StreamingQueryListener.QueryTerminatedEvent) {
            call("terminated", event);
        }
    }

    public boolean settle(long ms) throws InterruptedException {
        long until = System.nanoTime() + ms * 1000000L;
        while (waiting.get() > 0 && System.nanoTime() < until) Thread.sleep(2L);
        return waiting.get() == 0;
    }

    public void stop() {
        caller.shutdownNow();
    }

    public Thread newThread(Runnable work) {
        Thread thread = new Thread(work, "topicast-listener");
        thread.setDaemon(true);
        return thread;
    }

    public void rejectedExecution(Runnable work, ThreadPoolExecutor by) {
        waiting.decrementAndGet();
        missed.incrementAndGet();
    }

    private boolean isWrite(QueryExecution of) {
        LogicalPlan plan;
        try {
            plan = of.analyzed();
        } catch (Exception failed) {  // Spark posts events of what it could not analyse, too
            return false;
        }
        if (plan instanceof Union) plan = (LogicalPlan) plan.children().head();  // multi-insert
        return writes.contains(plan.getClass().getSimpleName());
    }

    private void call(final String what, final Object of) {
        waiting.incrementAndGet();
        caller.execute(new Runnable() {
            public void run() {
                int lost = missed.getAndSet(0) + 1;
                try {
                    if (lost > 1) to.accept("missed", Integer.valueOf(lost - 1));
                    lost = 1;
                    to.accept(what, of);
                    lost = 0;
                } catch (RuntimeException failed) {  // counted below
                } finally {
                    missed.addAndGet(lost);
                    waiting.decrementAndGet();
                }
            }
        });
    }
}
