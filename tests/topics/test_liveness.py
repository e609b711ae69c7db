"""Silence of a peer, and silence that was our own."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.topics.liveness import LIVE, LOST, LOST_S, STALL_S, SUSPECT, SUSPECT_S, Liveness


def _state_asked_on_time(peer: Liveness, until: float) -> str:
    while peer.deadline <= until:
        peer.state(peer.deadline)
        peer.check()
    return peer.state(until)


def test_peer_is_live_while_it_sends() -> None:
    peer = Liveness(100.0)
    for second in range(20):
        assert _state_asked_on_time(peer, 100.0 + second) == LIVE
        peer.on_message(100.0 + second)


@pytest.mark.parametrize(
    ("limits", "times"),
    [((), (1.9, SUSPECT_S, 7.9, LOST_S)), ((0.5, 0.75), (0.4, 0.5, 0.7, 0.75))],
    ids=["by default", "as given"],
)
def test_silence_makes_suspect_and_then_lost(
    limits: tuple[float, ...], times: tuple[float, ...]
) -> None:
    peer = Liveness(0.0, *limits)
    states = [_state_asked_on_time(peer, now) for now in times]
    assert states == [LIVE, SUSPECT, SUSPECT, LOST]
    assert peer.deadline == inf


def test_lost_peer_that_sends_is_live_again() -> None:
    peer = Liveness(0.0)
    assert _state_asked_on_time(peer, 50.0) == LOST
    peer.on_message(50.0)
    assert peer.deadline == 50.0 + SUSPECT_S
    assert _state_asked_on_time(peer, 51.0) == LIVE


@pytest.mark.parametrize("late_s", [0.0, STALL_S - 0.01])
def test_little_lateness_is_no_excuse(late_s: float) -> None:
    peer = Liveness(0.0)
    assert peer.deadline == SUSPECT_S
    assert peer.state(SUSPECT_S + late_s) == SUSPECT
    assert peer.deadline == LOST_S


def test_own_stall_puts_the_deadline_off_by_its_length() -> None:
    peer = Liveness(0.0)
    assert peer.state(SUSPECT_S + 0.5) == LIVE
    assert peer.deadline == SUSPECT_S + 1.0
    assert peer.state(SUSPECT_S + 1.0) == SUSPECT


def test_long_stall_does_not_lose_a_peer_that_was_suspect() -> None:
    peer = Liveness(0.0)
    assert peer.state(SUSPECT_S) == SUSPECT
    assert peer.state(60.0) == SUSPECT
    assert peer.deadline == 60.0 + SUSPECT_S
    peer.on_message(60.5)
    assert peer.state(61.0) == LIVE


def test_deadline_is_put_off_once_so_that_a_sluggish_caller_still_loses_a_dead_peer() -> None:
    peer = Liveness(0.0)
    states = [peer.state(now) for now in (5.0, 10.0, 15.0, 20.0, 25.0)]
    assert states == [LIVE, SUSPECT, SUSPECT, LOST, LOST]


@given(st.lists(st.floats(0.001, 30.0), max_size=30), st.data())
def test_no_call_takes_a_peer_from_live_to_lost(gaps: list[float], data: st.DataObject) -> None:
    peer = Liveness(0.0)
    now, before = 0.0, LIVE
    for gap in gaps:
        now += gap
        if data.draw(st.booleans()):
            peer.on_message(now)
            before = LIVE
        state = peer.state(now)
        peer.check()
        assert (before, state) not in {(LIVE, LOST), (LOST, SUSPECT), (LOST, LIVE)}
        assert peer.deadline > now
        before = state
