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

// Has the catalogs of Iceberg that sessions have loaded load tables anew: such a catalog keeps the
// tables that it has read. The agent says which; threads of ``tasks`` do it, one for a session,
// because it may wait until a catalog or a table has been loaded. Iceberg's classes are those of
// the application, so each is called by name.
final class TopicastIceberg {
    private static final String PACKAGE = "org.apache.iceberg.";
    private static final String CATALOG = "org/apache/iceberg/spark/SparkCatalog.class";
    private static final String SETTING = "spark.sql.catalog.";  // before the name of a catalog
    private static final String EVERY = "*";

    private final TopicastTasks tasks;
    private final ConcurrentHashMap waiting = new ConcurrentHashMap();  // session -> set of names
    private volatile boolean isThere;

    TopicastIceberg(TopicastTasks tasks) {
        this.tasks = tasks;
    }

    // Whether its classes are there, so that sessions may have catalogs of it.
    boolean isThere() {
        return isThere;
    }

    // A session has come, in this thread: its class loader has the jars that were added since.
    void look() {
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        if (!isThere && loader != null) isThere = loader.getResource(CATALOG) != null;
    }

    // Let the catalogs of a session load tables anew, later. A name is of a table, of a database
    // for all in it, or "*".
    void reload(String id, Object session, final SessionState made, String[] names) {
        if (!isIn(made)) return;
        final Set mine = ConcurrentHashMap.newKeySet();
        Set other = (Set) waiting.putIfAbsent(id, mine);
        final Set all = other == null ? mine : other;
        all.addAll(Arrays.asList(names));
        tasks.later("reload " + id, id, EVERY, TopicastSpark.contextOf(session), new Callable() {
            public Object call() {
                // Spark looks at the conf of the thread for the catalogs of a session.
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
        if (name.indexOf('.') > 0) {  // it waits for a load that is under way, which is no key yet
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

    // Whether a name, which is in lower case, means a table that a catalog keeps as it was typed.
    static boolean isMeant(String key, String name) {
        String lower = key.toLowerCase(Locale.ROOT);  // in Turkish, TITLE is another word
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
        private final Set names;  // which grows

        Reload(SessionState made, Set names) {
            this.made = made;
            this.names = names;
        }

        public Object apply() {
            try {
                Object[] now = names.toArray();
                names.removeAll(Arrays.asList(now));  // what is added later has a task of its own
                TopicastIceberg.reload(made, now);
            } catch (Exception failed) {
                throw new RuntimeException(failed);
            }
            return BoxedUnit.UNIT;
        }
    }
}
