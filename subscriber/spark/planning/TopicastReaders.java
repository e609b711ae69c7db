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

// Readers: clients of this driver's endpoint, which speaks the metastore's protocol. Each reader is
// a HiveExternalCatalog of Spark's with its own connection, so readers share neither a lock nor a
// client of Hive with the original. It presents the endpoint's token when it connects.
//
// A reader whose connection fails is closed. A thread makes the next reader after a pause that
// doubles, so that no query waits for a connection. Where a read returns null, the router asks the
// original.
final class TopicastReaders {
    private static final int EACH_MAX = 4;  // readers of a pool: reads that it serves at once
    private static final long WAIT_MS = 50;  // a read waits so long for a free reader
    private static final long PAUSE_NS = 500000000L;  // after a failure; doubled each time
    private static final long PAUSE_NS_MAX = 60000000000L;
    private static final String QUICK = "300ms";  // timeout of the socket: for one object
    private static final String PATIENT = "5s";  // timeout of the socket: for lists of partitions
    private static final String REFUSED = "(topicast asks the metastore)";  // the endpoint's texts
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
        // Without this marker the first request for partitions with their privileges configures
        // Hive's authorization, and Hive then closes its connection and makes another client, which
        // has not presented the token.
        set("hive.internal.ss.authz.settings.applied.marker", "true");
        set("hive.exec.scratchdir", new File(scratch, "scratch").toURI().toString());
        this.hadoop.unset("hive.metastore.client.factory.class");
        this.conf.remove("hive.metastore.client.factory.class");
    }

    // Set it in both configurations: what an application has set on its builder is in SparkConf
    // alone, and would override Hadoop's.
    private void set(String name, String value) {
        hadoop.set(name, value);
        conf.set(name, value);
    }

    // Returns what the endpoint answers; null if it does not, for whatever reason.
    Object ask(TopicastCatalog from, int method, String name, Object[] args) {
        return ask(name.startsWith("listPartition") ? patient : quick, WAIT_MS, from, method, args);
    }

    // Likewise with the long timeout, and with ``wait`` milliseconds until a reader is free.
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

    // Make a reader in each pool, so that the first reads find one.
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

    // Whether an answer may be used. "There is none" may not: only the metastore says that.
    private static boolean isAnswer(Object found) {
        return found != null && !Boolean.FALSE.equals(found)
            && !(found instanceof scala.Option && ((scala.Option) found).isEmpty());
    }

    // Whether the endpoint has refused the request, so that the connection is still usable.
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
        private final Object holder;  // Spark's IsolatedClientLoader, which caches the client
        private final Object hive;  // that client of Hive, which has presented the token

        // Caller: a thread without a client of Hive, because Hive has one for each thread, and this
        // one replaces it.
        Reader(String timeout) throws Exception {
            catalog = new HiveExternalCatalog(conf, hadoop);
            Object client = catalog.client();
            holder = client.getClass().getMethod("clientLoader", new Class[0])
                .invoke(client, new Object[0]);
            Object settings = client.getClass().getMethod("conf", new Class[0])
                .invoke(client, new Object[0]);
            // Set the timeout here, because Spark rounds what its configuration says to seconds.
            settings.getClass().getMethod("set", new Class[] {String.class, String.class})
                .invoke(settings, new Object[] {"hive.metastore.client.socket.timeout", timeout});
            Method of = client.getClass().getDeclaredMethod("client", new Class[0]);
            of.setAccessible(true);
            hive = of.invoke(client, new Object[0]);
            hive.getClass().getMethod("setMetaConf", new Class[] {String.class, String.class})
                .invoke(hive, new Object[] {"topicast.token", token});
        }

        // Put the client back into Spark's cache; false if that fails. When the endpoint answers
        // that a method is unknown, Spark drops the client, and would connect without the token.
        boolean keepsClient() {
            try {
                holder.getClass().getMethod("cachedHive_$eq", new Class[] {Object.class})
                    .invoke(holder, new Object[] {hive});
                return true;
            } catch (Exception failed) {
                return false;
            }
        }

        // Read as the original does. The thread's SessionState of Hive and its class loader are
        // restored afterwards, because the application's own use of Hive goes by them.
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
                // the connection is broken already
            }
        }
    }

    // ---- readers of one timeout

    private final class Pool {
        private final String timeout;
        private final LinkedBlockingDeque free = new LinkedBlockingDeque();
        private int alive;  // readers, free and in use
        private boolean making;  // a thread makes a reader
        private long pause = PAUSE_NS;
        private long notBefore = System.nanoTime();

        Pool(String timeout) {
            this.timeout = timeout;
        }

        synchronized int alive() {
            return alive;
        }

        // Returns a reader; null if none is free within ``wait`` milliseconds.
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

        // Whether a reader may become free within ``left`` nanoseconds.
        synchronized boolean isHopeful(long left) {
            if (closed) return false;
            if (alive > 0) return true;
            boolean isPatient = left > WAIT_MS * 1000000L;  // a quick read waits for no new reader
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
