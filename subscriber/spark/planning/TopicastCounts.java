import java.util.Iterator;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;

// The router's counters since it was made, and the tables that queries read. Any thread may call
// it.
final class TopicastCounts {
    private static final int NAMES_MAX = 10000;  // tables that were read since uses(): 1 MB

    private final ConcurrentHashMap originals = new ConcurrentHashMap();  // why -> LongAdder
    private final ConcurrentHashMap uses = new ConcurrentHashMap();  // table -> 2 LongAdders
    private final LongAdder answered = new LongAdder();
    private final LongAdder endpoint = new LongAdder();
    private final LongAdder saved = new LongAdder();
    private final LongAdder refusals = new LongAdder();
    private final LongAdder errors = new LongAdder();
    private volatile String lastError = "";

    // Memory has answered a read, which has saved so many calls of the metastore.
    void answered(int calls) {
        answered.increment();
        saved.add(calls);
    }

    // The endpoint has answered a read, which has saved so many calls of the metastore.
    void endpoint(int calls) {
        endpoint.increment();
        saved.add(calls);
    }

    // The original has answered a read, for this reason.
    void original(String why) {
        LongAdder of = (LongAdder) originals.get(why);
        if (of == null) {
            of = new LongAdder();
            LongAdder other = (LongAdder) originals.putIfAbsent(why, of);
            if (other != null) of = other;
        }
        of.increment();
    }

    void refused() {
        refusals.increment();
    }

    void failed(Throwable why) {
        errors.increment();
        lastError = String.valueOf(why);
    }

    // Count a read by the catalog's method of this name, if its object is a table.
    void used(String object, String name) {
        if (!TopicastNames.isTable(object)) return;
        LongAdder[] of = (LongAdder[]) uses.get(object);
        if (of == null) {
            if (uses.size() >= NAMES_MAX) return;
            of = new LongAdder[] {new LongAdder(), new LongAdder()};
            LongAdder[] other = (LongAdder[]) uses.putIfAbsent(object, of);
            if (other != null) of = other;
        }
        of[name.startsWith("list") || name.startsWith("getPartition") ? 1 : 0].increment();
    }

    // Returns the tables that were read since the last call, a line for each: its name, the reads
    // of the table itself, the reads of its partitions.
    String uses() {
        StringBuilder found = new StringBuilder();
        for (Iterator all = uses.keySet().iterator(); all.hasNext();) {
            String name = (String) all.next();
            LongAdder[] of = (LongAdder[]) uses.remove(name);
            if (of == null) continue;
            found.append(name).append(' ').append(of[0].sum()).append(' ').append(of[1].sum());
            found.append(TopicastNames.END);
        }
        return found.toString();
    }

    void into(TopicastLines status) {
        status.add("objects", answered.sum());
        status.add("endpoint", endpoint.sum());
        status.add("calls_saved", saved.sum());
        status.add("refused_writes", refusals.sum());
        status.add("errors", errors.sum());
        status.add("last_error", lastError);
        for (Iterator all = originals.keySet().iterator(); all.hasNext();) {
            String why = (String) all.next();
            status.add("original: " + why, ((LongAdder) originals.get(why)).sum());
        }
    }
}
