"""The driver of the benchmark by Zipf's law, on a small lake: that its checks can fail."""

import pytest

from topicast.tests.bench.bench_zipf import ours
from topicast.tests.bench.lake import Driver, Lake
from topicast.tests.cluster.cluster import NetworkOrder

FACTS = [
    (at / 10, table, changes)
    for at, (table, changes) in enumerate([(1, False), (2, False), (1, False), (1, True)] * 50)
]


@pytest.fixture
def driver() -> Driver:
    lake = Lake(20, partitions=1000, seed=1)
    driver = Driver(lake, budget_bytes=sum(lake.sizes), automatic=True)
    driver.start()
    return driver


def test_driver_answers_from_memory_and_never_older_than_it_applied(driver: Driver) -> None:
    found = ours(FACTS, driver)["all"]
    assert (found.reads, found.older, found.first) == (150, 0, 2)
    assert 0 < found.changed <= 50
    assert found.hits > 50


def test_tables_of_a_lake_stay_though_its_metastore_does_not_list_them(driver: Driver) -> None:
    driver.cluster.run(driver.cluster.now + 60)
    content, _ = driver.read(1)
    assert content.version == driver.lake.version(1)


def test_driver_that_loses_a_delta_is_noticed(driver: Driver) -> None:
    driver.cluster.orders.append(
        NetworkOrder(("hub-0", "reader-0"), "Delta", None, hold=False, left=50)
    )
    assert ours(FACTS, driver)["all"].older > 0
