"""Pins: a pinned table is pulled and kept, and pulled again after each change."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topicast.catalog.model.modes import Mode, parse_mode
from topicast.subscriber.client.subscriber import Subscriber
from topicast.subscriber.placement.controller import PINNED, PLAN_S
from topicast.subscriber.placement.planner import Plan, Situation
from topicast.subscriber.placement.prefetch import (
    INTERVAL_S,
    OUTSTANDING_MAX,
    RETRY_S,
    TOO_LARGE_RETRY_S,
)
from topicast.subscriber.store.resident_set import PINNED_SHARE
from topicast.tests.cluster.shop import NAMES, Shop
from topicast.tests.cluster.shopping import Shopping
from topicast.tests.subscriber.crowd import crowded, large, levels, sizes
from topicast.topics.errors import NoSuchObject, NotReady, OverBudget, StaleMetadata, UsageError
from topicast.topics.objects.names import parse_table_key, table_key
from topicast.topics.topic import MINIMAL_BYTES, NAMESPACE
from topicast.topics.wire.messages.catalog import Pulled
from topicast.topics.wire.messages.readers import JoinAnswer, Joined

HUB, READER, CATALOGD = "hub-0", "reader-0", "catalogd"
ROOM = 16_000  # bytes, for all tables
WITHHOLDING = parse_mode("mixed", "shop.sales=minimal")


def whole(shopping: Shopping, name: str) -> bool:
    return shopping.memory_of_partitions(name) is not None


def pin(shopping: Shopping, name: str) -> None:
    shopping.call(lambda catalog: catalog.pin(name))


def unpin(shopping: Shopping, name: str) -> None:
    shopping.call(lambda catalog: catalog.unpin(name))


def change(shopping: Shopping, name: str, column: str = "more") -> None:
    shopping.shop.reshape(name, ("id", column))
    shopping.pass_time(1.3)


def not_held(shopping: Shopping) -> tuple[int, int]:
    stats = shopping.stats()
    return stats.pinned_tables, stats.pinned_not_held


def attempt(shopping: Shopping, call: Callable[[Subscriber], None]) -> None:
    """Call what may be refused for want of room."""

    def body(catalog: Subscriber) -> None:
        with suppress(OverBudget, NotReady):
            call(catalog)

    shopping.call(body)


def test_pinned_tables_are_pulled_whole_before_they_are_read() -> None:
    shopping = crowded(ROOM, always=("shop.sales", "shop.o*"))
    assert whole(shopping, "shop.sales")
    assert whole(shopping, "shop.orders")
    assert shopping.memory("shop.items") is None
    assert [one.table for one in shopping.pulls()] == ["orders", "sales"]
    stats = shopping.stats()
    assert (stats.pulls, stats.prefetches, stats.misses, not_held(shopping)) == (2, 2, 0, (2, 0))
    info = shopping.topics()[shopping.topic("shop.sales")]
    assert (info.level, info.why) == ("minimal", PINNED)
    shopping.pass_time(2 * PLAN_S)
    assert shopping.topics()[shopping.topic("shop.sales")].why.startswith(PINNED)


def test_stub_of_a_pinned_table_pulls_it_again_before_the_first_query() -> None:
    shopping = crowded(ROOM, always=("shop.orders",))
    change(shopping, "shop.orders")
    assert shopping.memory("shop.orders") == ("id", "more")
    assert len(shopping.pulls()) == 2
    change(shopping, "shop.items")
    assert len(shopping.pulls()) == 2


def test_pinned_table_that_changes_all_the_time_is_pulled_once_a_second() -> None:
    shopping = crowded(ROOM, always=("shop.orders",))
    before = len(shopping.pulls())
    for number in range(12):
        shopping.shop.reshape("shop.orders", (f"c{number}",))
        shopping.pass_time(0.5)
    assert 3 <= len(shopping.pulls()) - before <= 7
    shopping.pass_time(2 * INTERVAL_S)
    assert shopping.memory("shop.orders") == ("c11",)


def test_pinned_table_is_not_evicted_until_it_is_unpinned() -> None:
    shopping = crowded(room=9_000, always=("shop.sales",))
    names = [f"shop.t{number}" for number in range(40)]
    for name in names:
        shopping.columns(name)
        assert whole(shopping, "shop.sales"), name
    assert shopping.stats().evictions > 0
    unpin(shopping, "shop.sales")
    assert not_held(shopping) == (0, 0)
    for name in names:
        for _ in range(2):
            shopping.columns(name)
    assert shopping.memory("shop.sales") is None


def test_pin_by_hand_returns_when_the_table_is_held_and_survives_a_drop_of_the_table() -> None:
    shopping = crowded(ROOM)
    pin(shopping, "shop.sales")
    assert whole(shopping, "shop.sales")
    shopping.shop.drop("shop.sales")
    shopping.settle()
    assert not_held(shopping) == (0, 0)
    shopping.shop.create("shop.sales")
    shopping.pass_time(3 * INTERVAL_S)
    assert not_held(shopping) == (1, 0)
    assert whole(shopping, "shop.sales")


def test_pin_of_a_table_that_does_not_exist_or_was_dropped_by_hand_is_refused() -> None:
    shopping = crowded(ROOM)
    with pytest.raises(NoSuchObject):
        pin(shopping, "shop.nothing")
    shopping.leave("shop.orders")
    with pytest.raises(UsageError, match=f"topic {shopping.topic('shop.orders')}"):
        pin(shopping, "shop.orders")
    assert not_held(shopping) == (0, 0)


def test_denial_of_a_join_from_before_a_drop_leaves_the_topic_dropped_by_hand() -> None:
    shopping = crowded(ROOM)
    topic = shopping.topic("shop.orders")
    shopping.leave("shop.orders")
    shopping.alter(
        Joined, lambda m: replace(m, topics=(replace(m.topics[0], answer=JoinAnswer.DENIED),))
    )
    shopping.hold(HUB, READER, Joined)

    def begin(catalog: Subscriber) -> None:
        with suppress(StaleMetadata):
            catalog.join(topic, "minimal")

    shopping.begin(begin)
    shopping.pass_time(0.5)
    shopping.leave("shop.orders")
    shopping.release()
    shopping.settle()
    with pytest.raises(UsageError, match=f"topic {topic}"):
        pin(shopping, "shop.orders")


def test_pin_that_cannot_be_pulled_fails_in_time_and_is_tried_again() -> None:
    shopping = crowded(ROOM)
    shopping.lose(READER, CATALOGD)
    message = "shop.orders is pinned and not held yet: catalogd has not sent it"
    with pytest.raises(NotReady, match=message):
        pin(shopping, "shop.orders")
    shopping.mend()
    shopping.pass_time(20)
    assert whole(shopping, "shop.orders")


def test_pin_that_does_not_fit_is_refused_with_the_bytes_needed() -> None:
    shop = Shop()
    shop.add("shop.sales", {f"ds=x{i:04}": {"n": str(i * i)} for i in range(2000)})
    budget = sizes(shop)[NAMESPACE] + 9_000
    shopping = Shopping(shop, late=True, automatic=True, budget_bytes=budget)
    with pytest.raises(OverBudget, match=r"shop\.sales") as caught:
        pin(shopping, "shop.sales")
    assert caught.value.needed_bytes > caught.value.free_bytes
    assert not_held(shopping) == (0, 0)
    pin(shopping, "shop.orders")
    assert whole(shopping, "shop.orders")


def test_patterns_that_pin_more_than_the_budget_keep_the_first_tables_and_warn_once() -> None:
    room = 12_000
    shopping = crowded(room, always=("shop.t*",))
    shopping.pass_time(RETRY_S)
    names = [f"shop.t{number}" for number in range(40)]
    tables, missing = not_held(shopping)
    assert (tables, 0 < missing < 40) == (40, True)
    assert sum(whole(shopping, name) for name in names) == 40 - missing
    (warning,) = shopping.reader.pins_not_held
    assert (warning.tables, warning.needed_bytes > warning.room_bytes) == (missing, True)
    pinned = shopping.stats().held_bytes - sizes(shopping.shop)[NAMESPACE] - 4 * MINIMAL_BYTES
    assert 0.7 * room < pinned <= PINNED_SHARE * room, "only their share of what the names leave"
    before = len(shopping.pulls())
    shopping.pass_time(4 * RETRY_S)
    assert len(shopping.pulls()) == before, "there is no room, so there is nothing to try"
    for name in names[:30]:
        unpin(shopping, name)
    shopping.pass_time(TOO_LARGE_RETRY_S + RETRY_S)
    assert not_held(shopping) == (10, 0)
    assert all(whole(shopping, name) for name in names[30:])
    assert len(shopping.reader.pins_not_held) == 1


def test_planner_receives_what_pins_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    shopping = crowded(ROOM, always=("shop.sales", "shop.orders"))
    member = shopping.reader.member
    plans: list[tuple[dict[int, Situation], int]] = []

    def plan(topics: list[Situation], *, budget_bytes: int, **_more: object) -> Plan:
        plans.append(({one.topic: one for one in topics}, budget_bytes))
        return Plan(steps=(), reasons={})

    monkeypatch.setattr(member.placement.planner, "plan", plan)
    shopping.pass_time(PLAN_S + 1)
    situations, budget = plans[-1]
    pinned, sales = member.prefetcher.pins.needed_bytes, shopping.topic("shop.sales")
    sizes = {topic: info.full_bytes for topic, info in shopping.topics().items()}
    assert budget == shopping.stats().budget_bytes - sizes.pop(NAMESPACE) - pinned
    assert sum(one.full_bytes for one in situations.values()) == sum(sizes.values()) - pinned
    required = {t for t, one in situations.items() if one.required == PINNED}
    assert required == {sales, shopping.topic("shop.orders")}
    shopping.join("shop.sales", level="minimal")
    shopping.pass_time(PLAN_S + 1)  # what is set by hand takes its bytes from the others too
    situations, budget = plans[-1]
    assert sales not in situations
    committed = shopping.topics()[sales].bytes
    shopping.hold(CATALOGD, READER, Pulled)
    shopping.shop.reshape("shop.sales", ("id", "more"))
    shopping.pass_time(PLAN_S + 2)  # what was held and will come again is not given away
    assert not whole(shopping, "shop.sales")
    size = member.prefetcher.pins.known[table_key("shop", "sales")].size
    assert shopping.topics()[sales].bytes < size
    assert plans[-1][1] == budget + committed - size


def test_levels_at_full_are_lowered_for_pins() -> None:
    shop = large()
    full = sizes(shop)
    budget = full.pop(NAMESPACE) + int(sum(full.values()) / 0.4)
    shopping = Shopping(shop, late=True, automatic=True, budget_bytes=budget)
    shopping.pass_time(3 * PLAN_S)
    assert set(levels(shopping).values()) == {"full"}
    shopping.cluster.catalogd.turn_mode(Mode("minimal"))
    shopping.pass_time(3 * PLAN_S)
    for number in range(40):
        pin(shopping, f"shop.t{number}")
    shopping.pass_time(2 * PLAN_S)
    assert not_held(shopping) == (40, 0)
    stats = shopping.stats()
    assert stats.held_bytes <= stats.budget_bytes


def test_pinned_table_of_a_full_topic_is_not_pulled() -> None:
    shopping = Shopping(late=True, always=("shop.*",))
    shopping.pass_time(2)
    assert shopping.pulls() == []
    assert not_held(shopping) == (len(NAMES), 0)
    shopping.join("shop.sales", level="minimal")
    shopping.pass_time(2)
    assert whole(shopping, "shop.sales")


def test_withheld_table_of_a_full_topic_is_pulled_whole_where_it_is_pinned() -> None:
    shopping = Shopping(late=True, mode=WITHHOLDING)
    shopping.columns("shop.sales")
    assert not whole(shopping, "shop.sales")
    pin(shopping, "shop.sales")
    assert whole(shopping, "shop.sales")
    pulls = len(shopping.pulls())
    shopping.pass_time(INTERVAL_S)
    shopping.shop.add("shop.sales", {"ds=200": {"n": "x"}})
    shopping.pass_time(1.3)
    assert whole(shopping, "shop.sales")
    assert len(shopping.pulls()) == pulls + 1


def test_pins_leave_pulls_free_for_applications() -> None:
    shopping = crowded(ROOM, always=("shop.t*",), start=False)
    shopping.lose(CATALOGD, READER, Pulled)
    shopping.start()
    shopping.pass_time(1)
    assert len({one.table for one in shopping.pulls()}) == OUTSTANDING_MAX
    shopping.begin(lambda catalog: catalog.table("shop.visits") and None)
    shopping.pass_time(0.1)
    assert shopping.pulls("shop.visits")


def test_change_during_a_prefetch_is_pulled_again_and_the_older_reply_not_kept() -> None:
    shopping = crowded(ROOM, always=("shop.orders",))
    shopping.hold(CATALOGD, READER, Pulled)
    change(shopping, "shop.orders", "a")
    change(shopping, "shop.orders", "b")
    assert shopping.memory("shop.orders") is None
    shopping.cluster.mend(hold=True)
    shopping.pass_time(0.05)
    assert shopping.memory("shop.orders") != ("id", "a")
    shopping.pass_time(2 * INTERVAL_S)
    assert shopping.memory("shop.orders") == ("id", "b")
    assert shopping.stats().stale_replies == 1


def test_pins_come_back_after_a_new_epoch() -> None:
    shopping = crowded(ROOM, always=("shop.orders",))
    shopping.shop.reshape("shop.orders", ("new",))
    shopping.lose_store()
    shopping.pass_time(6)
    assert shopping.memory("shop.orders") == ("new",)
    assert not_held(shopping) == (1, 0)


def test_pinned_table_that_the_names_evict_is_counted_as_not_held() -> None:
    shopping = crowded(1_700, tables=0)
    for name in ("shop.items", "shop.orders"):
        pin(shopping, name)
    for number in range(25):
        shopping.shop.create(f"shop.n{sha256(b'%d' % number).hexdigest()[:24]}")
    shopping.pass_time(RETRY_S)
    held = [whole(shopping, name) for name in ("shop.items", "shop.orders")]
    assert (held.count(True), not_held(shopping)) == (1, (2, 1))


def test_size_of_a_pinned_table_is_that_of_what_is_held() -> None:
    shopping = crowded(ROOM, always=("shop.sales",))
    pins = shopping.reader.member.prefetcher.pins
    had = pins.needed_bytes
    pins.known[table_key("shop", "sales")].size = 10 * had  # it was larger when it was pulled
    shopping.pass_time(1)
    assert pins.needed_bytes == had


def test_banned_table_is_pulled_for_each_read_and_never_kept() -> None:
    shopping = crowded(ROOM, never=("shop.orders",))
    for _ in range(3):
        assert shopping.columns("shop.orders") == ("id",)
        assert shopping.memory("shop.orders") is None
    assert len(shopping.pulls()) == 3
    shopping.pass_time(2)
    assert shopping.topics()[shopping.topic("shop.orders")].level == "none"
    assert len(shopping.reader.member.placement.usage) == 0
    shopping.columns("shop.items")
    shopping.pass_time(0.1)
    assert shopping.memory("shop.items") == ("id",)


@pytest.mark.parametrize("level", ["minimal", "full"])
def test_banned_table_is_not_held_at_any_level(level: str) -> None:
    shopping = Shopping(late=True, never=("shop.sales",))
    shopping.join("shop.sales", level=level)
    assert len(shopping.partitions("shop.sales")) == 100
    assert not whole(shopping, "shop.sales")
    held = shopping.cluster.catalogd.published.topics[shopping.topic("shop.sales")].held_bytes
    assert shopping.topics()[shopping.topic("shop.sales")].bytes < held
    shopping.shop.add("shop.sales", {"ds=200": {"n": "x"}})
    shopping.settle()
    assert not whole(shopping, "shop.sales")
    assert len(shopping.pulls()) == 1


WHATS = ["read", "whole", "change", "grow", "pin", "unpin", "wait", "name", "join"]
STEPS = st.lists(st.tuples(st.sampled_from(WHATS), st.sampled_from(NAMES)), max_size=25)
READ = ("read", "items")


@pytest.mark.parametrize(
    ("steps", "room"),
    [
        ([READ] * 15 + [("pin", "items"), ("name", "items"), READ], 3203),
        (  # what the names evict is not to evict what came after it
            [
                *[READ] * 12,
                *[("pin", "items"), ("pin", "orders")],
                *[("name", "items")] * 3,
                *[("join", "items"), ("name", "items"), ("wait", "items")],
            ],
            1500,
        ),
        ([("pin", "orders"), ("pin", "visits"), ("name", "items"), ("wait", "items")], 1500),
        (  # nor is what is set by hand
            [
                *[READ] * 3,
                ("name", "items"),
                *[READ] * 11,
                *[("pin", "items"), ("change", "items"), ("join", "orders")],
            ],
            3562,
        ),
        ([("join", "items"), ("pin", "items")], 2909),  # a join that is refused is no drop by hand
    ],
)
def test_held_pins_stay_where_they_once_did_not(steps: list[tuple[str, str]], room: int) -> None:
    check_pins(steps, room)


@pytest.mark.thorough
@given(STEPS, st.integers(1500, 9000))
@settings(max_examples=60)
def test_held_pins_stay_whatever_else_is_read(steps: list[tuple[str, str]], room: int) -> None:
    check_pins(steps, room)


def check_pins(steps: list[tuple[str, str]], room: int) -> None:
    shopping = crowded(room, tables=0, always=("shop.sales",))
    held: set[str] = set()
    for number, (what, one) in enumerate(steps):
        name = f"shop.{one}"
        if what in ("read", "whole"):
            (shopping.partitions if what == "whole" else shopping.columns)(name)
        elif what == "change":
            shopping.shop.reshape(name, (f"c{number}",))
            held.discard(name)
        elif what == "grow" and one == "sales":
            parts = {f"ds={number}-{at}": {"n": str(at)} for at in range(64)}
            shopping.shop.add(name, parts)
            held.discard(name)
        elif what == "pin":
            attempt(shopping, lambda catalog, name=name: catalog.pin(name))
        elif what == "unpin":
            unpin(shopping, name)
        elif what == "name":
            shopping.shop.create(f"{name}{number}")
            held.clear()  # the names come before pins
        elif what == "join":
            topic = shopping.topic(name)
            held = {other for other in held if shopping.topic(other) != topic}
            attempt(shopping, lambda catalog, topic=topic: catalog.join(topic))
        shopping.pass_time(6 if what == "wait" else 1.2)  # each step is checked in the cluster
        known = map(parse_table_key, shopping.reader.member.prefetcher.pins.known)
        pinned = {f"{key.db}.{key.table}" for key in known}
        assert {name for name in held & pinned if not whole(shopping, name)} == set()
        levels = {topic: info.level for topic, info in shopping.topics().items()}
        held = {name for name in pinned if whole(shopping, name)}
        tables, missing = not_held(shopping)
        assert len(held) + missing <= tables == len(pinned)
        held = {name for name in held if levels[shopping.topic(name)] == "minimal"}
