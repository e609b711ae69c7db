"""What is not there is remembered as well: tables by their names, partitions by the filter."""

import pytest

from topicast.subscriber.protocol.channels import Channel
from topicast.tests.subscriber.world import World, started
from topicast.topics.entries import FULL, MINIMAL
from topicast.topics.errors import NoSuchObject
from topicast.topics.objects.selector import Selector, by_filter, by_names
from topicast.topics.sharding import NAMESPACE
from topicast.topics.wire.messages import Pull


def at(level: int) -> World:
    """Return a world whose member follows every topic of the shop at ``level``."""
    world = started()
    for topic in range(world.catalog.num_topics):
        if level:
            assert world.ask("join", topics=(topic,), level=level) in world.answers
        else:
            world.ask("drop", topics=(topic,))
    return world


def pulls(world: World) -> int:
    return len(world.said(Pull))


def names(world: World, selector: Selector) -> int | None:
    """Return how many blocks memory has for a selection of ``sales``; None: it does not know."""
    content = world.view.partitions("shop", "sales", selector)
    return None if content is None else len(content) - 1


@pytest.mark.parametrize("level", [0, MINIMAL, FULL])
def test_table_that_does_not_exist_costs_no_pull_until_it_is_created(level: int) -> None:
    world = at(level)
    for name in ("shop.nothing", "nowhere.orders", "shop.nothing"):
        assert isinstance(world.errors[world.table(name)], NoSuchObject)
        assert isinstance(world.errors[world.table(name, whole=True)], NoSuchObject)
    assert pulls(world) == 0
    world.publish(*world.catalog.create_table("shop", "nothing"))
    assert world.table("shop.nothing") in world.answers
    assert pulls(world) == (level != FULL)
    world.publish(*world.catalog.drop_table("shop", "nothing"))
    assert isinstance(world.errors[world.table("shop.nothing")], NoSuchObject)
    assert pulls(world) == (level != FULL)


def test_names_that_are_behind_do_not_say_that_a_table_is_missing() -> None:
    world = at(MINIMAL)
    assert isinstance(world.errors[world.table("shop.nothing")], NoSuchObject)
    world.catalog.create_table("shop", "nothing")  # the delta is lost
    world.deaf.add(Channel.BULK)
    world.heartbeat()
    assert not world.view.topics[NAMESPACE].opening
    assert world.table("shop.nothing") in world.answers
    assert pulls(world) == 1


def test_filter_that_matches_nothing_is_kept_until_a_partition_is_added() -> None:
    world = at(MINIMAL)
    text = "ds = 'x'"
    world.partitions("shop.sales", text)
    world.partitions("shop.sales", text)
    assert (pulls(world), names(world, by_filter(text))) == (1, 0)
    world.publish(world.catalog.put_partitions("shop", "sales", {"ds=x": {"n": "new"}}))
    assert names(world, by_filter(text)) is None
    world.partitions("shop.sales", text)
    assert (pulls(world), names(world, by_filter(text))) == (2, 1)
    world.publish(world.catalog.put_partitions("shop", "sales", {"ds=x": None}))
    world.partitions("shop.sales", text)
    assert pulls(world) == 3


def test_partition_that_another_filter_holds_ends_the_one_that_matches_nothing() -> None:
    world = at(MINIMAL)
    world.partitions("shop.sales", "ds = '050'")
    world.partitions("shop.sales", "ds = 'x'")
    assert names(world, by_filter("ds = 'x'")) is not None
    world.publish(world.catalog.put_partitions("shop", "sales", {"ds=051": {"n": "new"}}))
    assert names(world, by_filter("ds = 'x'")) is None  # what is added beside it may match


def test_names_of_no_partition_are_kept_like_a_filter() -> None:
    world = at(MINIMAL)
    selector = by_names(("ds=x",))
    world.ask("read", db="shop", table="sales", selector=selector)
    world.ask("read", db="shop", table="sales", selector=selector)
    assert (pulls(world), names(world, selector)) == (1, 0)
    world.publish(world.catalog.put_partitions("shop", "sales", {"ds=x": {"n": "new"}}))
    assert names(world, selector) is None
