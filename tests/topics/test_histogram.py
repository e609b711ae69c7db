from topicast.topics.histogram import Histogram


def test_values_are_counted_by_the_bounds_that_they_reach_and_summed() -> None:
    made = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        made.add(value)
    made.add(2.0, 3)
    found = made.facts()
    assert (found.bounds, found.counts, found.total) == ((1.0, 2.0), (2, 6, 7), 18.0)
    assert found.count == 7


def test_what_was_read_of_it_does_not_change() -> None:
    made = Histogram((1.0,))
    before = made.facts()
    made.add(0.5)
    assert (before.count, made.facts().count) == (0, 1)
