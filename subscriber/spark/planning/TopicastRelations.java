import java.lang.reflect.Method;
import java.util.concurrent.ConcurrentHashMap;

// Remembers the tables whose files may have changed since they were last read. The first read of
// such a table invalidates the relations that Spark's sessions keep of it, so the query that reads
// it lists its files anew. The agent notes changes, queries call renew(); any thread may call it.
final class TopicastRelations {
    private static final int NAMES_MAX = 10000;  // tables: 1 MB

    private final Object registry;  // TopicastSessions
    private final Method supersede;  // of the registry: invalidates the relations of a table
    private final ConcurrentHashMap changed = new ConcurrentHashMap();  // tables
    private volatile long allChangedUntil = System.nanoTime();  // until then each read invalidates

    TopicastRelations(Object registry) throws NoSuchMethodException {
        this.registry = registry;
        this.supersede = registry.getClass().getMethod("supersede",
            new Class[] {String.class, String.class});
    }

    void changed(String table) {
        if (changed.size() >= NAMES_MAX) changed.clear();  // the agent renews their relations, too
        changed.put(table, table);
    }

    void allChanged(long ms) {
        allChangedUntil = System.nanoTime() + ms * 1000000L;
    }

    void renew(String table) throws Exception {
        boolean late = allChangedUntil - System.nanoTime() > 0;
        if (changed.remove(table) == null && !late) return;
        int dot = table.indexOf('.');
        supersede.invoke(registry,
            new Object[] {table.substring(0, dot), table.substring(dot + 1)});
    }
}
