"""What memory answers while a topic is placed, or behind a reply: what is new enough."""

from topicast.subscriber import facts
from topicast.tests.subscriber.source import Catalog
from topicast.tests.subscriber.world import World, columns_of
from topicast.topics.wire.messages import Barrier, Delta, Joined, Message, Pull


def driver() -> World:
    """Return a world that follows what is read; its two tables are of one topic."""
    catalog = Catalog(1)
    catalog.create_database("shop")
    for name in ("orders", "people"):
        catalog.create_table("shop", name)
    world = World(catalog, automatic=True)
    world.start()
    return world


def pulls(world: World) -> int:
    return len(world.said(Pull))


def is_delta(channel: str, message: Message) -> bool:
    return channel == facts.DATA and isinstance(message, Delta)


def change(world: World, name: str, column: str) -> None:
    world.publish(world.catalog.put_table("shop", name, columns=("id", column)))


def test_reply_that_is_ahead_of_the_hub_is_not_fetched_again() -> None:
    """P-PULL-6."""
    world = driver()
    world.table("shop.orders")
    world.held_back = is_delta
    change(world, "orders", "new")
    change(world, "people", "new")
    assert world.columns("orders") == ("id",)  # nobody has heard of it
    world.table("shop.people")
    assert world.columns("people") == ("id", "new")
    for _ in range(3):
        world.table("shop.people")
    assert pulls(world) == 2
    world.release()
    assert pulls(world) == 2


def test_what_is_older_than_a_reply_of_its_topic_waits_for_the_hub() -> None:
    """P-PULL-6."""
    world = driver()
    world.table("shop.orders")
    world.held_back = is_delta
    change(world, "people", "new")
    world.table("shop.people")
    assert world.columns("orders") is None  # it may have changed as well
    world.release()
    assert world.columns("orders") == ("id",)
    assert pulls(world) == 2


def test_reply_that_is_ahead_is_answered_until_it_is_heard_to_be_stale() -> None:
    world = driver()
    world.table("shop.orders")
    world.held_back = is_delta
    change(world, "people", "new")
    world.table("shop.people")
    change(world, "people", "newer")
    assert world.columns("people") == ("id", "new")
    world.release()
    assert world.columns("people") is None


def test_reply_of_a_topic_that_is_being_placed_is_kept() -> None:
    world = driver()
    world.held_back = lambda _channel, message: isinstance(message, Joined)
    number = world.table("shop.orders")
    assert columns_of(world.answers[number], "orders") == ("id",)
    assert world.columns("orders") is None  # no stub of it would come
    world.release()
    assert world.columns("orders") == ("id",)
    assert pulls(world) == 1


def test_reply_is_not_kept_where_its_topic_is_placed_above_it() -> None:
    """P-PULL-5."""
    world = driver()
    world.held_back = lambda _channel, message: isinstance(message, Barrier)
    world.table("shop.orders")
    world.catalog.put_table("shop", "orders", columns=("id", "unheard"))
    world.release()
    assert world.columns("orders") is None
    world.table("shop.orders")
    assert world.columns("orders") == ("id", "unheard")


def test_stub_that_comes_while_its_topic_is_placed_ends_what_was_pulled() -> None:
    """P-PULL-5."""
    world = driver()
    world.held_back = lambda _channel, message: isinstance(message, Joined)
    world.table("shop.orders")
    change(world, "orders", "new")
    world.release()
    assert world.columns("orders") is None


def test_topic_that_is_behind_answers_nothing_of_what_was_pulled() -> None:
    world = driver()
    world.table("shop.orders")
    world.held_back = lambda channel, message: is_delta(channel, message) or channel == facts.BULK
    world.catalog.put_table("shop", "people", columns=("id", "lost"))
    world.beacon()
    world.table("shop.orders")
    assert world.columns("orders") is None
    world.release()
    assert world.columns("orders") == ("id",)
