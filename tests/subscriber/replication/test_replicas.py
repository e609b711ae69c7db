"""What memory answers while a topic is placed, or behind a reply: what is new enough."""

from dataclasses import replace

from topicast.subscriber.protocol.channels import Channel
from topicast.tests.subscriber.source import Catalog
from topicast.tests.subscriber.world import World, columns_of
from topicast.topics.entries import FULL, MINIMAL
from topicast.topics.follower import Follower
from topicast.topics.objects.names import table_key
from topicast.topics.wire.messages import Barrier, Delta, Joined, Message, Pull, Pulled


def driver(*names: str) -> World:
    """Return a world that follows what is read; its tables are of one topic."""
    catalog = Catalog(1)
    catalog.create_database("shop")
    for name in names or ("orders", "people"):
        catalog.create_table("shop", name)
    world = World(catalog, automatic=True)
    world.start()
    return world


def pulls(world: World) -> int:
    return len(world.said(Pull))


def is_delta(channel: str, message: Message) -> bool:
    return channel == Channel.DATA and isinstance(message, Delta)


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


def test_mates_that_are_pulled_in_turns_while_the_hub_lags_do_not_push_each_other_out() -> None:
    """P-PULL-17: a reply says which of its topic are as they were, and that is enough."""
    world = driver("orders", "people", "stock", "visits")
    read = ("orders", "people", "stock")
    world.held_back = is_delta
    for _ in range(5):
        for name in read:
            change(world, "visits", "new")
            if world.columns(name) is None:
                world.table(f"shop.{name}")
    assert pulls(world) == len(read)
    assert all(world.columns(name) == ("id",) for name in read)
    world.release()
    assert all(world.columns(name) == ("id",) for name in read)
    assert pulls(world) == len(read)


def test_what_is_older_than_a_reply_of_its_topic_waits_for_the_hub() -> None:
    """P-PULL-6."""
    world = driver()
    world.table("shop.orders")
    world.held_back = is_delta
    change(world, "people", "new")
    change(world, "orders", "new")
    world.table("shop.people")
    assert world.columns("orders") is None  # the reply says that it has changed
    world.release()
    assert world.columns("orders") is None
    world.table("shop.orders")
    assert world.columns("orders") == ("id", "new")
    assert pulls(world) == 3


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
    world.held_back = lambda channel, message: is_delta(channel, message) or channel == Channel.BULK
    world.catalog.put_table("shop", "people", columns=("id", "lost"))
    world.heartbeat()
    world.table("shop.orders")
    assert world.columns("orders") is None
    world.release()
    assert world.columns("orders") == ("id",)


def test_delta_that_just_follows_at_minimal_is_taken_the_short_way_and_no_other() -> None:
    world = driver()
    world.table("shop.orders")
    replica = world.member._subscriptions.replicas.get(0)
    assert replica is not None
    at = replica.position[1]
    delta = world.catalog.put_table("shop", "orders", columns=("id", "new"))
    stubbed = replace(delta, level=MINIMAL, stubbed=True)
    assert not replica.step(delta), "it is of another level"
    assert not replica.step(replace(stubbed, from_version=at + 1)), "one is missing"
    replica.coming = Follower(0, FULL)
    assert not replica.step(stubbed), "its level changes"
    replica.coming = None
    assert replica.step(stubbed)
    assert replica.position[1] == at + 1
    assert not replica.step(stubbed), "it was taken"


def withholding(*names: str) -> World:
    """Return a world that follows in full the one topic of all tables; only stubs come of log."""
    catalog = Catalog(1)
    catalog.create_database("shop")
    for name in ("log", *names):
        catalog.create_table("shop", name, keys=("ds",))
        catalog.put_partitions("shop", name, {f"ds={day:03}": {"n": "1"} for day in range(100)})
    world = World(catalog)
    world.withheld.add("log")
    world.start()
    for name in names:
        assert world.columns(name) == ("id",)
    world.held_back = is_delta
    return world


def test_mates_in_use_of_a_withheld_table_are_answered_while_the_hub_lags() -> None:
    """P-PULL-17: at full, too, a reply says which of its topic are as they were."""
    world = withholding("orders", "people")
    change(world, "log", "new")
    world.partitions("shop.log")
    assert [claim.table for claim in world.last_pull().claims] == ["people", "orders"]
    assert world.columns("orders") == world.columns("people") == ("id",)
    world.release()
    assert world.columns("orders") == world.columns("people") == ("id",)
    assert pulls(world) == 1


def test_mate_that_changed_with_a_withheld_table_is_pulled_while_the_hub_lags() -> None:
    """P-PULL-6."""
    world = withholding("orders", "people")
    change(world, "people", "new")
    change(world, "log", "new")
    world.partitions("shop.log")
    assert world.columns("people") is None
    number = world.table("shop.people")
    assert columns_of(world.answers[number], "people") == ("id", "new")
    assert world.columns("orders") == ("id",)
    assert world.columns("people") is None  # the hub brings what is held in full
    world.release()
    assert world.columns("people") == ("id", "new")


def test_table_held_in_full_does_not_come_again_where_a_pull_finds_it_unchanged() -> None:
    """P-PULL-2, P-PULL-17: it is asked about with its own pull, though nobody has read it."""
    world, came = withholding("people"), list[Pulled]()
    world.held_back = lambda channel, message: (
        is_delta(channel, message) or bool(isinstance(message, Pulled) and came.append(message))
    )
    world.view.topics[0].groups[table_key("shop", "people")].used = False
    change(world, "log", "new")
    world.partitions("shop.log")
    assert world.columns("people") is None  # nobody has asked about it
    number = world.partitions("shop.people")
    assert columns_of(world.answers[number], "people") == ("id",)
    assert [len(part.entries) for part in came] == [5, 0]
    assert world.view.partitions("shop", "people") is not None
    assert pulls(world) == 2
