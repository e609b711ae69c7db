import java.io.File;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.attribute.FileAttribute;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.hive.HiveExternalCatalog;

// Readers: clients of the endpoint of this driver, which answers as the metastore does. Each is a
// catalog of Spark's own with a connection, a lock and a token of its own, so they share nothing
// with the original.
//
// A reader whose connection fails is thrown away; others are made in threads of their own, later
// each time, and no query waits for that. A result of null: the original is asked.
final class TopicastReaders {
    private static final int EACH_MAX = 4;  // readers of one kind, that ask at the same time
    private static final long WAIT_MS = 50;  // of a read, for a reader that is free
    private static final long PAUSE_NS = 500000000L;  // after a failure; doubled each time
    private static final long PAUSE_NS_MAX = 60000000000L;
    private static final String QUICK = "300ms";  // without a byte: one object
    private static final String PATIENT = "5s";  // without a byte: a list of partitions
    private static final String REFUSED = "(topicast asks the metastore)";
    private static final String UNKNOWN = "topicast has no method";
    private static final String[] BUILT_IN = new String[] {
        "spark.sql.hive.metastore.version", "spark.sql.hive.metastore.jars",
        "spark.sql.hive.metastore.jars.path", "spark.sql.hive.metastore.barrierPrefixes"};

    private final SparkConf conf;
    private final Configuration hadoop;
    private final String token;
    private final ClassLoader loader;
    private final Pool quick = new Pool(QUICK);
    private final Pool patient = new Pool(PATIENT);
    private final LongAdder failures = new LongAdder();
    private volatile String lastFailure = "";
    private volatile boolean closed;

    TopicastReaders(SparkConf conf, Configuration hadoop,
            ClassLoader loader, String uri, String token) throws IOException {
        this.conf = conf.clone();
        this.hadoop = new Configuration(hadoop);
        this.loader = loader;
        this.token = token;
        for (int at = 0; at < BUILT_IN.length; at++) this.conf.remove(BUILT_IN[at]);
        File scratch = Files.createTempDirectory("topicast-hive", new FileAttribute[0]).toFile();
        scratch.deleteOnExit();
        set("hive.metastore.uris", uri);
        set("hive.metastore.sasl.enabled", "false");
        set("hive.metastore.use.SSL", "false");
        set("hive.metastore.execute.setugi", "false");
        set("hive.metastore.connect.retries", "1");
        set("hive.metastore.failure.retries", "0");
        set("hive.metastore.client.connect.retry.delay", "0s");
        set("hive.metastore.client.socket.lifetime", "0s");
        // Else Hive replaces its client, and closes its connection, when it is asked for partitions
        // with their privileges for the first time: its hook of authorization is another one then.
        set("hive.internal.ss.authz.settings.applied.marker", "true");
        set("hive.exec.scratchdir", new File(scratch, "scratch").toURI().toString());
        this.hadoop.unset("hive.metastore.client.factory.class");
        this.conf.remove("hive.metastore.client.factory.class");
    }

    // Both: what an application sets on its builder is in Spark's alone, and goes before Hadoop's.
    private void set(String name, String value) {
        hadoop.set(name, value);
        conf.set(name, value);
    }

    // What the endpoint answers; null if it does not, for whatever reason.
    Object ask(TopicastCatalog from, int method, String name, Object[] args) {
        return ask(name.startsWith("listPartition") ? patient : quick, WAIT_MS, from, method, args);
    }

    // Likewise, but patiently: it may take seconds, and ``wait`` milliseconds until one is free.
    Object askAgain(TopicastCatalog from, int method, Object[] args, long wait) {
        return ask(patient, wait, from, method, args);
    }

    private Object ask(Pool pool, long wait, TopicastCatalog from, int method, Object[] args) {
        Reader reader = closed ? null : pool.take(wait);
        if (reader == null) return null;
        Object found = null;
        boolean usable = true;
        try {
            found = reader.read(from, method, args);
        } catch (Throwable failed) {
            usable = isRefusal(failed) && reader.keepsClient();
            if (!usable) failed(failed);
        }
        pool.give(reader, usable);
        return isAnswer(found) ? found : null;
    }

    void close() {
        closed = true;
        quick.close();
        patient.close();
    }

    long failures() {
        return failures.sum();
    }

    String lastFailure() {
        return lastFailure;
    }

    int number() {
        return quick.alive() + patient.alive();
    }

    // Make one of each kind, so that the first reads need not wait.
    void begin() {
        quick.grow();
        patient.grow();
    }

    private void failed(Throwable why) {
        failures.increment();
        Throwable cause = why;
        while (cause.getCause() != null && cause.getCause() != cause) cause = cause.getCause();
        lastFailure = String.valueOf(cause);
    }

    // That something is missing is never taken from the endpoint.
    private static boolean isAnswer(Object found) {
        return found != null && !Boolean.FALSE.equals(found)
            && !(found instanceof scala.Option && ((scala.Option) found).isEmpty());
    }

    // Whether the endpoint has said that it does not answer this; its connection is as it was.
    private static boolean isRefusal(Throwable failed) {
        for (Throwable one = failed; one != null; one = one.getCause()) {
            String text = String.valueOf(one.getMessage());
            if (text.indexOf(REFUSED) >= 0 || text.indexOf(UNKNOWN) >= 0) return true;
            if (one.getCause() == one) return false;
        }
        return false;
    }

    // ---- one reader

