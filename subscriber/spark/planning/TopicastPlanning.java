import java.lang.ref.WeakReference;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.catalog.CatalogDatabase;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTablePartition;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.hive.HiveExternalCatalog;
import org.apache.spark.sql.internal.SharedState;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.util.SizeEstimator;

// The router: who answers a read of the catalog. The class that stands in the catalog's place,
// TopicastCatalog, is generated below this text.
//
// What is kept lies in one map for each object: "db.table", "db" for a database, "db/" for the
// lists of names in it, "/" for the databases. A change removes an object's map; a load puts its
// result into the map that it took before it began, so what was loaded across a change is lost.
public final class TopicastPlanning {
    private static final Class[] NONE = new Class[0];
    private static final Object[] NOTHING = new Object[0];
    private static final char END = (char) 10;
    private static final String EVERYTHING = "*";
    private static final String IN_ALL = ".*";  // behind a database's name: everything in it
    private static final String NAMES = "/";
    private static final String ID = "spark.sql.execution.id";
    private static final String ROOT = "spark.sql.execution.root.id";
    private static final int OBJECT_BYTES = 256;  // of an object's map, and of an entry in one
    private static final int KEY_MAX = 16384;  // characters of a filter: longer ones are not kept
    private static final int NAMES_MAX = 10000;  // dirty, changed, or used: 1 MB each
    private static final long REFUSED_NS = 5000000000L;  // until a table is looked at again
    private static final int SERVED_MAX = 256;  // objects that a thread was served last
    private static final String NOT_FOLLOWED = "not followed";
    private static final String UNCONFIRMED = "not confirmed";
    private static final long KNOWN_MS = 300;  // that a table's first read waits for the subscriber
    private static final long AGAIN_MS = 5000;  // likewise, and for a reader, if nobody else answers
    private static final long CONFIRM_MS = 400;  // for a round trip, which Python waits less long for
    private static final String TRANSPORT = "TTransportException";
    private static final String[] MISSED = new String[] {
        "off", "not live", "dirty", "command", "first read", "never", "filter", "too large",
        NOT_FOLLOWED, UNCONFIRMED, "error"};

    private final Object registry;  // TopicastSessions
    private final Method sessions;
    private final Method supersede;
    private final Predicate inCommand = new InCommand();
    private final ConcurrentHashMap fields = new ConcurrentHashMap();  // of Spark, by their names
    private final Map installed = Collections.synchronizedMap(new WeakHashMap());
    private final AtomicReference objects = new AtomicReference(new ConcurrentHashMap());
    private final AtomicLong bytes = new AtomicLong();
    private final ConcurrentHashMap dirty = new ConcurrentHashMap();  // object -> number of a write
    private final AtomicLong writes = new AtomicLong();  // numbers of writes
    private final ConcurrentHashMap changed = new ConcurrentHashMap();  // tables not read since
    private volatile long allChangedUntil = System.nanoTime();  // likewise, every table
    private final ConcurrentHashMap uses = new ConcurrentHashMap();  // object -> reads, by kind
    private final ConcurrentHashMap counts = new ConcurrentHashMap();  // why not -> LongAdder
    private final LongAdder answered = new LongAdder();
    private final LongAdder endpoint = new LongAdder();  // reads that it has answered
    private volatile String uri = "";  // of the endpoint; empty: there is none
    private volatile String token = "";
    private final LongAdder saved = new LongAdder();
    private final LongAdder refusals = new LongAdder();
    private final LongAdder evicted = new LongAdder();
    private final LongAdder errors = new LongAdder();
    private volatile String lastError = "";
    private volatile String plain = "";  // why a catalog is left as it is
    private final ThreadLocal served = new ThreadLocal();  // of this thread: object -> reads of it
    private volatile boolean on;  // whether ours is to stand in the catalogs' place
    private volatile boolean compares;  // each table with the metastore's
    private volatile boolean confirms;  // that catalogd has nothing newer, at each read of a table
    private final TopicastQuestions unconfirmed = new TopicastQuestions();
    private volatile long liveUntil = System.nanoTime();
    private volatile long bytesMax;
    private volatile Map followed = Collections.emptyMap();  // databases, each as its own value
    private final ConcurrentHashMap tables = new ConcurrentHashMap();  // whose changes are received
    private final ConcurrentHashMap wanted = new ConcurrentHashMap();  // read, not known to be so
    private final ConcurrentHashMap refused = new ConcurrentHashMap();  // not so, until
    private final AtomicLong wants = new AtomicLong();  // numbers of these
    private final ConcurrentHashMap altered = new ConcurrentHashMap();  // by this driver's own
    // statements, not reported yet: table -> whether it came or went

    public TopicastPlanning(Object registry) throws Exception {
        this.registry = registry;
        this.sessions = registry.getClass().getMethod("alive", NONE);
        this.supersede = registry.getClass().getMethod("supersede",
            new Class[] {String.class, String.class});
        for (int at = 0; at < MISSED.length; at++) counts.put(MISSED[at], new LongAdder());
    }

    // ---- what Python calls

    // Stand in the catalogs' place, and keep so many bytes; nothing is served before live().
    // ``validate``: by what a table is confirmed before it is answered: none, catalogd, or hms.
    public void begin(long bytesMax, String validate) {
        this.bytesMax = bytesMax;
        this.compares = validate.equals("hms");
        this.confirms = validate.equals("catalogd");
        unconfirmed.open(confirms);
        this.liveUntil = System.nanoTime();
        changedAll(0L);
        on = true;
        install();
    }

    // Put the originals back, at once; a read that is under way asks its original.
    public void end() {
        on = false;
        synchronized (installed) {
            for (Iterator all = installed.entrySet().iterator(); all.hasNext();) {
                Map.Entry one = (Map.Entry) all.next();
                TopicastCatalog ours = (TopicastCatalog) ((WeakReference) one.getValue()).get();
                if (ours == null) continue;
                put(one.getKey(), ours.original);
                ours.ask("", "");
            }
            installed.clear();
            uri = "";
        }
        clear();
        unconfirmed.open(false);
        synchronized (this) {
            notifyAll();
        }
        synchronized (wanted) {
            wanted.notifyAll();
        }
        synchronized (altered) {
            altered.clear();
            altered.notifyAll();
        }
    }

