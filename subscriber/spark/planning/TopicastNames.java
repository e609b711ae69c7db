import java.util.Arrays;
import java.util.Iterator;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.catalog.CatalogDatabase;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.types.DataType;

// Names the object that a call of the catalog reads or writes, and the key that distinguishes reads
// of one object. It has no state. An object is "db.table", "db" for a database, "db/" for the lists
// of the names in a database, "/" for the list of databases; and, for writes alone, "*" for
// everything and "db.*" for everything in a database.
final class TopicastNames {
    static final char END = (char) 10;  // ends a line of the texts that go to and from Python
    static final String ALL = "/";
    static final String EVERYTHING = "*";
    static final String IN_ALL = ".*";
    private static final int KEY_MAX = 16384;  // characters: reads with longer keys are not kept

    static String lower(Object name) {
        return String.valueOf(name).toLowerCase(Locale.ROOT);
    }

    static boolean isTable(String object) {
        return object.indexOf('.') > 0;
    }

    static boolean isList(String object) {
        return object.endsWith(ALL);
    }

    static String dbOf(String object) {
        int end = object.indexOf('.');
        if (end < 0) end = object.indexOf('/');
        return end < 0 ? object : object.substring(0, end);
    }

    // Returns the object that a call reads or writes, by the method's name and first arguments.
    static String objectOf(String name, Object[] args) {
        if (args.length == 0) return ALL;
        if (name.equals("listDatabases")) return ALL;
        if (args[0] instanceof CatalogDatabase) return lower(((CatalogDatabase) args[0]).name());
        if (args[0] instanceof CatalogTable) {
            CatalogTable table = (CatalogTable) args[0];
            return lower(table.database()) + "." + lower(table.identifier().table());
        }
        if (!(args[0] instanceof String)) return EVERYTHING;
        if (name.equals("listTables") || name.equals("listViews")) return lower(args[0]) + ALL;
        if (args.length > 1 && args[1] instanceof String) {
            return lower(args[0]) + "." + lower(args[1]);
        }
        return lower(args[0]);
    }

    // Returns the key of a read: two reads of an object have the same key only if they have the
    // same result. Null if no such key can be made, so that the result must not be kept.
    static String keyOf(String name, Object[] args) {
        StringBuilder key = new StringBuilder(name);
        int begin = name.startsWith("getPartition") || name.startsWith("listPartition") ? 2
            : name.equals("listTables") || name.equals("listViews") ? 1
            : name.equals("listDatabases") ? 0 : args.length;
        for (int at = begin; at < args.length; at++) {
            key.append(END);
            if (!write(args[at], key) || key.length() > KEY_MAX) return null;
        }
        return key.toString();
    }

    private static boolean write(Object value, StringBuilder into) {
        if (value instanceof String) {
            into.append(((String) value).length()).append(':').append(value);
        } else if (value instanceof scala.Option) {
            if (((scala.Option) value).isEmpty()) {
                into.append('-');
            } else {
                into.append('+');
                return write(((scala.Option) value).get(), into);
            }
        } else if (value instanceof scala.collection.Map) {
            TreeMap sorted = new TreeMap();
            scala.collection.Iterator all = ((scala.collection.Map) value).iterator();
            while (all.hasNext()) {
                scala.Tuple2 one = (scala.Tuple2) all.next();
                sorted.put(one._1(), one._2());
            }
            for (Iterator each = sorted.entrySet().iterator(); each.hasNext();) {
                Map.Entry one = (Map.Entry) each.next();
                if (!write(one.getKey(), into) || !write(one.getValue(), into)) return false;
            }
        } else if (value instanceof scala.collection.Seq) {
            into.append('(');
            scala.collection.Iterator all = ((scala.collection.Seq) value).iterator();
            while (all.hasNext()) if (!write(all.next(), into)) return false;
            into.append(')');
        } else if (value instanceof Expression) {
            return Filters.write((Expression) value, into);
        } else {
            return false;
        }
        return into.length() <= KEY_MAX;
    }

    // Writes filters as texts: two have the same text only if they select the same partitions. A
    // filter with an expression that is not in KINDS has no text.
    private static final class Filters {
        private static final TreeSet KINDS = new TreeSet(Arrays.asList(new Object[] {
            "And", "Or", "Not", "EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual",
            "GreaterThan", "GreaterThanOrEqual", "In", "InSet", "IsNull", "IsNotNull",
            "StartsWith", "EndsWith", "Contains", "Cast", "Like"}));
        private static final String PACKAGE = "org.apache.spark.sql.catalyst.expressions.";

        static boolean write(Expression one, StringBuilder into) {
            if (one instanceof AttributeReference) {
                String name = ((AttributeReference) one).name();
                into.append('@').append(name.length()).append(':').append(lower(name));
                return type(one.dataType(), into);
            }
            if (one instanceof Literal) return literal((Literal) one, into);
            String kind = one.getClass().getName();
            if (!kind.startsWith(PACKAGE)) return false;
            kind = kind.substring(PACKAGE.length());
            if (!KINDS.contains(kind)) return false;
            into.append('(').append(kind);
            for (int at = 0; at < ((scala.Product) one).productArity(); at++) {
                into.append(' ');
                if (!part(((scala.Product) one).productElement(at), into)) return false;
            }
            into.append(')');
            return into.length() <= KEY_MAX;
        }

        private static boolean part(Object value, StringBuilder into) {
            if (value instanceof Expression) return write((Expression) value, into);
            if (value instanceof DataType) return type((DataType) value, into);
            if (value instanceof scala.Option) {
                into.append('?');
                return ((scala.Option) value).isEmpty()
                    || part(((scala.Option) value).get(), into);
            }
            if (value instanceof scala.collection.Set) {
                TreeSet sorted = new TreeSet();
                scala.collection.Iterator all = ((scala.collection.Set) value).iterator();
                while (all.hasNext()) {
                    StringBuilder text = new StringBuilder();
                    if (!part(all.next(), text)) return false;
                    sorted.add(text.toString());
                    if (sorted.size() > KEY_MAX) return false;
                }
                into.append(sorted);
                return true;
            }
            if (value instanceof scala.collection.Seq) {
                into.append('[');
                scala.collection.Iterator all = ((scala.collection.Seq) value).iterator();
                while (all.hasNext()) {
                    if (!part(all.next(), into) || into.length() > KEY_MAX) return false;
                }
                into.append(']');
                return true;
            }
            if (value == null || value instanceof Number || value instanceof Boolean
                    || value instanceof Character || value instanceof String
                    || value.getClass().getName().equals("org.apache.spark.unsafe.types.UTF8String")
                    || value.getClass().getName().equals("org.apache.spark.sql.types.Decimal")
                    || value.getClass().getName().startsWith("scala.Enumeration")) {
                String text = String.valueOf(value);
                into.append(value == null ? "" : value.getClass().getSimpleName());
                into.append(text.length()).append(':').append(text);
                return true;
            }
            return false;
        }

        private static boolean literal(Literal one, StringBuilder into) {
            into.append('=');
            return type(one.dataType(), into) && part(one.value(), into);
        }

        private static boolean type(DataType type, StringBuilder into) {
            into.append('<').append(type.json()).append('>');
            return true;
        }
    }
}
