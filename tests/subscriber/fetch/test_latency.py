"""What a pull costs is measured, and one slow pull changes little."""

import pytest

from topicast.subscriber.fetch.latency import (
    BYTES_PER_S,
    BYTES_PER_S_MAX,
    BYTES_PER_S_MIN,
    LARGE_BYTES,
    ROUND_TRIP_S,
    ROUND_TRIP_S_MAX,
    ROUND_TRIP_S_MIN,
    SMALL_BYTES,
    Costs,
)
from topicast.tests.subscriber.world import started
from topicast.topics.wire.messages import Pulled


def test_small_pulls_tell_the_round_trip_and_large_ones_the_rate() -> None:
    costs = Costs()
    for _ in range(100):
        costs.note(SMALL_BYTES, 0.02)
        costs.note(10 * LARGE_BYTES, 0.02 + 10 * LARGE_BYTES / 5e6)
    assert costs.round_trip_s == pytest.approx(0.02, rel=0.01)
    assert costs.bytes_per_s == pytest.approx(5e6, rel=0.01)
    assert costs.waiting_s(3, 5e6) == pytest.approx(1.06, rel=0.01)


def test_one_slow_pull_moves_it_a_little() -> None:
    costs = Costs()
    costs.note(100, 30.0)
    assert ROUND_TRIP_S < costs.round_trip_s <= 1.3 * ROUND_TRIP_S + 1e-12
    costs.note(LARGE_BYTES, 30.0)
    assert 0.9 * BYTES_PER_S <= costs.bytes_per_s < BYTES_PER_S


def test_pulls_are_measured_and_the_planner_reckons_with_them() -> None:
    world = started(automatic=True, never=("shop.orders",))
    costs = world.member._service.pulls.costs
    assert costs is world.member.choosing._planner._costs
    world.table("shop.orders")
    assert costs.round_trip_s == ROUND_TRIP_S  # no time has passed: that says nothing
    for _ in range(50):
        world.held_back = lambda _channel, message: isinstance(message, Pulled)
        world.table("shop.orders")
        world.pass_time(0.05)
        world.release()
    assert costs.round_trip_s == pytest.approx(0.05, rel=0.1)


def test_what_says_nothing_is_left_out() -> None:
    costs = Costs()
    costs.note(100, 0.0)
    costs.note(SMALL_BYTES + 1, 1.0)
    costs.note(LARGE_BYTES, ROUND_TRIP_S)
    assert (costs.round_trip_s, costs.bytes_per_s) == (ROUND_TRIP_S, BYTES_PER_S)


def test_costs_stay_within_reason() -> None:
    costs = Costs()
    for _ in range(300):
        costs.note(100, 100.0)
        costs.note(LARGE_BYTES, 1e9)
    assert (costs.round_trip_s, costs.bytes_per_s) == (ROUND_TRIP_S_MAX, BYTES_PER_S_MIN)
    for _ in range(300):
        costs.note(100, 1e-9)
    for _ in range(300):
        costs.note(1 << 40, 0.1)
    assert (costs.round_trip_s, costs.bytes_per_s) == (ROUND_TRIP_S_MIN, BYTES_PER_S_MAX)
