import java.lang.ref.WeakReference;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedList;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

// Runs tasks that may wait for a file system or the metastore, in threads of its own, so that
// neither the agent nor the application waits. Any thread may call it.
//
//     later ──▶ a task of its name runs ──▶ it runs after that, once for all that came meanwhile
//           └─▶ its table has ofTableMax running ──▶ it waits for one of these to end
//           └─▶ else it starts as soon as one of the pool's threads is free
//
// The lock of ``busy`` guards the tasks and the lanes. Names bound what waits: at most two tasks
// have the same name, and there is a name for each lister of files, cached table and session.
final class TopicastTasks implements ThreadFactory {
    private static final int FAILURES_MAX = 1000;  // since the last look; more are dropped: 0.2 MB
    private static final long IDLE_S = 10L;  // after which a thread of the pool ends
    private static final String EVERY = "*";  // the table of a task for all tables of a session

    private final int ofTableMax;
    private final ThreadPoolExecutor pool;
    private final Map busy = new HashMap();  // name -> its task that runs, or is to run next
    private final Map lanes = new HashMap();  // table -> Lane
    private final LinkedBlockingQueue failures = new LinkedBlockingQueue(FAILURES_MAX);

    TopicastTasks(int threads, int ofTableMax) {
        this.ofTableMax = ofTableMax;
        this.pool = new ThreadPoolExecutor(threads, threads, IDLE_S, TimeUnit.SECONDS,
            new LinkedBlockingQueue(), this);
        this.pool.allowCoreThreadTimeOut(true);
    }

    public Thread newThread(Runnable work) {
        Thread thread = new Thread(work, "topicast-files");
        thread.setDaemon(true);
        return thread;
    }

    // Run ``work`` in a thread of the pool. Tasks of one name do the same, so the newest that waits
    // replaces the others. They never run at the same time, because of two listings of the same
    // files the older one might end last.
    void later(Object name, String session, String table, WeakReference context, Callable work) {
        Task task = new Task(this, name, session, table, context, work);
        synchronized (busy) {
            Task before = (Task) busy.get(name);
            if (before == null) {
                busy.put(name, task);
                admit(task);
            } else {
                before.next = task;
            }
        }
    }

    // Wait at most ms until no task is left; returns whether none is.
    boolean settle(long ms) throws InterruptedException {
        long until = System.nanoTime() + ms * 1000000L;
        synchronized (busy) {
            while (!busy.isEmpty()) {
                long left = (until - System.nanoTime()) / 1000000L;
                if (left <= 0) return false;
                busy.wait(left);
            }
        }
        return true;
    }

    // Returns the tables that unfinished tasks are for, one a line; "*" stands for all.
    String unfinished() {
        TreeSet found = new TreeSet();
        synchronized (busy) {
            for (Iterator all = busy.values().iterator(); all.hasNext();) {
                found.add(((Task) all.next()).table);
            }
        }
        return String.join("\n", found);
    }

    // Keep a failure for takeFailures().
    void failed(String session, String table, Throwable why) {
        failures.offer(session + " " + table + " " + String.valueOf(why).split("\n")[0]);
    }

    // Append a line for each failure since the last call: "!", session, table, and reason.
    void takeFailures(StringBuilder into) {
        for (Object one = failures.poll(); one != null; one = failures.poll()) {
            into.append("! ").append(one).append('\n');
        }
    }

    // Start a task, or let it wait for the others of its table. Caller: holds the lock.
    private void admit(Task task) {
        Lane lane = (Lane) lanes.get(task.lane());
        if (lane == null) {
            lane = new Lane();
            lanes.put(task.lane(), lane);
        }
        if (lane.running.size() < ofTableMax) start(lane, task);
        else lane.waiting.add(task);
    }

    // Caller: holds the lock. Without memory for a thread execute() throws, whether or not another
    // thread will run the task: the task counts as failed and ended in both cases.
    private void start(Lane lane, Task task) {
        lane.running.add(task);
        try {
            pool.execute(task);
        } catch (OutOfMemoryError none) {
            task.end(none);
        }
    }

    private void ended(Task task) {
        synchronized (busy) {
            Lane lane = (Lane) lanes.get(task.lane());
            if (lane == null || !lane.running.remove(task)) return;
            busy.remove(task.name);
            if (!lane.waiting.isEmpty()) start(lane, (Task) lane.waiting.removeFirst());
            else if (lane.running.isEmpty()) lanes.remove(task.lane());
            if (task.next != null) {
                busy.put(task.name, task.next);
                admit(task.next);
            }
            busy.notifyAll();
        }
    }

    // The tasks of one table that run, and those that wait for them.
    private static final class Lane {
        final Set running = new HashSet();
        final LinkedList waiting = new LinkedList();
    }

    private static final class Task implements Runnable {
        final TopicastTasks of;
        final Object name;
        final String session;
        final String table;
        final WeakReference context;
        final Callable work;
        Task next;  // of the same name, to run once this one has ended; null: none

        Task(TopicastTasks of, Object name, String session, String table, WeakReference context,
                Callable work) {
            this.of = of;
            this.name = name;
            this.session = session;
            this.table = table;
            this.context = context;
            this.work = work;
        }

        Object lane() {
            return table.equals(EVERY) ? name : table;
        }

        public void run() {
            Throwable why = null;
            try {
                work.call();
            } catch (Throwable failed) {
                why = failed;
            }
            end(why);  // not in a finally: Janino would run one behind a catch twice
        }

        // A failure after the context was stopped is dropped: its caches have ended, too.
        void end(Throwable why) {
            try {
                if (why != null && !TopicastSpark.isStopped(context)) {
                    of.failed(session, table, why);
                }
            } finally {
                of.ended(this);
            }
        }
    }
}
