"""Which topics are followed, within the budget, and how gaps are repaired."""

from dataclasses import replace
from hashlib import sha256

from topicast.subscriber.protocol.channels import Channel
from topicast.subscriber.store.table_snapshot import TableSnapshot
from topicast.tests.subscriber.source import NAMES, shop
from topicast.tests.subscriber.world import World, started
from topicast.topics.entries import FULL
from topicast.topics.errors import OverBudget, UsageError
from topicast.topics.sharding import NAMESPACE
from topicast.topics.wire.header import prefix
from topicast.topics.wire.messages import (
    DENIED,
    Cancel,
    CatchUp,
    Chunk,
    Drop,
    Joined,
    Pull,
)


def test_member_is_ready_and_answers_from_memory() -> None:
    world = started()
    assert world.view.databases() == ("shop",)
    assert world.view.tables("shop") == NAMES
    assert all(world.columns(name) == ("id",) for name in NAMES)
    stats = world.stats()
    assert (stats.ready, stats.pulls, stats.misses, stats.hits) == (True, 0, 0, 6)
    assert stats.held_bytes == sum(map(world.catalog.live_bytes, world.catalog.topics))
    assert {info.level for info in world.topics().values()} == {"full"}
    assert all(info.lag_s <= 0.3 for info in world.topics().values())


def test_delta_is_visible_at_once() -> None:
    world = started()
    world.publish(world.catalog.put_table("shop", "orders", columns=("id", "more")))
    assert world.columns("orders") == ("id", "more")
    info = world.topics()[world.catalog.topic("shop", "orders")]
    assert info.version == world.catalog.topics[info.id].version


def test_start_follows_the_smallest_topics_that_fit_and_pulls_the_rest() -> None:
    catalog = shop()
    sizes = {topic: catalog.size(topic) for topic in catalog.topics}
    largest = max((t for t in sizes if t != NAMESPACE), key=sizes.__getitem__)
    world = World(catalog, budget_bytes=sum(sizes.values()) - 1)
    world.start()
    levels = {topic: info.level for topic, info in world.topics().items()}
    assert [topic for topic, level in levels.items() if level == "none"] == [largest]
    assert any(largest in drop.topics for drop in world.said(Drop) if isinstance(drop, Drop))
    number = world.table(
        "shop.sales" if catalog.topic("shop", "sales") == largest else "shop.orders"
    )
    assert isinstance(world.answers[number], TableSnapshot)
    assert len(world.said(Pull)) == 1


def test_namespace_that_does_not_fit_fails_the_start_and_says_the_bytes() -> None:
    catalog = shop()
    world = World(catalog, budget_bytes=catalog.size(NAMESPACE) - 1)
    world.pass_time(0.3)
    error = world.errors[world.ask("ready")]
    assert isinstance(error, OverBudget)
    assert error.needed_bytes == catalog.size(NAMESPACE)
    assert isinstance(world.errors[world.ask("namespace")], OverBudget)


def test_explicit_join_beyond_the_budget_is_refused_with_the_bytes_needed() -> None:
    catalog = shop()
    big = catalog.topic("shop", "sales")
    world = World(catalog, budget_bytes=sum(map(catalog.live_bytes, catalog.topics)) - 1)
    world.start()
    error = world.errors[world.ask("join", topics=(big,))]
    assert isinstance(error, OverBudget)
    assert error.needed_bytes == catalog.size(big)
    assert len(world.said(CatchUp)) == 1  # nothing was asked for in vain
    assert world.topics()[big].level == "none"


def test_dropped_topic_is_pulled_and_joined_again_from_memory() -> None:
    world = started()
    topic = world.catalog.topic("shop", "orders")
    held = world.stats().held_bytes
    assert world.ask("drop", topics=(topic,)) in world.answers
    assert world.columns("orders") is None
    assert world.stats().held_bytes == held - world.catalog.live_bytes(topic)
    assert world.table("shop.orders") in world.answers
    assert world.columns("orders") is None
    number = world.ask("join", topics=(topic,))
    world.run()
    assert number in world.answers
    assert world.ask("join", topics=(topic,)) in world.answers  # joined already
    assert world.columns("orders") == ("id",)
    assert world.stats().held_bytes == held


def test_join_of_no_topic_and_drop_of_the_namespace_are_refused() -> None:
    world = started()
    assert isinstance(world.errors[world.ask("join", topics=(4,))], UsageError)
    assert isinstance(world.errors[world.ask("drop", topics=(NAMESPACE,))], UsageError)
    assert isinstance(world.errors[world.ask("drop", topics=(4,))], UsageError)


def test_topic_that_outgrows_the_budget_is_dropped_largest_first() -> None:
    catalog = shop()
    sizes = {topic: catalog.size(topic) for topic in catalog.topics}
    largest = max((t for t in sizes if t != NAMESPACE), key=sizes.__getitem__)
    world = World(catalog, budget_bytes=sum(sizes.values()) + 100)
    world.start()
    world.publish(*catalog.create_table("shop", "zzz"))
    assert world.stats().evictions >= 1
    assert world.topics()[largest].level == "minimal"
    assert "zzz" in (world.view.tables("shop") or ())
    world.pass_time(0.5)
    assert isinstance(world.answers[world.table("shop.zzz")], TableSnapshot)


