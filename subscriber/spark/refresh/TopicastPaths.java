import java.lang.ref.WeakReference;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.FileIndex;

// The relations over paths, which Spark does not know by a table's name: spark.read.parquet(path),
// and views of it. Threads of the application note the relations that they analyse; the agent has
// their files listed anew. Listers are held weakly.
final class TopicastPaths {
    private static final String NOBODY = "-";  // stands for the session in lines of failures

    private final ConcurrentHashMap known = new ConcurrentHashMap();  // lister's identity -> OfPath
    private volatile int sweepAt = 64;  // with more entries, note() removes those of dead listers

    // A plan that was analysed reads files by this lister. ``inView`` says that the plan got there
    // by a temporary view's name.
    void note(FileIndex lister, WeakReference context, boolean inView) {
        TopicastIdentity key = new TopicastIdentity(lister);
        OfPath found = (OfPath) known.get(key);
        if (found == null) {
            found = new OfPath(lister, context);
            OfPath other = (OfPath) known.putIfAbsent(key, found);
            if (other != null) found = other;
            if (known.size() > sweepAt) sweep();
        }
        if (inView) found.ofView = true;
    }

    int size() {
        sweep();
        return known.size();
    }

    // Have the files of relations at, in or above a location listed anew; of all relations if the
    // location is empty. Relations that a view's name leads to are always listed anew; others only
    // if files are gone or ``always`` is set.
    void relist(TopicastListing listing, String table, String location, boolean always) {
        for (Iterator all = known.entrySet().iterator(); all.hasNext();) {
            Map.Entry one = (Map.Entry) all.next();
            Object lister = ((TopicastIdentity) one.getKey()).get();
            OfPath of = (OfPath) one.getValue();
            if (lister != null && (location.isEmpty() || of.touches(location))
                    && !TopicastSpark.isStopped(of.context)) {
                listing.later(NOBODY, table, lister, always || of.ofView, of.context);
            }
        }
    }

    private void sweep() {
        for (Iterator all = known.keySet().iterator(); all.hasNext();) {
            if (((TopicastIdentity) all.next()).get() == null) all.remove();
        }
        sweepAt = 64 + 2 * known.size();
    }

    private static final class OfPath {
        final WeakReference context;
        final String[] roots;
        volatile boolean ofView;

        OfPath(FileIndex lister, WeakReference context) {
            this.context = context;
            this.roots = new String[lister.rootPaths().size()];
            scala.collection.Iterator all = lister.rootPaths().iterator();
            for (int at = 0; at < roots.length; at++) {
                roots[at] = ((Path) all.next()).toUri().getPath();
            }
        }

        boolean touches(String location) {
            for (int at = 0; at < roots.length; at++) {
                if (roots[at].equals(location) || roots[at].startsWith(location + "/")
                        || location.startsWith(roots[at] + "/")) return true;
            }
            return false;
        }
    }
}
