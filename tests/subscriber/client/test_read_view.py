"""A read view is of one moment, and says at its end whether that moment is still the newest."""

import copy
import json
import pickle

import pytest

from topicast.subscriber import Subscriber, Version
from topicast.subscriber.client.read_view import TABLES_MAX, claims_of, names_of
from topicast.tests.cluster.shopping import Shopping
from topicast.topics.errors import LinkError, NoSuchObject, NotReady, StaleMetadata, UsageError
from topicast.topics.topic import epoch_of
from topicast.topics.wire.messages.catalog import Pull, Validate
from topicast.topics.wire.messages.data import Chunk, Delta

ORDERS, ITEMS, SALES = ("shop", "orders"), ("shop", "items"), ("shop", "sales")


def at_level(level: str) -> Shopping:
    shopping = Shopping()
    shopping.join("shop.items", "shop.orders", "shop.sales", level=level)
    return shopping


@pytest.mark.parametrize("level", ["full", "minimal", "none"])
def test_tables_stay_as_they_were_and_confirm_names_those_that_have_changed(level: str) -> None:
    shopping = at_level(level)

    def plan(catalog: Subscriber) -> None:
        with catalog.read_view("shop.sales", "Shop.Orders") as view:
            assert len(view.partitions("shop.sales", "ds < '010'")) == 10
            view.confirm()
            shopping.shop.change("shop.sales", {"ds=000": {"n": "x"}})
            catalog.sync()
            assert view.partitions("shop.sales", "ds = '000'")[0].parameters["n"] == "0"
            with pytest.raises(StaleMetadata, match=r"shop\.sales$") as raised:
                view.confirm()
            assert raised.value.retriable
            with pytest.raises(UsageError, match=r"shop\.items is not among"):
                view.table("shop.items")
        with catalog.read_view("shop.sales", "shop.orders") as again:
            assert again.partitions("shop.sales", "ds = '000'")[0].parameters["n"] == "x"
            shopping.shop.reshape("shop.orders", ("id", "more"))
            catalog.sync()
            assert [column.name for column in again.table("shop.orders").columns] == ["id"]
            with pytest.raises(StaleMetadata, match=r"shop\.orders$"):
                again.confirm()
        with pytest.raises(NoSuchObject):
            catalog.read_view("shop.none")

    shopping.call(plan)


def test_only_the_table_that_changed_while_it_was_read_is_read_again() -> None:
    shopping = at_level("none")
    shopping.hold("reader-0", "catalogd", Validate, count=1)
    found: list[list[str]] = []

    def plan(catalog: Subscriber) -> None:
        with catalog.read_view("shop.orders", "shop.items") as view:
            view.confirm()
            found.append([column.name for column in view.table("shop.orders").columns])

    shopping.begin(plan)
    shopping.pass_time(0.2)
    shopping.shop.reshape("shop.orders", ("new",))
    shopping.settle()
    shopping.release()
    shopping.settle()
    assert found == [["new"]]
    assert [pull.table for pull in shopping.messages(Pull)] == ["orders", "items", "orders"]


def test_tables_read_before_a_new_epoch_are_read_again() -> None:
    shopping = at_level("full")
    shopping.hold("reader-0", "catalogd", Validate, count=1)
    epochs: list[int] = []

    def plan(catalog: Subscriber) -> None:
        with catalog.read_view("shop.orders", "shop.items") as view:
            view.confirm()
            epochs.append(epoch_of(view.table("shop.items").version))

    shopping.begin(plan)
    shopping.cluster.catalogd.mint(shopping.cluster.catalogd.store.epoch)
    shopping.settle()
    shopping.release()
    shopping.pass_time(3)
    assert epochs == [shopping.cluster.catalogd.store.epoch]


def test_table_that_changes_faster_than_it_is_read_fails() -> None:
    shopping = at_level("full")
    shopping.hold("reader-0", "catalogd", Validate, count=1)
    errors: list[NotReady] = []

    def plan(catalog: Subscriber) -> None:
        with pytest.raises(NotReady, match=r"shop\.orders changes faster") as raised:
            catalog.read_view("shop.orders", timeout_s=0.0)
        errors.append(raised.value)

    shopping.begin(plan)
    shopping.shop.reshape("shop.orders", ("new",))
    shopping.settle()
    shopping.release()
    assert errors


def test_names_are_taken_once_and_bounded() -> None:
    assert names_of(["a.b", "A.B", "c.d"]) == (("a", "b"), ("c", "d"))
    for wrong in ([], ["orders"], [f"a.t{number}" for number in range(TABLES_MAX + 1)]):
        with pytest.raises(UsageError):
            names_of(wrong)


def test_many_tables_are_validated_at_once(shopping: Shopping) -> None:
    names = shopping.call(lambda catalog: catalog.tables("shop"))
    known = [(f"shop.{name}", shopping.table(f"shop.{name}").version) for name in names]
    assert shopping.call(lambda catalog: catalog.validate(known)) == {}
    assert shopping.call(lambda catalog: catalog.validate([])) == {}
    assert len(shopping.messages(Validate)) == 1
    shopping.shop.reshape("shop.orders", ("id", "more"))
    shopping.shop.drop("shop.stock")
    shopping.settle()
    stale = shopping.call(lambda catalog: catalog.validate([*known, ("shop.none", 1)]))
    now = shopping.table("shop.orders").version
    assert stale == {"shop.orders": now, "shop.stock": 0, "shop.none": 0}
    with pytest.raises(UsageError):
        shopping.call(lambda catalog: catalog.validate([("orders", 1)]))


