"""Tests of levels by usage: a topic is followed once it is read, in full once that is worth it."""

from topicast.subscriber.placement.controller import (
    ALL_THAT_FITS,
    BY_HAND,
    DRAIN_MAX,
    FIRST_READ,
    OUTGREW,
    PLAN_S,
    UNPLANNED,
)
from topicast.subscriber.placement.controller import NAMES as NAMES_HELD
from topicast.subscriber.protocol import facts
from topicast.tests.subscriber.source import NAMES, shop
from topicast.tests.subscriber.world import World, chooser, large, read, started
from topicast.topics.errors import UsageError
from topicast.topics.topic import FULL, MINIMAL, NAMESPACE
from topicast.topics.wire.messages import CatchUp, Pull


def levels(world: World) -> dict[int, str]:
    return {t: info.level for t, info in world.topics().items() if t != NAMESPACE}


def test_new_driver_starts_with_the_namespace_alone() -> None:
    world = started(automatic=True, budget_bytes=30_000)
    assert set(levels(world).values()) == {"none"}
    assert world.view.tables("shop") == NAMES
    assert world.stats().held_bytes == world.catalog.live_bytes(NAMESPACE)
    (request,) = world.said(CatchUp)
    assert isinstance(request, CatchUp)
    assert [one.topic for one in request.wanted] == [NAMESPACE]


def test_first_read_follows_its_topic_so_the_second_is_from_memory() -> None:
    world = chooser()
    catalog = world.catalog
    read(world, "orders")
    topic = catalog.topic("shop", "orders")
    assert levels(world)[topic] == "minimal"
    assert {t for t, level in levels(world).items() if level != "none"} == {topic}
    read(world, "orders")
    assert len(world.said(Pull)) == 1
    world.publish(catalog.put_table("shop", "orders", columns=("id", "more")))
    assert world.columns("orders") is None
    read(world, "orders")
    assert world.columns("orders") == ("id", "more")


def test_catalog_that_fits_comfortably_is_all_pushed_in_time() -> None:
    world = started(automatic=True)
    world.pass_time(2 * PLAN_S)
    assert set(levels(world).values()) == {"full"}
    assert {info.why for t, info in world.topics().items() if t != NAMESPACE} == {
        "all topics fit comfortably into the budget"
    }


def test_what_is_set_by_hand_stays() -> None:
    world = started(automatic=True)
    world.ask("join", topics=(1,), level=MINIMAL)
    world.ask("drop", topics=(2,))
    world.pass_time(2 * PLAN_S)
    assert levels(world) == {0: "full", 1: "minimal", 2: "none", 3: "full"}
    assert world.topics()[1].why == BY_HAND
    name = next(n for n in NAMES if world.catalog.topic("shop", n) == 2)
    read(world, name)
    assert levels(world)[2] == "none"


def test_hot_topic_becomes_full_where_that_is_worth_it_and_within_the_budget() -> None:
    world = chooser(room=16_000)
    catalog = world.catalog
    hot = [n for n in catalog.names["shop"] if catalog.topic("shop", n) == 0]
    assert catalog.size(0) < 10_000
    for minute in range(30):
        for name in hot:
            read(world, name)
            if minute % 2:
                world.publish(catalog.put_table("shop", name, columns=(f"c{minute}",)))
            read(world, name)
        world.pass_time(60)
        assert world.stats().held_bytes <= world.stats().budget_bytes
    assert levels(world)[0] == "full"
    why = world.topics()[0].why
    assert "pulls an hour" in why, why


def test_watch_of_all_changes_keeps_every_topic_at_minimal() -> None:
    world = chooser()
    world.handle(facts.Watching(on=True))
    world.run()
    assert set(levels(world).values()) == {"minimal"}
    world.publish(world.catalog.put_table("shop", "orders", columns=("id", "more")))
    world.publish(world.catalog.put_partitions("shop", "sales", {"ds=001": {"n": "new"}}))
    found = [(change.object, change.kind) for change in world.changes]
    assert found == [("shop.orders", "schema"), ("shop.sales", "data")]
    world.pass_time(2 * PLAN_S)
    assert set(levels(world).values()) == {"minimal"}


def test_reason_of_a_level_is_given_in_plain_words() -> None:
    world = chooser()
    why = {topic: info.why for topic, info in world.topics().items()}
    assert why == {**dict.fromkeys(range(4), UNPLANNED), NAMESPACE: NAMES_HELD}
    orders = world.catalog.topic("shop", "orders")
    read(world, "orders")
    assert world.topics()[orders].why == FIRST_READ
    world.pass_time(2 * PLAN_S)
    assert world.topics()[orders].why == "in use; full is judged after 300 s at one level"
    world.ask("drop", topics=(orders,))
    assert world.topics()[orders].why == BY_HAND


