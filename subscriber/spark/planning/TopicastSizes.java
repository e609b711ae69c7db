import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTablePartition;
import org.apache.spark.util.SizeEstimator;

// Estimates the bytes of the heap that a result of Spark's catalog occupies: at least what it does.
// Any thread may call it; it has no state.
final class TopicastSizes {
    static long ofText(String text) {
        if (text == null) return 0;
        long size = text.length();
        for (int at = 0; at < text.length(); at++) {
            if (text.charAt(at) > 255) return 48 + 2 * size;
        }
        return 48 + size;
    }

    static long of(Object value) {
        if (value instanceof Boolean) return 16;
        if (value instanceof String) return ofText((String) value);
        if (value instanceof CatalogTablePartition) return of((CatalogTablePartition) value);
        if (value instanceof scala.Option) {
            return 16 + (((scala.Option) value).isEmpty() ? 0
                : of(((scala.Option) value).get()));
        }
        if (value instanceof scala.collection.Seq) {
            long size = 64;
            scala.collection.Iterator all = ((scala.collection.Seq) value).iterator();
            while (all.hasNext()) size += 24 + of(all.next());
            return size;
        }
        long estimated = SizeEstimator.estimate(value);  // a table or a database
        return estimated + estimated / 4;  // for what it computes later, such as names of fields
    }

    private static long of(CatalogTablePartition one) {
        CatalogStorageFormat storage = one.storage();
        long size = 288 + of(one.spec()) + of(one.parameters());
        size += of(storage.properties()) + textOf(storage.inputFormat());
        size += textOf(storage.outputFormat()) + textOf(storage.serde());
        if (storage.locationUri().isDefined()) {
            size += 160 + 3 * ofText(storage.locationUri().get().toString());
        }
        return one.stats().isDefined() ? size + of(one.stats().get()) : size;
    }

    private static long of(scala.collection.Map texts) {
        long size = 32;
        scala.collection.Iterator all = texts.iterator();
        while (all.hasNext()) {
            scala.Tuple2 one = (scala.Tuple2) all.next();
            size += 40 + ofText((String) one._1()) + ofText((String) one._2());
        }
        return size;
    }

    private static long textOf(scala.Option text) {
        return text.isEmpty() ? 0 : 16 + ofText((String) text.get());
    }
}
