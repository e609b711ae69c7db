"""HeldNames: the names of the objects that catalogd holds, to be compared with the metastore's.

    next_table ──ListNames──▶ metastore ──NamesListed──▶ differences ──▶ read again; NameCheck

A listing names all databases, the tables of some of them, and the partitions of one table.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from ...topics.objects.names import TableId
from ...topics.objects.values import COMPLETE
from ..metastore.port import NamesListed
from ..model.tables import Namespace, Tables, read_struct
from .name_check import Name

TABLES_MAX: Final = 50  # that one call looks at, 1 ms: a turn stays short
BLOCKS_COMPARED_MAX: Final = 32  # 1,024 partitions of one table in a listing: some ms; none of more


class HeldNames:
    """What catalogd holds by name; it changes nothing."""

    def __init__(
        self,
        namespace: Namespace,
        tables: Tables,
        *,
        follows: Callable[[str], bool],
        every_table: Callable[[], Iterator[TableId]],
    ) -> None:
        """``follows``: whether a database is not left out; ``every_table``: the tables known."""
        self._namespace = namespace
        self._tables = tables
        self._follows = follows
        self._every_table = every_table
        self._left = every_table()  # tables that this round has not looked at

    def has(self, name: Name) -> bool:
        """Return whether what has ``name`` is held."""
        db, table, part = name
        if part:
            return self._tables.has_partition((db, table), part)
        if table:
            return self._namespace.find((db, table)) is not None
        return self._namespace.has_database(db)

    def next_table(self) -> TableId | None:
        """Return the next table whose partitions can be compared; None: none of TABLES_MAX can.

        After the last table comes the first one again, in another call.
        """
        looked_at = 0
        for table in islice(self._left, TABLES_MAX):
            if self._is_compared(table):
                return table
            looked_at += 1
        if looked_at < TABLES_MAX:
            self._left = self._every_table()
        return None

    def differences(self, listed: NamesListed) -> dict[Name, bool]:
        """Return the names that differ, and of each whether the metastore lists it."""
        held, there = set(self._namespace.databases()), set(filter(self._follows, listed.databases))
        found = {(db, "", ""): db in there for db in sorted(held ^ there)}
        for db, names in listed.tables.items():
            if self._follows(db):
                held = {record.name for record in self._namespace.tables(db)}
                found |= {(db, name, ""): name not in held for name in sorted(held ^ set(names))}
        for (db, table), names in listed.partitions.items():
            if self._is_compared((db, table)):
                held = self._tables.partition_names((db, table))
                found |= {(db, table, name): name not in held for name in sorted(held ^ set(names))}
        return found

    def _is_compared(self, table: TableId) -> bool:
        """Return whether the partitions of ``table`` are held, all of them, and are not many."""
        value = self._tables.value(table)
        if value is None or value.partitions != COMPLETE:
            return False
        if not read_struct(value.thrift).partition_columns:
            return False
        return len(self._tables.bounds(table)) <= BLOCKS_COMPARED_MAX
