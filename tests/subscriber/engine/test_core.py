"""A member in a world of real topics, virtual time and messages that may be lost."""

from dataclasses import replace
from functools import partial

import pytest

from topicast.subscriber.fetch.fetcher import TableRequest
from topicast.subscriber.protocol import effects, facts
from topicast.subscriber.protocol.channels import Channel
from topicast.subscriber.protocol.pending import Command
from topicast.tests.subscriber.source import shop
from topicast.tests.subscriber.walk import Walk
from topicast.tests.subscriber.world import World, started
from topicast.topics.errors import NotReady, UsageError
from topicast.topics.objects.selector import TABLE_ONLY
from topicast.topics.wire.messages import (
    Bye,
    Dropped,
    Heartbeat,
    Join,
    Refused,
)


def test_age_grows_while_catalogd_is_silent_and_bounds_what_memory_answers() -> None:
    world = started(max_staleness_s=5)
    assert world.view.fresh_until > world.now + 4
    world.age_ms = 2000
    world.pass_time(0.3)
    assert 2.0 <= world.stats().staleness_s <= 2.3
    assert world.view.fresh_until < world.now + 3.1
    world.dead.add(0)
    world.pass_time(4)
    assert 6.0 <= world.stats().staleness_s <= 6.4
    assert world.view.fresh_until < world.now


def test_age_is_infinite_before_catalogd_was_heard_of() -> None:
    world = World(shop())
    stats = world.stats()
    assert (stats.staleness_s, stats.ready, stats.hub) == (float("inf"), False, "hub-0")


def test_garbled_frames_are_counted_and_strange_messages_ignored() -> None:
    world = started()
    world.handle(facts.Undecodable())
    world.hear(Channel.CONTROL, Dropped(request=1))
    world.hear(Channel.DATA, Dropped(request=1))
    world.hear(Channel.CONTROL, Refused(request=1, code="TOPIC", message="x", retry_ms=0))
    assert world.stats().wire_errors == 1


def test_changes_that_came_at_once_are_told_at_once_and_before_an_answer() -> None:
    world = started()
    world.handle(facts.Watching(on=True))
    news = [world.catalog.put_table("shop", name, columns=("new",)) for name in ("orders", "sales")]
    heard = [facts.Received(Channel.DATA, delta) for delta in news]
    request = TableRequest("shop", "sales", TABLE_ONLY)
    read = Command(partial(world.member.read, request), deadline=world.now + 1)
    told, answer = world.member.handle_all([read, *heard], now=world.now)
    assert isinstance(told, effects.Notify)
    assert [change.object for change in told.changes] == ["shop.orders", "shop.sales"]
    assert answer == effects.Complete(read)
    assert all(
        not isinstance(one, effects.Notify)
        for one in world.member.handle(facts.Tick(), now=world.now)
    )


def test_leaving_says_goodbye() -> None:
    world = started()
    world.handle(facts.Leave())
    assert isinstance(world.said(Bye)[-1], Bye)


def test_asks_before_anything_is_there_wait_and_are_served() -> None:
    world = World(shop())
    number, names = world.table("shop.orders"), world.ask("namespace")
    joined = world.ask("join", topics=(1,))
    assert isinstance(world.errors[joined], UsageError)  # how many there are is not known yet
    world.pass_time(1)
    assert number in world.answers
    assert names in world.answers


def test_pull_before_the_catalog_address_is_known_says_so_when_it_gives_up() -> None:
    world = World(shop(), catalog_address="")
    number = world.ask(
        "read", db="shop", table="orders", selector=TABLE_ONLY, give_up_at=world.now + 0.2
    )
    sync = world.ask("sync", give_up_at=world.now + 0.2)
    world.pass_time(0.5)
    assert "address is not known" in str(world.errors[number])
    assert isinstance(world.errors[sync], NotReady)


def test_heartbeat_without_its_start_is_of_no_use() -> None:
    world = World(shop())
    world.pass_time(0.1)
    heartbeat = world._heartbeat()
    assert isinstance(heartbeat, Heartbeat)
    world.hear(Channel.DATA, replace(heartbeat, start=0))
    assert world.said(Join) == []


def test_level_and_bytes_of_each_topic_are_told() -> None:
    world = started()
    for topic, info in world.topics().items():
        version = world.catalog.topics[topic].version
        assert (info.version, info.bytes) == (version, world.catalog.live_bytes(topic))


@pytest.mark.parametrize("seed", range(100))
def test_nothing_seen_goes_back_and_all_converges(seed: int) -> None:
    Walk(seed).run(80)
