package topicast;

import java.util.ArrayList;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.TransactionalMetaStoreEventListener;
import org.apache.hadoop.hive.metastore.api.Database;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.hive.metastore.api.NotificationEvent;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.hadoop.hive.metastore.events.*;
import org.apache.hadoop.hive.metastore.messaging.EventMessage;
import org.apache.hadoop.hive.metastore.messaging.MessageBuilder;
import org.apache.hadoop.hive.metastore.messaging.MessageEncoder;
import org.apache.hadoop.hive.metastore.messaging.MessageFactory;

/**
 * Records events as Hive 4's own listener does, which no repository has as a jar. It records
 * nothing of tables whose name begins with "unrecorded", as if another server had made them.
 */
public class DbNotificationListener extends TransactionalMetaStoreEventListener {
  private final MessageBuilder build = MessageBuilder.getInstance();
  private final MessageEncoder encoder;

  public DbNotificationListener(Configuration conf) throws MetaException {
    super(conf);
    encoder = MessageFactory.getDefaultInstance(conf);
  }

  @Override
  public void onCreateDatabase(CreateDatabaseEvent event) throws MetaException {
    record(event, event.getDatabase(), build.buildCreateDatabaseMessage(event.getDatabase()));
  }

  @Override
  public void onAlterDatabase(AlterDatabaseEvent event) throws MetaException {
    Database old = event.getOldDatabase(), changed = event.getNewDatabase();
    record(event, changed, build.buildAlterDatabaseMessage(old, changed));
  }

  @Override
  public void onDropDatabase(DropDatabaseEvent event) throws MetaException {
    record(event, event.getDatabase(), build.buildDropDatabaseMessage(event.getDatabase()));
  }

  @Override
  public void onCreateTable(CreateTableEvent event) throws MetaException {
    Iterator<String> files = new ArrayList<String>().iterator();
    record(event, event.getTable(), build.buildCreateTableMessage(event.getTable(), files));
  }

  @Override
  public void onAlterTable(AlterTableEvent event) throws MetaException {
    Table old = event.getOldTable(), changed = event.getNewTable();
    record(event, changed, build.buildAlterTableMessage(
        old, changed, event.getIsTruncateOp(), event.getWriteId()));
  }

  @Override
  public void onDropTable(DropTableEvent event) throws MetaException {
    record(event, event.getTable(), build.buildDropTableMessage(event.getTable()));
  }

  @Override
  public void onAddPartition(AddPartitionEvent event) throws MetaException {
    record(event, event.getTable(), build.buildAddPartitionMessage(
        event.getTable(), event.getPartitionIterator(), null));
  }

  @Override
  public void onAlterPartition(AlterPartitionEvent event) throws MetaException {
    record(event, event.getTable(), build.buildAlterPartitionMessage(
        event.getTable(), event.getOldPartition(), event.getNewPartition(),
        event.getIsTruncateOp(), event.getWriteId()));
  }

  @Override
  public void onDropPartition(DropPartitionEvent event) throws MetaException {
    record(event, event.getTable(), build.buildDropPartitionMessage(
        event.getTable(), event.getPartitionIterator()));
  }

  private void record(ListenerEvent event, Table table, EventMessage message)
      throws MetaException {
    if (!table.getTableName().startsWith("unrecorded")) {
      record(event, table.getCatName(), table.getDbName(), table.getTableName(), message);
    }
  }

  private void record(ListenerEvent event, Database database, EventMessage message)
      throws MetaException {
    record(event, database.getCatalogName(), database.getName(), null, message);
  }

  private void record(
      ListenerEvent event, String catalog, String database, String table, EventMessage message)
      throws MetaException {
    int now = (int) (System.currentTimeMillis() / 1000);
    String type = message.getEventType().toString();
    String text = encoder.getSerializer().serialize(message);
    NotificationEvent one = new NotificationEvent(0, now, type, text);
    one.setCatName(catalog);
    one.setDbName(database);
    one.setTableName(table);
    one.setMessageFormat(encoder.getMessageFormat());
    event.getIHMSHandler().getMS().addNotificationEvent(one);
  }
}