    // Ask an endpoint before the original. What it answers is not older than what changed() has
    // said before.
    public void endpoint(String uri, String token) {
        synchronized (installed) {
            this.token = token;
            this.uri = uri;
            for (Iterator all = installed.values().iterator(); all.hasNext();) {
                TopicastCatalog one = (TopicastCatalog) ((WeakReference) all.next()).get();
                if (one != null) one.ask(uri, token);
            }
        }
    }

    // Objects are current for so many milliseconds from now; 0: they are not.
    public void live(long ms) {
        liveUntil = System.nanoTime() + ms * 1000000L;
    }

    // The databases whose changes are received, one a line. What is in others is not kept.
    public void follow(String names) {
        Map found = new ConcurrentHashMap();
        String[] all = names.split(String.valueOf(END));
        for (int at = 0; at < all.length; at++) {
            if (!all[at].isEmpty()) found.put(all[at], all[at]);
        }
        followed = found;
    }

    // Changes, one a line: whether names came or went, whether files may differ, whether a driver
    // has reported it before the metastore's event of it was read, the object.
    public void changed(String changes) {
        String[] all = changes.split(String.valueOf(END));
        for (int at = 0; at < all.length; at++) {
            boolean names = all[at].charAt(0) == '1';
            boolean files = all[at].charAt(2) == '1';
            boolean reported = all[at].charAt(4) == '1';
            String object = all[at].substring(6);
            int dot = object.indexOf('.');
            String db = dot < 0 ? object : object.substring(0, dot);
            boolean asks = !uri.isEmpty();  // it has the content with the event, too
            if (reported && (dot < 0 || !files || asks)) announced(dot < 0 ? db + NAMES : object);
            if (dot < 0 || files) unfollow(object);
            drop(object);
            if (names) drop(db + NAMES);
            if (dot < 0 && names) {
                drop(NAMES);
                dropIn(db);
            }
            if (dot > 0 && files) raise(object);
        }
    }

    // Another driver has changed what is held, or what the endpoint may have: the metastore is
    // asked until a sync has passed that.
    private void announced(String object) {
        if (!uri.isEmpty() || map().containsKey(object)) mark(object);
    }

    // Wait until a statement of this driver has changed a table, or for so many milliseconds. A
    // line for each such table: whether it came or went, and its name.
    public String altered(long ms) throws InterruptedException {
        synchronized (altered) {
            if (on && altered.isEmpty()) altered.wait(ms);
        }
        StringBuilder found = new StringBuilder();
        for (Iterator all = altered.keySet().iterator(); all.hasNext();) {
            String table = (String) all.next();
            Object named = altered.remove(table);
            if (named != null) found.append(Boolean.TRUE.equals(named) ? "1 " : "0 ");
            if (named != null) found.append(table).append(END);
        }
        return found.toString();
    }

    // Anything may have changed; for so many milliseconds relations of every table may be old.
    public void changedAll(long ms) {
        allChangedUntil = System.nanoTime() + ms * 1000000L;
        synchronized (wanted) {
            wanted.clear();
            tables.clear();
            refused.clear();
        }
        clear();
    }

    // Wait until a table is read of which it is not known whether its changes are received, or for
    // so many milliseconds. A line for each such table: its number, and its name.
    public String wanted(long ms) throws InterruptedException {
        long until = System.nanoTime() + ms * 1000000L;
        while (on && wanted.isEmpty()) {
            long left = (until - System.nanoTime()) / 1000000L;
            if (left <= 0) break;
            synchronized (wanted) {
                if (wanted.isEmpty()) wanted.wait(left);
            }
        }
        StringBuilder found = new StringBuilder();
        for (Iterator all = wanted.entrySet().iterator(); all.hasNext();) {
            Map.Entry one = (Map.Entry) all.next();
            found.append(one.getValue()).append(' ').append(one.getKey()).append(END);
        }
        return found.toString();
    }

    // Of a table that was wanted: whether its changes are received. Nothing if it has changed since.
    public void known(long number, String table, boolean isFollowed) {
        synchronized (wanted) {  // a change may come in between
            if (!wanted.remove(table, Long.valueOf(number))) return;
            Map into = isFollowed ? tables : refused;
            if (into.size() >= NAMES_MAX) into.clear();  // each is looked at again
            into.put(table, Long.valueOf(System.nanoTime() + REFUSED_NS));
            wanted.notifyAll();
        }
    }

    // Wait until a table is about to be answered, of which catalogd may have a newer version, or for
    // so many milliseconds. A line for each read: its number, and the table.
    public String unconfirmed(long ms) throws InterruptedException {
        return unconfirmed.take(ms);
    }

    // Let reads be answered, or not: a line for each, 1 or 0, and its number. What had changed until
    // then was told by changed() before.
    public void confirmed(String answers) {
        unconfirmed.answer(answers);
    }

    // Wait until there is something to settle, or uses to report, or for so many milliseconds.
    // The number of the newest write that is not settled, or 0.
    public long await(long ms) throws InterruptedException {
        long until = System.nanoTime() + ms * 1000000L;
        while (on) {
            install();
            if (!dirty.isEmpty()) return writes.get();
            long left = (until - System.nanoTime()) / 1000000L;
            if (left <= 0) break;
            synchronized (this) {
                wait(Math.min(left, 100L));
            }
        }
        return 0;
    }

    // Everything up to this write is visible to the subscriber that answers.
    public void settled(long number) {
        for (Iterator all = dirty.entrySet().iterator(); all.hasNext();) {
            if (((Long) ((Map.Entry) all.next()).getValue()).longValue() <= number) all.remove();
        }
    }