def test_namespace_that_outgrows_the_budget_drops_all_else_and_then_fails() -> None:
    catalog = shop()
    world = World(catalog, budget_bytes=sum(map(catalog.size, catalog.topics)) + 100)
    world.start()
    for number in range(60):
        world.publish(*catalog.create_table("shop", f"{number:02}" + "n" * 300))
    assert {info.level for info in world.topics().values()} == {"none"}
    assert isinstance(world.errors[world.ask("namespace")], OverBudget)
    assert isinstance(
        world.answers[world.table("shop.orders")], TableSnapshot
    )  # pulled all the same


def test_topic_that_grows_while_it_is_joined_gives_way_itself() -> None:
    catalog = shop()
    topic = catalog.topic("shop", "sales")
    world = World(catalog, budget_bytes=sum(map(catalog.size, catalog.topics)) + 400)
    world.start()
    world.ask("drop", topics=(topic,))
    world.held_back = lambda channel, message: isinstance(message, Joined)
    number = world.ask("join", topics=(topic,))
    catalog.put_partitions("shop", "sales", {f"ds=x{i:03}": {"n": "9" * 99} for i in range(90)})
    world.release()  # the hub spoke before the topic grew
    assert isinstance(world.errors[number], OverBudget)
    assert [t for t, info in world.topics().items() if info.level == "minimal"] == [topic]


def test_topic_that_grows_while_it_is_joined_spares_a_larger_one() -> None:
    catalog = shop()
    small = next(
        catalog.topic("shop", n)
        for n in NAMES
        if catalog.topic("shop", n) != catalog.topic("shop", "sales")
    )
    name = next(n for n in NAMES if catalog.topic("shop", n) == small)
    world = World(catalog, budget_bytes=sum(map(catalog.size, catalog.topics)) + 200)
    world.start()
    world.ask("drop", topics=(small,))
    world.held_back = lambda channel, message: isinstance(message, Joined)
    number = world.ask("join", topics=(small,))
    catalog.put_table("shop", name, columns=tuple(sha256(b"%d" % i).hexdigest() for i in range(20)))
    world.release()
    assert isinstance(world.errors[number], OverBudget)
    assert [t for t, info in world.topics().items() if info.level == "minimal"] == [small]


def test_first_credit_is_no_more_than_what_is_reserved() -> None:
    """P-CREDIT-5."""
    world = started()
    request = world.said(CatchUp)[0]
    assert isinstance(request, CatchUp)
    assert request.credit == sum(map(world.catalog.size, world.catalog.topics))


def test_drop_in_the_middle_of_a_catch_up_cancels_what_nobody_waits_for() -> None:
    """P-JOIN-2."""
    world = started()
    topic = world.catalog.topic("shop", "orders")
    world.held_back = lambda channel, message: isinstance(message, Chunk)
    world.catalog.put_table("shop", "orders", columns=("id", "lost"))
    world.pass_time(0.3)
    world.ask("drop", topics=(topic,))
    assert len(world.said(Cancel)) == 1
    world.release()  # a part that was on its way
    assert len(world.said(Cancel)) == 2
    assert world.topics()[topic].level == "none"
    assert prefix(topic, FULL) not in world.prefixes
    assert [drop.topics for drop in world.said(Drop) if isinstance(drop, Drop)] == [(topic,)]


def test_late_delta_of_a_dropped_topic_changes_nothing() -> None:
    world = started()
    topic = world.without("orders")
    world.hear(Channel.DATA, world.catalog.put_table("shop", "orders", columns=("late",)))
    assert (world.topics()[topic].bytes, world.columns("orders")) == (0, None)


def test_topic_that_is_denied_is_not_followed() -> None:
    world = started()
    topic = world.without("orders")
    world.held_back = lambda channel, message: isinstance(message, Joined)
    number = world.ask("join", topics=(topic,))
    channel, message = world.kept.pop()
    assert isinstance(message, Joined)
    denied = replace(message, topics=(replace(message.topics[0], answer=DENIED),))
    world.held_back = lambda channel, message: False
    world.hear(channel, denied)
    assert isinstance(world.errors[number], UsageError)
    assert world.topics()[topic].level == "none"


def test_reservation_of_a_catch_up_ends_with_it() -> None:
    catalog = shop()
    world = World(catalog, budget_bytes=sum(map(catalog.size, catalog.topics)) + 2000)
    world.start()
    catalog.put_table("shop", "sales", keys=("ds",), columns=("id", "lost"))
    world.pass_time(0.3)
    world.publish(*catalog.create_table("shop", "aaa"))
    assert world.stats().evictions == 0


def test_topic_that_begins_anew_keeps_its_place_in_the_budget() -> None:
    world = started()
    replicas = world.member._subscriptions.replicas
    account = (world.catalog.topic("shop", "sales"), FULL)
    committed = replicas.budget.committed(account)
    replicas.resident_set.begin_snapshot(account, replicas.view.topics[account[0]])
    assert (replicas.budget.held(account), replicas.budget.committed(account)) == (0, committed)


def test_room_for_growth_of_unknown_size_is_no_reason_to_drop_or_refuse() -> None:
    catalog = shop()
    world = World(catalog, budget_bytes=sum(map(catalog.size, catalog.topics)) + 3000)
    world.start()
    topic = world.without("orders")
    world.held_back = lambda channel, message: isinstance(message, Chunk)
    catalog.put_table("shop", "sales", keys=("ds",), columns=("id", "lost"))
    world.pass_time(0.3)  # its catch-up takes all that is free
    replicas = world.member._subscriptions.replicas
    assert replicas.budget.free_bytes == 0
    world.publish(*catalog.create_table("shop", "aaa"))
    assert world.stats().evictions == 0
    world.held_back = lambda channel, message: False
    assert world.ask("join", topics=(topic,)) in world.answers
