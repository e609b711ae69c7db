"""What watchers are told."""

from dataclasses import replace
from math import inf

import pytest

from topicast.subscriber.placement.priorities import Priorities
from topicast.subscriber.protocol import effects, facts, status
from topicast.subscriber.protocol.channels import Channel
from topicast.subscriber.replication.apply import StepApplier
from topicast.subscriber.store.change_feed import ChangeFeed
from topicast.subscriber.store.pin_rules import PinRules
from topicast.subscriber.store.read_floor import ReadFloor
from topicast.subscriber.store.table_snapshot import Swap, TableSnapshot
from topicast.tests.subscriber.source import NAMES, Catalog, shop
from topicast.tests.subscriber.world import World, started
from topicast.topics.entries import FULL, MINIMAL, STUB, Entry
from topicast.topics.follower import LIVE, Follower
from topicast.topics.objects.names import database_key, table_key
from topicast.topics.objects.rules import OFF, Rule
from topicast.topics.sharding import NAMESPACE
from topicast.topics.wire.messages import (
    SOURCE_EVENTS,
    SOURCE_LOAD,
    SOURCE_ORDERS,
    SOURCE_OVERWRITES,
    SOURCE_REPORTS,
    Chunk,
    Delta,
    Joined,
)


def _watching(world: World) -> World:
    world.handle(facts.Watching(True))
    return world


def _seen(world: World) -> list[tuple[str, str, str]]:
    seen = [(change.object, change.kind, change.origin) for change in world.changes]
    world.changes.clear()
    return seen


def test_watcher_is_told_what_was_created_changed_and_dropped() -> None:
    world = _watching(started())
    catalog = world.catalog
    world.publish(*catalog.create_database("new"))
    assert _seen(world) == [("new", "created", "events")]
    world.publish(*catalog.create_table("shop", "aaa"))
    assert _seen(world) == [("shop.aaa", "created", "events")]
    world.publish(catalog.put_table("shop", "aaa", columns=("x",)))
    assert _seen(world) == [("shop.aaa", "schema", "events")]
    world.publish(catalog.put_partitions("shop", "sales", {"ds=001": {"n": "new"}}))
    assert _seen(world) == [("shop.sales", "data", "events")]
    world.publish(*catalog.drop_table("shop", "aaa"))
    assert _seen(world) == [("shop.aaa", "dropped", "events")]


def test_nobody_is_told_anything_unless_somebody_watches() -> None:
    world = started()
    world.publish(*world.catalog.create_table("shop", "aaa"))
    assert _seen(world) == []


def test_load_is_no_change_and_first_content_is_none() -> None:
    world = World(shop())
    _watching(world)
    world.start()
    delta = world.catalog.put_table("shop", "orders", columns=("x",), source=SOURCE_LOAD)
    world.publish(delta)
    assert _seen(world) == []


def test_changes_that_were_missed_are_told_after_the_catch_up() -> None:
    world = _watching(started())
    catalog = world.catalog
    catalog.put_table("shop", "orders", columns=("x",))
    catalog.drop_table("shop", "items")
    catalog.create_table("shop", "zzz")
    world.pass_time(0.3)
    assert sorted(_seen(world)) == [
        ("shop.items", "dropped", "catch-up"),
        ("shop.orders", "schema", "catch-up"),
        ("shop.zzz", "created", "catch-up"),
    ]


def test_new_epoch_tells_names_that_differ_and_every_table_as_changed() -> None:
    world = _watching(started())
    replacement = Catalog(epoch=11, start=5)
    replacement.create_database("shop")
    replacement.create_table("shop", "orders")
    replacement.create_table("shop", "fresh")
    world.catalog = replacement
    world.pass_time(1)
    seen = _seen(world)
    dropped = sorted(name for name, kind, _ in seen if kind == "dropped")
    assert dropped == [f"shop.{name}" for name in NAMES if name != "orders"]
    assert ("shop.fresh", "created", "catch-up") in seen
    assert ("shop.orders", "data", "catch-up") in seen


