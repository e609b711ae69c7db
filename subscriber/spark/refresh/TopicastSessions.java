import java.lang.ref.WeakReference;
import java.lang.reflect.Field;
import java.util.Iterator;
import java.util.LinkedList;
import java.util.Map;
import java.util.Collections;
import java.util.Set;
import java.util.TreeSet;
import java.util.WeakHashMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.internal.SessionState;
import scala.collection.immutable.List;
import scala.runtime.AbstractFunction1;

// The registry of the sessions of this JVM: it finds them, and renews their relations of tables.
// registry.py says how sessions are found. One object serves a JVM and all of its agents, one after
// the other; it holds sessions weakly.
//
// Threads: the application calls ``adopt``, Spark ``apply``, Spark's listener bus ``accept``, and
// queries ``supersede``. The agent calls all other methods; ``renew`` from one thread. No method
// waits for a file system or the metastore: TopicastTasks runs what may wait.
public final class TopicastSessions extends AbstractFunction1 implements Consumer {
    private static final String PARTITIONS = "spark.sql.hive.manageFilesourcePartitions";

    final TopicastPaths paths = new TopicastPaths();
    private final TopicastSpark spark;
    private final TopicastTasks tasks;
    private final TopicastListing listing;
    private final TopicastIceberg iceberg;
    private final TopicastFamilies families = new TopicastFamilies();
    private final TopicastFormer former = new TopicastFormer();
    private final ConcurrentHashMap sessions = new ConcurrentHashMap();  // id -> session, weak
    private final Map extended = Collections.synchronizedMap(new WeakHashMap());  // extensions
    private volatile boolean renews;  // accept() invalidates the relations of a new session

    public TopicastSessions(Field state, Field relations, Integer threads, Integer ofTable,
            Integer folders) throws NoSuchMethodException {
        spark = new TopicastSpark(state, relations);
        tasks = new TopicastTasks(threads.intValue(), ofTable.intValue());
        listing = new TopicastListing(tasks, folders.intValue());
        iceberg = new TopicastIceberg(tasks);
    }

    // ---- how sessions are found

    // Add a session of Python's. Spark will also call apply() with each session that is made of it
    // by newSession() or cloneSession(), because these share its extensions.
    public void adopt(Object session) throws Exception {
        add(session);
        Object of = session.getClass().getMethod("extensions", TopicastSpark.NONE)
            .invoke(session, TopicastSpark.NOTHING);
        if (extended.put(of, Boolean.TRUE) == null) {
            ((SparkSessionExtensions) of).injectCheckRule(this);
        }
        try {
            examine(session);
        } catch (NoSuchFieldException failed) {
            tasks.failed(TopicastSpark.idOf(session), "-", failed);
        }
    }

    // Called by Spark with each session whose analyzer it makes; returns the analyzer's rule. A
    // failure is dropped, so that the session gets its analyzer.
    public Object apply(Object session) {
        try {
            add(session);
        } catch (Throwable failed) {  // accept() finds it, once it executes something
        }
        return new TopicastRule(this, session);
    }

    // Called with the session of each execution. If the session was not known, a change may have
    // come after it loaded its relations, so they are invalidated.
    public void accept(Object session) {
        try {
            if (!add(session)) return;
            examine(session);
            SessionCatalog catalog = renews ? spark.catalogOf(session) : null;
            if (catalog == null) return;
            for (Iterator all = spark.relationsOf(catalog).values().iterator(); all.hasNext();) {
                discarded(TopicastSpark.idOf(session), (LogicalPlan) all.next());
            }
            catalog.invalidateAllCachedTables();
        } catch (Exception failed) {
            tasks.failed("-", "-", failed);
        }
    }

    // Set whether accept() invalidates the relations of a session that it finds.
    public void renew(boolean renews) {
        this.renews = renews;
    }

