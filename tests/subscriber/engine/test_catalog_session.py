"""Pulls, their fence, and syncs: no answer goes back behind another one."""

from dataclasses import replace

import pytest

from topicast.subscriber.protocol.channels import Channel
from topicast.subscriber.store.table_snapshot import TableSnapshot
from topicast.tests.subscriber.world import columns_of, started
from topicast.topics.errors import LinkError, NoSuchObject, NotReady
from topicast.topics.sharding import NAMESPACE
from topicast.topics.wire.messages import (
    Cancel,
    Chunk,
    Credit,
    Delta,
    Pull,
    Pulled,
    Refused,
    Sync,
    Synced,
)


def test_one_pull_serves_all_who_ask_at_once() -> None:
    world = started()
    world.without("orders")
    world.held_back = lambda channel, message: isinstance(message, Pulled)
    numbers = [world.table("shop.orders") for _ in range(5)]
    world.release()
    assert all(columns_of(world.answers[n], "orders") == ("id",) for n in numbers)
    assert len(world.said(Pull)) == 1
    assert world.stats().misses == 5


def test_pulled_table_brings_all_its_blocks_if_they_are_asked_for() -> None:
    world = started()
    world.without("sales")
    whole, part = world.table("shop.sales", whole=True), world.table("shop.sales")
    world.run()
    for number, rows in ((whole, 5), (part, 1)):
        content = world.answers[number]
        assert isinstance(content, TableSnapshot)
        assert len(content) == rows


def test_pull_of_a_table_that_is_gone_says_so() -> None:
    world = started()
    world.held_back = lambda channel, message: isinstance(message, Delta)
    topic = world.without("orders")
    world.publish(*world.catalog.drop_table("shop", "orders"))
    error = world.errors[world.table("shop.orders")]
    assert isinstance(error, NoSuchObject)
    assert topic is not None


def test_after_a_pull_memory_waits_until_it_is_as_new() -> None:
    """P-PULL-6: rule: memory answers only at or above what a pull answered."""
    world = started()
    catalog = world.catalog
    topic = world.without("orders")
    catalog.put_table("shop", "orders", columns=("id", "two"))
    late = catalog.topics[topic]
    number = world.table("shop.orders")
    assert columns_of(world.answers[number], "orders") == ("id", "two")
    # A hub that lags brings the topic back one version behind.
    world.held_back = lambda channel, message: isinstance(message, Chunk)
    world.ask("join", topics=(topic,))
    world.run()
    _, chunk = world.kept.pop(0)
    assert isinstance(chunk, Chunk)
    entries = chunk.entries[:-1]
    place = (entries[-1].version, entries[-1].key) if entries else (0, b"")
    behind = replace(
        chunk,
        to_version=late.version - 1,
        entries=entries,
        resume_version=place[0],
        resume_key=place[1],
    )
    world.kept.clear()
    world.hear(Channel.BULK, behind)
    assert world.columns("orders") is None
    world.release()
    world.pass_time(3)
    assert world.columns("orders") == ("id", "two")


def test_pull_that_is_older_than_what_memory_showed_is_made_again() -> None:
    """Rule: load fence in the reader; the lower bound is kept at a drop."""
    world = started()
    catalog = world.catalog
    topic = catalog.topic("shop", "orders")
    world.publish(catalog.put_table("shop", "orders", columns=("id", "shown")))
    assert world.columns("orders") == ("id", "shown")
    stale = catalog.topics[topic].version - 1
    world.without("orders")
    world.deaf.add(Channel.PULLS)
    number = world.table("shop.orders")
    pull = world.last_pull()
    world.hear(Channel.PULLS, replace(world.pulled(pull), topic_version=stale))
    assert number not in world.answers
    assert world.stats().stale_replies == 1
    world.deaf.clear()
    world.pass_time(0.1)
    assert columns_of(world.answers[number], "orders") == ("id", "shown")


def test_pull_that_is_older_than_another_pull_is_made_again() -> None:
    world = started()
    catalog = world.catalog
    topic = world.without("sales")
    catalog.put_table("shop", "sales", keys=("ds",), columns=("id", "two"))
    assert world.table("shop.sales") in world.answers
    world.deaf.add(Channel.PULLS)
    number = world.table("shop.sales", whole=True)
    pull = world.last_pull()
    old = catalog.topics[topic].version - 1
    world.hear(Channel.PULLS, replace(world.pulled(pull), topic_version=old))
    assert number not in world.answers


