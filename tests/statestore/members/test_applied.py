"""The hub measures when readers report what it has broadcast, by its own clock."""

from dataclasses import replace

import pytest

from topicast.statestore.members.applied import STEP_S, STEPS_MAX, VersionTimes
from topicast.tests.statestore.hub_driver import (
    CONTROL,
    READER_CONTROL,
    HubDriver,
    PublisherPeer,
    at,
    hello,
    seeded,
)
from topicast.topics.topic import MINIMAL
from topicast.topics.wire.messages.connection import CONTROL_CHANNEL, READER
from topicast.topics.wire.messages.readers import Join, Position, ReaderStatus


def status(*positions: Position) -> ReaderStatus:
    return ReaderStatus(positions=positions, lag_us=0, held_bytes=0, budget_bytes=0)


def measured(driver: HubDriver) -> tuple[int, float]:
    """Return how many values there are, and their sum in seconds."""
    found = driver.status.applied
    return found.count, pytest.approx(found.total)


@pytest.fixture
def hub() -> tuple[HubDriver, PublisherPeer]:
    """A hub with one change of topic 1, and a reader that has joined before it was sent."""
    driver, publisher = seeded()
    driver.greet()
    driver.receive(READER_CONTROL, Join(request=1, positions=(at(1), at(2, level=MINIMAL))))
    driver.put(publisher.change(1))
    return driver, publisher


def test_report_is_measured_from_the_broadcast_of_the_first_change_in_it(
    hub: tuple[HubDriver, PublisherPeer],
) -> None:
    driver, publisher = hub
    driver.tick(0.3)
    driver.put(publisher.change(1))
    driver.put(publisher.change(2))
    driver.tick(0.2)
    driver.receive(READER_CONTROL, status(at(1, 2), at(2, 1, level=MINIMAL)))
    assert measured(driver) == (2, 0.5 + 0.2)
    driver.tick(1.0)
    driver.receive(READER_CONTROL, status(at(1, 2)))
    assert measured(driver)[0] == 2, "it has not moved"


def test_what_a_reader_lacked_as_it_joined_does_not_count(
    hub: tuple[HubDriver, PublisherPeer],
) -> None:
    driver, publisher = hub
    driver.tick(5.0)
    driver.greet("late")
    driver.receive(b"late-control", Join(request=1, positions=(at(1),)))
    driver.receive(b"late-control", status(at(1, 1)))
    assert measured(driver)[0] == 0
    driver.put(publisher.change(1))
    driver.tick(0.25)
    driver.receive(b"late-control", status(at(1, 2)))
    assert measured(driver) == (1, 0.25)


def test_level_that_is_denied_does_not_make_what_a_reader_lacked_count(
    hub: tuple[HubDriver, PublisherPeer],
) -> None:
    driver, publisher = hub
    driver.receive(CONTROL, replace(publisher.heartbeat(), offers=MINIMAL))
    driver.tick(5.0)
    driver.greet("late")
    driver.receive(b"late-control", Join(request=1, positions=(at(1, level=MINIMAL),)))
    driver.receive(b"late-control", Join(request=2, positions=(at(1),)))
    driver.receive(b"late-control", status(at(1, 1, level=MINIMAL)))
    assert measured(driver)[0] == 0


def test_command_and_another_epoch_do_not_count(hub: tuple[HubDriver, PublisherPeer]) -> None:
    driver, publisher = hub
    driver.receive(READER_CONTROL, status(at(1, 7, epoch=11)))
    one_shot = replace(hello("one-shot", READER, CONTROL_CHANNEL), is_command=True)
    driver.receive(b"one-shot", one_shot)
    driver.receive(b"one-shot", Join(request=1, positions=(at(1),)))
    driver.put(publisher.change(1))
    driver.receive(b"one-shot", status(at(1, 2)))
    assert measured(driver)[0] == 0


def test_times_of_a_busy_topic_are_bounded_and_begin_with_the_oldest() -> None:
    times = VersionTimes()
    assert times.first_after(0) is None
    for version in range(1, 10 * STEPS_MAX):
        times.add(version, now=version * STEP_S)
    assert times.first_after(10 * STEPS_MAX - 2) == pytest.approx((10 * STEPS_MAX - 1) * STEP_S)
    assert times.first_after(10 * STEPS_MAX - 1) is None, "nothing is newer"
    oldest = times.first_after(0)
    assert oldest is not None
    assert STEPS_MAX * STEP_S <= 10 * STEPS_MAX * STEP_S - oldest <= 2 * STEPS_MAX * STEP_S


def test_changes_of_one_moment_are_one_step() -> None:
    times = VersionTimes()
    for version in range(1, 4):
        times.add(version, now=version * STEP_S / 4)
    assert times.first_after(2) == STEP_S / 4
    assert times.first_after(3) is None
