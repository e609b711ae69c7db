import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.unsafe.Platform;

// The router: who answers a read of the catalog. The class that stands in the catalog's place,
// TopicastCatalog, is generated below this text.
//
//     off, not live, dirty, not followed, in a command ──▶ the original
//     what is kept ──▶ the endpoint, by TopicastReaders ──▶ the original ──away──▶ both once more
public final class TopicastPlanning {
    private static final long KNOWN_MS = 300;  // for the subscriber, by a table's first read
    private static final long AGAIN_MS = 5000;  // likewise; nobody else answers
    private static final long CONFIRM_MS = 400;  // for a round trip; the agent waits less long
    private static final String TRANSPORT = "TTransportException";
    private static final String NOT_FOLLOWED = "not followed";

    private final TopicastCommands commands = new TopicastCommands();
    private final TopicastCounts counts = new TopicastCounts();
    private final TopicastFollowed followed = new TopicastFollowed();
    private final TopicastObjects objects = new TopicastObjects();
    private final TopicastQuestions unconfirmed = new TopicastQuestions();
    private final TopicastServed served = new TopicastServed(objects);
    private final TopicastWrites writes = new TopicastWrites(objects);
    private final TopicastInstalled installed;
    private final TopicastRelations relations;
    private volatile boolean on;  // whether ours is to stand in the catalogs' place
    private volatile boolean compares;  // each table with the metastore's
    private volatile boolean confirms;  // that catalogd has nothing newer, at each read of a table
    private final AtomicLong begun = new AtomicLong();  // how often
    private volatile long liveUntil = System.nanoTime();

    public TopicastPlanning(Object registry) throws Exception {
        installed = new TopicastInstalled(registry, counts);
        relations = new TopicastRelations(registry);
    }

    // ---- what the agent calls

    // Stand in the catalogs' place, and keep so many bytes; nothing is served before live().
    // ``validate``: by what a table is confirmed before it is answered: none, catalogd, or hms.
    // Return by what end() knows this call: an agent that ends late must not end the next agent's.
    public long begin(long bytesMax, String validate) {
        long number = begun.incrementAndGet();
        installed.ask("", "");  // the endpoint of a killed agent: another process may have its port
        objects.limit(bytesMax);
        compares = validate.equals("hms");
        confirms = validate.equals("catalogd");
        liveUntil = System.nanoTime();
        changedAll(0L);
        open(true);
        installed.open();
        installed.look(this);
        return number;
    }

    // Put the originals back, at once; a read that is under way asks its original. No effect once
    // begin() was called again.
    public void end(long number) {
        if (number != begun.get()) return;
        on = false;
        installed.close();
        objects.clear();
        open(false);
    }

    private void open(boolean open) {
        on = open;
        unconfirmed.open(open && confirms);
        followed.open(open);
        writes.open(open);
    }

    // Ask an endpoint before the original. What it answers is not older than what changed() has
    // said before.
    public void endpoint(String uri, String token) {
        installed.ask(uri, token);
    }

    // Objects are current for so many milliseconds from now; 0: they are not.
    public void live(long ms) {
        liveUntil = System.nanoTime() + ms * 1000000L;
    }

    // The same, then the state and, behind an empty line, what was read: one call each second.
    public String renew(long ms) {
        live(ms);
        return status() + TopicastNames.END + uses();
    }

    // The databases whose changes are received, one a line. What is in others is not kept.
    public void follow(String names) {
        followed.databases(names);
    }

    // Changes, one a line: whether names came or went, whether files may differ, whether a driver
    // has reported it before the metastore's event of it was read, the object.
    public void changed(String changes) {
        String[] all = changes.split(String.valueOf(TopicastNames.END));
        for (int at = 0; at < all.length; at++) {
            boolean names = all[at].charAt(0) == '1';
            boolean files = all[at].charAt(2) == '1';
            boolean reported = all[at].charAt(4) == '1';
            changed(all[at].substring(6), names, files, reported);
        }
    }

