"""Views: the views of the data source, their columns, and how each value is made.

A getter takes one object of its view. If only the name of a partition is wanted, nothing else of it
is decoded. The last two columns of each view of the catalog are the topic that a row is from, and
the topic's version.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ...topics.objects.names import TableId, partition_values
from ...topics.objects.properties import different, partition_properties, table_properties
from ...topics.objects.tables import Column, Database, Partition, Table


class Origin(NamedTuple):
    """The topic that a row is from, and its version as of which the row was read."""

    topic: int
    version: int


class TableRow(NamedTuple):
    """An object of the view ``tables``."""

    table: Table
    origin: Origin


class ColumnRow(NamedTuple):
    """An object of the view ``columns``."""

    table: Table
    column: Column
    metastore_type: str | None  # of the metastore's column of the same name; None: it has none
    position: int  # from 0, partition columns after the others
    is_partition: bool
    origin: Origin


class PartitionRow(NamedTuple):
    """An object of the view ``partitions``; ``partition`` None: only the name is wanted."""

    table: TableId
    name: str
    partition: Partition | None
    origin: Origin


class DatabaseRow(NamedTuple):
    """An object of the view ``databases``."""

    database: Database
    origin: Origin


class ChangedObject(NamedTuple):
    """An object of the view ``changes``: what one transaction did to a table or partition."""

    topic: int
    version: int
    kind: str
    table: TableId
    partition: str | None
    before: str
    after: str
    at_us: int | None
    origin: str | None


class FilesRow(NamedTuple):
    """An object of the view ``files``: the facts that sweeps found about a table or partition."""

    table: TableId
    facts: Mapping[str, Any]


SNAPSHOT: Final = "snapshot"
"""The kind of a row for an object that exists, if the changes that made it are not kept."""


def snapshot_row(topic: int, found: "TableRow | PartitionRow") -> ChangedObject:
    """Return the object of ``changes`` that says that the table or partition ``found`` exists."""
    if isinstance(found, TableRow):
        one: Table | Partition = found.table
        table, partition = (found.table.db, found.table.name), None
        properties = table_properties(found.table)
    else:
        assert found.partition is not None
        one, table, partition = found.partition, found.table, found.name
        properties = partition_properties(found.partition)
    _, after = different({}, properties)
    return ChangedObject(
        topic=topic,
        version=one.version,
        kind=SNAPSHOT,
        table=table,
        partition=partition,
        before="",
        after=after,
        at_us=None,
        origin=None,
    )


def change_row(topic: int, row: Mapping[str, Any]) -> ChangedObject:
    """Return the object of a ``row`` of catalogd's table of changes."""
    db, _, rest = row["object"].partition(".")
    table, slash, partition = rest.partition("/")
    return ChangedObject(
        topic=topic,
        version=row["version"],
        kind=row["change"],
        table=(db, table),
        partition=partition if slash else None,
        before=row["before"],
        after=row["after"],
        at_us=row["time_us"],
        origin=row["source"],
    )


Getter = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class SourceView:
    """A view: its columns with the types of Spark's SQL, and their getters."""

    name: str
    columns: Mapping[str, tuple[str, Getter]]

    @property
    def schema(self) -> str:
        """Its columns, as Spark's DDL has them."""
        return ", ".join(f"{name} {kind}" for name, (kind, _) in self.columns.items())

    def getters(self, wanted: Sequence[str]) -> tuple[Getter, ...]:
        """Return a getter for each of these columns."""
        return tuple(self.columns[name][1] for name in wanted)


def _facts(**types: str) -> dict[str, tuple[str, Getter]]:
    """Return columns whose values a daemon has sent in this form, so that no getter is called."""
    return {name: (kind, lambda row: row) for name, kind in types.items()}


_ORIGIN: Final[dict[str, tuple[str, Getter]]] = {
    "topic": ("int", lambda row: row.origin.topic),
    "topic_version": ("bigint", lambda row: row.origin.version),
}

