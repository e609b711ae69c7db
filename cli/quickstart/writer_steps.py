"""The changes that the writer makes in Spark SQL, and how the reader detects each. Plain data.

The writer runs ``statement``; the reader waits until ``seen`` finds the change in its catalog and
describes it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...subscriber import Subscriber
from ...topics.errors import NoSuchObject
from ...topics.objects.tables import Table

DATABASE: Final = "shop"
CLEAN_UP: Final = f"DROP DATABASE IF EXISTS {DATABASE} CASCADE"
QUERY: Final = f"SELECT count(*), count(DISTINCT ds) FROM {DATABASE}.orders"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterStep:
    """One change; ``seen`` returns an empty text until the change is visible."""

    title: str
    statement: str
    seen: Callable[[Subscriber], str]


def _database(catalog: Subscriber) -> str:
    return f"database {DATABASE}" if DATABASE in catalog.databases() else ""


def _once_there(look: Callable[[Subscriber], str]) -> Callable[[Subscriber], str]:
    """Make a ``seen`` of ``look``, which raises NoSuchObject until its object exists."""

    def seen(catalog: Subscriber) -> str:
        try:
            return look(catalog)
        except NoSuchObject:
            return ""

    return seen


def _table(name: str, found: Callable[[Table], str]) -> Callable[[Subscriber], str]:
    """Make a ``seen`` that looks at one table."""
    return _once_there(lambda catalog: found(catalog.table(f"{DATABASE}.{name}")))


def _columns(table: Table) -> str:
    names = [column.name for column in (*table.columns, *table.partition_columns)]
    return f"{table.full_name} ({', '.join(names)})"


def _view(table: Table) -> str:
    return f"{table.full_name}: {' '.join(table.view_text.split())}"


def _new_column(table: Table) -> str:
    return _columns(table) if any(column.name == "note" for column in table.columns) else ""


def _property(table: Table) -> str:
    value = table.parameters.get("team")
    return f"{table.full_name} has team={value}" if value else ""


def _partitions(*days: str) -> Callable[[Subscriber], str]:
    """Make a ``seen`` that waits until orders has exactly the partitions of ``days``."""

    def look(catalog: Subscriber) -> str:
        held = [one.values[0] for one in catalog.partitions(f"{DATABASE}.orders")]
        return f"{DATABASE}.orders: {', '.join(held)}" if held == list(days) else ""

    return _once_there(look)


def _gone(name: str) -> Callable[[Subscriber], str]:
    def seen(catalog: Subscriber) -> str:
        try:
            catalog.table(f"{DATABASE}.{name}")
        except NoSuchObject:
            return f"{DATABASE}.{name} is gone"
        return ""

    return seen


STEPS: Final = (
    WriterStep(
        title="create a database",
        statement=f"CREATE DATABASE {DATABASE} COMMENT 'made by topicast quickstart'",
        seen=_database,
    ),
    WriterStep(
        title="create a table of 1,000 generated customers",
        statement=f"CREATE TABLE {DATABASE}.customers USING parquet AS "
        "SELECT id, concat('customer ', id) AS name, id % 7 AS region FROM range(1000)",
        seen=_table("customers", _columns),
    ),
    WriterStep(
        title="create a partitioned table",
        statement=f"CREATE TABLE {DATABASE}.orders "
        "(id BIGINT, customer BIGINT, amount DOUBLE, ds STRING) "
        "USING parquet PARTITIONED BY (ds)",
        seen=_table("orders", _columns),
    ),
    WriterStep(
        title="write 3,000 generated orders of three days",
        statement=f"INSERT INTO {DATABASE}.orders SELECT id, id % 1000, rand(7) * 100, "
        "concat('2026-11-0', 1 + id % 3) FROM range(3000)",
        seen=_partitions("2026-11-01", "2026-11-02", "2026-11-03"),
    ),
    WriterStep(
        title="add a partition",
        statement=f"ALTER TABLE {DATABASE}.orders ADD PARTITION (ds = '2026-11-04')",
        seen=_partitions("2026-11-01", "2026-11-02", "2026-11-03", "2026-11-04"),
    ),
    WriterStep(
        title="add a column",
        statement=f"ALTER TABLE {DATABASE}.orders ADD COLUMNS (note STRING)",
        seen=_table("orders", _new_column),
    ),
    WriterStep(
        title="set a table property",
        statement=f"ALTER TABLE {DATABASE}.customers SET TBLPROPERTIES ('team' = 'sales')",
        seen=_table("customers", _property),
    ),
    WriterStep(
        title="create a view",
        statement=f"CREATE VIEW {DATABASE}.large_orders AS "
        f"SELECT * FROM {DATABASE}.orders WHERE amount > 90",
        seen=_table("large_orders", _view),
    ),
    WriterStep(
        title="rename a table",
        statement=f"ALTER TABLE {DATABASE}.customers RENAME TO {DATABASE}.clients",
        seen=_table("clients", _columns),
    ),
    WriterStep(
        title="drop a partition",
        statement=f"ALTER TABLE {DATABASE}.orders DROP PARTITION (ds = '2026-11-01')",
        seen=_partitions("2026-11-02", "2026-11-03", "2026-11-04"),
    ),
    WriterStep(
        title="drop the view",
        statement=f"DROP VIEW {DATABASE}.large_orders",
        seen=_gone("large_orders"),
    ),
)
