"""Functions and column statistics, which no process holds: read through catalogd, page by page."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, Protocol

from ...topics.objects.metastore_facts import ColumnStatistics, Function
from ...topics.objects.names import TableId
from ...topics.wire.messages.questions import (
    STATISTICS_MAX,
    A,
    MetastoreQuestion,
    ReadFunctions,
    ReadStatistics,
)
from ..store.table_snapshot import TableSnapshot

PARTITIONS_MAX: Final = 1_000  # of one request, as in one call of the metastore


class FactReader(Protocol):
    """The methods of a subscriber's reader for versions and for questions to catalogd."""

    def table(self, db: str, table: str) -> TableSnapshot:
        """Return a snapshot with the table's own entry, from memory or from catalogd."""

    def ask(self, question: MetastoreQuestion[A]) -> A:
        """Return the answer to ``question``, which catalogd reads from the metastore."""


def functions_of(source: FactReader, db: str) -> tuple[Function, ...]:
    """Return the functions of ``db``, sorted by name; raises as ``Subscriber.functions``."""
    found: list[Function] = []
    while rows := source.ask(ReadFunctions(db=db, after=found[-1].name if found else "")).rows:
        found += [
            Function(
                db=db,
                name=one.name,
                class_name=one.class_name,
                owner=one.owner,
                created_at_s=one.created_at_s,
                resources=one.resources,
            )
            for one in rows
        ]
    return tuple(found)


def statistics_of(
    source: FactReader,
    table: TableId,
    *,
    columns: tuple[str, ...] | None,
    partitions: tuple[str, ...] | None,
) -> tuple[ColumnStatistics, ...]:
    """Return the statistics of columns; raises as ``Subscriber.column_statistics``."""
    head = source.table(*table).head_of(*table).table
    wanted = columns or tuple(column.name for column in head.metastore_columns)
    if columns == () or partitions == () or not wanted:
        return ()
    found: list[ColumnStatistics] = []
    for some in _batches(wanted, STATISTICS_MAX):
        most = min(STATISTICS_MAX // len(some), PARTITIONS_MAX)
        for names in [()] if partitions is None else _batches(sorted(set(partitions)), most):
            question = ReadStatistics(db=table[0], table=table[1], columns=some, partitions=names)
            rows = source.ask(question).records()
            found += [ColumnStatistics(**row, version=head.version) for row in rows]
    return tuple(sorted(found, key=lambda one: (one.partition, one.column)))


def _batches(items: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    rest = iter(items)
    while some := tuple(islice(rest, size)):
        yield some
