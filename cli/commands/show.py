"""The commands that show the catalog, and change nothing."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any, Final, TypedDict

import click

from ...pipeline.datasource.scanning import sweeps
from ...topics.errors import UsageError
from ...topics.objects.names import table_pattern
from ...topics.objects.tables import Column, Database, Table
from ...topics.settings import parse_addresses
from ...topics.sizes import size
from ..client.operator import Operator, catalog_at, note_policy
from ..client.sync_words import AS_OF, of_databases, off_by_default, states_of, why_not
from ..options.flags import READER_OPTIONS, Integer, command, prints
from ..records.changes import utc
from ..terminal.lists import NOTHING, Heading
from ..terminal.output import Output, note
from ..terminal.schemas import Iso

NO_NAME: Final = frozenset(".*?[")  # in a pattern; without these it names a database
FILES: Final = ("files", "bytes", "small_percent", "newest", "swept_at")
TABLE: Final = Heading(name="full_name", title="table", rank=0)
TOPIC: Final = Heading(name="topic")
STATE: Final = (Heading(name="state"), Heading(name="why", prose=True, rank=2))
FILES_COLUMNS: Final = (
    *(TABLE, Heading(name="files"), Heading(name="bytes", text=size)),
    *(Heading(name="small_percent", title="small %"), Heading(name="newest", rank=2)),
    Heading(name="swept_at", title="swept", rank=3),
)
COLUMNS: Final = (
    *(Heading(name="column", rank=0), Heading(name="type", rank=0)),
    Heading(name="partitions by it", title="partition", text=lambda yes: "yes" if yes else NOTHING),
    Heading(name="comment", prose=True),
)
PARTITIONS: Final = (
    *(Heading(name="partition", rank=0), Heading(name="version"), Heading(name="location", rank=2)),
)


class ListedTable(TypedDict):
    """A table or a view.

    ``state``: not followed, loading, unreadable, or partitions unreadable; empty: it is as it
    should be. ``why``: the reason for the state.
    """

    database: str
    table: str
    state: str
    why: str


class PlacedTable(ListedTable):
    """A table with the number of its topic."""

    topic: int


class SweptTableRow(ListedTable):
    """A table with the files that the last sweep has found; null: no sweep has seen it."""

    files: int | None
    bytes: int | None
    small_percent: int | None
    newest: Iso | None
    swept_at: Iso | None


class ListedPartition(TypedDict):
    """A partition."""

    partition: str
    location: str
    version: int


class Watched(TypedDict):
    """A change as it arrives; a document a line."""

    object: str
    kind: str
    version: int
    origin: str


class DescribedDatabase(TypedDict):
    """A database. ``followed``: whether its tables are, unless they say otherwise."""

    followed: bool
    name: str
    description: str
    owner: str
    location: str
    version: int
    parameters: dict[str, str]


class DescribedTable(TypedDict):
    """A table; ``columns`` as Spark sees them, ``metastore_columns`` as Hive does.

    ``followed``: whether its events are followed; else its content is as of its last read.
    ``state``, ``why``: as of ``tables``.
    """

    state: str
    why: str
    followed: bool
    db: str
    name: str
    type: str
    owner: str
    location: str
    view_text: str
    version: int
    columns: list[Column]
    partition_columns: list[Column]
    metastore_columns: list[Column]
    metastore_partition_columns: list[Column]
    parameters: dict[str, str]


@command()
@click.argument("pattern", default="*")
@click.option(
    "--match",
    metavar="TEXT",
    help="Only tables whose full names contain this text, or match it if it has a *.",
)
@click.option("--topics", is_flag=True, help="Show the topic that each table is in.")
@click.option("--limit", type=Integer(min=1), help="Show at most so many.")
@click.option("--files", is_flag=True, help="Show the counts of files that sweeps have found.")
@READER_OPTIONS
@prints(
    lambda: {"": list[ListedTable], "--topics": list[PlacedTable], "--files": list[SweptTableRow]}
)
def tables(
    pattern: str,
    output: str,
    *,
    match: str | None,
    topics: bool,
    limit: int | None,
    files: bool,
    **where: Any,
) -> None:
    """List tables and views.

    PATTERN is a database, or a pattern of full names such as 'sales.*' (default: everything). With
    --files: how many files, bytes and small files the last 'topicast pipeline files' has found,
    when the newest change was, and when that sweep of the table ended.
    """
    wanted = table_pattern(pattern)
    with catalog_at(**where) as catalog:
        if not NO_NAME.intersection(pattern):
            catalog.database(pattern)  # without such a database the command ends here
        names = [(db, name) for db in catalog.databases() for name in catalog.tables(db)]
        found: list[dict[str, Any]] = [
            {"database": db, "table": name}
            for db, name in names
            if fnmatchcase(f"{db}.{name}", wanted) and _matches(match, f"{db}.{name}")
        ]
        shown = found[:limit]
        off = off_by_default(where["statestores"], where["timeout_s"])
        databases = [catalog.database(db) for db in dict.fromkeys(one["database"] for one in shown)]
        unfollowed = [
            one.name for one in databases if why_not(None, one.parameters, off_by_default=off)
        ]
        names_shown = [_full(one) for one in shown]
        states = states_of(names_shown, **_place(where))
        shown = [one | _state(states, _full(one)) for one in shown]
        if topics:
            shown = [one | {"topic": catalog.topic_of(_full(one))} for one in shown]
    note_policy("tables of other databases are left out")
    if unfollowed:
        note(of_databases(unfollowed))
    if len(shown) < len(found):
        note(f"{len(shown)} of {len(found)} tables are shown")
    columns = FILES_COLUMNS if files else (TABLE,)
    if files:
        with Operator(parse_addresses(where["statestores"], setting="statestores")) as visit:
            swept = {row["table"]: row for row in sweeps(visit.catalog)}
        shown = [one | _files(swept.get(_full(one))) for one in shown]
    if output != "json":
        shown = [one | {"full_name": _full(one)} for one in shown]
    nothing = f"no table matches {match or pattern}" if match or pattern != "*" else "no table"
    Output(output).rows((*columns, TOPIC, *STATE), shown, nothing=nothing)


def _matches(text: str | None, name: str) -> bool:
    """Return whether ``name`` contains ``text``, or matches it as a pattern; None: all do."""
    wanted = (text or "").lower()
    return fnmatchcase(name, wanted) if "*" in wanted else wanted in name


def _place(where: Mapping[str, Any]) -> dict[str, Any]:
    return {name: where[name] for name in ("statestores", "timeout_s")}


def _state(states: Mapping[str, tuple[str, str]], name: str) -> dict[str, str]:
    return dict(zip(("state", "why"), states.get(name, ("", "")), strict=True))


def _full(table: Mapping[str, Any]) -> str:
    return f"{table['database']}.{table['table']}"


def _files(swept: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the FILES of a table; ``swept`` None: no sweep has seen it."""
    if swept is None:
        return dict.fromkeys(FILES)
    files, newest_ms, swept_us = swept["files"], swept["newest_ms"], swept["swept_us"]
    small = round(100 * swept["small"] / files) if files else 0
    times = (utc(us) if us else None for us in (newest_ms * 1000, swept_us))
    return dict(zip(FILES, (files, swept["bytes"], small, *times), strict=True))


