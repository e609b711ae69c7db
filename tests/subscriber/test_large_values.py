"""Values that no frame holds: read like any other, at every level, and bounded on their way."""

import random

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.catalog.model.modes import Mode
from topicast.subscriber.store.table_snapshot import HEAD_KEPT_BYTES_MAX
from topicast.tests.cluster.cluster import Way
from topicast.tests.cluster.shop import Shop
from topicast.tests.cluster.shopping import Shopping
from topicast.topics.wire import encode
from topicast.topics.wire.header import (
    DELTA_BYTES_MAX,
    FRAME_BYTES_MAX,
    HEADER_BYTES,
    PIECE_BYTES_MAX,
)
from topicast.topics.wire.messages.catalog import Pulled
from topicast.topics.wire.messages.data import Delta
from topicast.topics.wire.messages.fields import Message

NOISE = random.Random(1).randbytes(1 << 20).hex()  # 2 MB that compress to 1 MB
OTHER = random.Random(2).randbytes(1 << 20).hex()
BUDGET = 32 << 20


def large_shop() -> Shop:
    """A shop with a table of 2 MB, and a table of which one partition has as much."""
    shop = Shop()
    shop.remark("shop.orders", {"note": NOISE})
    shop.change("shop.sales", {"ds=050": {"note": NOISE}})
    return shop


def shopping(**setup: object) -> Shopping:
    return Shopping(large_shop(), budget_bytes=BUDGET, **setup)


@pytest.mark.parametrize("level", ["full", "minimal", "none"])
def test_large_values_are_read_at_every_level(level: str) -> None:
    """P-PULL-18, P-DATA-5."""
    shop = shopping()
    if level != "none":
        shop.join("shop.orders", "shop.sales", level=level)
        shop.settle()
    assert shop.table("shop.orders").parameters["note"] == NOISE
    assert len(shop.partitions("shop.sales")) == 100
    (one,) = shop.partitions("shop.sales", "ds = '050'")
    assert one.parameters["note"] == NOISE


@pytest.mark.parametrize("mode", ["full", "mixed", "minimal"])
def test_no_frame_on_the_way_is_larger_than_any_other(mode: str) -> None:
    """P-LIM-1, P-LIM-4: neither deltas and catch-ups nor the answers of pulls."""
    shop = shopping(start=False, late=False)
    shop.cluster.catalogd.turn_mode(Mode(mode))
    largest: dict[type, int] = {}

    def measure(_way: Way, message: Message) -> tuple[Message, ...]:
        size = len(encode(message))
        largest[type(message)] = max(size, largest.get(type(message), 0))
        return (message,)

    shop.cluster.taps.append(measure)
    shop.start()
    shop.table("shop.orders")
    shop.shop.remark("shop.orders", {"note": OTHER})
    shop.settle()
    assert shop.table("shop.orders").parameters["note"] == OTHER
    assert largest[Pulled] > 100_000
    assert max(largest.values()) <= FRAME_BYTES_MAX // 2
    assert largest[Delta] <= HEADER_BYTES + DELTA_BYTES_MAX


def test_change_of_a_large_value_is_received_and_read() -> None:
    shop = shopping()
    shop.join("shop.orders", "shop.sales")
    shop.settle()
    shop.table("shop.orders"), shop.partitions("shop.sales")
    shop.watch()
    shop.shop.remark("shop.orders", {"note": OTHER})
    shop.shop.change("shop.sales", {"ds=050": {"note": OTHER}})
    shop.settle()
    assert {name for name, _, _ in shop.take_changes()} == {"shop.orders", "shop.sales"}
    assert shop.table("shop.orders").parameters["note"] == OTHER
    (one,) = shop.partitions("shop.sales", "ds = '050'")
    assert one.parameters["note"] == OTHER


def test_value_that_becomes_small_is_pushed_again() -> None:
    """Given a reader at full, then memory answers as soon as the value fits a frame."""
    shop = shopping()
    shop.join("shop.orders")
    shop.settle()
    assert shop.memory("shop.orders") is None
    shop.shop.remark("shop.orders", {"note": "short"})
    shop.settle()
    before = len(shop.pulls("shop.orders"))
    assert shop.table("shop.orders").parameters["note"] == "short"
    assert len(shop.pulls("shop.orders")) == before


def test_partitions_beside_a_large_partition_come_without_it() -> None:
    """Given a table with a large partition, then a pull of others brings none of its pieces."""
    shop = shopping()
    shop.sent.clear()
    assert [one.name for one in shop.partitions("shop.sales", "ds = '099'")] == ["ds=099"]
    assert all(len(encode(one)) < PIECE_BYTES_MAX for one in shop.messages(Pulled))


def test_large_value_is_kept_within_the_budget_and_answers_from_memory() -> None:
    shop = shopping()
    shop.table("shop.orders")
    shop.sent.clear()
    assert shop.table("shop.orders").parameters["note"] == NOISE
    assert shop.pulls("shop.orders") == []
    assert shop.stats().held_bytes > 1 << 20


def test_value_that_does_not_fit_the_budget_is_read_and_not_kept() -> None:
    shop = Shopping(large_shop(), budget_bytes=1 << 20)
    for _ in range(2):
        assert shop.table("shop.orders").parameters["note"] == NOISE
    assert shop.stats().held_bytes <= 1 << 20
    assert len(shop.pulls("shop.orders")) >= 2


def test_large_struct_does_not_stay_decoded_beside_the_budget() -> None:
    shop = shopping()
    shop.table("shop.orders"), shop.table("shop.items")
    view = shop.reader.member.view
    large, small = view.table("shop", "orders"), view.table("shop", "items")
    assert large is not None
    assert small is not None
    assert large.decoded_bytes == 0
    assert 0 < small.decoded_bytes < HEAD_KEPT_BYTES_MAX


def test_hub_holds_stubs_of_large_values_alone() -> None:
    """The hub's memory does not grow with the size of a value."""
    shop = shopping()
    status = shop.cluster.hubs[0].hub.status(now=shop.cluster.now)
    assert 0 < sum(topic.full_bytes for topic in status.topics) < 100_000


def test_database_of_which_no_frame_holds_the_parameters_is_known_without_them() -> None:
    """Every reader is sent it; a value that no hub takes would keep all names from all readers."""
    metastore = Shop()
    metastore.create_database(Database("big", "of notes", "file:/w/big", {"note": NOISE}))
    shop = Shopping(metastore)
    found = shop.call(lambda catalog: catalog.database("big"))
    assert (found.name, found.location, dict(found.parameters)) == ("big", "file:/w/big", {})
    metastore.create("big.t")
    shop.settle()
    assert shop.table("big.t").name == "t"
