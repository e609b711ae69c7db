"""Tests of pins: a pinned table is pulled and kept, and pulled again after each change."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from topicast.subscriber.placement.controller import PINNED, PLAN_S
from topicast.subscriber.placement.planner import Plan, Situation
from topicast.subscriber.placement.prefetch import INTERVAL_S, OUTSTANDING_MAX, RETRY_S
from topicast.subscriber.protocol.channels import Channel
from topicast.subscriber.store.resident_set import PINNED_SHARE
from topicast.tests.subscriber.source import NAMES, shop
from topicast.tests.subscriber.world import World, chooser, large, pulls
from topicast.topics.errors import NoSuchObject, NotReady, OverBudget, UsageError
from topicast.topics.objects.names import parse_table_key, table_key
from topicast.topics.topic import MINIMAL, MINIMAL_BYTES, NAMESPACE
from topicast.topics.wire.messages import Pulled


def whole(world: World, name: str) -> bool:
    return world.view.partitions("shop", name) is not None


def pin(world: World, name: str, **fields: object) -> int:
    return world.ask("pin", db="shop", table=name, **fields)


def unpin(world: World, name: str) -> None:
    assert world.ask("unpin", db="shop", table=name) in world.answers


def test_pinned_tables_are_pulled_whole_before_they_are_read() -> None:
    world = chooser(always=("shop.sales", "shop.o*"))
    assert whole(world, "sales")
    assert whole(world, "orders")
    assert world.columns("items") is None
    assert [one.table for one in pulls(world)] == ["orders", "sales"]
    stats = world.stats()
    assert (stats.pulls, stats.prefetches, stats.pinned_tables, stats.pinned_not_held) == (
        2,
        2,
        2,
        0,
    )
    assert stats.misses == 0
    info = world.topics()[world.catalog.topic("shop", "sales")]
    assert (info.level, info.why) == ("minimal", PINNED)
    world.pass_time(2 * PLAN_S)
    assert world.topics()[world.catalog.topic("shop", "sales")].why.startswith(PINNED)


def test_stub_of_a_pinned_table_pulls_it_again_before_the_first_query() -> None:
    world = chooser(always=("shop.orders",))
    world.pass_time(INTERVAL_S)
    world.publish(world.catalog.put_table("shop", "orders", columns=("id", "more")))
    assert world.columns("orders") == ("id", "more")
    assert len(pulls(world)) == 2
    world.publish(world.catalog.put_table("shop", "items", columns=("id", "more")))
    assert len(pulls(world)) == 2


def test_pinned_table_that_changes_all_the_time_is_pulled_once_a_second() -> None:
    world = chooser(always=("shop.orders",))
    before = len(pulls(world))
    for number in range(100):
        world.publish(world.catalog.put_table("shop", "orders", columns=(f"c{number}",)))
        world.pass_time(0.05)
    assert 4 <= len(pulls(world)) - before <= 6
    world.pass_time(INTERVAL_S)
    assert world.columns("orders") == ("c99",)


def test_pinned_table_is_not_evicted_until_it_is_unpinned() -> None:
    world = chooser(room=7000, always=("shop.sales",))
    names = [f"t{number}" for number in range(40)]
    for name in names:
        world.table(f"shop.{name}")
        assert whole(world, "sales"), name
    assert world.stats().evictions > 0
    unpin(world, "sales")
    assert world.stats().pinned_tables == 0
    for name in names:
        world.table(f"shop.{name}")
        world.table(f"shop.{name}")
    assert world.columns("sales") is None


def test_pin_by_hand_returns_when_the_table_is_held_and_survives_a_drop_of_the_table() -> None:
    world = chooser()
    number = pin(world, "sales")
    assert number in world.answers
    assert whole(world, "sales")
    world.publish(*world.catalog.drop_table("shop", "sales"))
    assert world.stats().pinned_tables == 0
    world.publish(*world.catalog.create_table("shop", "sales"))
    world.pass_time(2 * INTERVAL_S)
    assert world.stats().pinned_tables == 1
    assert whole(world, "sales")


def test_pin_of_what_does_not_exist_or_was_dropped_by_hand_is_refused() -> None:
    world = chooser()
    assert isinstance(world.errors[pin(world, "nothing")], NoSuchObject)
    topic = world.without("orders")
    error = world.errors[pin(world, "orders")]
    assert isinstance(error, UsageError)
    assert f"topic {topic}" in str(error)
    assert world.stats().pinned_tables == 0


def test_pin_that_cannot_be_pulled_fails_in_time_and_is_tried_again() -> None:
    world = chooser()
    world.deaf.add(Channel.PULLS)
    number = pin(world, "orders", give_up_at=world.now + 1)
    world.pass_time(2)
    error = world.errors[number]
    assert isinstance(error, NotReady)
    assert str(error) == "shop.orders is pinned and not held yet: catalogd has not sent it"
    world.deaf.clear()
    world.pass_time(20)
    assert whole(world, "orders")


def test_pin_that_does_not_fit_is_refused_with_the_bytes_needed() -> None:
    catalog = large()
    catalog.put_partitions("shop", "sales", {f"ds=x{i:04}": {"n": str(i)} for i in range(3000)})
    world = chooser(catalog)
    number = pin(world, "sales")
    world.pass_time(0.5)
    error = world.errors[number]
    assert isinstance(error, OverBudget)
    assert error.needed_bytes > error.free_bytes
    assert error.what == "shop.sales"
    assert (world.stats().pinned_tables, world.stats().pinned_not_held) == (0, 0)
    number = pin(world, "orders")
    world.pass_time(0.5)
    assert number in world.answers


def test_patterns_that_pin_more_than_the_budget_keep_the_first_tables_and_warn_once() -> None:
    world = chooser(room=6000, always=("shop.t*",))
    world.pass_time(RETRY_S)
    stats = world.stats()
    assert stats.pinned_tables == 40
    assert 0 < stats.pinned_not_held < 40
    held = sum(whole(world, f"t{number}") for number in range(40))
    assert held == 40 - stats.pinned_not_held
    (warning,) = world.warnings
    assert warning.tables == stats.pinned_not_held
    assert warning.needed_bytes > warning.room_bytes
    before = len(pulls(world))
    world.pass_time(4 * RETRY_S)
    assert len(pulls(world)) == before  # there is no room, so there is nothing to try
    world.table("shop.t39")
    assert world.stats().held_bytes <= world.stats().budget_bytes
    for number in range(30):
        unpin(world, f"t{number}")
    world.pass_time(2 * RETRY_S)
    assert world.stats().pinned_not_held == 0
    assert all(whole(world, f"t{number}") for number in range(30, 40))
    assert len(world.warnings) == 1


def test_pins_take_only_their_share_of_what_the_names_leave() -> None:
    world = chooser(room=6000, always=("shop.t*",))
    world.pass_time(RETRY_S)
    pinned = world.stats().held_bytes - world.catalog.live_bytes(NAMESPACE) - 4 * MINIMAL_BYTES
    assert 0.7 * 6000 < pinned <= PINNED_SHARE * 6000


def test_planner_is_given_what_pins_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    world = chooser(always=("shop.sales", "shop.orders"))
    planner, catalog = world.member.placement.planner, world.catalog
    plans: list[tuple[dict[int, Situation], int]] = []

    def plan(topics: list[Situation], *, budget_bytes: int, **more: object) -> Plan:
        plans.append(({one.topic: one for one in topics}, budget_bytes))
        return Plan(steps=(), reasons={})

    monkeypatch.setattr(planner, "plan", plan)
    world.pass_time(PLAN_S)
    situations, budget = plans[-1]
    pinned = world.member.prefetcher.pins.needed_bytes
    assert budget == world.stats().budget_bytes - catalog.live_bytes(NAMESPACE) - pinned
    hub = sum(catalog.size(topic) for topic in situations)
    assert sum(one.full_bytes for one in situations.values()) == hub - pinned
    assert {t for t, one in situations.items() if one.required == PINNED} == {
        catalog.topic("shop", "sales"),
        catalog.topic("shop", "orders"),
    }
    world.ask("join", topics=(catalog.topic("shop", "sales"),), level=MINIMAL)
    world.pass_time(PLAN_S + 1)  # what is set by hand takes its bytes from the others too
    situations, budget = plans[-1]
    assert catalog.topic("shop", "sales") not in situations
    committed = world.topics()[catalog.topic("shop", "sales")].bytes
    world.held_back = lambda _channel, message: isinstance(message, Pulled)
    world.publish(catalog.put_table("shop", "sales", columns=("id", "more")))
    assert not whole(world, "sales")
    world.pass_time(PLAN_S + 1)  # what was held and will come again is not given away
    size = world.member.prefetcher.pins.known[table_key("shop", "sales")].size
    assert world.topics()[catalog.topic("shop", "sales")].bytes < size
    assert plans[-1][1] == budget + committed - size


def test_levels_at_full_are_lowered_for_pins() -> None:
    catalog = large()
    rest = sum(catalog.size(topic) for topic in range(4))
    world = chooser(catalog, room=int(rest / 0.55))
    world.pass_time(3 * PLAN_S)
    assert {world.topics()[topic].level for topic in range(4)} == {"full"}
    world.withheld.update(f"t{number}" for number in range(40))
    parts = {f"ds=x{i:04}": {"n": str(i * i)} for i in range(3000)}
    world.publish(catalog.put_partitions("shop", "sales", parts))
    world.pass_time(3 * PLAN_S)
    assert world.topics()[catalog.topic("shop", "sales")].level == "minimal"
    for number in range(40):
        pin(world, f"t{number}")
    world.pass_time(6 * PLAN_S)
    stats = world.stats()
    assert (stats.pinned_tables, stats.pinned_not_held) == (40, 0)
    assert stats.held_bytes <= stats.budget_bytes


def test_pinned_table_of_a_full_topic_is_not_pulled() -> None:
    world = World(shop(), always=("shop.*",))
    world.start()
    world.pass_time(2)
    assert pulls(world) == []
    assert world.stats().pinned_tables == len(NAMES)
    world.ask("join", topics=(world.catalog.topic("shop", "sales"),), level=MINIMAL)
    world.pass_time(2)
    assert whole(world, "sales")


def test_withheld_table_of_a_full_topic_is_pinned_all_the_same() -> None:
    world = World(shop(), always=("shop.sales",))
    world.withheld.add("sales")
    world.start()
    world.pass_time(1)
    assert whole(world, "sales")
    world.pass_time(INTERVAL_S)
    world.publish(world.catalog.put_partitions("shop", "sales", {"ds=200": {"n": "x"}}))
    assert whole(world, "sales")
    assert len(pulls(world)) == 2


def test_withheld_table_of_which_a_part_is_held_is_pulled_whole_once_it_is_pinned() -> None:
    world = World(shop())
    world.withheld.add("sales")
    world.start()
    world.table("shop.sales")
    assert not whole(world, "sales")
    assert pin(world, "sales") in world.answers
    assert whole(world, "sales")


def test_pins_leave_pulls_free_for_applications() -> None:
    catalog = large()
    world = World(catalog, automatic=True, budget_bytes=20_000, always=("shop.*",))
    world.deaf.add(Channel.PULLS)
    world.start()
    world.pass_time(1)
    assert len({one.table for one in pulls(world)}) == OUTSTANDING_MAX
    world.table("shop.visits")
    assert pulls(world, "visits")


def test_change_during_a_prefetch_is_pulled_again_and_the_older_reply_not_kept() -> None:
    world = chooser(always=("shop.orders",))
    world.pass_time(INTERVAL_S)
    world.held_back = lambda _channel, message: isinstance(message, Pulled)
    world.publish(world.catalog.put_table("shop", "orders", columns=("id", "a")))
    world.publish(world.catalog.put_table("shop", "orders", columns=("id", "b")))
    world.pass_time(1.5 * INTERVAL_S)  # its next turn has come, and waits for the pull
    assert world.columns("orders") is None
    world.release()
    assert world.columns("orders") is None
    world.pass_time(2 * INTERVAL_S)
    assert world.columns("orders") == ("id", "b")
    assert world.stats().stale_replies == 1


def test_pins_come_back_after_a_new_epoch() -> None:
    world = chooser(always=("shop.orders",))
    world.catalog.new_epoch(start=2)
    world.catalog.create_database("shop")
    world.catalog.create_table("shop", "orders")
    world.catalog.put_table("shop", "orders", columns=("new",))
    world.accepting = True
    world.pass_time(5)
    assert world.columns("orders") == ("new",)
    assert world.stats().pinned_tables == 1


def test_pinned_table_that_the_names_evict_is_counted_as_not_held() -> None:
    world = chooser(shop(), room=1500)
    for name in ("items", "orders"):
        assert pin(world, name) in world.answers
    for number in range(3):
        world.publish(*world.catalog.create_table("shop", f"a_longer_name_{number}"))
    world.pass_time(RETRY_S)
    assert [whole(world, name) for name in ("items", "orders")] == [False, True]
    assert (world.stats().pinned_tables, world.stats().pinned_not_held) == (2, 1)


def test_size_of_a_pinned_table_is_that_of_what_is_held() -> None:
    world = chooser(always=("shop.sales",))
    pins = world.member.prefetcher.pins
    had = pins.needed_bytes
    pins.known[table_key("shop", "sales")].size = 10 * had  # it was larger when it was pulled
    world.pass_time(1)
    assert pins.needed_bytes == had


WHATS = ["read", "whole", "change", "grow", "pin", "unpin", "wait", "name", "join"]
STEPS = st.lists(st.tuples(st.sampled_from(WHATS), st.sampled_from(NAMES)), max_size=25)


@given(STEPS, st.integers(1500, 9000))
@example([("read", "items")] * 15 + [("pin", "items"), ("name", "items"), ("read", "items")], 3203)
@example(  # what the names push out is not to push out what came after it
    [
        *[("read", "items")] * 12,
        *[("pin", "items"), ("pin", "orders")],
        *[("name", "items")] * 3,
        *[("join", "items"), ("name", "items"), ("wait", "items")],
    ],
    1500,
)
@example([("pin", "orders"), ("pin", "visits"), ("name", "items"), ("wait", "items")], 1500)
@example(  # nor is what is set by hand
    [
        *[("read", "items")] * 3,
        ("name", "items"),
        *[("read", "items")] * 11,
        *[("pin", "items"), ("change", "items"), ("join", "orders")],
    ],
    3562,
)
@settings(max_examples=60)
def test_held_pins_stay_whatever_else_is_read(steps: list[tuple[str, str]], room: int) -> None:
    world = chooser(shop(), room=room, always=("shop.sales",))
    held: set[str] = set()
    for number, (what, name) in enumerate(steps):
        if what in ("read", "whole"):
            world.table(f"shop.{name}", whole=what == "whole")
        elif what == "change":
            world.publish(world.catalog.put_table("shop", name, columns=(f"c{number}",)))
            held.discard(name)
        elif what == "grow" and name == "sales":
            parts = {f"ds={number}-{at}": {"n": str(at)} for at in range(64)}
            world.publish(world.catalog.put_partitions("shop", name, parts))
            held.discard(name)
        elif what == "pin":
            pin(world, name)
        elif what == "unpin":
            unpin(world, name)
        elif what == "name":
            world.publish(*world.catalog.create_table("shop", f"{name}{number}"))
            held.clear()  # the names come before pins
        elif what == "join":
            topic = world.catalog.topic("shop", name)
            held = {one for one in held if world.catalog.topic("shop", one) != topic}
            world.ask("join", topics=(topic,))
        world.pass_time(0.3 if what != "wait" else 6)  # each step is checked in the world
        pinned = {parse_table_key(group).table for group in world.member.prefetcher.pins.known}
        assert {name for name in held & pinned if not whole(world, name)} == set()
        levels = {topic: info.level for topic, info in world.topics().items()}
        held = {name for name in pinned if whole(world, name)}
        assert (
            len(held) + world.stats().pinned_not_held <= world.stats().pinned_tables == len(pinned)
        )
        held = {name for name in held if levels[world.catalog.topic("shop", name)] == "minimal"}
