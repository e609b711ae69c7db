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
// registry.py says how sessions are found. One object serves a JVM and all of its agents; it holds
// sessions weakly.
//
// Threads: ``adopt``, ``apply`` and ``accept`` are called by the application, by Spark and by the
// bus; ``supersede`` by queries; all else by the agent, of which one thread renews. No method waits
// for a file system or the metastore: what may wait is left to TopicastTasks.
public final class TopicastSessions extends AbstractFunction1 implements Consumer {
    private static final String PARTITIONS = "spark.sql.hive.manageFilesourcePartitions";

    final TopicastPaths paths = new TopicastPaths();
    private final TopicastSpark spark;
    private final TopicastTasks tasks;
    private final TopicastListing listing;
    private final TopicastIceberg iceberg;
    private final TopicastFamilies families = new TopicastFamilies();
    private final TopicastFormer former = new TopicastFormer();
    private final ConcurrentHashMap sessions = new ConcurrentHashMap();  // by id, weakly
    private final Map extended = Collections.synchronizedMap(new WeakHashMap());
    private volatile boolean renews;

    public TopicastSessions(Field state, Field relations, Integer threads, Integer ofTable,
            Integer folders) throws NoSuchMethodException {
        spark = new TopicastSpark(state, relations);
        tasks = new TopicastTasks(threads.intValue(), ofTable.intValue());
        listing = new TopicastListing(tasks, folders.intValue());
        iceberg = new TopicastIceberg(tasks);
    }

    // ---- how sessions are found

    // A session of Python: it is known from now on, and whatever Spark makes of it.
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

    // Called by Spark with each session whose analyzer it makes: whatever fails here, the session
    // has its analyzer.
    public Object apply(Object session) {
        try {
            add(session);
        } catch (Throwable failed) {  // then it is found by what it executes
        }
        return new TopicastRule(this, session);
    }

    // A session that executes: if it was not known, its relations may be older than a change.
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

    // Whether relations of sessions that accept finds are to be invalidated.
    public void renew(boolean renews) {
        this.renews = renews;
    }

    // A line for each session that has not ended: its id, whether Spark queries the metastore for
    // partitions ("true"), the tables that it has relations of, and behind a tab those of which
    // DataFrames may hold some that were invalidated.
    // Then a line for each failure since the last look: "!", session, table, and why. Last of all
    // "+" if there may be catalogs of Iceberg.
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

    // All sessions that have not ended.
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

    // Whether a session was not known before.
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

    // Look through what a session analyses from now on whose analyzer is older than the attach.
    private void examine(Object session) throws Exception {
        Object made = spark.stateOf(session);
        Object analyzer = made == null ? null : TopicastSpark.fieldOf(made, "analyzer").get(made);
        if (analyzer == null) return;  // it calls the extensions when it is made
        Field field = TopicastSpark.fieldOf(analyzer, "extendedCheckRules");
        List rules = ((scala.collection.Seq) field.get(analyzer)).toList();
        scala.collection.Iterator all = rules.iterator();
        while (all.hasNext()) {
            if (all.next() instanceof TopicastRule) return;
        }
        field.set(analyzer, rules.$colon$colon(new TopicastRule(this, session)));
    }

    // ---- relations of tables

    // Invalidate the relations of a table in all sessions, now: its files may differ, and it is
    // about to be read. The refresh that is due, too, finds what DataFrames still hold of it.
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
    // DataFrames go on holding relations that were invalidated, now or before: those that read the
    // same columns and location as the newest list anew "always", or "if gone" are their files.
    public void renew(String id, String table, String existing, int tablesMax) throws Exception {
        Object session = session(id);
        SessionCatalog catalog = session == null ? null : spark.catalogOf(session);
        if (catalog == null) return;
        boolean refreshed = !existing.equals("never");
        TopicastFormer.OfTable held = former.of(id, table);
        if (!refreshed) held.shape = "";  // its own may be of before or after the change
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

    // Make cached data of a table anew; this calls the metastore.
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

    // A plan of a session reads or writes a table by its name: it may have loaded the relation.
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

    // List the files of a relation anew, later: always, or if one that it lists is gone or
    // replaced.
    public void relist(String id, String table, Object lister, boolean always) {
        listing.later(id, table, lister, always, TopicastSpark.contextOf(session(id)));
    }

    // How many relations over paths there are, which no table's name leads to.
    public int paths() {
        return paths.size();
    }

    // List anew the files of relations over paths at, in or above a location; empty: of all. Those
    // that are read by a view's name always, others if files are gone, or always.
    public void relistPaths(String table, String location, boolean always) {
        paths.relist(listing, table, location, always);
    }

    // Let Iceberg's catalogs of all sessions load tables anew. A line for each: a table's name, a
    // database's for all in it, or "*".
    public void reload(String names) throws Exception {
        for (Iterator ids = sessions.keySet().iterator(); ids.hasNext();) {
            String id = (String) ids.next();
            Object session = session(id);
            SessionState made = session == null ? null : spark.stateOf(session);
            if (made != null) iceberg.reload(id, session, made, names.split("\n"));
        }
    }

    // Whether all that was to be done later has been done, within so many milliseconds.
    public boolean settle(long ms) throws InterruptedException {
        return tasks.settle(ms);
    }

    // The tables for which something is still to be done, one a line; "*" stands for all.
    public String unfinished() {
        return tasks.unfinished();
    }
}
