"""Materializer: writes the loader's results into the namespace and the tables.

result ──object and partitions──▶ tables
       ──the object is gone──▶ names and tables without it
       ──too large for one read──▶ LOADING, and a chunked load of the loader
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from ....topics.backports import assert_never
from ....topics.objects.encoding.structs import RequestedStructs
from ....topics.objects.encoding.values import COMPLETE
from ....topics.objects.names import TableId
from ....topics.objects.tables import VIEW
from ....topics.wire.messages.data import SOURCE_EVENTS, SOURCE_LOAD, SOURCE_RECONCILIATION
from ...metastore.port import TableRead
from ...model.decoded import created_at, read_struct
from ...model.namespace import Namespace
from ...model.tables import Tables
from .chunked_comparison import ChunkedComparison
from .follow_rules import FollowRules
from .loader import Loader
from .needs import (
    CompleteLoad,
    Extent,
    Incarnation,
    Need,
    Result,
    TableUnreadable,
    WritePartitions,
    WriteTables,
)


class Materializer:
    """Writes results, which the version log makes into transactions; has no state."""

    def __init__(
        self,
        namespace: Namespace,
        tables: Tables,
        loader: Loader,
        *,
        rules: FollowRules,
        has_differed: Callable[[TableId, Iterable[str]], bool],
    ) -> None:
        """Take the parts that it writes.

        Args:
            namespace: The databases and names.
            tables: The tables and partitions.
            loader: Reads the partitions of tables that are too large for one read.
            rules: Which tables are not followed.
            has_differed: Returns whether a table, or partitions of it, are read because they
                differed from the metastore.
        """
        self._has_differed = has_differed
        self._namespace = namespace
        self._rules = rules
        self._tables = tables
        self._loader = loader

    def apply(self, results: Iterable[Result]) -> tuple[TableUnreadable, ...]:
        """Write ``results``; return those of unreadable tables."""
        unreadable: tuple[TableUnreadable, ...] = ()
        for result in results:
            match result:
                case WriteTables():
                    self._write_tables(result)
                case WritePartitions(table=table):
                    changes: dict[str, bytes | None] = dict(result.partitions)
                    changes |= dict.fromkeys(result.gone)
                    self._tables.write_partitions(table, changes, source=SOURCE_LOAD)
                case CompleteLoad(table=table):
                    self._tables.write_partitions(table, {}, complete=True, source=SOURCE_LOAD)
                case TableUnreadable(table=table):
                    if self._namespace.find(table) is None:  # the table exists, its type is unknown
                        self._namespace.write({}, {table: ""}, source=SOURCE_EVENTS)
                    self._tables.end_content(table, source=SOURCE_EVENTS)
                    unreadable += (result,)
                case _:
                    assert_never(result)
        return unreadable

    def _write_tables(self, result: WriteTables) -> None:
        followed = {t: r for t, r in result.tables.items() if not self._ignores(t, r, result)}
        result = replace(result, tables=followed)
        off = self._rules.off_among(result.databases)
        types: dict[TableId, str | None] = {}
        for table, read in result.tables.items():
            if result.needs[table].obj:
                types[table] = read_struct(read.thrift).type if read.thrift else None
        renewed = [t for t, kind in types.items() if kind is not None and self._ended(t, result)]
        sources = {self._source(of, need) for of, need in result.needs.items()}
        causes = (SOURCE_EVENTS, SOURCE_RECONCILIATION)  # rather than a load in the same read
        self._namespace.write(
            result.databases,
            types,
            renewed=renewed,
            source=next((one for one in causes if one in sources), SOURCE_LOAD),
        )
        self._rules.note_written(off)
        for db, thrift in result.databases.items():
            if thrift is None:
                for table in self._tables.of_database(db):
                    self._drop(table, SOURCE_EVENTS)
        for table, read in result.tables.items():
            self._table(table, read, result.needs[table])

    def _source(self, table: TableId, need: Need) -> int:
        if need.load:
            return SOURCE_LOAD
        return SOURCE_RECONCILIATION if self._has_differed(table, need.names) else SOURCE_EVENTS

    def _ignores(self, table: TableId, read: TableRead, result: WriteTables) -> bool:
        """Return whether ``table`` is not followed, and was read only as events are missing."""
        need = result.needs[table]
        only_missing = need.incarnation is Incarnation.DOUBTED and not need.data
        return only_missing and self._rules.ignores(table, read.thrift)

    def _ended(self, table: TableId, result: WriteTables) -> bool:
        """Return whether the table that was read is another incarnation than the held one."""
        need, held = result.needs[table], self._tables.value(table)
        thrift = result.tables[table].thrift
        if need.incarnation is not Incarnation.DOUBTED or thrift is None:
            return need.incarnation is Incarnation.ENDED
        at = created_at(thrift)
        return held is None or at is None or at != created_at(held.thrift)

    def _table(self, table: TableId, read: TableRead, need: Need) -> None:
        source = self._source(table, need)
        record = self._namespace.find(table)
        if record is None or (need.obj and read.thrift is None):
            self._drop(table, source)
            return
        if read.thrift is None or not need.whole:
            changes = RequestedStructs(need.names, read.partitions)
            self._tables.write_partitions(
                table, changes, thrift=read.thrift, source=source, data=need.data
            )
            return
        complete = read.whole or not read_struct(read.thrift).partition_columns
        if not complete and self._stays_held(table, need, record.incarnation):
            again = Need(need.seq, Extent.STRUCT, data=True)
            self._loader.compare(ChunkedComparison(self._tables, table, read.names, need=again))
            return
        doubted = need.incarnation is Incarnation.DOUBTED
        self._tables.write_whole(
            table,
            read.thrift,
            read.partitions if complete else None,
            incarnation=record.incarnation,
            source=source,
            data=need.data or (doubted and read_struct(read.thrift).type != VIEW),
        )
        if not complete:
            self._loader.begin_chunked_load(
                table,
                read.names,
                keys=read_struct(read.thrift).partition_keys,
                refused=max(need.refused, 0),
            )

    def _stays_held(self, table: TableId, need: Need, incarnation: int) -> bool:
        """Return whether ``table`` is compared, not loaded: only events of it are missing.

        Another incarnation is loaded, and so is a table of which a read was refused.
        """
        held = self._tables.value(table)
        if held is None or held.partitions != COMPLETE or held.incarnation != incarnation:
            return False
        return need.incarnation is Incarnation.DOUBTED and need.extent is not Extent.CHUNKED

    def _drop(self, table: TableId, source: int) -> None:
        self._loader.discard(table)
        self._tables.drop(table, source=source)
