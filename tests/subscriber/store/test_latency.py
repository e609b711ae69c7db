"""The latency of pulls, as measured."""

import pytest

from topicast.subscriber.store.latency import (
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


def test_small_pulls_measure_the_round_trip_and_large_pulls_the_rate() -> None:
    latency = LatencyEstimate()
    for _ in range(100):
        latency.note(SMALL_BYTES, 0.02)
        latency.note(10 * LARGE_BYTES, 0.02 + 10 * LARGE_BYTES / 5e6)
    assert latency.round_trip_s == pytest.approx(0.02, rel=0.01)
    assert latency.bytes_per_s == pytest.approx(5e6, rel=0.01)
    assert latency.even_bytes == pytest.approx(100_000, rel=0.02)
    assert latency.saved(3, 5e6) == pytest.approx(53, rel=0.02)


@pytest.mark.parametrize(
    ("size", "took_s", "round_trip", "rate"),
    [
        pytest.param(100, 30.0, 1.3, 1.0, id="one slow pull"),
        pytest.param(LARGE_BYTES, 30.0, 1.0, 0.925, id="one slow pull of many bytes"),
        pytest.param(100, 0.0, 1.0, 1.0, id="no time"),
        pytest.param(SMALL_BYTES + 1, 1.0, 1.0, 1.0, id="neither small nor large"),
        pytest.param(LARGE_BYTES, ROUND_TRIP_S, 1.0, 1.0, id="faster than a round trip"),
    ],
)
def test_one_measurement_changes_the_estimate_a_little_or_not_at_all(
    size: int, took_s: float, round_trip: float, rate: float
) -> None:
    latency = LatencyEstimate()
    latency.note(size, took_s)
    assert latency.round_trip_s == pytest.approx(round_trip * ROUND_TRIP_S)
    assert latency.bytes_per_s == pytest.approx(rate * BYTES_PER_S)


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


def test_the_farther_catalogd_is_the_more_small_tables_are_worth_beside_a_large_one() -> None:
    near, far = LatencyEstimate(), LatencyEstimate()
    near.round_trip_s, far.round_trip_s = ROUND_TRIP_S_MIN, ROUND_TRIP_S_MAX
    reads, size = 10, 100
    assert near.saved(reads, reads * size) < near.saved(1, 1_000_000)
    assert far.saved(reads, reads * size) > far.saved(1, 1_000_000)