@command()
@click.argument("name")
@READER_OPTIONS
@prints(lambda: {"TABLE": DescribedTable, "DATABASE": DescribedDatabase})
def describe(name: str, output: str, **where: Any) -> None:
    """Show a table (database.table) with its columns and properties, or a database."""
    printed = Output(output)
    with catalog_at(**where) as catalog:
        found = catalog.table(name) if "." in name else catalog.database(name)
        database = catalog.database(found.db) if isinstance(found, Table) else found
    why = why_not(
        found.parameters if isinstance(found, Table) else None,
        database.parameters,
        off_by_default=off_by_default(where["statestores"], where["timeout_s"]),
    )
    followed = [("followed", f"no, {why}: {AS_OF}" if why else "yes")]
    state: dict[str, str] = {}
    if isinstance(found, Table):
        full = f"{found.db}.{found.name}"
        state = _state(states_of([full], **_place(where)), full)
    said = [("state", f"{state['state']}: {state['why']}")] if state.get("why") else []
    printed.facts(
        _document(found) | {"followed": not why} | state,
        [*followed, *said, *_properties(found)],
    )
    if isinstance(found, Table) and output != "json":
        held = [(one, False) for one in found.columns]
        held += [(one, True) for one in found.partition_columns]
        rows = [
            {"column": one.name, "type": one.type, "partitions by it": by, "comment": one.comment}
            for one, by in held
        ]
        click.echo()
        printed.rows(COLUMNS, rows, nothing="no column")


