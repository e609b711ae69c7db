import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import javax.management.ObjectName;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.FileStatusCache;

/** An application without Python: it reads lines, runs each as SQL, and prints the rows. A line
    that begins with one of the words below does something else. */
public final class LineByLine {
    private static SparkSession spark;

    public static void main(String[] words) throws Exception {
        if (words.length == 2) {  // named pipes, for a driver that runs elsewhere
            System.setIn(new FileInputStream(words[0]));
            System.setOut(new PrintStream(new FileOutputStream(words[1]), true));
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        spark = (SparkSession) SparkSession.builder().getOrCreate();
        String line;
        while ((line = lines.readLine()) != null) {
            if (line.endsWith(";")) line = line.substring(0, line.length() - 1);
            String[] word = line.split(" ", 3);
            if (word[0].equals("again")) {  // makes another context, with a setting if there is one
                if (word.length == 3) System.setProperty(word[1], word[2]);
                spark.stop();
                spark = (SparkSession) SparkSession.builder().getOrCreate();
            } else if (word[0].equals("exit")) {
                System.exit(Integer.parseInt(word[1]));
            } else if (word[0].equals("halt")) {
                Runtime.getRuntime().halt(Integer.parseInt(word[1]));
            } else if (word[0].equals("fill")) {  // fills the heap, and goes on without memory
                try {
                    fill();
                } catch (OutOfMemoryError none) {
                    System.err.println("no memory was left");
                }
            } else if (word[0].equals("burst")) {
                fill();
            } else if (word[0].equals("sessions")) {  // makes so many, each of which reads a table
                for (int made = 0; made < Integer.parseInt(word[1]); made++) {
                    SparkSession one = (SparkSession) spark.newSession();
                    one.sql("SELECT * FROM " + word[2]).collectAsList();
                }
            } else if (word[0].equals("heap")) {  // prints lines: number, objects, bytes, class
                FileStatusCache.resetForTesting();  // else Spark keeps what each session has listed
                System.out.println(ManagementFactory.getPlatformMBeanServer().invoke(
                    new ObjectName("com.sun.management:type=DiagnosticCommand"), "gcClassHistogram",
                    new Object[] {null}, new String[] {"[Ljava.lang.String;"}));
            } else {
                run(line);
            }
        }
    }

    static void run(String text) {
        try {
            Iterator rows = spark.sql(text).collectAsList().iterator();
            while (rows.hasNext()) System.out.println(((Row) rows.next()).mkString("\t"));
        } catch (Exception failed) {
            System.err.println(failed.getMessage());
        }
    }

    static void fill() {
        List held = new ArrayList();
        for (int size = 1 << 24; size > 0; size >>= 8) {
            try {
                while (size > 1) held.add(new byte[size]);
            } catch (OutOfMemoryError smaller) {
            }
        }
        held.add(new byte[1 << 24]);
    }
}
