"""What an application reads: names, tables and partitions, at any level and across restarts."""

import pickle
from collections.abc import Sequence
from dataclasses import replace

import pytest

from topicast.catalog.ingest.loads import chunked_load, read_threads
from topicast.catalog.metastore.port import Read
from topicast.catalog.serve.pending import TABLE_WAIT_S_MAX
from topicast.subscriber.client.reader import Values
from topicast.subscriber.client.subscriber import Subscriber
from topicast.subscriber.store.view import NEAR_BLOCKS_MAX
from topicast.tests.cluster.shop import NAMES, Shop
from topicast.tests.cluster.shopping import Shopping
from topicast.topics.errors import NoSuchObject, NotReady, OverBudget, UsageError
from topicast.topics.topic import NAMESPACE
from topicast.topics.wire.messages.catalog import Pulled

LEVELS = ("full", "minimal", "none")
HOURS = ("00", "01", "02")
DAYS = tuple(f"2026-11-{day:02}" for day in range(1, 31))
HITS = "shop.hits"


def test_subscriber_reads_what_the_metastore_holds(shopping: Shopping) -> None:
    assert "shop" in shopping.call(lambda catalog: catalog.databases())
    assert shopping.call(lambda catalog: catalog.database("SHOP")).location == "file:/w/shop"
    assert shopping.call(lambda catalog: catalog.tables("Shop")) == NAMES
    assert shopping.table("Shop.Orders").full_name == "shop.orders"
    assert len(shopping.partitions("shop.sales")) == 100
    found = shopping.partitions("shop.sales", "ds >= '095' and ds != '097'")
    assert [one.name for one in found] == ["ds=095", "ds=096", "ds=098", "ds=099"]
    assert found[0].parameters["n"] == "95"
    assert shopping.partitions("shop.orders") == ()
    for name in ("shop.nothing", "nowhere.orders"):
        with pytest.raises(NoSuchObject, match=name):
            shopping.table(name)
    with pytest.raises(NoSuchObject):
        shopping.call(lambda catalog: catalog.tables("nowhere"))
    with pytest.raises(UsageError):
        shopping.table("orders")
    assert shopping.stats().pulls == 0


@pytest.mark.parametrize("level", LEVELS)
def test_folders_of_a_table_are_its_own_and_those_of_partitions_elsewhere(
    shopping: Shopping, level: str
) -> None:
    own = "file:/w/shop/sales"
    for at, place in enumerate((f"{own}/by_hand", "s3://lake/b", f"{own}2", "s3://lake/a")):
        shopping.shop.add("shop.sales", {f"ds=x{at}": {}}, location=place)
    shopping.call(lambda catalog: catalog.sync())
    shopping.join("shop.sales", level=level)
    found = shopping.call(lambda catalog: catalog.folders("shop.sales"))
    assert found == (own, f"{own}2", "s3://lake/a", "s3://lake/b")
    assert shopping.call(lambda catalog: catalog.folders("shop.orders")) == ("file:/w/shop/orders",)
    with pytest.raises(NoSuchObject):
        shopping.call(lambda catalog: catalog.folders("shop.nothing"))


def test_change_is_seen_by_push_and_after_a_sync_at_once(shopping: Shopping) -> None:
    shopping.shop.reshape("shop.orders", ("id", "more"))
    shopping.settle()
    assert shopping.columns("shop.orders") == ("id", "more")
    shopping.shop.create("shop.fresh")
    shopping.call(lambda catalog: catalog.sync())
    assert shopping.table("shop.fresh").name == "fresh"
    shopping.shop.drop("shop.fresh")
    shopping.call(lambda catalog: catalog.sync(5))
    with pytest.raises(NoSuchObject):
        shopping.table("shop.fresh")


@pytest.mark.parametrize("level", LEVELS)
def test_table_is_followed_once_memory_holds_it_and_until_it_is_gone(
    shopping: Shopping, level: str
) -> None:
    shopping.join("shop.orders", level=level)

    def follows() -> bool:
        return shopping.call(lambda catalog: catalog.follows("shop.orders"))

    assert follows() == (level != "none")
    shopping.shop.reshape("shop.orders", ("id", "more"))
    shopping.settle()
    assert follows() == (level != "none")  # pulled again
    shopping.shop.drop("shop.orders")
    shopping.settle()
    assert not follows()
    assert not shopping.call(lambda catalog: catalog.follows("shop.nothing"))