@pytest.mark.parametrize("level", ["full", "minimal"])
def test_tables_are_outdated_while_a_change_of_them_has_not_arrived(level: str) -> None:
    shopping = at_level(level)
    names = ["shop.items", "Shop.Orders", "shop.sales"]
    assert shopping.call(lambda catalog: catalog.outdated(names)) == frozenset()
    shopping.hold("hub-0", "reader-0", Delta, Chunk)
    shopping.shop.change("shop.sales", {"ds=000": {"n": "x"}})
    shopping.shop.reshape("shop.orders", ("id", "more"))
    shopping.settle()
    found = shopping.call(lambda catalog: catalog.outdated([*names, "shop.none"]))
    assert found == {"Shop.Orders", "shop.sales", "shop.none"}
    shopping.release()
    assert shopping.call(lambda catalog: catalog.outdated(names)) == frozenset()
    assert len(shopping.messages(Validate)) == 3, "one round trip, however many"


def test_nothing_is_known_of_tables_whose_topic_is_not_followed_or_without_catalogd() -> None:
    shopping = at_level("none")
    assert shopping.call(lambda catalog: catalog.outdated(["shop.items"])) == {"shop.items"}
    assert shopping.call(lambda catalog: catalog.outdated([])) == frozenset()
    with pytest.raises(UsageError):
        shopping.call(lambda catalog: catalog.outdated(["items"]))
    shopping.lose("reader-0", "catalogd", Validate)
    with pytest.raises(LinkError):
        shopping.call(lambda catalog: catalog.outdated(["shop.items"], timeout_s=0.3))


def test_version_is_a_number_and_keeps_its_epoch_in_another_process() -> None:
    version = Version(42, 7)
    for same in (version, copy.copy(version), copy.deepcopy(version)):
        assert (same, epoch_of(same)) == (42, 7)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        came = pickle.loads(pickle.dumps(version, protocol))
        assert (came, epoch_of(came)) == (42, 7)
    assert f"{version} {version + 1} {json.dumps(version)}" == "42 43 42"
    assert epoch_of(42) == epoch_of(version + 1) == 0
    shopping = Shopping()
    table = pickle.loads(pickle.dumps(shopping.table("shop.orders")))
    assert table.version.epoch == shopping.cluster.catalogd.store.epoch


def test_claims_are_of_the_newest_epoch_and_others_are_of_version_0() -> None:
    """P-VALID-1."""
    known = ((ORDERS, Version(5, 7)), (ITEMS, Version(9, 6)), (SALES, 3))
    epoch, claims = claims_of(known, whole=True)
    assert epoch == 7
    assert [(one.db, one.table) for one in claims] == [ORDERS, ITEMS, SALES]
    assert [one.version for one in claims] == [5, 0, 0]
    assert all(type(one.version) is int and one.whole for one in claims)
    assert claims_of((), whole=False) == (0, ())


def lose_the_store(shopping: Shopping) -> None:
    """Begin anew, and get further than before in the topic of shop.items, but not with that."""
    shopping.lose_store()
    shopping.pass_time(3)
    mate = next(
        name
        for name in (f"shop.mate{number}" for number in range(100))
        if shopping.topic(name) == shopping.topic("shop.items")
    )
    shopping.shop.create(mate)
    for number in range(20):
        shopping.shop.reshape(mate, (f"c{number}",))
        shopping.settle()


@pytest.mark.parametrize("level", ["full", "minimal", "none"])
def test_version_of_a_store_that_was_lost_is_stale_whatever_its_number(level: str) -> None:
    """P-VALID-1, P-VALID-2."""
    shopping = at_level(level)
    for number in range(9):
        shopping.shop.reshape("shop.items", (f"c{number}",))
        shopping.settle()
    old = shopping.table("shop.items").version
    assert shopping.call(lambda catalog: catalog.validate([("shop.items", old)])) == {}

    def plan(catalog: Subscriber) -> None:
        with catalog.read_view("shop.items", "shop.sales") as view:
            view.confirm()
            worker.halt()
            with pytest.raises(StaleMetadata):
                view.confirm()

    worker = shopping.begin(plan)
    shopping.settle()
    lose_the_store(shopping)
    new = shopping.table("shop.items").version
    topics = shopping.cluster.catalogd.published.topics
    assert new < old < topics[shopping.topic("shop.items")].version
    stale = shopping.call(lambda catalog: catalog.validate([("shop.items", old)]))
    assert stale == {"shop.items": new}
    assert stale["shop.items"].epoch == new.epoch == old.epoch + 1
    assert shopping.call(lambda catalog: catalog.validate(stale.items())) == {}
    number = shopping.call(lambda catalog: catalog.validate([("shop.items", int(new))]))
    assert number == {"shop.items": new}
    worker.go()
    shopping.settle()
    assert not worker.alive
