"""The pages of catalogd about events: how the last events were followed, and who has changed what.

The second page reads the log of changes in the store, over a connection of its own.
"""

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from ....catalog.event_status import SLOTS_A_MINUTE
from ....catalog.history.change_log import Recent
from ....catalog.history.table_history import NewestChanges
from ....catalog.ingest.events.event_batches import EventFacts
from ....catalog.publish.hub_questions import Known
from ....catalog.status import CatalogStatus
from ....catalog.status import events as status_events
from ....catalog.storage.history import HistoryReader
from ....topics.errors import UsageError
from ....topics.histogram import HistogramFacts
from ....topics.objects.names import parse_table_name, table_name
from ....topics.wire.messages.questions import ReadWriter
from ...client.operator import facts_of
from ...records import changes, event_words
from ...records.overview import place
from ...terminal.lists import Record, in_ms
from ..metrics import Histograms
from ..parts.figure import Bars
from ..parts.grid import Grid, Query
from ..parts.page import NEEDS_SECRET, Page, Part, Peers

BATCHES_SHOWN: Final = 100
MINUTES: Final = 60  # of the graphs
LINES_MAX: Final = 1_000  # of the log, on a page: the newest
SINCE: Final = ("10m", "1h", "1d")  # with a link on the page
TABLE: Final = re.compile(r"[^.*?/\[]+\.[^.*?/\[]+")  # the name of a table, and no pattern
OBJECT_MAX: Final = 1_024  # characters of a pattern
CHANGE: Final = ("time", "object", "change", "by", "version")
OF_ONE: Final = ("time", "change", "by", "what", "object", "version")  # of one table
WRITERS_MAX: Final = 32  # of the newest changes, about which a page asks the hubs
ANSWER_S: Final = 1.0  # a hub answers within milliseconds, unless it is stopped
Ask = Callable[[ReadWriter], "Future[Known | None]"]
"""Asks the hubs for the driver with an id in reports."""


def event_pages(
    status: Callable[[], CatalogStatus], store: Path, *, hubs: Peers, ask: Ask, is_guarded: bool
) -> dict[str, Page]:
    """Return the pages.

    Args:
        status: Returns catalogd's last status.
        store: The file of its store.
        hubs: Returns the addresses of the pages of its hubs.
        ask: Asks its hubs, which know the names of drivers.
        is_guarded: Whether readers give a secret, so that they see names.
    """
    return {
        "events": Page(
            title="Events",
            answers="Does it keep up with the metastore, how fast, and what takes long?",
            read=lambda *_: events(status(), is_guarded=is_guarded),
        ),
        "history": Page(
            title="History",
            answers="What has changed, when, and by whom?",
            read=lambda _, query: _history(store, query, hubs=hubs(), ask=ask),
            is_private=True,
        ),
    }


def histograms_of(status: CatalogStatus, *, calls: Mapping[str, HistogramFacts]) -> Histograms:
    """Return the histograms of catalogd's metrics; ``calls``: of the metastore, by method."""
    return {
        "event_delay_s": {"": status.events.delays},
        "event_batch_s": {"": status.events.batch_times},
        "pull_s": {"": status.pull_times},
        "metastore_call_s": calls,
    }


def events(status: CatalogStatus, *, is_guarded: bool) -> dict[str, Part]:
    """Return the parts of the page about events, without names unless it ``is_guarded``."""
    found = status.events
    minutes = _minutes(found)
    ago = [f"{MINUTES - at} min ago" for at in range(MINUTES)]
    axis = {"first": f"{MINUTES} min ago", "last": "now"}
    return {
        "": Grid(
            about="How far the metastore's events have been followed.",
            columns=("name", "value"),
            rows=tuple(event_words.in_words(status_events(status)).items()),
        ),
        "The last hour": Bars(
            about=f"Events published in each minute, {max(count for count, _ in minutes)} at most.",
            values=[count for count, _ in minutes],
            labels=[f"{at}: {count}" for at, (count, _) in zip(ago, minutes, strict=True)],
            **axis,
        ),
        "Slowest batches": Bars(
            about="The time that the slowest batch published in each minute has taken, "
            f"{in_ms(1000 * max(slowest for _, slowest in minutes))} at most.",
            values=[slowest for _, slowest in minutes],
            labels=[
                f"{at}: {in_ms(1000 * slow)}" for at, (_, slow) in zip(ago, minutes, strict=True)
            ],
            **axis,
        ),
        "Costliest tables": _costs(found, is_guarded=is_guarded),
        "Batches": _batches(found),
    }


def _minutes(found: EventFacts) -> list[tuple[int, float]]:
    """Return the events and the slowest batch of each minute of the last hour, the oldest first."""
    minutes = [(0, 0.0)] * MINUTES
    for one in found.slots:
        at = MINUTES - 1 - (found.slot - one.number) // SLOTS_A_MINUTE
        if at >= 0:
            count, slowest_s = minutes[at]
            minutes[at] = count + one.events, max(slowest_s, one.slowest_s)
    return minutes


