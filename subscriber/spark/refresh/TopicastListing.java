import java.io.FileNotFoundException;
import java.lang.ref.WeakReference;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;

// Has what DataFrames hold list its files anew: always, or only if one of these files is gone or
// replaced. For any thread; the files are listed in threads of ``tasks``, one listing of the same
// files at a time.
final class TopicastListing {
    private final TopicastTasks tasks;
    private final int foldersMax;  // that are looked at for files that are gone
    private final Set forced = ConcurrentHashMap.newKeySet();  // listers that list in any case
    private final Set relisted = ConcurrentHashMap.newKeySet();  // that have listed anew, weakly
    private volatile Configuration conf;  // of the newest session's file systems

    TopicastListing(TopicastTasks tasks, int foldersMax) {
        this.tasks = tasks;
        this.foldersMax = foldersMax;
    }

    void reach(Configuration conf) {
        this.conf = conf;
    }

    // List the files of a relation anew: always, or if one that it lists is gone or replaced. Once
    // it was listed anew always: it may have been in the middle of an overwrite, whose end adds
    // files.
    void later(String session, String table, final Object lister, boolean always,
            WeakReference context) {
        final TopicastIdentity of = new TopicastIdentity(lister);
        if (always) forced.add(of);
        tasks.later(of, session, table, context, new Callable() {
            public Object call() throws Exception {
                list(of, lister);
                return null;
            }
        });
    }

    void list(TopicastIdentity of, Object lister) throws Exception {
        boolean always = forced.remove(of);
        if (lister instanceof LogicalPlan) {
            if (always) ((LogicalPlan) lister).refresh();
            return;
        }
        sweep();
        if (!always && !relisted.contains(of) && !isGone((FileIndex) lister)) return;
        relisted.add(of);
        TopicastFamilies.refreshAlone((FileIndex) lister);
    }

    private void sweep() {
        for (Iterator all = relisted.iterator(); all.hasNext();) {
            if (((TopicastIdentity) all.next()).get() == null) all.remove();
        }
    }

    // Whether a file is gone, or of another length: what was listed of it cannot be read any more.
    // One call for each folder; of many only for the last ones by name: of days the newest.
    private boolean isGone(FileIndex index) throws Exception {
        // that of a partitioned table lists files for each query
        if (!index.getClass().getSimpleName().equals("InMemoryFileIndex")) return false;
        TreeMap folders = new TreeMap(Collections.reverseOrder());  // lengths by path, by folder
        scala.collection.Iterator all = ((InMemoryFileIndex) index).allFiles().iterator();
        while (all.hasNext()) {
            FileStatus file = (FileStatus) all.next();
            Path folder = file.getPath().getParent();
            if (!folders.containsKey(folder)) folders.put(folder, new HashMap());
            ((Map) folders.get(folder)).put(file.getPath(), Long.valueOf(file.getLen()));
        }
        Iterator each = folders.entrySet().iterator();
        for (int left = foldersMax; each.hasNext() && left > 0; left--) {
            Map.Entry one = (Map.Entry) each.next();
            if (isGone((Path) one.getKey(), (Map) one.getValue())) return true;
        }
        return false;
    }

    private boolean isGone(Path folder, Map lengths) throws Exception {
        FileStatus[] now;
        try {
            now = folder.getFileSystem(conf).listStatus(folder);
        } catch (FileNotFoundException none) {
            return true;
        }
        for (int at = 0; at < now.length; at++) {
            if (Long.valueOf(now[at].getLen()).equals(lengths.get(now[at].getPath()))) {
                lengths.remove(now[at].getPath());
            }
        }
        return !lengths.isEmpty();
    }
}
