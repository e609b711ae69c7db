"""Tests of hot tables: they are pulled before they are read, and evict no hotter ones."""

from collections.abc import Iterable
from math import log
from random import Random

from topicast.subscriber.placement.prefetch import FILTERS_MAX, INTERVAL_S, OUTSTANDING_MAX
from topicast.subscriber.placement.usage import HALF_LIFE_S, HOT_PER_S
from topicast.subscriber.protocol.channels import Channel
from topicast.tests.subscriber.source import shop
from topicast.tests.subscriber.world import World, chooser, pulls, read
from topicast.topics.objects.names import table_key
from topicast.topics.objects.selector import by_filter
from topicast.topics.wire.messages import Pulled

HOT = int(2 * HOT_PER_S * HALF_LIFE_S)  # reads that make a table hot


def heat(world: World, names: Iterable[str], *, times: int = HOT) -> None:
    """Read tables so often that they are hot, and let that be noticed."""
    for name in names:
        read(world, name, times=times)
    world.pass_time(1.1)


def change(world: World, name: str, column: str) -> None:
    world.publish(world.catalog.put_table("shop", name, columns=("id", column)))


def test_hot_table_is_pulled_again_before_the_next_query() -> None:
    world = chooser()
    heat(world, ["orders"])
    change(world, "orders", "new")
    assert world.columns("orders") == ("id", "new")
    stats = world.stats()
    assert (stats.prefetches, stats.pulls, stats.misses) == (1, 2, 1)


def test_table_that_is_read_now_and_then_is_pulled_when_it_is_read() -> None:
    world = chooser()
    heat(world, ["orders"], times=3)
    change(world, "orders", "new")
    world.pass_time(2)
    assert world.columns("orders") is None
    assert world.stats().prefetches == 0


def test_table_that_was_hot_and_is_read_no_more_is_left() -> None:
    world = chooser()
    heat(world, ["orders"], times=int(1.05 * HOT_PER_S * HALF_LIFE_S / log(2)) + 1)
    change(world, "orders", "old")
    assert world.stats().prefetches == 1
    world.pass_time(0.1 * HALF_LIFE_S)
    read(world, "orders")
    change(world, "orders", "new")
    world.pass_time(2)
    assert world.columns("orders") is None
    assert world.stats().prefetches == 1


def test_table_that_changes_all_the_time_is_pulled_no_more_often_than_it_is_read() -> None:
    world = chooser()
    heat(world, ["orders"])
    every_s = 1 / world.member.placement.usage.rate(table_key("shop", "orders"), now=world.now)
    assert every_s > 20 * INTERVAL_S
    before = world.stats().prefetches
    for number in range(600):
        change(world, "orders", f"c{number}")
        world.pass_time(0.1)
    assert 2 <= world.stats().prefetches - before <= 60 / every_s + 2


def test_very_hot_table_is_pulled_once_a_second_at_most() -> None:
    world = chooser()
    heat(world, ["orders"], times=8000)
    before = world.stats().prefetches
    for number in range(100):
        change(world, "orders", f"c{number}")
        world.pass_time(0.05)
    assert 4 <= world.stats().prefetches - before <= 6


def test_few_pulls_are_under_way_and_the_others_follow() -> None:
    world = chooser()
    names = [f"t{number}" for number in range(3 * OUTSTANDING_MAX)]
    heat(world, names)
    before = len(pulls(world))
    world.held_back = lambda _channel, message: isinstance(message, Pulled)
    for name in names:
        change(world, name, "new")
    assert len(pulls(world)) - before == OUTSTANDING_MAX
    world.release()
    assert len(pulls(world)) - before == len(names)
    assert all(world.columns(name) == ("id", "new") for name in names)


def test_what_its_last_filters_need_is_all_that_is_pulled() -> None:
    world = chooser()
    texts = [f"ds = '{number:03}'" for number in range(0, 96, 16)]
    for text in texts:
        read(world, "sales", text=text)
    heat(world, ["sales"])
    before = len(pulls(world))
    world.publish(world.catalog.put_partitions("shop", "sales", {"ds=080": {"n": "new"}}))
    world.pass_time(1)
    asked = [one.filter for one in pulls(world)[before:]]
    assert asked == texts[-FILTERS_MAX:]
    for text in texts[-FILTERS_MAX:]:
        assert world.view.partitions("shop", "sales", by_filter(text)) is not None
    assert world.stats().prefetches == FILTERS_MAX


