"""Results: what reads have found of tables, as it is written by the materializer."""

from dataclasses import dataclass

from ....topics.objects.names import TableId
from ...metastore.port import TableRead
from .chunked_load import PublishPartitions
from .needs import Need


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishTables:
    """Result: these objects are so; a database of None, a table without ``thrift``, is gone."""

    databases: dict[str, bytes | None]
    tables: dict[TableId, TableRead]
    needs: dict[TableId, Need]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteLoad:
    """Result: every partition of the table was published, and all are of one moment."""

    table: TableId


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUnreadable:
    """Result: the metastore cannot read this table; hold a stub of it, and go on trying."""

    table: TableId
    error: str


Result = PublishTables | PublishPartitions | CompleteLoad | TableUnreadable