    private final class Reader {
        private final HiveExternalCatalog catalog;
        private final Object holder;  // of Spark's client of Hive
        private final Object hive;  // that client, which has presented the token

        // In a thread that has no client of Hive: one that had might lose it.
        Reader(String timeout) throws Exception {
            catalog = new HiveExternalCatalog(conf, hadoop);
            Object client = catalog.client();
            holder = client.getClass().getMethod("clientLoader", new Class[0])
                .invoke(client, new Object[0]);
            Object settings = client.getClass().getMethod("conf", new Class[0])
                .invoke(client, new Object[0]);
            // Here, because Spark has made whole seconds of what it was given.
            settings.getClass().getMethod("set", new Class[] {String.class, String.class})
                .invoke(settings, new Object[] {"hive.metastore.client.socket.timeout", timeout});
            Method of = client.getClass().getDeclaredMethod("client", new Class[0]);
            of.setAccessible(true);
            hive = of.invoke(client, new Object[0]);
            hive.getClass().getMethod("setMetaConf", new Class[] {String.class, String.class})
                .invoke(hive, new Object[] {"topicast.token", token});
        }

        // Spark forgets its client after an answer that the method is unknown, and would make one
        // without the token: put it back. False: that failed.
        boolean keepsClient() {
            try {
                holder.getClass().getMethod("cachedHive_$eq", new Class[] {Object.class})
                    .invoke(holder, new Object[] {hive});
                return true;
            } catch (Exception failed) {
                return false;
            }
        }

        // As the original reads; afterwards the thread's state of Hive is what it was before.
        Object read(TopicastCatalog from, int method, Object[] args) {
            SessionState before = SessionState.get();
            ClassLoader classes = Thread.currentThread().getContextClassLoader();
            try {
                return from.load(catalog, method, args);
            } finally {
                if (before != null) {
                    SessionState.setCurrentSessionState(before);
                } else {
                    SessionState.detachSession();
                }
                Thread.currentThread().setContextClassLoader(classes);
            }
        }

        void close() {
            try {
                Method of = hive.getClass().getDeclaredMethod("close", new Class[0]);
                of.setAccessible(true);
                of.invoke(hive, new Object[0]);
            } catch (Exception gone) {
                // its connection is broken already
            }
        }
    }

    // ---- readers of one kind

    private final class Pool {
        private final String timeout;
        private final LinkedBlockingDeque free = new LinkedBlockingDeque();
        private int alive;  // free and in use
        private boolean making;
        private long pause = PAUSE_NS;
        private long notBefore = System.nanoTime();

        Pool(String timeout) {
            this.timeout = timeout;
        }

        synchronized int alive() {
            return alive;
        }

        // A reader; null: none is free within ``wait`` milliseconds.
        Reader take(long wait) {
            long until = System.nanoTime() + wait * 1000000L;
            try {
                for (;;) {
                    Reader found = (Reader) free.pollFirst();
                    if (found != null) return found;
                    grow();
                    long left = until - System.nanoTime();
                    if (left <= 0 || !isHopeful(left)) return null;
                    found = (Reader) free.pollFirst(Math.min(left, WAIT_MS * 1000000L),
                        TimeUnit.NANOSECONDS);
                    if (found != null) return found;
                }
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
                return null;
            }
        }

        // Whether one may be free within so many nanoseconds.
        synchronized boolean isHopeful(long left) {
            if (closed) return false;
            if (alive > 0) return true;
            boolean isPatient = left > WAIT_MS * 1000000L;  // a quick read waits for no new one
            if (!isPatient) return false;
            return making || notBefore - System.nanoTime() < left;
        }

        void give(Reader reader, boolean usable) {
            if (usable && !closed) {
                synchronized (this) {
                    pause = PAUSE_NS;
                }
                free.addFirst(reader);
                if (!closed) return;
                if (!free.remove(reader)) return;
            }
            lose();
            end(reader);
            grow();
        }

        synchronized void lose() {
            alive--;
            notBefore = System.nanoTime() + pause;
            pause = Math.min(2 * pause, PAUSE_NS_MAX);
        }

        void grow() {
            synchronized (this) {
                if (closed || making || alive >= EACH_MAX) return;
                if (notBefore - System.nanoTime() > 0) return;
                making = true;
            }
            start(new Maker(this));
        }

        void make() {
            Reader made = null;
            try {
                made = new Reader(timeout);
            } catch (Throwable failed) {
                failed(failed instanceof InvocationTargetException
                    && failed.getCause() != null ? failed.getCause() : failed);
            }
            synchronized (this) {
                making = false;
                if (made != null) {
                    alive++;
                } else {
                    notBefore = System.nanoTime() + pause;
                    pause = Math.min(2 * pause, PAUSE_NS_MAX);
                }
            }
            if (made != null) give(made, true);
        }

        void close() {
            for (Object one = free.pollFirst(); one != null; one = free.pollFirst()) {
                end((Reader) one);
            }
        }
    }

    private void start(Runnable what) {
        Thread thread = new Thread(what, "topicast-reader");
        thread.setDaemon(true);
        thread.setContextClassLoader(loader);
        thread.start();
    }

    private void end(Reader reader) {
        start(new Ender(reader));
    }

    private static final class Maker implements Runnable {
        private final Pool of;

        Maker(Pool of) {
            this.of = of;
        }

        public void run() {
            of.make();
        }
    }

    private static final class Ender implements Runnable {
        private final Reader of;

        Ender(Reader of) {
            this.of = of;
        }

        public void run() {
            of.close();
        }
    }
}
