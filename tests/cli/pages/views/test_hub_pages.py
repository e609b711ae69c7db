from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace

import pytest

from topicast.cli.pages.parts.grid import Grid
from topicast.cli.pages.parts.page import Parts
from topicast.cli.pages.views.hub_pages import hub_pages, peers_of_hub
from topicast.statestore.status import HubStatus
from topicast.tests.cli.pages.asking import parts
from topicast.tests.statestore.hub_driver import HubDriver
from topicast.topics.errors import UsageError
from topicast.topics.topic import offered_names
from topicast.topics.wire.messages.answers import (
    DriverStatus,
    HubTopic,
    Inspected,
    LevelList,
    MessageTrace,
    SubscriberStatus,
    TableUse,
    TableUses,
    TopicLevel,
    TracedMessage,
)
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.fields import Cell
from topicast.topics.wire.messages.questions import ReaderQuestion, ReadLevels, ReadTrace, ReadUsage

READ_BY = {1: (0, 0), 2: (3, 0), 3: (0, 1), 4: (0, 0)}  # each topic in full, and at its minimum


def driver(name: str, state: str, reason: str = "") -> DriverStatus:
    return DriverStatus(
        driver=f"{name}@host",
        registration=name.encode().hex().ljust(32, "0"),
        application=name,
        application_id="app-1",
        user="anna",
        host="host",
        pid=7,
        spark="4.3.0",
        release="0.1.0",
        state=state,
        reason=reason,
        control="on",
        since_s=1.0,
    )


def reader(of: DriverStatus) -> SubscriberStatus:
    return SubscriberStatus(
        name=f"{of.application_id}@{of.host}:{of.pid}",
        registration=of.registration,
        role="reader",
        state="LIVE",
        topics=4,
        lag_versions=0,
        lag_s=0.4,
        held_bytes=3,
        budget_bytes=100,
    )


def topic(number: int) -> HubTopic:
    full, minimal = READ_BY[number]
    return HubTopic(
        topic=number,
        state="LIVE",
        version=9,
        floor=0,
        entries=1,
        full_bytes=1,
        minimal_bytes=1,
        full_members=full,
        minimal_members=minimal,
        lag_versions=5 if number == 3 else 0,
    )


DRIVERS = (
    driver("ended", "gone"),
    driver("well", "live"),
    driver("lacks", "live", "its budget is too small"),
    driver("none", "plain", "switched off"),
)
LACKS = DRIVERS[2].registration
STATUS: HubStatus = replace(
    HubDriver().status,
    topics=tuple(map(topic, READ_BY)),
    subscribers=tuple(map(reader, DRIVERS[1:3])),
    drivers=DRIVERS,
)


ANSWERS: Mapping[type, Inspected | Refused] = {
    ReadLevels: LevelList(
        request=1,
        rows=(
            TopicLevel(1, "none", 7, 0, 0, None, 5, "never read here"),
            TopicLevel(2, "minimal", 7, 3, 1, 0.5, 9, "too large"),
        ),
    ),
    ReadUsage: TableUses(request=2, rows=(TableUse("shop.orders", 2, 7.5),)),
    ReadTrace: MessageTrace(
        request=3,
        rows=(
            TracedMessage(9.1, "out", "Join", "1 2", None),
            TracedMessage(0.5, "in", "Delta", "2", 7),
        ),
    ),
}


def ask(question: ReaderQuestion) -> "Future[Inspected | Refused]":
    """Answer as the reader of the driver ``lacks`` does; no other one answers."""
    found = Future[Inspected | Refused]()
    if question.member.hex() == LACKS:
        found.set_result(ANSWERS[type(question)])
    return found


def read(
    page: str, rest: str = "", *, of: HubStatus = STATUS, is_guarded: bool = True, **query: str
) -> Parts:
    return parts(hub_pages(lambda: of, ask, is_guarded=is_guarded)[page], rest, query)


