"""The phases of the explorer, one after the other, and how each is printed."""

from typing import Any, Final

from .level_table import table_of

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
        found.append(f"Of {facts['reads']} reads {facts['pulls']} were pulled from catalogd.")
    if "compared" in facts:
        found.append(
            f"{facts['compared']} answers compared with the metastore, byte for byte, "
            f"while a table grew: {facts['different']} differ."
        )
    held, budget = facts["held_bytes"], facts["budget_bytes"]
    found.append(f"It holds {held:,} of {budget:,} bytes; everything would take {all_bytes:,}.")
    return [*found, "", *table_of(facts["levels"])]