def test_value_after_a_stub_is_a_change_unless_it_was_loaded() -> None:
    """What the stub stands for may have been pulled, and be another than the value."""
    world = _watching(started())
    catalog = world.catalog
    topic = catalog.topic("shop", "orders")
    entry = catalog.topics[topic].get(table_key("shop", "orders"))
    assert entry is not None
    version = catalog.next(topic)
    unloaded = Entry(entry.key, version, version, version, entry.size, None, STUB)
    world.publish(catalog.commit(topic, [unloaded], SOURCE_LOAD))
    world.publish(catalog.put_table("shop", "orders", columns=("x",), source=SOURCE_LOAD))
    assert _seen(world) == []
    world.publish(catalog.commit(topic, [unloaded._replace(version=catalog.next(topic))]))
    assert _seen(world) == [("shop.orders", "data", "events")]
    world.publish(catalog.put_table("shop", "orders", columns=("x",)))
    assert _seen(world) == [("shop.orders", "schema", "events")]


def _at_minimal(topic: int) -> World:
    world = _watching(started())
    world.ask("drop", topics=(topic,))
    world.ask("join", topics=(topic,), level=MINIMAL, give_up_at=inf)
    return world


@pytest.mark.parametrize("level", [FULL, MINIMAL])
def test_watcher_is_told_of_files_that_are_gone(level: int) -> None:
    world = _watching(started()) if level == FULL else _at_minimal(shop().topic("shop", "sales"))
    _seen(world)
    for source, overwritten in ((SOURCE_REPORTS, False), (SOURCE_OVERWRITES, True)):
        world.publish(world.catalog.put_table("shop", "sales", source=source))
        (change,) = world.changes
        assert (change.origin, change.overwritten) == ("reports", overwritten)
        world.changes.clear()


def _all_of(world: World, topic: int) -> list[tuple[str, str, str]]:
    names = [name for name in NAMES if world.catalog.topic("shop", name) == topic]
    return [(f"shop.{name}", "data", "catch-up") for name in names]


def test_stub_that_was_lost_is_told_by_the_catch_up() -> None:
    topic = shop().topic("shop", "sales")
    world = _at_minimal(topic)
    _seen(world)
    world.held_back = lambda _channel, message: isinstance(message, Delta)
    world.publish(world.catalog.put_partitions("shop", "sales", {"ds=001": {"n": "new"}}))
    assert _seen(world) == []
    world.pass_time(1)
    assert _seen(world) == [("shop.sales", "data", "catch-up")]


def test_horizon_is_told_as_a_change_of_every_table() -> None:
    topic = shop().topic("shop", "sales")
    world = _at_minimal(topic)
    _seen(world)
    delta = world.catalog.put_partitions("shop", "sales", {"ds=001": {"n": "new"}})
    told = replace(delta, level=MINIMAL, entries=(), invalidate_all=True)
    world.handle(facts.Received(Channel.DATA, told))
    assert sorted(_seen(world)) == _all_of(world, topic)


def test_whoever_has_read_is_told_of_every_table_once_it_is_followed() -> None:
    topic = shop().topic("shop", "sales")
    world = _at_minimal(topic)
    assert sorted(_seen(world)) == _all_of(world, topic)  # it was at full, and read perhaps
    world.ask("drop", topics=(topic,))
    world.publish(world.catalog.put_partitions("shop", "sales", {"ds=001": {"n": "new"}}))
    assert _seen(world) == []
    world.ask("join", topics=(topic,), level=FULL, give_up_at=inf)
    assert sorted(_seen(world)) == _all_of(world, topic)


def test_whoever_has_not_read_is_told_nothing_when_it_is_followed() -> None:
    world = _watching(started(automatic=True))
    world.ask("join", topics=(shop().topic("shop", "sales"),), level=MINIMAL, give_up_at=inf)
    assert _seen(world) == []


def test_whoever_waits_for_a_sync_first_knows_nothing_by_it() -> None:
    """The bound that a sync sets is of no reader; else each watch would begin with every table."""
    world = started(automatic=True)
    world.held_back = lambda channel, message: isinstance(message, Joined)
    world.handle(facts.Watching(True))
    number = world.ask("sync")
    world.release()
    world.pass_time(0.5)
    assert number in world.answers
    assert _seen(world) == []


