import java.lang.ref.WeakReference;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.FileTable;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

// A check rule of a session's analyzer, which checks nothing: it looks through each plan that was
// analysed for relations over paths, and for relations of tables that were loaded since we have
// invalidated the former ones. Spark calls it in the thread of the query, with the plans of
// subqueries too; whatever fails in it leaves plain Spark. It holds its session weakly, and stays
// in the analyzer after a detach.
final class TopicastRule extends AbstractFunction1 {
    private final TopicastSessions sessions;
    private final WeakReference session;
    private final WeakReference context;
    private String id;  // of the session; null: it has not analysed anything yet

    TopicastRule(TopicastSessions sessions, Object session) {
        this.sessions = sessions;
        this.session = new WeakReference(session);
        this.context = TopicastSpark.contextOf(session);
    }

    public Object apply(Object plan) {
        try {
            if (id == null) id = TopicastSpark.idOf(session.get());
            note((LogicalPlan) plan, false);
        } catch (Throwable failed) {  // as in plain Spark
        }
        return BoxedUnit.UNIT;
    }

    // ``inView``: a temporary view's name has led to the plan.
    void note(LogicalPlan plan, boolean inView) throws Exception {
        if (plan instanceof LogicalRelation) {
            FileIndex lister = TopicastSpark.listerOf(plan);
            if (lister == null) return;
            scala.Option table = ((LogicalRelation) plan).catalogTable();
            if (table.isEmpty()) {
                sessions.paths.note(lister, context, inView);
            } else {
                sessions.loaded(id, (CatalogTable) table.get(), lister);
            }
            return;
        }
        if (plan instanceof InsertIntoHadoopFsRelationCommand) {
            InsertIntoHadoopFsRelationCommand into = (InsertIntoHadoopFsRelationCommand) plan;
            if (into.fileIndex().isDefined() && into.catalogTable().isDefined()) {
                CatalogTable table = (CatalogTable) into.catalogTable().get();
                sessions.loaded(id, table, (FileIndex) into.fileIndex().get());
            }
        }
        if (plan instanceof DataSourceV2Relation) {  // where useV1SourceList lacks the source
            Object table = ((DataSourceV2Relation) plan).table();
            if (table instanceof FileTable) {
                sessions.paths.note(((FileTable) table).fileIndex(), context, inView);
            }
            return;
        }
        if (plan instanceof View) inView = ((View) plan).isTempView();
        scala.collection.Iterator all = plan.children().iterator();
        while (all.hasNext()) note((LogicalPlan) all.next(), inView);
    }
}