def column(page: str, name: str, rest: str = "", *, part: str = "", **query: str) -> list[Cell]:
    grid = read(page, rest, **query)[part]
    assert isinstance(grid, Grid)
    return [row[grid.columns.index(name)] for row in grid.rows]


def facts(page: str, rest: str) -> dict[Cell, Cell]:
    return dict(zip(column(page, "name", rest), column(page, "value", rest), strict=True))


def test_drivers_are_shown_with_the_worst_first_and_those_that_have_ended_on_request() -> None:
    assert column("drivers", "application") == ["none", "lacks", "well"]
    assert column("drivers", "application", all="") == ["none", "lacks", "well", "ended"]


def test_each_driver_leads_to_its_own_page_and_says_how_stale_it_is_and_what_to_do() -> None:
    html = read("drivers")[""].html("/drivers", {})
    assert '<a href="/drivers/lacks%40host">lacks</a>' in html
    assert column("drivers", "stale_s") == [None, 0.4, 0.4]
    assert column("drivers", "what to do")[0] == "topicast doctor, on host, says why"


@pytest.mark.parametrize("named", ["lacks", "lacks@host", LACKS, LACKS[:8]])
def test_page_of_a_driver_says_what_it_reads_at_which_level_and_why(named: str) -> None:
    found = facts("drivers", named)
    assert (found["application"], found["reason"]) == ("lacks", "its budget is too small")
    assert (found["stale_s"], found["held_bytes"]) == (0.4, 3)
    (row,) = zip(
        *(
            column("drivers", name, named, part="Tables that it reads")
            for name in ("table", "topic", "level", "why", "read_s")
        ),
        strict=True,
    )
    assert row == ("shop.orders", 2, "minimal", "too large", 7.5)
    assert column("drivers", "why", named, part="Levels") == ["too large", "never read here"]
    assert column("drivers", "message", named, part="Messages") == ["Delta", "Join"]
    assert facts("subscribers", LACKS) == found


def test_names_of_tables_that_a_driver_reads_are_not_shown_to_everybody() -> None:
    shown = read("drivers", "lacks", is_guarded=False)
    html = "".join(part.html("/drivers/lacks", {}) for part in shown.values())
    assert "shop.orders" not in html
    assert "once the pages need a password or a token" in html
    assert "never read here" in html


def test_driver_that_does_not_answer_is_shown_with_what_the_hub_knows_of_it() -> None:
    shown = read("drivers", "well")
    html = "".join(part.html("/drivers/well", {}) for part in shown.values())
    assert "it has not answered within 2 s" in html
    assert facts("drivers", "ended")["state"] == "gone", "which nobody asks"


@pytest.mark.parametrize("page", ["drivers", "subscribers"])
def test_reader_that_is_not_here_is_named(page: str) -> None:
    with pytest.raises(UsageError, match="no driver and no subscriber is called etl here"):
        read(page, "etl")


def test_topics_are_those_that_are_read_and_late_topics_come_first() -> None:
    assert column("topics", "topic") == [3, 2]
    assert column("topics", "topic", all="") == [3, 2, 1, 4]


def test_one_topic_is_shown_with_its_facts() -> None:
    assert column("topics", "value", "3")[:2] == [3, "LIVE"]


def test_pages_of_its_catalogd_are_led_to_once_they_are_known() -> None:
    known = replace(STATUS, catalog_address="tcp://c:26000", catalogd_pages="http://c:25020")
    assert peers_of_hub(STATUS) == {}
    assert peers_of_hub(known) == {"catalogd c:26000": "http://c:25020"}
    (grid,) = read("publisher", of=known).values()
    assert dict(grid.rows)["offers"] == offered_names(known.offers), "levels, not their bits"
    assert '<a href="http://c:25020">http://c:25020</a>' in grid.html("/publisher", {})


@pytest.mark.parametrize("number", ["9", "x", "-1", "3/4"])
def test_topic_that_is_not_there_is_named(number: str) -> None:
    with pytest.raises(UsageError, match=f"there is no topic {number}"):
        column("topics", "value", number)