    // Returns a line for each session that has not ended: its id, "true" if Spark queries the
    // metastore for partitions, the keys of the relations that it has, and behind a tab the tables
    // of which DataFrames may hold invalidated relations. Then a line for each failure since the
    // last call: "!", session, table, and reason. At last a line "+" if there may be catalogs of
    // Iceberg.
    public String look() {
        StringBuilder found = new StringBuilder();
        for (Iterator all = sessions.entrySet().iterator(); all.hasNext();) {
            Map.Entry one = (Map.Entry) all.next();
            String id = (String) one.getKey();
            Object session = ((WeakReference) one.getValue()).get();
            if (session == null || TopicastSpark.isStopped(TopicastSpark.contextOf(session))) {
                ended(id);
                continue;
            }
            String tables = "true ";
            try {
                SessionState made = spark.stateOf(session);
                if (made != null) {
                    Set names = new TreeSet();
                    Iterator keys = spark.relationsOf(made.catalog()).keySet().iterator();
                    while (keys.hasNext()) names.add(keys.next().toString());
                    names.addAll(former.superseded(id));
                    tables = made.conf().getConfString(PARTITIONS, "true") + " " + names;
                }
            } catch (Exception failed) {
                tasks.failed(id, "-", failed);
            }
            found.append(id).append(' ').append(tables).append('\t').append(former.held(id))
                .append('\n');
        }
        tasks.takeFailures(found);
        if (iceberg.isThere()) found.append("+\n");
        return found.toString();
    }

    // Returns all sessions that have not ended.
    public Object[] alive() {
        LinkedList found = new LinkedList();
        for (Iterator all = sessions.values().iterator(); all.hasNext();) {
            Object session = ((WeakReference) all.next()).get();
            if (session != null && !TopicastSpark.isStopped(TopicastSpark.contextOf(session))) {
                found.add(session);
            }
        }
        return found.toArray();
    }

    // Add a session; returns whether it was not known before.
    private boolean add(Object session) throws Exception {
        String id = TopicastSpark.idOf(session);
        if (sessions.containsKey(id)) return false;
        for (Iterator all = sessions.entrySet().iterator(); all.hasNext();) {
            Map.Entry one = (Map.Entry) all.next();
            if (((WeakReference) one.getValue()).get() == null) ended((String) one.getKey());
        }
        iceberg.look();
        listing.reach(((SparkSession) session).sparkContext().hadoopConfiguration());
        return sessions.put(id, new WeakReference(session)) == null;
    }

    // Keep nothing of a session that has ended.
    private void ended(String id) {
        sessions.remove(id);
        iceberg.ended(id);
        families.ended(id);
        former.ended(id);
    }

    // Add our rule to the analyzer of a session that Spark made before the attach, unless it has
    // our rule already.
    private void examine(Object session) throws Exception {
        Object made = spark.stateOf(session);
        Object analyzer = made == null ? null : TopicastSpark.fieldOf(made, "analyzer").get(made);
        if (analyzer == null) return;  // Spark will call apply() when it makes the analyzer
        Field field = TopicastSpark.fieldOf(analyzer, "extendedCheckRules");
        List rules = ((scala.collection.Seq) field.get(analyzer)).toList();
        scala.collection.Iterator all = rules.iterator();
        while (all.hasNext()) {
            if (all.next() instanceof TopicastRule) return;
        }
        field.set(analyzer, rules.$colon$colon(new TopicastRule(this, session)));
    }

    // ---- relations of tables

    // Invalidate the relations of a table in all sessions at once. Caller: a query that is about to
    // read the table, whose files may differ from what these relations list. They are noted for the
    // refresh that is due, which has DataFrames that hold them list their files anew.
    public void supersede(String db, String table) throws Exception {
        String name = TopicastSpark.printed(db + "." + table);
        for (Iterator all = sessions.entrySet().iterator(); all.hasNext();) {
            Map.Entry one = (Map.Entry) all.next();
            Object session = ((WeakReference) one.getValue()).get();
            SessionCatalog catalog = session == null ? null : spark.catalogOf(session);
            if (catalog == null) continue;
            Iterator each = spark.relationsOf(catalog).entrySet().iterator();
            while (each.hasNext()) {
                Map.Entry relation = (Map.Entry) each.next();
                String key = relation.getKey().toString();
                if (!key.equalsIgnoreCase(name)) continue;
                LogicalPlan plan = (LogicalPlan) relation.getValue();
                former.supersede((String) one.getKey(), key, plan);
                discarded((String) one.getKey(), plan);
                each.remove();
            }
        }
    }