def test_new_epoch_tells_every_table_of_a_topic_that_was_followed_and_never_read() -> None:
    world = World(automatic=True)
    world.catalog.create_database("shop")
    world.start()
    topic = world.catalog.topic("shop", "orders")
    world.ask("join", topics=(topic,), level=MINIMAL, give_up_at=inf)
    _watching(world)
    replacement = Catalog(epoch=11, start=5)
    replacement.create_database("shop")
    replacement.create_table("shop", "orders")
    world.catalog = replacement
    world.pass_time(1)
    assert ("shop.orders", "data", "catch-up") in _seen(world)


def test_gap_is_told_of_tables_whose_names_are_still_to_come_back() -> None:
    world = _watching(started())
    replicas = world.member._subscriptions.replicas
    topic = world.catalog.topic("shop", "sales")
    names = replicas.view.topics[NAMESPACE]
    replicas.change_feed.on_snapshot(NAMESPACE, names.groups)
    names.groups = {}
    told = [(c.object, c.kind, c.origin) for c in replicas.change_feed.gap(topic, 9, replicas.view)]
    assert sorted(told) == _all_of(world, topic)


def test_table_that_a_pull_found_and_no_name_ever_told_of_is_told_as_dropped() -> None:
    world = _watching(started())
    replicas = world.member._subscriptions.replicas
    change_feed, view = replicas.change_feed, replicas.view
    change_feed.on_pulled("shop", "passed", view)
    change_feed.on_pulled("shop", "sales", view)
    told = [
        (change.object, change.kind, change.origin)
        for change in change_feed.on_names_caught_up(9, view)
    ]
    assert told == [("shop.passed", "dropped", "catch-up")]
    assert change_feed.on_names_caught_up(9, view) == ()
    world.handle(facts.Watching(False))
    change_feed.on_pulled("shop", "passed", view)
    assert change_feed.on_names_caught_up(9, view) == ()


def test_what_was_pulled_while_its_topic_was_behind_is_told_when_that_is_caught_up() -> None:
    world = _watching(started())
    replicas = world.member._subscriptions.replicas
    change_feed, view = replicas.change_feed, replicas.view
    topic = world.catalog.topic("shop", "sales")
    change_feed.on_pulled("shop", "sales", view)
    assert change_feed.on_caught_up(topic, 9, {}) == (), "memory has it as new as the pull"
    for fate, told in ((lambda _topic: None, ["shop.sales"]), (change_feed.discard, [])):
        view.close(topic)
        change_feed.on_pulled("shop", "sales", view)
        fate(topic)
        assert [change.object for change in change_feed.on_caught_up(topic, 9, {})] == told


def test_level_that_goes_live_above_the_one_before_it_is_a_gap() -> None:
    topic = shop().topic("shop", "sales")
    world = _watching(started())
    replicas = world.member._subscriptions.replicas
    applier = StepApplier(
        replicas.resident_set,
        Priorities(PinRules(), replicas.view, automatic=False),
        fence=replicas.fence,
        read_floor=ReadFloor(),
        change_feed=replicas.change_feed,
    )
    old, new = Follower(topic, MINIMAL, epoch=10, version=5), Follower(topic, FULL, epoch=10)

    def told() -> tuple[effects.Effect, ...]:
        applier.level_changed(old, new)
        return applier.take_changes()

    assert told() == ()  # it is not placed yet
    new.state, new.version = LIVE, 5
    assert told() == ()
    new.version = 6
    (changed,) = told()
    assert isinstance(changed, effects.Notify)
    assert len(changed.changes) == len(_all_of(world, topic))
    new.epoch, new.version = 11, 1  # catalogd lost its store: versions begin anew
    assert told() == (replace(changed, changes=_at(changed, 1)),)
    world.handle(facts.Watching(False))
    assert told() == ()


def _at(changed: effects.Notify, version: int) -> tuple[status.Change, ...]:
    return tuple(replace(change, version=version) for change in changed.changes)