    private void changed(String object, boolean names, boolean files, boolean reported) {
        boolean isTable = TopicastNames.isTable(object);
        String lists = TopicastNames.dbOf(object) + TopicastNames.ALL;
        boolean asks = installed.hasEndpoint();  // it has the content with the event, too
        if (reported && (!isTable || !files || asks)) announced(isTable ? object : lists);
        if (!isTable || files) followed.forget(object);
        objects.drop(object);
        if (names) objects.drop(lists);
        if (!isTable && names) {
            objects.drop(TopicastNames.ALL);
            objects.dropIn(object);
        }
        if (isTable && files) relations.changed(object);
    }

    // Another driver has changed what is held, or what the endpoint may have: the metastore is
    // asked until a sync has passed that.
    private void announced(String object) {
        if (installed.hasEndpoint() || objects.get(object) != null) writes.mark(object);
    }

    // Anything may have changed; for so many milliseconds relations of every table may be old.
    public void changedAll(long ms) {
        relations.allChanged(ms);
        followed.forgetAll();
        objects.clear();
    }

    // Wait until a statement of this driver has changed a table, or for so many milliseconds. A
    // line for each such table: whether it came or went, and its name.
    public String altered(long ms) throws InterruptedException {
        return writes.altered(ms);
    }

    // Wait until a table is read of which it is not known whether its changes are received, or for
    // so many milliseconds. A line for each such table: its number, and its name.
    public String wanted(long ms) throws InterruptedException {
        return followed.wanted(ms);
    }

    // Of a table that was wanted: whether its changes are received. No effect if it has changed.
    public void known(long number, String table, boolean isFollowed) {
        followed.known(number, table, isFollowed);
    }

    // Wait until a read of a table is to be confirmed by catalogd, or for so many milliseconds. A
    // line for each such read: its number, and the table.
    public String unconfirmed(long ms) throws InterruptedException {
        return unconfirmed.take(ms);
    }

    // Let reads be answered, or not: a line for each, 1 or 0, and its number. What had changed by
    // then was told by changed() before.
    public void confirmed(String answers) {
        unconfirmed.answer(answers);
    }

    // Wait for a write that no sync has passed, or for so many milliseconds. The number of the
    // newest such write, or 0. Meanwhile stand in the place of new catalogs, too.
    public long await(long ms) throws InterruptedException {
        long until = System.nanoTime() + ms * 1000000L;
        while (on) {
            installed.look(this);
            long number = writes.newest();
            long left = (until - System.nanoTime()) / 1000000L;
            if (number != 0 || left <= 0) return number;
            writes.pause(Math.min(left, 100L));
        }
        return 0;
    }

    // Everything up to this write is visible to the subscriber that answers.
    public void synced(long number) {
        writes.synced(number);
    }

    // What was read since the last call, a line for each table: name, reads of it, reads of its
    // partitions.
    public String uses() {
        return counts.uses();
    }

    // A line for each counter, and the state: name, "=", value.
    public String status() {
        TopicastLines found = new TopicastLines();
        found.add("live", isLive() ? 1 : 0);
        counts.into(found);
        objects.into(found);
        writes.into(found);
        installed.into(found);
        return found.toString();
    }

    // How many bytes a result is taken for.
    public long bytesOf(Object result) {
        return TopicastSizes.of(result);
    }

    // ---- what the catalog in Spark calls

