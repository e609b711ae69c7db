"""A small table of the levels at which a subscriber follows topics, and why."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from ...subscriber.protocol.status import TopicInfo
from ...topics.topic import LEVELS
from ..output import aligned

HEAD: Final = ("level", "topics", "bytes", "why")
NUMBER: Final = re.compile(r"\d[\d.]*( [KM]B)?")

Row = tuple[str, int, int, str]


def rows_of(topics: Iterable[TopicInfo]) -> list[Row]:
    """Return one row for topics of one level and one kind of reason, the highest level first.

    Numbers in reasons differ from topic to topic: the reason of the largest topic stands for all.
    """
    groups: dict[tuple[int, str], list[TopicInfo]] = {}
    for one in topics:
        kind = (-LEVELS.index(one.level), NUMBER.sub("#", one.why))
        groups.setdefault(kind, []).append(one)
    return [
        (members[0].level, len(members), sum(one.bytes for one in members), _why(members))
        for _, members in sorted(groups.items())
    ]


def table_of(rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the rows as lines."""
    shown = [(str(a), str(b), f"{int(str(c)):,}", str(d)) for a, b, c, d in rows]
    return aligned([HEAD, *shown])


def _why(members: Sequence[TopicInfo]) -> str:
    return max(members, key=lambda one: one.bytes).why
