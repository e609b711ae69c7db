"""The latency estimate: pulls are measured, and one slow pull changes little."""

import pytest

from topicast.subscriber.fetcher import (
    BYTES_PER_S,
    BYTES_PER_S_MAX,
    BYTES_PER_S_MIN,
    LARGE_BYTES,
    ROUND_TRIP_S,
    ROUND_TRIP_S_MAX,
    ROUND_TRIP_S_MIN,
    SMALL_BYTES,
    LatencyEstimate,
)
from topicast.tests.cluster.shopping import Shopping


def test_small_pulls_measure_the_round_trip_and_large_ones_the_rate() -> None:
    latency = LatencyEstimate()
    for _ in range(100):
        latency.note(SMALL_BYTES, 0.02)
        latency.note(10 * LARGE_BYTES, 0.02 + 10 * LARGE_BYTES / 5e6)
    assert latency.round_trip_s == pytest.approx(0.02, rel=0.01)
    assert latency.bytes_per_s == pytest.approx(5e6, rel=0.01)
    assert latency.waiting_s(3, 5e6) == pytest.approx(1.06, rel=0.01)


def test_one_slow_pull_changes_the_estimate_a_little() -> None:
    latency = LatencyEstimate()
    latency.note(100, 30.0)
    assert ROUND_TRIP_S < latency.round_trip_s <= 1.3 * ROUND_TRIP_S + 1e-12
    latency.note(LARGE_BYTES, 30.0)
    assert 0.9 * BYTES_PER_S <= latency.bytes_per_s < BYTES_PER_S


def test_pulls_are_measured_and_the_planner_calculates_with_them() -> None:
    shopping = Shopping(automatic=True, never=("shop.orders",))
    latency = shopping.reader.member.placement.planner.latency
    shopping.reader.slow = 0.05
    for _ in range(50):
        shopping.table("shop.orders")
    assert latency.round_trip_s == pytest.approx(0.07, rel=0.1)


def test_measurement_that_says_nothing_is_ignored() -> None:
    latency = LatencyEstimate()
    latency.note(100, 0.0)
    latency.note(SMALL_BYTES + 1, 1.0)
    latency.note(LARGE_BYTES, ROUND_TRIP_S)
    assert (latency.round_trip_s, latency.bytes_per_s) == (ROUND_TRIP_S, BYTES_PER_S)


def test_latency_estimates_stay_within_reason() -> None:
    latency = LatencyEstimate()
    for _ in range(300):
        latency.note(100, 100.0)
        latency.note(LARGE_BYTES, 1e9)
    assert (latency.round_trip_s, latency.bytes_per_s) == (ROUND_TRIP_S_MAX, BYTES_PER_S_MIN)
    for _ in range(300):
        latency.note(100, 1e-9)
    for _ in range(300):
        latency.note(1 << 40, 0.1)
    assert (latency.round_trip_s, latency.bytes_per_s) == (ROUND_TRIP_S_MIN, BYTES_PER_S_MAX)
