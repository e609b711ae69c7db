import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import org.apache.hadoop.hive.metastore.api.FieldSchema;
import org.apache.hadoop.hive.metastore.api.Partition;
import org.apache.hadoop.hive.metastore.api.SerDeInfo;
import org.apache.hadoop.hive.metastore.api.StorageDescriptor;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.hadoop.hive.metastore.messaging.EventMessage;
import org.apache.hadoop.hive.metastore.messaging.MessageBuilder;
import org.apache.hadoop.hive.metastore.messaging.MessageEncoder;
import org.apache.hadoop.hive.metastore.messaging.json.JSONMessageEncoder;
import org.apache.hadoop.hive.metastore.messaging.json.gzip.GzipJSONMessageEncoder;

/**
 * Prints the message of a bulk alter as this release of Hive encodes it, a line for each form: its
 * format, a space, the message.
 */
public final class Messages {
  public static void main(String[] arguments) {
    StorageDescriptor storage = new StorageDescriptor();
    storage.setCols(List.of(new FieldSchema("a", "int", "")));
    storage.setLocation("file:/w/db/t");
    storage.setSerdeInfo(new SerDeInfo("", "serde", new HashMap<>()));
    Table table = new Table();
    table.setDbName("Db");
    table.setTableName("T");
    table.setTableType("EXTERNAL_TABLE");
    table.setSd(storage);
    table.setParameters(new HashMap<>());
    table.setPartitionKeys(List.of(new FieldSchema("Zone", "string", ""), new FieldSchema("day", "string", "")));
    List<Partition> partitions = new ArrayList<>();
    for (List<String> values : List.of(List.of("a/b", "1"), List.of("x", "2%"))) {
      Partition partition = new Partition();
      partition.setValues(values);
      partition.setDbName("Db");
      partition.setTableName("T");
      partition.setSd(storage);
      partition.setParameters(new HashMap<>());
      partition.setWriteId(0); // that of the message, which checks it
      partitions.add(partition);
    }
    for (MessageEncoder encoder : List.of(JSONMessageEncoder.getInstance(), GzipJSONMessageEncoder.getInstance())) {
      EventMessage message = MessageBuilder.getInstance().buildAlterPartitionsMessage(table, partitions, false, 0L);
      System.out.println(encoder.getMessageFormat() + " " + encoder.getSerializer().serialize(message));
    }
  }
}
