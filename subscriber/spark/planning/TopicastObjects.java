import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import org.apache.spark.sql.catalyst.catalog.CatalogTablePartition;

// The router's memory: results of reads, one map for each object, in at most bytesMax bytes of the
// heap. It evicts the least recently used result first. Any thread may call it; a lookup takes no
// lock.
//
// A change removes the object's map. A load takes the map before it asks, and puts its result into
// that map, so a result that may be older than a change is lost with the map.
final class TopicastObjects {
    private static final int OBJECT_BYTES = 256;  // counted for a map, and for each of its entries

    private final AtomicReference objects = new AtomicReference(new ConcurrentHashMap());
    private final AtomicLong bytes = new AtomicLong();
    private final LongAdder evicted = new LongAdder();
    private volatile long bytesMax;

    void limit(long bytesMax) {
        this.bytesMax = bytesMax;
    }

    boolean isEmpty() {
        return map().isEmpty();
    }

    // Returns the map of an object; null if there is none.
    Kept get(String object) {
        return (Kept) map().get(object);
    }

    // Returns the map of an object, a new one if there is none; null if there is no room for it.
    Kept of(String object) {
        Kept found = get(object);
        if (found != null) return found;
        long size = OBJECT_BYTES + TopicastSizes.ofText(object);
        if (!takeRoom(size)) return null;
        Kept made = new Kept(this, size);
        Kept other = (Kept) map().putIfAbsent(object, made);
        if (other == null) return made;
        made.close();
        return other;
    }

    // Keep a result, unless a change has removed the map. Returns false if it is too large.
    boolean keep(Kept into, String key, Object value) {
        long size = OBJECT_BYTES + TopicastSizes.ofText(key) + TopicastSizes.of(value);
        if (size > bytesMax / 2 || !takeRoom(size)) return false;
        if (!into.put(key, new Held(value, size))) bytes.addAndGet(-size);
        return true;
    }

    // Remove a map in which nothing is kept, unless its ``never`` is set, which later reads go by.
    void leave(String object, Kept into) {
        if (into.held.isEmpty() && !into.never && map().remove(object, into)) into.close();
    }

    void drop(String object) {
        Kept gone = (Kept) map().remove(object);
        if (gone != null) gone.close();
    }

    // Drop the tables of a database, and the lists of their names.
    void dropIn(String db) {
        drop(db + TopicastNames.ALL);
        for (Iterator all = map().keySet().iterator(); all.hasNext();) {
            String object = (String) all.next();
            if (object.startsWith(db + ".")) drop(object);
        }
    }

    void clear() {
        ConcurrentHashMap old = (ConcurrentHashMap) objects.getAndSet(new ConcurrentHashMap());
        for (Iterator all = old.values().iterator(); all.hasNext();) ((Kept) all.next()).close();
    }

    void into(TopicastLines status) {
        status.add("evicted", evicted.sum());
        status.add("bytes", bytes.get());
        status.add("held", map().size());
    }

    private ConcurrentHashMap map() {
        return (ConcurrentHashMap) objects.get();
    }

    // Count so many bytes; evict if they exceed the limit. Returns false, and counts nothing, if
    // there is no room even then.
    private boolean takeRoom(long size) {
        if (size > bytesMax) return false;
        if (bytes.addAndGet(size) <= bytesMax) return true;
        evict(bytesMax - bytesMax / 8);
        if (bytes.get() <= bytesMax) return true;
        bytes.addAndGet(-size);
        return false;
    }

    private void evict(long left) {
        ArrayList all = new ArrayList();
        for (Iterator each = map().entrySet().iterator(); each.hasNext();) {
            Map.Entry one = (Map.Entry) each.next();
            ((Kept) one.getValue()).into((String) one.getKey(), all);
        }
        Object[] oldest = all.toArray();
        Arrays.sort(oldest);
        for (int at = 0; at < oldest.length && bytes.get() > left; at++) {
            Candidate one = (Candidate) oldest[at];
            one.of.remove(one.key);
            if (one.of.held.isEmpty() && map().remove(one.object, one.of)) one.of.close();
            evicted.increment();
        }
    }

    // ---- parts

    // The map of one object. The lock of ``held`` guards its changes and ``size``.
    static final class Kept {
        final ConcurrentHashMap held = new ConcurrentHashMap();  // key -> Held
        private final TopicastObjects of;
        volatile boolean never;  // a table that only the metastore may answer for
        volatile boolean known;  // the table was read, so ``never`` is right
        volatile boolean lost;  // a result was evicted
        private final long madeAt = System.nanoTime();
        private long size;
        private boolean closed;

        Kept(TopicastObjects of, long size) {
            this.of = of;
            this.size = size;
        }

        // Returns the result of a key; null if none is kept.
        Held get(String key) {
            return (Held) held.get(key);
        }

        boolean put(String key, Held one) {
            synchronized (held) {
                if (closed) return false;
                Held old = (Held) held.put(key, one);
                long freed = old == null ? 0 : old.size;
                size += one.size - freed;
                of.bytes.addAndGet(-freed);
                return true;
            }
        }

        void remove(String key) {
            synchronized (held) {
                Held old = closed ? null : (Held) held.remove(key);
                if (old == null) return;
                lost = true;
                size -= old.size;
                of.bytes.addAndGet(-old.size);
            }
        }

        // Whether every list in which the partition ``is`` occurs has it equal to ``is``, which is
        // the metastore's; null if no list has it.
        Boolean has(CatalogTablePartition is) {
            Boolean same = null;
            for (Iterator each = held.values().iterator(); each.hasNext();) {
                Object value = ((Held) each.next()).value;
                if (!(value instanceof scala.collection.Seq)) continue;
                scala.collection.Iterator all = ((scala.collection.Seq) value).iterator();
                while (all.hasNext()) {
                    Object one = all.next();
                    if (!(one instanceof CatalogTablePartition)
                            || !((CatalogTablePartition) one).spec().equals(is.spec())) continue;
                    if (!one.equals(is)) return Boolean.FALSE;
                    same = Boolean.TRUE;
                }
            }
            return same;
        }

        void close() {
            synchronized (held) {
                if (closed) return;
                closed = true;
                held.clear();
                of.bytes.addAndGet(-size);
            }
        }

        void into(String object, ArrayList all) {
            if (held.isEmpty()) all.add(new Candidate(object, this, "", madeAt));
            for (Iterator each = held.entrySet().iterator(); each.hasNext();) {
                Map.Entry one = (Map.Entry) each.next();
                long usedAt = ((Held) one.getValue()).usedAt;
                all.add(new Candidate(object, this, (String) one.getKey(), usedAt));
            }
        }
    }

    static final class Held {
        final Object value;
        final long size;
        volatile long usedAt = System.nanoTime();

        Held(Object value, long size) {
            this.value = value;
            this.size = size;
        }
    }

    private static final class Candidate implements Comparable {
        final String object;
        final Kept of;
        final String key;
        final long usedAt;

        Candidate(String object, Kept of, String key, long usedAt) {
            this.object = object;
            this.of = of;
            this.key = key;
            this.usedAt = usedAt;
        }

        public int compareTo(Object other) {
            long later = usedAt - ((Candidate) other).usedAt;
            return later < 0 ? -1 : later > 0 ? 1 : 0;
        }
    }
}
