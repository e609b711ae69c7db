"""Level minimal: what was pulled is kept until a stub says that it is stale, and no longer."""

from topicast.subscriber.protocol import facts
from topicast.subscriber.store.table_snapshot import TableSnapshot
from topicast.tests.subscriber.source import NAMES, Catalog, shop
from topicast.tests.subscriber.world import World, columns_of, started
from topicast.topics.entries import FULL, MINIMAL
from topicast.topics.errors import OverBudget
from topicast.topics.objects.names import block_key, table_key
from topicast.topics.objects.selector import by_filter
from topicast.topics.sharding import NAMESPACE
from topicast.topics.wire import encode
from topicast.topics.wire.header import HEARTBEAT_PREFIX, prefix
from topicast.topics.wire.messages import (
    CatchUp,
    Chunk,
    Joined,
    Pull,
    Pulled,
)


def watching(**settings: object) -> World:
    """Return a world whose member follows every topic of the shop at minimal."""
    world = started(**settings)
    for topic in range(world.catalog.num_topics):
        assert world.ask("join", topics=(topic,), level=MINIMAL) in world.answers
    return world


def level(world: World, name: str) -> str:
    return world.topics()[world.catalog.topic("shop", name)].level


def pulls(world: World) -> int:
    return len(world.said(Pull))


def test_join_at_minimal_moves_no_content_and_frees_what_was_held() -> None:
    """P-SUB-1."""
    world = started()
    before = len(world.said(CatchUp))
    for topic in range(4):
        world.ask("join", topics=(topic,), level=MINIMAL)
    assert {info.level for t, info in world.topics().items() if t != NAMESPACE} == {"minimal"}
    assert len(world.said(CatchUp)) == before
    namespace = world.catalog.live_bytes(NAMESPACE)
    assert world.stats().held_bytes == namespace + 4 * 64
    assert world.prefixes >= {prefix(topic, MINIMAL) for topic in range(4)}
    assert not world.prefixes & {prefix(topic, FULL) for topic in range(4)}
    assert world.prefixes >= {HEARTBEAT_PREFIX, prefix(NAMESPACE, FULL)}
    for topic in range(4):
        assert world.topics()[topic].version == world.catalog.topics[topic].version


def test_what_was_pulled_is_answered_from_memory_until_it_changes() -> None:
    world = watching()
    assert world.columns("orders") is None
    world.table("shop.orders")
    assert world.columns("orders") == ("id",)
    world.table("shop.orders")
    assert pulls(world) == 1
    world.publish(world.catalog.put_table("shop", "orders", columns=("id", "more")))
    assert world.columns("orders") is None
    world.table("shop.orders")
    assert world.columns("orders") == ("id", "more")
    assert pulls(world) == 2


def test_change_of_another_table_of_the_topic_leaves_it() -> None:
    world = watching()
    catalog = world.catalog
    topic = catalog.topic("shop", "orders")
    world.table("shop.orders")
    other = next(n for n in ("a", "b", "c", "d", "e", "f") if catalog.topic("shop", n) == topic)
    world.publish(*catalog.create_table("shop", other))
    assert world.columns("orders") == ("id",)
    assert pulls(world) == 1


def test_changed_block_is_all_that_is_pulled_again() -> None:
    world = watching()
    world.table("shop.sales", whole=True)
    assert world.view.partitions("shop", "sales") is not None
    world.publish(world.catalog.put_partitions("shop", "sales", {"ds=050": {"n": "new"}}))
    assert world.view.partitions("shop", "sales") is None
    assert world.columns("sales") == ("id",)  # the table itself has not changed
    got: list[Pulled] = []
    world.held_back = lambda _channel, message: isinstance(message, Pulled) and got.append(message)  # type: ignore[func-returns-value]
    number = world.table("shop.sales", whole=True)
    (reply,) = got
    assert [entry.key for entry in reply.entries if entry.key != table_key("shop", "sales")] == [
        max(
            row.key
            for row in world.catalog.topics[reply.topic].rows(table_key("shop", "sales"))
            if row.key <= block_key("shop", "sales", "ds=050")
        )
    ]
    content = world.answers[number]
    assert isinstance(content, TableSnapshot)
    assert content.whole
    rows = world.catalog.topics[reply.topic].rows(table_key("shop", "sales"))
    assert len(content) == len(list(rows))


