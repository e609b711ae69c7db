"""The pages of a statestored: tables of its last status, the worst or busiest row first."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote

from ....statestore.status import HubStatus, facts
from ....topics.errors import UsageError
from ....topics.liveness import LIVE
from ....topics.objects.drivers import CONNECTING, GONE, PLAIN
from ....topics.objects.drivers import LIVE as DRIVER_LIVE
from ....topics.topic import NAMESPACE, offered_names
from ....topics.wire.messages.answers import DriverStatus
from ....topics.wire.messages.fields import Cell
from ...records import fleet
from ...records.overview import place
from ...terminal.lists import Record
from ..parts.grid import Grid, Query
from ..parts.page import Page, Parts, grid_page
from .memory_page import MemoryUse
from .reader_page import Ask, reader_parts

PAGES: Final = "catalogd_pages"  # a fact that is an address
PUBLISHER: Final = (
    *("publisher", "catalog_address", "publisher_silent_s", "epoch", "start", "num_topics"),
    *("watermark", "offers", "topics_behind", "streams", PAGES),
)
DRIVER: Final = (
    *("application", "state", "stale_s", "reason", "what to do", "since_s", "control", "user"),
    *("host", "pid", "spark", "release", "application_id", "driver"),
)
SUBSCRIBER: Final = (
    *("name", "role", "state", "lag_s", "lag_versions", "topics", "held_bytes", "budget_bytes"),
    "registration",
)
TOPIC: Final = (
    *("topic", "state", "full_members", "minimal_members", "lag_versions", "entries", "full_bytes"),
    *("version", "floor"),
)
ORDER: Final = (PLAIN, CONNECTING, DRIVER_LIVE, GONE)  # of drivers' states, the worst first


def hub_pages(status: Callable[[], HubStatus], ask: Ask, *, is_guarded: bool) -> dict[str, Page]:
    """Return the pages of a hub, by the first part of their path.

    Args:
        status: Returns the hub's last status.
        ask: Asks one of the hub's readers.
        is_guarded: Whether readers of the pages give a secret, so that they see names of tables.
    """

    def one_or(all_: Callable[[Query], Grid]) -> Callable[[str, Query], Parts | Awaitable[Parts]]:
        """Return a function that reads the page of one reader, if its path goes on, or of all."""

        def read(rest: str, query: Query) -> Parts | Awaitable[Parts]:
            if not rest:
                return {"": all_(query)}
            return reader_parts(status(), rest, ask=ask, is_guarded=is_guarded)

        return read

    return {
        "drivers": Page(
            title="Drivers",
            answers="Which driver is stale, or does not hold a table in full, and why?",
            read=one_or(lambda query: _drivers(status(), query)),
        ),
        "topics": grid_page(
            "Topics",
            "Which topics are read, and which are behind?",
            lambda rest, query: _topics(status(), rest, query),
        ),
        "subscribers": Page(
            title="Subscribers",
            answers="Who is connected, how far behind, with how much memory?",
            read=one_or(lambda _: _subscribers(status())),
        ),
        "publisher": grid_page(
            "Publisher", "Which catalogd publishes here?", lambda *_: _publisher(status())
        ),
    }


def peers_of_hub(status: HubStatus) -> dict[str, str]:
    """Return the address of the pages of the hub's catalogd, if it is known."""
    pages = status.catalogd_pages
    return {f"catalogd {place(status.catalog_address)}": pages} if pages else {}


def held_by_hub(status: HubStatus) -> Iterator[MemoryUse]:
    """Yield the bytes of the parts of a hub."""
    yield MemoryUse(
        "entries of all topics", sum(one.full_bytes or 0 for one in status.topics), None
    )
    if status.memory is not None:
        yield MemoryUse("only at catalogd: content that changed long ago", status.cold_bytes, None)


def _topics(status: HubStatus, rest: str, query: Query) -> Grid:
    if rest:
        return _topic(status, rest)
    read = [one for one in status.topics if one.full_members or one.minimal_members]
    chosen = status.topics if "all" in query else read
    rows = sorted(chosen, key=lambda one: (-one.lag_versions, -one.full_members, one.topic))
    hidden = len(status.topics) - len(chosen)
    other = {f"all {len(status.topics)}": "/topics?all="} if hidden else {}
    other |= {"those that are read": "/topics"} if "all" in query else {}
    return Grid(
        about="Each topic holds a share of the tables. Readers follow it in full, or at minimal: "
        f"only its changes. Topic {NAMESPACE} has the names of databases and tables.",
        columns=TOPIC,
        rows=_rows(rows, TOPIC),
        links={"topic": lambda row: f"/topics/{row['topic']}"},
        more=other,
        empty="no topic is read",
    )


def _topic(status: HubStatus, number: str) -> Grid:
    found = next((one for one in status.topics if str(one.topic) == number), None)
    if found is None:
        raise UsageError(f"there is no topic {number[:20]}")
    what = "names of databases and tables" if found.topic == NAMESPACE else "a share of the tables"
    return Grid(
        about=f"Topic {number} holds {what}.",
        columns=("name", "value"),
        rows=tuple(found._asdict().items()),
    )


def _drivers(status: HubStatus, query: Query) -> Grid:
    gone = [one for one in status.drivers if one.state == GONE]
    shown = (one for one in status.drivers if "all" in query or one.state != GONE)
    stale_s = {one.registration: one.lag_s for one in status.subscribers}
    rows = [_driver_facts(one, stale_s) for one in sorted(shown, key=_rank)]
    other = {f"{len(gone)} that have ended": "/drivers?all="} if gone and "all" not in query else {}
    other |= {"those that run": "/drivers"} if "all" in query else {}
    return Grid(
        about="Each attached driver, as it reports itself. Unless it is live, it is plain Spark.",
        columns=DRIVER,
        rows=[tuple(one[name] for name in DRIVER) for one in rows],
        links={"application": _address},
        more=other,
        empty="no driver is attached",
    )


def _address(row: Mapping[str, Cell]) -> str:
    return f"/drivers/{quote(str(row['driver'] or row['application']), safe='')}"


def _driver_facts(driver: DriverStatus, stale_s: Mapping[str, float]) -> Record:
    """Return the facts of a driver, how old its answers may be, and what to do about it."""
    said = driver._asdict()
    is_here = driver.state != GONE
    return {
        **said,
        "stale_s": stale_s.get(driver.registration) if is_here else None,
        "what to do": fleet.mend(said),
    }


def _rank(driver: DriverStatus) -> tuple[int, bool, str]:
    known = driver.state in ORDER
    return ORDER.index(driver.state) if known else 0, not driver.reason, driver.application


def _subscribers(status: HubStatus) -> Grid:
    rows = sorted(status.subscribers, key=lambda one: (one.state == LIVE, -one.lag_s, one.name))
    return Grid(
        about="Each connection that is registered: drivers, commands, programs and catalogd.",
        columns=SUBSCRIBER,
        rows=_rows(rows, SUBSCRIBER),
        links={"name": lambda row: f"/subscribers/{row['registration']}"},
        empty="nobody is connected",
    )


def _publisher(status: HubStatus) -> Grid:
    known = facts(status) | {"offers": offered_names(status.offers)}
    return Grid(
        about="The catalogd that publishes here.",
        columns=("name", "value"),
        rows=tuple((name, known[name]) for name in PUBLISHER),
        links={"value": lambda row: status.catalogd_pages if row["name"] == PAGES else ""},
    )


def _rows(items: Iterable[object], columns: tuple[str, ...]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(tuple(getattr(one, name) for name in columns) for one in items)