def test_dropped_topic_is_pulled_and_can_be_joined_again(shopping: Shopping) -> None:
    topic, held = shopping.topic("shop.sales"), shopping.stats().held_bytes
    size = shopping.topics()[topic].bytes
    shopping.leave("shop.sales")
    assert shopping.stats().held_bytes == held - size < held
    assert len(shopping.partitions("shop.sales", "ds < '010'")) == 10
    assert shopping.columns("shop.sales") == ("id",)
    assert shopping.memory("shop.sales") is None
    assert shopping.stats().pulls == 2
    assert shopping.topics()[topic].level == "none"
    for _ in range(2):
        shopping.join("shop.sales")
    assert shopping.memory("shop.sales") == ("id",)
    assert shopping.columns("shop.sales") == ("id",)
    assert (shopping.stats().pulls, shopping.stats().held_bytes) == (2, held)
    shopping.join("shop.sales", level="none")
    assert shopping.topics()[topic].level == "none"
    with pytest.raises(UsageError, match="none, minimal, full"):
        shopping.join("shop.sales", level="half")
    with pytest.raises(UsageError):
        shopping.call(lambda catalog: catalog.join(99))


@pytest.mark.parametrize("level", LEVELS)
def test_partitions_are_read_by_name_and_names_alone_at_any_level(
    shopping: Shopping, level: str
) -> None:
    shopping.join("shop.sales", level=level)
    every = tuple(f"ds={number:03d}" for number in range(100))
    wanted = ["ds=077", "ds=003", "ds=never", "ds=003"]

    def names(name: str, text: str | None = None) -> tuple[str, ...]:
        return shopping.call(lambda catalog: catalog.partition_names(name, text))

    assert names("shop.sales") == every
    assert names("shop.sales", "ds < '010'") == every[:10]
    assert names("shop.orders") == ()
    found = shopping.call(lambda catalog: catalog.partitions("shop.sales", names=wanted))
    assert [one.name for one in found] == ["ds=003", "ds=077"]
    assert shopping.call(lambda catalog: catalog.partitions("shop.sales", names=[])) == ()
    assert found == shopping.partitions("shop.sales", "ds in ('003', '077')")
    pulled = shopping.stats().pulls
    again = shopping.call(lambda catalog: catalog.partitions("shop.sales", names=wanted[::-1]))
    assert again == found
    assert shopping.stats().pulls == pulled + (level == "none")
    with pytest.raises(NoSuchObject):
        names("shop.none")


def day(number: str, *hours: str) -> tuple[str, ...]:
    return tuple(f"ds={number}/hour={hour}" for hour in hours)


def hits() -> Shopping:
    """Return an application at a shop with a table of 90 partitions by day and hour."""
    shop = Shop(partitions=0)
    shop.create(HITS, keys=("ds", "hour"))
    shop.add(HITS, {name: {"n": "1"} for one in DAYS for name in day(one, *HOURS)})
    return Shopping(shop)


def test_values_select_at_every_level_alike() -> None:
    shopping = hits()
    every = tuple(name for one in DAYS for name in day(one, *HOURS))
    nightly = tuple(name for one in DAYS for name in day(one, "02"))
    cases: list[tuple[Values, tuple[str, ...]]] = [
        (("2026-11-03",), day("2026-11-03", *HOURS)),
        ({"ds": "2026-11-03"}, day("2026-11-03", *HOURS)),
        (("2026-11-03", "01"), day("2026-11-03", "01")),
        ({"HOUR": "01", "ds": "2026-11-03"}, day("2026-11-03", "01")),
        (("", "02"), nightly),
        ({"hour": "02"}, nightly),
        (("2026-12-01",), ()),
        (("", ""), every),
        ({}, every),
    ]
    for level in LEVELS:
        shopping.join(HITS, level=level)
        for values, expected in cases:
            names = shopping.call(lambda c, v=values: c.partition_names(HITS, values=v))
            assert names == expected, (level, values)
            found = shopping.call(lambda c, v=values: c.partitions(HITS, values=v))
            assert tuple(one.name for one in found) == expected, (level, values)


