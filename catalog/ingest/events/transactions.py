"""Transactions: which tables a commit has written, from the events before it.

    ALLOC_WRITE_ID_EVENT ──▶ its transactions may write that table ──COMMIT_TXN──▶ data of the table
                                                                   └─ABORT_TXN──▶ nothing

A write into an ACID or insert-only table leaves no event of its own: Hive 4 notes it in another
table of its database than the log, and Hive 3 nowhere. The event of a commit does not name the
tables, but a transaction gets a write id of a table before it writes the table. If a transaction
got its write id before the first event that catalogd has read, its commit makes nothing dirty.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

from ....topics.errors import WireError
from ....topics.objects.names import TableId
from ...metastore.port import Dirty, DirtyTable, RawEvent
from .actions import decode, named_objects

OPEN_MAX: Final = 10_000  # transactions with a table: 2 MB; Hive itself opens 1,000 at once at most
TABLES_MAX: Final = 1_000  # of one transaction: more count as written at once


class Transactions:
    """The transactions that may have written, until they end."""

    def __init__(self) -> None:
        self._written: OrderedDict[int, dict[TableId, None]] = OrderedDict()
        """Tables by transaction, in the order of their first write ids; at most OPEN_MAX."""

    def __len__(self) -> int:
        return len(self._written)

    def dirty_objects(self, raw: RawEvent) -> tuple[Dirty, ...]:
        """Return the tables that ``raw``, an event of a type in TRANSACTIONS, has written."""
        if raw.catalog:
            return ()
        begins = raw.type == "ALLOC_WRITE_ID_EVENT"
        try:
            body = decode(raw).body
            if begins:
                return self._begin(_transactions(body), _table_of(body))
            ended = self._written.pop(_number(body.get("txnid")), {})
        except WireError:
            return self._not_understood(raw, begins=begins)
        return _written(ended) if raw.type == "COMMIT_TXN" else ()

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._written) <= OPEN_MAX
        assert all(0 < len(tables) <= TABLES_MAX for tables in self._written.values())

    def _begin(self, transactions: Iterable[int], table: TableId) -> tuple[Dirty, ...]:
        """Note that ``transactions`` may write ``table``; return the tables beyond the bounds.

        Those count as written at once.
        """
        full: tuple[Dirty, ...] = ()
        for number in transactions:
            tables = self._written.setdefault(number, {})
            if len(tables) < TABLES_MAX or table in tables:
                tables[table] = None
            else:
                full = _written([table])
        while len(self._written) > OPEN_MAX:
            _, tables = self._written.popitem(last=False)
            full += _written(tables)
        return full

    def _not_understood(self, raw: RawEvent, *, begins: bool) -> tuple[Dirty, ...]:
        """Return the tables that an event may have changed if its transaction cannot be read."""
        if not begins:
            tables = {table: None for held in self._written.values() for table in held}
            return _written(tables, degraded=True)
        return named_objects(raw)  # of 3.1 the database: the message alone names the table


def _transactions(body: Mapping[str, object]) -> list[int]:
    listed = body.get("txnIdList")
    if not isinstance(listed, list):
        raise WireError("transactions are not a list")
    return [_number(one) for one in listed]


def _table_of(body: Mapping[str, object]) -> TableId:
    db, table = body.get("dbName"), body.get("tableName")
    if not (isinstance(db, str) and db and isinstance(table, str) and table):
        raise WireError("the table of a write id is missing")
    return db.lower(), table.lower()


def _number(value: object) -> int:
    if type(value) is not int:
        raise WireError("a transaction is not a number")
    return value


def _written(tables: Iterable[TableId], *, degraded: bool = False) -> tuple[Dirty, ...]:
    return tuple(DirtyTable(db=db, table=name, data=True, degraded=degraded) for db, name in tables)
