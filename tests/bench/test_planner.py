"""The planner's benchmark has a bound that no plan exceeds, and that is as tight as it can be."""

import pytest

from topicast.tests.bench.bench_planner import bound, hull, waits_s
from topicast.tests.bench.lake import Driver, Lake
from topicast.topics.topic import NAMESPACE


def test_tables_are_cached_before_their_topic_is_held_whole() -> None:
    assert hull([(10, 1.0), (10, 5.0)], (100, 10.0)) == [(10, 5.0), (10, 1.0), (80, 4.0)]
    assert hull([(10, 0.1), (10, 5.0)], (100, 10.0)) == [(10, 5.0), (90, 5.0)]


def test_with_room_for_all_no_read_waits_and_without_room_each_does() -> None:
    lake = Lake(20, partitions=1000, seed=1)
    facts = [(second, table, False) for second in (0.0, 1.0) for table in range(5)]
    each_s = sum(waits_s(lake.sizes)[:5])
    names = lake.topics[NAMESPACE].held_bytes
    rooms = 0, sum(lake.sizes[:5]), sum(topic.held_bytes for topic in lake.topics.values())
    none, cached, full = (bound(lake, facts, budget_bytes=names + room)[0] for room in rooms)
    assert none == 0
    assert each_s <= cached <= full
    assert full == pytest.approx(2 * each_s)


def test_change_is_prefetched() -> None:
    lake = Lake(20, partitions=1000, seed=1)
    first, change, second = (0.0, 1, False), (1.0, 1, True), (2.0, 1, False)
    room = lake.topics[NAMESPACE].held_bytes + lake.sizes[1]
    calm = bound(lake, [first, second], budget_bytes=room)
    assert bound(lake, [first, change, second], budget_bytes=room) == calm
    assert calm[0] >= waits_s(lake.sizes)[1]


def test_change_of_a_table_changes_no_other_table() -> None:
    lake = Lake(20, partitions=1000, seed=1)
    driver = Driver(lake, budget_bytes=1 << 20, automatic=True)
    driver.start()
    first, *others = [number for number, count in enumerate(lake.counts) if count]
    for number in others:
        driver.change(number)
    before = [lake.version(number) for number in others]
    driver.change(first)
    assert [lake.version(number) for number in others] == before
