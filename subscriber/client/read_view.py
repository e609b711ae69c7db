"""ReadView: several tables of one plan as they were at one moment, to be confirmed before use.

read_view("a.b", "c.d") ──read each──▶ one look at catalogd: all current? ──yes──▶ pinned
                          ▲─────────────── no: those that are stale ──┘
confirm() ──▶ still current, or StaleMetadata: plan again
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ...topics.errors import NotReady, StaleMetadata, UsageError
from ...topics.objects.names import parse_table_name, table_name
from ...topics.objects.selector import ALL, by_filter
from ...topics.objects.tables import Partition, Table
from ...topics.objects.versions import Version
from ...topics.wire.messages import Claimed
from ..protocol.versions import claims_of
from ..store.table_snapshot import TableSnapshot

TABLES_MAX: Final = 1000  # of one read view

Name = tuple[str, str]  # db, table
Validate = Callable[[int, tuple[Claimed, ...]], Collection[int]]  # places of what is stale


@dataclass(frozen=True, slots=True)
class Pinned:
    """A table with its partitions; nothing that changed after ``version`` of its topic is in it."""

    content: TableSnapshot
    version: Version


class ReadView:
    """Tables as they were at one moment; it does not change, whatever is written meanwhile."""

    def __init__(self, pinned: Mapping[Name, Pinned], validate: Validate) -> None:
        self._pinned = pinned
        self._validate = validate

    def __enter__(self) -> "ReadView":
        return self

    def __exit__(self, *_exc: object) -> None:
        """Nothing is held but memory."""

    def table(self, name: str) -> Table:
        """Return the table ``name``, which is one of those named at the start."""
        db, table = parse_table_name(name)
        return self._content(db, table).head_of(db, table).table

    def partitions(self, name: str, filter: str | None = None) -> tuple[Partition, ...]:  # noqa: A002
        """Return its partitions that match ``filter``, all without one; by name."""
        db, table = parse_table_name(name)
        selector = ALL if filter is None else by_filter(filter)
        return self._content(db, table).partitions(db, table, selector)

    def confirm(self) -> None:
        """Return if all tables are still as they were, as of a moment during this call.

        Raises:
            StaleMetadata: some are not; says which. Retriable: read and plan again.
        """
        stale = stale_of(self._pinned, self._validate)
        if stale:
            names = ", ".join(table_name(*name) for name in stale)
            raise StaleMetadata(f"changed since they were read: {names}")

    def _content(self, db: str, table: str) -> TableSnapshot:
        pinned = self._pinned.get((db, table))
        if pinned is None:
            raise UsageError(f"{table_name(db, table)} is not among the tables of this read view")
        return pinned.content


def names_of(names: Iterable[str]) -> tuple[Name, ...]:
    """Return what to pin, each table once.

    Raises:
        UsageError: a name is none, or there are none or too many.
    """
    found = tuple(dict.fromkeys(map(parse_table_name, names)))
    if not 0 < len(found) <= TABLES_MAX:
        raise UsageError(f"a read view of {len(found)} tables: 1 to {TABLES_MAX}")
    return found


def pin(
    names: tuple[Name, ...],
    read: Callable[[Name], Pinned],
    *,
    validate: Validate,
    give_up_at: float,
) -> ReadView:
    """Read all, look whether they were current at one moment, and read again what was not.

    Raises:
        NotReady: they changed faster than they could be read.
    """
    pinned: dict[Name, Pinned] = {}
    missing = names
    while True:
        for name in missing:
            pinned[name] = read(name)
        missing = stale_of(pinned, validate)
        if not missing:
            return ReadView(pinned, validate)
        if time.monotonic() >= give_up_at:
            raise NotReady(f"{table_name(*missing[0])} changes faster than it can be read")


def stale_of(pinned: Mapping[Name, Pinned], validate: Validate) -> tuple[Name, ...]:
    """Return the names whose pinned version is not the newest."""
    names = tuple(pinned)
    claims = claims_of(((name, pinned[name].version) for name in names), whole=True)
    return tuple(names[place] for place in validate(*claims) if place < len(names))
