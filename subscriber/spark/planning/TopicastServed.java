import java.lang.ref.WeakReference;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.catalog.CatalogTablePartition;

// Notes for each thread what memory or the endpoint served it last. Spark builds some writes from
// what it has read, such as alterTable with a whole table. Before such a write the router compares
// what the thread was served with the metastore. Each thread sees its own notes alone, so there is
// no lock.
final class TopicastServed {
    private static final int SERVED_MAX = 256;  // objects that are noted for a thread

    private final TopicastObjects objects;
    // Object -> three weak references: the table or database that was served; the map of which
    // partitions were served; the map of which they were served before that.
    private final ThreadLocal served = new ThreadLocal();

    TopicastServed(TopicastObjects objects) {
        this.objects = objects;
    }

    // Whether this thread was served nothing, and memory has nothing that another was served.
    boolean isEmpty() {
        return served.get() == null && objects.isEmpty();
    }

    boolean has(String object) {
        Map mine = (Map) served.get();
        return mine != null && object != null && mine.containsKey(object);
    }

    // The thread has read the object from the metastore, or has written it, so what it was served
    // before needs no comparison.
    void forget(String object) {
        Map mine = (Map) served.get();
        if (mine != null) mine.remove(object);
    }

    // Note what the thread is served: a table or database, or partitions of the map ``from``.
    void serve(String object, String name, TopicastObjects.Kept from, Object value) {
        Map mine = (Map) served.get();
        if (mine == null) {
            mine = new Served();
            served.set(mine);
        }
        WeakReference[] of = (WeakReference[]) mine.get(object);
        if (of == null) {
            of = new WeakReference[3];
            mine.put(object, of);
        }
        if (name.equals("getTable") || name.equals("getDatabase")) {
            of[0] = new WeakReference(value);
        } else if (of[1] == null || of[1].get() != from) {
            of[2] = of[1];  // the thread may still write partitions that it was served of that map
            of[1] = new WeakReference(from);
        }
    }

    // Whether the metastore's object differs from what the thread was served, or from what memory
    // has. True also where that can no longer be told.
    boolean differs(TopicastCatalog from, String object, String write, Object[] args) {
        Map mine = (Map) served.get();
        WeakReference[] of = mine == null ? null : (WeakReference[]) mine.get(object);
        if (of == null && mine != null && ((Served) mine).lost) return true;
        int dot = object.indexOf('.');
        String name = dot < 0 ? "getDatabase" : "getTable";
        Object[] names = dot < 0 ? new Object[] {object}
            : new Object[] {object.substring(0, dot), object.substring(dot + 1)};
        TopicastObjects.Kept kept = objects.get(object);
        TopicastObjects.Held held = kept == null ? null
            : kept.get(TopicastNames.keyOf(name, names));
        Object was = held == null ? null : held.value;
        if (of != null && of[0] != null) {
            was = of[0].get();
            if (was == null) return true;
        }
        if (was != null
                && !was.equals(from.load(from.original, from.methodOf(name), names))) return true;
        if (!write.equals("alterPartitions") || of == null || of[1] == null) return false;
        if (of[1].get() != kept || kept == null || kept.lost) return true;
        scala.collection.Iterator all = ((scala.collection.Iterable) args[2]).iterator();
        while (all.hasNext()) {
            scala.collection.Map spec = ((CatalogTablePartition) all.next()).spec();
            Object is = from.load(from.original, from.methodOf("getPartition"),
                new Object[] {names[0], names[1], spec});
            Boolean same = kept.has((CatalogTablePartition) is);
            if (same == null ? of[2] != null : !same.booleanValue()) return true;
        }
        return false;
    }

    private static final class Served extends LinkedHashMap {
        boolean lost;  // the notes of some object were dropped for others

        Served() {
            super(16, 0.75f, true);
        }

        protected boolean removeEldestEntry(Map.Entry oldest) {
            lost = lost || size() > SERVED_MAX;
            return size() > SERVED_MAX;
        }
    }
}
