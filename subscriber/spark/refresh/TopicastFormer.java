import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.FileIndex;

// What DataFrames may still hold of tables whose relations were invalidated, by session and table.
// Copies of a relation, which those over tables of Hive are, share what lists files. The agent's
// thread keeps it; threads of the application note relations that they supersede. Relations are
// held weakly: what no DataFrame holds any more needs no refresh.
final class TopicastFormer {
    private static final int OF_TABLE_MAX = 8;
    private static final long SUPERSEDED_NS = 60000000000L;  // until then a refresh has counted it

    private final HashMap sessions = new HashMap();  // id -> table -> OfTable, the newest last
    private final ConcurrentHashMap superseded = new ConcurrentHashMap();  // session, key -> Noted

    synchronized OfTable of(String id, String table) {
        Map mine = (Map) sessions.get(id);
        OfTable found = mine == null ? null : (OfTable) mine.get(table);
        return found == null ? new OfTable() : found;
    }

    // Keep it as the newest; over so many tables of a session drop the one that was renewed first.
    synchronized void keep(String id, String table, OfTable of, int tablesMax) {
        if (!sessions.containsKey(id)) sessions.put(id, new LinkedHashMap());
        Map mine = (Map) sessions.get(id);
        mine.remove(table);
        if (!of.noted.isEmpty()) mine.put(table, of);
        while (mine.size() > tablesMax) mine.remove(mine.keySet().iterator().next());
    }

    // The tables of which DataFrames may hold relations that are to be refreshed in place; commas
    // separate their names.
    synchronized String held(String id) {
        StringBuilder found = new StringBuilder();
        Map mine = (Map) sessions.get(id);
        if (mine == null) return "";
        for (Iterator all = mine.entrySet().iterator(); all.hasNext();) {
            Map.Entry one = (Map.Entry) all.next();
            if (!((OfTable) one.getValue()).shape.isEmpty()) {
                found.append(found.length() == 0 ? "" : ",").append(one.getKey());
            }
        }
        return found.toString();
    }

    // Note a relation that is invalidated before the refresh that is due: that is to find it.
    void supersede(String id, String key, LogicalPlan relation) {
        superseded.put(id + " " + key, new Noted(relation));
    }

    // The keys of the relations of a session that were superseded.
    Set superseded(String id) {
        Set found = new TreeSet();
        for (Iterator all = superseded.entrySet().iterator(); all.hasNext();) {
            Map.Entry one = (Map.Entry) all.next();
            String name = (String) one.getKey();
            if (System.nanoTime() - ((Noted) one.getValue()).at > SUPERSEDED_NS) {
                superseded.remove(name, one.getValue());  // unless it is a newer one by now
            } else if (name.startsWith(id + " ")) {
                found.add(name.substring(id.length() + 1));
            }
        }
        return found;
    }

    // Have a refresh find the relation of this key that was superseded, if any.
    Noted takeSuperseded(String id, String key) {
        return (Noted) superseded.remove(id + " " + key);
    }

    synchronized void ended(String id) {
        sessions.remove(id);
        for (Iterator all = superseded.keySet().iterator(); all.hasNext();) {
            if (((String) all.next()).startsWith(id + " ")) all.remove();
        }
    }

    // What lists the files of a relation; else the relation itself.
    private static Object listerOf(LogicalPlan relation) {
        Object lister = TopicastSpark.listerOf(relation);
        return lister == null ? relation : lister;
    }

    // A relation that was invalidated.
    static final class Noted {
        final WeakReference lister;
        final String shape;  // columns and location
        final long at = System.nanoTime();

        Noted(LogicalPlan relation) {
            FileIndex files = TopicastSpark.listerOf(relation);
            lister = new WeakReference(listerOf(relation));
            shape = relation.schema().json() + " " + (files == null ? "" : files.rootPaths());
        }
    }

    // The relations of one table in one session that were invalidated. For the agent's thread.
    static final class OfTable {
        private final ArrayList noted = new ArrayList();  // Noted, the newest last
        String shape = "";  // of the newest; empty: none is to be refreshed

        // Note a relation that is invalidated, and return what lists its files: else itself.
        Object add(LogicalPlan relation, boolean refreshed) {
            add(new Noted(relation), refreshed);
            return listerOf(relation);
        }

        void add(Noted one, boolean refreshed) {
            noted.add(one);
            if (noted.size() > OF_TABLE_MAX) noted.remove(0);
            if (refreshed) shape = one.shape;
        }

        // Those of the newest shape that somebody holds; if there are none, none is to be
        // refreshed.
        ArrayList alive() {
            ArrayList found = new ArrayList();
            for (Iterator all = noted.iterator(); all.hasNext();) {
                Noted one = (Noted) all.next();
                Object lister = one.lister.get();
                if (lister == null) {
                    all.remove();
                } else if (one.shape.equals(shape)) {
                    found.add(lister);
                }
            }
            if (found.isEmpty()) shape = "";
            return found;
        }
    }
}
