"""A hub knows its drivers by what they announce, between registrations and after their end."""

from dataclasses import replace
from math import ceil
from typing import Any

import pytest

from topicast.statestore.members import drivers as module
from topicast.statestore.members.drivers import AWAY_S, GONE_LISTED_S, LEFT, SILENT
from topicast.statestore.status import facts, verdict
from topicast.tests.statestore.hub_driver import (
    HubDriver,
    hello,
    registration,
    seeded,
)
from topicast.topics.objects.drivers import ANNOUNCED, CONNECTING_S
from topicast.topics.wire.messages.answers import Inspected
from topicast.topics.wire.messages.connection import CONTROL_CHANNEL, OPERATOR, Bye, KeepAlive
from topicast.topics.wire.messages.questions import ReadDrivers
from topicast.topics.wire.messages.readers import DriverFacts

ANN = DriverFacts(
    driver="d7",
    application="nightly",
    application_id="app-1",
    user="ann",
    host="node1",
    pid=7,
    spark="4.3.0",
    release="0.1.0",
    state="live",
    reason="",
    control="on",
    hubs=2,
    writer="ab" * 16,
)
BYE = Bye(reason="closed")


@pytest.fixture
def driver() -> HubDriver:
    made, _ = seeded()
    made.greet()
    return made


def announce(driver: HubDriver, name: str = "reader", /, **more: str | int) -> None:
    said = replace(ANN, **more)  # type: ignore[arg-type]  # each has the type of its field
    assert driver.receive(f"{name}-control".encode(), said) == []


def problems(driver: HubDriver) -> list[str]:
    reasons = verdict(driver.status).reasons
    return [one.what for one in reasons if one.code == "drivers_problem"]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({}, ""),
        ({"state": "plain", "reason": "no"}, "nightly is plain: no"),
        ({"reason": "9 of 16 topics"}, "nightly is live: 9 of 16 topics"),
        ({"control": "off"}, "nightly is live, switched to off"),
        ({"application": "", "state": "plain"}, "d7 is plain"),
    ],
)
def test_driver_that_is_not_as_it_should_be_degrades_its_hub(
    driver: HubDriver, said: dict[str, str], shown: str
) -> None:
    announce(driver, **said)
    wanted = [f"drivers are not as they should be: {shown}"] if shown else []
    assert problems(driver) == wanted
    announce(driver)
    assert problems(driver) == []


def test_driver_has_time_to_connect(driver: HubDriver) -> None:
    announce(driver, state="connecting")
    assert problems(driver) == []
    for _ in range(round(CONNECTING_S) + 1):
        driver.pass_time(1.0)
        driver.receive(b"reader-control", KeepAlive())
    assert problems(driver) == ["drivers are not as they should be: nightly is connecting"]


def listed(driver: HubDriver) -> list[dict[str, Any]]:
    """Return the hub's table ``drivers``."""
    driver.receive(b"op", hello("op", OPERATOR, CONTROL_CHANNEL))
    (answer,) = driver.receive(b"op", ReadDrivers(request=7))
    assert isinstance(answer, Inspected)
    return answer.records()


def states(driver: HubDriver) -> list[tuple[str, str]]:
    return [(one.state, one.reason) for one in driver.status.drivers]


def pass_time(driver: HubDriver, seconds: float, *alive: str) -> None:
    """Let time pass in which the readers ``alive`` say so."""
    for _ in range(ceil(seconds / 5)):
        driver.pass_time(min(seconds, 5))
        for one in alive:
            driver.receive(f"{one}-control".encode(), KeepAlive())


def test_driver_is_listed_as_it_announced_itself_and_counted_by_state(driver: HubDriver) -> None:
    """P-INSPECT-3."""
    announce(driver)
    driver.pass_time(0.5)
    (row,) = listed(driver)
    assert {name: row[name] for name in ANNOUNCED} == {
        name: getattr(ANN, name) for name in ANNOUNCED
    }
    assert (row["registration"], row["since_s"]) == (registration("reader").hex(), 0.5)
    announce(driver, reason="2 of 4 topics are not followed")
    assert [one["since_s"] for one in listed(driver)] == [0.5], "it is live since then"
    counts = facts(driver.status)
    assert (counts["drivers_live"], counts["drivers_with_problem"]) == (1, 1)
    assert counts["drivers_with_another_hub"] == 1
    announce(driver, state="plain", hubs=1)
    assert states(driver) == [("plain", "")]
    counts = facts(driver.status)
    assert [counts[f"drivers_{one}"] for one in ("live", "plain", "with_another_hub")] == [0, 1, 0]
    assert counts["drivers_with_problem"] == 1


