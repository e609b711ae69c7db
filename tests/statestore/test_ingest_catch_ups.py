"""What a hub asks its publisher for: streams, their credit, and who refuses them."""

from dataclasses import replace

import pytest

from topicast.statestore.ingest import Ingest
from topicast.tests.statestore.scripted import (
    BULK,
    CONTROL,
    ScriptedPublisher,
    Stage,
    connect,
    seeded,
    value,
)
from topicast.topics.entries import MINIMAL, tombstone
from topicast.topics.follower import SILENCE_S
from topicast.topics.wire.messages import (
    Cancel,
    CatchUp,
    Chunk,
    Credit,
    Refused,
)

KEY = b"db\0table\0"


def _ingest(stage: Stage) -> Ingest:
    return stage.hub.ingest


def _codes(said: list) -> list[str]:
    return [message.code for message in said if isinstance(message, Refused)]


def test_waiting_topics_are_not_asked_for_again_while_their_stream_flows() -> None:
    stage, publisher = Stage(), ScriptedPublisher()
    for version in range(1, 40):
        publisher.commit(0, value(b"db\0t%02d\0" % version, version, b"x" * 60_000))
    connect(stage, publisher)
    parts = publisher.hear(stage.tick())
    slow = stage.pass_time(SILENCE_S - 0.5)
    assert [one for one in slow if isinstance(one, CatchUp)] == []
    while parts:
        said = [one for part in parts for one in stage.say(BULK, part)]
        said += stage.pass_time(1.0)
        assert [one for one in said if isinstance(one, CatchUp)] == []
        parts = publisher.hear(said)
    assert not _ingest(stage).seeding


def test_silent_stream_is_asked_for_again_and_its_rest_is_cancelled() -> None:
    stage, publisher = Stage(), ScriptedPublisher()
    publisher.change(0)
    connect(stage, publisher)
    late = publisher.hear(stage.tick())
    asked = [one for one in stage.pass_time(SILENCE_S + 0.1) if isinstance(one, CatchUp)]
    assert [one.stream for one in asked] == [2]
    assert stage.say(BULK, late[0]) == [Cancel(stream=1)]
    for part in publisher.hear(asked):
        stage.say(BULK, part)
    assert not _ingest(stage).seeding


def test_each_chunk_gives_back_its_credit() -> None:
    stage, publisher = Stage(), ScriptedPublisher()
    publisher.change(0)
    connect(stage, publisher)
    for part in publisher.hear(stage.tick()):
        said = stage.say(BULK, part)
        assert [type(message) for message in said] == [Credit]


@pytest.mark.parametrize(
    "broken",
    [
        {"level": MINIMAL, "entries": ()},
        {"invalidate_all": True, "entries": ()},
        {"floor": 9},
        {"resume_version": 0},
    ],
    ids=str,
)
def test_chunk_that_breaks_a_rule_is_refused_and_asked_for_later(broken: dict) -> None:
    stage, publisher = Stage(), ScriptedPublisher()
    publisher.change(0)
    connect(stage, publisher)
    first = publisher.hear(stage.tick())[0]
    assert isinstance(first, Chunk)
    said = stage.say(BULK, replace(first, **broken))
    assert _codes(said) == ["CHUNK"]
    assert len(_ingest(stage).slots[0].topic) == 0
    again = [one for one in stage.pass_time(1.2) if isinstance(one, CatchUp)]
    assert [one.topic for one in again[0].wanted] == [0]


@pytest.mark.parametrize("floor", [2, 3])
def test_floor_of_a_catch_up_holds_from_its_last_chunk_on(floor: int) -> None:
    """P-FLOOR-4: no heartbeat, no earlier chunk, and no delta that waits raises it before."""
    stage, publisher = seeded()
    topic = _ingest(stage).slots[1].topic
    stage.put(BULK, publisher.change(1))
    stage.put(BULK, publisher.commit(1, tombstone(KEY, 2)))
    for version in range(3, 10):
        publisher.commit(1, value(b"db\0t%02d\0" % version, version, b"x" * 60_000))
    publisher.topics[1].raise_floor(2)
    stage.put(BULK, publisher.change(1))
    assert topic.floor == 0
    *parts, last = publisher.hear(stage.tick())
    assert parts
    if floor > 2:
        publisher.topics[1].raise_floor(floor)
        stage.put(BULK, publisher.change(1))
    for part in parts:
        assert isinstance(part, Chunk)
        assert part.floor == 2
        stage.say(BULK, part)
    stage.say(CONTROL, publisher.heartbeat())
    assert topic.floor == 0
    stage.say(BULK, last)
    assert topic.floor == floor


def test_chunk_of_another_start_or_topic_is_refused() -> None:
    stage, publisher = Stage(), ScriptedPublisher()
    connect(stage, publisher)
    first = publisher.hear(stage.tick())[0]
    assert isinstance(first, Chunk)
    assert _codes(stage.say(BULK, replace(first, start=6))) == ["START"]
    assert _codes(stage.say(BULK, replace(first, topic=99))) == ["TOPIC"]
    assert _ingest(stage).seeding


def test_stream_refused_as_a_whole_is_asked_for_again_when_it_was_told_to() -> None:
    stage, publisher = Stage(), ScriptedPublisher()
    connect(stage, publisher)
    (asked,) = (one for one in stage.tick() if isinstance(one, CatchUp))
    busy = Refused(request=asked.stream, code="BUSY", message="later", retry_ms=400)
    stage.say(BULK, busy)
    assert stage.pass_time(0.35) == []
    again = [one for one in stage.pass_time(0.15) if isinstance(one, CatchUp)]
    assert [len(one.wanted) for one in again] == [5]


def test_topic_refused_in_a_stream_is_asked_for_again_by_itself() -> None:
    stage, publisher = Stage(), ScriptedPublisher()
    connect(stage, publisher)
    (asked,) = (one for one in stage.tick() if isinstance(one, CatchUp))
    lag = Refused(request=asked.stream, code="LAGGING", message="later", retry_ms=400, topic=2)
    stage.say(BULK, lag)
    again = [one for one in stage.pass_time(0.5) if isinstance(one, CatchUp)]
    assert [[wanted.topic for wanted in one.wanted] for one in again] == [[2]]


def test_refusal_of_nothing_that_was_asked_changes_nothing() -> None:
    stage, _ = seeded()
    refusal = Refused(request=99, code="BUSY", message="?", retry_ms=0)
    assert stage.say(BULK, refusal) == []
    assert not _ingest(stage).seeding
