"""Hot tables: they are pulled before they are read, and evict no hotter tables."""

from math import log
from random import Random

import pytest

from topicast.subscriber.placement.prefetch import (
    INTERVAL_S,
    OUTSTANDING_MAX,
    TIMEOUT_S,
)
from topicast.subscriber.placement.priorities import FILTERS_MAX
from topicast.subscriber.placement.usage import HALF_LIFE_S, HOT_PER_S
from topicast.tests.cluster.shopping import Shopping
from topicast.tests.subscriber.crowd import crowded
from topicast.topics.objects.names import table_key
from topicast.topics.objects.selector import by_sql
from topicast.topics.wire.messages.catalog import Pulled
from topicast.topics.wire.messages.data import Delta

HUB, READER, CATALOGD = "hub-0", "reader-0", "catalogd"
ROOM = 14_000  # bytes, for all tables
HOT = int(2 * HOT_PER_S * HALF_LIFE_S)  # reads that make a table hot


def read(shopping: Shopping, name: str, *, times: int = 1, text: str | None = None) -> None:
    """Read a table, or what a filter selects of it."""
    for count in (1, times - 1):
        if text is None:
            shopping.call(lambda catalog, n=count: [catalog.table(name) for _ in range(n)])
        elif count:
            shopping.partitions(name, text)
        shopping.pass_time(0.05)


def heat(shopping: Shopping, *names: str, times: int = HOT) -> None:
    """Read tables so often that they are hot, and let that be noticed."""
    for name in names:
        read(shopping, name, times=times)
    shopping.pass_time(1.1)


@pytest.mark.parametrize("lost", [0, 1], ids=["stub", "lost stub"])
def test_hot_table_is_pulled_again_before_the_next_query(lost: int) -> None:
    shopping = crowded(ROOM)
    heat(shopping, "shop.orders")
    shopping.lose(HUB, READER, Delta, count=lost)
    shopping.reshape("shop.orders", "id", "new")
    shopping.pass_time(lost)
    assert shopping.memory("shop.orders") == ("id", "new")
    stats = shopping.stats()
    assert (stats.prefetches, stats.pulls, stats.misses) == (1, 2, 1)


def test_table_that_is_read_now_and_then_is_pulled_when_it_is_read() -> None:
    shopping = crowded(ROOM)
    heat(shopping, "shop.orders", times=3)
    shopping.reshape("shop.orders", "id", "new")
    shopping.pass_time(1)
    assert shopping.memory("shop.orders") is None
    assert shopping.stats().prefetches == 0


def test_table_that_was_hot_and_is_read_no_more_is_left() -> None:
    shopping = crowded(ROOM)
    heat(shopping, "shop.orders", times=int(1.05 * HOT_PER_S * HALF_LIFE_S / log(2)) + 1)
    shopping.reshape("shop.orders", "id", "old")
    assert shopping.stats().prefetches == 1
    shopping.pass_time(0.1 * HALF_LIFE_S)
    shopping.reshape("shop.orders", "id", "new")
    assert shopping.memory("shop.orders") is None
    assert shopping.stats().prefetches == 1


def test_table_that_changes_all_the_time_is_pulled_no_more_often_than_it_is_read() -> None:
    shopping = crowded(ROOM)
    heat(shopping, "shop.orders")
    usage = shopping.reader.member.placement.usage
    every_s = 1 / usage.rate(table_key("shop", "orders"), now=shopping.cluster.now)
    assert every_s > 20 * INTERVAL_S
    before = shopping.stats().prefetches
    for number in range(60):
        shopping.reshape("shop.orders", "id", f"c{number}")
    assert 2 <= shopping.stats().prefetches - before <= 60 / every_s + 2


def test_very_hot_table_is_pulled_once_a_second_at_most() -> None:
    shopping = crowded(ROOM)
    heat(shopping, "shop.orders", times=8000)
    before = shopping.stats().prefetches
    for number in range(10):
        shopping.shop.reshape("shop.orders", (f"c{number}",))
        shopping.pass_time(0.5)
    assert 3 <= shopping.stats().prefetches - before <= 6


def test_few_pulls_are_under_way_and_the_others_follow() -> None:
    shopping = crowded(ROOM)
    names = [f"shop.t{number}" for number in range(3 * OUTSTANDING_MAX)]
    heat(shopping, *names)
    before = len(shopping.pulls())
    shopping.hold(CATALOGD, READER, Pulled)
    for name in names:
        shopping.shop.reshape(name, ("id", "new"))
    shopping.settle()
    assert len(shopping.pulls()) - before == OUTSTANDING_MAX
    shopping.release()
    shopping.settle()
    assert len(shopping.pulls()) - before == len(names)
    assert [shopping.memory(name) for name in names] == [("id", "new")] * len(names)


