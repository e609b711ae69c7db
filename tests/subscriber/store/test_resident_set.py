"""What is kept of pulled tables at minimal: until a stub says that it is stale, and no longer."""

from contextlib import suppress
from hashlib import sha256

import pytest

from topicast.catalog.model.modes import parse_mode
from topicast.subscriber.client.subscriber import Subscriber
from topicast.subscriber.placement.pins import PinRules
from topicast.subscriber.placement.priorities import Priorities
from topicast.subscriber.store.resident_set import Budget, ResidentSet
from topicast.subscriber.store.table_snapshot import snapshot_of
from topicast.subscriber.store.view import View, full_topic_view, prepare
from topicast.tests.cluster.published import Published
from topicast.tests.cluster.shop import NAMES, Shop
from topicast.tests.cluster.shopping import Shopping
from topicast.tests.subscriber.crowd import sizes
from topicast.topics.errors import NoSuchObject, NotReady, OverBudget, StaleMetadata
from topicast.topics.objects.filters.terms import ITEMS_MAX
from topicast.topics.objects.names import block_key, table_key
from topicast.topics.objects.selector import by_names
from topicast.topics.topic import (
    FULL,
    MINIMAL,
    MINIMAL_BYTES,
    NAMESPACE,
    entry_of,
    prefix_tombstone,
    table_topic,
    tombstone,
)
from topicast.topics.turn import Turn
from topicast.topics.wire import encode
from topicast.topics.wire.header import HEARTBEAT_PREFIX, prefix
from topicast.topics.wire.messages.catalog import Pulled
from topicast.topics.wire.messages.data import Chunk, Delta
from topicast.topics.wire.messages.readers import CatchUp, Join, Joined

HUB, READER, CATALOGD = "hub-0", "reader-0", "catalogd"
SALES = table_key("shop", "sales")
MATE = next(f"shop.n{i}" for i in range(99) if table_topic("shop", f"n{i}", 4) == 0)


def at(level: str, **more: object) -> Shopping:
    """Return a shopping that follows every topic of the shop at ``level``."""
    shopping = Shopping(late=True, **more)  # type: ignore[arg-type]  # each test names its own
    shopping.call(lambda catalog: catalog.join(range(shopping.num_topics), level))
    shopping.pass_time(0.2)
    return shopping


HOWS = pytest.mark.parametrize("how", ["minimal", "withheld"])


def pulling(how: str) -> Shopping:
    """Return a shopping that is sent stubs of all it reads: at minimal, or at full by a mode."""
    if how == "minimal":
        return at("minimal")
    return Shopping(late=True, mode=parse_mode("mixed", "shop.orders=minimal,shop.sales=minimal"))


def bytes_of(shopping: Shopping, name: str) -> int:
    return shopping.topics()[shopping.topic(name)].bytes


def level(shopping: Shopping, name: str) -> str:
    return shopping.topics()[shopping.topic(name)].level


def replies(shopping: Shopping) -> list[Pulled]:
    return shopping.messages(Pulled, sender=CATALOGD)


def partition(shopping: Shopping, name: str, value: str | None = "new") -> None:
    """Change, add or drop a partition of shop.sales."""
    if value is None:
        shopping.shop.remove("shop.sales", name)
    elif name in ("ds=x", "ds=100"):
        shopping.shop.add("shop.sales", {name: {"n": value}})
    else:
        shopping.shop.change("shop.sales", {name: {"n": value}})
    shopping.settle()


def test_join_at_minimal_moves_no_content_and_frees_what_was_held() -> None:
    """P-SUB-1."""
    shopping = at("minimal")
    assert {i.level for t, i in shopping.topics().items() if t != NAMESPACE} == {"minimal"}
    assert len(shopping.messages(CatchUp)) == 1
    assert shopping.stats().held_bytes == sizes()[NAMESPACE] + 4 * MINIMAL_BYTES
    prefixes = shopping.reader.subscribed
    assert prefixes >= {prefix(topic, MINIMAL) for topic in range(4)}
    assert not prefixes & {prefix(topic, FULL) for topic in range(4)}
    assert prefixes >= {HEARTBEAT_PREFIX, prefix(NAMESPACE, FULL)}
    for topic, info in shopping.topics().items():
        assert info.version == shopping.cluster.catalogd.published.topics[topic].version


