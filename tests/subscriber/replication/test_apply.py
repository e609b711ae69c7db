"""At full: what is withheld comes as stubs, and what was pulled of it is kept until one hits it."""

from collections.abc import Iterator

from topicast.subscriber.protocol import status
from topicast.subscriber.store.table_snapshot import TableSnapshot
from topicast.tests.subscriber.source import shop
from topicast.tests.subscriber.world import World, columns_of
from topicast.topics.entries import FULL, MINIMAL
from topicast.topics.objects.names import table_key
from topicast.topics.objects.selector import by_filter
from topicast.topics.sharding import NAMESPACE
from topicast.topics.wire.messages import Chunk, Pull, Pulled


def withholding(*names: str, **settings: object) -> World:
    """Return a world in full, in which of the tables ``names`` only stubs are sent."""
    world = World(shop(), **settings)  # type: ignore[arg-type]  # each test names its own
    world.withheld.update(names)
    world.sizes = dict.fromkeys(range(4), 10)
    world.start()
    return world


def pulls(world: World) -> int:
    return len(world.said(Pull))


def info(world: World, name: str) -> status.TopicInfo:
    return world.topics()[world.catalog.topic("shop", name)]


def mates(world: World, name: str) -> Iterator[str]:
    """Yield names of new tables in the topic of ``name``."""
    topic = world.catalog.topic("shop", name)
    for number in range(1000):
        if world.catalog.topic("shop", f"new{number}") == topic:
            yield f"new{number}"


def test_withheld_table_is_pulled_once_and_then_answered_from_memory_until_it_changes() -> None:
    world = withholding("orders")
    before = info(world, "orders").bytes
    assert (info(world, "orders").level, world.columns("orders")) == ("full", None)
    world.table("shop.orders")
    assert world.columns("orders") == ("id",)
    assert info(world, "orders").bytes > before
    world.table("shop.orders")
    assert pulls(world) == 1
    world.publish(world.catalog.put_table("shop", "orders", columns=("id", "more")))
    assert world.columns("orders") is None
    assert info(world, "orders").bytes == before
    world.table("shop.orders")
    assert world.columns("orders") == ("id", "more")
    assert pulls(world) == 2


def test_change_of_another_table_of_the_topic_leaves_what_is_withheld() -> None:
    world = withholding("orders")
    world.table("shop.orders")
    other = next(mates(world, "orders"))
    world.publish(*world.catalog.create_table("shop", other))
    assert world.columns("orders") == ("id",)
    assert world.columns(other) == ("id",)
    assert pulls(world) == 1


def test_filter_of_a_withheld_table_is_kept_and_only_what_changed_is_pulled_again() -> None:
    world = withholding("sales")
    world.partitions("shop.sales", "ds = '050'")
    assert world.view.partitions("shop", "sales", by_filter("ds = '050'")) is not None
    assert world.view.partitions("shop", "sales", by_filter("ds = '051'")) is None
    world.publish(world.catalog.put_partitions("shop", "sales", {"ds=001": {"n": "new"}}))
    assert world.view.partitions("shop", "sales", by_filter("ds = '050'")) is None
    got: list[Pulled] = []
    world.held_back = lambda _channel, message: isinstance(message, Pulled) and got.append(message)  # type: ignore[func-returns-value]
    world.partitions("shop.sales", "ds = '050'")
    assert [len(reply.entries) for reply in got] == [0]
    assert world.view.partitions("shop", "sales", by_filter("ds = '050'")) is not None


def test_reply_older_than_a_stub_is_not_kept_at_full_either() -> None:
    """P-PULL-5."""
    world = withholding("orders")
    world.held_back = lambda _channel, message: isinstance(message, Pulled)
    number = world.table("shop.orders")
    world.publish(world.catalog.put_table("shop", "orders", columns=("id", "more")))
    world.release()
    world.pass_time(0.1)
    assert columns_of(world.answers[number], "orders") == ("id", "more")
    assert world.stats().stale_replies == 1
    assert world.columns("orders") == ("id", "more")