def test_each_change_of_what_is_withheld_is_told() -> None:
    """Its entries are stubs, before and after: who follows at full is told as at minimal."""
    world = _watching(started())
    catalog = world.catalog
    topic = catalog.topic("shop", "sales")
    group = table_key("shop", "sales")
    for source, schema, told in (
        (SOURCE_EVENTS, True, [("shop.sales", "schema", "events")]),
        (SOURCE_EVENTS, False, [("shop.sales", "data", "events")]),
        (SOURCE_ORDERS, True, [("shop.sales", "schema", "orders")]),
        (SOURCE_LOAD, True, []),
    ):
        version = catalog.next(topic)
        old = catalog.topics[topic].get(group)
        assert old is not None
        changed = version if schema else old.schema_version
        stubbed = Entry(group, version, changed, version, 9, None, STUB)
        world.publish(catalog.commit(topic, [stubbed], source))
        assert _seen(world) == told


def test_changed_database_is_told() -> None:
    world = _watching(started())
    catalog = world.catalog
    old = catalog.topics[NAMESPACE].get(database_key("shop"))
    assert old is not None
    assert old.value is not None
    changed = catalog.value(old.key, catalog.next(NAMESPACE), old.value)
    world.publish(catalog.commit(NAMESPACE, [changed]))
    assert _seen(world) == [("shop", "schema", "events")]


def test_rules_for_drivers_are_no_change_of_an_object() -> None:
    """P-RULES-1."""
    world = _watching(started())
    replicas = world.member._subscriptions.replicas
    topic = world.catalog.topic("shop", "sales")
    world.publish(world.catalog.rule(Rule("a", OFF)))
    world.publish(world.catalog.rule(Rule("b", OFF)))
    told = [(c.object, c.kind, c.origin) for c in replicas.change_feed.gap(topic, 9, replicas.view)]
    assert sorted(told) == _all_of(world, topic)
    world.publish(world.catalog.rule())
    assert _seen(world) == []


def test_dropped_topic_is_watched_no_more() -> None:
    world = _watching(started())
    catalog = world.catalog
    catalog.put_table("shop", "orders", columns=("x",))
    world.held_back = lambda channel, message: isinstance(message, Chunk) and message.last
    world.pass_time(0.3)
    world.without("orders")
    world.release()
    assert _seen(world) == []


def test_snapshot_of_a_table_topic_holds_no_second_copy() -> None:
    change_feed = ChangeFeed()
    change_feed.enabled = True
    content = TableSnapshot()
    change_feed.on_snapshot(3, {b"db\0t\0": content})
    change_feed.on_chunk(3, [Swap(b"db\0t\0", content, None)])
    assert change_feed._before == {}
    change_feed.discard(3)
    assert change_feed.on_caught_up(3, 1, {b"db\0t\0": content}) == ()


def test_what_a_new_epoch_has_not_loaded_yet_is_told_as_changed() -> None:
    """Its content comes later, by a load, which is told to nobody (make sim SEED=100374)."""
    change_feed = ChangeFeed()
    change_feed.enabled = True
    change_feed.on_snapshot(3, {b"db\0t\0": TableSnapshot()})
    told = change_feed.on_caught_up(3, 1, {b"db\0u\0": TableSnapshot()})
    assert [(change.object, change.kind) for change in told] == [("db.t", "data"), ("db.u", "data")]
    assert change_feed.on_caught_up(3, 2, {}) == ()


@pytest.mark.parametrize("automatic", [False, True], ids=["full", "minimal"])
def test_watcher_is_told_whether_files_may_differ_or_partitions_came_and_went(
    automatic: bool,
) -> None:
    world = World(shop(), automatic=automatic)
    world.start()
    _watching(world)
    world.pass_time(1)
    catalog = world.catalog
    world.changes.clear()
    world.publish(catalog.put_partitions("shop", "sales", {"ds=999": {"n": "new"}}))
    world.publish(catalog.put_table("shop", "sales", columns=("x",)))
    assert [(one.kind, one.files) for one in world.changes] == [("data", False), ("schema", True)]
