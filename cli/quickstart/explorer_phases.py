"""The phases of the explorer, in their order, and how each is printed."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ...subscriber.protocol.status import TopicInfo
from ...topics.topic import LEVELS
from ..terminal.lists import aligned

BEGIN: Final = "begin"
STAY: Final = "stay"
MODES: Final = ("full", "mixed")  # phases for which catalogd's mode is changed first
PHASES: Final = (
    (BEGIN, "It begins with the names alone; everything else would have to be pulled."),
    ("read", "It reads a few tables, then the same ones again: their topics announce changes."),
    ("walk", "It works through all of them: the tables that it used least are evicted."),
    ("full", "While it reads, 'topicast mode full': no topic may be followed at minimal."),
    (
        "mixed",
        "And back, 'topicast mode mixed': it may choose levels again, and does so slowly.",
    ),
)
HEAD: Final = ("level", "topics", "bytes", "why")
NUMBER: Final = re.compile(r"\d[\d.]*( [KM]B)?")

Row = tuple[str, int, int, str]


def followed(news: dict[str, Any]) -> str:
    """Describe how the explorer follows its topics, and whether its answers are right."""
    counts = ", ".join(f"{count} at {level}" for level, count in news["follows"].items())
    right = f"{news['compared']} tables compared with the metastore, {news['different']} differ"
    return f"now follows its topics like this: {counts}; {right}"


def lines_of(title: str, facts: dict[str, Any], *, all_bytes: int) -> list[str]:
    """Return a phase as text: what happened, and the table of topics."""
    found = [title]
    if "partitions" in facts:
        found.append(
            f"There are {facts['tables']} new tables with {facts['partitions']:,} partitions."
        )
    if "pulls" in facts:
        found.append(f"{facts['pulls']} of {facts['reads']} reads were pulled from catalogd.")
    if "compared" in facts:
        found.append(
            f"{facts['compared']} answers compared with the metastore, byte for byte, "
            f"while a table grew: {facts['different']} differ."
        )
    held, budget = facts["held_bytes"], facts["budget_bytes"]
    found.append(f"It holds {held:,} of {budget:,} bytes; everything would take {all_bytes:,}.")
    return [*found, "", *_table_of(facts["levels"])]


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


def _table_of(rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the rows as lines."""
    shown = [(str(a), str(b), f"{int(str(c)):,}", str(d)) for a, b, c, d in rows]
    return aligned([HEAD, *shown])


def _why(members: Sequence[TopicInfo]) -> str:
    return max(members, key=lambda one: one.bytes).why
