"""Inspection: what an operator may ask of catalogd, as tables of facts."""

from typing import TYPE_CHECKING

from ..topics.wire.messages import Inspected

if TYPE_CHECKING:
    from .catalog import Catalog


def inspect(catalog: "Catalog", what: str) -> Inspected | None:
    """Return the rows of ``what`` ("status" or "topics"); None if there is no such thing."""
    if what == "status":
        return _status(catalog)
    if what == "topics":
        return _topics(catalog)
    return None


def _status(catalog: "Catalog") -> Inspected:
    epoch, start = catalog.position()
    poller = catalog.poller
    facts: dict[str, str | int] = {
        "epoch": epoch,
        "start": start,
        "serving": catalog.desk.serving,
        "watermark": poller.watermark,
        "newest_event": poller.window.last_id if poller.window else 0,
        "metastore_error": poller.error or catalog.error,
        "databases": len(catalog.namespace.databases()),
        "tables_to_load": catalog.loader.backlog,
        "waiting_requests": catalog.desk.waiting,
        "held_bytes": sum(topic.held_bytes for topic in catalog.ledger.topics.values()),
        "events": catalog.counts.events,
        "events_degraded": catalog.counts.degraded,
        "event_gaps": catalog.counts.gaps,
        "reads": catalog.counts.reads,
        "reads_failed": catalog.counts.reads_failed,
        "polls_failed": catalog.counts.polls_failed,
        "tables_withdrawn": catalog.counts.withdrawn,
        "pulls": catalog.desk.counts.pulls,
        "syncs": catalog.desk.counts.syncs,
        "refused": catalog.desk.counts.refused,
    }
    return Inspected(request=0, columns=("name", "value"), rows=tuple(facts.items()))


def _topics(catalog: "Catalog") -> Inspected:
    rows = tuple(
        (number, topic.version, topic.floor, len(topic), topic.held_bytes)
        for number, topic in catalog.ledger.topics.items()
    )
    return Inspected(
        request=0, columns=("topic", "version", "floor", "entries", "held_bytes"), rows=rows
    )
