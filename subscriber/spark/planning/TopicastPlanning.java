import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.unsafe.Platform;

// The router: decides for each read of Spark's external catalog who answers it. The original is
// Spark's own HiveExternalCatalog, which calls the metastore. TopicastCatalog, the class that
// replaces it, is generated and compiled together with this class.
//
//     off, not live, dirty, not followed, in a command ──▶ the original
//     else memory ──▶ the endpoint, by TopicastReaders ──▶ the original
//     the original reached no metastore ──▶ memory and the endpoint once more
public final class TopicastPlanning {
    private static final long KNOWN_MS = 300;  // a first read of a table waits so long for known()
    private static final long AGAIN_MS = 5000;  // likewise where the metastore cannot be reached
    private static final long CONFIRM_MS = 400;  // a read waits for catalogd; the agent waits less
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
    private volatile boolean on;  // begin() was called, and end() was not
    private volatile boolean compares;  // validate=hms: each table with the metastore's
    private volatile boolean confirms;  // validate=catalogd: asks it at each read of a table
    private final AtomicLong begun = new AtomicLong();  // calls of begin()
    private final TopicastLease lease = new TopicastLease();

    public TopicastPlanning(Object registry) throws Exception {
        installed = new TopicastInstalled(registry, counts);
        relations = new TopicastRelations(registry);
    }

    // ---- what the agent calls

    // Replace Spark's catalogs, and keep at most bytesMax bytes of results. The router answers
    // nothing from memory before live().
    //
    // ``validate`` is what confirms a table before memory answers: "none", "catalogd" or "hms".
    // Returns the number that end() takes, so that an agent that ends late does not end the router
    // that the next agent has begun.
    public long begin(long bytesMax, String validate) {
        long number = begun.incrementAndGet();
        installed.ask("", "");  // the endpoint of a killed agent: another process may have its port
        objects.limit(bytesMax);
        compares = validate.equals("hms");
        confirms = validate.equals("catalogd");
        lease.extend(0);
        changedAll(0L);
        open(true);
        installed.open();
        installed.look(this);
        return number;
    }

    // Put the originals back at once. A read that is under way then asks its original. The call has
    // no effect if begin() was called again since the call that returned ``number``.
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

    // Let reads ask an endpoint before the original. Caller: the agent, whose endpoint never
    // answers with a state older than the changes that changed() has named.
    public void endpoint(String uri, String token) {
        installed.ask(uri, token);
    }

    // Memory and endpoint are current for so many milliseconds from now. With 0 they are not, so
    // the originals answer.
    public void live(long ms) {
        lease.extend(ms);
    }

    // Call live(), and return status(), an empty line, and uses(): the agent's one call a second.
    public String renew(long ms) {
        live(ms);
        return status() + TopicastNames.END + uses();
    }

    // Set the databases whose changes the subscriber receives, one a line. The router keeps nothing
    // of other databases.
    public void follow(String names) {
        followed.databases(names);
    }

    // Discard what changes have made old. A line for each change: three flags of 1 or 0, and the
    // object. The flags: names came or went; files may differ; a driver's report names the change
    // before catalogd has read the metastore's event of it.
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
        // Until the event is read the endpoint, too, has the content from before the change.
        boolean asks = installed.hasEndpoint();
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

    // Another driver has reported a change of an object. If memory or the endpoint may have its old
    // content, mark it, so that the metastore answers until a sync has passed the change.
    private void announced(String object) {
        if (installed.hasEndpoint() || objects.get(object) != null) writes.mark(object);
    }

    // Discard everything: any object may have changed. For so many milliseconds the first read of
    // each table also invalidates Spark's relations of it.
    public void changedAll(long ms) {
        relations.allChanged(ms);
        followed.forgetAll();
        objects.clear();
    }

    // Wait at most ms until a statement of this driver has changed a table. Returns a line for each
    // such table: 1 if the table was created, dropped or renamed, else 0; and its name.
    public String altered(long ms) throws InterruptedException {
        return writes.altered(ms);
    }

    // Wait at most ms until a query reads a table of which the router does not know whether the
    // subscriber follows it. Returns a line for each such table: its number, and its name.
    public String wanted(long ms) throws InterruptedException {
        return followed.wanted(ms);
    }

    // Answer a line of wanted(): whether the subscriber follows the table. The answer has no effect
    // if the table has changed since, because the change may be that it is no longer followed.
    public void known(long number, String table, boolean isFollowed) {
        followed.known(number, table, isFollowed);
    }

    // Wait at most ms until a read of a table waits for catalogd's confirmation. Returns a line for
    // each such read: its number, and the table.
    public String unconfirmed(long ms) throws InterruptedException {
        return unconfirmed.take(ms);
    }

