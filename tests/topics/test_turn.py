"""The trace of a core: short whatever came, and by topic."""

import pytest

from topicast.topics.topic import FULL
from topicast.topics.turn import SHOWN_MAX, STEPS_MAX, TOPICS_MAX, Trace, Turn
from topicast.topics.wire.messages.connection import KeepAlive, Refused
from topicast.topics.wire.messages.publishers import Filed
from topicast.topics.wire.messages.readers import (
    CatchUp,
    Credit,
    Drop,
    Join,
    Position,
    ReaderStatus,
    Wanted,
)


def noted(*messages: object) -> Trace:
    trace = Trace()
    for at, message in enumerate(messages):
        trace.note(float(at), "in", message)
    return trace


def drop(*topics: int) -> Drop:
    return Drop(request=1, topics=topics)


def test_trace_is_bounded_in_steps_and_in_what_one_record_shows() -> None:
    trace = noted(*(drop(number) for number in range(2 * STEPS_MAX)))
    assert len(trace.story()) == STEPS_MAX
    assert trace.story()[-1] == f"{2 * STEPS_MAX - 1:.3f} in Drop topic={2 * STEPS_MAX - 1}"
    assert trace.text().count(";") == SHOWN_MAX - 1
    assert trace.text().endswith(trace.story()[-1])


def position(topic: int) -> Position:
    return Position(topic=topic, level=FULL, epoch=1, version=1)


@pytest.mark.parametrize(
    "message",
    [
        drop(1, 2),
        Join(request=1, positions=(position(1), position(2))),
        ReaderStatus(positions=(position(1), position(2)), lag_us=0, held_bytes=0, budget_bytes=0),
        CatchUp(
            stream=1,
            credit=1,
            wanted=tuple(
                Wanted(
                    topic=topic,
                    level=FULL,
                    epoch=0,
                    version=0,
                    resume_version=0,
                    resume_key=b"",
                    cut=0,
                )
                for topic in (1, 2)
            ),
        ),
    ],
    ids=lambda message: type(message).__name__,
)
def test_story_of_a_topic_has_the_messages_that_name_it(message: object) -> None:
    trace = noted(message)
    assert trace.story(1) == trace.story(2) == trace.story()
    assert trace.story(3) == ()
    assert "topic=1,2" in trace.story()[0]


@pytest.mark.parametrize(
    "message",
    [
        drop(*range(TOPICS_MAX + 1)),
        Refused(request=1, code="BUSY", message="later", retry_ms=0),
        Credit(stream=1, amount=1),
    ],
    ids=["many topics", "none", "a stream"],
)
def test_what_names_no_topic_or_too_many_is_in_every_story(message: object) -> None:
    assert len(noted(message).story(500)) == 1


def test_what_a_hub_has_stored_is_in_the_story_of_each_topic() -> None:
    trace = noted(Filed(epoch=1, start=1, versions=((3, 10), (5, 11))))
    assert len(trace.story(3)) == len(trace.story(5)) == 1
    assert trace.story(4) == ()


def test_refusal_of_one_topic_is_in_its_story_alone() -> None:
    trace = noted(Refused(request=1, code="BUSY", message="later", retry_ms=0, topic=0))
    assert len(trace.story(0)) == 1
    assert trace.story(1) == ()


def test_what_comes_all_the_time_is_left_out() -> None:
    assert noted(KeepAlive()).story() == ()


def test_effects_are_taken_once_in_their_order_and_noted() -> None:
    turn = Turn[str]()
    turn.now = 5.0
    turn.add("one")
    turn.add("two")
    assert turn.end() == ("one", "two")
    assert turn.end() == ()
    assert turn.trace.story() == ("5.000 out str", "5.000 out str")


def test_effects_of_a_turn_that_failed_are_dropped() -> None:
    turn = Turn[str]()
    turn.add("one")
    turn.discard()
    turn.add("two")
    assert turn.end() == ("two",)
