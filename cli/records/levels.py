"""Levels: at which level a subscriber follows each topic, and why, in few lines; pure."""

from collections.abc import Iterable
from typing import Final

from ...topics.topic import LEVELS, NAMESPACE
from ..terminal.lists import Record

SUMS: Final = ("bytes", "full_bytes", "hits")


def alike(records: Iterable[Record]) -> list[Record]:
    """Return one record for all topics of one level and reason; the highest level first."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for one in records:
        groups.setdefault((one["level"], one["why"]), []).append(one)
    found = [
        {"level": level, "why": why, "count": len(some)}
        | {name: sum(one[name] for one in some) for name in SUMS}
        | {"ranges": ranges(one["topic"] for one in some)}
        for (level, why), some in groups.items()
    ]
    return sorted(found, key=lambda one: (-LEVELS.index(one["level"]), -one["bytes"]))


def ranges(topics: Iterable[int]) -> str:
    """Return sorted topics as text, such as ``0-3, 7, namespace``."""
    runs: list[list[int]] = []
    for topic in topics:
        if runs and topic == runs[-1][1] + 1:
            runs[-1][1] = topic
        else:
            runs.append([topic, topic])
    return ", ".join(topic_name(one) if one == end else f"{one}-{end}" for one, end in runs)


def topic_name(topic: object) -> str:
    """Return the number of a topic, or ``namespace``."""
    return "namespace" if topic == NAMESPACE else str(topic)
