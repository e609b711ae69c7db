"""Status: an immutable picture of catalogd, for whoever looks: pages, metrics, operators.

Columns of ``table`` are what ``Inspect`` is answered with; other threads may hold a Status.
"""

from dataclasses import dataclass, fields

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
    mode: str
    overrides: str
    offers: int
    topics_to_touch: int
    watermark: int
    newest_event: int
    databases: int
    tables_to_load: int
    waiting_requests: int
    entries: int
    held_bytes: int
    counts: dict[str, int]
    topics: tuple[TopicStatus, ...]


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
