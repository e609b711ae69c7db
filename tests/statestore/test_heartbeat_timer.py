"""When heartbeats go out: in steps of a period, and for whoever comes."""

import pytest

from topicast.statestore.facts import Subscription
from topicast.statestore.heartbeat_timer import SOON_S, Pace
from topicast.tests.statestore.scripted import Stage
from topicast.topics.entries import FULL
from topicast.topics.wire import decode
from topicast.topics.wire.header import HEARTBEAT_PREFIX, prefix
from topicast.topics.wire.messages import Heartbeat

PERIOD_S = 0.25
BEGINS, ENDS = b"\1" + HEARTBEAT_PREFIX, b"\0" + HEARTBEAT_PREFIX


@pytest.fixture
def pace() -> Pace:
    """What has sent one at 10.0, on time."""
    pace = Pace(PERIOD_S)
    pace.at = 10.0
    pace.sent(now=10.0)
    return pace


def test_first_is_due_at_once() -> None:
    assert Pace(PERIOD_S).at == 0.0


def test_next_is_due_after_a_period_and_one_that_was_late_is_made_up_for(pace: Pace) -> None:
    assert pace.at == 10.25
    pace.sent(now=10.3)
    assert pace.at == 10.5
    pace.sent(now=20.0)
    assert pace.at == 20.125


def test_who_comes_is_sent_one_at_once(pace: Pace) -> None:
    pace.heard(BEGINS, now=10.125)
    assert pace.at == 10.125
    pace.sent(now=10.125)
    assert pace.at == 10.375


def test_many_who_come_share_one(pace: Pace) -> None:
    for now in (10.01, 10.02, 10.03):
        pace.heard(BEGINS, now=now)
        assert pace.at == 10.0 + SOON_S


def test_who_comes_puts_nothing_off(pace: Pace) -> None:
    pace.heard(BEGINS, now=10.3)
    assert pace.at == 10.25


@pytest.mark.parametrize("frame", [ENDS, b"\1" + prefix(1, FULL), b"\1", b""])
def test_nobody_else_is_waited_for(pace: Pace, frame: bytes) -> None:
    pace.heard(frame, now=10.125)
    assert pace.at == 10.25


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
