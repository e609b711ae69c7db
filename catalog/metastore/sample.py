"""Sample: generated tables in a real metastore, for trials. No files belong to them.

Partitions lie in their table's own folder, which costs the metastore no new folder each.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, Final

from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import (
    Database,
    FieldSchema,
    Partition,
    SerDeInfo,
    StorageDescriptor,
    Table,
)
from thrift.Thrift import TException

from ...topics.errors import SourceError
from .addresses import parse_uris

COLUMNS: Final = (("id", "bigint"), ("at", "timestamp"), ("what", "string"), ("amount", "double"))
TEXT: Final = "org.apache.hadoop.mapred.TextInputFormat"
TEXT_OUT: Final = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
SERDE: Final = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
ROWS: Final = 7919  # with the day, so that no two partitions are alike


class Sample:
    """A database ``db`` of tables ``events_01`` … in the metastore at ``uri``."""

    def __init__(self, uri: str, db: str, *, location: str) -> None:
        self._host, self._port = parse_uris(uri)[0]
        self._db = db
        self._location = location

    def fill(self, *, tables: int, days: int) -> tuple[str, ...]:
        """Make the database anew; return the full names of its tables.

        Raises:
            SourceError: the metastore did not do it.
        """
        with self._client() as client:
            if self._db in client.get_all_databases():
                client.drop_database(self._db, deleteData=False, cascade=True)
            client.create_database(Database(self._db, "made for a trial", self._location, {}))
            names = [f"events_{number:02}" for number in range(1, tables + 1)]
            for name in names:
                table = self._table(name)
                client.create_table(table)
                client.add_partitions([_partition(table, day) for day in range(days)])
        return tuple(f"{self._db}.{name}" for name in names)

    def add_day(self, name: str, day: int) -> None:
        """Add one partition to the table of that full name; raises as ``fill``."""
        with self._client() as client:
            client.add_partitions([_partition(self._table(name.partition(".")[2]), day)])

    def touch(self) -> None:
        """Make the metastore create its own tables, which it does at the first use of each."""
        (name,) = self.fill(tables=1, days=1)
        with self._client() as client:
            client.get_partitions_by_names(self._db, name.partition(".")[2], ["day=2026-01-01"])
            client.drop_database(self._db, deleteData=True, cascade=True)

    def _table(self, name: str) -> Table:
        storage = StorageDescriptor(
            cols=[FieldSchema(column, kind, "") for column, kind in COLUMNS],
            location=f"{self._location}/{name}",
            inputFormat=TEXT,
            outputFormat=TEXT_OUT,
            compressed=False,
            numBuckets=-1,
            serdeInfo=SerDeInfo("", SERDE, {}),
            bucketCols=[],
            sortCols=[],
            parameters={},
        )
        return Table(
            tableName=name,
            dbName=self._db,
            owner="quickstart",
            createTime=0,
            lastAccessTime=0,
            retention=0,
            sd=storage,
            partitionKeys=[FieldSchema("day", "string", "")],
            parameters={"EXTERNAL": "TRUE"},
            tableType="EXTERNAL_TABLE",
        )

    @contextmanager
    def _client(self) -> Iterator[Any]:
        try:
            with HMSClient(host=self._host, port=self._port) as client:
                yield client
        except (TException, OSError) as exc:
            raise SourceError(f"the metastore at {self._host}:{self._port} failed: {exc}") from exc


def _partition(table: Table, day: int) -> Partition:
    return Partition(
        values=[f"2026-{1 + day // 28:02}-{1 + day % 28:02}"],
        dbName=table.dbName,
        tableName=table.tableName,
        createTime=0,
        lastAccessTime=0,
        sd=deepcopy(table.sd),
        parameters={"numRows": str(ROWS * (day + 1))},
    )
