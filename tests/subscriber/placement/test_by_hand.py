"""TopicReplicas that are set by hand, of several topics in one request."""

import pytest

from topicast.subscriber.protocol.channels import Channel
from topicast.tests.subscriber.source import Catalog, shop
from topicast.tests.subscriber.world import World, started
from topicast.topics.entries import FULL, MINIMAL, MINIMAL_BYTES
from topicast.topics.errors import OverBudget, UsageError
from topicast.topics.sharding import NAMESPACE
from topicast.topics.wire.messages import Drop, Join, Joined

ALL = tuple(range(256))


def wide() -> World:
    """Return a world of 256 topics that follows the names alone."""
    catalog = Catalog(256)
    catalog.create_database("shop")
    world = World(catalog, automatic=True)
    world.start()
    world.sent.clear()
    return world


def followed(world: World) -> dict[int, str]:
    """Return the topics that are followed, with their levels."""
    return {t: info.level for t, info in world.topics().items() if info.level != "none"}


def test_256_topics_at_minimal_are_one_join() -> None:
    world = wide()
    number = world.ask("join", topics=ALL, level=MINIMAL)
    assert number in world.answers
    (join,) = world.said(Join)
    assert isinstance(join, Join)
    assert [one.topic for one in join.positions] == list(ALL)
    assert followed(world) == dict.fromkeys(ALL, "minimal") | {NAMESPACE: "full"}


def test_256_topics_at_full_are_one_join_and_are_dropped_with_one_drop() -> None:
    world = wide()
    assert world.ask("join", topics=ALL, level=FULL) in world.answers
    assert len(world.said(Join)) == 1
    assert followed(world) == dict.fromkeys((*ALL, NAMESPACE), "full")
    assert world.ask("drop", topics=ALL) in world.answers
    (drop,) = world.said(Drop)
    assert isinstance(drop, Drop)
    assert drop.topics == ALL
    assert followed(world) == {NAMESPACE: "full"}


def test_join_is_answered_once_the_last_topic_is_there() -> None:
    world = started()
    world.ask("drop", topics=(0, 1, 2))
    world.held_back = lambda channel, _message: channel == Channel.BULK
    number = world.ask("join", topics=(0, 1, 2, 3))
    assert number not in world.answers
    world.release()
    assert number in world.answers


def test_topics_that_do_not_fit_together_are_refused_together() -> None:
    world = started(budget_bytes=10_000)
    world.ask("drop", topics=(0, 1, 2, 3))
    world.sizes = dict.fromkeys(range(4), 3_000)
    pulled = world.table("shop.orders")
    assert pulled in world.answers
    before = followed(world)
    error = world.errors[world.ask("join", topics=(0, 1, 2, 3))]
    assert isinstance(error, OverBudget)
    assert error.needed_bytes == 12_000
    assert "topics 0, 1, 2, 3" in str(error)
    assert followed(world) == before
    world.pass_time(1)
    assert followed(world) == before
    assert world.ask("join", topics=(0, 1)) in world.answers


def test_join_that_cannot_fit_gives_up_nothing_that_was_pulled() -> None:
    world = started(budget_bytes=20_000)
    topic = world.catalog.topic("shop", "orders")
    others = tuple({0, 1, 2, 3} - {topic})
    world.ask("drop", topics=others)
    world.ask("join", topics=(topic,), level=MINIMAL)
    world.table("shop.orders")
    world.sizes = dict.fromkeys(others, 10_000)
    error = world.errors[world.ask("join", topics=others)]
    assert isinstance(error, OverBudget)
    assert world.columns("orders") is not None
    assert world.stats().evictions == 0


def test_topics_at_minimal_that_do_not_fit_together_are_refused_together() -> None:
    catalog = shop()
    names = catalog.live_bytes(NAMESPACE)
    world = World(catalog, budget_bytes=names + 3 * MINIMAL_BYTES, automatic=True)
    world.sizes = {NAMESPACE: names}
    world.start()
    error = world.errors[world.ask("join", topics=(0, 1, 2, 3), level=MINIMAL)]
    assert isinstance(error, OverBudget)
    assert followed(world) == {NAMESPACE: "full"}
    assert world.ask("join", topics=(0, 1, 2), level=MINIMAL) in world.answers


def test_topic_that_is_none_is_named_and_changes_nothing() -> None:
    world = started()
    before = followed(world)
    for kind, fields in (("join", {"level": MINIMAL}), ("drop", {})):
        error = world.errors[world.ask(kind, topics=(0, 17, 1), **fields)]
        assert isinstance(error, UsageError)
        assert "17" in str(error)
        error = world.errors[world.ask(kind, topics=(0, NAMESPACE), **fields)]
        assert "namespace" in str(error)
    assert followed(world) == before


def test_level_that_is_not_offered_is_said_with_its_topic() -> None:
    world = wide()
    world.offers = MINIMAL
    error = world.errors[world.ask("join", topics=(3, 4), level=FULL)]
    assert isinstance(error, UsageError)
    assert "topic 3" in str(error)
    assert followed(world) == {NAMESPACE: "full"}


def test_what_was_dropped_meanwhile_does_not_hold_up_the_others() -> None:
    world = wide()
    world.held_back = lambda _channel, message: isinstance(message, Joined)
    world.ask("join", topics=(0, 1, 2))
    world.ask("drop", topics=(1,))
    world.release()
    assert followed(world) == {0: "full", 2: "full", NAMESPACE: "full"}


def test_no_topic_at_all_is_joined_at_once() -> None:
    world = wide()
    assert world.ask("join", topics=()) in world.answers
    assert world.ask("drop", topics=()) in world.answers
    assert world.said(Join) == []


@pytest.mark.parametrize("level", [MINIMAL, FULL])
def test_what_stands_at_its_level_already_is_joined_at_once_and_nothing_is_sent(level: int) -> None:
    world = wide()
    world.ask("join", topics=(0, 1), level=level)
    before, sent = followed(world), len(world.sent)
    assert world.ask("join", topics=(1, 0), level=level) in world.answers
    assert (followed(world), len(world.sent)) == (before, sent)
    for _ in range(2):
        assert world.ask("drop", topics=(0, 1)) in world.answers
    assert followed(world) == {NAMESPACE: "full"}
    assert len(world.said(Drop)) == 1