def test_only_what_the_last_filters_need_is_pulled() -> None:
    shopping = crowded(ROOM)
    texts = [f"ds = '{number:03}'" for number in range(0, 96, 16)]
    for text in texts:
        read(shopping, "shop.sales", text=text)
    heat(shopping, "shop.sales")
    before = len(shopping.pulls())
    shopping.shop.change("shop.sales", {"ds=080": {"n": "new"}})
    shopping.pass_time(2)
    newest = [by_sql(text) for text in texts[-FILTERS_MAX:]]
    assert [one.selector for one in shopping.pulls()[before:]] == newest
    for text in texts[-FILTERS_MAX:]:
        assert shopping.memory_of_partitions("shop.sales", text) is not None
    assert shopping.stats().prefetches == FILTERS_MAX


def test_table_is_pulled_without_its_blocks_or_whole_as_it_was_read() -> None:
    for whole in (False, True):
        shopping = crowded(ROOM)
        if whole:
            shopping.columns("shop.sales")
            shopping.pass_time(0.1)
            shopping.partitions("shop.sales")
        heat(shopping, "shop.sales")
        pulled = len(shopping.pulls())
        shopping.reshape("shop.sales", "id", "new")
        assert shopping.memory("shop.sales") == ("id", "new")
        assert (shopping.memory_of_partitions("shop.sales") is not None) is whole
        assert len(shopping.pulls()) > pulled


def test_hot_table_evicts_no_hotter_table() -> None:
    shopping = crowded(room=4 * 64 + 1500)  # room for two tables
    heat(shopping, "shop.orders")
    heat(shopping, "shop.items", times=10 * HOT)
    assert shopping.memory("shop.orders") is not None
    before = shopping.stats().evictions
    dice = Random(1)
    columns = tuple(dice.randbytes(8).hex() for _ in range(60))  # nothing that can be compressed
    shopping.shop.reshape("shop.orders", columns)
    shopping.pass_time(2)
    assert shopping.stats().prefetches == 1, "it has grown, and does not fit beside items"
    assert shopping.memory("shop.orders") is None
    assert shopping.memory("shop.items") == ("id",)
    assert shopping.stats().evictions == before
    shopping.columns("shop.orders")
    assert shopping.memory("shop.orders") == columns, "a read of an application keeps it"


def test_table_that_an_application_has_pulled_meanwhile_is_not_pulled_again() -> None:
    shopping = crowded(ROOM)
    heat(shopping, "shop.orders", times=8000)
    shopping.reshape("shop.orders", "id", "a")
    shopping.shop.reshape("shop.orders", ("id", "b"))
    while shopping.memory("shop.orders") is not None:
        shopping.pass_time(0.01)
    pulls = len(shopping.pulls())
    shopping.columns("shop.orders")
    shopping.pass_time(3)
    assert len(shopping.pulls()) == pulls + 1


def test_change_during_a_pull_is_pulled_after_it_and_no_older_reply_is_kept() -> None:
    shopping = crowded(ROOM)
    heat(shopping, "shop.orders", times=8000)
    shopping.hold(CATALOGD, READER, Pulled)
    shopping.reshape("shop.orders", "id", "a")
    shopping.reshape("shop.orders", "id", "b")
    assert shopping.stats().prefetches == 1
    columns: list[str] = []
    shopping.begin(
        lambda catalog: columns.extend(one.name for one in catalog.table("shop.orders").columns)
    )
    shopping.release()
    shopping.pass_time(3)
    assert columns == ["id", "b"], "an application waits for a pull of its own"
    assert shopping.memory("shop.orders") == ("id", "b")


def test_application_that_waits_for_the_same_pull_is_answered_by_it() -> None:
    shopping = crowded(ROOM)
    heat(shopping, "shop.orders")
    shopping.hold(CATALOGD, READER, Pulled)
    shopping.reshape("shop.orders", "id", "new")
    worker = shopping.begin(lambda catalog: catalog.table("shop.orders") and None)
    shopping.release()
    assert not worker.alive
    assert len(shopping.pulls("shop.orders")) == 2


def test_prefetch_that_times_out_leaves_the_pull_to_the_next_read() -> None:
    shopping = crowded(ROOM)
    heat(shopping, "shop.orders")
    shopping.lose(READER, CATALOGD)
    shopping.reshape("shop.orders", "id", "new")
    shopping.pass_time(3 * TIMEOUT_S)
    assert shopping.reader.member.prefetcher.is_idle
    shopping.mend()
    assert shopping.columns("shop.orders") == ("id", "new")
