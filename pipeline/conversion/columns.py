"""Columns: the changes of a copy's columns when those of its source change.

Every type is Spark's, as "bigint" or "struct<a:int>". Columns are compared without case, as Hive
does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...topics.errors import TopicastError
from ...topics.objects.tables import Column

_WIDTHS: Final = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))
"""Types, each of which holds every value of those before it, also in files written before."""


class Conflict(TopicastError):
    """The columns of a source do not fit into those of its copy."""


@dataclass(frozen=True, slots=True)
class Drift:
    """The new columns of a copy, and how they differ from its present columns."""

    columns: tuple[Column, ...]
    added: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether the copy's columns are to be changed."""
        return bool(self.added or self.widened)


def drift(source: Sequence[Column], copy: Sequence[Column]) -> Drift:
    """Return the columns that ``copy`` needs, so that all of ``source`` fits into them.

    New columns come last. Columns that the source no longer has stay, and are null from then on.

    Raises:
        Conflict: no type holds the values of a column in both tables.
    """
    mine = {column.name.lower(): column for column in source}
    columns, widened = [], []
    for column in copy:
        theirs = mine.get(column.name.lower())
        type_ = column.type if theirs is None else _wider(theirs, column)
        if type_ != column.type:
            widened.append(column.name)
        columns.append(Column(column.name, type_, column.comment))
    known = {column.name.lower() for column in copy}
    added = [column for column in source if column.name.lower() not in known]
    return Drift((*columns, *added), tuple(column.name for column in added), tuple(widened))


def _wider(source: Column, copy: Column) -> str:
    """Return the type that holds both columns' values."""
    if source.type == copy.type:
        return copy.type
    for types in _WIDTHS:
        if source.type in types and copy.type in types:
            return max(source.type, copy.type, key=types.index)
    raise Conflict(
        f"column {copy.name} is {source.type} in the source and {copy.type} in the copy: "
        "change one of them"
    )
