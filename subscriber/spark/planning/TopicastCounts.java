import java.util.Iterator;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;

// What the router has done since the JVM started, and which tables are read. For any thread.
final class TopicastCounts {
    private static final int NAMES_MAX = 10000;  // tables that were read since uses(): 1 MB

    private final ConcurrentHashMap originals = new ConcurrentHashMap();  // why -> LongAdder
    private final ConcurrentHashMap uses = new ConcurrentHashMap();  // table -> reads, by kind
    private final LongAdder answered = new LongAdder();
    private final LongAdder endpoint = new LongAdder();
    private final LongAdder saved = new LongAdder();
    private final LongAdder refusals = new LongAdder();
    private final LongAdder errors = new LongAdder();
    private volatile String lastError = "";

    // A read was answered from memory; ``calls``: of the metastore, that it has saved.
    void answered(int calls) {
        answered.increment();
        saved.add(calls);
    }

    // Likewise, by the endpoint.
    void endpoint(int calls) {
        endpoint.increment();
        saved.add(calls);
    }

    // A read was left to the original.
    void original(String why) {
        LongAdder of = (LongAdder) originals.get(why);
        if (of == null) {
            of = new LongAdder();
            LongAdder other = (LongAdder) originals.putIfAbsent(why, of);
            if (other != null) of = other;
        }
        of.increment();
    }

    // A write was refused.
    void refused() {
        refusals.increment();
    }

    void failed(Throwable why) {
        errors.increment();
        lastError = String.valueOf(why);
    }

    // A table is read, by a method of this name.
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

    // What was read since the last call, a line for each table: name, reads of it, reads of its
    // partitions.
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