def test_pulled_table_is_kept_without_its_blocks_and_they_come_when_asked_for() -> None:
    world = watching()
    world.table("shop.sales")
    assert world.columns("sales") == ("id",)
    assert world.view.partitions("shop", "sales") is None
    world.publish(world.catalog.put_partitions("shop", "sales", {"ds=050": {"n": "new"}}))
    assert world.columns("sales") == ("id",)
    world.table("shop.sales", whole=True)
    assert world.view.partitions("shop", "sales") is not None
    assert [key for key, _ in world.last_pull().held] == [table_key("shop", "sales")]


def test_dropped_table_is_given_up_with_its_bytes() -> None:
    world = watching()
    before = world.stats().held_bytes
    names = world.catalog.live_bytes(NAMESPACE)
    world.table("shop.orders")
    assert world.stats().held_bytes > before
    world.publish(*world.catalog.drop_table("shop", "orders"))
    assert world.stats().held_bytes - world.catalog.live_bytes(NAMESPACE) == before - names


def test_reply_older_than_a_stub_is_pulled_again() -> None:
    """P-PULL-5."""
    world = watching()
    world.held_back = lambda _channel, message: isinstance(message, Pulled)
    number = world.table("shop.orders")
    world.publish(world.catalog.put_table("shop", "orders", columns=("id", "more")))
    world.release()
    world.pass_time(0.1)
    assert columns_of(world.answers[number], "orders") == ("id", "more")
    assert world.stats().stale_replies == 1
    assert world.columns("orders") == ("id", "more")


def test_stub_of_another_table_does_not_refuse_a_reply() -> None:
    world = watching()
    catalog = world.catalog
    topic = catalog.topic("shop", "orders")
    other = next(n for n in ("a", "b", "c", "d", "e", "f") if catalog.topic("shop", n) == topic)
    world.publish(*catalog.create_table("shop", other))
    world.held_back = lambda _channel, message: isinstance(message, Pulled)
    number = world.table("shop.orders")
    world.publish(catalog.put_table("shop", other, columns=("other",)))
    world.release()
    assert columns_of(world.answers[number], "orders") == ("id",)
    assert world.stats().stale_replies == 0
    assert world.columns("orders") == ("id",)


def test_lost_stub_is_noticed_by_the_heartbeat() -> None:
    world = watching()
    world.table("shop.orders")
    world.catalog.put_table("shop", "orders", columns=("id", "lost"))
    world.heartbeat()
    assert world.columns("orders") is None
    world.table("shop.orders")
    assert world.columns("orders") == ("id", "lost")


def test_while_a_level_rises_the_old_one_stays_live() -> None:
    """P-JOIN-4."""
    world = watching()
    topic = world.catalog.topic("shop", "orders")
    world.table("shop.orders")
    world.held_back = lambda _channel, message: isinstance(message, Chunk)
    number = world.ask("join", topics=(topic,), level=FULL)
    assert world.columns("orders") == ("id",)
    world.publish(world.catalog.put_table("shop", "orders", columns=("id", "more")))
    assert world.columns("orders") is None  # it goes on invalidating
    assert number not in world.answers
    world.release()
    world.pass_time(0.5)
    assert number in world.answers
    assert world.columns("orders") == ("id", "more")
    assert level(world, "orders") == "full"
    assert prefix(topic, MINIMAL) not in world.prefixes
    assert world.topics()[topic].bytes == world.catalog.live_bytes(topic)


def test_rise_is_called_off_half_way_and_its_bytes_are_free_at_once() -> None:
    world = watching()
    topic = world.catalog.topic("shop", "sales")
    held = world.stats().held_bytes
    world.held_back = lambda _channel, message: isinstance(message, Chunk)
    world.ask("join", topics=(topic,), level=FULL)
    free = world.member._subscriptions.replicas.budget.free_bytes
    assert world.ask("join", topics=(topic,), level=MINIMAL) in world.answers
    assert world.member._subscriptions.replicas.budget.free_bytes > free
    assert (world.stats().held_bytes, level(world, "sales")) == (held, "minimal")
    world.release()
    world.pass_time(1)
    assert level(world, "sales") == "minimal"
    assert prefix(topic, FULL) not in world.prefixes


