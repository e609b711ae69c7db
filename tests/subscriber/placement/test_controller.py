"""Levels by usage: a topic is followed once it is read, and in full once that is worth it."""

from dataclasses import replace

import pytest

from topicast.catalog.model.modes import Mode
from topicast.subscriber.engine.watch import Watch
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
from topicast.subscriber.placement.planner import DWELL_S
from topicast.subscriber.protocol import effects
from topicast.subscriber.protocol.effects import Connection, Effects
from topicast.tests.cluster.shop import NAMES
from topicast.tests.cluster.shopping import Shopping
from topicast.tests.subscriber.crowd import crowded, large, levels, sizes
from topicast.topics.errors import NotReady, UsageError
from topicast.topics.topic import MINIMAL_BYTES, NAMESPACE
from topicast.topics.wire.messages.data import Barrier, Heartbeat
from topicast.topics.wire.messages.readers import CatchUp

ROOM = 6_000  # bytes, for all tables
ROOMY = "all topics fit comfortably into the budget"


def why(shopping: Shopping, name: str) -> str:
    return shopping.topics()[shopping.topic(name)].why


def read(shopping: Shopping, name: str, times: int = 1) -> None:
    """Read a table, and let its topic be followed."""
    for _ in range(times):
        shopping.columns(name)
    shopping.pass_time(0.1)


def test_new_driver_starts_with_the_namespace_alone() -> None:
    shopping = Shopping(late=True, automatic=True, budget_bytes=30_000)
    assert set(levels(shopping).values()) == {"none"}
    assert shopping.stats().held_bytes == sizes()[NAMESPACE]
    (request,) = shopping.messages(CatchUp)
    assert [one.topic for one in request.wanted] == [NAMESPACE]
    assert shopping.topics()[NAMESPACE].why == NAMES_HELD


def test_first_read_follows_its_topic_so_that_the_second_is_from_memory() -> None:
    shopping = crowded(ROOM)
    assert why(shopping, "shop.orders") == UNPLANNED
    read(shopping, "shop.orders", times=1)
    assert why(shopping, "shop.orders") == FIRST_READ
    followed = {t: level for t, level in levels(shopping).items() if level != "none"}
    assert followed == {shopping.topic("shop.orders"): "minimal"}
    read(shopping, "shop.orders")
    assert len(shopping.pulls()) == 1
    shopping.reshape("shop.orders", "id", "more")
    assert shopping.memory("shop.orders") is None
    read(shopping, "shop.orders")
    assert shopping.memory("shop.orders") == ("id", "more")
    shopping.pass_time(2 * PLAN_S)
    assert why(shopping, "shop.orders") == "in use; full is judged after 300 s at one level"
    shopping.leave("shop.orders")
    assert why(shopping, "shop.orders") == BY_HAND


def test_catalog_that_fits_comfortably_is_pushed_in_time_but_for_levels_set_by_hand() -> None:
    shopping = Shopping(late=True, automatic=True)
    by_hand = shopping.topic("shop.items"), shopping.topic("shop.orders")
    shopping.join("shop.items", level="minimal")
    shopping.leave("shop.orders")
    shopping.pass_time(2 * PLAN_S)
    expected = dict.fromkeys(range(4), "full") | dict(
        zip(by_hand, ("minimal", "none"), strict=True)
    )
    assert levels(shopping) == expected
    reasons = {why(shopping, f"shop.{name}") for name in NAMES if name not in ("items", "people")}
    assert reasons == {ROOMY, BY_HAND}
    read(shopping, "shop.orders")
    assert levels(shopping) == expected


def large_names() -> list[str]:
    return ["shop.orders", *(f"shop.t{number}" for number in range(40))]


@pytest.mark.thorough
def test_topic_in_use_becomes_full_where_that_is_worth_it_and_within_the_budget() -> None:
    shopping = crowded(room=9_000)
    hot = [name for name in large_names() if shopping.topic(name) == 0][:3]
    for number in range(12):
        for name in hot:
            shopping.shop.reshape(name, (f"c{number}",))
        shopping.settle()
        for name in hot:
            read(shopping, name)
        shopping.pass_time(DWELL_S / 10)
        stats = shopping.stats()
        assert stats.held_bytes <= stats.budget_bytes
    shopping.pass_time(DWELL_S)
    assert levels(shopping)[0] == "full"
    assert "pulls an hour" in why(shopping, "shop.orders")


def test_watch_of_all_changes_keeps_every_topic_at_minimal() -> None:
    shopping = crowded(ROOM)
    shopping.watch()
    shopping.pass_time(0.2)
    assert set(levels(shopping).values()) == {"minimal"}
    shopping.reshape("shop.orders", "id", "more")
    assert shopping.take_changes() == [("shop.orders", "schema", "events")]
    shopping.pass_time(2 * PLAN_S)
    assert set(levels(shopping).values()) == {"minimal"}