def test_what_drivers_count_is_added_up_since_each_came_and_never_falls(driver: HubDriver) -> None:
    def saved() -> object:
        return facts(driver.status)["drivers_metastore_calls_saved"]

    announce(driver, metastore_calls_saved=1000)
    assert saved() == 0, "another hub has counted these"
    announce(driver, metastore_calls_saved=1010)
    assert saved() == 10
    announce(driver, metastore_calls_saved=5)
    assert saved() == 15, "another agent of the driver begins at 0"
    announce(driver, driver="d8", metastore_calls_saved=7)
    assert saved() == 15, "a process is one driver"


def test_driver_that_registers_anew_is_one_driver_and_listed_meanwhile(driver: HubDriver) -> None:
    """It has left, and is not gone: it said that it connects."""
    announce(driver, state="connecting", reason="the subscriber has ended")
    driver.receive(b"reader-control", BYE)
    pass_time(driver, AWAY_S - 5)
    assert states(driver) == [("connecting", "the subscriber has ended")]
    driver.greet("again")
    announce(driver, "again")
    assert states(driver) == [("live", "")]
    assert [one["registration"] for one in listed(driver)] == [registration("again").hex()]
    announce(driver, "again", state="connecting")
    driver.receive(b"again-control", BYE)
    pass_time(driver, AWAY_S + 2)
    assert states(driver) == [("gone", LEFT)]
    assert facts(driver.status)["drivers_with_problem"] == 0


@pytest.mark.parametrize("state", ["live", "detached"])
def test_driver_that_has_left_is_gone_for_an_hour(driver: HubDriver, state: str) -> None:
    announce(driver, state=state)
    driver.receive(b"reader-control", BYE)
    (row,) = listed(driver)
    assert (row["state"], row["reason"]) == ("gone", LEFT)
    who = ("driver", "application", "application_id", "user", "host", "pid")
    assert [row[name] for name in who] == [getattr(ANN, name) for name in who]
    driver.tick(GONE_LISTED_S - 5)
    assert [one["state"] for one in listed(driver)] == ["gone"]
    driver.tick(6)
    assert listed(driver) == []


def test_driver_that_goes_silent_is_gone_until_it_is_heard_of(driver: HubDriver) -> None:
    announce(driver)
    pass_time(driver, 10)
    assert states(driver) == [("gone", SILENT)]
    driver.receive(b"reader-control", KeepAlive())
    driver.pass_time(2)
    assert states(driver) == [("live", "")]
    pass_time(driver, 400)
    assert states(driver) == [("gone", SILENT)], "though its member is not kept so long"


def test_drivers_that_are_gone_are_bounded(
    driver: HubDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    announce(driver)
    announce(driver, driver="d8")
    assert [one.driver for one in driver.status.drivers] == ["d7"], "a process is one driver"
    monkeypatch.setattr(module, "GONE_MAX", 3)
    for number in range(6):
        driver.greet(f"r{number}")
        announce(driver, f"r{number}", driver=f"e{number}", state=("live", "plain")[number % 2])
        driver.receive(f"r{number}-control".encode(), BYE)
        driver.hub.check()
    left = {one.driver for one in driver.status.drivers}
    assert left == {"d7", "e3", "e4", "e5"}, "the last to go, and those that are there"


def test_texts_of_drivers_that_are_gone_are_bounded_together(
    driver: HubDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GONE_CHARS_MAX", 1000)
    for number in range(6):
        driver.greet(f"r{number}")
        announce(driver, f"r{number}", driver=f"e{number}", application="x" * 400)
        driver.receive(f"r{number}-control".encode(), BYE)
        driver.hub.check()
    assert {one.driver for one in driver.status.drivers} == {"e4", "e5"}
