"""When heartbeats go out: in steps of a period, and for whoever comes."""

import pytest

from topicast.statestore.facts import Subscription
from topicast.statestore.heartbeat_timer import SOON_S, HeartbeatTimer
from topicast.tests.statestore.scripted import Stage
from topicast.topics.entries import FULL
from topicast.topics.wire import decode
from topicast.topics.wire.header import HEARTBEAT_PREFIX, prefix
from topicast.topics.wire.messages import Heartbeat

PERIOD_S = 0.25
BEGINS, ENDS = b"\1" + HEARTBEAT_PREFIX, b"\0" + HEARTBEAT_PREFIX


@pytest.fixture
def timer() -> HeartbeatTimer:
    """What has sent one at 10.0, on time."""
    timer = HeartbeatTimer(PERIOD_S)
    timer.due_at = 10.0
    timer.on_sent(now=10.0)
    return timer


def test_first_is_due_at_once() -> None:
    assert HeartbeatTimer(PERIOD_S).due_at == 0.0


def test_next_is_due_after_a_period_and_one_that_was_late_is_made_up_for(
    timer: HeartbeatTimer,
) -> None:
    assert timer.due_at == 10.25
    timer.on_sent(now=10.3)
    assert timer.due_at == 10.5
    timer.on_sent(now=20.0)
    assert timer.due_at == 20.125


def test_who_comes_is_sent_one_at_once(timer: HeartbeatTimer) -> None:
    timer.on_subscription(BEGINS, now=10.125)
    assert timer.due_at == 10.125
    timer.on_sent(now=10.125)
    assert timer.due_at == 10.375


def test_many_who_come_share_one(timer: HeartbeatTimer) -> None:
    """P-HEARTBEAT-6."""
    for now in (10.01, 10.02, 10.03):
        timer.on_subscription(BEGINS, now=now)
        assert timer.due_at == 10.0 + SOON_S


def test_who_comes_puts_nothing_off(timer: HeartbeatTimer) -> None:
    timer.on_subscription(BEGINS, now=10.3)
    assert timer.due_at == 10.25


@pytest.mark.parametrize("frame", [ENDS, b"\1" + prefix(1, FULL), b"\1", b""])
def test_nobody_else_is_waited_for(timer: HeartbeatTimer, frame: bytes) -> None:
    timer.on_subscription(frame, now=10.125)
    assert timer.due_at == 10.25


def test_who_begins_to_listen_is_sent_a_heartbeat_at_once() -> None:
    """P-HEARTBEAT-6."""
    stage = Stage()
    stage.heartbeat(1.0)
    stage.frames.clear()
    stage.tick(0.1)
    assert stage.frames == []
    stage.tell(Subscription(BEGINS))
    assert stage.hub.deadline <= stage.now
    stage.tick()
    assert [type(decode(frame)) for frame in stage.frames] == [Heartbeat]
    stage.tell(Subscription(ENDS))
    stage.tick(0.1)
    assert len(stage.frames) == 1, "who leaves needs none"
