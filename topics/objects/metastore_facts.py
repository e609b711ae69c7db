"""Facts of the metastore that no process holds: catalogd reads them when a client requests them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A permanent function of a database.

    ``resources``: the files that it needs, each with its type before it (``JAR:hdfs:///x.jar``).
    """

    db: str
    name: str
    class_name: str
    owner: str
    created_at_s: int
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """The statistics of one column of a table, or of one partition; None: they do not say.

    ``low`` and ``high`` are texts, as SQL writes literals of the column's type. Lengths are in
    bytes. ``version``: of the table, as it was known before they were read. A newer version of the
    table means to read them again: they may have changed.
    """

    partition: str  # empty: of the table
    column: str
    type: str
    nulls: int | None = None
    distinct: int | None = None
    low: str | None = None
    high: str | None = None
    average_length: float | None = None
    max_length: int | None = None
    trues: int | None = None
    falses: int | None = None
    version: int = 0