def _batches(found: EventFacts) -> Grid:
    last = (*found.batches, *found.running)[::-1][:BATCHES_SHOWN]
    running = {id(one) for one in found.running}
    rows = [
        (
            changes.utc(one.at_us),
            one.events,
            one.last_id,
            one.tables,
            "running" if id(one) in running else one.missing or "published",
            round(1000 * one.took_s),
            one.waited_s,
        )
        for one in last
    ]
    return Grid(
        about="The events of each poll, the newest first: from their arrival until all that they "
        "name was published. The delay is since the time of the oldest event, which the metastore "
        "has in whole seconds of its clock.",
        columns=("time", "events", "up to", "tables", "outcome", "took_ms", "delay_s"),
        rows=rows,
        empty="no event has come since the start",
    )


def _costs(found: EventFacts, *, is_guarded: bool) -> Grid:
    return Grid(
        about="The tables whose reads from the metastore have taken longest since the start.",
        columns=("table", "reads", "seconds"),
        rows=[(table_name(*one.table), one.reads, round(one.seconds, 3)) for one in found.costs]
        if is_guarded
        else (),
        links={"table": lambda row: f"/history?{urlencode({'object': row['table']})}"},
        empty="nothing was read" if is_guarded else f"their names are shown {NEEDS_SECRET}",
    )


async def _history(
    store: Path, query: Query, *, hubs: Mapping[str, str], ask: Ask
) -> Mapping[str, Part]:
    """Return the changes that ``query`` chooses, with the names that hubs know of drivers."""
    since, pattern = (query.get(name, "") for name in ("since", "object"))
    since_us = changes.since(since, now=time.time()) if since else 0
    if len(pattern) > OBJECT_MAX:
        raise UsageError(f"an object has {OBJECT_MAX} characters at most")
    with closing(HistoryReader(store)) as reader, reader.moment():
        log = Recent(since_us, LINES_MAX, pattern.lower()).answer(reader, 0, None).records()
        rows = None
        if TABLE.fullmatch(pattern):
            newest = NewestChanges(parse_table_name(pattern)).answer(reader, 0, None).records()
            rows = [one for one in newest if one["time_us"] >= since_us]
    known = await _drivers_of(log, ask)
    records = changes.about(
        changes.records_of(log, [facts_of(one.facts) for one in known.values()]), pattern
    )
    if rows is not None:
        records = _with_content(rows, records)
    pages = {writer: hubs.get(f"statestored {place(one.hub)}", "") for writer, one in known.items()}
    return {"": _changes(records, query, pages=pages)}


async def _drivers_of(log: Sequence[Record], ask: Ask) -> dict[str, Known]:
    """Return the facts that hubs have about the drivers in ``log``, by the ids of their reports."""
    writers = list(dict.fromkeys(one["driver"] for one in log if one["driver"]))[:WRITERS_MAX]
    asked = {
        one: asyncio.wrap_future(ask(ReadWriter(writer=bytes.fromhex(one)))) for one in writers
    }
    if asked:
        await asyncio.wait(asked.values(), timeout=ANSWER_S)
    for one in asked.values():
        one.cancel()  # unless it has its answer
    answers = {writer: one.result() for writer, one in asked.items() if not one.cancelled()}
    return {writer: known for writer, known in answers.items() if known is not None}


def _changes(records: Sequence[Record], query: Query, *, pages: Mapping[str, str]) -> Grid:
    """Return ``records`` as a grid; ``pages``: by the writer of a driver, those of its hub."""
    is_one, by = TABLE.fullmatch(query.get("object", "")) is not None, query.get("by", "")
    found = changes.once(changes.by(records, by) if by else records)[:LINES_MAX]
    columns = OF_ONE if is_one else CHANGE
    rows = [
        tuple(one[name] for name in columns)
        for one in (
            {
                **record,
                "time": record["time"].replace("T", " ")[:19],
                "change": record["kind"],
                "what": changes.what(record),
            }
            for record in found
        )
    ]
    chosen = {name: query[name] for name in ("since", "object", "by") if query.get(name)}
    drivers = {
        str(one["by"]): f"{pages[one['driver']]}/drivers/{one['driver'][:8]}"
        for one in reversed(found)
        if pages.get(one["driver"])
    }
    return Grid(
        about=_filters(chosen),
        columns=columns,
        rows=rows,
        links={
            "object": lambda row: _address(chosen, object=str(row["object"]).partition("/")[0]),
            "by": lambda row: drivers.get(str(row["by"]), ""),
        },
        more={
            **{f"last {one}": _address(chosen, since=one) for one in SINCE},
            **({"all": "/history"} if chosen else {}),
        },
        empty="no change is known" + (" of these" if chosen else ""),
    )


def _with_content(rows: Sequence[Record], log: Sequence[Record]) -> list[Record]:
    """Return the changes of a table with their differences, and those that only the log has."""
    found = changes.joined(rows, log)
    versions = {one["version"] for one in found}
    seen = {(one["object"], one["kind"]) for one in found}
    others = (
        one
        for one in log
        if (
            one["version"] not in versions
            if changes.is_of_content(one)
            else (one["object"], one["kind"]) not in seen
        )
    )
    return sorted((*found, *others), key=itemgetter("time"), reverse=True)


def _filters(chosen: Mapping[str, str]) -> str:
    words = {"since": "since {}", "object": "of {}", "by": "by {}"}
    which = " ".join(words[name].format(text) for name, text in chosen.items())
    return (
        f"Changes and orders {which or 'of all objects'}, the newest {LINES_MAX} at most. "
        "/history?object=shop.*&since=10m&by=etl chooses some."
    )


def _address(chosen: Mapping[str, str], **changed: str) -> str:
    return f"/history?{urlencode({**chosen, **changed})}"