def test_namespace_behind_a_pulls_namespace_does_not_answer() -> None:
    """P-PULL-5: rule: a pull's reply carries the namespace version; who is behind waits."""
    world = started()
    catalog = world.catalog
    world.without("orders")
    world.held_back = lambda channel, message: isinstance(message, Delta)
    world.publish(*catalog.drop_table("shop", "orders"))
    assert isinstance(world.errors[world.table("shop.orders")], NoSuchObject)
    assert world.view.tables("shop") is None  # it would still name the table
    waiting = world.ask("namespace")
    assert waiting not in world.answers
    world.release()
    assert waiting in world.answers
    assert "orders" not in (world.view.tables("shop") or ())


def test_pull_that_is_older_than_the_namespace_shown_is_made_again() -> None:
    world = started()
    catalog = world.catalog
    world.without("orders")
    world.deaf.add(Channel.PULLS)
    number = world.table("shop.orders")
    pull = world.last_pull()
    old = replace(world.pulled(pull), namespace_version=catalog.topics[NAMESPACE].version - 1)
    world.hear(Channel.PULLS, old)
    assert (number in world.answers, world.stats().stale_replies) == (False, 1)


@pytest.mark.parametrize("lie", [{"found": False, "incarnation": 0}, {"incarnation": 999}])
def test_pull_that_contradicts_an_equal_namespace_is_made_again(lie: dict[str, int]) -> None:
    world = started()
    world.without("orders")
    world.deaf.add(Channel.PULLS)
    number = world.table("shop.orders")
    pull = world.last_pull()
    world.hear(Channel.PULLS, replace(world.pulled(pull), **lie))  # type: ignore[arg-type]  # fields
    assert (number in world.answers, number in world.errors) == (False, False)
    assert world.stats().stale_replies == 1


def test_parts_of_two_versions_are_never_combined() -> None:
    """P-PULL-6."""
    world = started()
    catalog = world.catalog
    topic = world.without("sales")
    world.deaf.add(Channel.PULLS)
    number = world.table("shop.sales", whole=True)
    pull = world.last_pull()
    whole = world.pulled(pull)
    first = replace(whole, last=False, entries=whole.entries[:2])
    second = replace(whole, sequence=1, entries=whole.entries[2:])
    world.hear(Channel.PULLS, first)
    assert isinstance(world.said(Credit)[-1], Credit)
    world.hear(Channel.PULLS, replace(second, topic_version=catalog.topics[topic].version + 1))
    assert number not in world.answers
    world.pass_time(0.1)
    again = world.last_pull()
    assert again.request != pull.request
    world.hear(Channel.PULLS, replace(first, request=again.request))
    world.hear(Channel.PULLS, replace(second, request=again.request, last=False))
    assert number not in world.answers
    last = replace(second, request=again.request, sequence=2, entries=())
    world.hear(Channel.PULLS, last)
    content = world.answers[number]
    assert isinstance(content, TableSnapshot)
    assert len(content) == 5


def test_reply_of_a_start_that_is_not_accepted_is_not_shown() -> None:
    world = started()
    world.without("orders")
    world.deaf.add(Channel.SERVICE)
    world.catalog.start = 2
    number = world.table("shop.orders")
    assert number not in world.answers
    world.deaf.clear()
    world.pass_time(1)
    assert number in world.answers


def test_pull_without_answer_is_repeated_and_given_up_in_time() -> None:
    world = started()
    world.without("orders")
    world.deaf.add(Channel.PULLS)
    number = world.table("shop.orders")
    world.pass_time(11)
    assert isinstance(world.errors[number], NotReady)
    assert "shop.orders" in str(world.errors[number])
    assert 4 <= len(world.said(Pull)) <= 6
    assert isinstance(world.said(Cancel)[-1], Cancel)


