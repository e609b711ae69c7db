from dataclasses import replace

import pytest

from topicast.cli.pages.hub_pages import hub_pages, peers_of_hub
from topicast.statestore.status import DriverStatus, HubStatus, TopicStatus
from topicast.tests.statestore.hub_driver import HubDriver
from topicast.topics.errors import UsageError
from topicast.topics.wire.messages import Cell

READ_BY = {1: (0, 0), 2: (3, 0), 3: (0, 1), 4: (0, 0)}  # each topic in full, and at its minimum


def driver(name: str, state: str, reason: str = "") -> DriverStatus:
    return DriverStatus(
        driver=f"{name}@host",
        registration=name,
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


def topic(number: int) -> TopicStatus:
    full, minimal = READ_BY[number]
    return TopicStatus(
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


STATUS: HubStatus = replace(
    HubDriver().status,
    topics=tuple(map(topic, READ_BY)),
    drivers=(
        driver("ended", "gone"),
        driver("well", "live"),
        driver("lacks", "live", "its budget is too small"),
        driver("none", "plain", "switched off"),
    ),
)


def column(page: str, name: str, rest: str = "", **query: str) -> list[Cell]:
    (grid,) = hub_pages(lambda: STATUS)[page].read(rest, query).values()
    return [row[grid.columns.index(name)] for row in grid.rows]


def test_drivers_are_shown_with_the_worst_first_and_those_that_have_ended_on_request() -> None:
    assert column("drivers", "application") == ["none", "lacks", "well"]
    assert column("drivers", "application", all="") == ["none", "lacks", "well", "ended"]


def test_topics_are_those_that_are_read_and_late_ones_come_first() -> None:
    assert column("topics", "topic") == [3, 2]
    assert column("topics", "topic", all="") == [3, 2, 1, 4]


def test_one_topic_is_shown_with_its_facts() -> None:
    assert column("topics", "value", "3")[:2] == [3, "LIVE"]


def test_pages_of_its_catalogd_are_led_to_once_they_are_known() -> None:
    known = replace(STATUS, catalog_address="tcp://c:26000", catalogd_pages="http://c:25020")
    assert peers_of_hub(STATUS) == {}
    assert peers_of_hub(known) == {"catalogd c:26000": "http://c:25020"}
    (grid,) = hub_pages(lambda: known)["publisher"].read("", {}).values()
    assert '<a href="http://c:25020">http://c:25020</a>' in grid.html("/publisher", {})


@pytest.mark.parametrize("number", ["9", "x", "-1", "3/4"])
def test_topic_that_is_not_there_is_named(number: str) -> None:
    with pytest.raises(UsageError, match=f"there is no topic {number}"):
        column("topics", "value", number)
