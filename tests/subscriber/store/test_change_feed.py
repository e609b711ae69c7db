"""What watchers are notified of: what differs, from where it came, and nothing else."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from weakref import ref

import pytest

from topicast.subscriber.protocol import effects
from topicast.subscriber.protocol.effects import Change
from topicast.subscriber.store.change_feed import ChangeFeed
from topicast.subscriber.store.table_snapshot import Swap, TableSnapshot
from topicast.subscriber.store.view import TopicView, View, prepare
from topicast.tests.cluster.published import Published
from topicast.tests.cluster.shop import NAMES, Shop
from topicast.tests.cluster.shopping import Shopping
from topicast.tests.topics.following import delta
from topicast.topics.objects.names import database_key, rules_key, table_key
from topicast.topics.objects.rules import OFF, Rule, encode_rules
from topicast.topics.topic import NAMESPACE, STUB, Entry, stub, tombstone
from topicast.topics.wire.messages.data import (
    SOURCE_EVENTS,
    SOURCE_LOAD,
    SOURCE_ORDERS,
    Chunk,
    Delta,
)
from topicast.topics.wire.messages.readers import Joined

HUB, READER = "hub-0", "reader-0"
SALES = table_key("shop", "sales")


def watched(**setup: object) -> Shopping:
    shopping = Shopping(late=True, **setup)  # type: ignore[arg-type]  # each test names its own
    shopping.watch()
    return shopping


def at_minimal() -> Shopping:
    """Return a shopping that follows the topic of shop.sales at minimal, and watches."""
    shopping = watched()
    shopping.leave("shop.sales")
    shopping.join("shop.sales", level="minimal")
    return shopping


def tables_of(shopping: Shopping, name: str = "shop.sales") -> list[tuple[str, str, str]]:
    """Return a change of every table of a topic."""
    mates = (f"shop.{one}" for one in NAMES)
    topic = shopping.topic(name)
    return [(one, "data", "catch-up") for one in mates if shopping.topic(one) == topic]


def seen_after(shopping: Shopping, act: Callable[[Shop], object]) -> list[tuple[str, str, str]]:
    act(shopping.shop)
    shopping.settle()
    return sorted(shopping.take_changes())


def test_watcher_is_notified_of_what_was_created_changed_and_dropped() -> None:
    shopping = watched()
    name, sales = "shop.aaa", "shop.sales"
    for act, change in (
        (lambda shop: shop.create(name), (name, "created", "events")),
        (lambda shop: shop.reshape(name, ("x",)), (name, "schema", "events")),
        (lambda shop: shop.change(sales, {"ds=001": {"n": "new"}}), (sales, "data", "events")),
        (lambda shop: shop.drop(name), (name, "dropped", "events")),
    ):
        assert seen_after(shopping, act) == [change]
    shopping.reader.handle(effects.Watching(on=False))
    assert seen_after(shopping, lambda shop: shop.create(name)) == []


@pytest.mark.parametrize("late", [False, True], ids=["loaded while watched", "first content"])
def test_load_is_no_change(*, late: bool) -> None:
    shopping = Shopping(late=late, start=False)
    shopping.watch()
    shopping.start()
    assert shopping.memory("shop.orders") == ("id",)
    assert shopping.take_changes() == []


def test_changes_that_were_missed_are_reported_after_the_catch_up() -> None:
    shopping = watched()
    shopping.lose(HUB, READER, Delta, count=5)
    shopping.shop.reshape("shop.orders", ("x",))
    shopping.shop.drop("shop.items")
    assert seen_after(shopping, lambda shop: shop.create("shop.zzz")) == [
        ("shop.items", "dropped", "catch-up"),
        ("shop.orders", "schema", "catch-up"),
        ("shop.zzz", "created", "catch-up"),
    ]


def test_new_epoch_reports_names_that_differ_and_every_table_as_changed() -> None:
    shopping = watched()
    shopping.cluster.catalogd.crash()
    shopping.shop.drop("shop.items")
    shopping.shop.create("shop.fresh")
    shopping.lose_store()
    shopping.pass_time(3)
    seen = set(shopping.take_changes())
    assert {name for name, kind, _ in seen if kind == "dropped"} == {"shop.items"}
    assert {("shop.fresh", "created", "catch-up"), ("shop.orders", "data", "catch-up")} <= seen


def test_new_epoch_reports_every_table_of_a_topic_that_was_followed_and_never_read() -> None:
    shopping = Shopping(late=True, automatic=True)
    shopping.join("shop.orders", level="minimal")
    shopping.watch()
    shopping.lose_store()
    shopping.pass_time(3)
    assert ("shop.orders", "data", "catch-up") in shopping.take_changes()


def test_stub_that_was_lost_is_reported_by_the_catch_up() -> None:
    shopping = at_minimal()
    shopping.take_changes()
    shopping.lose(HUB, READER, Delta, count=1)
    changes = seen_after(shopping, lambda shop: shop.change("shop.sales", {"ds=001": {"n": "new"}}))
    assert changes == [("shop.sales", "data", "catch-up")]


def test_invalidation_of_all_is_a_change_of_every_table() -> None:
    shopping = at_minimal()
    shopping.take_changes()
    shopping.alter(Delta, lambda delta: replace(delta, entries=(), invalidate_all=True))
    changes = seen_after(shopping, lambda shop: shop.change("shop.sales", {"ds=001": {"n": "new"}}))
    assert changes == tables_of(shopping)


def test_every_table_that_was_readable_before_is_reported_once_its_topic_is_followed() -> None:
    shopping = at_minimal()
    assert sorted(shopping.take_changes()) == tables_of(shopping), "it was at full, perhaps read"
    shopping.leave("shop.sales")
    assert (
        seen_after(shopping, lambda shop: shop.change("shop.sales", {"ds=001": {"n": "x"}})) == []
    )
    shopping.join("shop.sales")
    assert sorted(shopping.take_changes()) == tables_of(shopping)


@pytest.mark.parametrize("synced", [False, True])
def test_nothing_is_reported_of_a_topic_that_was_never_readable(*, synced: bool) -> None:
    """A sync sets a lower bound, too: watches must not begin with every table for it."""
    shopping = Shopping(late=True, automatic=True)
    if synced:
        shopping.hold(HUB, READER, Joined)
        shopping.begin(lambda catalog: catalog.sync())
    shopping.watch()
    if not synced:
        shopping.join("shop.sales", level="minimal")
    shopping.release()
    shopping.settle()
    assert shopping.take_changes() == []


def test_dropped_topic_is_watched_no_more() -> None:
    shopping = watched()
    shopping.lose(HUB, READER, Delta, count=1)
    shopping.hold(HUB, READER, Chunk)
    shopping.reshape("shop.orders", "x")
    shopping.leave("shop.orders")
    shopping.release()
    assert shopping.take_changes() == []


@pytest.mark.parametrize("level", ["full", "minimal"])
def test_watcher_is_notified_whether_files_may_differ_and_whether_they_are_gone(
    level: str,
) -> None:
    shopping = watched()
    if level == "minimal":
        shopping.join("shop.sales", level=level)
    found: list[Change] = []
    for act in (
        lambda: shopping.shop.add("shop.sales", {"ds=999": {"n": "new"}}),
        lambda: described(shopping.shop),
        lambda: shopping.shop.reshape("shop.stock", ("x",)),
        lambda: shopping.call(lambda catalog: catalog.report_write("shop.stock")),
        lambda: shopping.call(lambda catalog: catalog.report_write("shop.stock", overwritten=True)),
    ):
        shopping.take_changes()
        act()
        shopping.settle()
        found += shopping.changes
    assert [(one.kind, one.origin, one.files, one.overwritten) for one in found] == [
        ("data", "events", False, False),
        ("data", "events", False, False),
        ("schema", "events", True, False),
        ("data", "reports", True, False),
        ("data", "reports", True, True),
    ]


def described(shop: Shop) -> None:
    """Give a table a comment."""
    table = shop.get_table("shop", "stock")
    table.parameters["comment"] = "what there is"
    shop.alter_table("shop", "stock", table)


# The feed itself, over what a catalogd published


class Fed:
    """A feed that is enabled, and a view of everything that is published."""

    def __init__(self) -> None:
        self.feed = ChangeFeed()
        self.feed.enabled = True
        self.published = Published()
        self.view = View(self.published.num_topics)
        for topic, held in self.published.topics.items():
            self.put(topic, list(held.since(0)))
            self.view.open(topic)
        self.topic = self.published.topic("shop.sales")

    def put(self, topic: int, entries: Sequence[Entry]) -> list[Swap]:
        held = self.view.topics.setdefault(topic, TopicView())
        swaps, growth = prepare(held, entries)
        self.view.install(held, swaps, growth)
        return swaps

    def apply(self, entry: Entry, source: int) -> list[tuple[str, str]]:
        """Apply an entry that came from ``source``; return (kind, origin) of what it changed."""
        before = entry.version - 1
        sent = delta(
            before, entry.version, topic=self.topic, epoch=1, source=source, entries=(entry,)
        )
        found = self.feed.applied(sent, self.put(self.topic, [entry]))
        return [(change.kind, change.origin) for change in found]

    def gap(self) -> list[str]:
        return sorted(change.object for change in self.feed.gap(self.topic, 9, self.view))


@pytest.fixture
def fed() -> Fed:
    return Fed()


def test_value_after_a_stub_is_a_change_unless_it_was_loaded(fed: Fed) -> None:
    """What the stub stands for may have been pulled, and be another than the value."""
    own = fed.published.rows("shop.sales")[0]
    for version, kind, source, changes in (
        (91, STUB, SOURCE_LOAD, []),
        (92, 0, SOURCE_LOAD, []),
        (93, STUB, SOURCE_EVENTS, [("data", "events")]),
        (94, 0, SOURCE_EVENTS, [("schema", "events")]),
    ):
        schema = version if kind != STUB else own.schema_version
        entry = own._replace(version=version, schema_version=schema)
        assert fed.apply(stub(entry) if kind == STUB else entry, source) == changes


def test_each_change_of_a_withheld_table_is_reported(fed: Fed) -> None:
    """Its entries are stubs, before and after: followers at full and at minimal report the same."""
    own = stub(fed.published.rows("shop.sales")[0])
    for version, source, kind in (
        (91, SOURCE_EVENTS, "schema"),
        (92, SOURCE_EVENTS, "data"),
        (93, SOURCE_ORDERS, "schema"),
    ):
        schema = version if kind == "schema" else 91
        origin = "orders" if source == SOURCE_ORDERS else "events"
        entry = own._replace(version=version, schema_version=schema)
        assert fed.apply(entry, source) == [(kind, origin)]
    assert fed.apply(own._replace(version=94, schema_version=94), SOURCE_LOAD) == []


def test_databases_that_come_change_and_go_are_reported(fed: Fed) -> None:
    fed.topic = NAMESPACE
    own = fed.published.topics[NAMESPACE].get(database_key("shop"))
    assert own is not None
    assert fed.apply(own._replace(version=91), SOURCE_EVENTS) == [("schema", "events")]
    new = own._replace(key=database_key("new"), version=92)
    assert fed.apply(new, SOURCE_EVENTS) == [("created", "events")]
    assert fed.apply(tombstone(new.key, 93), SOURCE_EVENTS) == [("dropped", "events")]


def test_gap_is_reported_of_tables_whose_names_are_still_to_come_back(fed: Fed) -> None:
    names = fed.view.topics[NAMESPACE]
    fed.feed.on_snapshot(NAMESPACE, names.groups)
    names.groups = {}
    assert fed.gap() == ["shop.sales", "shop.stock"]


def test_rules_for_drivers_are_no_change_of_an_object(fed: Fed) -> None:
    """P-RULES-1."""
    fed.topic = NAMESPACE
    for version, pattern in ((91, "a"), (92, "b")):
        value = encode_rules((Rule(pattern, OFF),))
        entry = Entry(rules_key(), version, version, version, len(value), value)
        assert fed.apply(entry, SOURCE_EVENTS) == []
    fed.topic = fed.published.topic("shop.sales")
    assert fed.gap() == ["shop.sales", "shop.stock"]


def test_table_that_a_pull_found_and_the_namespace_never_named_is_reported_as_dropped(
    fed: Fed,
) -> None:
    for table in ("passed", "sales"):
        fed.feed.on_pulled("shop", table, fed.view)
    (change,) = fed.feed.on_names_caught_up(9, fed.view)
    assert (change.object, change.kind, change.origin) == ("shop.passed", "dropped", "catch-up")
    assert fed.feed.on_names_caught_up(9, fed.view) == ()
    fed.feed.enabled = False
    fed.feed.on_pulled("shop", "passed", fed.view)
    assert fed.feed.on_names_caught_up(9, fed.view) == ()


def test_table_that_was_pulled_while_its_topic_was_behind_is_reported_after_the_catch_up(
    fed: Fed,
) -> None:
    feed, view, topic = fed.feed, fed.view, fed.topic
    feed.on_pulled("shop", "sales", view)
    assert feed.on_caught_up(topic, 9, {}) == (), "memory has it as new as the pull"
    view.close(topic)
    feed.on_pulled("shop", "sales", view)
    assert [change.object for change in feed.on_caught_up(topic, 9, {})] == ["shop.sales"]
    feed.on_pulled("shop", "sales", view)
    feed.discard(topic)
    assert feed.on_caught_up(topic, 9, {}) == ()


def test_level_that_goes_live_above_the_level_before_it_is_a_gap(fed: Fed) -> None:
    def changes(position: tuple[int, int]) -> list[tuple[str, int]]:
        found = fed.feed.on_level_changed(fed.topic, fed.view, old=(10, 5), new=position)
        return [(change.object, change.version) for change in found]

    assert changes((10, 5)) == []
    for position in ((10, 6), (11, 1)):  # catalogd lost its store: versions begin anew
        assert changes(position) == [("shop.sales", position[1]), ("shop.stock", position[1])]
    fed.feed.enabled = False
    assert changes((10, 6)) == []


def test_snapshot_of_a_table_topic_keeps_no_second_copy() -> None:
    feed, group = ChangeFeed(), b"db\0t\0"
    feed.enabled = True
    content = TableSnapshot()
    held = ref(content)
    feed.on_snapshot(3, {group: content})
    feed.on_chunk(3, [Swap(group, content, None)])
    del content
    assert held() is None
    feed.discard(3)
    assert feed.on_caught_up(3, 1, {group: TableSnapshot()}) == ()


def test_table_that_a_new_epoch_has_not_loaded_yet_is_reported_as_changed() -> None:
    """Its content comes later, by a load, which is reported to nobody (make sim SEED=100374)."""
    feed = ChangeFeed()
    feed.enabled = True
    feed.on_snapshot(3, {b"db\0t\0": TableSnapshot()})
    found = feed.on_caught_up(3, 1, {b"db\0u\0": TableSnapshot()})
    assert [(change.object, change.kind) for change in found] == [
        ("db.t", "data"),
        ("db.u", "data"),
    ]
    assert feed.on_caught_up(3, 2, {}) == ()
