"""Hubs that are silent, seeding, restarted; messages that are lost."""

from dataclasses import replace

import pytest

from topicast.subscriber.protocol.channels import Channel
from topicast.tests.subscriber.source import (
    shop,
)
from topicast.tests.subscriber.world import (
    World,
    started,
)
from topicast.topics.entries import FULL
from topicast.topics.errors import NotReady
from topicast.topics.wire.messages import (
    Barrier,
    CatchUp,
    Chunk,
    Hello,
    Join,
    Joined,
    Refused,
    Status,
)


def test_lost_delta_is_noticed_from_the_next_one_and_repaired() -> None:
    world = started()
    catalog = world.catalog
    topic = catalog.topic("shop", "orders")
    catalog.put_table("shop", "orders", columns=("id", "lost"))
    world.held_back = lambda channel, message: isinstance(message, Chunk)
    world.publish(catalog.put_table("shop", "orders", columns=("id", "lost", "heard")))
    assert world.columns("orders") is None  # behind: memory does not answer
    assert world.view.table("shop", "orders") is None
    world.release()
    assert world.columns("orders") == ("id", "lost", "heard")
    assert world.topics()[topic].version == catalog.topics[topic].version


def test_lost_last_delta_is_noticed_from_the_heartbeat() -> None:
    world = started()
    world.catalog.put_table("shop", "orders", columns=("id", "lost"))
    assert world.columns("orders") == ("id",)
    world.pass_time(0.3)
    assert world.columns("orders") == ("id", "lost")


def test_transaction_too_large_for_a_frame_is_caught_up() -> None:
    world = started()
    delta = world.catalog.put_table("shop", "orders", columns=("id", "big"))
    world.publish(replace(delta, stubbed=True, entries=()))
    assert world.columns("orders") == ("id", "big")


def test_delta_of_a_level_that_is_not_followed_changes_nothing() -> None:
    world = started()
    delta = world.catalog.put_table("shop", "orders", columns=("id", "big"))
    world.hear(Channel.DATA, replace(delta, level=1))
    assert world.columns("orders") == ("id",)


def test_silent_hub_is_left_for_the_next_and_nothing_is_sent_again() -> None:
    """P-LIVE-2."""
    world = started(hubs=("hub-0", "hub-1"))
    requests = len(world.said(CatchUp))
    world.dead.add(0)
    world.pass_time(1.0)
    assert world.hub == 1
    world.pass_time(0.3)
    assert len(world.said(CatchUp)) == requests
    assert world.stats().hub == "hub-1"
    world.publish(world.catalog.put_table("shop", "orders", columns=("id", "more")))
    assert world.columns("orders") == ("id", "more")


def test_seeding_hub_is_left_for_another_one() -> None:
    world = started(hubs=("hub-0", "hub-1"))
    world.seeding.add(0)
    world.pass_time(2.5)
    assert world.hub == 1


def test_only_hub_that_was_away_is_greeted_again_and_kept() -> None:
    world = started()
    hellos = len(world.said(Hello))
    world.dead.add(0)
    world.pass_time(6)
    assert 4 <= len(world.said(Hello)) - hellos <= 20
    joins = len(world.said(Join))
    assert world.columns("orders") == ("id",)  # served from memory meanwhile
    world.catalog.put_table("shop", "orders", columns=("id", "missed"))
    world.dead.clear()
    world.hub_id += 1
    world.pass_time(2.5)
    assert world.columns("orders") == ("id", "missed")
    assert world.stats().staleness_s <= 0.3
    world.hear(Channel.CONTROL, world._welcome())  # to a Hello that was said twice
    assert len(world.said(Join)) == joins + 1


def test_restarted_hub_is_told_again_who_follows_what() -> None:
    """P-LIVE-3."""
    world = started()
    joins = len(world.said(Join))
    world.hub_id += 1
    world.pass_time(0.3)
    assert len(world.said(Join)) == joins + 1
    world.publish(world.catalog.put_table("shop", "orders", columns=("id", "more")))
    assert world.columns("orders") == ("id", "more")