    // Answer a read: from memory, or as the original does. ``calls``: of the metastore, that the
    // original makes.
    Object read(TopicastCatalog from, int method, String name, int calls, Object[] args) {
        Read one = new Read(from, method, name, calls, args);
        try {
            one.object = TopicastNames.objectOf(name, args);
            counts.used(one.object, name);
            Object found = answer(one, false);
            if (found != null) return found;
        } catch (Throwable failed) {  // the original answers
            failed(failed);
            one.into = null;
            one.why = "failed";
        }
        Object found = null;
        try {
            found = from.load(from.original, method, args);
        } catch (Throwable failed) {
            counts.original(one.why);
            if (one.into != null) objects.leave(one.object, one.into);
            Object second = isAway(failed) ? answerAfterAll(one) : null;
            if (second != null) return second;
            Platform.throwException(failed);
        }
        try {
            if (one.object != null) {
                served.forget(one.object);  // this is newer
                loaded(one, found);
            }
        } catch (Throwable failed) {
            failed(failed);
        }
        counts.original(one.why);
        return found;
    }

    // Before a write that may carry what was read before: refuse it if that is not so any more.
    void guard(TopicastCatalog from, String name, Object[] args) {
        String object = null;
        boolean differs = false;
        try {
            if (!on || served.isEmpty() || commands.runs(from.context)) return;
            object = TopicastNames.objectOf(name, args);
            differs = served.differs(from, object, name, args);
        } catch (Throwable failed) {  // then it cannot be known, and nothing is lost by refusing
            failed(failed);
            differs = served.has(object);
        }
        if (!differs) return;
        counts.refused();
        served.forget(object);
        writes.mark(object);
        throw new IllegalStateException(object + " was changed by somebody else after this driver "
            + "had read it, so Topicast has refused to write over that change: run the statement "
            + "again, which reads " + object + " from the metastore");
    }

    // After a write, whether it has succeeded or not.
    void wrote(String name, Object[] args) {
        try {
            writes.wrote(name, args);
            served.forget(TopicastNames.objectOf(name, args));
        } catch (Throwable failed) {
            failed(failed);
            writes.mark(TopicastNames.EVERYTHING);
        }
    }

    void failed(Throwable why) {
        counts.failed(why);
    }

    // ---- which reads may be answered from memory

    private String whyNot(Read one, boolean again) {
        if (!on) return "off";
        if (!isLive()) return "not live";
        String object = one.object;
        if (writes.isDirty(object)) return "dirty";
        if (!object.equals(TopicastNames.ALL)
                && !followed.hasDatabase(TopicastNames.dbOf(object))) return NOT_FOLLOWED;
        boolean isKnown = !TopicastNames.isTable(object) || followed.hasTable(object);
        boolean isWanted = !isKnown && followed.want(object);
        if (commands.runs(one.from.context)) return "command";
        if (!isKnown) {
            boolean waits = (isWanted || again) && mayAsk(object);
            if (!waits || !followed.becomesKnown(object, again ? AGAIN_MS : KNOWN_MS)) {
                return NOT_FOLLOWED;
            }
        }
        boolean isSo = again || !confirms || !TopicastNames.isTable(object)
            || unconfirmed.isSo(object, CONFIRM_MS);
        return isSo ? null : "not confirmed";
    }

    private boolean isLive() {
        return liveUntil - System.nanoTime() > 0;
    }

    // Whether the endpoint may be asked for an object: not for lists of names, nor where each table
    // is compared with the metastore's.
    private boolean mayAsk(String object) {
        return installed.hasEndpoint() && !compares && !TopicastNames.isList(object);
    }

    // ---- answers