def test_topic_that_outgrew_its_room_says_so_until_it_is_set_by_hand() -> None:
    shop = large()
    full = sizes(shop)
    names = full.pop(NAMESPACE)
    budget = names + int(sum(full.values()) / 0.55)
    shopping = Shopping(shop, late=True, automatic=True, budget_bytes=budget)
    shopping.pass_time(3 * PLAN_S)
    assert set(levels(shopping).values()) == {"full"}
    shop.add("shop.sales", {f"ds=x{number:04}": {"n": str(number**2)} for number in range(2000)})
    shopping.pass_time(1.2)
    assert why(shopping, "shop.sales") == OUTGREW
    shopping.leave("shop.sales")
    assert why(shopping, "shop.sales") == BY_HAND


def test_reason_without_a_planner_says_what_fits_and_what_does_not() -> None:
    full = sizes()
    shopping = Shopping(late=True, budget_bytes=sum(full.values()) - 1)
    assert why(shopping, "shop.orders") == ALL_THAT_FITS
    assert "bytes and the budget leaves" in why(shopping, "shop.sales")


def tick(shopping: Shopping, *, now: float) -> Effects:
    """Let time pass for placement alone."""
    core = shopping.reader.member
    core.turn.now = now
    core.placement.tick()
    return core.turn.end()


def test_reads_are_counted_and_levels_planned_a_piece_in_each_turn() -> None:
    shopping = Shopping(late=True, automatic=True)
    placement = shopping.reader.member.placement
    for number in range(3 * DRAIN_MAX):
        shopping.reader.member.note_read("shop", f"t{number % 200}", whole=False)
    left = [len(placement.reads)]
    now = shopping.cluster.now + PLAN_S
    while left[-1]:
        tick(shopping, now=now)
        left.append(len(placement.reads))
    assert left == [3 * DRAIN_MAX, 2 * DRAIN_MAX, DRAIN_MAX, 0]
    assert placement.deadline is not None
    assert placement.deadline < now, "looked at, and planned in the turn after it"
    assert placement.reason(0) == UNPLANNED


def test_topic_set_by_hand_between_two_turns_is_left_alone() -> None:
    shopping = Shopping(late=True, automatic=True)
    tick(shopping, now=shopping.cluster.now + PLAN_S)
    shopping.leave("shop.orders")
    shopping.pass_time(2 * PLAN_S)
    assert levels(shopping) == {0: "none", 1: "full", 2: "full", 3: "full"}


def test_plan_is_dropped_when_the_names_are_behind_by_then() -> None:
    shopping = Shopping(late=True, automatic=True)
    placement, now = shopping.reader.member.placement, shopping.cluster.now + PLAN_S
    tick(shopping, now=now)
    heartbeat = shopping.messages(Heartbeat, sender="hub-0")[-1]
    newer = replace(heartbeat, versions=tuple(version + 1 for version in heartbeat.versions))
    shopping.reader.handle(effects.Received(Connection.DATA, newer))
    assert tick(shopping, now=now) == ()
    assert placement.reason(0) == UNPLANNED


def test_tables_of_a_topic_for_which_no_byte_is_left_are_pulled() -> None:
    shopping = Shopping(late=True, automatic=True, budget_bytes=sizes()[NAMESPACE] + 10)
    read(shopping, "shop.orders", times=2)
    assert set(levels(shopping).values()) == {"none"}
    assert len(shopping.pulls()) == 2


def test_dropped_table_is_in_use_no_more() -> None:
    shopping = Shopping(late=True, automatic=True)
    usage = shopping.reader.member.placement.usage
    read(shopping, "shop.orders", times=2)
    shopping.pass_time(2)
    assert len(usage) == 1
    shopping.shop.drop("shop.orders")
    shopping.settle()
    assert len(usage) == 0


def test_changed_mode_moves_the_levels_and_every_answer_stays_right() -> None:
    shopping = Shopping(late=True, automatic=True)
    shopping.pass_time(2 * PLAN_S)
    read(shopping, "shop.orders")
    assert set(levels(shopping).values()) == {"full"}
    shopping.cluster.catalogd.turn_mode(Mode("minimal"))
    for number in range(10):
        shopping.reshape("shop.orders", f"c{number}")
        assert shopping.columns("shop.orders") == (f"c{number}",)
    assert "full" not in levels(shopping).values()
    assert levels(shopping)[shopping.topic("shop.orders")] == "minimal"
    shopping.cluster.catalogd.turn_mode(Mode("mixed"))
    shopping.pass_time(3 * PLAN_S)
    assert set(levels(shopping).values()) == {"full"}
    assert shopping.memory("shop.orders") == ("c9",)


