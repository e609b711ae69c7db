import java.lang.ref.WeakReference;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.internal.SessionState;

// Reaches parts of Spark that have no public method, or another one in another version: the state
// of a session, the relations that the session keeps, and what lists the files of a relation. Any
// thread may call it. It never makes a session's state, because that would fix settings which the
// application may still change: without a state it returns null.
final class TopicastSpark {
    static final Class[] NONE = new Class[0];
    static final Object[] NOTHING = new Object[0];
    private static final String CATALOG = "spark_catalog";  // begins the names in keys of relations
    private static final String FINDS = "getCachedTable";  // takes a key of a relation

    private final Field state;  // of SparkSession
    private final Field relations;  // of SessionCatalog: a cache of Guava's
    private final Constructor keys;  // of that cache: takes a catalog, a database and a table

    TopicastSpark(Field state, Field relations) throws NoSuchMethodException {
        this.state = state;
        this.relations = relations;
        this.keys = keysOf();
    }

    // Returns the state of a session; null if it has none yet.
    SessionState stateOf(Object session) throws IllegalAccessException {
        return (SessionState) state.get(session);
    }

    // Returns the catalog of a session; null if it has no state yet.
    SessionCatalog catalogOf(Object session) throws IllegalAccessException {
        SessionState made = stateOf(session);
        return made == null ? null : made.catalog();
    }

    // Returns the relations of a catalog by their keys. The map is the cache itself: a relation
    // that is removed from it is loaded anew by the next plan.
    Map relationsOf(SessionCatalog catalog) throws Exception {
        Object cache = relations.get(catalog);
        Method all = cache.getClass().getMethod("asMap", NONE);
        all.setAccessible(true);
        return (Map) all.invoke(cache, NOTHING);
    }

    // Returns the key of the relation of "db.table".
    Object keyOf(String table) throws Exception {
        int dot = table.indexOf('.');
        return keys.newInstance(new Object[] {
            CATALOG, table.substring(0, dot), table.substring(dot + 1)});
    }

    // Returns the name of "db.table" as its key prints it.
    static String printed(String table) {
        return CATALOG + "." + table;
    }

    private static Constructor keysOf() throws NoSuchMethodException {
        Method[] all = SessionCatalog.class.getMethods();
        for (int at = 0; at < all.length; at++) {
            if (!all[at].getName().equals(FINDS)) continue;
            return all[at].getParameterTypes()[0]
                .getConstructor(new Class[] {String.class, String.class, String.class});
        }
        throw new NoSuchMethodException(FINDS);
    }

    static String idOf(Object session) throws Exception {
        Method id = session.getClass().getMethod("sessionUUID", NONE);
        return (String) id.invoke(session, NOTHING);
    }

    // Returns a weak reference to a session's context. A context that was collected counts as
    // stopped.
    static WeakReference contextOf(Object session) {
        return new WeakReference(session == null ? null : ((SparkSession) session).sparkContext());
    }

    static boolean isStopped(WeakReference context) {
        SparkContext alive = (SparkContext) context.get();
        return alive == null || alive.isStopped();
    }

    // Returns what lists the files of a relation; null if the plan is no relation of files.
    static FileIndex listerOf(LogicalPlan plan) {
        if (!(plan instanceof LogicalRelation)) return null;
        Object relation = ((LogicalRelation) plan).relation();
        return relation instanceof HadoopFsRelation
            ? ((HadoopFsRelation) relation).location() : null;
    }

    static String nameOf(CatalogTable table) {
        scala.Option db = table.identifier().database();
        return (db.isDefined() ? db.get() + "." : "") + table.identifier().table();
    }

    // Returns a field of an object's class, or of a class that it extends, and makes it accessible.
    static Field fieldOf(Object object, String name) throws NoSuchFieldException {
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
}
