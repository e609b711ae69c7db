"""The page of one driver or subscriber: the facts that it has announced, and its answers now.

    page ──levels, usage, trace──▶ hub ──▶ that reader ──▶ hub ──▶ levels, reasons, what it read

A reader that is stopped does not answer: the page says so after ANSWER_S.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final
from urllib.parse import urlencode

from ....statestore.status import HubStatus
from ....topics.errors import UsageError
from ....topics.objects.drivers import GONE
from ....topics.sizes import size
from ....topics.wire.messages.answers import DriverStatus, Inspected, SubscriberStatus
from ....topics.wire.messages.connection import Refused
from ....topics.wire.messages.fields import Cell
from ....topics.wire.messages.questions import ReaderQuestion, ReadLevels, ReadTrace, ReadUsage
from ...records import fleet
from ...records.levels import alike
from ...terminal.lists import Record
from ..parts.grid import Grid
from ..parts.page import NEEDS_SECRET, Part

ANSWER_S: Final = 2.0  # a driver answers within milliseconds, unless it is stopped
Ask = Callable[[ReaderQuestion[Any]], "Future[Inspected | Refused]"]
"""Asks the reader that the question names."""
ABOUT_DRIVER: Final = (
    *("application", "state", "stale_s", "reason", "what to do", "since_s", "control", "user"),
    *("host", "pid", "spark", "release", "application_id", "hubs"),
)
ABOUT_READER: Final = (
    *("name", "role", "lag_s", "lag_versions", "topics", "held_bytes", "budget_bytes"),
    "registration",
)
LEVEL: Final = ("level", "topics", "held_bytes", "full_bytes", "why", "numbers")
MESSAGE: Final = ("ago_s", "way", "message", "topics", "version")
TABLE: Final = ("table", "topic", "level", "held_bytes", "full_bytes", "why", "read_s")


async def reader_parts(
    status: HubStatus, named: str, *, ask: Ask, is_guarded: bool
) -> Mapping[str, Part]:
    """Return the parts of the page of the reader or driver that ``named`` stands for.

    Args:
        status: The hub's last status.
        named: An application, or the beginning of a registration, or of the id in reports.
        ask: Asks a reader.
        is_guarded: Whether readers of the page give a secret, so that they see names of tables.

    Raises:
        UsageError: no reader and no driver has that name.
    """
    driver = next((one for one in status.drivers if _is_driver(one, named)), None)
    registration = driver.registration if driver else named
    reader = next(
        (one for one in status.subscribers if fleet.is_id(one._asdict(), registration)), None
    )
    if driver is None and reader is not None:
        is_its = (one for one in status.drivers if one.registration == reader.registration)
        driver = next(is_its, None)
    if driver is None and reader is None:
        raise UsageError(
            f"no driver and no subscriber is called {named[:80]} here: another statestored may "
            "have it"
        )
    about = {"": _about(driver, reader)}
    if reader is None or (driver is not None and driver.state == GONE):
        return about
    member = bytes.fromhex(reader.registration)
    topics, tables, messages = await asyncio.gather(
        *(_answer(ask, kind(member=member)) for kind in (ReadLevels, ReadUsage, ReadTrace))
    )
    levels = {one["id"]: one for one in topics.records()} if isinstance(topics, Inspected) else {}
    return {
        **about,
        "Tables that it reads": _tables(
            tables, levels, catalogd=status.catalogd_pages, is_guarded=is_guarded
        ),
        "Levels": _levels(topics, levels),
        "Messages": _messages(messages),
    }


def _is_driver(driver: DriverStatus, named: str) -> bool:
    ids = ({"registration": one} for one in (driver.registration, driver.writer))
    return named in (driver.application, driver.driver) or any(
        fleet.is_id(one, named) for one in ids
    )


def _about(driver: DriverStatus | None, reader: SubscriberStatus | None) -> Grid:
    facts: dict[str, Cell] = {}
    if driver is not None:
        said: Record = driver._asdict()
        stale_s = reader.lag_s if reader is not None and driver.state != GONE else None
        said |= {"stale_s": stale_s, "what to do": fleet.mend(said)}
        facts |= {name: said[name] for name in ABOUT_DRIVER}
    if reader is not None:
        of_reader = reader._asdict()
        facts |= {name: of_reader[name] for name in ABOUT_READER}
    called = (driver.application if driver else "") or (reader.name if reader else "a driver")
    return Grid(
        about=f"{called}: the facts that it has announced, and those that this statestored has.",
        columns=("name", "value"),
        rows=tuple((name, value) for name, value in facts.items() if value not in ("", None)),
        more={"all drivers": "/drivers", "all subscribers": "/subscribers"},
    )


async def _answer(ask: Ask, question: ReaderQuestion[Any]) -> Inspected | str:
    """Return what the reader answers, or why it does not."""
    asked = ask(question)
    try:
        found = await asyncio.wait_for(asyncio.wrap_future(asked), ANSWER_S)
    except asyncio.TimeoutError:
        return f"it has not answered within {ANSWER_S:g} s: it is stopped, or too busy"
    return found.message if isinstance(found, Refused) else found


def _tables(
    tables: Inspected | str, levels: Mapping[int, Record], *, catalogd: str, is_guarded: bool
) -> Grid:
    """Return the tables that were read last, each with the level of its topic, and why."""

    def at_catalogd(row: Mapping[str, Cell]) -> str:
        return f"{catalogd}/catalog?{urlencode({'table': row['table']})}" if catalogd else ""

    rows = []
    read = tables.records() if isinstance(tables, Inspected) else []
    for one in read if is_guarded else ():
        of = levels.get(one["topic"], {"level": "", "bytes": None, "full_bytes": None, "why": ""})
        held = (of["level"], of["bytes"], of["full_bytes"], of["why"])
        rows.append((one["table"], one["topic"], *held, one["read_s"]))
    nothing = tables if isinstance(tables, str) else "it has read no table within the last hour"
    return Grid(
        about="The tables that it has read last, each with the level of its topic, and the reason. "
        "For other tables, the levels of topics are below.",
        columns=TABLE,
        rows=rows,
        links={"topic": lambda row: f"/topics/{row['topic']}", "table": at_catalogd},
        empty=nothing if is_guarded else f"their names are shown {NEEDS_SECRET}",
    )


def _levels(topics: Inspected | str, levels: Mapping[int, Record]) -> Grid:
    groups = alike({"topic": number, **one} for number, one in levels.items())
    held, full = (sum(one[name] for one in groups) for name in ("bytes", "full_bytes"))
    return Grid(
        about=f"The topics by level and reason: it holds {size(held)} of {size(full)}.",
        columns=LEVEL,
        rows=[
            (one["level"], one["count"], one["bytes"], one["full_bytes"], one["why"], one["ranges"])
            for one in groups
        ],
        empty=topics if isinstance(topics, str) else "it follows none",
    )


def _messages(messages: Inspected | str) -> Grid:
    found = messages.records() if isinstance(messages, Inspected) else []
    return Grid(
        about="The messages that came in and went out lately, the newest first, without heartbeats "
        "and without contents. A message without topics is about all topics, or about none.",
        columns=MESSAGE,
        rows=[tuple(one[name] for name in MESSAGE) for one in reversed(found)],
        empty=messages if isinstance(messages, str) else "none came or went yet",
    )
