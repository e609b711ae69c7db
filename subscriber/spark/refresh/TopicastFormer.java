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

// The former relations of tables, by session and table: invalidated ones, which DataFrames may
// still hold. Spark copies the relations of Hive's tables, and the copies share one lister of
// files, so listers are kept, not relations. They are held weakly: what no DataFrame holds any more
// needs no refresh. The agent's thread keeps them; threads of the application call supersede().
final class TopicastFormer {
    private static final int OF_TABLE_MAX = 8;  // former relations of a table in a session
    private static final long SUPERSEDED_NS = 60000000000L;  // by then a refresh has taken it

    private final HashMap sessions = new HashMap();  // id -> table -> OfTable, the newest last
    private final ConcurrentHashMap superseded = new ConcurrentHashMap();  // "id key" -> Noted

    synchronized OfTable of(String id, String table) {
        Map mine = (Map) sessions.get(id);
        OfTable found = mine == null ? null : (OfTable) mine.get(table);
        return found == null ? new OfTable() : found;
    }

    // Keep a table's relations as the newest of a session. If the session has more than tablesMax
    // tables, drop those that were renewed longest ago.
    synchronized void keep(String id, String table, OfTable of, int tablesMax) {
        if (!sessions.containsKey(id)) sessions.put(id, new LinkedHashMap());
        Map mine = (Map) sessions.get(id);
        mine.remove(table);
        if (!of.noted.isEmpty()) mine.put(table, of);
        while (mine.size() > tablesMax) mine.remove(mine.keySet().iterator().next());
    }

    // Returns the tables of which DataFrames may hold relations that a refresh lists anew; commas
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

    // Note a relation that a query invalidates before the refresh that is due, so that the refresh
    // finds it.
    void supersede(String id, String key, LogicalPlan relation) {
        superseded.put(id + " " + key, new Noted(relation));
    }

    // Returns the keys of the superseded relations of a session that no refresh has taken.
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

    // Take the superseded relation of a key; null if there is none. Caller: the refresh of its
    // table.
    Noted takeSuperseded(String id, String key) {
        return (Noted) superseded.remove(id + " " + key);
    }

    synchronized void ended(String id) {
        sessions.remove(id);
        for (Iterator all = superseded.keySet().iterator(); all.hasNext();) {
            if (((String) all.next()).startsWith(id + " ")) all.remove();
        }
    }

    // Returns what lists the files of a relation; the relation itself if nothing does.
    private static Object listerOf(LogicalPlan relation) {
        Object lister = TopicastSpark.listerOf(relation);
        return lister == null ? relation : lister;
    }

    // A relation that was invalidated.
    static final class Noted {
        final WeakReference lister;
        final String shape;  // columns and location, as a text
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
        String shape = "";  // of the newest; empty: a refresh lists none of them anew

        // Note a relation that is invalidated; returns what listerOf() does. ``refreshed`` says
        // that refreshes are to list relations of this shape anew.
        Object add(LogicalPlan relation, boolean refreshed) {
            add(new Noted(relation), refreshed);
            return listerOf(relation);
        }

        void add(Noted one, boolean refreshed) {
            noted.add(one);
            if (noted.size() > OF_TABLE_MAX) noted.remove(0);
            if (refreshed) shape = one.shape;
        }

        // Returns the listers of the newest shape that are still held. If there are none, clear the
        // shape, so that later refreshes skip the table.
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