def test_topic_is_not_followed_at_minimal_where_that_is_not_offered() -> None:
    shopping = crowded(ROOM, mode=Mode("full"))
    read(shopping, "shop.orders")
    assert set(levels(shopping).values()) == {"none"}
    with pytest.raises(UsageError, match="not offered"):
        shopping.join("shop.orders", level="minimal")


def test_where_not_all_topics_fit_preferred_topics_are_followed_and_the_shortage_is_said() -> None:
    shop = large(0)
    shopping = Shopping(
        shop, late=True, automatic=True, budget_bytes=sizes(shop)[NAMESPACE] + 2 * MINIMAL_BYTES
    )
    shopping.reader.handle(effects.Watching(on=True))
    shopping.pass_time(1)
    for wanted in ({3, 2}, {0}, {1, 2}):
        shopping.call(lambda catalog, topics=wanted: catalog.prefer(topics))
        shopping.pass_time(1)
        followed = {topic for topic, level in levels(shopping).items() if level == "minimal"}
        assert len(followed) == 2
        assert wanted <= followed
        unfollowed = shopping.call(lambda catalog: catalog.unfollowed())
        assert unfollowed.topics == set(range(4)) - followed
    shortage = shopping.call(lambda catalog: catalog.shortage())
    assert shortage.needed_bytes == sizes(shop)[NAMESPACE] + 4 * MINIMAL_BYTES
    assert shortage.reason.startswith("2 of 4 topics are not followed: all of them need a budget")
    with pytest.raises(UsageError, match="no topic 17"):
        shopping.call(lambda catalog: catalog.prefer([17]))
    roomy = Shopping(large(0), late=True, automatic=True, budget_bytes=shortage.needed_bytes)
    roomy.reader.handle(effects.Watching(on=True))
    roomy.pass_time(1)
    assert set(levels(roomy).values()) == {"minimal"}, "the budget that is named does"
    assert not roomy.call(lambda catalog: catalog.unfollowed())
    assert roomy.call(lambda catalog: catalog.shortage()).reason == ""


def test_where_only_full_is_offered_the_preferred_topics_take_the_room_of_others() -> None:
    tables = large(40)
    sizes_of = sizes(tables)
    room = max(size for topic, size in sizes_of.items() if topic != NAMESPACE) * 2
    shopping = crowded(room, mode=Mode("full"))
    shopping.reader.handle(effects.Watching(on=True))
    shopping.pass_time(2 * PLAN_S)
    before = {topic for topic, level in levels(shopping).items() if level == "full"}
    assert before < set(range(4)), "they do not all fit"
    (wanted, *_) = set(range(4)) - before
    shopping.call(lambda catalog: catalog.prefer(wanted))
    shopping.pass_time(2 * PLAN_S)
    assert levels(shopping)[wanted] == "full"
    shortage = shopping.call(lambda catalog: catalog.shortage())
    assert shortage.needed_bytes > sum(sizes_of.values())


def test_watch_of_a_reader_that_follows_nothing_yet_begins_once_no_change_is_missed() -> None:
    """Before, a change while the topic was joined was told to nobody: it was its first content."""
    shopping = Shopping(late=True, automatic=True)
    shopping.hold("hub-0", "reader-0", Barrier)
    watches: list[Watch] = []
    call = shopping.begin(lambda catalog: watches.append(catalog.watch("shop.*")))
    shopping.reshape("shop.orders", "id", "early")
    assert call.alive, "a change of now would be missed"
    shopping.release()
    shopping.pass_time(2)
    assert not call.alive
    assert watches[0].next_within(0) is None, "it was before the watch began"
    shopping.reshape("shop.orders", "id", "new")
    change = watches[0].next_within(0)
    assert change is not None
    assert change.object == "shop.orders"


def test_watch_of_what_the_hub_does_not_confirm_fails_and_says_what_is_missing() -> None:
    shopping = Shopping(late=True, automatic=True)
    shopping.lose("hub-0", "reader-0", Barrier)
    with pytest.raises(NotReady, match="4 topics are being caught up from hub-0"):
        shopping.call(lambda catalog: catalog.watch("shop.*"))
    assert shopping.call(lambda catalog: catalog.watch("shop.*", wait=False))


@pytest.mark.parametrize(("room", "followed"), [(1_000_000, 4), (0, 0)], ids=["all fit", "none"])
def test_watch_where_only_full_is_offered_begins_once_all_that_fits_is_held(
    room: int, followed: int
) -> None:
    shopping = crowded(room, mode=Mode("full"))
    shopping.call(lambda catalog: catalog.watch("*"))
    assert 4 - len(shopping.call(lambda catalog: catalog.unfollowed()).topics) == followed
