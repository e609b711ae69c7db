"""Metastores: to which metastore a session writes, and which object a name of it means there.

A driver reports a write only if it is to the metastore that its catalogd follows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

CATALOG: Final = "spark_catalog"
IMPLEMENTATION: Final = "spark.sql.catalogImplementation"
CATALOGS: Final = "spark.sql.catalog."
URIS: Final = "hive.metastore.uris"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """The target of a write: a table, by the parts of its ``name``, or a ``path``.

    ``partitions``: names of partitions, or with a slash at the end how their names begin; empty:
    any partition. ``overwrites``: the write removes files that are there.
    """

    name: tuple[str, ...] = ()
    path: str = ""
    partitions: tuple[str, ...] = ()
    overwrites: bool = False


Look = Callable[[str], str]  # returns the value of a setting; empty: it is not set


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedMetastore:
    """The ``uris`` that reports carry; or the ``reason`` why writes are not reported."""

    uris: str = ""
    reason: str = ""


def metastore_of(*, implementation: str, uris: str, configured: str) -> ReportedMetastore:
    """Return the metastore that a session writes to.

    Args:
        implementation: The kind of its catalog: hive, or in-memory.
        uris: ``hive.metastore.uris``, as Spark's client of the metastore has it.
        configured: ``spark.topicast.metastore``, which takes precedence; empty: not set.
    """
    if implementation != "hive":
        return ReportedMetastore(reason=f"its catalog is {implementation or 'in-memory'}, not hive")
    if not (configured or uris):
        return ReportedMetastore(reason=f"its metastore is embedded: {URIS} is not set")
    return ReportedMetastore(uris=configured or uris)


def object_of(target: WriteTarget, *, catalog: str, database: str, conf: Look) -> str | None:
    """Return what reports name for ``target``: ``db.table`` or a path; None: of another catalog.

    Args:
        target: What a statement writes.
        catalog: The session's current catalog.
        database: The current database of that catalog.
        conf: Looks into the settings of the session, which name its other catalogs.
    """
    if target.path:
        return target.path
    match target.name:
        case (table,) if catalog == CATALOG:
            db = database
        case (_, path) if "/" in path:
            return path  # parquet.`/w/orders`
        case (first, table) if catalog == CATALOG and not conf(CATALOGS + first):
            db = first
        case (first, db, table) if first.lower() == CATALOG:
            pass
        case _:
            return None
    if not db or "." in db + table:
        return None
    return f"{db}.{table}".lower()