def test_many_topics_join_at_minimal_for_few_bytes() -> None:
    shopping = Shopping(Shop(()), num_topics=256, late=True)
    shopping.call(lambda catalog: catalog.drop(range(256)))
    shopping.sent.clear()
    shopping.call(lambda catalog: catalog.join(range(256), "minimal"))
    joins = [m for _, m in shopping.sent if isinstance(m, Join | Joined)]
    assert sum(len(encode(message)) for message in joins) <= 2 * 4096
    assert {info.level for info in shopping.topics().values()} == {"minimal", "full"}


@HOWS
def test_pulled_table_is_answered_from_memory_until_it_changes(how: str) -> None:
    shopping = pulling(how)
    before = bytes_of(shopping, "shop.orders")
    assert shopping.memory("shop.orders") is None
    for _ in range(2):
        assert shopping.columns("shop.orders") == ("id",)
    assert shopping.memory("shop.orders") == ("id",)
    assert (len(shopping.pulls()), bytes_of(shopping, "shop.orders") > before) == (1, True)
    assert shopping.topic(MATE) == shopping.topic("shop.orders")
    shopping.shop.create(MATE)
    shopping.reshape(MATE, "id", "more")
    assert shopping.memory("shop.orders") == ("id",), "it was another table of the topic"
    shopping.reshape("shop.orders", "id", "more")
    assert shopping.memory("shop.orders") is None
    assert shopping.columns("shop.orders") == ("id", "more")
    assert len(shopping.pulls()) == 2
    assert level(shopping, "shop.orders") == ("minimal" if how == "minimal" else "full")


@HOWS
def test_lost_stub_is_noticed_by_the_heartbeat(how: str) -> None:
    shopping = pulling(how)
    shopping.columns("shop.orders")
    shopping.lose(HUB, READER, Delta, count=1)
    shopping.reshape("shop.orders", "id", "lost")
    assert shopping.memory("shop.orders") is None
    assert shopping.columns("shop.orders") == ("id", "lost")


def test_only_the_changed_block_is_pulled_again() -> None:
    shopping = at("minimal")
    shopping.partitions("shop.sales")
    assert len(shopping.memory_of_partitions("shop.sales") or ()) == 100
    partition(shopping, "ds=050")
    assert shopping.memory_of_partitions("shop.sales") is None
    shopping.partitions("shop.sales")
    changed = [entry.key for entry in replies(shopping)[-1].entries if entry.key != SALES]
    rows = shopping.cluster.catalogd.published.topics[shopping.topic("shop.sales")].rows(SALES)
    sought = block_key("shop", "sales", "ds=050")
    assert changed == [max(row.key for row in rows if row.key <= sought)]
    assert len(shopping.memory_of_partitions("shop.sales") or ()) == 100


def test_blocks_of_a_pulled_table_come_when_they_are_requested() -> None:
    shopping = at("minimal")
    shopping.columns("shop.sales")
    assert shopping.memory_of_partitions("shop.sales") is None
    partition(shopping, "ds=x")
    assert shopping.memory("shop.sales") == ("id",), "its own entry has not changed"
    assert len(shopping.partitions("shop.sales")) == 101
    assert shopping.memory_of_partitions("shop.sales") is not None
    assert [key for key, _ in shopping.pulls()[-1].held] == [SALES]


def test_dropped_table_is_discarded_with_its_bytes() -> None:
    shopping = at("minimal")
    before = bytes_of(shopping, "shop.orders")
    shopping.columns("shop.orders")
    shopping.shop.drop("shop.orders")
    shopping.settle()
    assert bytes_of(shopping, "shop.orders") == before


@pytest.mark.parametrize(
    ("how", "name", "stale"),
    [("minimal", "shop.orders", 1), ("minimal", MATE, 0), ("withheld", "shop.orders", 1)],
)
def test_reply_older_than_a_stub_of_its_table_is_pulled_again(
    how: str, name: str, stale: int
) -> None:
    """P-PULL-5."""
    shopping = pulling(how)
    shopping.shop.create(MATE)
    shopping.settle()
    shopping.hold(CATALOGD, READER, Pulled)
    columns: list[str] = []
    shopping.begin(
        lambda catalog: columns.extend(one.name for one in catalog.table("shop.orders").columns)
    )
    shopping.reshape(name, "id", "more")
    shopping.release()
    shopping.pass_time(0.2)
    assert columns == ["id", "more"][: 1 + stale]
    assert shopping.stats().stale_replies == stale
    assert shopping.memory("shop.orders") == tuple(columns)


