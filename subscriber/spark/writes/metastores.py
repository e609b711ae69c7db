"""Which metastore a session's tables belong to, and which object a name in it means.

A driver reports a write only if it is to a metastore that catalogd follows.
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
    """What is written: a table, by the parts of its name, or a path.

    ``partitions``: names, or with a slash at the end how they begin; none: any of them.
    ``overwrites``: files that are there are removed.
    """

    name: tuple[str, ...] = ()
    path: str = ""
    partitions: tuple[str, ...] = ()
    overwrites: bool = False


Look = Callable[[str], str]  # a setting's value; empty: it is not set


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedMetastore:
    """The ``uris`` that reports carry; or why writes are not reported."""

    uris: str = ""
    reason: str = ""


def metastore_of(*, implementation: str, uris: str, configured: str) -> ReportedMetastore:
    """Return the metastore that a session writes to.

    Args:
        implementation: Of its catalog: hive, or in-memory.
        uris: ``hive.metastore.uris`` as Spark's client of it has them.
        configured: ``spark.topicast.metastore``, which takes precedence; empty: not set.
    """
    if implementation != "hive":
        return ReportedMetastore(reason=f"its catalog is {implementation or 'in-memory'}, not hive")
    if not (configured or uris):
        return ReportedMetastore(reason=f"its metastore is embedded: {URIS} is not set")
    return ReportedMetastore(uris=configured or uris)


def object_of(target: WriteTarget, *, catalog: str, database: str, conf: Look) -> str | None:
    """Return the name that is reported of ``target``; None: it is of another catalog.

    Args:
        target: What is written: the name is ``db.table``, or its path.
        catalog: The session's current catalog.
        database: The current database in it.
        conf: Settings of the session, to know other catalogs by.
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