    // What was read since the last call, a line for each table: name, reads of it, reads of its
    // partitions.
    public String uses() {
        StringBuilder found = new StringBuilder();
        for (Iterator all = uses.keySet().iterator(); all.hasNext();) {
            String name = (String) all.next();
            LongAdder[] of = (LongAdder[]) uses.remove(name);
            if (of == null) continue;
            found.append(name).append(' ').append(of[0].sum()).append(' ').append(of[1].sum());
            found.append(END);
        }
        return found.toString();
    }

    // A line for each counter, and the state: name, a space, value.
    public String status() {
        StringBuilder found = new StringBuilder();
        line(found, "objects", String.valueOf(answered.sum()));
        line(found, "endpoint", String.valueOf(endpoint.sum()));
        line(found, "calls_saved", String.valueOf(saved.sum()));
        line(found, "refused_writes", String.valueOf(refusals.sum()));
        line(found, "evicted", String.valueOf(evicted.sum()));
        line(found, "bytes", String.valueOf(bytes.get()));
        line(found, "held", String.valueOf(map().size()));
        line(found, "dirty", String.valueOf(dirty.size()));
        line(found, "catalogs", String.valueOf(installed.size()));
        line(found, "live", isLive() ? "1" : "0");
        readers(found);
        line(found, "errors", String.valueOf(errors.sum()));
        line(found, "last_error", lastError);
        line(found, "plain", plain);
        for (int at = 0; at < MISSED.length; at++) {
            line(found, "original: " + MISSED[at],
                String.valueOf(((LongAdder) counts.get(MISSED[at])).sum()));
        }
        return found.toString();
    }

    // How many bytes a result is taken for.
    public long bytesOf(Object result) {
        return sizeOf(result);
    }

    private void readers(StringBuilder into) {
        long failures = 0;
        int number = 0;
        String last = "";
        synchronized (installed) {
            for (Iterator all = installed.values().iterator(); all.hasNext();) {
                TopicastCatalog of = (TopicastCatalog) ((WeakReference) all.next()).get();
                TopicastReaders one = of == null ? null : of.readers;
                if (one == null) continue;
                number += one.number();
                failures += one.failures();
                last = one.lastFailure();
            }
        }
        line(into, "readers", String.valueOf(number));
        line(into, "reader_failures", String.valueOf(failures));
        line(into, "reader_failure", last);
    }

    private static void line(StringBuilder into, String name, String value) {
        into.append(name).append('=').append(value.replace(END, ' ')).append(END);
    }

    // ---- what the catalog in Spark calls

    // Answer a read: from memory, or as the original does. ``calls``: of the metastore, that the
    // original makes.
    Object read(TopicastCatalog from, int method, String name, int calls, Object[] args) {
        Kept into = null;
        String object = null;
        String key = null;
        try {
            object = objectOf(name, args);
            used(object, name);
            String why = whyNot(from, object, KNOWN_MS);
            if (why == null && confirms && object.indexOf('.') > 0
                    && !unconfirmed.isSo(object, CONFIRM_MS)) why = UNCONFIRMED;
            if (why == null) {
                key = keyOf(name, args);
                if (key == null) {
                    why = "filter";
                } else {
                    into = keptOf(object);
                    Held held = into == null ? null : (Held) into.held.get(key);
                    if (into == null || into.never) {
                        into = null;
                        why = "never";
                    } else if (held == null) {
                        why = "first read";
                    } else if (compares && name.equals("getTable")) {
                        why = confirm(from, object, into, method, args, held);
                        into = why == null ? into : keptOf(object);
                    }
                    if (why == null) {
                        held.usedAt = System.nanoTime();
                        serve(object, name, into, held.value);
                        answered.increment();
                        saved.add(calls);
                        return held.value;
                    }
                }
                if (into != null && mayAsk(object)) {  // what cannot be kept cannot be compared
                    Object found = askEndpoint(from, method, object, key, name, calls, args, into);
                    if (found != null) return found;
                }
            }
            ((LongAdder) counts.get(why)).increment();
        } catch (Throwable failed) {  // the original answers
            failed(failed);
            into = null;
        }
        Object found = null;
        try {
            found = from.load(from.original, method, args);
        } catch (Throwable failed) {
            if (into != null) leave(object, into);
            Object second = isAway(failed) ? askAgain(from, method, object, name, args) : null;
            if (second != null) return second;
            Platform.throwException(failed);
        }
        try {
            if (object != null) {
                Map mine = (Map) served.get();
                if (mine != null) mine.remove(object);  // newer than what it was served
                loaded(object, key, name, into, found);
            }
        } catch (Throwable failed) {
            failed(failed);
        }
        return found;
    }

    // Whether the endpoint may be asked for an object: not for lists of names, nor where each table
    // is compared with the metastore's.
    private boolean mayAsk(String object) {
        return !uri.isEmpty() && !compares && object.indexOf('/') < 0;
    }

    // What the endpoint answers, kept as what the original answers is; null: it does not.
    private Object askEndpoint(TopicastCatalog from, int method, String object, String key,
            String name, int calls, Object[] args, Kept into) throws Exception {
        TopicastReaders readers = from.readers;
        Object found = readers == null ? null : readers.ask(from, method, name, args);
        if (found == null || !mayAsk(object)) return null;
        endpoint.increment();
        saved.add(calls);
        serve(object, name, into, found);
        loaded(object, key, name, into, found);
        return found;
    }

    // The metastore cannot be reached: what memory has, confirmed or not, or what the endpoint
    // answers, which has longer now; null: neither does.
    private Object askAgain(TopicastCatalog from, int method, String object, String name,
            Object[] args) {
        long until = System.nanoTime() + AGAIN_MS * 1000000L;
        try {
            if (object == null || compares || whyNot(from, object, AGAIN_MS) != null) return null;
            String key = keyOf(name, args);
            Kept into = key == null ? null : keptOf(object);
            if (into == null || into.never) return null;
            Held held = (Held) into.held.get(key);
            if (held != null) {
                serve(object, name, into, held.value);
                answered.increment();
                return held.value;
            }
            TopicastReaders readers = mayAsk(object) ? from.readers : null;
            Object found = readers == null ? null
                : readers.askAgain(from, method, args, (until - System.nanoTime()) / 1000000L);
            if (found == null) {
                leave(object, into);
                return null;
            }
            endpoint.increment();
            serve(object, name, into, found);
            loaded(object, key, name, into, found);
            return found;
        } catch (Throwable failed) {
            failed(failed);
            return null;
        }
    }

