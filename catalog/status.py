"""Status: an immutable picture of catalogd, for pages, metrics and operators.

``Inspect`` is answered with the columns of ``table``; other threads may hold a Status.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import islice
from operator import attrgetter
from typing import Final

from .. import __version__
from ..topics.errors import UsageError
from ..topics.objects.names import TableId, table_name
from ..topics.topic import Topic
from ..topics.wire.messages import Cell, Inspected, Rows
from .ingest.poller import EVENTS_OFF

NAMED_MAX: Final = 5  # tables, each with an error of a line


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
    """catalogd at one moment. ``problem``: why it does not serve, or for ever what is old.

    ``warning``: what is wrong while it serves on, for example a metastore that is away.
    ``metastore_silent_s``: since a poll was answered, or since the start; None without polls.
    ``metastore_uuid``: empty if it has none. ``metastore_found``: what the last check of a
    connection has found: the same metastore or another one, and why; empty at first.
    ``loading``: some of the large tables that are read a part at a time, and how far each is.
    ``tables_unreadable``: that the metastore cannot read, or that do not fit; ``unreadable`` names
    some of them, with the reason.
    """

    problem: str
    warning: str
    epoch: int
    start: int
    num_topics: int
    mode: str
    overrides: str
    offers: int
    topics_to_backfill: int
    watermark: int
    newest_event: int
    metastore_uuid: str
    metastore_found: str
    metastore_silent_s: float | None
    databases: int
    tables_to_load: int
    loading: str
    tables_unreadable: int
    unreadable: str
    waiting_requests: int
    entries: int
    held_bytes: int
    counts: dict[str, int]
    topics: tuple[TopicStatus, ...]


def topic_status(number: int, topic: Topic) -> TopicStatus:
    """Return the status of one topic."""
    return TopicStatus(
        topic=number,
        version=topic.version,
        floor=topic.floor,
        entries=len(topic),
        held_bytes=topic.held_bytes,
    )


def first_of(tables: Mapping[TableId, str]) -> str:
    """Return the first of ``tables``, each with what is said of it, and how many more there are."""
    named = [f"{table_name(*table)}: {why}" for table, why in islice(tables.items(), NAMED_MAX)]
    more = len(tables) - len(named)
    return "; ".join([*named, *([f"{more} more"] if more else [])])


def problem_and_warning(
    polls: str, names: str, *, names_known: bool, missing: str, metastore: str, blind: str
) -> tuple[str, str]:
    """Return why catalogd does not serve, and what is wrong while it serves on.

    Args:
        polls: Why polls bring no events; empty when they do.
        names: Why the last listing or read failed; empty when it did not.
        names_known: Whether names were ever read.
        missing: Which events are; empty if none is.
        metastore: Its addresses, as the operator set them.
        blind: Why no change of the metastore will arrive; empty when they do.
    """
    where = f"--hive_metastore_uris={metastore}"
    retry = f"; catalogd tries again every few seconds: does the metastore run, and at {where}?"
    reason = f"{polls or names}{retry}" if polls or names else "wait"
    if not names_known:
        return f"reading names from the metastore: {reason}", ""
    if blind:
        return ("", blind) if blind == EVENTS_OFF else (blind, "")
    if polls:
        return "", f"the metastore does not answer: {reason}"
    return "", f"{missing}, everything is read again: {reason}" if missing else ""


def facts(status: Status) -> dict[str, Cell]:
    """Return every fact that is one value, by its name."""
    names = [f.name for f in fields(status) if f.name not in ("counts", "topics")]
    found = {name: getattr(status, name) for name in names}
    return {"release": __version__} | found | status.counts


def table(status: Status, what: str) -> Inspected:
    """Return the table ``what``, for a request whose id the caller sets.

    Raises:
        UsageError: there is none of that name.
    """
    columns: tuple[str, ...]
    rows: Rows
    match what:
        case "status":
            columns, rows = ("name", "value"), tuple(facts(status).items())
        case "topics":
            columns = tuple(f.name for f in fields(TopicStatus))
            rows = tuple(map(attrgetter(*columns), status.topics))
        case _:
            raise UsageError(
                f"no table {what!r}: status, topics, versions, history@db.table, changes@…"
            )
    return Inspected(request=0, columns=columns, rows=rows)
