"""A shopping application sees what the shop does, through real cores, in virtual time."""

import pytest

from topicast.tests.cluster.shop import NAMES
from topicast.tests.cluster.shopping import Shopping
from topicast.topics.errors import NoSuchObject
from topicast.topics.wire.messages import Pull, Pulled


def test_shop_is_there_and_a_change_arrives() -> None:
    shopping = Shopping()
    assert shopping.call(lambda catalog: catalog.tables("shop")) == NAMES
    assert shopping.columns("shop.orders") == ("id",)
    shopping.shop.reshape("shop.orders", ("id", "more"))
    shopping.settle()
    assert shopping.columns("shop.orders") == ("id", "more")
    assert len(shopping.partitions("shop.sales", "ds < '010'")) == 10
    with pytest.raises(NoSuchObject):
        shopping.table("shop.none")


def test_reply_that_is_held_arrives_later() -> None:
    shopping = Shopping()
    shopping.leave("shop.orders")
    shopping.hold("catalogd", "reader-0", Pulled)
    worker = shopping.begin(lambda catalog: catalog.table("shop.orders"))
    shopping.pass_time(1.0)
    assert worker.alive
    assert len(shopping.messages(Pull)) >= 1
    shopping.release()
    assert not worker.alive