    // Whether a read has failed because no metastore was reached. That something is missing is an
    // answer of one. Classes are known by their names: those of the client may have another loader.
    private static boolean isAway(Throwable failed) {
        for (Throwable one = failed; one != null; one = one.getCause()) {
            if (one.getClass().getName().endsWith(TRANSPORT)) return true;
            if (String.valueOf(one.getMessage()).indexOf(TRANSPORT) >= 0) return true;
            if (one.getCause() == one) return false;
        }
        return false;
    }

    // Before a write that may carry what was read before: refuse it if that is not so any more.
    void guard(TopicastCatalog from, String name, Object[] args) {
        Map mine = (Map) served.get();
        String object = null;
        boolean differs = false;
        try {
            if (!on || (mine == null && map().isEmpty()) || isInCommand(from)) return;
            object = objectOf(name, args);
            differs = differs(from, object, name, args, mine);
        } catch (Throwable failed) {  // then it cannot be known, and nothing is lost by refusing
            failed(failed);
            differs = mine != null && object != null && mine.containsKey(object);
        }
        if (!differs) return;
        refusals.increment();
        if (mine != null) mine.remove(object);
        mark(object);
        throw new IllegalStateException(object + " was changed by somebody else after this driver "
            + "had read it, so Topicast has refused to write over that change: run the statement "
            + "again, which reads " + object + " from the metastore");
    }

    // After a write, whether it has succeeded or not.
    void wrote(String name, Object[] args) {
        try {
            String object = objectOf(name, args);
            int dot = object.indexOf('.');
            String db = dot < 0 ? object : object.substring(0, dot);
            mark(object);
            if (object.equals(EVERYTHING)) return;
            if (name.equals("renameTable")) mark(db + "." + lower(args[2]));
            if (dot > 0) alters(object, name);
            if (dot > 0 && name.endsWith("Table")) mark(db + NAMES);
            if (dot < 0) {
                mark(db + IN_ALL);
                mark(NAMES);
            }
            Map mine = (Map) served.get();
            if (mine != null) mine.remove(object);
        } catch (Throwable failed) {
            failed(failed);
            mark(EVERYTHING);
        }
    }

    // Note a statement's change of a table for others; those of data are reported by the statement.
    private void alters(String object, String name) {
        boolean named = name.equals("createTable") || name.equals("dropTable")
            || name.equals("renameTable");
        if (!named && !name.startsWith("alter") && !name.endsWith("Partitions")) return;
        if (name.equals("alterTableStats") || altered.size() >= NAMES_MAX) return;
        synchronized (altered) {
            if (named || !altered.containsKey(object)) altered.put(object, Boolean.valueOf(named));
            altered.notifyAll();
        }
    }

    // ---- which reads may be answered from memory

    // Null: it may. ``wait``: milliseconds for the subscriber to say that it follows a table.
    private String whyNot(TopicastCatalog from, String object, long wait) {
        if (!on) return "off";
        if (!isLive()) return "not live";
        if (isDirty(object)) return "dirty";
        if (!object.equals(NAMES) && !followed.containsKey(dbOf(object))) return NOT_FOLLOWED;
        boolean isKnown = object.indexOf('.') < 0 || tables.containsKey(object);
        boolean isWanted = !isKnown && want(object);
        if (isInCommand(from)) return "command";
        if (isKnown) return null;
        boolean waits = (isWanted || wait > KNOWN_MS) && mayAsk(object);
        return waits && becomesKnown(object, wait) ? null : NOT_FOLLOWED;
    }

    // Have it found out whether changes of a table are received; false: it was wanted before.
    private boolean want(String table) {
        if (wanted.containsKey(table) || wanted.size() >= NAMES_MAX) return false;
        Long until = (Long) refused.get(table);
        if (until != null && until.longValue() - System.nanoTime() > 0) return false;
        synchronized (wanted) {
            refused.remove(table);
            wanted.put(table, Long.valueOf(wants.incrementAndGet()));
            wanted.notifyAll();
        }
        return true;
    }

    // Wait, but not for long, until it is known of a wanted table; whether its changes are received.
    private boolean becomesKnown(String table, long wait) {
        long until = System.nanoTime() + wait * 1000000L;
        synchronized (wanted) {
            while (on && wanted.containsKey(table)) {
                long left = (until - System.nanoTime()) / 1000000L;
                if (left <= 0) break;
                try {
                    wanted.wait(left);
                } catch (InterruptedException ended) {
                    Thread.currentThread().interrupt();
                    break;
                }
            }
        }
        return tables.containsKey(table);
    }

    // A table has changed: the reason may be that its changes are not received from now on.
    private void unfollow(String object) {
        synchronized (wanted) {
            wanted.remove(object);
            tables.remove(object);
            refused.remove(object);
        }
    }

    private boolean isLive() {
        return liveUntil - System.nanoTime() > 0;
    }

    private boolean isDirty(String object) {
        if (dirty.isEmpty()) return false;
        if (dirty.containsKey(object) || dirty.containsKey(EVERYTHING)) return true;
        return dirty.containsKey(dbOf(object) + IN_ALL);
    }

    // Whether a command runs in this thread, or has started it: it may write what it reads. A
    // command always has an execution, so a thread without one needs no look at its stack, nor one
    // whose only execution is a query.
    private boolean isInCommand(TopicastCatalog from) {
        String id = from.context.getLocalProperty(ID);
        if (id == null) return false;
        if (id.equals(from.context.getLocalProperty(ROOT))) {
            QueryExecution of = SQLExecution.getQueryExecution(Long.parseLong(id));
            if (of != null && !(of.logical() instanceof Command)) return false;
        }
        return inCommand.test(null);
    }

    // ---- what is kept

