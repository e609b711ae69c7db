"""A subscriber compares its answers with catalogd: it finds what is wrong, and nothing else."""

from dataclasses import replace

import pytest

from topicast.statestore.status import DIFFERED_SHOWN_S, verdict
from topicast.subscriber.engine.self_audit import WAIT_S
from topicast.tests.cluster.shop import Shop
from topicast.tests.cluster.shopping import Shopping
from topicast.topics.topic import LEVELS, MINIMAL
from topicast.topics.wire.messages.catalog import Pull, Pulled
from topicast.topics.wire.messages.data import Delta, Heartbeat
from topicast.topics.wire.messages.fields import Message

INTERVAL_S = 15.0  # a quarter of the shortest that a driver may have, and longer than WAIT_S
ONE = "shop.people"  # alone in a shop, it is what every audit chooses
SALES = "shop.sales"


def shopping(*names: str, **setup: object) -> Shopping:
    """Return an application at a shop of these tables, which audits itself."""
    shop = Shop([name.partition(".")[2] for name in names or (ONE,)])
    return Shopping(shop, self_audit_s=INTERVAL_S, **setup)


def without_content(delta: Delta) -> Delta:
    return replace(delta, entries=())


def lose_a_change(shop: Shopping, name: str = ONE) -> None:
    """Let the next change of a table reach the hub and the reader without its content."""
    if not shop.reader.member.watched:
        shop.watch()
    shop.alter(Delta, without_content, count=2)
    shop.reshape(name, "id", "added")
    shop.take_changes()


def wait_for_an_audit(shop: Shopping) -> None:
    """Let time pass until the first audit has found what is wrong; it is at a random time."""
    until = shop.cluster.now + 3 * INTERVAL_S
    while not shop.reader.differing:
        assert shop.cluster.now < until, "no audit has found it"
        shop.pass_time(1.0)
    shop.settle()


def test_nothing_differs_while_everything_changes() -> None:
    shop = shopping("shop.items", "shop.orders", SALES)
    shop.watch()
    for number in range(20):
        shop.shop.remark("shop.items", {"n": str(number)})
        shop.shop.change(SALES, {"ds=007": {"n": str(-number)}})
        shop.pass_time(INTERVAL_S / 2 + 1)
    stats = shop.stats()
    assert (stats.answers_differing, shop.reader.differing) == (0, [])
    assert stats.answers_audited >= 5


@pytest.mark.parametrize("level", LEVELS[MINIMAL:])
def test_answer_that_is_wrong_is_named_discarded_and_pulled_again(level: str) -> None:
    shop = shopping()
    shop.join(ONE, level=level)
    assert shop.columns(ONE) == ("id",)
    lose_a_change(shop)
    assert shop.memory(ONE) == ("id",), "that is wrong, and nothing has told it"
    wait_for_an_audit(shop)
    (found,) = shop.reader.differing
    assert found.table == ONE
    assert "is of version" in found.what
    assert shop.memory(ONE) == ("id", "added")
    assert shop.take_changes() == [(ONE, "data", "catch-up")]
    stats = shop.stats()
    assert (stats.answers_differing, stats.answers_audited) == (1, 1)


def test_table_is_followed_after_its_answer_was_wrong() -> None:
    shop = shopping()
    shop.join(ONE)
    lose_a_change(shop)
    shop.pass_time(2 * INTERVAL_S)
    shop.reshape(ONE, "id", "added", "later")
    assert shop.columns(ONE) == ("id", "added", "later")
    shop.pass_time(5 * INTERVAL_S)
    assert shop.stats().answers_differing == 1


def test_partition_that_is_missing_in_memory_is_found() -> None:
    shop = shopping(SALES)
    shop.join(SALES)
    shop.alter(Delta, without_content, count=2)
    shop.shop.add(SALES, {"ds=200": {"n": "x"}})
    shop.settle()
    assert "ds=200" not in (shop.memory_of_partitions(SALES) or ())
    shop.pass_time(2 * INTERVAL_S)
    assert len(shop.reader.differing) == 1
    assert "ds=200" in (shop.memory_of_partitions(SALES) or ())


def test_table_that_memory_has_and_catalogd_has_not_begins_the_subscriber_anew() -> None:
    shop = shopping("shop.items", ONE)
    shop.join("shop.items", ONE)
    began = list[None]()
    shop.reader.began_anew.append(lambda: began.append(None))
    shop.alter(Delta, without_content, count=4)
    shop.shop.drop_table("shop", "people", False)
    shop.settle()
    shop.cluster.taps.clear()
    assert ONE.partition(".")[2] in shop.call(lambda catalog: catalog.tables("shop"))
    for _ in range(10):
        shop.pass_time(INTERVAL_S)
        if began:
            break
    assert len(began) == 1
    assert shop.reader.differing[0].what == "catalogd does not have it"


def pulling(sender: str, receiver: str, held: type[Message]) -> Shopping:
    """Return an application whose first audit has begun, while its pull or the answer is held."""
    shop = shopping()
    shop.join(ONE)
    shop.hold(sender, receiver, held)
    while not shop.pulls():
        shop.pass_time(1.0)
    return shop


def test_what_is_only_newer_at_catalogd_does_not_differ() -> None:
    shop = pulling("reader-0", "catalogd", Pull)
    shop.lose("hub-0", "reader-0", Delta, Heartbeat)
    shop.reshape(ONE, "id", "added")
    shop.release()
    shop.pass_time(0.5)
    assert shop.memory(ONE) == ("id",)
    shop.mend()
    shop.pass_time(WAIT_S)
    assert (shop.reader.differing, shop.stats().answers_audited) == ([], 1)
    assert shop.columns(ONE) == ("id", "added")


def test_reply_that_is_older_than_memory_says_nothing() -> None:
    shop = pulling("catalogd", "reader-0", Pulled)
    shop.pass_time(0.5)
    shop.reshape(ONE, "id", "added")
    shop.release()
    shop.pass_time(WAIT_S)
    assert (shop.reader.differing, shop.stats().answers_audited) == ([], 0)


def test_audit_is_one_pull_an_interval_and_none_unless_it_is_on() -> None:
    shop, without = shopping(SALES), Shopping(Shop(["sales"]))
    for one in (shop, without):
        one.join(SALES)
        one.pass_time(2 * INTERVAL_S)  # the first audit is at a random time
        before = len(one.messages(Pull))
        one.pass_time(4 * INTERVAL_S)
        assert len(one.messages(Pull)) - before == (4 if one is shop else 0)
    assert without.stats().answers_audited == 0


def test_hub_counts_what_its_subscribers_have_found() -> None:
    shop = shopping()
    shop.join(ONE)
    lose_a_change(shop)
    shop.pass_time(3 * INTERVAL_S)
    hub = shop.cluster.hubs[0].hub
    status = hub.status(now=shop.cluster.now)
    assert (status.answers_differing, status.answers_audited) == (1, shop.stats().answers_audited)
    assert "answers_differ" in [one.code for one in verdict(status).reasons]
    later = hub.status(now=shop.cluster.now + DIFFERED_SHOWN_S)
    assert "answers_differ" not in [one.code for one in verdict(later).reasons]