    // What memory has, else what the endpoint answers; null: neither, and the read says why, and
    // where the original's answer may be kept. ``again``: the metastore cannot be reached; then
    // nothing is confirmed, and there is more time.
    private Object answer(Read one, boolean again) throws Exception {
        long until = System.nanoTime() + AGAIN_MS * 1000000L;
        one.into = null;
        one.why = whyNot(one, again);
        if (one.why != null) return null;
        one.key = TopicastNames.keyOf(one.name, one.args);
        one.why = "filter";
        if (one.key == null) return null;  // what cannot be kept cannot be compared
        one.into = objects.of(one.object);
        one.why = "never";
        if (one.into == null) return null;
        if (one.into.never) {
            one.into = null;
            return null;
        }
        TopicastObjects.Held held = one.into.get(one.key);
        if (held != null && compares && one.name.equals("getTable")
                && !one.from.load(one.from.original, one.method, one.args).equals(held.value)) {
            objects.drop(one.object);
            one.into = objects.of(one.object);
            held = null;
        }
        if (held != null) {
            held.usedAt = System.nanoTime();
            served.serve(one.object, one.name, one.into, held.value);
            counts.answered(again ? 0 : one.calls);
            return held.value;
        }
        one.why = "first read";
        TopicastReaders readers = one.into != null && mayAsk(one.object) ? one.from.readers : null;
        if (readers == null) return null;
        Object found = !again ? readers.ask(one.from, one.method, one.name, one.args)
            : readers.askAgain(one.from, one.method, one.args,
                (until - System.nanoTime()) / 1000000L);
        if (found == null || !mayAsk(one.object)) return null;
        counts.endpoint(again ? 0 : one.calls);
        served.serve(one.object, one.name, one.into, found);
        loaded(one, found);
        return found;
    }

    // The metastore cannot be reached: null if the failure of its read is to be passed on.
    private Object answerAfterAll(Read one) {
        if (one.object == null || compares) return null;
        try {
            Object found = answer(one, true);
            if (found == null && one.into != null) objects.leave(one.object, one.into);
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

    // Keep what was found, in the map that was taken before.
    private void loaded(Read one, Object found) throws Exception {
        boolean isTable = one.name.equals("getTable");
        if (on && isTable) relations.renew(one.object);
        if (one.into == null) return;
        if (isTable) {
            one.into.never = isNever((CatalogTable) found);
            one.into.known = true;
        }
        if (one.into.never || !isKept(one, found)) {
            objects.leave(one.object, one.into);
        } else if (!objects.keep(one.into, one.key, found)) {
            one.why = "too large";
            objects.leave(one.object, one.into);
        }
    }

    // Tables of formats and kinds whose readers must ask the metastore: Iceberg's, transactional.
    private static boolean isNever(CatalogTable table) {
        scala.collection.Iterator all = table.properties().iterator();
        while (all.hasNext()) {
            scala.Tuple2 one = (scala.Tuple2) all.next();
            String name = TopicastNames.lower(one._1());
            String value = TopicastNames.lower(one._2());
            if (name.equals("table_type") && value.equals("iceberg")) return true;
            if (name.equals("transactional") && value.equals("true")) return true;
            if (name.equals("transactional_properties") && value.equals("insert_only")) return true;
        }
        return false;
    }

    // What is missing is never kept; partitions only of a table that is known not to be excluded.
    private boolean isKept(Read one, Object found) {
        if (found == null || Boolean.FALSE.equals(found)) return false;
        if (found instanceof scala.Option && ((scala.Option) found).isEmpty()) return false;
        if (one.object.equals(TopicastNames.ALL)) {
            scala.collection.Iterator all = ((scala.collection.Iterable) found).iterator();
            while (all.hasNext()) {
                if (!followed.hasDatabase(TopicastNames.lower(all.next()))) return false;
            }
            return true;
        }
        if (one.name.startsWith("list") && TopicastNames.isList(one.object)) {
            return ((scala.collection.Iterable) found).iterator().hasNext();
        }
        return one.name.endsWith("Exists") || !TopicastNames.isTable(one.object)
            || one.into.known;
    }

    // A read that is being answered.
    private static final class Read {
        final TopicastCatalog from;
        final int method;
        final String name;
        final int calls;
        final Object[] args;
        String object;  // null: it has no name
        String key;  // of its result; null: it is not kept
        TopicastObjects.Kept into;  // where its result is kept; null: nowhere
        String why;  // it is the original's

        Read(TopicastCatalog from, int method, String name, int calls, Object[] args) {
            this.from = from;
            this.method = method;
            this.name = name;
            this.calls = calls;
            this.args = args;
        }
    }
}
