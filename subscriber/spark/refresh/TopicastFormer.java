import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

// What DataFrames may still hold of tables whose relations were invalidated, by session and table.
// Copies of a relation, which those over tables of Hive are, share what lists files.
final class TopicastFormer {
    private static final int OF_TABLE_MAX = 8;

    private final HashMap sessions = new HashMap();  // id -> table -> OfTable, the newest last

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
        if (!of.listers.isEmpty()) mine.put(table, of);
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

    synchronized void ended(String id) {
        sessions.remove(id);
    }

    static final class OfTable {
        private final ArrayList listers = new ArrayList();  // pairs: weakly, and its shape
        String shape = "";  // columns and location of the newest; empty: none is to be refreshed

        // Note a relation that is invalidated, and return what lists its files: else itself.
        Object add(LogicalPlan relation, boolean refreshed) {
            Object lister = relation;
            String where = "";
            if (relation instanceof LogicalRelation
                    && ((LogicalRelation) relation).relation() instanceof HadoopFsRelation) {
                HadoopFsRelation base = (HadoopFsRelation) ((LogicalRelation) relation).relation();
                lister = base.location();
                where = base.location().rootPaths().toString();
            }
            String mine = relation.schema().json() + " " + where;
            listers.add(new Object[] {new WeakReference(lister), mine});
            if (listers.size() > OF_TABLE_MAX) listers.remove(0);
            if (refreshed) shape = mine;
            return lister;
        }

        // Those of the newest shape that somebody holds; if there are none, none is to be refreshed.
        ArrayList alive() {
            ArrayList found = new ArrayList();
            for (Iterator all = listers.iterator(); all.hasNext();) {
                Object[] one = (Object[]) all.next();
                Object lister = ((WeakReference) one[0]).get();
                if (lister == null) {
                    all.remove();
                } else if (one[1].equals(shape)) {
                    found.add(lister);
                }
            }
            if (found.isEmpty()) shape = "";
            return found;
        }
    }
}