    private ConcurrentHashMap map() {
        return (ConcurrentHashMap) objects.get();
    }

    // The map of an object; a new one if there is none, null if there is no room.
    private Kept keptOf(String object) {
        Kept found = (Kept) map().get(object);
        if (found != null) return found;
        long size = OBJECT_BYTES + textBytes(object);
        if (!takeRoom(size)) return null;
        Kept made = new Kept(this, size);
        Kept other = (Kept) map().putIfAbsent(object, made);
        if (other == null) return made;
        made.close();
        return other;
    }

    // After a read of the original: keep what it found, in the map that was taken before.
    private void loaded(String object, String key, String name, Kept into, Object found)
            throws Exception {
        if (on && name.equals("getTable")) renew(object);
        if (into == null || key == null) return;
        if (name.equals("getTable")) {
            into.never = isNever((CatalogTable) found);
            into.known = true;
        }
        if (into.never || !isKept(object, name, into, found)) {
            leave(object, into);
            return;
        }
        long size = OBJECT_BYTES + textBytes(key) + sizeOf(found);
        if (size > bytesMax / 2 || !takeRoom(size)) {
            ((LongAdder) counts.get("too large")).increment();
            leave(object, into);
        } else if (!into.put(key, new Held(found, size))) {
            bytes.addAndGet(-size);
        }
    }

    // Tables of formats and kinds whose readers must ask the metastore: Iceberg's, transactional.
    private static boolean isNever(CatalogTable table) {
        scala.collection.Iterator all = table.properties().iterator();
        while (all.hasNext()) {
            scala.Tuple2 one = (scala.Tuple2) all.next();
            String name = lower(one._1());
            String value = lower(String.valueOf(one._2()));
            if (name.equals("table_type") && value.equals("iceberg")) return true;
            if (name.equals("transactional") && value.equals("true")) return true;
            if (name.equals("transactional_properties") && value.equals("insert_only")) return true;
        }
        return false;
    }

    // What is missing is never kept; partitions only of a table that is known not to be excluded.
    private boolean isKept(String object, String name, Kept into, Object found) {
        if (found == null || Boolean.FALSE.equals(found)) return false;
        if (found instanceof scala.Option && ((scala.Option) found).isEmpty()) return false;
        if (object.equals(NAMES)) {
            scala.collection.Iterator all = ((scala.collection.Iterable) found).iterator();
            while (all.hasNext()) if (!followed.containsKey(lower(all.next()))) return false;
            return true;
        }
        if (name.startsWith("list") && object.endsWith(NAMES)) {
            return ((scala.collection.Iterable) found).iterator().hasNext();
        }
        return name.endsWith("Exists") || object.indexOf('.') < 0 || into.known;
    }

    private void leave(String object, Kept into) {
        if (into.held.isEmpty() && !into.never && map().remove(object, into)) into.close();
    }

    private void drop(String object) {
        Kept gone = (Kept) map().remove(object);
        if (gone != null) gone.close();
    }

    private void dropIn(String db) {
        drop(db + NAMES);
        for (Iterator all = map().keySet().iterator(); all.hasNext();) {
            String object = (String) all.next();
            if (object.startsWith(db + ".")) drop(object);
        }
    }

    private void clear() {
        ConcurrentHashMap old = (ConcurrentHashMap) objects.getAndSet(new ConcurrentHashMap());
        for (Iterator all = old.values().iterator(); all.hasNext();) ((Kept) all.next()).close();
    }

    // Account for so many bytes; what was used longest ago goes if they do not fit.
    private boolean takeRoom(long size) {
        if (size > bytesMax) return false;
        if (bytes.addAndGet(size) <= bytesMax) return true;
        evict(bytesMax - bytesMax / 8);
        if (bytes.get() <= bytesMax) return true;
        bytes.addAndGet(-size);
        return false;
    }

    private void evict(long left) {
        ArrayList all = new ArrayList();
        for (Iterator each = map().entrySet().iterator(); each.hasNext();) {
            Map.Entry one = (Map.Entry) each.next();
            ((Kept) one.getValue()).into((String) one.getKey(), all);
        }
        Object[] oldest = all.toArray();
        Arrays.sort(oldest);
        for (int at = 0; at < oldest.length && bytes.get() > left; at++) {
            Candidate one = (Candidate) oldest[at];
            one.of.remove(one.key);
            if (one.of.held.isEmpty() && map().remove(one.object, one.of)) one.of.close();
            evicted.increment();
        }
    }

    // The table is read for the first time since its files may have changed: what Spark's sessions
    // keep of it goes before this read returns.
    private void renew(String object) throws Exception {
        boolean late = allChangedUntil - System.nanoTime() > 0;
        if (changed.remove(object) == null && !late) return;
        int dot = object.indexOf('.');
        supersede.invoke(registry,
            new Object[] {object.substring(0, dot), object.substring(dot + 1)});
    }

    private void raise(String table) {
        if (changed.size() >= NAMES_MAX) changed.clear();  // the push renews their relations, too
        changed.put(table, table);
    }

    // With ``validate = hms``: null if the metastore has the table as it is held, else why not.
    private String confirm(TopicastCatalog from, String object, Kept into, int method,
            Object[] args, Held held) {
        if (from.load(from.original, method, args).equals(held.value)) return null;
        drop(object);
        return "first read";
    }

    // ---- own writes

    private void mark(String object) {
        if (dirty.size() >= NAMES_MAX) object = EVERYTHING;
        dirty.put(object, Long.valueOf(writes.incrementAndGet()));
        if (object.equals(EVERYTHING)) {
            clear();
        } else if (object.endsWith(IN_ALL)) {
            dropIn(object.substring(0, object.length() - IN_ALL.length()));
        } else {
            drop(object);
        }
        synchronized (this) {
            notifyAll();
        }
    }