    // Invalidate the relation of a table in a session, so that the next plan lists its files anew.
    // DataFrames go on holding relations that were invalidated now or before. ``existing`` says
    // what becomes of those that have the columns and the location of the newest: they list their
    // files anew "always", "if gone" are some of these, or "never".
    public void renew(String id, String table, String existing, int tablesMax) throws Exception {
        Object session = session(id);
        SessionCatalog catalog = session == null ? null : spark.catalogOf(session);
        if (catalog == null) return;
        boolean refreshed = !existing.equals("never");
        TopicastFormer.OfTable held = former.of(id, table);
        if (!refreshed) held.shape = "";  // it may be the one from before or after the change
        TopicastFormer.Noted before =
            former.takeSuperseded(id, TopicastSpark.printed(table));
        if (before != null) held.add(before, refreshed);
        Map all = spark.relationsOf(catalog);
        Object key = spark.keyOf(table);
        LogicalPlan relation = (LogicalPlan) all.get(key);
        if (relation != null) {
            families.discarded(id, table, held.add(relation, refreshed));
            all.remove(key);
        }
        if (!held.shape.isEmpty()) {
            for (Iterator each = held.alive().iterator(); each.hasNext();) {
                relist(id, table, each.next(), existing.equals("always"));
            }
        }
        former.keep(id, table, held, tablesMax);
    }

    // Have a task make the cached data of a table anew. The task calls the metastore.
    public void recache(final String id, final String table, final String name) {
        WeakReference context = TopicastSpark.contextOf(session(id));
        tasks.later("recache " + id + " " + table, id, table, context, new Callable() {
            public Object call() throws Exception {
                refreshTable(id, table, name);
                return null;
            }
        });
    }

    void refreshTable(String id, String table, String name) throws Exception {
        Object session = session(id);
        if (session == null) return;
        ((SparkSession) session).catalog().refreshTable(name);
        TopicastFamilies.Family family = families.find(id, table);
        if (family != null) family.discardedPresent();  // by us, not by the user
    }

    // A plan of a session reads or writes a table by its name. If Spark has loaded the current
    // relation for it, its lister joins the family of the table.
    void loaded(String id, CatalogTable table, FileIndex lister) throws Exception {
        TopicastFamilies.Family family = families.find(id, TopicastSpark.nameOf(table));
        if (family == null || !family.isAwaiting(lister)) return;
        SessionCatalog catalog = spark.catalogOf(session(id));
        for (Iterator all = spark.relationsOf(catalog).values().iterator(); all.hasNext();) {
            if (TopicastSpark.listerOf((LogicalPlan) all.next()) == lister) family.loaded(lister);
        }
    }

    private void discarded(String id, LogicalPlan plan) throws IllegalAccessException {
        FileIndex lister = TopicastSpark.listerOf(plan);
        if (lister == null || ((LogicalRelation) plan).catalogTable().isEmpty()) return;
        CatalogTable table = (CatalogTable) ((LogicalRelation) plan).catalogTable().get();
        families.discarded(id, TopicastSpark.nameOf(table), lister);
    }

    private Object session(String id) {
        WeakReference found = (WeakReference) sessions.get(id);
        return found == null ? null : found.get();
    }

    // ---- files, and tables of Iceberg

    // Have a task list the files of a relation anew: always, or if one of them is gone or replaced.
    public void relist(String id, String table, Object lister, boolean always) {
        listing.later(id, table, lister, always, TopicastSpark.contextOf(session(id)));
    }

    // Returns how many relations over paths there are.
    public int paths() {
        return paths.size();
    }

    // Have the files of relations over paths listed anew, as TopicastPaths says.
    public void relistPaths(String table, String location, boolean always) {
        paths.relist(listing, table, location, always);
    }

    // Let Iceberg's catalogs of all sessions load tables anew. ``names`` has a line for each: that
    // of a table, that of a database for all its tables, or "*" for all.
    public void reload(String names) throws Exception {
        for (Iterator ids = sessions.keySet().iterator(); ids.hasNext();) {
            String id = (String) ids.next();
            Object session = session(id);
            SessionState made = session == null ? null : spark.stateOf(session);
            if (made != null) iceberg.reload(id, session, made, names.split("\n"));
        }
    }

    // Wait at most ms until no task is left; returns whether none is.
    public boolean settle(long ms) throws InterruptedException {
        return tasks.settle(ms);
    }

    // Returns the tables that unfinished tasks are for, one a line; "*" stands for all.
    public String unfinished() {
        return tasks.unfinished();
    }
}
