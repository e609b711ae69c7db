import java.util.Collections;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

// Of which databases and tables changes are received: only what is in these may be kept. A table is
// wanted once a query reads it; a thread of the agent takes what is wanted, finds out, and says
// what it has found. For any thread; the lock of ``wanted`` guards what a table is.
final class TopicastFollowed {
    private static final int NAMES_MAX = 10000;  // tables of each kind: 1 MB
    private static final long REFUSED_NS = 5000000000L;  // until a table is looked at again

    private final ConcurrentHashMap tables = new ConcurrentHashMap();  // whose changes are received
    private final ConcurrentHashMap wanted = new ConcurrentHashMap();  // not known; to its number
    private final ConcurrentHashMap refused = new ConcurrentHashMap();  // they are not, until
    private final AtomicLong last = new AtomicLong();  // number
    private volatile Map databases = Collections.emptyMap();  // each as its own value
    private volatile boolean open;

    // Let threads wait for each other, or not any more.
    void open(boolean open) {
        this.open = open;
        synchronized (wanted) {
            wanted.notifyAll();
        }
    }

    // The databases whose changes are received, one a line.
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

    // Have it found out whether changes of a table are received; false: it was wanted before.
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

    // Wait for so many milliseconds until it is known of a wanted table; whether its changes are
    // received.
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

    // A table has changed: the reason may be that its changes are not received from now on.
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

    // Wait until a table is wanted, or for so many milliseconds. A line for each: its number, and
    // its name.
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

    // Of a table that was wanted: whether its changes are received. No effect if it has changed.
    void known(long number, String table, boolean isFollowed) {
        synchronized (wanted) {  // a change may come in between
            if (!wanted.remove(table, Long.valueOf(number))) return;
            Map into = isFollowed ? tables : refused;
            if (into.size() >= NAMES_MAX) into.clear();  // each is looked at again
            into.put(table, Long.valueOf(System.nanoTime() + REFUSED_NS));
            wanted.notifyAll();
        }
    }
}
