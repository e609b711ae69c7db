import java.lang.ref.WeakReference;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Collections;
import java.util.Iterator;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.hive.HiveExternalCatalog;
import org.apache.spark.sql.internal.SharedState;

// Replaces the external catalogs of Spark's sessions by TopicastCatalog, puts the originals back,
// and tells each of ours which endpoint to ask. It sets the field ``delegate`` of Spark's
// ExternalCatalogWithListener, which wraps the catalog that calls the metastore.
//
// Threads of the agent call it. The lock of ``installed`` guards which catalogs are replaced.
// Catalogs are held weakly, so those of a stopped context can be collected.
final class TopicastInstalled {
    private static final Object[] NOTHING = new Object[0];

    private final Object registry;  // TopicastSessions
    private final Method sessions;  // its alive(): all sessions that have not ended
    private final TopicastCounts counts;
    private final ConcurrentHashMap fields = new ConcurrentHashMap();  // class.field -> Field
    private final Map installed = Collections.synchronizedMap(new WeakHashMap());  // -> ours, weak
    private volatile boolean open;  // look() replaces catalogs
    private volatile String uri = "";  // of the endpoint; empty: there is none
    private volatile String token = "";  // that readers present to it
    private volatile String plain = "";  // why a catalog was not replaced; empty: all were

    TopicastInstalled(Object registry, TopicastCounts counts) throws NoSuchMethodException {
        this.registry = registry;
        this.counts = counts;
        this.sessions = registry.getClass().getMethod("alive", new Class[0]);
    }

    void open() {
        open = true;
    }

    // Put the originals back at once. Ours, which reads under way still use, ask no endpoint any
    // more.
    void close() {
        open = false;
        synchronized (installed) {
            for (Iterator all = installed.entrySet().iterator(); all.hasNext();) {
                Map.Entry one = (Map.Entry) all.next();
                TopicastCatalog ours = (TopicastCatalog) ((WeakReference) one.getValue()).get();
                if (ours == null) continue;
                putBack(one.getKey(), ours);
                ours.ask("", "");
            }
            installed.clear();
            uri = "";
        }
    }

    // Let each of ours ask this endpoint from now on; "" for none.
    void ask(String uri, String token) {
        synchronized (installed) {
            this.token = token;
            this.uri = uri;
            for (Iterator all = installed.values().iterator(); all.hasNext();) {
                TopicastCatalog one = (TopicastCatalog) ((WeakReference) all.next()).get();
                if (one != null) one.ask(uri, token);
            }
        }
    }

    boolean hasEndpoint() {
        return !uri.isEmpty();
    }

    void into(TopicastLines status) {
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
        status.add("catalogs", installed.size());
        status.add("readers", number);
        status.add("reader_failures", failures);
        status.add("reader_failure", last);
        status.add("plain", plain);
    }

    // Replace every catalog of Hive that a session has and that was not replaced yet. It reads only
    // fields, so a session without a catalog does not get one by this.
    void look(TopicastPlanning router) {
        if (!open) return;
        try {
            Object[] all = (Object[]) sessions.invoke(registry, NOTHING);
            for (int at = 0; at < all.length; at++) {
                Object shared = field(all[at].getClass(), "sharedState").get(all[at]);
                if (shared == null) continue;
                Object catalog = field(shared.getClass(), "externalCatalog").get(shared);
                if (catalog == null || installed.containsKey(catalog)) continue;
                install(router, (SharedState) shared, catalog,
                    ((SparkSession) all[at]).sparkContext());
            }
        } catch (Throwable failed) {
            plain = String.valueOf(failed);
        }
    }

    private void install(TopicastPlanning router, SharedState shared, Object catalog,
            SparkContext context) throws Exception {
        Object original = field(catalog.getClass(), "delegate").get(catalog);
        if (original.getClass() != HiveExternalCatalog.class) {
            plain = "its catalog is of " + original.getClass().getName();
            return;
        }
        plain = authorizes((HiveExternalCatalog) original);
        if (!plain.isEmpty()) return;
        TopicastCatalog ours = new TopicastCatalog(shared.conf(), shared.hadoopConf(),
            (HiveExternalCatalog) original, router, context);
        synchronized (installed) {
            if (!open || installed.containsKey(catalog)) return;  // another thread was first
            installed.put(catalog, new WeakReference(ours));
            field(catalog.getClass(), "delegate").set(catalog, ours);
            ours.ask(uri, token);
        }
    }

    // Returns why a catalog must not be replaced: its metastore may show each user other objects,
    // and one user's answers would be kept for all. Empty if it does not authorise reads.
    private static String authorizes(HiveExternalCatalog original) {
        String listeners = original.client().getConf("hive.metastore.pre.event.listeners", "");
        return listeners.indexOf("Authoriz") < 0 ? ""
            : "the metastore authorises reads: hive.metastore.pre.event.listeners=" + listeners;
    }

    // Not if something else has replaced ours since: it wraps ours, and must stay.
    private void putBack(Object catalog, TopicastCatalog ours) {
        try {
            Field delegate = field(catalog.getClass(), "delegate");
            if (delegate.get(catalog) == ours) delegate.set(catalog, ours.original);
        } catch (Exception failed) {
            counts.failed(failed);
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
}
