"""Materializer: writes what the loader publishes into namespace and tables, existence first."""

from collections.abc import Iterable
from typing import assert_never

from ...topics.objects.names import TableId
from ...topics.objects.tables import read_table
from ...topics.wire.messages import SOURCE_EVENTS, SOURCE_LOAD
from ..metastore.port import TableRead
from ..model.namespace import Namespace
from ..model.tables import Tables
from .chunked_load import PublishPartitions
from .loader import CompleteLoad, Loader, Need, PublishTables, Result, Withdraw


class Materializer:
    """Turns the loader's results into transactions; has no state of its own."""

    def __init__(self, namespace: Namespace, tables: Tables, loader: Loader) -> None:
        """``loader`` reads the partitions of tables that are too large for one read."""
        self._namespace = namespace
        self._tables = tables
        self._loader = loader

    def apply(self, results: Iterable[Result], now_us: int) -> tuple[Withdraw, ...]:
        """Write ``results``; return those that withdrew a table."""
        withdrawn: tuple[Withdraw, ...] = ()
        for result in results:
            match result:
                case PublishTables():
                    self._publish(result, now_us)
                case PublishPartitions(db=db, table=table):
                    changes: dict[str, bytes | None] = dict(result.partitions)
                    changes |= dict.fromkeys(result.gone)
                    self._tables.write_partitions(
                        (db, table), changes, source=SOURCE_LOAD, at_us=now_us
                    )
                case CompleteLoad(db=db, table=table):
                    self._tables.write_partitions(
                        (db, table), {}, complete=True, source=SOURCE_LOAD, at_us=now_us
                    )
                case Withdraw(db=db, table=table):
                    self._tables.withdraw((db, table), source=SOURCE_EVENTS, at_us=now_us)
                    withdrawn += (result,)
                case _:
                    assert_never(result)
        return withdrawn

    def _publish(self, result: PublishTables, now_us: int) -> None:
        types: dict[TableId, str | None] = {}
        for table, read in result.tables.items():
            if result.needs[table].obj:
                types[table] = read_table(read.thrift, 0).type if read.thrift else None
        renewed = [t for t, kind in types.items() if kind is not None and result.needs[t].dropped]
        events = any(not need.load for need in result.needs.values())
        self._namespace.write(
            result.databases,
            types,
            renewed=renewed,
            source=SOURCE_EVENTS if events else SOURCE_LOAD,
            at_us=now_us,
        )
        for db, thrift in result.databases.items():
            if thrift is None:
                for table in self._tables.of_database(db):
                    self._drop(table, SOURCE_EVENTS, now_us)
        for table, read in result.tables.items():
            self._table(table, read, result.needs[table], now_us=now_us)

    def _table(self, table: TableId, read: TableRead, need: Need, *, now_us: int) -> None:
        source = SOURCE_LOAD if need.load else SOURCE_EVENTS
        record = self._namespace.find(table)
        if record is None or (need.obj and read.thrift is None):
            self._drop(table, source, now_us)
            return
        if read.thrift is None or not need.whole:
            changes = {name: read.partitions.get(name) for name in need.names}
            self._tables.write_partitions(
                table, changes, thrift=read.thrift, source=source, at_us=now_us, data=need.data
            )
            return
        complete = read.whole or not read_table(read.thrift, 0).partition_columns
        self._tables.write_whole(
            table,
            read.thrift,
            read.partitions if complete else None,
            incarnation=record.incarnation,
            source=source,
            at_us=now_us,
            data=need.data,
        )
        if not complete:
            self._loader.begin_chunked_load(table, read.names, refused=need.refused)

    def _drop(self, table: TableId, source: int, now_us: int) -> None:
        self._loader.discard(table)
        self._tables.drop(table, source=source, at_us=now_us)