def test_partitions_pulled_by_values_are_answered_from_memory_until_they_change() -> None:
    shopping = hits()
    shopping.join(HITS, level="none")
    shopping.join(HITS, level="minimal")
    one = {"values": ("2026-11-07",)}
    pulls = shopping.stats().pulls

    def partitions(**selected: object) -> object:
        return shopping.call(lambda catalog: catalog.partitions(HITS, **selected))  # type: ignore[arg-type]  # as given

    found = partitions(**one)
    assert shopping.stats().pulls == pulls + 1
    assert partitions(**one) == found
    assert partitions(values={"ds": "2026-11-07"}) == found  # the table was pulled, too
    names = shopping.call(lambda catalog: catalog.partition_names(HITS, values=("2026-11-07",)))
    assert names == day("2026-11-07", *HOURS)
    assert shopping.stats().pulls == pulls + 1
    partitions(names=day("2026-11-07", "00"))
    assert shopping.stats().pulls == pulls + 2  # of other blocks, as far as is known
    topic = shopping.topic(HITS)
    source = shopping.cluster.catalogd.published.topics[topic]
    assert shopping.topics()[topic].bytes < source.held_bytes
    shopping.shop.change(HITS, {"ds=2026-11-07/hour=01": {"n": "new"}})
    shopping.settle()
    changed = shopping.call(lambda catalog: catalog.partitions(HITS, values=("2026-11-07",)))
    assert [part.parameters["n"] for part in changed] == ["1", "new", "1"]
    assert shopping.stats().pulls == pulls + 3


def test_selection_that_is_malformed_is_refused() -> None:
    shopping = hits()
    for fields, why in (
        ({"filter": "hour = '01'", "values": ("2026-11-03",)}, "not by two"),
        ({"filter": "hour = '01'", "names": ()}, "not by two"),
        ({"names": (), "values": ()}, "not by two"),
        ({"values": {"day": "2026-11-03"}}, "no partition column 'day' in shop.hits; there are"),
        ({"values": "2026-11-03"}, "several items"),
        ({"values": ("", "", "x")}, "3 values given"),
        ({"names": ("nonsense",)}, "not a partition's name"),
    ):
        with pytest.raises(UsageError, match=why):
            shopping.call(lambda catalog, given=fields: catalog.partitions(HITS, **given))


def test_table_larger_than_the_budget_is_answered_each_time_and_never_kept() -> None:
    names = Shopping().topics()[NAMESPACE].bytes
    budget = names + 2500
    shopping = Shopping(automatic=True, budget_bytes=budget, never=("shop.stock",))
    for number in (1, 2):
        assert len(shopping.partitions("shop.sales")) == 100
        assert shopping.stats().pulls_not_kept == number
    assert len(shopping.partitions("shop.sales", "ds = '050'")) == 1
    pulls = shopping.stats().pulls
    assert len(shopping.partitions("shop.sales", "ds = '050'")) == 1
    assert shopping.stats().pulls == pulls, "what a filter needs is kept"
    assert shopping.stats().held_bytes <= budget
    with pytest.raises(OverBudget, match=r"shop\.sales needs"):
        shopping.call(lambda catalog: catalog.pin("shop.sales"))
    shopping.call(lambda catalog: catalog.pin("shop.orders"))
    shopping.call(lambda catalog: catalog.unpin("Shop.Orders"))
    assert (shopping.stats().pinned_tables, shopping.table("shop.stock").name) == (0, "stock")


def test_pulled_table_without_its_own_entry_is_an_error_to_try_again(shopping: Shopping) -> None:
    shopping.leave("shop.orders")
    shopping.alter(Pulled, lambda part: replace(part, entries=()))
    with pytest.raises(NotReady, match="try again"):
        shopping.table("shop.orders")


def test_hub_that_dies_is_left_for_the_other_without_a_catch_up() -> None:
    shopping = Shopping(hubs=2)
    before = shopping.stats()
    shopping.cluster.hubs[0].crash()
    assert shopping.call(lambda catalog: catalog.tables("shop")) == NAMES  # served meanwhile
    shopping.pass_time(15)
    assert shopping.stats().hub != before.hub
    shopping.shop.reshape("shop.orders", ("id", "more"))
    shopping.settle()
    assert shopping.columns("shop.orders") == ("id", "more")
    assert shopping.stats().pulls == 0
    assert shopping.stats().catch_ups <= before.catch_ups + 1