def test_full_that_ends_below_what_minimal_had_reached_does_not_go_live() -> None:
    """P-JOIN-4: only at or above the position of the old level."""
    world = watching()
    topic = world.catalog.topic("shop", "orders")
    world.held_back = lambda _channel, message: isinstance(message, Chunk)
    world.ask("join", topics=(topic,), level=FULL)
    chunks, world.kept = world.kept, []
    delta = world.catalog.put_table("shop", "orders", columns=("id", "more"))
    world.held_back = lambda _channel, message: getattr(message, "level", 0) == FULL
    world.publish(delta)  # only the stub arrives
    world.held_back = lambda _channel, message: False
    world.kept = []
    for channel, message in chunks:
        world.hear(channel, message)
    assert level(world, "orders") == "minimal"
    world.pass_time(0.5)
    assert level(world, "orders") == "full"
    assert world.columns("orders") == ("id", "more")


def test_room_for_what_is_pulled_is_made_by_giving_up_what_is_not_used() -> None:
    catalog = shop()
    one = catalog.live_bytes(catalog.topic("shop", "orders"))
    namespace = catalog.live_bytes(NAMESPACE)
    world = World(catalog, budget_bytes=namespace + 4 * 64 + 3 * one)
    world.start()
    for topic in range(4):
        world.ask("join", topics=(topic,), level=MINIMAL)
    plain = [name for name in NAMES if name != "sales"]
    world.table("shop.orders")
    for name in plain:
        world.table(f"shop.{name}")
        assert world.columns("orders") == ("id",), name  # in use, so it stays
    assert sum(world.columns(name) is not None for name in plain) < len(plain)
    stats = world.stats()
    assert stats.evictions > 0
    assert stats.held_bytes <= stats.budget_bytes


def test_object_larger_than_the_budget_is_answered_and_not_kept() -> None:
    catalog = shop()
    world = World(catalog, budget_bytes=catalog.live_bytes(NAMESPACE) + 4 * 64 + 1500)
    world.start()
    for topic in range(4):
        world.ask("join", topics=(topic,), level=MINIMAL)
    number = world.table("shop.sales", whole=True)
    content = world.answers[number]
    assert isinstance(content, TableSnapshot)
    assert content.whole
    assert world.view.partitions("shop", "sales") is None
    assert world.stats().pulls_not_kept == 1


def test_level_by_hand_takes_nothing_from_pins() -> None:
    catalog = shop()
    catalog.put_partitions("shop", "sales", {f"ds=x{i:04}": {"n": str(i)} for i in range(500)})
    world = World(
        catalog,
        budget_bytes=catalog.size(NAMESPACE) + 5000,
        automatic=True,
        always=("shop.[iopv]*",),
    )
    world.start()
    world.pass_time(1)
    assert world.stats().pinned_tables == 4
    error = world.errors[world.ask("join", topics=(catalog.topic("shop", "sales"),))]
    assert isinstance(error, OverBudget)
    assert all(world.columns(name) for name in ("items", "orders", "people", "visits"))


def test_topic_for_which_no_byte_is_free_is_refused() -> None:
    catalog = shop()
    names = catalog.live_bytes(NAMESPACE)
    world = World(catalog, budget_bytes=names + 10)
    world.sizes = {NAMESPACE: names}
    world.start()
    error = world.errors[world.ask("join", topics=(0,), level=MINIMAL)]
    assert isinstance(error, OverBudget)


def test_another_hub_is_joined_at_minimal_from_where_the_topic_stands() -> None:
    world = watching(hubs=("hub-0", "hub-1"))
    world.table("shop.orders")
    world.dead.add(0)
    world.pass_time(3)
    assert world.hub == 1
    assert world.columns("orders") == ("id",)
    world.publish(world.catalog.put_table("shop", "orders", columns=("id", "more")))
    assert world.columns("orders") is None
    assert pulls(world) == 1


def test_unanswered_join_at_minimal_is_caught_up_with_in_time() -> None:
    world = started()
    topic = world.catalog.topic("shop", "orders")
    world.held_back = lambda _channel, message: isinstance(message, Joined)
    number = world.ask("join", topics=(topic,), level=MINIMAL)
    world.pass_time(3)
    assert number in world.answers
    assert level(world, "orders") == "minimal"


