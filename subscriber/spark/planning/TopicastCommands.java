import java.util.Iterator;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;

// Tells whether a read of the catalog is part of a command of Spark's. A command may write what it
// reads, so the metastore has to answer it. Any thread may call it; it has no state.
final class TopicastCommands implements Function {
    private static final String ID = "spark.sql.execution.id";
    private static final String ROOT = "spark.sql.execution.root.id";
    private static final String PACKAGE = "org.apache.spark.sql.execution.";

    // Whether a command runs in this thread, or has started it. A command always has an execution
    // of Spark SQL, so the stack need not be searched in a thread without an execution, nor in one
    // whose only execution is a query.
    boolean runs(SparkContext context) {
        String id = context.getLocalProperty(ID);
        if (id == null) return false;
        if (id.equals(context.getLocalProperty(ROOT))) {
            QueryExecution of = SQLExecution.getQueryExecution(Long.parseLong(id));
            if (of != null && !(of.logical() instanceof Command)) return false;
        }
        return ((Boolean) StackWalker.getInstance().walk(this)).booleanValue();
    }

    // Whether the stack has a command that executes, or no execution at all: then a command of
    // another thread may have started this thread.
    public Object apply(Object frames) {
        Iterator all = ((Stream) frames).iterator();
        boolean executes = false;
        while (all.hasNext()) {
            String name = ((StackWalker.StackFrame) all.next()).getClassName();
            if (!name.startsWith(PACKAGE)) continue;
            if (name.endsWith(".ExecutedCommandExec") || name.endsWith(".V2CommandExec")
                    || name.endsWith(".DataWritingCommandExec")) return Boolean.TRUE;
            if (name.endsWith(".SQLExecution$")) executes = true;
        }
        return Boolean.valueOf(!executes);
    }
}
