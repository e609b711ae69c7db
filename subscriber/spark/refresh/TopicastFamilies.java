import java.lang.ref.WeakReference;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Locale;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusCache;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;

// Which listers of files are of one table in a session: that of its relation, and those of the
// relations that we have invalidated. For any thread.
//
// In plain Spark these are one object: a statement of the application that has it list its files
// anew does so for DataFrames and for cached data, too. So when Spark has one of them list, the
// lister passes that on to the others. Once Spark itself has invalidated the relation of now, that
// ends, as in plain Spark.
//
// Listers are held weakly, and tables of which none is alive are removed at every 64th new table.
final class TopicastFamilies {
    private final ConcurrentHashMap sessions = new ConcurrentHashMap();  // id -> OfSession

    // We are about to invalidate a relation of a session's table, whose files this object lists:
    // what a statement has the next relation list, this object is to list, too.
    void discarded(String session, String table, Object lister) throws IllegalAccessException {
        if (!(lister instanceof FileIndex)) return;
        OfSession made = new OfSession();
        OfSession other = (OfSession) sessions.putIfAbsent(session, made);
        (other == null ? made : other).of(table).discarded((FileIndex) lister);
    }

    // The family of a session's table; null: we have invalidated no relation of it.
    Family find(String session, String table) {
        OfSession all = (OfSession) sessions.get(session);
        return all == null ? null : all.find(table);
    }

    void ended(String session) {
        sessions.remove(session);
    }

    // List files anew in this object alone: we do so, and not a statement.
    static void refreshAlone(FileIndex lister) {
        Passing.ALONE.set(lister);
        try {
            lister.refresh();
        } finally {
            Passing.ALONE.remove();
        }
    }

    private static final class OfSession {
        private final HashMap byTable = new HashMap();  // name in lower case -> Family
        private int made;

        synchronized Family find(String table) {
            return (Family) byTable.get(table.toLowerCase(Locale.ROOT));
        }

        synchronized Family of(String table) {
            Family found = find(table);
            if (found != null) return found;
            if (++made % 64 == 0) {  // nobody holds anything of most tables that have changed
                for (Iterator all = byTable.values().iterator(); all.hasNext();) {
                    if (!((Family) all.next()).isHeld()) all.remove();
                }
            }
            found = new Family();
            byTable.put(table.toLowerCase(Locale.ROOT), found);
            return found;
        }
    }

    // The listers of one table in one session.
    static final class Family {
        private final ArrayList former = new ArrayList();  // weakly: of invalidated relations
        private WeakReference present;  // of the relation of now; null: none was loaded since

        synchronized void discarded(FileIndex lister) throws IllegalAccessException {
            if (present != null && present.get() != lister) former.clear();
            present = null;
            sweep();
            if (!isAwaiting(lister)) return;
            former.add(new WeakReference(lister));
            join(lister);
        }

        // Spark has invalidated the relation of now because we have made it do so.
        void discardedPresent() throws IllegalAccessException {
            WeakReference last = present;
            FileIndex lister = last == null ? null : (FileIndex) last.get();
            if (lister != null) discarded(lister);
        }

        synchronized boolean isHeld() {
            sweep();
            return !former.isEmpty();
        }

        // Whether it may be the one that was loaded since: plans hold former ones, too.
        synchronized boolean isAwaiting(FileIndex lister) {
            return present == null && !has(lister);
        }

        synchronized void loaded(FileIndex lister) throws IllegalAccessException {
            if (!isAwaiting(lister)) return;
            present = new WeakReference(lister);
            join(lister);
        }

        // The others, if this is one of them.
        synchronized ArrayList othersThan(FileIndex lister) {
            ArrayList others = new ArrayList();
            Object last = present == null ? null : present.get();
            if (last != lister && !has(lister)) return others;
            if (last != null && last != lister) others.add(last);
            for (Iterator all = former.iterator(); all.hasNext();) {
                Object one = ((WeakReference) all.next()).get();
                if (one != null && one != lister) others.add(one);
            }
            return others;
        }

        private boolean has(FileIndex lister) {
            for (Iterator all = former.iterator(); all.hasNext();) {
                if (((WeakReference) all.next()).get() == lister) return true;
            }
            return false;
        }

        private void sweep() {
            for (Iterator all = former.iterator(); all.hasNext();) {
                if (((WeakReference) all.next()).get() == null) all.remove();
            }
        }

        // One of another kind, such as a table format's, passes nothing on.
        private void join(FileIndex lister) throws IllegalAccessException {
            Field field;
            try {
                field = TopicastSpark.fieldOf(lister, "fileStatusCache");
            } catch (NoSuchFieldException another) {
                return;
            }
            Object own = field.get(lister);
            if (own instanceof Passing) own = ((Passing) own).own;
            field.set(lister, new Passing((FileStatusCache) own, lister, this));
        }
    }

    // The cache that a lister clears when it is to list anew: it has the others list then, too. In
    // the thread of the statement.
    private static final class Passing extends FileStatusCache {
        static final ThreadLocal ALONE = new ThreadLocal();  // set: nothing is passed on
        final FileStatusCache own;
        private final FileIndex lister;
        private final Family family;

        Passing(FileStatusCache own, FileIndex lister, Family family) {
            this.own = own;
            this.lister = lister;
            this.family = family;
        }

        public scala.Option getLeafFiles(Path path) {
            return own.getLeafFiles(path);
        }

        public void putLeafFiles(Path path, FileStatus[] files) {
            own.putLeafFiles(path, files);
        }

        public void invalidateAll() {
            own.invalidateAll();
            if (ALONE.get() != null) return;
            ArrayList others = family.othersThan(lister);
            if (others.isEmpty()) return;
            ALONE.set(this);
            try {
                lister.refresh();  // what it lists is in its own cache then: it lists but once
                for (Iterator all = others.iterator(); all.hasNext();) {
                    pass((FileIndex) all.next());
                }
            } finally {
                ALONE.remove();
            }
        }

        // What cannot be listed fails where it is read: the statement does not read it, and may be
        // of a table that has another location by now.
        private void pass(FileIndex to) {
            try {
                if (!copied(lister, to)) to.refresh();
            } catch (Exception failed) {
            }
        }

        // Whether the other one has what this one has just listed: a listing costs seconds.
        private static boolean copied(FileIndex from, FileIndex to) {
            if (from.getClass() != InMemoryFileIndex.class || to.getClass() != from.getClass()
                    || !from.equals(to)) return false;
            try {
                Field[] all = InMemoryFileIndex.class.getDeclaredFields();
                for (int at = 0; at < all.length; at++) {
                    if (!Modifier.isVolatile(all[at].getModifiers())) continue;
                    all[at].setAccessible(true);
                    all[at].set(to, all[at].get(from));
                }
                return true;
            } catch (IllegalAccessException failed) {
                return false;
            }
        }
    }
}
