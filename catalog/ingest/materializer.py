"""Writing: what the loader found becomes transactions, existence first, then content."""

from collections.abc import Sequence
from typing import assert_never

from ...topics.objects.names import TableId
from ...topics.objects.tables import read_table
from ...topics.wire.messages import SOURCE_EVENTS, SOURCE_LOAD
from ..model.namespace import Namespace
from ..model.tables import Tables
from . import reads
from .loader import Loader
from .reads import CompleteLoad, Need, Publish, PublishPartitions, TableRead, Withdraw


class Materializer:
    """Performs the loader's effects on namespace and tables."""

    def __init__(self, namespace: Namespace, tables: Tables, loader: Loader) -> None:
        self._namespace = namespace
        self._tables = tables
        self._loader = loader

    def perform(self, effects: Sequence[reads.Effect], now_us: int) -> tuple[Withdraw, ...]:
        """Write what ``effects`` say; returns those that withdrew a table."""
        withdrawn: tuple[Withdraw, ...] = ()
        for effect in effects:
            match effect:
                case Publish():
                    self._publish(effect, now_us)
                case PublishPartitions(db=db, table=table):
                    changes: dict[str, bytes | None] = dict(effect.partitions)
                    changes |= dict.fromkeys(effect.gone)
                    self._tables.write_partitions(
                        (db, table), changes, source=SOURCE_LOAD, at_us=now_us
                    )
                case CompleteLoad(db=db, table=table):
                    self._tables.write_partitions(
                        (db, table), {}, complete=True, source=SOURCE_LOAD, at_us=now_us
                    )
                case Withdraw(db=db, table=table):
                    self._tables.withdraw((db, table), source=SOURCE_EVENTS, at_us=now_us)
                    withdrawn += (effect,)
                case reads.Read():
                    raise AssertionError(effect)
                case _:
                    assert_never(effect)
        return withdrawn

    def _publish(self, effect: Publish, now_us: int) -> None:
        types: dict[TableId, str | None] = {}
        for table, read in effect.tables.items():
            if effect.needs[table].obj:
                types[table] = read_table(read.thrift, 0).type if read.thrift else None
        renewed = [t for t, kind in types.items() if kind is not None and effect.needs[t].dropped]
        events = any(not need.load for need in effect.needs.values())
        self._namespace.write(
            effect.databases,
            types,
            renewed=renewed,
            source=SOURCE_EVENTS if events else SOURCE_LOAD,
            at_us=now_us,
        )
        for db, thrift in effect.databases.items():
            if thrift is None:
                for table in self._tables.of_database(db):
                    self._drop(table, SOURCE_EVENTS, now_us)
        for table, read in effect.tables.items():
            self._table(table, read, effect.needs[table], now_us=now_us)

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
            self._loader.begin_load(table, read.names, refused=need.refused)

    def _drop(self, table: TableId, source: int, now_us: int) -> None:
        self._loader.forget(table)
        self._tables.drop(table, source=source, at_us=now_us)