@pytest.mark.parametrize("channel", [Channel.CONTROL, Channel.BULK])
def test_hub_that_has_forgotten_us_is_greeted_once(channel: str) -> None:
    """P-LIVE-3: refused with HELLO."""
    world = started()
    hellos = len(world.said(Hello))
    world.deaf.add(Channel.CONTROL)
    stranger = Refused(request=0, code="HELLO", message="who are you", retry_ms=0)
    world.hear(channel, stranger)
    world.hear(channel, stranger)
    assert len(world.said(Hello)) == hellos + 2


def test_hub_that_lets_nobody_in_is_named_with_its_reason() -> None:
    world = World(shop(), dead=(0,))
    world.hear(Channel.CONTROL, Refused(request=0, code="FULL", message="no room", retry_ms=0))
    number = world.ask("ready", give_up_at=world.now + 2)
    world.pass_time(3)
    assert isinstance(world.errors[number], NotReady)
    assert "no room" in str(world.errors[number])
    assert "hub-0" in str(world.errors[number])


def test_hub_without_a_catalogd_is_named_as_such() -> None:
    catalog = shop()
    world = World(catalog)
    world.seeding.add(0)
    number = world.ask("ready", give_up_at=world.now + 2)
    world.pass_time(3)
    assert "nothing from a catalogd" in str(world.errors[number])
    world.seeding.clear()
    world.start()


def test_topics_that_are_not_ready_are_named() -> None:
    world = World(shop())
    world.held_back = lambda channel, message: isinstance(message, Chunk)
    world.pass_time(0.3)
    number = world.ask("ready", give_up_at=world.now + 1)
    world.pass_time(2)
    assert "5 topics are being caught up from hub-0: namespace" in str(world.errors[number])


def test_lost_chunks_are_asked_for_again() -> None:
    world = World(shop())
    world.held_back = lambda channel, message: isinstance(message, Chunk)
    world.pass_time(1)
    world.kept.clear()
    world.held_back = lambda channel, message: False
    world.pass_time(3)
    assert world.ask("ready") in world.answers


def test_lost_join_and_lost_barrier_are_asked_for_again() -> None:
    """P-SUB-3: no catch-up before the barrier."""
    world = World(shop())
    world.held_back = lambda channel, message: type(message).__name__ in ("Joined", "Barrier")
    world.pass_time(1)
    world.kept.clear()
    world.held_back = lambda channel, message: type(message).__name__ == "Barrier"
    world.pass_time(1.5)
    assert world.said(CatchUp) == []
    world.kept.clear()
    world.held_back = lambda channel, message: False
    world.pass_time(2.5)
    assert world.ask("ready") in world.answers


@pytest.mark.parametrize("chunks_held", [False, True])
def test_nothing_is_requested_of_another_hub_before_its_barrier(chunks_held: bool) -> None:
    """P-SUB-3: neither for its heartbeat, nor for what was under way at the hub before."""
    world = started(hubs=("hub-0", "hub-1"))
    world.held_back = lambda _channel, message: (
        isinstance(message, Barrier) or (chunks_held and isinstance(message, Chunk))
    )
    if chunks_held:
        world.catalog.put_table("shop", "orders", columns=("id", "lost"))
        world.pass_time(0.3)  # the heartbeat orders a catch-up, of which nothing comes
    requests = len(world.said(CatchUp))
    world.dead.add(0)
    world.catalog.put_table("shop", "people", columns=("id", "lost"))
    while world.hub == 0:
        world.pass_time(0.1)
    world.pass_time(0.8)
    assert world.stats().hub == "hub-1"
    assert len(world.said(CatchUp)) == requests
    assert any(isinstance(message, Barrier) for _, message in world.kept)
    world.kept = [(one, message) for one, message in world.kept if isinstance(message, Barrier)]
    world.release()
    world.pass_time(0.3)
    assert len(world.said(CatchUp)) > requests
    assert world.columns("people") == ("id", "lost")