def test_refused_pull_is_made_again_or_fails_as_catalogd_says() -> None:
    world = started()
    world.without("orders")
    world.deaf.add(Channel.PULLS)
    number = world.table("shop.orders")
    pull = world.last_pull()
    busy = Refused(request=pull.request, code="BUSY", message="later", retry_ms=200)
    world.hear(Channel.PULLS, replace(busy, request=999))
    world.hear(Channel.PULLS, busy)
    world.pass_time(0.3)
    assert len(world.said(Pull)) == 2
    world.hear(Channel.PULLS, replace(busy, code="BROKEN", retry_ms=0))
    assert isinstance(world.errors[number], LinkError)
    assert "BROKEN" in str(world.errors[number])


def test_ask_that_memory_can_answer_by_now_is_not_pulled() -> None:
    world = started()
    assert isinstance(world.answers[world.table("shop.orders")], TableSnapshot)
    assert isinstance(world.errors[world.table("shop.nothing")], NoSuchObject)
    assert world.said(Pull) == []


def test_pulled_data_is_not_kept() -> None:
    world = started()
    world.without("orders")
    held = world.stats().held_bytes
    world.table("shop.orders")
    world.table("shop.orders")
    assert (world.stats().held_bytes, len(world.said(Pull))) == (held, 2)


def test_sync_returns_when_everything_joined_has_reached_it() -> None:
    """P-SYNC-2."""
    world = started()
    catalog = world.catalog
    world.held_back = lambda channel, message: isinstance(message, Delta)
    world.publish(catalog.put_table("shop", "orders", columns=("id", "new")))
    number = world.ask("sync")
    world.run()
    assert number not in world.answers
    assert world.columns("orders") is None  # older than the sync: not from memory
    world.release()
    assert number in world.answers
    assert world.columns("orders") == ("id", "new")


def test_pull_that_began_before_a_sync_is_not_shown_after_it() -> None:
    world = started()
    catalog = world.catalog
    world.without("orders")
    world.held_back = lambda channel, message: isinstance(message, Pulled)
    number = world.table("shop.orders")
    world.publish(catalog.put_table("shop", "orders", columns=("id", "new")))
    assert world.ask("sync") in world.answers
    world.release()
    assert number not in world.answers
    world.pass_time(0.1)
    assert columns_of(world.answers[number], "orders") == ("id", "new")


def test_sync_without_answer_says_what_is_missing() -> None:
    world = started()
    world.deaf.add(Channel.SERVICE)
    number = world.ask("sync")
    world.pass_time(11)
    assert "catalogd has not answered" in str(world.errors[number])
    assert isinstance(world.said(Sync)[-1], Sync)
    syncs = len(world.said(Sync))
    world.pass_time(10)
    assert len(world.said(Sync)) == syncs  # nobody waits any more


def test_sync_that_a_topic_does_not_reach_says_so() -> None:
    world = started()
    world.deaf.add(Channel.BULK)
    world.catalog.put_table("shop", "orders", columns=("id", "new"))
    number = world.ask("sync")
    world.pass_time(11)
    assert "1 topics have not reached the sync" in str(world.errors[number])


def test_sync_is_asked_again_when_catalogd_is_busy_or_its_start_is_new() -> None:
    world = started()
    world.deaf.add(Channel.SERVICE)
    number = world.ask("sync")
    request = world.said(Sync)[-1]
    assert isinstance(request, Sync)
    refusal = Refused(request=request.request, code="BUSY", message="later", retry_ms=100)
    world.hear(Channel.SERVICE, refusal)
    versions = world.catalog.versions()
    answer = Synced(request=request.request, epoch=10, start=2, event_id=1, versions=versions)
    world.hear(Channel.SERVICE, answer)
    world.hear(Channel.SERVICE, replace(answer, start=1, request=999))
    assert number not in world.answers
    world.deaf.clear()
    world.pass_time(2)
    assert number in world.answers


def test_reply_with_a_part_missing_is_pulled_again() -> None:
    world = started()
    world.without("sales")
    world.deaf.add(Channel.PULLS)
    number = world.table("shop.sales", whole=True)
    whole = world.pulled(world.last_pull())
    world.hear(Channel.PULLS, replace(whole, last=False, entries=whole.entries[:2]))
    world.hear(Channel.PULLS, replace(whole, sequence=2, entries=whole.entries[3:]))
    assert number not in world.answers
    assert world.stats().stale_replies == 1
