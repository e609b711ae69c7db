"""What watchers are told."""

from topicast.subscriber import facts
from topicast.tests.subscriber.source import NAMES, Catalog, shop
from topicast.tests.subscriber.world import World, started
from topicast.topics.wire.messages import (
    SOURCE_LOAD,
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
