"""Telling: what an operator, through the hub, asks a subscriber about itself.

Tables: ``topics``, each with its level and why it has it, and ``stats``.
"""

from collections.abc import Callable
from dataclasses import fields
from math import isinf

from ..topics.wire.messages import Inspect, Inspected, Refused
from .facts import Stats, TopicInfo

Cell = str | int | float | bool | None
Rows = tuple[tuple[Cell, ...], ...]


def answer(
    asked: Inspect,
    *,
    topics: Callable[[], tuple[TopicInfo, ...]],
    stats: Callable[[], Stats],
) -> Inspected | Refused:
    """Return the table that is asked for; what would be infinite is empty."""
    match asked.what:
        case "topics":
            columns = tuple(field.name for field in fields(TopicInfo))
            rows: Rows = tuple(tuple(map(_cell, _values(one))) for one in topics())
        case "stats":
            columns = ("name", "value")
            names = [field.name for field in fields(Stats)]
            rows = tuple(zip(names, map(_cell, _values(stats())), strict=True))
        case _:
            message = f"no table {asked.what!r} of a subscriber: topics, stats"
            return Refused(
                request=asked.request, code="INSPECT", message=message, retry_ms=0, topic=-1
            )
    return Inspected(request=asked.request, columns=columns, rows=rows)


def _values(record: TopicInfo | Stats) -> tuple[Cell, ...]:
    return tuple(getattr(record, field.name) for field in fields(record))


def _cell(value: Cell) -> Cell:
    if isinstance(value, float):
        return None if isinf(value) else round(value, 3)
    return value