def test_refused_catch_up_is_asked_for_again() -> None:
    world = started()
    world.deaf.add(Channel.BULK)
    world.catalog.put_table("shop", "orders", columns=("id", "lost"))
    world.pass_time(0.3)
    request = world.said(CatchUp)[-1]
    assert isinstance(request, CatchUp)
    world.deaf.clear()
    busy = Refused(request=request.stream, code="BUSY", message="later", retry_ms=300)
    world.hear(Channel.BULK, busy)
    assert world.columns("orders") is None
    world.hear(Channel.BULK, replace(busy, request=999))
    world.pass_time(0.6)
    assert world.columns("orders") == ("id", "lost")


def test_status_is_said_once_a_second_while_there_is_a_hub() -> None:
    world = started()
    said = len(world.said(Status))
    world.pass_time(3)
    assert len(world.said(Status)) == said + 3
    status = world.said(Status)[-1]
    assert isinstance(status, Status)
    assert status.held_bytes == world.stats().held_bytes
    assert {one.topic for one in status.positions} == set(world.catalog.topics)
    world.dead.add(0)
    world.pass_time(1.5)
    said = len(world.said(Status))
    world.pass_time(3)
    assert len(world.said(Status)) == said


def test_one_topic_that_is_refused_does_not_stop_the_others_of_its_stream() -> None:
    world = World(shop())
    world.held_back = lambda channel, message: isinstance(message, Chunk)
    world.pass_time(0.3)
    request = world.said(CatchUp)[0]
    assert isinstance(request, CatchUp)
    late = request.wanted[-1].topic
    refusal = Refused(
        request=request.stream, code="RETRY", message="wait", retry_ms=100, topic=late
    )
    world.kept = [
        (channel, message)
        for channel, message in world.kept
        if isinstance(message, Chunk) and message.topic != late
    ]
    world.held_back = lambda channel, message: False
    world.hear(Channel.BULK, refusal)
    world.release()
    replicas = world.member._subscriptions.replicas
    assert list(replicas.behind) == [(late, FULL)]
    world.pass_time(0.3)
    assert list(replicas.behind) == []


def test_heartbeat_that_is_older_than_a_catch_up_asks_for_nothing() -> None:
    world = started()
    heartbeat = world._heartbeat()
    world.held_back = lambda channel, message: isinstance(message, Chunk)
    world.catalog.put_table("shop", "orders", columns=("id", "lost"))
    world.pass_time(0.3)
    requests = len(world.said(CatchUp))
    world.hear(Channel.DATA, heartbeat)
    assert len(world.said(CatchUp)) == requests


def test_hub_is_left_in_the_middle_of_a_catch_up() -> None:
    world = started(hubs=("hub-0", "hub-1"))
    world.held_back = lambda channel, message: isinstance(message, Chunk)
    world.catalog.put_table("shop", "orders", columns=("id", "lost"))
    world.pass_time(0.3)
    world.dead.add(0)
    world.kept.clear()
    world.held_back = lambda channel, message: False
    world.pass_time(2)
    assert world.hub == 1
    assert world.columns("orders") == ("id", "lost")


def test_late_barrier_fences_nothing() -> None:
    world = World(shop())
    world.held_back = lambda channel, message: type(message).__name__ == "Barrier"
    world.pass_time(0.3)
    world.held_back = lambda channel, message: False
    world.hear(Channel.DATA, Barrier(nonce=b"x" * 16))
    assert world.said(CatchUp) == []


def test_joined_that_answers_nothing_of_ours_decides_nothing() -> None:
    world = World(shop())
    world.held_back = lambda channel, message: isinstance(message, Joined)
    world.pass_time(0.3)
    world.held_back = lambda channel, message: False
    world.hear(Channel.CONTROL, Joined(request=999, epoch=10, start=1, topics=()))
    assert world.ask("ready") not in world.answers
    world.kept.clear()
    world.pass_time(1.5)
    assert world.columns("orders") == ("id",)
