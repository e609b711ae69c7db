"""Site: the settings of the embedded metastore, as data, and the SQL that prepares its database."""

from pathlib import Path
from typing import Final

LISTENER: Final = "org.apache.hive.hcatalog.listener.DbNotificationListener"

# DataNucleus would make MESSAGE a VARCHAR(32700), and a larger event would make the DDL fail.
CREATE_NOTIFICATION_LOG: Final = (
    "CREATE TABLE APP.NOTIFICATION_LOG (NL_ID BIGINT NOT NULL PRIMARY KEY, "
    "DB_NAME VARCHAR(128), EVENT_ID BIGINT NOT NULL, EVENT_TIME INTEGER NOT NULL, "
    "EVENT_TYPE VARCHAR(32) NOT NULL, MESSAGE CLOB NOT NULL, TBL_NAME VARCHAR(256), "
    "MESSAGE_FORMAT VARCHAR(16))"
)
DELETE_EVENTS: Final = ("DELETE FROM APP.NOTIFICATION_LOG", "DELETE FROM APP.NOTIFICATION_SEQUENCE")
MOVE_DEFAULT_DATABASE: Final = "UPDATE APP.DBS SET DB_LOCATION_URI = ? WHERE NAME = 'default'"

LOG4J: Final = """status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m%n
"""


def jdbc_url(folder: Path) -> str:
    """Return Derby's URL of the database in ``folder``, made if it is absent."""
    return f"jdbc:derby:;databaseName={folder}/db;create=true"


def warehouse(folder: Path) -> str:
    """Return the location of the ``default`` database; Hadoop wants paths unescaped."""
    return f"file:{folder}/warehouse"


def settings(folder: Path, *, events: bool = True) -> dict[str, str]:
    """Return the HiveConf of a metastore that keeps its database and warehouse in ``folder``.

    ``events``: whether it records events.
    """
    return {
        "javax.jdo.option.ConnectionURL": jdbc_url(folder),
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.connectionPoolingType": "HikariCP",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": warehouse(folder),
        "hive.metastore.transactional.event.listeners": LISTENER if events else "",
        "hive.metastore.event.db.notification.api.auth": "false",
        "hive.metastore.dml.events": "true",  # writes of Hive leave events
        "hive.async.log.enabled": "false",  # its library is not among PySpark's jars
        "hive.stats.autogather": "false",
        "hive.hmshandler.retry.interval": "100ms",  # after a deadlock; Hive's own 2 s stall writers
    }
