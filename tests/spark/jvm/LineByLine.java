import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Iterator;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/** An application of somebody's: it runs each line of SQL; "again" begins another context. */
public final class LineByLine {
    public static void main(String[] words) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        SparkSession spark = (SparkSession) SparkSession.builder().getOrCreate();
        String line;
        while ((line = lines.readLine()) != null) {
            line = line.replace(";", "");
            if (line.equals("again")) {
                spark.stop();
                spark = (SparkSession) SparkSession.builder().getOrCreate();
                continue;
            }
            try {
                Iterator rows = spark.sql(line).collectAsList().iterator();
                while (rows.hasNext()) System.out.println(((Row) rows.next()).mkString("\t"));
            } catch (Exception failed) {
                System.err.println(failed.getMessage());
            }
        }
    }
}
