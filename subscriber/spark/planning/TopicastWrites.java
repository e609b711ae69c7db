import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

// Keeps the objects that are dirty: written, and no sync has passed the write yet, so the original
// answers their reads. It also keeps the tables that statements of this driver have changed, for
// the agent to report. Queries mark and look up objects in their own threads; one thread of the
// agent waits for writes, another for changed tables.
final class TopicastWrites {
    private static final int NAMES_MAX = 10000;  // of each kind: 1 MB

    private final TopicastObjects objects;
    private final ConcurrentHashMap dirty = new ConcurrentHashMap();  // object -> number of a write
    private final AtomicLong last = new AtomicLong();  // number of a write
    // Tables that the agent has not taken yet -> whether they were created, dropped or renamed.
    private final ConcurrentHashMap altered = new ConcurrentHashMap();
    private volatile boolean open;  // an agent waits for writes and changed tables

    TopicastWrites(TopicastObjects objects) {
        this.objects = objects;
    }

    // Let the agent wait for writes and changed tables, or end its waits.
    void open(boolean open) {
        this.open = open;
        synchronized (this) {
            notifyAll();
        }
        synchronized (altered) {
            if (!open) altered.clear();
            altered.notifyAll();
        }
    }

    boolean isDirty(String object) {
        if (dirty.isEmpty()) return false;
        if (dirty.containsKey(object) || dirty.containsKey(TopicastNames.EVERYTHING)) return true;
        return dirty.containsKey(TopicastNames.dbOf(object) + TopicastNames.IN_ALL);
    }

    // Mark an object as dirty, and drop what is kept of it, so that the metastore answers its reads
    // until a sync has passed this call.
    void mark(String object) {
        if (dirty.size() >= NAMES_MAX) object = TopicastNames.EVERYTHING;
        dirty.put(object, Long.valueOf(last.incrementAndGet()));
        if (object.equals(TopicastNames.EVERYTHING)) {
            objects.clear();
        } else if (object.endsWith(TopicastNames.IN_ALL)) {
            int end = object.length() - TopicastNames.IN_ALL.length();
            objects.dropIn(object.substring(0, end));
        } else {
            objects.drop(object);
        }
        synchronized (this) {
            notifyAll();
        }
    }

    // A write by the catalog's method of this name has ended: mark each object that it may have
    // changed.
    void wrote(String name, Object[] args) {
        String object = TopicastNames.objectOf(name, args);
        int dot = object.indexOf('.');
        String db = dot < 0 ? object : object.substring(0, dot);
        mark(object);
        if (object.equals(TopicastNames.EVERYTHING)) return;
        if (name.equals("renameTable")) mark(db + "." + TopicastNames.lower(args[2]));
        if (dot > 0) alters(object, name);
        if (dot > 0 && name.endsWith("Table")) mark(db + TopicastNames.ALL);
        if (dot < 0) {
            mark(db + TopicastNames.IN_ALL);
            mark(TopicastNames.ALL);
        }
    }

    // Returns the number of the newest write if some write is one that no sync has passed, else 0.
    long newest() {
        return dirty.isEmpty() ? 0 : last.get();
    }

    // Wait at most ms for a write.
    synchronized void pause(long ms) throws InterruptedException {
        if (open && dirty.isEmpty()) wait(ms);
    }

    // The subscriber has everything up to the write of this number.
    void synced(long number) {
        for (Iterator all = dirty.entrySet().iterator(); all.hasNext();) {
            Map.Entry one = (Map.Entry) all.next();
            Long write = (Long) one.getValue();
            // Remove by key and number: the iterator's remove() would also remove a newer write.
            if (write.longValue() <= number) dirty.remove(one.getKey(), write);
        }
    }

    // Wait at most ms until a statement of this driver has changed a table. Returns a line for each
    // such table: 1 if the table was created, dropped or renamed, else 0; and its name.
    String altered(long ms) throws InterruptedException {
        synchronized (altered) {
            if (open && altered.isEmpty()) altered.wait(ms);
        }
        StringBuilder found = new StringBuilder();
        for (Iterator all = altered.keySet().iterator(); all.hasNext();) {
            String table = (String) all.next();
            Object named = altered.remove(table);
            if (named != null) found.append(Boolean.TRUE.equals(named) ? "1 " : "0 ");
            if (named != null) found.append(table).append(TopicastNames.END);
        }
        return found.toString();
    }

    void into(TopicastLines status) {
        status.add("dirty", dirty.size());
    }

    // Note a change of a table itself. Changes of its data are not noted here: the listener reports
    // the statements that write data.
    private void alters(String object, String name) {
        boolean named = name.equals("createTable") || name.equals("dropTable")
            || name.equals("renameTable");
        if (!named && !name.startsWith("alter") && !name.endsWith("Partitions")) return;
        if (name.equals("alterTableStats") || altered.size() >= NAMES_MAX) return;
        synchronized (altered) {
            if (named || !altered.containsKey(object)) altered.put(object, Boolean.valueOf(named));
            altered.notifyAll();
        }
    }
}