def test_while_a_level_rises_the_old_level_stays_live() -> None:
    """P-JOIN-4."""
    shopping = at("minimal")
    topic = shopping.topic("shop.orders")
    shopping.columns("shop.orders")
    shopping.hold(HUB, READER, Chunk)
    worker = shopping.begin(lambda catalog: catalog.join(topic))
    shopping.pass_time(0.3)
    assert shopping.memory("shop.orders") == ("id",)
    shopping.reshape("shop.orders", "id", "more")
    assert shopping.memory("shop.orders") is None, "it goes on invalidating"
    assert worker.alive
    shopping.release()
    shopping.settle()
    assert not worker.alive
    assert shopping.memory("shop.orders") == ("id", "more")
    assert level(shopping, "shop.orders") == "full"
    assert prefix(topic, MINIMAL) not in shopping.reader.subscribed


def test_rise_is_cancelled_half_way_and_its_bytes_are_free_at_once() -> None:
    shop = Shop()
    shop.add("shop.sales", {f"ds=x{sha256(b'%d' % i).hexdigest()}": {} for i in range(150)})
    shopping = at("minimal", shop=shop, budget_bytes=sizes()[NAMESPACE] + 12_500)
    topic, held = shopping.topic("shop.sales"), shopping.stats().held_bytes
    others = ("shop.orders", "shop.items", "shop.visits")

    def begin(catalog: Subscriber) -> None:
        with suppress(NotReady, StaleMetadata):
            catalog.join(topic)

    shopping.hold(HUB, READER, Chunk)
    shopping.begin(begin)
    shopping.pass_time(0.2)
    with pytest.raises(OverBudget):
        shopping.join(*others)
    shopping.join("shop.sales", level="minimal")

    def begin_others(catalog: Subscriber) -> None:
        with suppress(StaleMetadata):
            catalog.join(map(shopping.topic, others))

    shopping.begin(begin_others)
    shopping.pass_time(0.2)
    shopping.join(*others, level="minimal")
    assert (shopping.stats().held_bytes, level(shopping, "shop.sales")) == (held, "minimal")
    shopping.release()
    shopping.settle()
    assert level(shopping, "shop.sales") == "minimal"
    assert prefix(topic, FULL) not in shopping.reader.subscribed


def test_full_that_ends_below_what_minimal_had_reached_does_not_go_live() -> None:
    """P-JOIN-4: only at or above the position of the old level."""
    shopping = at("minimal")
    shopping.hold(HUB, READER, Chunk)
    shopping.alter(Delta, lambda delta: () if delta.level == FULL and delta.topic == 0 else delta)
    assert shopping.topic("shop.orders") == 0
    shopping.begin(lambda catalog: catalog.join(0))
    shopping.pass_time(0.3)
    shopping.reshape("shop.orders", "id", "more")
    assert level(shopping, "shop.orders") == "minimal"
    shopping.cluster.mend(hold=True)
    shopping.pass_time(0.02)
    assert level(shopping, "shop.orders") == "minimal"
    shopping.pass_time(1)
    assert level(shopping, "shop.orders") == "full"
    assert shopping.memory("shop.orders") == ("id", "more")


def test_room_for_what_is_pulled_is_made_by_evicting_what_is_not_used() -> None:
    one = Published().topics[0].held_bytes
    shopping = at("minimal", budget_bytes=sizes()[NAMESPACE] + 4 * MINIMAL_BYTES + 3 * one)
    plain = [f"shop.{name}" for name in NAMES if name != "sales"]
    shopping.columns("shop.orders")
    for name in plain:
        shopping.columns(name)
        assert shopping.memory("shop.orders") == ("id",), f"in use, so {name} does not evict it"
    assert sum(shopping.memory(name) is not None for name in plain) < len(plain)
    stats = shopping.stats()
    assert (stats.evictions > 0, stats.held_bytes <= stats.budget_bytes) == (True, True)


def test_table_larger_than_the_budget_is_answered_and_not_kept() -> None:
    shopping = at("minimal", budget_bytes=sizes()[NAMESPACE] + 4 * MINIMAL_BYTES + 1500)
    assert len(shopping.partitions("shop.sales")) == 100
    assert shopping.memory_of_partitions("shop.sales") is None
    assert shopping.stats().pulls_not_kept == 1


def test_level_by_hand_takes_nothing_from_pins() -> None:
    shop = Shop()
    shop.add("shop.sales", {f"ds={sha256(b'%d' % i).hexdigest()}": {} for i in range(200)})
    pins = ("items", "orders", "people", "visits")
    budget = sizes()[NAMESPACE] + 5000
    shopping = Shopping(
        shop, late=True, budget_bytes=budget, automatic=True, always=("shop.[iopv]*",)
    )
    shopping.settle()
    assert shopping.stats().pinned_tables == 4
    with pytest.raises(OverBudget):
        shopping.join("shop.sales")
    assert all(shopping.memory(f"shop.{name}") for name in pins)


