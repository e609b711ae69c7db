"""Status: an immutable picture of catalogd, for whoever looks: pages, metrics, operators.

Columns of ``table`` are what ``Inspect`` is answered with; other threads may hold a Status.
"""

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .catalog import Catalog

Cell = str | int | float | bool | None
Rows = tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """One topic as catalogd holds it."""

    topic: int
    version: int
    floor: int
    entries: int
    held_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """catalogd at one moment. ``problem``: why it does not serve; empty when it does.

    ``warning``: what is wrong while it serves on, for example a metastore that is away.
    """

    problem: str
    warning: str
    epoch: int
    start: int
    num_topics: int
    watermark: int
    newest_event: int
    databases: int
    tables_to_load: int
    waiting_requests: int
    entries: int
    held_bytes: int
    counts: dict[str, int]
    topics: tuple[TopicStatus, ...]


def picture(catalog: "Catalog") -> Status:
    """Look at ``catalog``. Cost: O(topics + tables), some 30 ms with 100,000 tables."""
    epoch, start = catalog.position()
    poller, desk = catalog.poller, catalog.desk
    topics = tuple(
        TopicStatus(
            topic=number,
            version=topic.version,
            floor=topic.floor,
            entries=len(topic),
            held_bytes=topic.held_bytes,
        )
        for number, topic in catalog.ledger.topics.items()
    )
    trouble = poller.error or catalog.error
    return Status(
        problem="" if desk.serving else f"reading names from the metastore: {trouble or 'wait'}",
        warning=f"the metastore does not answer: {poller.error}" if poller.error else "",
        epoch=epoch,
        start=start,
        num_topics=len(topics) - 1,
        watermark=poller.watermark,
        newest_event=poller.window.last_id if poller.window else 0,
        databases=len(catalog.namespace.databases()),
        tables_to_load=catalog.loader.backlog,
        waiting_requests=desk.waiting,
        entries=sum(topic.entries for topic in topics),
        held_bytes=sum(topic.held_bytes for topic in topics),
        counts=asdict(catalog.counts),
        topics=topics,
    )


def table(status: Status, what: str) -> tuple[tuple[str, ...], Rows] | None:
    """Return columns and rows of the table ``what``; None if there is none of that name."""
    if what == "status":
        names = [f.name for f in fields(status) if f.name not in ("counts", "topics")]
        facts = {name: getattr(status, name) for name in names} | status.counts
        return ("name", "value"), tuple(facts.items())
    if what == "topics":
        columns = tuple(f.name for f in fields(TopicStatus))
        rows = tuple(tuple(getattr(one, name) for name in columns) for one in status.topics)
        return columns, rows
    return None
