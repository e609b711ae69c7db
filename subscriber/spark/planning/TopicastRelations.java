import java.lang.reflect.Method;
import java.util.concurrent.ConcurrentHashMap;

// Tables that were not read since their files may have changed: what Spark's sessions keep of one
// goes before its first read returns. The agent notes them, and queries read; for any thread.
final class TopicastRelations {
    private static final int NAMES_MAX = 10000;  // tables: 1 MB

    private final Object registry;  // TopicastSessions
    private final Method supersede;
    private final ConcurrentHashMap changed = new ConcurrentHashMap();
    private volatile long allChangedUntil = System.nanoTime();  // likewise, every table

    TopicastRelations(Object registry) throws NoSuchMethodException {
        this.registry = registry;
        this.supersede = registry.getClass().getMethod("supersede",
            new Class[] {String.class, String.class});
    }

    void changed(String table) {
        if (changed.size() >= NAMES_MAX) changed.clear();  // the push renews their relations, too
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