def test_table_without_its_blocks_is_pulled_without_them() -> None:
    world = chooser()
    heat(world, ["sales"])
    change_of_table = world.catalog.put_table("shop", "sales", columns=("id", "x"), keys=("ds",))
    world.publish(change_of_table)
    assert world.columns("sales") == ("id", "x")
    assert world.view.partitions("shop", "sales") is None
    assert world.last_pull().selector == pulls(world)[0].selector


def test_whole_table_is_pulled_whole() -> None:
    world = chooser()
    world.partitions("shop.sales")
    heat(world, ["sales"])
    world.publish(world.catalog.put_partitions("shop", "sales", {"ds=080": {"n": "new"}}))
    assert world.view.partitions("shop", "sales") is not None
    assert len(pulls(world)) == 2


def test_hot_table_evicts_no_hotter_one() -> None:
    catalog = shop()
    world = chooser(room=4 * 64 + 1100, catalog=catalog)  # room for two tables
    heat(world, ["orders"])
    heat(world, ["items"], times=10 * HOT)
    assert world.columns("orders") is not None
    before = world.stats().evictions
    dice = Random(1)
    columns = tuple(dice.randbytes(8).hex() for _ in range(34))  # nothing that can be compressed
    world.publish(catalog.put_table("shop", "orders", columns=columns))
    world.pass_time(1)
    assert world.stats().prefetches == 1  # it has grown, and does not fit beside items
    assert world.columns("orders") is None
    assert world.columns("items") == ("id",)
    assert world.stats().evictions == before
    read(world, "orders")
    assert world.columns("orders") == columns  # a read of an application keeps it


def test_table_that_an_application_has_pulled_meanwhile_is_not_pulled_again() -> None:
    world = chooser()
    heat(world, ["orders"], times=8000)
    change(world, "orders", "a")
    change(world, "orders", "b")
    read(world, "orders")
    assert (world.stats().prefetches, len(pulls(world))) == (1, 3)
    world.pass_time(3)
    assert world.stats().prefetches == 1


def test_change_during_a_long_pull_is_pulled_after_it() -> None:
    world = chooser()
    heat(world, ["orders"], times=8000)
    world.held_back = lambda _channel, message: isinstance(message, Pulled)
    change(world, "orders", "a")
    change(world, "orders", "b")
    world.pass_time(1.5)
    assert world.stats().prefetches == 1
    world.release()
    world.pass_time(3)
    assert world.columns("orders") == ("id", "b")
    assert world.stats().prefetches == 2


def test_application_that_waits_for_the_same_pull_is_answered_by_it() -> None:
    world = chooser()
    heat(world, ["orders"])
    world.held_back = lambda _channel, message: isinstance(message, Pulled)
    change(world, "orders", "new")
    number = world.table("shop.orders")
    world.release()
    assert number in world.answers
    assert len(pulls(world, "orders")) == 2


def test_stale_reply_of_a_prefetch_is_not_pulled_again_at_once() -> None:
    world = chooser()
    heat(world, ["orders"], times=8000)
    world.held_back = lambda _channel, message: isinstance(message, Pulled)
    change(world, "orders", "a")
    change(world, "orders", "b")
    world.release()
    world.pass_time(0.5)
    assert len(pulls(world, "orders")) == 2
    world.pass_time(1)
    assert world.columns("orders") == ("id", "b")
    assert len(pulls(world, "orders")) == 3


def test_hot_table_that_changed_while_stubs_were_lost_is_pulled_again() -> None:
    world = chooser()
    heat(world, ["orders"])
    world.catalog.put_table("shop", "orders", columns=("id", "lost"))
    world.heartbeat()
    world.pass_time(1)
    assert world.columns("orders") == ("id", "lost")
    assert world.stats().prefetches == 1


def test_prefetch_that_times_out_leaves_the_pull_to_the_next_read() -> None:
    world = chooser()
    heat(world, ["orders"])
    world.deaf.add(Channel.PULLS)
    change(world, "orders", "new")
    world.pass_time(30)
    assert world.member.prefetcher.is_idle
    world.deaf.clear()
    number = world.table("shop.orders")
    world.pass_time(1)
    assert number in world.answers
