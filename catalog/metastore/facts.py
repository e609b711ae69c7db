"""Functions and column statistics: the objects that hmsclient decodes, as facts for clients."""

from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final

from ...topics.objects.metastore_facts import ColumnStatistics, Function

RESOURCE_TYPES: Final = {1: "JAR", 2: "FILE", 3: "ARCHIVE"}
EPOCH: Final = date(1970, 1, 1)
KINDS: Final = ("boolean", "long", "double", "string", "binary", "decimal", "date")
"""Of statistics; each is a field of the union, as ``longStats``."""


def functions_of(db: str, found: Iterable[Any] | None) -> tuple[Function, ...]:
    """Return those of ``found`` that are functions of ``db``, sorted by name."""
    return tuple(
        sorted(
            (_function(one) for one in found or () if one.dbName == db),
            key=lambda one: one.name,
        )
    )


def _function(one: Any) -> Function:
    resources = (
        f"{RESOURCE_TYPES.get(resource.resourceType, 'FILE')}:{resource.uri}"
        for resource in one.resourceUris or ()
    )
    return Function(
        db=one.dbName,
        name=one.functionName or "",
        class_name=one.className or "",
        owner=one.ownerName or "",
        created_at_s=one.createTime or 0,
        resources=tuple(resources),
    )


def statistics_of(partition: str, found: Iterable[Any]) -> Iterator[ColumnStatistics]:
    """Yield the statistics in ``found``, Thrift's, of a partition or (no name) of a table."""
    for one in sorted(found, key=lambda one: str(one.colName)):
        data = next(
            (stats for kind in KINDS if (stats := getattr(one.statsData, f"{kind}Stats", None))),
            None,
        )
        yield ColumnStatistics(
            partition=partition,
            column=one.colName,
            type=one.colType or "",
            nulls=getattr(data, "numNulls", None),
            distinct=getattr(data, "numDVs", None),
            low=_text(getattr(data, "lowValue", None)),
            high=_text(getattr(data, "highValue", None)),
            average_length=getattr(data, "avgColLen", None),
            max_length=getattr(data, "maxColLen", None),
            trues=getattr(data, "numTrues", None),
            falses=getattr(data, "numFalses", None),
        )


def _text(value: Any) -> str | None:
    """Return a bound: a number, Thrift's decimal, or a day since 1970."""
    if value is None:
        return None
    if hasattr(value, "daysSinceEpoch"):
        try:
            return str(EPOCH + timedelta(days=value.daysSinceEpoch))
        except OverflowError:
            return None
    if hasattr(value, "unscaled"):
        unscaled = int.from_bytes(value.unscaled or b"\0", "big", signed=True)
        return format(Decimal(unscaled).scaleb(-(value.scale or 0)), "f")
    return str(value)
