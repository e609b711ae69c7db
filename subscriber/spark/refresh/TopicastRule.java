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

// A check rule of a session's analyzer, which checks nothing. It searches each plan that was
// analysed for relations over paths, and for relations of tables that Spark has loaded since
// Topicast invalidated the former ones. Spark calls it in the thread of the query, with the plans
// of subqueries, too. A failure in it is dropped, so the query runs as in plain Spark. It holds its
// session weakly, and stays in the analyzer after a detach.
final class TopicastRule extends AbstractFunction1 {
    private final TopicastSessions sessions;
    private final WeakReference session;
    private final WeakReference context;
    private String id;  // of the session; null until it analyses something

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

    // ``inView`` says that the plan is that of a temporary view, or a part of it.
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
        // Spark reads a source by this if spark.sql.sources.useV1SourceList does not name it.
        if (plan instanceof DataSourceV2Relation) {
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