    // Note what this thread is served: a table or database itself, or that partitions of it were.
    private void serve(String object, String name, Kept from, Object value) {
        Map mine = (Map) served.get();
        if (mine == null) {
            mine = new Served();
            served.set(mine);
        }
        WeakReference[] of = (WeakReference[]) mine.get(object);
        if (of == null) {
            of = new WeakReference[3];
            mine.put(object, of);
        }
        if (name.equals("getTable") || name.equals("getDatabase")) {
            of[0] = new WeakReference(value);
        } else if (of[1] == null || of[1].get() != from) {
            of[2] = of[1];  // what it was served before, and may write without having read it again
            of[1] = new WeakReference(from);
        }
    }

    // Whether the metastore has an object otherwise than this thread, or the memory, has it.
    private boolean differs(TopicastCatalog from, String object, String write, Object[] args,
            Map mine) {
        WeakReference[] of = mine == null ? null : (WeakReference[]) mine.get(object);
        if (of == null && mine != null && ((Served) mine).lost) return true;
        int dot = object.indexOf('.');
        String name = dot < 0 ? "getDatabase" : "getTable";
        Object[] names = dot < 0 ? new Object[] {object}
            : new Object[] {object.substring(0, dot), object.substring(dot + 1)};
        Kept kept = (Kept) map().get(object);
        Held held = kept == null ? null : (Held) kept.held.get(keyOf(name, names));
        Object was = held == null ? null : held.value;
        if (of != null && of[0] != null) {
            was = of[0].get();
            if (was == null) return true;
        }
        if (was != null
                && !was.equals(from.load(from.original, from.methodOf(name), names))) return true;
        if (!write.equals("alterPartitions") || of == null || of[1] == null) return false;
        if (of[1].get() != kept || kept == null || kept.lost) return true;
        scala.collection.Iterator all = ((scala.collection.Iterable) args[2]).iterator();
        while (all.hasNext()) {
            scala.collection.Map spec = ((CatalogTablePartition) all.next()).spec();
            Object is = from.load(from.original, from.methodOf("getPartition"),
                new Object[] {names[0], names[1], spec});
            Boolean same = kept.has((CatalogTablePartition) is);
            if (same == null ? of[2] != null : !same.booleanValue()) return true;
        }
        return false;
    }

    // ---- names and keys

    private static String lower(Object name) {
        return String.valueOf(name).toLowerCase(Locale.ROOT);
    }

    private static String dbOf(String object) {
        int end = object.indexOf('.');
        if (end < 0) end = object.indexOf('/');
        return end < 0 ? object : object.substring(0, end);
    }

    // The object that a call reads or writes, by its name and first arguments.
    private static String objectOf(String name, Object[] args) {
        if (args.length == 0) return NAMES;
        if (name.equals("listDatabases")) return NAMES;
        if (args[0] instanceof CatalogDatabase) return lower(((CatalogDatabase) args[0]).name());
        if (args[0] instanceof CatalogTable) {
            CatalogTable table = (CatalogTable) args[0];
            return lower(table.database()) + "." + lower(table.identifier().table());
        }
        if (!(args[0] instanceof String)) return EVERYTHING;
        if (name.equals("listTables") || name.equals("listViews")) return lower(args[0]) + NAMES;
        if (args.length > 1 && args[1] instanceof String) {
            return lower(args[0]) + "." + lower(args[1]);
        }
        return lower(args[0]);
    }

    // What distinguishes a read of an object from others; null: it is not kept.
    private static String keyOf(String name, Object[] args) {
        StringBuilder key = new StringBuilder(name);
        int begin = name.startsWith("getPartition") || name.startsWith("listPartition") ? 2
            : name.equals("listTables") || name.equals("listViews") ? 1
            : name.equals("listDatabases") ? 0 : args.length;
        for (int at = begin; at < args.length; at++) {
            key.append(END);
            if (!write(args[at], key) || key.length() > KEY_MAX) return null;
        }
        return key.toString();
    }

    private static boolean write(Object value, StringBuilder into) {
        if (value instanceof String) {
            into.append(((String) value).length()).append(':').append(value);
        } else if (value instanceof scala.Option) {
            if (((scala.Option) value).isEmpty()) {
                into.append('-');
            } else {
                into.append('+');
                return write(((scala.Option) value).get(), into);
            }
        } else if (value instanceof scala.collection.Map) {
            TreeMap sorted = new TreeMap();
            scala.collection.Iterator all = ((scala.collection.Map) value).iterator();
            while (all.hasNext()) {
                scala.Tuple2 one = (scala.Tuple2) all.next();
                sorted.put(one._1(), one._2());
            }
            for (Iterator each = sorted.entrySet().iterator(); each.hasNext();) {
                Map.Entry one = (Map.Entry) each.next();
                if (!write(one.getKey(), into) || !write(one.getValue(), into)) return false;
            }
        } else if (value instanceof scala.collection.Seq) {
            into.append('(');
            scala.collection.Iterator all = ((scala.collection.Seq) value).iterator();
            while (all.hasNext()) if (!write(all.next(), into)) return false;
            into.append(')');
        } else if (value instanceof Expression) {
            return Filters.write((Expression) value, into);
        } else {
            return false;
        }
        return into.length() <= KEY_MAX;
    }

    private void used(String object, String name) {
        if (object.indexOf('.') < 0) return;
        LongAdder[] of = (LongAdder[]) uses.get(object);
        if (of == null) {
            if (uses.size() >= NAMES_MAX) return;
            of = new LongAdder[] {new LongAdder(), new LongAdder()};
            LongAdder[] other = (LongAdder[]) uses.putIfAbsent(object, of);
            if (other != null) of = other;
        }
        of[name.startsWith("list") || name.startsWith("getPartition") ? 1 : 0].increment();
    }

    void failed(Throwable why) {
        errors.increment();
        lastError = String.valueOf(why);
    }

    // ---- sizes, in bytes of the heap

    private static long textBytes(String text) {
        if (text == null) return 0;
        long size = text.length();
        for (int at = 0; at < text.length(); at++) {
            if (text.charAt(at) > 255) return 48 + 2 * size;
        }
        return 48 + size;
    }

