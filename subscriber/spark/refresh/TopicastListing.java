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

// Lets the listers that DataFrames hold list their files anew: always, or only if one of these
// files is gone or replaced. Any thread may call later(); tasks list the files, and a lister has
// one listing at a time.
final class TopicastListing {
    private final TopicastTasks tasks;
    private final int foldersMax;  // folders that isGone() looks into
    private final Set forced = ConcurrentHashMap.newKeySet();  // listers whose next task lists
    private final Set relisted = ConcurrentHashMap.newKeySet();  // listers that have listed anew
    private volatile Configuration conf;  // of Hadoop, of the newest session

    TopicastListing(TopicastTasks tasks, int foldersMax) {
        this.tasks = tasks;
        this.foldersMax = foldersMax;
    }

    void reach(Configuration conf) {
        this.conf = conf;
    }

    // Have a task list the files of a relation anew: always, or if one of them is gone or replaced.
    // A lister that has listed anew once always does from then on: it may have listed in the middle
    // of an overwrite, whose end only adds files, so that none would be gone.
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

    // Whether a file is gone or has another length, so that reading it as listed would fail. It
    // costs one call for each folder. If there are more than foldersMax it looks into the last ones
    // by name, which are the newest where folders are days.
    private boolean isGone(FileIndex index) throws Exception {
        // The index of a partitioned table, of another class, lists files for each query.
        if (!index.getClass().getSimpleName().equals("InMemoryFileIndex")) return false;
        TreeMap folders = new TreeMap(Collections.reverseOrder());  // folder -> path -> length
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