DATABASES: Final = SourceView(
    "databases",
    {
        "db": ("string", lambda row: row.database.name),
        "description": ("string", lambda row: row.database.description),
        "location": ("string", lambda row: row.database.location),
        "owner": ("string", lambda row: row.database.owner),
        "parameters": ("map<string,string>", lambda row: list(row.database.parameters.items())),
        "version": ("bigint", lambda row: row.database.version),
        **_ORIGIN,
    },
)
TABLES: Final = SourceView(
    "tables",
    {
        "db": ("string", lambda row: row.table.db),
        "table": ("string", lambda row: row.table.name),
        "type": ("string", lambda row: row.table.type),
        "owner": ("string", lambda row: row.table.owner),
        "location": ("string", lambda row: row.table.location),
        "serde": ("string", lambda row: row.table.storage.serde),
        "input_format": ("string", lambda row: row.table.storage.input_format),
        "columns": ("int", lambda row: len(row.table.columns)),
        "partition_columns": (
            "array<string>",
            lambda row: [column.name for column in row.table.partition_columns],
        ),
        "parameters": ("map<string,string>", lambda row: list(row.table.parameters.items())),
        "view_text": ("string", lambda row: row.table.view_text),
        "version": ("bigint", lambda row: row.table.version),
        **_ORIGIN,
    },
)
COLUMNS: Final = SourceView(
    "columns",
    {
        "db": ("string", lambda row: row.table.db),
        "table": ("string", lambda row: row.table.name),
        "column": ("string", lambda row: row.column.name),
        "type": ("string", lambda row: row.column.type),
        "comment": ("string", lambda row: row.column.comment),
        "position": ("int", lambda row: row.position),
        "is_partition": ("boolean", lambda row: row.is_partition),
        "metastore_type": ("string", lambda row: row.metastore_type),
        **_ORIGIN,
    },
)
PARTITIONS: Final = SourceView(
    "partitions",
    {
        "db": ("string", lambda row: row.table[0]),
        "table": ("string", lambda row: row.table[1]),
        "partition": ("string", lambda row: row.name),
        "values": ("array<string>", lambda row: list(partition_values(row.name))),
        "location": ("string", lambda row: row.partition.location),
        "serde": ("string", lambda row: row.partition.storage.serde),
        "parameters": ("map<string,string>", lambda row: list(row.partition.parameters.items())),
        "version": ("bigint", lambda row: row.partition.version),
        **_ORIGIN,
    },
)
CATALOG: Final = (DATABASES.name, TABLES.name, COLUMNS.name, PARTITIONS.name)
"""The views of the catalog as of one snapshot version."""

NEED_PARTITION: Final = frozenset({"location", "serde", "parameters", "version"})
"""The columns of the view ``partitions`` for which more than the name is decoded."""

TOPICS: Final = SourceView(
    "topics",
    _facts(topic="int", version="bigint", oldest="bigint", entries="bigint", held_bytes="bigint"),
)
SUBSCRIBERS: Final = SourceView(
    "subscribers",
    _facts(
        name="string",
        registration="string",
        role="string",
        state="string",
        topics="bigint",
        lag_versions="bigint",
        lag_s="double",
        held_bytes="bigint",
        budget_bytes="bigint",
    ),
)
DRIVERS: Final = SourceView(
    "drivers",
    _facts(
        application="string",
        application_id="string",
        user="string",
        host="string",
        pid="bigint",
        hubs="bigint",
        spark="string",
        release="string",
        state="string",
        reason="string",
        control="string",
        sessions="bigint",
        full_topics="bigint",
        minimal_topics="bigint",
        budget_bytes="bigint",
        held_bytes="bigint",
        staleness_s="double",
        metastore_problem="string",
        connection_problem="string",
        refreshes="bigint",
        stale_reads_avoided="bigint",
        would_refresh="bigint",
        planning="string",
        endpoint="string",
        memory_reads="bigint",
        endpoint_reads="bigint",
        direct_reads="bigint",
        metastore_calls_saved="bigint",
        writes_refused="bigint",
        writes="string",
        writes_reported="bigint",
        errors="bigint",
        last_error="string",
        registration="string",
    ),
)
EVENTS: Final = SourceView(
    "events",
    {
        "number": ("bigint", lambda row: row["number"]),
        "event_time": ("timestamp", lambda row: row["time_us"]),
        "origin": ("string", lambda row: row["source"]),
        "topic": ("int", lambda row: row["topic"]),
        "object": ("string", lambda row: row["object"]),
        "kind": ("string", lambda row: row["change"]),
        "version_before": ("bigint", lambda row: row["version_before"]),
        "version_after": ("bigint", lambda row: row["version_after"]),
        "event_before": ("bigint", lambda row: row["event_before"]),
        "event_after": ("bigint", lambda row: row["event_after"]),
        "who": ("string", lambda row: row["who"]),
    },
)
CHANGES: Final = SourceView(
    "changes",
    {
        "topic": ("int", lambda row: row.topic),
        "version": ("bigint", lambda row: row.version),
        "kind": ("string", lambda row: row.kind),
        "db": ("string", lambda row: row.table[0]),
        "table": ("string", lambda row: row.table[1]),
        "partition": ("string", lambda row: row.partition),
        "before": ("string", lambda row: row.before),
        "after": ("string", lambda row: row.after),
        "event_time": ("timestamp", lambda row: row.at_us),
        "origin": ("string", lambda row: row.origin),
    },
)
FILES: Final = SourceView(
    "files",
    {
        "db": ("string", lambda row: row.table[0]),
        "table": ("string", lambda row: row.table[1]),
        "partition": ("string", lambda row: row.facts["partition"] or None),
        "files": ("bigint", lambda row: row.facts["files"]),
        "bytes": ("bigint", lambda row: row.facts["bytes"]),
        "small_files": ("bigint", lambda row: row.facts["small"]),
        "newest": ("timestamp", lambda row: row.facts["newest_ms"] * 1000 or None),
        "swept_at": ("timestamp", lambda row: row.facts["swept_us"] or None),
    },
)
VIEWS: Final = {
    view.name: view
    for view in (
        DATABASES,
        TABLES,
        COLUMNS,
        PARTITIONS,
        TOPICS,
        SUBSCRIBERS,
        DRIVERS,
        EVENTS,
        CHANGES,
        FILES,
    )
}