@pytest.mark.parametrize("process", ["hub", "catalogd"])
def test_process_that_restarts_is_followed_again(shopping: Shopping, process: str) -> None:
    daemon = shopping.cluster.hubs[0] if process == "hub" else shopping.cluster.catalogd
    daemon.crash()
    shopping.shop.reshape("shop.orders", ("id", "missed"))
    shopping.settle()
    assert shopping.columns("shop.orders") == ("id",)
    daemon.revive()
    shopping.pass_time(15)
    assert shopping.columns("shop.orders") == ("id", "missed")
    assert shopping.stats().pulls == 0


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ds LIKE '09%'", range(90, 100)),  # which the metastore can say, too
        ("ds NOT LIKE '0%' OR ds == '007'", [7]),  # which it cannot
        ("ds IS NOT NULL AND NOT ds > '002'", range(3)),
    ],
)
def test_filter_is_that_of_spark_sql_at_any_level(
    shopping: Shopping, level: str, text: str, wanted: Sequence[int]
) -> None:
    shopping.join("shop.sales", level=level)
    names = tuple(f"ds={number:03d}" for number in wanted)
    listed = shopping.call(lambda catalog: catalog.partition_names("shop.sales", text))
    assert listed == names
    assert tuple(one.name for one in shopping.partitions("shop.sales", text)) == names
    with shopping.call(lambda catalog: catalog.read_view("shop.sales")) as view:
        assert tuple(one.name for one in view.partitions("shop.sales", text)) == names
    with pytest.raises(UsageError, match="at 3 'rlike' stands, not a comparison"):
        shopping.partitions("shop.sales", "ds rlike '0.*'")


def test_caller_waits_for_a_load_as_long_as_it_allows_and_hears_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a load that takes many times as long as catalogd lets a pull wait."""
    monkeypatch.setattr(read_threads, "WHOLE_PARTITIONS_MAX", 1)
    monkeypatch.setattr(chunked_load, "PARTITIONS_PER_READ_MAX", 10)
    shopping, found = Shopping(start=False), list[int]()
    catalogd = shopping.cluster.catalogd
    catalogd.hold(Read, where=lambda read: any("ds=099" in one.names for one in read.requests))
    shopping.start()

    def read(catalog: Subscriber, timeout_s: float) -> None:
        with catalog.read_view("shop.sales", timeout_s=timeout_s) as view:
            found.append(len(view.partitions("shop.sales")))

    with pytest.raises(NotReady, match=r"shop.sales is not loaded yet: 90 of 100 partitions read"):
        shopping.call(lambda catalog: read(catalog, 3.0))
    patient = shopping.begin(lambda catalog: read(catalog, 60.0))
    shopping.pass_time(12 * TABLE_WAIT_S_MAX)
    assert patient.alive
    catalogd.resume()
    shopping.pass_time(3.0)
    assert (patient.alive, found) == (False, [100])


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("shop.order", ("shop.orders",)),
        ("shop.slaes", ("shop.sales",)),
        ("shop.nothing", ()),
        ("shp.orders", ("shop.orders",)),
        ("shp.nothing", ()),
        ("nowhere.orders", ()),
    ],
)
def test_error_names_tables_that_are_near(
    shopping: Shopping, name: str, near: tuple[str, ...]
) -> None:
    with pytest.raises(NoSuchObject) as caught:
        shopping.table(name)
    assert caught.value.near == near
    shown = f"no such object: {name}" + (f" (near it: {near[0]})" if near else "")
    assert str(caught.value) == shown
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.name, copy.near) == (shown, name, near)


def test_error_names_databases_that_are_near(shopping: Shopping) -> None:
    for read in ("tables", "database"):
        with pytest.raises(NoSuchObject) as caught:
            shopping.call(lambda catalog, read=read: getattr(catalog, read)("shops"))  # type: ignore[misc]
        assert caught.value.near == ("shop",)
    with pytest.raises(NoSuchObject, match=r"no such object: orders \(near it: shop.orders\)"):
        shopping.call(lambda catalog: catalog.database("orders"))


def test_only_some_names_around_a_missing_name_are_looked_at() -> None:
    shop = Shop()
    for number in range(64 * (NEAR_BLOCKS_MAX + 8)):
        shop.create(f"shop.t{number:05}")
    shopping = Shopping(shop)
    with pytest.raises(NoSuchObject, match="near it: shop.t01000"):
        shopping.table("shop.t01000x")