def test_topic_that_outgrew_its_room_says_so_until_it_is_set_by_hand() -> None:
    catalog = large()
    rest = sum(catalog.size(topic) for topic in range(4))
    world = chooser(catalog, room=int(rest / 0.55))
    world.pass_time(3 * PLAN_S)
    assert set(levels(world).values()) == {"full"}
    parts = {f"ds=x{number:04}": {"n": str(number**2)} for number in range(3000)}
    world.publish(catalog.put_partitions("shop", "sales", parts))
    world.pass_time(0.5)
    sales = catalog.topic("shop", "sales")
    assert world.topics()[sales].why == OUTGREW
    world.ask("drop", topics=(sales,))
    assert world.topics()[sales].why == BY_HAND


def test_reason_without_a_planner_says_what_fits_and_what_does_not() -> None:
    catalog = large()
    room = max(catalog.size(topic) for topic in range(4))
    world = World(catalog, budget_bytes=catalog.size(NAMESPACE) + room)
    world.start()
    why = {info.level: info.why for topic, info in world.topics().items() if topic != NAMESPACE}
    assert why["full"] == ALL_THAT_FITS
    assert "bytes and the budget leaves" in why["none"]


def test_reads_are_counted_and_levels_planned_a_piece_in_each_turn() -> None:
    world = started(automatic=True)
    placement = world.member.placement
    for number in range(3 * DRAIN_MAX):
        placement.reads.append(("shop", f"t{number % 200}", False))
    world.now += PLAN_S
    left = [len(placement.reads)]
    while left[-1]:
        world.handle(facts.Tick())
        left.append(len(placement.reads))
    assert left == [3 * DRAIN_MAX, 2 * DRAIN_MAX, DRAIN_MAX, 0]
    assert placement.deadline is not None
    assert placement.deadline < world.now  # looked at, and planned in the turn after it
    assert placement.reason(0) == UNPLANNED
    world.run()
    assert set(levels(world).values()) == {"full"}


def test_topic_set_by_hand_between_two_turns_is_left_alone() -> None:
    world = started(automatic=True)
    world.now += PLAN_S
    world.handle(facts.Tick())
    world.ask("drop", topics=(1,))
    world.run()
    assert levels(world) == {0: "full", 1: "none", 2: "full", 3: "full"}


def test_no_byte_left_for_a_topic_leaves_its_tables_pulled() -> None:
    catalog = shop()
    names = catalog.live_bytes(NAMESPACE)
    world = World(catalog, automatic=True, budget_bytes=names + 10)
    world.sizes = {NAMESPACE: names}
    world.start()
    read(world, "orders")
    assert set(levels(world).values()) == {"none"}
    assert not world.errors


def test_dropped_table_is_in_use_no_more() -> None:
    world = started(automatic=True)
    read(world, "orders")
    read(world, "orders")
    world.pass_time(2)
    assert len(world.member.placement.usage) == 1
    world.publish(*world.catalog.drop_table("shop", "orders"))
    assert len(world.member.placement.usage) == 0


def test_toggled_mode_moves_the_levels_and_every_answer_stays_right() -> None:
    world = started(automatic=True)
    world.pass_time(2 * PLAN_S)
    read(world, "orders")
    assert set(levels(world).values()) == {"full"}
    world.offers = MINIMAL
    for number in range(20):
        world.publish(world.catalog.put_table("shop", "orders", columns=(f"c{number}",)))
        read(world, "orders")
        assert world.columns("orders") in ((f"c{number}",), None)
        world.pass_time(0.3)
    assert "full" not in levels(world).values()
    assert levels(world)[world.catalog.topic("shop", "orders")] == "minimal"
    world.offers = FULL | MINIMAL
    world.pass_time(3 * PLAN_S)
    assert set(levels(world).values()) == {"full"}
    assert world.columns("orders") == ("c19",)
    assert not world.errors


def test_topic_is_not_followed_at_minimal_where_that_is_not_offered() -> None:
    world = chooser()
    world.offers = FULL
    world.heartbeat()
    read(world, "orders")
    assert set(levels(world).values()) == {"none"}
    error = world.errors[world.ask("join", topics=(1,), level=MINIMAL)]
    assert isinstance(error, UsageError)
    assert "not offered" in str(error)
