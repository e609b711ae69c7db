"""Heartbeats are sent once in a period, and soon after a new subscription."""

import pytest

from topicast.statestore.effects import Subscription
from topicast.statestore.heartbeats import SOON_S, HeartbeatTimer
from topicast.tests.statestore.hub_driver import HubDriver
from topicast.topics.topic import FULL
from topicast.topics.wire import decode
from topicast.topics.wire.header import HEARTBEAT_PREFIX, prefix
from topicast.topics.wire.messages.data import Heartbeat

PERIOD_S = 0.25
CROWD = 1000
BEGINS, ENDS = b"\1" + HEARTBEAT_PREFIX, b"\0" + HEARTBEAT_PREFIX


@pytest.fixture
def timer() -> HeartbeatTimer:
    """A timer whose last heartbeat was sent at 10.0, on time."""
    timer = HeartbeatTimer(PERIOD_S)
    timer.due_at = 10.0
    timer.on_sent(now=10.0, members=CROWD)
    return timer


def test_first_heartbeat_is_due_at_once() -> None:
    assert HeartbeatTimer(PERIOD_S).due_at == 0.0


def test_next_heartbeat_is_due_after_a_period_and_a_late_heartbeat_is_made_up_for(
    timer: HeartbeatTimer,
) -> None:
    assert timer.due_at == 10.25
    timer.on_sent(now=10.3, members=CROWD)
    assert timer.due_at == 10.5
    timer.on_sent(now=20.0, members=CROWD)
    assert timer.due_at == 20.125


def test_new_subscribers_are_sent_a_heartbeat_soon_and_share_it(timer: HeartbeatTimer) -> None:
    """P-HEARTBEAT-6."""
    for now in (10.01, 10.02, 10.03):
        timer.on_subscription(BEGINS, now=now)
        assert timer.due_at == 10.0 + SOON_S
    timer.on_sent(now=10.05, members=CROWD)
    timer.on_subscription(BEGINS, now=10.225)
    assert timer.due_at == 10.225


@pytest.mark.parametrize(
    ("members", "first_ms", "in_a_second"),
    [
        (1000, [50, 150, 350, 600, 850], 5),
        (50, [50, 150, 250, 350, 450], 10),
        (1, [50, 101, 152, 203, 254], 19),
    ],
)
def test_pause_before_a_heartbeat_doubles_while_readers_come_and_is_short_after_that(
    timer: HeartbeatTimer, members: int, first_ms: list[int], in_a_second: int
) -> None:
    """P-HEARTBEAT-6."""
    sent_ms = []
    for ms in range(10_001, 12_000):
        if ms < 11_000:
            timer.on_subscription(BEGINS, now=ms / 1000)
        if ms / 1000 >= timer.due_at:
            timer.on_sent(now=ms / 1000, members=members)
            sent_ms.append(ms - 10_000)
    assert sent_ms[:5] == pytest.approx(first_ms, abs=2)
    assert len([ms for ms in sent_ms if ms < 1000]) == in_a_second
    assert len([ms for ms in sent_ms if ms >= 1000]) in {3, 4}, "one in a period"
    timer.on_subscription(BEGINS, now=12.0)
    assert timer.due_at == 12.0


@pytest.mark.parametrize(
    ("frame", "now"),
    [
        (BEGINS, 10.3),
        (ENDS, 10.125),
        (b"\1" + prefix(1, FULL), 10.125),
        (b"\1", 10.125),
        (b"", 10.125),
    ],
)
def test_late_or_other_subscription_changes_nothing(
    timer: HeartbeatTimer, frame: bytes, now: float
) -> None:
    timer.on_subscription(frame, now=now)
    assert timer.due_at == 10.25


def test_hub_sends_a_heartbeat_to_a_new_subscriber_at_once() -> None:
    """P-HEARTBEAT-6."""
    driver = HubDriver()
    driver.heartbeat(1.0)
    driver.frames.clear()
    driver.tick(0.1)
    assert driver.frames == []
    driver.handle(Subscription(BEGINS))
    assert driver.hub.deadline <= driver.now
    driver.tick()
    assert [type(decode(frame)) for frame in driver.frames] == [Heartbeat]
    driver.handle(Subscription(ENDS))
    driver.tick(0.1)
    assert len(driver.frames) == 1, "the end of a subscription needs none"
