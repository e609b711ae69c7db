import java.util.Iterator;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;

// Whether a command runs in this thread, or has started it: it may write what it reads, so that the
// metastore has to answer it. For any thread; there is no state.
final class TopicastCommands implements Function {
    private static final String ID = "spark.sql.execution.id";
    private static final String ROOT = "spark.sql.execution.root.id";
    private static final String PACKAGE = "org.apache.spark.sql.execution.";

    // A command always has an execution, so a thread without one needs no look at its stack, nor
    // one whose only execution is a query.
    boolean runs(SparkContext context) {
        String id = context.getLocalProperty(ID);
        if (id == null) return false;
        if (id.equals(context.getLocalProperty(ROOT))) {
            QueryExecution of = SQLExecution.getQueryExecution(Long.parseLong(id));
            if (of != null && !(of.logical() instanceof Command)) return false;
        }
        return ((Boolean) StackWalker.getInstance().walk(this)).booleanValue();
    }

    // Whether a stack has a command that executes, or no execution at all: then another thread's
    // execution has started it.
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
