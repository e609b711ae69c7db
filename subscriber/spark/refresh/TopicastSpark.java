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

// Parts of Spark for which it has no public method, or another one in another version: the state of
// a session, the relations that the session keeps, and what lists the files of a relation. For any
// thread. Nothing here makes a part that is not there: a session's settings are fixed when its
// state is made, so the state of a session that has none is null.
final class TopicastSpark {
    static final Class[] NONE = new Class[0];
    static final Object[] NOTHING = new Object[0];
    private static final String CATALOG = "spark_catalog";  // whose relations sessions keep
    private static final String FINDS = "getCachedTable";

    private final Field state;  // of SparkSession
    private final Field relations;  // of SessionCatalog: a cache of Guava's
    private final Constructor keys;  // of that cache: of a catalog, a database and a table

    TopicastSpark(Field state, Field relations) throws NoSuchMethodException {
        this.state = state;
        this.relations = relations;
        this.keys = keysOf();
    }

    // The state of a session; null: it has none yet.
    SessionState stateOf(Object session) throws IllegalAccessException {
        return (SessionState) state.get(session);
    }

    // Likewise, the catalog of its state.
    SessionCatalog catalogOf(Object session) throws IllegalAccessException {
        SessionState made = stateOf(session);
        return made == null ? null : made.catalog();
    }

    // The relations of a catalog by their keys; what is removed here is loaded by the next plan.
    Map relationsOf(SessionCatalog catalog) throws Exception {
        Object cache = relations.get(catalog);
        Method all = cache.getClass().getMethod("asMap", NONE);
        all.setAccessible(true);
        return (Map) all.invoke(cache, NOTHING);
    }

    // The key of the relation of "db.table".
    Object keyOf(String table) throws Exception {
        int dot = table.indexOf('.');
        return keys.newInstance(new Object[] {
            CATALOG, table.substring(0, dot), table.substring(dot + 1)});
    }

    // The name of a table as its key prints it.
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

    // The context of a session, weakly; it counts as stopped once nobody else holds it.
    static WeakReference contextOf(Object session) {
        return new WeakReference(session == null ? null : ((SparkSession) session).sparkContext());
    }

    static boolean isStopped(WeakReference context) {
        SparkContext alive = (SparkContext) context.get();
        return alive == null || alive.isStopped();
    }

    // What lists the files of a relation; null: the plan is no relation of files.
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

    // A private field of an object, or of a class that its class extends; accessible.
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