def test_many_topics_join_at_minimal_for_few_bytes() -> None:
    catalog = Catalog(256)
    catalog.create_database("shop")
    world = World(catalog)
    world.start()
    for topic in range(256):
        world.ask("drop", topics=(topic,))
    got: list[int] = []
    world.held_back = lambda _channel, message: got.append(len(encode(message))) is not None  # type: ignore[func-returns-value]
    member = world.member
    effects = [
        e for t in range(256) for e in member._subscriptions.join((t,), MINIMAL, now=world.now)
    ]
    assert effects == []
    world.handle(facts.Tick())
    world.run()
    assert sum(got) <= 4096, sum(got)
    assert {info.level for info in world.topics().values()} == {"minimal", "full"}
    world.member.check()


def names(world: World, text: str) -> list[str] | None:
    """Return what memory says of the partitions of ``sales`` that match; None if it does not."""
    content = world.view.partitions("shop", "sales", by_filter(text))
    if content is None:
        return None
    return list(content.partition_names("shop", "sales", by_filter(text)))


def test_filter_brings_the_blocks_that_it_needs_and_is_answered_from_memory_then() -> None:
    world = watching()
    number = world.partitions("shop.sales", "ds = '050'")
    content = world.answers[number]
    assert isinstance(content, TableSnapshot)
    assert len(content) == 2  # the table, and one of its blocks
    assert names(world, "ds = '050'") == ["ds=050"]
    assert names(world, "ds = '051'") is None
    world.partitions("shop.sales", "ds = '051'")
    assert names(world, "ds = '050'") == ["ds=050"]
    assert names(world, "ds = '051'") == ["ds=051"]
    assert pulls(world) == 2
    assert len(world.last_pull().held) == 2


def test_partition_that_comes_into_a_filter_is_seen() -> None:
    world = watching()
    world.partitions("shop.sales", "ds >= '098'")
    assert names(world, "ds >= '098'") == ["ds=098", "ds=099"]
    world.publish(world.catalog.put_partitions("shop", "sales", {"ds=100": {"n": "new"}}))
    assert names(world, "ds >= '098'") is None
    world.partitions("shop.sales", "ds >= '098'")
    assert names(world, "ds >= '098'") == ["ds=098", "ds=099", "ds=100"]


def test_change_of_a_block_that_no_filter_needs_costs_a_look_and_brings_nothing() -> None:
    world = watching()
    world.partitions("shop.sales", "ds = '001'")
    world.publish(world.catalog.put_partitions("shop", "sales", {"ds=090": {"n": "new"}}))
    got: list[Pulled] = []
    world.held_back = lambda _channel, message: isinstance(message, Pulled) and got.append(message)  # type: ignore[func-returns-value]
    world.partitions("shop.sales", "ds = '001'")
    assert [len(reply.entries) for reply in got] == [0]
    assert names(world, "ds = '001'") == ["ds=001"]


def test_dropped_partition_leaves_the_filter_that_held_it() -> None:
    world = watching()
    world.partitions("shop.sales", "ds = '001'")
    world.publish(world.catalog.put_partitions("shop", "sales", {"ds=001": None}))
    world.partitions("shop.sales", "ds = '001'")
    assert names(world, "ds = '001'") == []


def test_filter_too_long_for_a_message_brings_all_blocks() -> None:
    world = watching()
    listed = ", ".join(f"'{number}'" for number in range(2000))
    number = world.partitions("shop.sales", f"ds in ({listed})")
    content = world.answers[number]
    assert isinstance(content, TableSnapshot)
    assert content.whole


def test_room_that_is_set_aside_as_a_guess_is_room_for_what_is_pulled() -> None:
    world = watching(budget_bytes=20_000)
    resident_set = world.member._subscriptions.replicas.resident_set
    resident_set.reserve((0, FULL), 1 << 20)  # as for growth of unknown size: all that there is
    assert world.member._subscriptions.replicas.budget.free_bytes == 0
    world.table("shop.orders")
    assert world.columns("orders") == ("id",)
    assert world.stats().pulls_not_kept == 0