def test_table_that_is_withheld_no_more_is_held_once() -> None:
    world = withholding("orders")
    world.table("shop.orders")
    world.withheld.clear()
    world.publish(world.catalog.put_table("shop", "orders", columns=("id", "pushed")))
    assert world.columns("orders") == ("id", "pushed")
    topic = world.catalog.topic("shop", "orders")
    assert info(world, "orders").bytes == world.catalog.live_bytes(topic)
    assert pulls(world) == 1


def test_what_was_pulled_of_a_withheld_table_ends_with_a_gap_and_a_new_epoch() -> None:
    world = withholding("orders")
    world.table("shop.orders")
    world.catalog.put_table("shop", "orders", columns=("id", "lost"))
    world.heartbeat()  # says that something was lost; it is caught up with
    assert world.columns("orders") is None
    for number in range(5):
        world.publish(world.catalog.put_table("shop", "orders", columns=("id", f"c{number}")))
    world.table("shop.orders")
    assert world.columns("orders") == ("id", "c4")
    world.catalog.new_epoch(start=2)
    world.catalog.create_database("shop")
    world.catalog.create_table("shop", "items")
    world.catalog.create_table("shop", "orders")  # in the same place of another history
    world.accepting = True
    world.pass_time(2)
    assert world.columns("orders") is None
    world.table("shop.orders")
    assert world.columns("orders") == ("id",)


def test_reply_during_a_catch_up_is_answered_and_not_kept() -> None:
    world = withholding("orders")
    world.table("shop.orders")
    world.catalog.put_table("shop", "orders", columns=("id", "lost"))
    world.held_back = lambda _channel, message: isinstance(message, Chunk)
    world.heartbeat()
    before = info(world, "orders").bytes
    number = world.table("shop.orders")
    assert columns_of(world.answers[number], "orders") == ("id", "lost")
    assert (world.columns("orders"), info(world, "orders").bytes) == (None, before)
    world.release()
    world.table("shop.orders")
    assert world.columns("orders") == ("id", "lost")


def test_reply_that_comes_when_the_topic_is_pushed_is_not_held_beside_it() -> None:
    world = withholding()
    topic = world.without("orders")
    world.held_back = lambda _channel, message: isinstance(message, Pulled)
    number = world.table("shop.orders")
    world.ask("join", topics=(topic,))
    world.release()
    assert columns_of(world.answers[number], "orders") == ("id",)
    assert info(world, "orders").bytes == world.catalog.live_bytes(topic)


def test_bytes_of_what_was_pulled_are_back_when_the_level_changes() -> None:
    world = withholding("orders")
    topic = world.catalog.topic("shop", "orders")
    world.table("shop.orders")
    world.ask("join", topics=(topic,), level=MINIMAL)
    assert info(world, "orders").bytes == 64
    world.table("shop.orders")
    world.ask("join", topics=(topic,), level=FULL)
    world.pass_time(0.5)
    assert (info(world, "orders").level, world.columns("orders")) == ("full", None)
    world.table("shop.orders")
    world.ask("drop", topics=(topic,))
    assert info(world, "orders").bytes == 0


def test_withheld_table_gives_way_when_room_is_needed_and_a_stub_needs_none() -> None:
    names = ("items", "orders", "people", "stock", "visits", "sales")
    roomy = withholding(*names)
    rigid = roomy.stats().held_bytes
    world = withholding(*names, budget_bytes=rigid + 1700)
    kept = 0
    for name in names:
        number = world.table(f"shop.{name}")
        assert isinstance(world.answers[number], TableSnapshot)
        kept += world.columns(name) is not None
        assert world.stats().held_bytes <= rigid + 1700
    assert kept == len(names)
    assert world.stats().evictions > 0
    for name in names:
        world.publish(world.catalog.put_table("shop", name, columns=("id", "more")))
        assert world.columns(name) is None
    assert world.catalog.live_bytes(NAMESPACE) < world.stats().held_bytes <= rigid + 1700
    held = world.view.content(world.catalog.topic("shop", "orders"), table_key("shop", "orders"))
    assert held is not None
    assert held.stubs
