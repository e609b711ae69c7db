"""A reading is of one moment, and says at its end whether that moment is still the newest."""

from collections.abc import Callable
from math import inf

import pytest

from topicast.subscriber.client.read_view import (
    TABLES_MAX,
    ReadView,
    VersionedTable,
    names_of,
    open_read_view,
)
from topicast.subscriber.store.table_snapshot import snapshot_of
from topicast.tests.subscriber.desk import validated
from topicast.tests.subscriber.source import shop
from topicast.topics.errors import NotReady, StaleMetadata, UsageError
from topicast.topics.objects.names import table_key
from topicast.topics.objects.versions import Version
from topicast.topics.wire.messages import Claimed, Validate


class Source:
    """Reads and validates as catalogd would; ``meanwhile`` holds what happens after each read."""

    def __init__(self) -> None:
        self.catalog = shop()
        self.meanwhile: list[Callable[[], object]] = []
        self.read: list[str] = []

    def pinned(self, name: tuple[str, str]) -> VersionedTable:
        self.read.append(name[1])
        topic = self.catalog.topics[self.catalog.topic(*name)]
        content = snapshot_of(topic.rows(table_key(*name)), version=topic.version)
        found = VersionedTable(content, Version(topic.version, self.catalog.epoch))
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return found

    def validate(self, epoch: int, claims: tuple[Claimed, ...]) -> dict[int, int]:
        return dict(validated(self.catalog, Validate(request=1, epoch=epoch, claims=claims)).stale)

    def pin(self, *names: str, give_up_at: float = inf) -> ReadView:
        return open_read_view(
            names_of(names),
            self.pinned,
            validate=self.validate,
            give_up_at=give_up_at,
        )


def columns(snapshot: ReadView, name: str) -> list[str]:
    return [column.name for column in snapshot.table(name).columns]


def test_tables_stay_as_they_were_and_confirm_says_which_have_changed() -> None:
    source = Source()
    with source.pin("shop.orders", "Shop.Sales") as snapshot:
        snapshot.confirm()
        assert len(snapshot.partitions("shop.sales", "ds < '003'")) == 3
        source.catalog.put_table("shop", "orders", columns=("id", "more"))
        assert columns(snapshot, "shop.orders") == ["id"]
        with pytest.raises(StaleMetadata, match=r"shop\.orders$") as raised:
            snapshot.confirm()
        assert raised.value.retriable
    assert columns(source.pin("shop.orders"), "shop.orders") == ["id", "more"]


def test_changed_partition_is_a_change_of_its_table() -> None:
    source = Source()
    snapshot = source.pin("shop.sales")
    source.catalog.put_partitions("shop", "sales", {"ds=003": {"n": "other"}})
    with pytest.raises(StaleMetadata):
        snapshot.confirm()


def test_only_what_changed_while_it_was_read_is_read_again() -> None:
    source = Source()
    source.meanwhile = [lambda: source.catalog.put_table("shop", "orders", columns=("new",))]
    snapshot = source.pin("shop.orders", "shop.items")
    assert source.read == ["orders", "items", "orders"]
    assert columns(snapshot, "shop.orders") == ["new"]
    snapshot.confirm()


def test_what_was_read_before_a_new_epoch_is_read_again() -> None:
    source = Source()

    def restart() -> None:
        source.catalog.epoch += 1

    source.meanwhile = [restart]
    source.pin("shop.orders", "shop.items").confirm()
    assert source.read == ["orders", "items", "orders"]


def test_table_that_changes_faster_than_it_is_read_is_given_up() -> None:
    source = Source()
    source.meanwhile = [lambda: source.catalog.put_table("shop", "orders", columns=("new",))]
    with pytest.raises(NotReady, match=r"shop\.orders"):
        source.pin("shop.orders", give_up_at=0.0)


def test_only_named_tables_are_read_from_it() -> None:
    with pytest.raises(UsageError, match=r"shop\.items is not among"):
        Source().pin("shop.orders").table("shop.items")


def test_names_are_taken_once_and_bounded() -> None:
    assert names_of(["a.b", "A.B", "c.d"]) == (("a", "b"), ("c", "d"))
    for wrong in ([], ["orders"], [f"a.t{number}" for number in range(TABLES_MAX + 1)]):
        with pytest.raises(UsageError):
            names_of(wrong)
