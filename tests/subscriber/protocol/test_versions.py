"""A version knows its epoch, wherever it has been, and passes for none of another."""

import copy
import json
import pickle

import pytest

from topicast.subscriber import Subscriber, Version
from topicast.subscriber.protocol.versions import claims_of
from topicast.tests.subscriber.source import NAMES, Catalog, shop
from topicast.tests.subscriber.stand import stand
from topicast.tests.subscriber.world import started
from topicast.tests.waiting import until
from topicast.topics.errors import StaleMetadata
from topicast.topics.objects.versions import epoch_of
from topicast.topics.wire.messages import Delta

ORDERS, ITEMS, SALES = ("shop", "orders"), ("shop", "items"), ("shop", "sales")


def test_version_is_a_number_and_keeps_its_epoch() -> None:
    version = Version(42, 7)
    for same in (version, copy.copy(version), copy.deepcopy(version)):
        assert (same, epoch_of(same)) == (42, 7)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        came = pickle.loads(pickle.dumps(version, protocol))
        assert (came, epoch_of(came)) == (42, 7)
    assert f"{version} {version + 1} {json.dumps(version)}" == "42 43 42"
    assert epoch_of(42) == epoch_of(version + 1) == 0


def test_table_keeps_its_epoch_in_another_process() -> None:
    world = started()
    content = world.view.table("shop", "orders")
    assert content is not None
    table = content.head_of("shop", "orders").table
    assert pickle.loads(pickle.dumps(table)).version.epoch == world.catalog.epoch


def test_claims_are_of_the_newest_epoch_and_what_is_of_no_such_is_asked_at_none() -> None:
    """P-VALID-1."""
    known = ((ORDERS, Version(5, 7)), (ITEMS, Version(9, 6)), (SALES, 3))
    epoch, claims = claims_of(known, whole=True)
    assert epoch == 7
    assert [(one.db, one.table) for one in claims] == [ORDERS, ITEMS, SALES]
    assert [one.version for one in claims] == [5, 0, 0]
    assert all(type(one.version) is int and one.whole for one in claims)
    assert claims_of((), whole=False) == (0, ())


def lose_the_store(catalog: Catalog) -> list[Delta]:
    """Begin anew, with other columns, and get further than before without a change of items."""
    catalog.new_epoch(2)
    deltas = catalog.create_database("shop")
    for name in NAMES:
        deltas += catalog.create_table("shop", name)
    deltas.append(catalog.put_table("shop", "items", columns=("id", "other")))
    return deltas + [catalog.put_table("shop", "people") for _ in range(20)]  # its topic


@pytest.mark.parametrize("level", ["full", "minimal", "none"])
def test_version_of_a_store_that_was_lost_is_stale_whatever_its_number(level: str) -> None:
    """P-VALID-1, P-VALID-2."""
    with (
        stand(shop()) as (publisher, (hub,)),
        Subscriber(hub.address, timeout_s=20, levels="full") as catalog,
    ):
        for number in range(9):
            publisher.commit(lambda c, n=number: c.put_table("shop", "items", columns=(f"c{n}",)))
        catalog.sync()
        catalog.join(publisher.catalog.topic(*ITEMS), level=level)
        old = catalog.table("shop.items").version
        assert catalog.validate([("shop.items", old)]) == {}
        with catalog.read_view("shop.items", "shop.sales") as snapshot:
            snapshot.confirm()
        publisher.commit(lose_the_store)
        until(lambda: len(catalog.table("shop.items").columns) == 2, what="the new epoch")
        new = catalog.table("shop.items").version
        assert new < old < publisher.catalog.topics[publisher.catalog.topic(*ITEMS)].version
        stale = catalog.validate([("shop.items", old)])
        assert stale == {"shop.items": new}
        assert stale["shop.items"].epoch == new.epoch == old.epoch + 1
        assert catalog.validate(stale.items()) == {}
        assert catalog.validate([("shop.items", int(new))]) == {"shop.items": new}
        with pytest.raises(StaleMetadata):
            snapshot.confirm()
