import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SessionState;
import scala.runtime.AbstractFunction0;
import scala.runtime.BoxedUnit;

// Drops tables from the caches of the Iceberg catalogs that sessions have loaded, so that the next
// query loads them anew. The agent names the tables. A task of TopicastTasks does it, one at a time
// for each session, because it may wait until a catalog or a table has been loaded. Iceberg's
// classes come with the application, so they are called by reflection.
final class TopicastIceberg {
    private static final String PACKAGE = "org.apache.iceberg.";
    private static final String CATALOG = "org/apache/iceberg/spark/SparkCatalog.class";
    private static final String SETTING = "spark.sql.catalog.";  // and the name of a catalog
    private static final String EVERY = "*";

    private final TopicastTasks tasks;
    private final ConcurrentHashMap waiting = new ConcurrentHashMap();  // session's id -> names
    private volatile boolean isThere;

    TopicastIceberg(TopicastTasks tasks) {
        this.tasks = tasks;
    }

    // Whether Iceberg's classes were found, so that sessions may have catalogs of it.
    boolean isThere() {
        return isThere;
    }

    // Look for Iceberg's classes again. Caller: a thread in which a new session was found, whose
    // class loader has also the jars that were added since the last look.
    void look() {
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        if (!isThere && loader != null) isThere = loader.getResource(CATALOG) != null;
    }

    // Have a task drop tables from the caches of a session's catalogs. A name is that of a table,
    // that of a database for all its tables, or "*" for all.
    void reload(String id, Object session, final SessionState made, String[] names) {
        if (!isIn(made)) return;
        final Set mine = ConcurrentHashMap.newKeySet();
        Set other = (Set) waiting.putIfAbsent(id, mine);
        final Set all = other == null ? mine : other;
        all.addAll(Arrays.asList(names));
        tasks.later("reload " + id, id, EVERY, TopicastSpark.contextOf(session), new Callable() {
            public Object call() {
                // Spark's CatalogManager reads the settings of catalogs from the thread's SQLConf.
                return SQLConf.withExistingConf(made.conf(), new Reload(made, all));
            }
        });
    }

    void ended(String id) {
        waiting.remove(id);
    }

    private static boolean isIn(SessionState made) {
        scala.collection.Iterator all = made.conf().getAllConfs().iterator();
        while (all.hasNext()) {
            scala.Tuple2 one = (scala.Tuple2) all.next();
            if (isIceberg((String) one._1(), (String) one._2())) return true;
        }
        return false;
    }

    private static boolean isIceberg(String key, String value) {
        return key.startsWith(SETTING) && value.startsWith(PACKAGE);
    }

    static void reload(SessionState made, Object[] names) throws Exception {
        CatalogManager manager = made.catalogManager();
        scala.collection.Iterator all = manager.listCatalogs(scala.Option.empty()).iterator();
        while (all.hasNext()) {
            String catalog = (String) all.next();
            String key = SETTING + catalog;
            if (!isIceberg(key, made.conf().getConfString(key, ""))) continue;
            Object plugin = manager.catalog(catalog);
            Method inner = plugin.getClass().getMethod("icebergCatalog", TopicastSpark.NONE);
            Object of = inner.invoke(plugin, TopicastSpark.NOTHING);
            for (int at = 0; at < names.length; at++) reload(of, (String) names[at]);
        }
    }

    private static void reload(Object catalog, String name) throws Exception {
        ClassLoader loader = catalog.getClass().getClassLoader();
        Class named = loader.loadClass(PACKAGE + "catalog.TableIdentifier");
        Class kind = loader.loadClass(PACKAGE + "catalog.Catalog");
        Method invalidate = kind.getMethod("invalidateTable", new Class[] {named});
        if (name.indexOf('.') > 0) {  // also for a table that is being loaded: it has no key yet
            Method of = named.getMethod("of", new Class[] {String[].class});
            Object table = of.invoke(null, new Object[] {name.split("[.]")});
            invalidate.invoke(catalog, new Object[] {table});
        }
        Object[] keys = cachedIn(catalog);
        for (int at = 0; at < keys.length; at++) {
            if (isMeant(keys[at].toString(), name)) {
                invalidate.invoke(catalog, new Object[] {keys[at]});
            }
        }
    }

    // Whether a name means the table of a key. The name is in lower case, the key as it was typed.
    static boolean isMeant(String key, String name) {
        String lower = key.toLowerCase(Locale.ROOT);  // a Turkish locale has another "i"
        return name.equals(EVERY) || lower.equals(name) || lower.startsWith(name + ".");
    }

    private static Object[] cachedIn(Object catalog) throws Exception {
        if (!catalog.getClass().getName().equals(PACKAGE + "CachingCatalog")) {
            return TopicastSpark.NOTHING;
        }
        Field field = catalog.getClass().getDeclaredField("tableCache");
        field.setAccessible(true);
        Object cache = field.get(catalog);
        Method all = cache.getClass().getMethod("asMap", TopicastSpark.NONE);
        all.setAccessible(true);
        return ((Map) all.invoke(cache, TopicastSpark.NOTHING)).keySet().toArray();
    }

    private static final class Reload extends AbstractFunction0 {
        private final SessionState made;
        private final Set names;  // reload() of the agent adds to it meanwhile

        Reload(SessionState made, Set names) {
            this.made = made;
            this.names = names;
        }

        public Object apply() {
            try {
                Object[] now = names.toArray();
                names.removeAll(Arrays.asList(now));  // a name that is added later has its own task
                TopicastIceberg.reload(made, now);
            } catch (Exception failed) {
                throw new RuntimeException(failed);
            }
            return BoxedUnit.UNIT;
        }
    }
}
