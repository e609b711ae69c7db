import java.lang.ref.WeakReference;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.catalog.CatalogTablePartition;

// What each thread was served last from memory, so that a write that may carry it is compared with
// the metastore first. Each thread of the application sees its own alone, so nothing is locked.
final class TopicastServed {
    private static final int SERVED_MAX = 256;  // objects of a thread

    private final TopicastObjects objects;
    private final ThreadLocal served = new ThreadLocal();  // object -> reads of it

    TopicastServed(TopicastObjects objects) {
        this.objects = objects;
    }

    // Whether this thread was served nothing, and nobody else can have been.
    boolean isEmpty() {
        return served.get() == null && objects.isEmpty();
    }

    boolean has(String object) {
        Map mine = (Map) served.get();
        return mine != null && object != null && mine.containsKey(object);
    }

    // This thread has something newer than what it was served, or has written it.
    void forget(String object) {
        Map mine = (Map) served.get();
        if (mine != null) mine.remove(object);
    }

    // Note what this thread is served: a table or database itself, or that partitions of it were.
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
            of[2] = of[1];  // what it was served before, and may write without having read it again
            of[1] = new WeakReference(from);
        }
    }

    // Whether the metastore has an object otherwise than this thread, or the memory, has it.
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
        boolean lost;  // there were more

        Served() {
            super(16, 0.75f, true);
        }

        protected boolean removeEldestEntry(Map.Entry oldest) {
            lost = lost || size() > SERVED_MAX;
            return size() > SERVED_MAX;
        }
    }
}
