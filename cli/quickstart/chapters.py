"""Chapters: what the explorer is asked to do, one word after the other, and how it is told."""

from typing import Any, Final

from .levels import table_of

BEGIN: Final = "begin"
STAY: Final = "stay"
TURNS: Final = ("full", "mixed")  # words that are modes, too: catalogd's is turned first
CHAPTERS: Final = (
    (BEGIN, "It begins with the names alone; the rest would have to be asked for."),
    ("read", "It reads a few tables, then the same ones again: their topics tell of changes."),
    ("walk", "It works through all of them: what it used least gives way."),
    ("full", "While it reads, 'topicast mode full': no topic may be followed at minimal."),
    ("mixed", "And back, 'topicast mode mixed': it may choose, and changes nothing in haste."),
)


def followed(news: dict[str, Any]) -> str:
    """Return in words how the explorer follows its topics, and whether its answers are right."""
    counts = ", ".join(f"{count} at {level}" for level, count in news["follows"].items())
    right = f"{news['compared']} tables compared with the metastore, {news['different']} differ"
    return f"follows its topics otherwise: {counts}; {right}"


def lines_of(title: str, told: dict[str, Any], *, all_bytes: int) -> list[str]:
    """Return a chapter as it is shown: what happened, in words, and the table of topics."""
    found = [title]
    if "partitions" in told:
        found.append(
            f"There are {told['tables']} new tables with {told['partitions']:,} partitions."
        )
    if "pulls" in told:
        found.append(f"Of {told['reads']} reads catalogd was asked in {told['pulls']}.")
    if "compared" in told:
        found.append(
            f"{told['compared']} answers compared with the metastore, byte for byte, "
            f"while a table grew: {told['different']} differ."
        )
    held, budget = told["held_bytes"], told["budget_bytes"]
    found.append(f"It holds {held:,} of {budget:,} bytes; everything would take {all_bytes:,}.")
    return [*found, "", *table_of(told["levels"])]