    // Answer lines of unconfirmed(): a line for each read, 1 (memory may answer) or 0, and the
    // number. Caller: the agent, which has passed everything that catalogd had committed by then
    // to changed() before this call.
    public void confirmed(String answers) {
        unconfirmed.answer(answers);
    }

    // Wait at most ms for a write that no sync has passed. Returns the number of the newest such
    // write, or 0. While it waits it also replaces the catalogs of new sessions.
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

    // The subscriber has everything up to the write of this number, so memory may answer again.
    public void synced(long number) {
        writes.synced(number);
    }

    // Returns the tables that were read since the last call, a line for each: its name, the reads
    // of the table itself, the reads of its partitions.
    public String uses() {
        return counts.uses();
    }

    // Returns the state and the counters, a line for each: name, "=", value.
    public String status() {
        TopicastLines found = new TopicastLines();
        found.add("live", lease.holds() ? 1 : 0);
        counts.into(found);
        objects.into(found);
        writes.into(found);
        installed.into(found);
        return found.toString();
    }

    // Returns the bytes of the heap that the router counts for a result.
    public long bytesOf(Object result) {
        return TopicastSizes.of(result);
    }

    // ---- what the catalog in Spark calls

    // Answer a read from memory, by the endpoint or by the original. ``calls`` is the number of
    // calls of the metastore that the original makes for it.
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
                served.forget(one.object);  // the metastore's answer replaces what memory served
                loaded(one, found);
            }
        } catch (Throwable failed) {
            failed(failed);
        }
        counts.original(one.why);
        return found;
    }

    // Called before a write whose arguments may come from an earlier read, as those of alterTable
    // do. Refuse the write if the metastore's object differs from what memory served, because the
    // write would undo somebody else's change.
    void guard(TopicastCatalog from, String name, Object[] args) {
        String object = null;
        boolean differs = false;
        try {
            if (!on || served.isEmpty() || commands.runs(from.context)) return;
            object = TopicastNames.objectOf(name, args);
            differs = served.differs(from, object, name, args);
        } catch (Throwable failed) {  // unknown, so refuse what this thread was served
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

    // Called after a write, also one that has failed: it may have changed a part.
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

    // Returns why the original must answer a read; null if memory or the endpoint may. ``again`` is
    // as for answer().
    private String whyNot(Read one, boolean again) {
        if (!on) return "off";
        if (!lease.holds()) return "not live";
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

    // Whether a read of an object may ask the endpoint: never for lists of names; nor with
    // validate=hms, where each answer must have been compared with the metastore's.
    private boolean mayAsk(String object) {
        return installed.hasEndpoint() && !compares && !TopicastNames.isList(object);
    }

    // ---- answers

    // Returns what memory has, else what the endpoint answers, else null. With null the read's
    // ``why`` gives the reason, and its ``into`` is the map that may keep the original's answer.
    // ``again`` says that the original reached no metastore: the read then waits longer, and
    // catalogd need not confirm it.
    private Object answer(Read one, boolean again) throws Exception {
        long until = System.nanoTime() + AGAIN_MS * 1000000L;
        one.into = null;
        one.why = whyNot(one, again);
        if (one.why != null) return null;
        one.key = TopicastNames.keyOf(one.name, one.args);
        one.why = "filter";
        if (one.key == null) return null;
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

    // Answer a read whose original reached no metastore; null: the caller gets its failure.
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

    // Whether a read has failed because it reached no metastore. "No such table" is an answer of a
    // metastore, not such a failure. Classes are compared by name, because Spark may load those of
    // its Hive client by another class loader.
    private static boolean isAway(Throwable failed) {
        for (Throwable one = failed; one != null; one = one.getCause()) {
            if (one.getClass().getName().endsWith(TRANSPORT)) return true;
            if (String.valueOf(one.getMessage()).indexOf(TRANSPORT) >= 0) return true;
            if (one.getCause() == one) return false;
        }
        return false;
    }

    // Keep a result in the map that the read took before it asked. A change in between has removed
    // that map, so a result that may be older than the change is lost with it.
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

    // Whether readers of a table must ask the metastore each time: those of Iceberg's tables, and
    // of transactional ones.
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

    // Whether a result may be kept. "There is none" never is. Partitions are kept only once the
    // table itself was read, because only its properties tell whether isNever() excludes it. The
    // list of databases is kept only if all of them are followed.
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

    // A read on its way to an answer.
    private static final class Read {
        final TopicastCatalog from;
        final int method;
        final String name;
        final int calls;
        final Object[] args;
        String object;  // that it reads; null: its name could not be told
        String key;  // of its result in the object's map; null: the result is not kept
        TopicastObjects.Kept into;  // the map that may keep its result; null: none
        String why;  // reason for which the original answers it

        Read(TopicastCatalog from, int method, String name, int calls, Object[] args) {
            this.from = from;
            this.method = method;
            this.name = name;
            this.calls = calls;
            this.args = args;
        }
    }
}
