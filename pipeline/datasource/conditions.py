"""Conditions: a query's conditions on the names of databases and tables, as Spark pushes them down.

WHERE db = 'sales' AND table LIKE 'o%'  ──▶  db is one of: sales; table begins with: o
"""

from dataclasses import dataclass
from typing import Final

from ...topics.objects.names import TableId

COLUMNS: Final = ("db", "table")
NAMED_MAX: Final = 1000  # tables that are looked up by name; if more are named, all are listed


@dataclass(frozen=True, slots=True)
class Condition:
    """The name in ``column`` is one of ``names``, or begins with such a name if ``prefix``."""

    column: str
    names: tuple[str, ...]
    prefix: bool = False

    def allows(self, name: str) -> bool:
        """Return whether ``name`` fulfils the condition."""
        return name.startswith(self.names) if self.prefix else name in self.names


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions that all have to hold; without any, every name is wanted."""

    each: tuple[Condition, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.each)

    def allow(self, table: TableId) -> bool:
        """Return whether ``table`` fulfils all conditions."""
        name_of = dict(zip(COLUMNS, table, strict=True))
        return all(one.allows(name_of[one.column]) for one in self.each)

    def allow_database(self, db: str) -> bool:
        """Return whether ``db`` fulfils all conditions on databases."""
        return all(one.allows(db) for one in self.each if one.column == "db")

    def databases(self) -> Condition | None:
        """Return the narrowest condition on the database; None: there is none."""
        found = [one for one in self.each if one.column == "db"]
        return min(found, key=lambda one: (one.prefix, len(one.names)), default=None)

    def tables(self) -> frozenset[TableId] | None:
        """Return all tables that can fulfil the conditions; None: not known, or too many."""
        names = [
            [one.names for one in self.each if one.column == column and not one.prefix]
            for column in COLUMNS
        ]
        if not all(names) or len(names[0][0]) * len(names[1][0]) > NAMED_MAX:
            return None
        pairs = ((db, table) for db in names[0][0] for table in names[1][0])
        return frozenset(pair for pair in pairs if self.allow(pair))


def condition_of(one: object) -> Condition | None:
    """Return Spark's filter ``one`` as a condition on names; None: it is another filter.

    A filter is recognised by the name of its class, because Spark before 4.1 has no such classes.
    """
    path: tuple[str, ...] = getattr(one, "attribute", ())
    column, value = ".".join(path), getattr(one, "value", None)
    if column not in COLUMNS:
        return None
    match type(one).__name__, value:
        case (("EqualTo" | "EqualNullSafe"), str(name)):
            return Condition(column, (name,))
        case "In", list() | tuple() as names:
            return Condition(column, tuple(name for name in names if isinstance(name, str)))
        case "StringStartsWith", str(name) if name:
            return Condition(column, (name,), prefix=True)
        case _:
            return None
