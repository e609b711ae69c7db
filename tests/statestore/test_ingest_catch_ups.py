"""The catch-ups that a hub requests of its publisher: streams, their credit, and refusals."""

from dataclasses import replace

import pytest

from topicast.tests.statestore.hub_driver import (
    BULK,
    CONTROL,
    KEY,
    HubDriver,
    PublisherPeer,
    catch_ups,
    codes,
    large,
    seeded,
)
from topicast.topics.follower import SILENCE_S
from topicast.topics.topic import tombstone
from topicast.topics.wire.messages import Cancel, Chunk, Credit, Message, Refused


def unseeded(*changes: int) -> tuple[HubDriver, PublisherPeer, list[Message]]:
    """Return a hub, its publisher with a change of each topic, and the hub's first requests."""
    driver, publisher = HubDriver(), PublisherPeer()
    for topic in changes:
        publisher.change(topic)
    driver.connect(publisher)
    return driver, publisher, driver.tick()


def test_waiting_topics_are_not_requested_again_while_their_stream_flows() -> None:
    driver, publisher = HubDriver(), PublisherPeer()
    for version in range(1, 40):
        publisher.commit(0, large(version))
    driver.connect(publisher)
    parts = publisher.answer(driver.tick())
    assert catch_ups(driver.pass_time(SILENCE_S - 0.5)) == []
    while parts:
        sent = driver.receive(BULK, *parts) + driver.pass_time(1.0)
        assert catch_ups(sent) == []
        parts = publisher.answer(sent)
    assert not driver.hub.ingest.seeding


def test_silent_stream_is_requested_again_and_its_rest_is_cancelled() -> None:
    driver, publisher, requests = unseeded(0)
    late = publisher.answer(requests)
    again = catch_ups(driver.pass_time(SILENCE_S + 0.1))
    assert [one.stream for one in again] == [2]
    assert driver.receive(BULK, late[0]) == [Cancel(stream=1)]
    driver.receive(BULK, *publisher.answer(again))
    assert not driver.hub.ingest.seeding


def test_each_chunk_gives_back_its_credit() -> None:
    driver, publisher, requests = unseeded(0)
    for part in publisher.answer(requests):
        assert [type(message) for message in driver.receive(BULK, part)] == [Credit]


def test_chunk_that_breaks_a_rule_is_refused_and_requested_later() -> None:
    driver, publisher, requests = unseeded(0)
    first = publisher.answer(requests)[0]
    assert isinstance(first, Chunk)
    assert codes(driver.receive(BULK, replace(first, resume_version=0))) == ["CHUNK"]
    assert len(driver.topic(0)) == 0
    again = catch_ups(driver.pass_time(1.2))
    assert [one.topic for one in again[0].wanted] == [0]


@pytest.mark.parametrize("floor", [2, 3])
def test_floor_of_a_catch_up_holds_from_its_last_chunk_on(floor: int) -> None:
    """P-FLOOR-4: no heartbeat, no earlier chunk, and no delta that waits raises it before."""
    driver, publisher = seeded()
    topic = driver.topic(1)
    driver.put(publisher.change(1))
    driver.put(publisher.commit(1, tombstone(KEY, 2)))
    for version in range(3, 10):
        publisher.commit(1, large(version))
    publisher.topics[1].raise_floor(2)
    driver.put(publisher.change(1))
    assert topic.floor == 0
    *parts, last = publisher.answer(driver.tick())
    assert parts
    if floor > 2:
        publisher.topics[1].raise_floor(floor)
        driver.put(publisher.change(1))
    for part in parts:
        assert isinstance(part, Chunk)
        assert part.floor == 2
        driver.receive(BULK, part)
    driver.receive(CONTROL, publisher.heartbeat())
    assert topic.floor == 0
    driver.receive(BULK, last)
    assert topic.floor == floor


def test_chunk_of_another_start_or_topic_is_refused() -> None:
    driver, publisher, requests = unseeded()
    first = publisher.answer(requests)[0]
    assert isinstance(first, Chunk)
    assert codes(driver.receive(BULK, replace(first, start=6))) == ["START"]
    assert codes(driver.receive(BULK, replace(first, topic=99))) == ["TOPIC"]
    assert driver.hub.ingest.seeding


@pytest.mark.parametrize(
    ("topic", "requested"), [(-1, [0, 1, 2, 3, 0xFFFE]), (2, [2])], ids=["stream", "topic"]
)
def test_refused_stream_or_topic_is_requested_again_after_the_time_named(
    topic: int, requested: list[int]
) -> None:
    driver, _, requests = unseeded()
    (request,) = catch_ups(requests)
    refusal = Refused(
        request=request.stream, code="BUSY", message="later", retry_ms=400, topic=topic
    )
    driver.receive(BULK, refusal)
    assert driver.pass_time(0.35) == []
    (again,) = catch_ups(driver.pass_time(0.15))
    assert [wanted.topic for wanted in again.wanted] == requested


def test_refusal_of_no_request_changes_nothing() -> None:
    driver, _ = seeded()
    refusal = Refused(request=99, code="BUSY", message="?", retry_ms=0)
    assert driver.receive(BULK, refusal) == []
    assert not driver.hub.ingest.seeding
