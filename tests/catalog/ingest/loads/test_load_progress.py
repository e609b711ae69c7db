import pytest

from topicast.catalog.ingest.loads.load_progress import STEPS_MAX, LoadFacts, LoadProgress
from topicast.topics.turn import Turn


class World:
    """The progress of a load, in virtual time."""

    def __init__(self) -> None:
        self.turn = Turn[object]()
        self.progress = LoadProgress(self.turn)

    def measure(self, left: int, *, now: float) -> LoadFacts:
        self.turn.now = now
        return self.progress.measure(left)


def test_time_left_is_at_the_pace_of_the_load() -> None:
    world = World()
    assert world.measure(100, now=10.0) == LoadFacts(0, 100, None)
    assert world.measure(90, now=12.0) == LoadFacts(10, 90, pytest.approx(18.0))
    assert world.measure(90, now=14.0) == LoadFacts(10, 90, pytest.approx(36.0))


def test_tables_that_come_while_others_are_read_are_of_the_same_load() -> None:
    world = World()
    world.measure(10, now=0.0)
    world.measure(4, now=1.0)
    assert world.measure(9, now=2.0) == LoadFacts(6, 9, pytest.approx(3.0))
    assert world.measure(0, now=3.0) == LoadFacts(), "it is over"
    assert world.measure(5, now=4.0) == LoadFacts(0, 5, None), "another one"


def test_pace_is_that_of_the_last_minute() -> None:
    world = World()
    left = 100_000
    for second in range(100):
        left -= 100 if second < 30 else 1
        found = world.measure(left, now=float(second))
    assert found.left_s == pytest.approx(left / 1.0)
    assert STEPS_MAX < 70


def test_load_that_stands_still_has_no_time_left() -> None:
    world = World()
    for second in range(2 * STEPS_MAX):
        found = world.measure(7, now=float(second))
    assert found == LoadFacts(0, 7, None)
