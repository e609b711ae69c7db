import java.io.FileNotFoundException;
import java.lang.ref.WeakReference;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedList;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.WeakHashMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusCache;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.FileTable;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SessionState;
import scala.collection.immutable.List;
import scala.runtime.AbstractFunction0;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

// The registry of the sessions of this JVM: it finds them, and renews their relations. registry.py
// says how sessions are found; what may wait for a file system or the metastore runs in its pool.
public final class TopicastSessions extends AbstractFunction1
        implements java.util.function.Consumer, java.util.concurrent.ThreadFactory {
    private static final Class[] NONE = new Class[0];
    private static final Object[] NOTHING = new Object[0];
    private static final String PARTITIONS = "spark.sql.hive.manageFilesourcePartitions";
    private static final String ICEBERG = "org.apache.iceberg.";
    private static final String CATALOG = "spark_catalog.";  // whose relations sessions keep

    private final Field state;
    private final Field relations;
    private final Constructor keys;  // of the cache that it is
    private final int foldersMax;
    private final ConcurrentHashMap paths = new ConcurrentHashMap();  // by identity of what lists
    private int sweepAt = 64;  // so many paths, after which those of what is gone are removed
    private final ConcurrentHashMap families = new ConcurrentHashMap();  // by session, by table
    private final ConcurrentHashMap sessions = new ConcurrentHashMap();  // by id, weakly
    private final Map extended = Collections.synchronizedMap(new WeakHashMap());
    private final Map busy = new HashMap();  // task -> it, and the one that waits behind it or null
    private final Map lanes = new HashMap();  // table -> what runs and waits of it
    private final int laneMax;
    private final Set forced = ConcurrentHashMap.newKeySet();  // tasks that list files in any case
    private final ConcurrentHashMap relisted = new ConcurrentHashMap();  // listers, by task, weakly
    private final ConcurrentHashMap reloads = new ConcurrentHashMap();  // names, by session
    private final TopicastFormer former = new TopicastFormer();
    private final ConcurrentHashMap superseded = new ConcurrentHashMap();  // relations, by id, table
    private static final long SUPERSEDED_NS = 60000000000L;  // for which they are kept
    private final ConcurrentLinkedQueue failures = new ConcurrentLinkedQueue();
    private final ThreadPoolExecutor pool;
    private volatile Configuration conf;  // of the newest session's file systems
    private volatile boolean renews;
    private volatile boolean hasIceberg;  // its classes are there, for the newest session

    public TopicastSessions(Field state, Field relations, Integer threads, Integer ofTable,
            Integer folders) throws NoSuchMethodException {
        this.laneMax = ofTable.intValue();
        this.state = state;
        this.relations = relations;
        this.keys = keysOf("getCachedTable");
        this.foldersMax = folders.intValue();
        this.pool = new ThreadPoolExecutor(threads.intValue(), threads.intValue(),
            10L, TimeUnit.SECONDS, new LinkedBlockingQueue(), this);
        this.pool.allowCoreThreadTimeOut(true);
    }

    // A session of Python: it is known from now on, and whatever Spark makes of it.
    public void adopt(Object session) throws Exception {
        add(session);
        Object of = session.getClass().getMethod("extensions", NONE).invoke(session, NOTHING);
        if (extended.put(of, Boolean.TRUE) == null) {
            ((SparkSessionExtensions) of).injectCheckRule(this);
        }
        try {
            examine(session);
        } catch (NoSuchFieldException failed) {
            failures.add(idOf(session) + " - " + failed);
        }
    }

    // Called by Spark with each session whose analyzer it makes.
    public Object apply(Object session) {
        try {
            add(session);
        } catch (Exception failed) {  // then it is found by what it executes
        }
        return new Rule(this, session);
    }

    // A session that executes: if it was not known, its relations may be older than a change.
    public void accept(Object session) {
        try {
            if (!add(session)) return;
            examine(session);
            SessionCatalog catalog = renews ? catalogOf(session) : null;
            if (catalog == null) return;
            for (Iterator all = relationsOf(catalog).values().iterator(); all.hasNext();) {
                discarded(idOf(session), (LogicalPlan) all.next());
            }
            catalog.invalidateAllCachedTables();
        } catch (Exception failed) {
            failures.add("- - " + failed);
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
            Object session = ((WeakReference) one.getValue()).get();
            if (session == null || isStopped(contextOf(session))) {
                ended((String) one.getKey());
                continue;
            }
            String tables = "true ";
            try {
                SessionState made = (SessionState) state.get(session);
                if (made != null) {
                    Set names = new TreeSet();
                    Iterator keys = relationsOf(made.catalog()).keySet().iterator();
                    while (keys.hasNext()) names.add(keys.next().toString());
                    names.addAll(supersededOf((String) one.getKey()));
                    tables = made.conf().getConfString(PARTITIONS, "true") + " " + names;
                }
            } catch (Exception failed) {
                failures.add(one.getKey() + " - " + failed);
            }
            found.append(one.getKey()).append(' ').append(tables).append((char) 9)
                .append(former.held((String) one.getKey())).append((char) 10);
        }
        for (Object one = failures.poll(); one != null; one = failures.poll()) {
            found.append("! ").append(one).append((char) 10);
        }
        if (hasIceberg) found.append("+").append((char) 10);
        return found.toString();
    }

    // All sessions that have not ended.
    public Object[] alive() {
        LinkedList found = new LinkedList();
        for (Iterator all = sessions.values().iterator(); all.hasNext();) {
            Object session = ((WeakReference) all.next()).get();
            if (session != null && !isStopped(contextOf(session))) found.add(session);
        }
        return found.toArray();
    }

    // Invalidate the relations of a table in all sessions, now: its files may differ, and it is
    // about to be read. The refresh that is due, too, finds what DataFrames still hold of it.
    public void supersede(String db, String table) throws Exception {
        for (Iterator all = sessions.entrySet().iterator(); all.hasNext();) {
            Map.Entry one = (Map.Entry) all.next();
            Object session = ((WeakReference) one.getValue()).get();
            SessionCatalog catalog = session == null ? null : catalogOf(session);
            if (catalog == null) continue;
            Iterator each = relationsOf(catalog).entrySet().iterator();
            while (each.hasNext()) {
                Map.Entry relation = (Map.Entry) each.next();
                String key = relation.getKey().toString();
                if (!key.equalsIgnoreCase(CATALOG + db + "." + table)) continue;
                superseded.put(one.getKey() + " " + key,
                    new Object[] {relation.getValue(), Long.valueOf(System.nanoTime())});
                discarded((String) one.getKey(), (LogicalPlan) relation.getValue());
                each.remove();
            }
        }
    }

    // Invalidate the relation of a table in a session, so that the next plan lists its files anew.
    // DataFrames go on holding relations that were invalidated, now or before: those that read the
    // same columns and location as the newest list anew "always", or "if gone" are their files.
    public void renew(String id, String table, String existing, int tablesMax) throws Exception {
        SessionCatalog catalog = catalog(id);
        if (catalog == null) return;
        boolean refreshed = !existing.equals("never");
        TopicastFormer.OfTable held = former.of(id, table);
        if (!refreshed) held.shape = "";  // its own may be of before or after the change
        Object[] before = (Object[]) superseded.remove(id + " " + CATALOG + table);
        if (before != null) held.add((LogicalPlan) before[0], refreshed);
        int dot = table.indexOf('.');
        Object key = keys.newInstance(new Object[] {
            "spark_catalog", table.substring(0, dot), table.substring(dot + 1)});
        Map all = relationsOf(catalog);
        LogicalPlan relation = (LogicalPlan) all.get(key);
        if (relation != null) {
            discarded(id, table, held.add(relation, refreshed));
            all.remove(key);
        }
        if (!held.shape.isEmpty()) {
            for (Iterator each = held.alive().iterator(); each.hasNext();) {
                relist(id, table, each.next(), existing.equals("always"));
            }
        }
        former.keep(id, table, held, tablesMax);
    }

    private Set supersededOf(String id) {
        Set found = new TreeSet();
        for (Iterator all = superseded.entrySet().iterator(); all.hasNext();) {
            Map.Entry one = (Map.Entry) all.next();
            long at = ((Long) ((Object[]) one.getValue())[1]).longValue();
            if (System.nanoTime() - at > SUPERSEDED_NS) {
                all.remove();
            } else if (((String) one.getKey()).startsWith(id + " ")) {
                found.add(((String) one.getKey()).substring(id.length() + 1));
            }
        }
        return found;
    }

    // The catalog of a session; null if it has ended, or has no state.
    private SessionCatalog catalog(String id) throws Exception {
        Object session = session(id);
        return session == null ? null : catalogOf(session);
    }

    // What lists the files of a session's relation that is about to be invalidated, not by Spark:
    // if a statement refreshes the one that is loaded next, this one is to list the same.
    private void discarded(String id, String table, Object lister) throws IllegalAccessException {
        if (!(lister instanceof FileIndex)) return;
        families.putIfAbsent(id, new Families());
        ((Families) families.get(id)).of(table).discarded((FileIndex) lister);
    }

    private void discarded(String id, LogicalPlan plan) throws IllegalAccessException {
        FileIndex lister = listerOf(plan);
        if (lister == null || ((LogicalRelation) plan).catalogTable().isEmpty()) return;
        CatalogTable table = (CatalogTable) ((LogicalRelation) plan).catalogTable().get();
        discarded(id, nameOf(table), lister);
    }

    // List the files of a relation anew: always, or if one that it lists is gone or replaced. Once
    // it was listed anew always: it may have been in the middle of an overwrite, whose end adds
    // files. One listing at a time: of two the older one might end last.
    public void relist(String id, String table, Object lister, boolean always) {
        relist(id, table, lister, always, contextOf(session(id)));
    }

    private void relist(String id, String table, final Object lister, boolean always,
            WeakReference context) {
        final String task = "relist " + System.identityHashCode(lister);
        if (always) forced.add(task);
        later(task, id, table, context, new Callable() {
            public Object call() throws Exception {
                boolean always = forced.remove(task);
                if (lister instanceof LogicalPlan) {
                    if (always) ((LogicalPlan) lister).refresh();
                } else if (always || wasRelisted(task, lister) || isGone((FileIndex) lister)) {
                    relisted.put(task, new WeakReference(lister));
                    Passing.ALONE.set(task);
                    try {
                        ((FileIndex) lister).refresh();
                    } finally {
                        Passing.ALONE.remove();
                    }
                }
                return null;
            }
        });
    }

    // How many relations over paths there are, which no table's name leads to.
    public int paths() {
        sweep();
        return paths.size();
    }

    // List anew the files of relations over paths at, in or above a location; empty: of all. Those
    // that are read by a view's name always, others if files are gone, or always.
    public void relistPaths(String table, String location, boolean always) {
        String id = sessions.isEmpty() ? "" : (String) sessions.keySet().iterator().next();
        for (Iterator all = paths.values().iterator(); all.hasNext();) {
            Paths one = (Paths) all.next();
            Object lister = one.lister.get();
            if (lister != null && (location.isEmpty() || one.touches(location))
                    && !isStopped(one.context)) {
                relist(id, table, lister, always || one.ofView, one.context);
            }
        }
    }

    // Let Iceberg's catalogs of all sessions load tables anew. A line for each: a table's name, a
    // database's for all in it, or "*". One thread for a session: it may wait until a catalog or a
    // table has been loaded.
    public void reload(String names) throws Exception {
        String[] all = names.split(String.valueOf((char) 10));
        for (Iterator ids = sessions.keySet().iterator(); ids.hasNext();) {
            final String id = (String) ids.next();
            Object session = session(id);
            final SessionState made = session == null ? null : (SessionState) state.get(session);
            if (made == null || !hasIceberg(made)) continue;
            reloads.putIfAbsent(id, ConcurrentHashMap.newKeySet());
            final Set waiting = (Set) reloads.get(id);
            waiting.addAll(Arrays.asList(all));
            later("reload " + id, id, "*", contextOf(session), new Callable() {
                public Object call() {
                    return SQLConf.withExistingConf(made.conf(), new Reload(made, waiting));
                }
            });
        }
    }

    // Make cached data of a table anew; this calls the metastore.
    public void recache(final String id, final String table, final String name) {
        WeakReference context = contextOf(session(id));
        later("recache " + id + " " + table, id, table, context, new Callable() {
            public Object call() throws Exception {
                Object session = session(id);
                if (session == null) return null;
                ((SparkSession) session).catalog().refreshTable(name);
                Family family = familyOf(id, table);
                if (family != null) family.discardedPresent();  // by us, not by the user
                return null;
            }
        });
    }

    // Whether all that was to be done later has been done, within so many milliseconds.
    public boolean settle(long ms) throws InterruptedException {
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
    public String unfinished() {
        TreeSet found = new TreeSet();
        synchronized (busy) {
            for (Iterator all = busy.values().iterator(); all.hasNext();) {
                found.add(((Object[]) ((Object[]) all.next())[0])[2]);
            }
        }
        return String.join(String.valueOf((char) 10), found);
    }

    public Thread newThread(Runnable work) {
        Thread thread = new Thread(work, "topicast-files");
        thread.setDaemon(true);
        return thread;
    }

    private void note(LogicalPlan plan, String id, WeakReference context, boolean inView)
            throws Exception {
        if (plan instanceof LogicalRelation) {
            FileIndex lister = listerOf(plan);
            if (lister == null) return;
            scala.Option table = ((LogicalRelation) plan).catalogTable();
            if (table.isEmpty()) {
                note(lister, context, inView);
            } else {
                loaded(id, (CatalogTable) table.get(), lister);
            }
            return;
        }
        if (plan instanceof InsertIntoHadoopFsRelationCommand) {
            InsertIntoHadoopFsRelationCommand into = (InsertIntoHadoopFsRelationCommand) plan;
            if (into.fileIndex().isDefined() && into.catalogTable().isDefined()) {
                CatalogTable table = (CatalogTable) into.catalogTable().get();
                loaded(id, table, (FileIndex) into.fileIndex().get());
            }
        }
        if (plan instanceof DataSourceV2Relation) {  // where useV1SourceList lacks the source
            Object table = ((DataSourceV2Relation) plan).table();
            if (table instanceof FileTable) note(((FileTable) table).fileIndex(), context, inView);
            return;
        }
        if (plan instanceof View) inView = ((View) plan).isTempView();
        scala.collection.Iterator all = plan.children().iterator();
        while (all.hasNext()) note((LogicalPlan) all.next(), id, context, inView);
    }

    // A plan reads or writes a table by its name: it may have loaded the relation.
    private void loaded(String id, CatalogTable table, FileIndex lister) throws Exception {
        Family family = familyOf(id, nameOf(table));
        if (family == null || !family.isAwaiting(lister)) return;
        SessionCatalog catalog = catalogOf(session(id));
        for (Iterator all = relationsOf(catalog).values().iterator(); all.hasNext();) {
            if (listerOf((LogicalPlan) all.next()) == lister) family.loaded(lister);
        }
    }

    private Family familyOf(String id, String table) {
        Families all = (Families) families.get(id);
        return all == null ? null : all.find(table);
    }

    private static FileIndex listerOf(LogicalPlan plan) {
        if (!(plan instanceof LogicalRelation)) return null;
        Object relation = ((LogicalRelation) plan).relation();
        return relation instanceof HadoopFsRelation
            ? ((HadoopFsRelation) relation).location() : null;
    }

    private static String nameOf(CatalogTable table) {
        scala.Option db = table.identifier().database();
        return (db.isDefined() ? db.get() + "." : "") + table.identifier().table();
    }

    private void note(FileIndex lister, WeakReference context, boolean inView) {
        Integer key = Integer.valueOf(System.identityHashCode(lister));
        Paths known = (Paths) paths.get(key);
        if (known == null || known.lister.get() != lister) {
            known = new Paths(lister, context);
            paths.put(key, known);
            if (paths.size() > sweepAt) sweep();
        }
        if (inView) known.ofView = true;
    }

    private boolean hasIceberg(SessionState made) {
        scala.collection.Iterator all = made.conf().getAllConfs().iterator();
        while (all.hasNext()) {
            scala.Tuple2 one = (scala.Tuple2) all.next();
            if (isIceberg((String) one._1(), (String) one._2())) return true;
        }
        return false;
    }

    private static boolean isIceberg(String key, String value) {
        return key.startsWith("spark.sql.catalog.") && value.startsWith(ICEBERG);
    }

    // In the catalogs that the session has loaded; Spark looks at the conf of the thread for them.
    private static void reload(SessionState made, Object[] names) throws Exception {
        CatalogManager manager = made.catalogManager();
        scala.collection.Iterator all = manager.listCatalogs(scala.Option.empty()).iterator();
        while (all.hasNext()) {
            String catalog = (String) all.next();
            String key = "spark.sql.catalog." + catalog;
            if (!isIceberg(key, made.conf().getConfString(key, ""))) continue;
            Object plugin = manager.catalog(catalog);
            Method inner = plugin.getClass().getMethod("icebergCatalog", NONE);
            Object of = inner.invoke(plugin, NOTHING);
            for (int at = 0; at < names.length; at++) reload(of, (String) names[at]);
        }
    }

    private static void reload(Object catalog, String name) throws Exception {
        ClassLoader loader = catalog.getClass().getClassLoader();
        Class named = loader.loadClass(ICEBERG + "catalog.TableIdentifier");
        Class kind = loader.loadClass(ICEBERG + "catalog.Catalog");
        Method invalidate = kind.getMethod("invalidateTable", new Class[] {named});
        if (name.indexOf(46) > 0) {  // a dot: this waits for a load that is under way, no key yet
            Method of = named.getMethod("of", new Class[] {String[].class});
            Object table = of.invoke(null, new Object[] {name.split("[.]")});
            invalidate.invoke(catalog, new Object[] {table});
        }
        Object[] keys = cachedIn(catalog);
        for (int at = 0; at < keys.length; at++) {
            String key = keys[at].toString().toLowerCase();
            if (name.equals("*") || key.equals(name) || key.startsWith(name + ".")) {
                invalidate.invoke(catalog, new Object[] {keys[at]});
            }
        }
    }

    private static Object[] cachedIn(Object catalog) throws Exception {
        if (!catalog.getClass().getName().equals(ICEBERG + "CachingCatalog")) return NOTHING;
        Field field = catalog.getClass().getDeclaredField("tableCache");
        field.setAccessible(true);
        Object cache = field.get(catalog);
        Method all = cache.getClass().getMethod("asMap", NONE);
        all.setAccessible(true);
        return ((Map) all.invoke(cache, NOTHING)).keySet().toArray();
    }

    private void sweep() {
        for (Iterator all = paths.values().iterator(); all.hasNext();) {
            if (((Paths) all.next()).lister.get() == null) all.remove();
        }
        sweepAt = 64 + 2 * paths.size();
    }

    // Look through what a session analyses from now on whose analyzer is older than the attach.
    private void examine(Object session) throws Exception {
        Object made = state.get(session);
        Object analyzer = made == null ? null : fieldOf(made, "analyzer").get(made);
        if (analyzer == null) return;  // it calls the extensions when it is made
        Field field = fieldOf(analyzer, "extendedCheckRules");
        List rules = ((scala.collection.Seq) field.get(analyzer)).toList();
        scala.collection.Iterator all = rules.iterator();
        while (all.hasNext()) {
            if (all.next() instanceof Rule) return;
        }
        field.set(analyzer, rules.$colon$colon(new Rule(this, session)));
    }

    private static Field fieldOf(Object object, String name) throws NoSuchFieldException {
        for (Class of = object.getClass(); of != null; of = of.getSuperclass()) {
            Field[] all = of.getDeclaredFields();
            for (int at = 0; at < all.length; at++) {
                if (!all[at].getName().equals(name)) continue;
                all[at].setAccessible(true);
                return all[at];
            }
        }
        throw new NoSuchFieldException(object.getClass().getName() + "." + name);
    }

    private static String idOf(Object session) throws Exception {
        Method id = session.getClass().getMethod("sessionUUID", NONE);
        return (String) id.invoke(session, NOTHING);
    }

    private boolean add(Object session) throws Exception {
        String id = idOf(session);
        if (sessions.containsKey(id)) return false;
        for (Iterator all = sessions.entrySet().iterator(); all.hasNext();) {
            Map.Entry one = (Map.Entry) all.next();
            if (((WeakReference) one.getValue()).get() == null) ended((String) one.getKey());
        }
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        if (!hasIceberg && loader != null) {
            hasIceberg = loader.getResource("org/apache/iceberg/spark/SparkCatalog.class") != null;
        }
        conf = ((SparkSession) session).sparkContext().hadoopConfiguration();
        return sessions.put(id, new WeakReference(session)) == null;
    }

    // Keep nothing of a session that has ended.
    private void ended(String id) {
        sessions.remove(id);
        reloads.remove(id);
        families.remove(id);
        former.ended(id);
    }

    private Object session(String id) {
        WeakReference found = (WeakReference) sessions.get(id);
        return found == null ? null : found.get();
    }

    private static WeakReference contextOf(Object session) {
        return new WeakReference(session == null ? null : ((SparkSession) session).sparkContext());
    }

    private static boolean isStopped(WeakReference context) {
        SparkContext alive = (SparkContext) context.get();
        return alive == null || alive.isStopped();
    }

    private SessionCatalog catalogOf(Object session) throws Exception {
        Object made = state.get(session);
        return made == null ? null : ((SessionState) made).catalog();
    }

    private static Constructor keysOf(String method) throws NoSuchMethodException {
        Method[] all = SessionCatalog.class.getMethods();
        for (int at = 0; at < all.length; at++) {
            if (!all[at].getName().equals(method)) continue;
            return all[at].getParameterTypes()[0]
                .getConstructor(new Class[] {String.class, String.class, String.class});
        }
        throw new NoSuchMethodException(method);
    }

    private Map relationsOf(SessionCatalog catalog) throws Exception {
        Object cache = relations.get(catalog);
        Method all = cache.getClass().getMethod("asMap", NONE);
        all.setAccessible(true);
        return (Map) all.invoke(cache, NOTHING);
    }

    private boolean wasRelisted(String task, Object lister) {
        for (Iterator all = relisted.values().iterator(); all.hasNext();) {
            if (((WeakReference) all.next()).get() == null) all.remove();
        }
        WeakReference found = (WeakReference) relisted.get(task);
        return found != null && found.get() == lister;
    }

    // Whether a file is gone, or of another length: what was listed of it cannot be read any more.
    // One call for each folder; of many only for the last ones by name: of days the newest.
    private boolean isGone(FileIndex index) throws Exception {
        // that of a partitioned table lists files for each query
        if (!index.getClass().getSimpleName().equals("InMemoryFileIndex")) return false;
        TreeMap folders = new TreeMap(Collections.reverseOrder());  // lengths by path, by folder
        scala.collection.Iterator all = ((InMemoryFileIndex) index).allFiles().iterator();
        while (all.hasNext()) {
            FileStatus file = (FileStatus) all.next();
            Path folder = file.getPath().getParent();
            if (!folders.containsKey(folder)) folders.put(folder, new HashMap());
            ((Map) folders.get(folder)).put(file.getPath(), Long.valueOf(file.getLen()));
        }
        Iterator each = folders.entrySet().iterator();
        for (int left = foldersMax; each.hasNext() && left > 0; left--) {
            Map.Entry one = (Map.Entry) each.next();
            if (isGone((Path) one.getKey(), (Map) one.getValue())) return true;
        }
        return false;
    }

    private boolean isGone(Path folder, Map lengths) throws Exception {
        FileStatus[] now;
        try {
            now = folder.getFileSystem(conf).listStatus(folder);
        } catch (FileNotFoundException none) {
            return true;
        }
        for (int at = 0; at < now.length; at++) {
            if (Long.valueOf(now[at].getLen()).equals(lengths.get(now[at].getPath()))) {
                lengths.remove(now[at].getPath());
            }
        }
        return !lengths.isEmpty();
    }

    private void later(String task, String id, String table, WeakReference context, Callable work) {
        Object[] all = new Object[] {task, id, table, work, context};
        synchronized (busy) {  // the compiler drops the word from private methods
            Object[] both = (Object[]) busy.get(task);
            if (both == null) {
                busy.put(task, new Object[] {all, null});
                admit(all);
            } else {
                both[1] = all;  // what waits does the same
            }
        }
    }

    // Start it, or let it wait for the others of its table.
    private void admit(Object[] all) {
        Lane lane = (Lane) lanes.get(laneOf(all));
        if (lane == null) {
            lane = new Lane();
            lanes.put(laneOf(all), lane);
        }
        if (lane.running.size() < laneMax) start(lane, all);
        else lane.waiting.add(all);
    }

    private static Object laneOf(Object[] all) {
        return all[2].equals("*") ? all[0] : all[2];
    }

    // Without memory it may not start, or start all the same: then it has ended already.
    private void start(Lane lane, final Object[] all) {
        lane.running.add(all);
        try {
            pool.execute(new Runnable() {
                public void run() {
                    try {
                        ((Callable) all[3]).call();
                    } catch (Throwable failed) {
                        fail(all, failed);
                    } finally {
                        ended(all);
                    }
                }
            });
        } catch (OutOfMemoryError none) {
            try {
                fail(all, none);
            } finally {
                ended(all);
            }
        }
    }

    private void fail(Object[] all, Throwable failed) {
        if (isStopped((WeakReference) all[4])) return;  // its caches have ended, too
        String why = String.valueOf(failed).split(String.valueOf((char) 10))[0];
        failures.add(all[1] + " " + all[2] + " " + why);
    }

    private void ended(Object[] all) {
        synchronized (busy) {
            Lane lane = (Lane) lanes.get(laneOf(all));
            if (lane == null || !lane.running.remove(all)) return;
            Object[] both = (Object[]) busy.remove(all[0]);
            if (!lane.waiting.isEmpty()) start(lane, (Object[]) lane.waiting.removeFirst());
            else if (lane.running.isEmpty()) lanes.remove(laneOf(all));
            Object[] next = (Object[]) both[1];
            if (next != null) {
                busy.put(next[0], new Object[] {next, null});
                admit(next);
            }
            busy.notifyAll();
        }
    }

    private static final class Lane {
        final Set running = new HashSet();
        final LinkedList waiting = new LinkedList();
    }

    private static final class Reload extends AbstractFunction0 {
        private final SessionState made;
        private final Set names;  // which grows

        Reload(SessionState made, Set names) {
            this.made = made;
            this.names = names;
        }

        public Object apply() {
            try {
                Object[] now = names.toArray();
                names.removeAll(Arrays.asList(now));  // what is added later has a task of its own
                TopicastSessions.reload(made, now);
            } catch (Exception failed) {
                throw new RuntimeException(failed);
            }
            return BoxedUnit.UNIT;
        }
    }

    // Spark calls it with each plan that it has analysed.
    private static final class Rule extends AbstractFunction1 {
        private final TopicastSessions of;
        private final WeakReference session;
        private final WeakReference context;
        private String id;

        Rule(TopicastSessions of, Object session) {
            this.of = of;
            this.session = new WeakReference(session);
            this.context = contextOf(session);
        }

        public Object apply(Object plan) {
            try {
                if (id == null) id = idOf(session.get());
                of.note((LogicalPlan) plan, id, context, false);
            } catch (Throwable failed) {  // as in plain Spark
            }
            return BoxedUnit.UNIT;
        }
    }

    // Of one session.
    private static final class Families {
        private final HashMap byTable = new HashMap();
        private int made;

        synchronized Family find(String table) {
            return (Family) byTable.get(table.toLowerCase(Locale.ROOT));
        }

        synchronized Family of(String table) {
            Family found = find(table);
            if (found != null) return found;
            if (++made % 64 == 0) {  // nobody holds anything of most tables that have changed
                for (Iterator all = byTable.values().iterator(); all.hasNext();) {
                    if (!((Family) all.next()).isHeld()) all.remove();
                }
            }
            found = new Family();
            byTable.put(table.toLowerCase(Locale.ROOT), found);
            return found;
        }
    }

    // What lists the files of a session's relation of a table, and what did so before we
    // invalidated it. In plain Spark these are one object: a statement that has it list anew does
    // so for DataFrames and cached data, too. So when Spark has one of them list, it passes that
    // on to the others. Once Spark itself has invalidated the present one, that ends, as ever.
    private static final class Family {
        private final ArrayList former = new ArrayList();  // weakly
        private WeakReference present;  // null: none was loaded since

        synchronized void discarded(FileIndex lister) throws IllegalAccessException {
            if (present != null && present.get() != lister) former.clear();
            present = null;
            sweep();
            if (!isAwaiting(lister)) return;
            former.add(new WeakReference(lister));
            join(lister);
        }

        void discardedPresent() throws IllegalAccessException {
            WeakReference last = present;
            FileIndex lister = last == null ? null : (FileIndex) last.get();
            if (lister != null) discarded(lister);
        }

        synchronized boolean isHeld() {
            sweep();
            return !former.isEmpty();
        }

        // Whether it may be the one that was loaded since: plans hold former ones, too.
        synchronized boolean isAwaiting(FileIndex lister) {
            return present == null && !has(lister);
        }

        synchronized void loaded(FileIndex lister) throws IllegalAccessException {
            if (!isAwaiting(lister)) return;
            present = new WeakReference(lister);
            join(lister);
        }

        // The others, if this is one of them.
        synchronized ArrayList othersThan(FileIndex lister) {
            ArrayList others = new ArrayList();
            Object last = present == null ? null : present.get();
            if (last != lister && !has(lister)) return others;
            if (last != null && last != lister) others.add(last);
            for (Iterator all = former.iterator(); all.hasNext();) {
                Object one = ((WeakReference) all.next()).get();
                if (one != null && one != lister) others.add(one);
            }
            return others;
        }

        private boolean has(FileIndex lister) {
            for (Iterator all = former.iterator(); all.hasNext();) {
                if (((WeakReference) all.next()).get() == lister) return true;
            }
            return false;
        }

        private void sweep() {
            for (Iterator all = former.iterator(); all.hasNext();) {
                if (((WeakReference) all.next()).get() == null) all.remove();
            }
        }

        // One of another kind, such as a table format's, passes nothing on.
        private void join(FileIndex lister) throws IllegalAccessException {
            Field field;
            try {
                field = fieldOf(lister, "fileStatusCache");
            } catch (NoSuchFieldException another) {
                return;
            }
            Object own = field.get(lister);
            if (own instanceof Passing) own = ((Passing) own).own;
            field.set(lister, new Passing((FileStatusCache) own, lister, this));
        }
    }

    // The cache that a lister clears when it is to list anew.
    private static final class Passing extends FileStatusCache {
        static final ThreadLocal ALONE = new ThreadLocal();  // set: nothing is passed on
        final FileStatusCache own;
        private final FileIndex lister;
        private final Family family;

        Passing(FileStatusCache own, FileIndex lister, Family family) {
            this.own = own;
            this.lister = lister;
            this.family = family;
        }

        public scala.Option getLeafFiles(Path path) {
            return own.getLeafFiles(path);
        }

        public void putLeafFiles(Path path, FileStatus[] files) {
            own.putLeafFiles(path, files);
        }

        public void invalidateAll() {
            own.invalidateAll();
            if (ALONE.get() != null) return;
            ArrayList others = family.othersThan(lister);
            if (others.isEmpty()) return;
            ALONE.set(this);
            try {
                lister.refresh();  // what it lists is in its own cache then: it lists but once
                for (Iterator all = others.iterator(); all.hasNext();) {
                    FileIndex one = (FileIndex) all.next();
                    if (!copied(lister, one)) one.refresh();
                }
            } finally {
                ALONE.remove();
            }
        }

        // Whether the other one has what this one has just listed: a listing costs seconds.
        private static boolean copied(FileIndex from, FileIndex to) {
            if (from.getClass() != InMemoryFileIndex.class || to.getClass() != from.getClass()
                    || !from.equals(to)) return false;
            try {
                Field[] all = InMemoryFileIndex.class.getDeclaredFields();
                for (int at = 0; at < all.length; at++) {
                    if (!Modifier.isVolatile(all[at].getModifiers())) continue;
                    all[at].setAccessible(true);
                    all[at].set(to, all[at].get(from));
                }
                return true;
            } catch (IllegalAccessException failed) {
                return false;
            }
        }
    }

    // What lists the files of a relation over paths, as long as somebody else holds it.
    private static final class Paths {
        final WeakReference lister;
        final WeakReference context;
        final String[] roots;
        volatile boolean ofView;

        Paths(FileIndex lister, WeakReference context) {
            this.lister = new WeakReference(lister);
            this.context = context;
            this.roots = new String[lister.rootPaths().size()];
            scala.collection.Iterator all = lister.rootPaths().iterator();
            for (int at = 0; at < roots.length; at++) {
                roots[at] = ((Path) all.next()).toUri().getPath();
            }
        }

        boolean touches(String location) {
            for (int at = 0; at < roots.length; at++) {
                if (roots[at].equals(location) || roots[at].startsWith(location + "/")
                        || location.startsWith(roots[at] + "/")) return true;
            }
            return false;
        }
    }
}