    private static long sizeOf(Object value) {
        if (value instanceof Boolean) return 16;
        if (value instanceof String) return textBytes((String) value);
        if (value instanceof CatalogTablePartition) return sizeOf((CatalogTablePartition) value);
        if (value instanceof scala.Option) {
            return 16 + (((scala.Option) value).isEmpty() ? 0
                : sizeOf(((scala.Option) value).get()));
        }
        if (value instanceof scala.collection.Seq) {
            long size = 64;
            scala.collection.Iterator all = ((scala.collection.Seq) value).iterator();
            while (all.hasNext()) size += 24 + sizeOf(all.next());
            return size;
        }
        long estimated = SizeEstimator.estimate(value);  // of tables and databases
        return estimated + estimated / 4;  // what they compute later, such as the names of fields
    }

    private static long sizeOf(CatalogTablePartition one) {
        CatalogStorageFormat storage = one.storage();
        long size = 288 + sizeOf(one.spec()) + sizeOf(one.parameters());
        size += sizeOf(storage.properties()) + textOf(storage.inputFormat());
        size += textOf(storage.outputFormat()) + textOf(storage.serde());
        if (storage.locationUri().isDefined()) {
            size += 160 + 3 * textBytes(storage.locationUri().get().toString());
        }
        return one.stats().isDefined() ? size + sizeOf(one.stats().get()) : size;
    }

    private static long sizeOf(scala.collection.Map texts) {
        long size = 32;
        scala.collection.Iterator all = texts.iterator();
        while (all.hasNext()) {
            scala.Tuple2 one = (scala.Tuple2) all.next();
            size += 40 + textBytes((String) one._1()) + textBytes((String) one._2());
        }
        return size;
    }

    private static long textOf(scala.Option text) {
        return text.isEmpty() ? 0 : 16 + textBytes((String) text.get());
    }

    // ---- standing in the catalogs' place

    // Every catalog of Hive that Spark has made; none is made by this.
    private void install() {
        if (!on) return;
        try {
            Object[] all = (Object[]) sessions.invoke(registry, NOTHING);
            for (int at = 0; at < all.length; at++) {
                Object shared = field(all[at].getClass(), "sharedState").get(all[at]);
                if (shared == null) continue;
                Object catalog = field(shared.getClass(), "externalCatalog").get(shared);
                if (catalog == null || installed.containsKey(catalog)) continue;
                install((SharedState) shared, catalog,
                    ((SparkSession) all[at]).sparkContext());
            }
        } catch (Throwable failed) {
            plain = String.valueOf(failed);
        }
    }

    private void install(SharedState shared, Object catalog, SparkContext context)
            throws Exception {
        Object original = field(catalog.getClass(), "delegate").get(catalog);
        if (original.getClass() != HiveExternalCatalog.class) {
            plain = "its catalog is of " + original.getClass().getName();
            return;
        }
        plain = authorizes((HiveExternalCatalog) original);
        if (!plain.isEmpty()) return;
        TopicastCatalog ours = new TopicastCatalog(shared.conf(), shared.hadoopConf(),
            (HiveExternalCatalog) original, this, context);
        synchronized (installed) {
            if (!on) return;
            installed.put(catalog, new WeakReference(ours));
            put(catalog, ours);
            ours.ask(uri, token);
        }
    }

    // Why what one user may read cannot be told from what others may; empty if it can.
    private static String authorizes(HiveExternalCatalog original) {
        String listeners = original.client().getConf("hive.metastore.pre.event.listeners", "");
        if (listeners.indexOf("Authoriz") >= 0) {
            return "the metastore authorises reads: hive.metastore.pre.event.listeners=" + listeners;
        }
        return "";
    }

    private void put(Object catalog, Object delegate) {
        try {
            if (delegate != null) field(catalog.getClass(), "delegate").set(catalog, delegate);
        } catch (Exception failed) {
            failed(failed);
        }
    }

    private Field field(Class of, String name) throws NoSuchFieldException {
        Field known = (Field) fields.get(of.getName() + "." + name);
        if (known == null || !known.getDeclaringClass().isAssignableFrom(of)) {
            known = declared(of, name);
            fields.put(of.getName() + "." + name, known);
        }
        return known;
    }

    private static Field declared(Class of, String name) throws NoSuchFieldException {
        for (Class kind = of; kind != null; kind = kind.getSuperclass()) {
            Field[] all = kind.getDeclaredFields();
            for (int at = 0; at < all.length; at++) {
                if (all[at].getName().equals(name)) {
                    all[at].setAccessible(true);
                    return all[at];
                }
            }
        }
        throw new NoSuchFieldException(of.getName() + " has no field " + name);
    }

    // ---- parts

    // What is kept of one object.
    private static final class Kept {
        final ConcurrentHashMap held = new ConcurrentHashMap();  // key -> Held
        final TopicastPlanning of;
        volatile boolean never;  // it is not to be answered from memory
        volatile boolean known;  // a table: its kind was looked at
        volatile boolean lost;  // something of it was evicted
        private final long madeAt = System.nanoTime();
        private long size;
        private boolean closed;

        Kept(TopicastPlanning of, long size) {
            this.of = of;
            this.size = size;
        }

        boolean put(String key, Held one) {
            synchronized (held) {
                if (closed) return false;
                Held old = (Held) held.put(key, one);
                long freed = old == null ? 0 : old.size;
                size += one.size - freed;
                of.bytes.addAndGet(-freed);
                return true;
            }
        }

        void remove(String key) {
            synchronized (held) {
                Held old = closed ? null : (Held) held.remove(key);
                if (old == null) return;
                lost = true;
                size -= old.size;
                of.bytes.addAndGet(-old.size);
            }
        }

        // Whether the lists that are kept have a partition as it is; null: none of them has it.
        Boolean has(CatalogTablePartition is) {
            Boolean same = null;
            for (Iterator each = held.values().iterator(); each.hasNext();) {
                Object value = ((Held) each.next()).value;
                if (!(value instanceof scala.collection.Seq)) continue;
                scala.collection.Iterator all = ((scala.collection.Seq) value).iterator();
                while (all.hasNext()) {
                    Object one = all.next();
                    if (!(one instanceof CatalogTablePartition)
                            || !((CatalogTablePartition) one).spec().equals(is.spec())) continue;
                    if (!one.equals(is)) return Boolean.FALSE;
                    same = Boolean.TRUE;
                }
            }
            return same;
        }