def test_topic_for_which_no_byte_is_free_is_refused() -> None:
    shopping = Shopping(late=True, automatic=True, budget_bytes=sizes()[NAMESPACE] + 10)
    with pytest.raises(OverBudget):
        shopping.join("shop.orders", level="minimal")


def test_another_hub_is_joined_at_minimal_from_the_position_of_the_topic() -> None:
    shopping = at("minimal", hubs=2)
    shopping.columns("shop.orders")
    shopping.cluster.hubs[0].crash()
    shopping.pass_time(3)
    assert shopping.stats().hub == "hub-1"
    assert shopping.memory("shop.orders") == ("id",)
    shopping.reshape("shop.orders", "id", "more")
    assert shopping.memory("shop.orders") is None
    assert len(shopping.pulls()) == 1


def test_unanswered_join_at_minimal_is_caught_up_in_time() -> None:
    shopping = Shopping(late=True)
    shopping.hold(HUB, READER, Joined)
    shopping.join("shop.orders", level="minimal")
    shopping.release()  # the answer comes too late to matter
    assert level(shopping, "shop.orders") == "minimal"


def test_level_that_is_raised_again_while_it_is_lowered_ends_at_full() -> None:
    shopping = Shopping(late=True)
    shopping.hold(HUB, READER, Joined)
    shopping.begin(lambda catalog: catalog.join(0, "minimal"))
    worker = shopping.begin(lambda catalog: catalog.join(0))
    shopping.pass_time(0.2)
    shopping.release()
    shopping.settle()
    assert not worker.alive
    assert (level(shopping, "shop.orders"), shopping.memory("shop.orders")) == ("full", ("id",))


def test_topic_that_is_behind_is_lowered_at_once() -> None:
    shopping = Shopping(late=True)
    shopping.lose(HUB, READER, Delta, count=1)
    shopping.hold(HUB, READER, Chunk)
    shopping.reshape("shop.orders", "id", "lost")
    shopping.join("shop.orders", level="minimal")
    shopping.release()
    assert level(shopping, "shop.orders") == "minimal"
    assert shopping.columns("shop.orders") == ("id", "lost")


# Filters, and what does not exist


@HOWS
def test_filter_brings_the_blocks_that_it_needs_and_is_answered_from_memory_then(how: str) -> None:
    shopping = pulling(how)
    assert len(shopping.partitions("shop.sales", "ds = '050'")) == 1
    assert len(replies(shopping)[0].entries) == 2, "the table, and one of its blocks"
    assert shopping.memory_of_partitions("shop.sales", "ds = '051'") is None
    shopping.partitions("shop.sales", "ds = '051'")
    for value in ("050", "051"):
        held = shopping.memory_of_partitions("shop.sales", f"ds = '{value}'")
        assert held == (f"ds={value}",)
    assert len(shopping.pulls()) == 2
    assert len(shopping.pulls()[-1].held) == 2


@pytest.mark.parametrize(
    ("text", "before", "changed", "value", "after"),
    [
        ("ds >= '098'", ("ds=098", "ds=099"), "ds=100", "1", ("ds=098", "ds=099", "ds=100")),
        ("ds = '001'", ("ds=001",), "ds=001", None, ()),
        ("ds = 'x'", (), "ds=x", "new", ("ds=x",)),
    ],
    ids=["grows", "shrinks", "matches nothing at first"],
)
def test_filter_is_pulled_again_when_what_it_selects_changes(
    text: str, before: tuple[str, ...], changed: str, value: str | None, after: tuple[str, ...]
) -> None:
    shopping = at("minimal")
    for _ in range(2):
        shopping.partitions("shop.sales", text)
    assert shopping.memory_of_partitions("shop.sales", text) == before
    assert len(shopping.pulls()) == 1
    partition(shopping, changed, value)
    assert shopping.memory_of_partitions("shop.sales", text) is None
    shopping.partitions("shop.sales", text)
    assert shopping.memory_of_partitions("shop.sales", text) == after
    assert len(shopping.pulls()) == 2


@HOWS
def test_change_of_a_block_that_no_filter_needs_costs_a_pull_without_entries(how: str) -> None:
    shopping = pulling(how)
    shopping.partitions("shop.sales", "ds = '001'")
    partition(shopping, "ds=100")
    assert shopping.memory_of_partitions("shop.sales", "ds = '001'") is None
    shopping.partitions("shop.sales", "ds = '001'")
    assert len(replies(shopping)[-1].entries) == 0
    assert shopping.memory_of_partitions("shop.sales", "ds = '001'") == ("ds=001",)


