import pytest

from topicast.catalog.ingest.load_progress import STEPS_MAX, LoadFacts, LoadProgress


def test_time_left_is_at_the_pace_of_the_load() -> None:
    progress = LoadProgress()
    assert progress.measure(100, now=10.0) == LoadFacts(0, 100, None)
    assert progress.measure(90, now=12.0) == LoadFacts(10, 90, pytest.approx(18.0))
    assert progress.measure(90, now=14.0) == LoadFacts(10, 90, pytest.approx(36.0))


def test_tables_that_come_while_others_are_read_are_of_the_same_load() -> None:
    progress = LoadProgress()
    progress.measure(10, now=0.0)
    progress.measure(4, now=1.0)
    assert progress.measure(9, now=2.0) == LoadFacts(6, 9, pytest.approx(3.0))
    assert progress.measure(0, now=3.0) == LoadFacts(), "it is over"
    assert progress.measure(5, now=4.0) == LoadFacts(0, 5, None), "another one"


def test_pace_is_that_of_the_last_minute() -> None:
    progress = LoadProgress()
    left = 100_000
    for second in range(100):
        left -= 100 if second < 30 else 1
        found = progress.measure(left, now=float(second))
    assert found.left_s == pytest.approx(left / 1.0)
    assert STEPS_MAX < 70


def test_load_that_stands_still_has_no_time_left() -> None:
    progress = LoadProgress()
    for second in range(2 * STEPS_MAX):
        found = progress.measure(7, now=float(second))
    assert found == LoadFacts(0, 7, None)
