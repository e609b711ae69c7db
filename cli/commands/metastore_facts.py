"""The commands that show facts that no process holds: catalogd reads them from the metastore."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final, TypedDict

import click

from ...subscriber import Subscriber
from ...topics.errors import NoSuchObject, UsageError
from ...topics.objects.metastore_facts import ColumnStatistics, Function
from ..client.operator import catalog_at
from ..options.flags import READER_OPTIONS, command, prints
from ..records.changes import utc
from ..terminal.lists import Heading
from ..terminal.output import Output
from ..terminal.schemas import Iso

FUNCTIONS: Final = (
    *(
        Heading(name="function", rank=0),
        Heading(name="class_name", title="class"),
        Heading(name="owner", rank=2),
    ),
    *(Heading(name="created", rank=3), Heading(name="resources", prose=True)),
)
STATISTICS: Final = (
    *(
        Heading(name="partition", rank=0),
        Heading(name="column", rank=0),
        Heading(name="type", rank=3),
    ),
    *(Heading(name="nulls"), Heading(name="distinct"), Heading(name="low"), Heading(name="high")),
    *(Heading(name="average_length", title="length", rank=2), Heading(name="max_length", rank=3)),
    *(
        Heading(name="trues", rank=3),
        Heading(name="falses", rank=3),
        Heading(name="version", rank=3),
    ),
)


class ListedFunction(TypedDict):
    """A permanent function; ``resources``: the files that it needs, with a space between them."""

    function: str
    class_name: str
    owner: str
    created: Iso | None
    resources: str


class ListedStatistics(TypedDict):
    """The statistics of a column; null: they do not have it. ``partition`` empty: of the table.

    ``version``: of the table, before the statistics were read.
    """

    partition: str
    column: str
    type: str
    nulls: int | None
    distinct: int | None
    low: str | None
    high: str | None
    average_length: float | None
    max_length: int | None
    trues: int | None
    falses: int | None
    version: int


@command()
@click.argument("database")
@READER_OPTIONS
@prints(lambda: {"DATABASE": list[ListedFunction]})
def functions(database: str, output: str, **where: Any) -> None:
    """List the permanent functions that DATABASE has in the metastore now."""
    with catalog_at(**where) as catalog:
        found = catalog.functions(database)
    Output(output).rows(FUNCTIONS, [_function_row(one) for one in found], nothing="no function")


@command()
@click.argument("table")
@click.argument("partitions", nargs=-1)
@click.option("--columns", metavar="NAMES", help="Only of these columns, with commas between them.")
@READER_OPTIONS
@prints(lambda: {"TABLE": list[ListedStatistics]})
def statistics(
    table: str, partitions: tuple[str, ...], output: str, *, columns: str | None, **where: Any
) -> None:
    """List the column statistics that TABLE (database.table) has in the metastore now.

    PARTITIONS are names such as ds=2026-11-01. Without them, the statistics of the whole table are
    listed, which Hive keeps only for tables without partitions. ANALYZE TABLE … COMPUTE STATISTICS
    FOR COLUMNS of Hive writes them; those of Spark are parameters of the table (topicast describe).
    """
    names = None if columns is None else [one.strip() for one in columns.split(",")]
    with catalog_at(**where) as catalog:
        _check(catalog, table, columns=names or (), partitions=partitions)
        found = catalog.column_statistics(table, names, partitions=partitions or None)
    Output(output).rows(
        STATISTICS, [_statistics_row(one) for one in found], nothing="no statistics"
    )


def _check(
    catalog: Subscriber, table: str, *, columns: Sequence[str], partitions: Sequence[str]
) -> None:
    """Check that the table has these columns and partitions; the metastore ignores others.

    Raises:
        NoSuchObject: there is no such table or partition.
        UsageError: the table has no such column; names the columns that it has.
    """
    found = catalog.table(table)
    known = [one.name for one in found.columns]
    if unknown := [one for one in columns if one.lower() not in map(str.lower, known)]:
        raise UsageError(
            f"{table} has no column {', '.join(unknown)} with statistics; name one of "
            f"{', '.join(known)}"
        )
    if partitions:
        held = {one.name for one in catalog.partitions(table, names=partitions)}
        missing = next((one for one in partitions if one not in held), None)
        if missing is not None:
            raise NoSuchObject(f"{table}/{missing}")


def _function_row(one: Function) -> ListedFunction:
    created = utc(one.created_at_s * 1_000_000) if one.created_at_s else None
    return ListedFunction(
        function=f"{one.db}.{one.name}",
        class_name=one.class_name,
        owner=one.owner,
        created=created,
        resources=" ".join(one.resources),
    )


def _statistics_row(one: ColumnStatistics) -> ListedStatistics:
    row: ListedStatistics = asdict(one)  # type: ignore[assignment]  # which has the same fields
    return row