def test_filter_too_long_for_a_message_brings_all_blocks() -> None:
    shopping = at("minimal")
    listed = ", ".join(f"'{number}'" for number in range(ITEMS_MAX + 1))
    assert shopping.partitions("shop.sales", f"ds in ({listed})") == ()
    assert len(shopping.memory_of_partitions("shop.sales") or ()) == 100


def test_partition_beside_a_filter_that_matches_nothing_ends_it() -> None:
    shopping = at("minimal")
    shopping.partitions("shop.sales", "ds = '050'")
    shopping.partitions("shop.sales", "ds = 'x'")
    assert shopping.memory_of_partitions("shop.sales", "ds = 'x'") == ()
    partition(shopping, "ds=051")
    assert shopping.memory_of_partitions("shop.sales", "ds = 'x'") is None


def test_names_of_no_partition_are_kept_like_a_filter() -> None:
    shopping = at("minimal")
    view = shopping.reader.member.view
    for _ in range(2):
        assert shopping.call(lambda catalog: catalog.partitions("shop.sales", names=["ds=x"])) == ()
    assert len(shopping.pulls()) == 1
    partition(shopping, "ds=x")
    assert view.partitions("shop", "sales", by_names(("ds=x",))) is None


@pytest.mark.parametrize("followed", ["none", "minimal", "full"])
def test_table_that_does_not_exist_costs_no_pull_until_it_is_created(followed: str) -> None:
    shopping = at(followed)
    pulls = int(followed != "full")

    def is_missing(name: str) -> None:
        for read in (shopping.table, shopping.partitions):
            with pytest.raises(NoSuchObject):
                read(name)

    for name in ("shop.nothing", "nowhere.orders", "shop.nothing"):
        is_missing(name)
    assert shopping.pulls() == []
    shopping.shop.create("shop.nothing")
    shopping.settle()
    assert shopping.columns("shop.nothing") == ("id",)
    assert len(shopping.pulls()) == pulls
    shopping.shop.drop("shop.nothing")
    shopping.settle()
    is_missing("shop.nothing")
    assert len(shopping.pulls()) == pulls


def test_names_that_are_behind_do_not_say_that_a_table_is_missing() -> None:
    shopping = at("minimal")
    shopping.lose(HUB, READER, Delta, Chunk)
    shopping.shop.create("shop.nothing")
    shopping.settle()
    assert shopping.reader.member.view.databases() is None
    assert shopping.columns("shop.nothing") == ("id",)
    assert len(shopping.pulls()) == 1


# The resident set itself


def resident_set(limit: int) -> ResidentSet:
    view = View(4)
    policy = Priorities(PinRules(), view, clock=Turn[object](), automatic=False)
    return ResidentSet(view, Budget(limit), policy)


def test_room_that_is_reserved_as_a_guess_is_room_for_what_is_pulled() -> None:
    held = resident_set(5_000)
    held.begin_minimal(0)
    held.reserve((1, FULL), 1 << 20)  # as for growth of unknown size: all that there is
    assert held.budget.free_bytes == 0
    content = snapshot_of(Published().rows("shop.orders"))
    assert held.keep(0, table_key("shop", "orders"), content)
    held.check()


def test_table_that_is_read_anew_counts_as_read_until_it_is_dropped() -> None:
    view = View(4)
    policy = Priorities(PinRules(), view, clock=Turn[object](), automatic=True)
    held = ResidentSet(view, Budget(5_000), policy)
    policy.on_read(0, SALES, size=10, times=2)
    held.on_changed(0, [prefix_tombstone(SALES, 2), entry_of(SALES, 2, b"anew")])
    assert SALES in policy.usage
    held.on_changed(0, [prefix_tombstone(SALES, 3), tombstone(block_key("shop", "sales", ""), 3)])
    assert SALES not in policy.usage


def test_topic_that_begins_anew_keeps_its_room_in_the_budget() -> None:
    held, topic_level = resident_set(50_000), (1, FULL)
    topic = full_topic_view()
    held.view.replace(1, topic)
    swaps, growth = prepare(topic, Published().rows("shop.sales"))
    held.view.install(topic, swaps, growth)
    held.budget.hold(topic_level, growth)
    held.begin_snapshot(topic_level, topic)
    assert (held.budget.held(topic_level), held.budget.committed(topic_level)) == (0, growth)
    held.check()
