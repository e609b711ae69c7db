import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

// What was written and no sync has passed: until then the metastore is asked for it. And which
// tables statements of this driver have changed, for the agent to report. Queries mark and look in
// their threads, two threads of the agent wait for writes and for such tables.
final class TopicastWrites {
    private static final int NAMES_MAX = 10000;  // of each kind: 1 MB

    private final TopicastObjects objects;
    private final ConcurrentHashMap dirty = new ConcurrentHashMap();  // object -> number of a write
    private final AtomicLong last = new AtomicLong();  // number of a write
    private final ConcurrentHashMap altered = new ConcurrentHashMap();  // by statements, not
    // reported yet: table -> whether it came or went
    private volatile boolean open;

    TopicastWrites(TopicastObjects objects) {
        this.objects = objects;
    }

    // Let the agent wait for writes, or not any more.
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

    // Let the metastore be asked for an object, and keep nothing of it.
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

    // A write of this name and with these arguments has ended.
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

    // The number of the newest write that no sync has passed; 0: there is none.
    long newest() {
        return dirty.isEmpty() ? 0 : last.get();
    }

    // Wait for a write, but not longer than so many milliseconds.
    synchronized void pause(long ms) throws InterruptedException {
        if (open && dirty.isEmpty()) wait(ms);
    }

    // Everything up to this write is visible to the subscriber that answers.
    void synced(long number) {
        for (Iterator all = dirty.entrySet().iterator(); all.hasNext();) {
            Map.Entry one = (Map.Entry) all.next();
            Long write = (Long) one.getValue();
            // By its number, too: the iterator's own remove() would also remove a newer write's.
            if (write.longValue() <= number) dirty.remove(one.getKey(), write);
        }
    }

    // Wait until a statement of this driver has changed a table, or for so many milliseconds. A
    // line for each such table: whether it came or went, and its name.
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

    // Note a statement's change of a table; those of data are reported by the statement.
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
