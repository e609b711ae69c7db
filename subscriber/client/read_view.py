"""ReadView: several tables of one plan as they were at one time, to be confirmed before use.

read_view("a.b", "c.d") ──read each──▶ one look at catalogd: all current? ──yes──▶ ReadView
                          ▲─────────────── no: those that are stale ──┘
confirm() ──▶ still current, or StaleMetadata: plan again
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ...topics.errors import NotReady, StaleMetadata, UsageError
from ...topics.objects.filters.tokens import LENGTH_MAX
from ...topics.objects.names import TableId, table_name
from ...topics.objects.selector import ALL, by_sql
from ...topics.objects.tables import Partition, Table
from ...topics.topic import Version, epoch_of
from ...topics.wire.messages.catalog import Claimed
from .. import arguments
from ..store.table_snapshot import TableSnapshot

TABLES_MAX: Final = 1000  # of one read view
SHOWN_MAX: Final = 10  # of its tables, in its repr

Validate = Callable[[int, tuple[Claimed, ...]], Collection[int]]
"""Returns the positions of the stale claims in an epoch."""


@dataclass(frozen=True, slots=True)
class VersionedTable:
    """A table with its partitions, as of the topic version ``version``."""

    snapshot: TableSnapshot
    version: Version


class ReadView:
    """Tables as they were at one time; later writes do not change it."""

    def __init__(self, tables: Mapping[TableId, VersionedTable], validate: Validate) -> None:
        self._tables = tables
        self._validate = validate

    def __enter__(self) -> "ReadView":
        return self

    def __exit__(self, *_exc: object) -> None:
        """Do nothing: a read view holds nothing but memory."""

    def __repr__(self) -> str:
        names = [table_name(*name) for name in islice(self._tables, SHOWN_MAX)]
        more = ", …" if len(self._tables) > SHOWN_MAX else ""
        return f"<ReadView of {', '.join(names)}{more}>"

    def table(self, name: str) -> Table:
        """Return the table ``name``, one of those of this read view.

        Raises:
            UsageError: it is not one of them.
        """
        db, table = arguments.table(name)
        return self._snapshot(db, table).head_of(db, table).table

    def partitions(self, name: str, filter: str | None = None) -> tuple[Partition, ...]:  # noqa: A002
        """Return the partitions of ``name`` that match ``filter``, by name; None: all of them.

        Raises:
            UsageError: the table is not one of this read view, or ``filter`` is not for it.
        """
        db, table = arguments.table(name)
        selector = ALL
        if filter is not None:
            selector = by_sql(arguments.text(filter, "filter", length_max=LENGTH_MAX))
        return self._snapshot(db, table).partitions(db, table, selector)

    def confirm(self) -> None:
        """Return if no table had changed at some time during this call.

        Raises:
            StaleMetadata: some tables have changed; says which. Retriable: read and plan again.
        """
        stale = _stale_of(self._tables, self._validate)
        if stale:
            names = ", ".join(table_name(*name) for name in stale)
            raise StaleMetadata(f"changed since they were read: {names}")

    def _snapshot(self, db: str, table: str) -> TableSnapshot:
        found = self._tables.get((db, table))
        if found is None:
            raise UsageError(f"{table_name(db, table)} is not among the tables of this read view")
        return found.snapshot


def names_of(names: Iterable[str]) -> tuple[TableId, ...]:
    """Return the tables to read, each once.

    Raises:
        UsageError: a name is not a table's, or there are no names or too many.
    """
    found = tuple(dict.fromkeys(map(arguments.table, names)))
    if not 0 < len(found) <= TABLES_MAX:
        raise UsageError(f"a read view of {len(found)} tables: 1 to {TABLES_MAX}")
    return found


def open_read_view(
    names: tuple[TableId, ...],
    read: Callable[[TableId, float], VersionedTable],
    *,
    validate: Validate,
    deadline: float,
) -> ReadView:
    """Read all tables ``names``, and again those that changed, until all are current at one time.

    ``read``: returns a table, within the seconds that it is given.

    Raises:
        NotReady: the tables could not be read until ``deadline``, or changed faster.
    """
    tables: dict[TableId, VersionedTable] = {}
    missing = names
    while True:
        for name in missing:
            tables[name] = read(name, max(deadline - time.monotonic(), 0.0))
        missing = _stale_of(tables, validate)
        if not missing:
            return ReadView(tables, validate)
        if time.monotonic() >= deadline:
            raise NotReady(f"{table_name(*missing[0])} changes faster than it can be read")


def _stale_of(tables: Mapping[TableId, VersionedTable], validate: Validate) -> tuple[TableId, ...]:
    """Return the names of the tables whose version is not the newest."""
    names = tuple(tables)
    claims = claims_of(((name, tables[name].version) for name in names), whole=True)
    return tuple(names[at] for at in validate(*claims) if at < len(names))


def claims_of(
    known: Iterable[tuple[TableId, int]], *, whole: bool
) -> tuple[int, tuple[Claimed, ...]]:
    """Return the newest epoch of ``known``, and the claims that its tables have these versions.

    A version of another epoch is always stale. Its claim has version 0, which no table has, so that
    the answer has the table's present version.
    """
    versions = tuple(known)
    epoch = max((epoch_of(version) for _, version in versions), default=0)
    return epoch, tuple(
        Claimed(
            db=db,
            table=table,
            version=int(version) if epoch_of(version) == epoch else 0,
            whole=whole,
        )
        for (db, table), version in versions
    )