        void close() {
            synchronized (held) {
                if (closed) return;
                closed = true;
                held.clear();
                of.bytes.addAndGet(-size);
            }
        }

        void into(String object, ArrayList all) {
            if (held.isEmpty()) all.add(new Candidate(object, this, "", madeAt));
            for (Iterator each = held.entrySet().iterator(); each.hasNext();) {
                Map.Entry one = (Map.Entry) each.next();
                long usedAt = ((Held) one.getValue()).usedAt;
                all.add(new Candidate(object, this, (String) one.getKey(), usedAt));
            }
        }
    }

    private static final class Held {
        final Object value;
        final long size;
        volatile long usedAt = System.nanoTime();

        Held(Object value, long size) {
            this.value = value;
            this.size = size;
        }
    }

    private static final class Candidate implements Comparable {
        final String object;
        final Kept of;
        final String key;
        final long usedAt;

        Candidate(String object, Kept of, String key, long usedAt) {
            this.object = object;
            this.of = of;
            this.key = key;
            this.usedAt = usedAt;
        }

        public int compareTo(Object other) {
            long later = usedAt - ((Candidate) other).usedAt;
            return later < 0 ? -1 : later > 0 ? 1 : 0;
        }
    }

    // The objects that a thread was served last.
    private static final class Served extends LinkedHashMap {
        boolean lost;  // there were more

        Served() {
            super(16, 0.75f, true);
        }

        protected boolean removeEldestEntry(Map.Entry oldest) {
            lost = lost || size() > SERVED_MAX;
            return size() > SERVED_MAX;
        }
    }

    // Whether the stack of this thread has a command that executes, or no execution at all: then
    // another thread's execution has started it.
    private static final class InCommand implements Function, Predicate {
        private static final String PACKAGE = "org.apache.spark.sql.execution.";

        public boolean test(Object none) {
            return ((Boolean) StackWalker.getInstance().walk(this)).booleanValue();
        }

        public Object apply(Object frames) {
            Iterator all = ((Stream) frames).iterator();
            boolean executes = false;
            while (all.hasNext()) {
                String name = ((StackWalker.StackFrame) all.next()).getClassName();
                if (!name.startsWith(PACKAGE)) continue;
                if (name.endsWith(".ExecutedCommandExec") || name.endsWith(".V2CommandExec")
                        || name.endsWith(".DataWritingCommandExec")) return Boolean.TRUE;
                if (name.endsWith(".SQLExecution$")) executes = true;
            }
            return Boolean.valueOf(!executes);
        }
    }

    // Filters as texts: two have the same text only if they select the same partitions.
    private static final class Filters {
        private static final TreeSet KINDS = new TreeSet(Arrays.asList(new Object[] {
            "And", "Or", "Not", "EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual",
            "GreaterThan", "GreaterThanOrEqual", "In", "InSet", "IsNull", "IsNotNull",
            "StartsWith", "EndsWith", "Contains", "Cast", "Like"}));
        private static final String PACKAGE = "org.apache.spark.sql.catalyst.expressions.";

        static boolean write(Expression one, StringBuilder into) {
            if (one instanceof AttributeReference) {
                String name = ((AttributeReference) one).name();
                into.append('@').append(name.length()).append(lower(name));
                return type(one.dataType(), into);
            }
            if (one instanceof Literal) return literal((Literal) one, into);
            String kind = one.getClass().getName();
            if (!kind.startsWith(PACKAGE)) return false;
            kind = kind.substring(PACKAGE.length());
            if (!KINDS.contains(kind)) return false;
            into.append('(').append(kind);
            for (int at = 0; at < ((scala.Product) one).productArity(); at++) {
                into.append(' ');
                if (!part(((scala.Product) one).productElement(at), into)) return false;
            }
            into.append(')');
            return into.length() <= KEY_MAX;
        }

        private static boolean part(Object value, StringBuilder into) {
            if (value instanceof Expression) return write((Expression) value, into);
            if (value instanceof DataType) return type((DataType) value, into);
            if (value instanceof scala.Option) {
                into.append('?');
                return ((scala.Option) value).isEmpty()
                    || part(((scala.Option) value).get(), into);
            }
            if (value instanceof scala.collection.Set) {
                TreeSet sorted = new TreeSet();
                scala.collection.Iterator all = ((scala.collection.Set) value).iterator();
                while (all.hasNext()) {
                    StringBuilder text = new StringBuilder();
                    if (!part(all.next(), text)) return false;
                    sorted.add(text.toString());
                    if (sorted.size() > KEY_MAX) return false;
                }
                into.append(sorted);
                return true;
            }
            if (value instanceof scala.collection.Seq) {
                into.append('[');
                scala.collection.Iterator all = ((scala.collection.Seq) value).iterator();
                while (all.hasNext()) {
                    if (!part(all.next(), into) || into.length() > KEY_MAX) return false;
                }
                into.append(']');
                return true;
            }
            if (value == null || value instanceof Number || value instanceof Boolean
                    || value instanceof Character || value instanceof String
                    || value.getClass().getName().equals("org.apache.spark.unsafe.types.UTF8String")
                    || value.getClass().getName().equals("org.apache.spark.sql.types.Decimal")
                    || value.getClass().getName().startsWith("scala.Enumeration")) {
                String text = String.valueOf(value);
                into.append(value == null ? "" : value.getClass().getSimpleName());
                into.append(text.length()).append(':').append(text);
                return true;
            }
            return false;
        }

        private static boolean literal(Literal one, StringBuilder into) {
            into.append('=');
            return type(one.dataType(), into) && part(one.value(), into);
        }

        private static boolean type(DataType type, StringBuilder into) {
            into.append('<').append(type.json()).append('>');
            return true;
        }
    }
}
