"""Event status: how the metastore's events are followed, in numbers: for commands, pages, programs.

state, lag, rates, durations, the oldest batch that is not published ──▶ a fact of each name
"""

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Final

from ..topics.wire.messages.fields import Cell
from .ingest.events.event_batches import SLOT_S, EventBatch, EventFacts
from .ingest.events.event_processor import ProcessorFacts
from .reconcile.progress import ReconciliationFacts

RATES_MIN: Final = (1, 5, 15)  # as the load averages of a machine
SLOTS_A_MINUTE: Final = int(60 / SLOT_S)
SPREAD: Final = ("min", "mean", "median", "p99")
OLDEST: Final = (
    *("oldest_up_to", "oldest_events", "oldest_tables", "oldest_left", "batches_waiting"),
)
SKIPPED: Final[Mapping[str, str]] = {
    "skipped_needless": "events_skipped",
    "skipped_sync_off": "events_sync_off",
    "skipped_elsewhere": "events_elsewhere",
    "skipped_passed": "events_passed",
}
"""The facts that say why events were not applied, and the counts that they are."""
COMPARED: Final = (
    *("reconcile_rounds", "reconcile_objects", "reconcile_differing", "reconcile_drift"),
)
"""The counts of the comparison with the metastore."""


def event_facts(
    processor: ProcessorFacts,
    found: EventFacts,
    compared: ReconciliationFacts,
    *,
    counts: Mapping[str, int],
    lag: tuple[int | None, float | None],
    ids: tuple[int, int],
) -> dict[str, Cell]:
    """Return every fact that is a single value, by its name.

    ``lag``: in events and in seconds. ``ids``: the newest, and the newest that is published.
    """
    took = sorted(one.took_s for one in found.batches)
    waited = sorted(one.waited_s for one in found.batches if one.waited_s is not None)
    skipped: dict[str, Cell] = {name: counts[count] for name, count in SKIPPED.items()}
    return {
        "state": processor.state.value,
        "because": processor.because,
        "since_us": processor.since_us,
        "lag_events": lag[0],
        "lag_s": lag[1],
        "newest_event": ids[0],
        "published_event": ids[1],
        "received": counts["events"],
        **skipped,
        "not_understood": counts["events_not_understood"],
        "failed": counts["events_failed"],
        "gaps": counts["event_gaps"],
        **{f"rate_{minutes}_min": round(rate(found, minutes), 3) for minutes in RATES_MIN},
        "batches": len(took),
        **_spread("batch", took),
        **_spread("delay", waited),
        **_oldest(found.running),
        "reconcile_waits": compared.waits,
        **{name: counts[name] for name in COMPARED},
        "reconcile_calls_per_s": round(compared.calls_per_s, 3),
        "reconcile_ended_s": compared.ended_s,
        "reconcile_took_s": compared.took_s,
        "reconcile_late_s": compared.late_s,
    }


def types_of_facts() -> dict[str, object]:
    """Return the type of each fact, for the schema of what prints them."""
    texts, seconds = ("state", "because", "reconcile_waits"), ("batch", "delay")
    spread = {f"{of}_{name}_s": float for of in seconds for name in SPREAD}
    numbers = (
        *("since_us", "lag_events", "newest_event", "published_event", "received", *SKIPPED),
        *("not_understood", "failed", "gaps", "batches", *OLDEST, *COMPARED),
    )
    return {
        **dict.fromkeys(texts, str),
        **dict.fromkeys(numbers, int),
        **dict.fromkeys(("lag_s", "oldest_s"), float),
        **{f"reconcile_{of}": float for of in ("calls_per_s", "ended_s", "took_s", "late_s")},
        **{f"rate_{minutes}_min": float for minutes in RATES_MIN},
        **spread,
    }


def rate(found: EventFacts, minutes: int) -> float:
    """Return the events published a second in the last ``minutes``, or since the start."""
    first = found.slot - minutes * SLOTS_A_MINUTE
    count = sum(one.events for one in found.slots if one.number > first)
    return count / max(min(minutes * 60.0, found.up_s), SLOT_S)


def _spread(of: str, values: Sequence[float]) -> dict[str, Cell]:
    """Return least, mean, median and 99th percentile of ascending ``values``; None: no values."""
    if not values:
        return dict.fromkeys((f"{of}_{name}_s" for name in SPREAD), None)
    late = values[min(int(len(values) * 0.99), len(values) - 1)]
    found = (values[0], fmean(values), median(values), late)
    return {f"{of}_{name}_s": round(one, 4) for name, one in zip(SPREAD, found, strict=True)}


def _oldest(running: Sequence[EventBatch]) -> dict[str, Cell]:
    """Return how far the oldest events are that are not published, and how many batches wait."""
    first = running[0] if running else None
    return {
        "oldest_up_to": first.last_id if first else None,
        "oldest_events": first.events if first else 0,
        "oldest_tables": first.tables if first else 0,
        "oldest_left": first.left if first else 0,
        "oldest_s": first.took_s if first else None,
        "batches_waiting": max(len(running) - 1, 0),
    }
