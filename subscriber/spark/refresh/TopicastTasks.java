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

// Runs what may wait for a file system or for the metastore, in threads of its own, so that neither
// the agent nor the application waits for that. For any thread.
//
//     later ──▶ one of its name runs ──▶ it runs once that has ended, once for all that came since
//           └─▶ its table has ofTable running ──▶ it waits for one of these to end
//           └─▶ else it starts as soon as one of the pool's threads is free
//
// The lock of ``busy`` guards the tasks and the lanes. What waits is bounded by names: two tasks at
// most have the same, and there is one for each lister of files, cached table or session.
final class TopicastTasks implements ThreadFactory {
    private static final int FAILURES_MAX = 1000;  // since the last look; more are not said: 0.2 MB
    private static final long IDLE_S = 10L;  // after which a thread of the pool ends
    private static final String EVERY = "*";  // the table of what concerns all tables of a session

    private final int ofTableMax;
    private final ThreadPoolExecutor pool;
    private final Map busy = new HashMap();  // name -> the task of it that runs, or is to run next
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

    // Have this done later. Tasks of one name do the same, and never at the same time: of two
    // listings of the same files the older one might end last.
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

    // Whether all that was to be done later has been done, within so many milliseconds.
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

    // The tables for which something is still to be done, one a line; "*" stands for all.
    String unfinished() {
        TreeSet found = new TreeSet();
        synchronized (busy) {
            for (Iterator all = busy.values().iterator(); all.hasNext();) {
                found.add(((Task) all.next()).table);
            }
        }
        return String.join("\n", found);
    }

    // Have it said at the next look that something has failed.
    void failed(String session, String table, Throwable why) {
        failures.offer(session + " " + table + " " + String.valueOf(why).split("\n")[0]);
    }

    // A line for each failure since the last call: "!", session, table, and why.
    void takeFailures(StringBuilder into) {
        for (Object one = failures.poll(); one != null; one = failures.poll()) {
            into.append("! ").append(one).append('\n');
        }
    }

    // Start it, or let it wait for the others of its table. With the lock.
    private void admit(Task task) {
        Lane lane = (Lane) lanes.get(task.lane());
        if (lane == null) {
            lane = new Lane();
            lanes.put(task.lane(), lane);
        }
        if (lane.running.size() < ofTableMax) start(lane, task);
        else lane.waiting.add(task);
    }

    // With the lock. Without memory it may not start, or start all the same: then it has ended.
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

    // What runs and waits of one table.
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
            end(why);  // in no finally: behind a catch, Janino would run that twice
        }

        // What fails once the context was stopped is no failure: its caches have ended, too.
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
