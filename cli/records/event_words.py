"""Event words: the facts about catalogd's events, in words, for the command and for the page."""

from collections.abc import Mapping
from typing import Any, Final

from ...catalog.event_status import RATES_MIN
from ...catalog.ingest.events.event_processor import EventState
from ...catalog.reconcile.progress import STOPPED_S
from ...topics.wire.messages.fields import Cell
from ..terminal.lists import amount, in_ms, span
from . import changes
from .overview import lag

SKIPPED: Final = {
    "skipped_needless": "need nothing",
    "skipped_sync_off": "of tables that are not followed",
    "skipped_elsewhere": "of catalogs or databases that are left out",
    "skipped_passed": "passed",
}


def in_words(facts: Mapping[str, Any]) -> dict[str, Cell]:
    """Return the facts about events in words, by name."""
    return {
        "state": _state(facts),
        "lag": lag(facts["lag_events"], facts["lag_s"]),
        "newest event": facts["newest_event"],
        "published up to": facts["published_event"],
        "current batch": _progress(facts),
        "received": facts["received"],
        "skipped": _counted(facts, SKIPPED),
        "failed": _counted(
            facts, {"failed": "by a defect here", "not_understood": "not understood"}
        ),
        "gaps": facts["gaps"],
        "rate": ", ".join(f"{facts[f'rate_{of}_min']:.2f}/s in {of} min" for of in RATES_MIN),
        "time of a batch": _spread(facts, "batch"),
        "delay of a batch": _spread(facts, "delay"),
        "comparison": _comparison(facts),
        "compared": _compared(facts),
    }


def state_of(facts: Mapping[str, Any]) -> str:
    """Return the state, since when and why, as a sentence."""
    since_us = facts["since_us"]
    since = f" since {changes.utc(since_us)}" if since_us else ""
    because = f": {facts['because']}" if facts["because"] else ""
    return f"{facts['state']}{since}{because}"


def _state(facts: Mapping[str, Any]) -> str:
    found = state_of(facts)
    if facts["state"] != EventState.ACTIVE.value or facts["because"]:
        return found
    return f"{found}, {'behind' if facts['lag_events'] else 'up to date'}"


def _counted(facts: Mapping[str, Any], words: Mapping[str, str]) -> str:
    found = [f"{facts[name]} {text}" for name, text in words.items() if facts[name]]
    return ", ".join(found) or "0"


def _progress(facts: Mapping[str, Any]) -> str:
    """Return how far the oldest unpublished batch is, and how many batches wait behind it."""
    if facts["oldest_s"] is None:
        return ""
    others, tables = facts["batches_waiting"], facts["oldest_tables"]
    behind = f"; {amount(others, 'batch waits', 'batches wait')} behind it" if others else ""
    return (
        f"{amount(facts['oldest_events'], 'event', 'events')} up to {facts['oldest_up_to']}, "
        f"{tables - facts['oldest_left']} of {amount(tables, 'table', 'tables')} published, "
        f"for {span(facts['oldest_s'])}{behind}"
    )


def _comparison(facts: Mapping[str, Any]) -> str:
    """Return the state of the comparison with the metastore, and when all was compared last."""
    ended_s, late_s = facts["reconcile_ended_s"], facts["reconcile_late_s"]
    if facts["reconcile_waits"]:
        state = f"waits: {facts['reconcile_waits']}"
    elif late_s >= STOPPED_S:
        state = f"stopped for {span(late_s)}"
    else:
        state = f"{facts['reconcile_calls_per_s']:.1f} calls/s"
    if ended_s is None:
        return f"{state}, not everything was compared yet"
    return f"{state}, all compared {span(ended_s)} ago in {span(facts['reconcile_took_s'])}"


def _compared(facts: Mapping[str, Any]) -> str:
    """Return the counts of the comparison with the metastore."""
    rounds = amount(facts["reconcile_rounds"], "round", "rounds")
    objects = amount(facts["reconcile_objects"], "object", "objects")
    return (
        f"{objects} in {rounds}, {facts['reconcile_differing']} differed and were read again, "
        f"{facts['reconcile_drift']} had changed without an event"
    )


def _spread(facts: Mapping[str, Any], of: str) -> str:
    if facts[f"{of}_min_s"] is None:
        return ""
    names = ("min", "mean", "median", "p99")
    found = ", ".join(f"{name} {in_ms(1000 * facts[f'{of}_{name}_s'])}" for name in names)
    return f"{found} (of {amount(facts['batches'], 'batch', 'batches')})"
