import java.util.Collections;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

// The databases and tables that the subscriber follows, which means that it receives their changes.
// The router keeps nothing of others.
//
//     a query reads a table ──▶ wanted ──the agent answers──▶ tables, or refused for REFUSED_NS
//     the table changes ──▶ in none of them
//
// Any thread may call it. The lock of ``wanted`` guards each move of a table between the maps.
final class TopicastFollowed {
    private static final int NAMES_MAX = 10000;  // tables of each kind: 1 MB
    private static final long REFUSED_NS = 5000000000L;  // then a read wants the table again

    private final ConcurrentHashMap tables = new ConcurrentHashMap();  // the followed ones
    private final ConcurrentHashMap wanted = new ConcurrentHashMap();  // table -> its number
    private final ConcurrentHashMap refused = new ConcurrentHashMap();  // not followed -> until
    private final AtomicLong last = new AtomicLong();  // number of a wanted table
    private volatile Map databases = Collections.emptyMap();  // the followed ones
    private volatile boolean open;  // an agent answers, so waiting for it makes sense

    // Let threads wait in becomesKnown() and wanted(), or end their waits.
    void open(boolean open) {
        this.open = open;
        synchronized (wanted) {
            wanted.notifyAll();
        }
    }

    // Set the databases that the subscriber follows, one a line.
    void databases(String names) {
        Map found = new ConcurrentHashMap();
        String[] all = names.split(String.valueOf(TopicastNames.END));
        for (int at = 0; at < all.length; at++) {
            if (!all[at].isEmpty()) found.put(all[at], all[at]);
        }
        databases = found;
    }

    boolean hasDatabase(String db) {
        return databases.containsKey(db);
    }

    boolean hasTable(String table) {
        return tables.containsKey(table);
    }

    // Let the agent find out whether the subscriber follows a table. Returns false if the table is
    // wanted already, was refused a moment ago, or too many are wanted.
    boolean want(String table) {
        if (wanted.containsKey(table) || wanted.size() >= NAMES_MAX) return false;
        Long until = (Long) refused.get(table);
        if (until != null && until.longValue() - System.nanoTime() > 0) return false;
        synchronized (wanted) {
            refused.remove(table);
            wanted.put(table, Long.valueOf(last.incrementAndGet()));
            wanted.notifyAll();
        }
        return true;
    }

    // Wait at most ms until the agent has answered for a wanted table. Returns whether the
    // subscriber follows it.
    boolean becomesKnown(String table, long ms) {
        long until = System.nanoTime() + ms * 1000000L;
        synchronized (wanted) {
            while (open && wanted.containsKey(table)) {
                long left = (until - System.nanoTime()) / 1000000L;
                if (left <= 0) break;
                try {
                    wanted.wait(left);
                } catch (InterruptedException ended) {
                    Thread.currentThread().interrupt();
                    break;
                }
            }
        }
        return tables.containsKey(table);
    }

    // A table has changed. The change may be that it is no longer followed, so the next read wants
    // it again.
    void forget(String object) {
        synchronized (wanted) {
            wanted.remove(object);
            tables.remove(object);
            refused.remove(object);
        }
    }

    void forgetAll() {
        synchronized (wanted) {
            wanted.clear();
            tables.clear();
            refused.clear();
        }
    }

    // Wait at most ms until a table is wanted. Returns a line for each: its number, and its name.
    String wanted(long ms) throws InterruptedException {
        long until = System.nanoTime() + ms * 1000000L;
        while (open && wanted.isEmpty()) {
            long left = (until - System.nanoTime()) / 1000000L;
            if (left <= 0) break;
            synchronized (wanted) {
                if (open && wanted.isEmpty()) wanted.wait(left);
            }
        }
        StringBuilder found = new StringBuilder();
        for (Iterator all = wanted.entrySet().iterator(); all.hasNext();) {
            Map.Entry one = (Map.Entry) all.next();
            found.append(one.getValue()).append(' ').append(one.getKey());
            found.append(TopicastNames.END);
        }
        return found.toString();
    }

    // Take the agent's answer for a wanted table. It has no effect if the table has changed since
    // it got this number.
    void known(long number, String table, boolean isFollowed) {
        synchronized (wanted) {  // else forget() could come before the table is put into its map
            if (!wanted.remove(table, Long.valueOf(number))) return;
            Map into = isFollowed ? tables : refused;
            if (into.size() >= NAMES_MAX) into.clear();  // reads want each of them again
            into.put(table, Long.valueOf(System.nanoTime() + REFUSED_NS));
            wanted.notifyAll();
        }
    }
}