@command()
@click.argument("table")
@click.argument("filter_", metavar="[FILTER]", default="")
@READER_OPTIONS
@prints(lambda: {"TABLE": list[ListedPartition]})
def partitions(table: str, filter_: str, output: str, **where: Any) -> None:
    """List the partitions of TABLE (database.table).

    FILTER is a condition on partition columns, as in Spark SQL after WHERE, such as
    "ds >= '2026-11-01' and not region like 'eu%'".
    """
    with catalog_at(**where) as catalog:
        found = catalog.partitions(table, filter_ or None)
    rows = [
        ListedPartition(partition=one.name, location=one.location, version=one.version)
        for one in found
    ]
    Output(output).rows(PARTITIONS, rows, nothing="no partition")


@command()
@click.argument("pattern", default="*")
@click.option("--count", type=Integer(min=1), help="End after so many changes.")
@READER_OPTIONS
@prints(lambda: {"": Watched})
def watch(pattern: str, count: int | None, output: str, **where: Any) -> None:
    """Show each change of databases and tables as it arrives, until Ctrl-C.

    PATTERN is a pattern of full names such as 'sales.*', or that of a database, for the database
    and its tables (default: everything).
    """
    if not pattern:
        raise UsageError("'' is no pattern: write one such as sales.*, or leave it out for all")
    printed = Output(output)
    with catalog_at(**where) as catalog, suppress(KeyboardInterrupt):
        changes = catalog.watch(pattern)
        note_policy("changes of other databases are left out")
        if reason := catalog.shortage().reason:
            note(f"{reason} (--budget); changes of their tables are not shown")
        click.echo(f"watching {pattern}", err=True)
        for number, change in enumerate(changes, start=1):
            printed.item(
                Watched(
                    object=change.object,
                    kind=change.kind,
                    version=change.version,
                    origin=change.origin,
                ),
                text=f"{change.object}  {change.kind}  version {change.version}",
            )
            if number == count:
                return


def _properties(found: Table | Database) -> list[tuple[str, str | int]]:
    """Return the properties that fit a line; parameters come last, sorted."""
    facts = {name: value for name, value in _document(found).items() if type(value) in {str, int}}
    parameters = [(f"parameter {k}", found.parameters[k]) for k in sorted(found.parameters)]
    return [*facts.items(), *_other_columns(found), *parameters]


def _other_columns(found: Table | Database) -> list[tuple[str, str]]:
    """Return the metastore's columns as a property, if Spark has columns of its own."""
    if isinstance(found, Database):
        return []
    columns = (*found.metastore_columns, *found.metastore_partition_columns)
    if columns == (*found.columns, *found.partition_columns):
        return []
    return [("metastore columns", ", ".join(f"{one.name} {one.type}" for one in columns))]


def _document(found: Table | Database) -> dict[str, Any]:
    if isinstance(found, Database):
        names = ("name", "description", "owner", "location", "version")
        return {n: getattr(found, n) for n in names} | {"parameters": dict(found.parameters)}
    table = ("db", "name", "type", "owner", "location", "view_text", "version")
    return {n: getattr(found, n) for n in table} | {
        "columns": _columns(found.columns),
        "partition_columns": _columns(found.partition_columns),
        "metastore_columns": _columns(found.metastore_columns),
        "metastore_partition_columns": _columns(found.metastore_partition_columns),
        "parameters": dict(found.parameters),
    }


def _columns(columns: Iterable[Column]) -> list[dict[str, str]]:
    return [{"name": c.name, "type": c.type, "comment": c.comment} for c in columns]
