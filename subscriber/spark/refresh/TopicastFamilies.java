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

// Families of listers. A lister is the FileIndex of a relation. A family has the listers of one
// table in one session: that of the current relation, and those of relations that Topicast has
// invalidated, which DataFrames may still hold. Any thread may call it.
//
// In plain Spark the members of a family would be one object, so a statement that refreshes the
// files of a table refreshes them for DataFrames and for cached data, too. To keep that so, a
// member that Spark has list its files anew passes the call on to the others. When Spark itself
// invalidates the current relation, the family ends, as DataFrames would keep the old object in
// plain Spark.
//
// Listers are held weakly. Families without a live lister are removed at every 64th new table.
final class TopicastFamilies {
    private final ConcurrentHashMap sessions = new ConcurrentHashMap();  // id -> OfSession

    // Topicast is about to invalidate a relation of a session's table. Its lister joins the family,
    // so that it lists its files anew when a statement has the next relation do so.
    void discarded(String session, String table, Object lister) throws IllegalAccessException {
        if (!(lister instanceof FileIndex)) return;
        OfSession made = new OfSession();
        OfSession other = (OfSession) sessions.putIfAbsent(session, made);
        (other == null ? made : other).of(table).discarded((FileIndex) lister);
    }

    // Returns the family of a session's table; null if Topicast has invalidated no relation of it.
    Family find(String session, String table) {
        OfSession all = (OfSession) sessions.get(session);
        return all == null ? null : all.find(table);
    }

    void ended(String session) {
        sessions.remove(session);
    }

    // Let a lister list its files anew, and no other of its family: Topicast does so, no statement.
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
            if (++made % 64 == 0) {  // DataFrames hold nothing of most tables that have changed
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
        private final ArrayList former = new ArrayList();  // weak: those of invalidated relations
        private WeakReference present;  // that of the current relation; null: none was loaded since

        synchronized void discarded(FileIndex lister) throws IllegalAccessException {
            if (present != null && present.get() != lister) former.clear();
            present = null;
            sweep();
            if (!isAwaiting(lister)) return;
            former.add(new WeakReference(lister));
            join(lister);
        }

        // Spark has invalidated the current relation because Topicast called refreshTable.
        void discardedPresent() throws IllegalAccessException {
            WeakReference last = present;
            FileIndex lister = last == null ? null : (FileIndex) last.get();
            if (lister != null) discarded(lister);
        }

        synchronized boolean isHeld() {
            sweep();
            return !former.isEmpty();
        }

        // Whether this lister may be that of the current relation, which no plan has shown yet: it
        // is none of the former ones, which plans still hold.
        synchronized boolean isAwaiting(FileIndex lister) {
            return present == null && !has(lister);
        }

        synchronized void loaded(FileIndex lister) throws IllegalAccessException {
            if (!isAwaiting(lister)) return;
            present = new WeakReference(lister);
            join(lister);
        }

        // Returns the other live members of the family; none if this lister is no member.
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

        // Replace the lister's cache by one that passes calls on. A lister without such a cache,
        // such as a table format's, passes nothing on.
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

    // The cache of a member's files. A lister clears its cache when it lists anew, and this cache
    // then has the other members list anew, too, in the thread of the statement.
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
                lister.refresh();  // fills its own cache, so the caller's refresh lists nothing
                for (Iterator all = others.iterator(); all.hasNext();) {
                    pass((FileIndex) all.next());
                }
            } finally {
                ALONE.remove();
            }
        }

        // A failure is dropped: the statement does not read this member, whose location may not be
        // the table's any more. A DataFrame that reads it gets the failure.
        private void pass(FileIndex to) {
            try {
                if (!copied(lister, to)) to.refresh();
            } catch (Exception failed) {
            }
        }

        // Copy what one member has just listed to another, because a listing may take seconds.
        // Returns whether that was possible: both must list the same paths in memory.
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
