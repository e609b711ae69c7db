"""What pages ask of hubs: sent to each, answered by the first that knows, or by none."""

import pytest

from topicast.catalog.publish.hub_questions import QUESTIONS_MAX, HubQuestions, Known
from topicast.topics.wire.messages.answers import NamedFacts
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.publishers import Have
from topicast.topics.wire.messages.questions import ReadWriter

A, B = "tcp://a:24000", "tcp://b:24000"
WRITER = b"w" * 16


@pytest.fixture
def wakes() -> list[None]:
    return []


@pytest.fixture
def questions(wakes: list[None]) -> HubQuestions:
    return HubQuestions(lambda: wakes.append(None))


def table(request: int) -> NamedFacts:
    return NamedFacts(request=request, rows=(("user", "ann"),))


def refused(request: int) -> Message:
    return Refused(request=request, code="INSPECT", message="no driver", retry_ms=0)


def test_first_hub_that_knows_it_answers(questions: HubQuestions, wakes: list[None]) -> None:
    answer = questions.ask(ReadWriter(writer=WRITER))
    assert len(wakes) == 1
    (sent,) = questions.take((A, B))
    assert sent.writer == WRITER
    assert questions.take((A, B)) == (), "once"
    assert questions.on_message(A, refused(sent.request))
    assert not answer.done()
    assert questions.on_message(B, table(sent.request))
    assert answer.result(0) == Known(B, table(sent.request))
    assert questions.on_message(A, table(sent.request)), "late, and dropped"


def test_nobody_waits_for_an_answer_that_cannot_come(questions: HubQuestions) -> None:
    unknown, lost, alone = (questions.ask(ReadWriter(writer=WRITER)) for _ in range(3))
    first, second, third = questions.take((A, B))
    for hub in (A, B):
        questions.on_message(hub, refused(first.request))
    assert unknown.result(0) is None
    questions.on_message(A, refused(second.request))
    questions.lose(B)
    assert lost.result(0) is None
    questions.on_message(A, refused(third.request))
    assert alone.result(0) is None
    without = questions.ask(ReadWriter(writer=WRITER))
    assert [one.writer for one in questions.take(())] == [WRITER]
    assert without.result(0) is None


def test_question_that_was_given_up_is_not_sent(questions: HubQuestions) -> None:
    questions.ask(ReadWriter(writer=WRITER)).cancel()
    assert questions.take((A,)) == ()


def test_oldest_of_too_many_questions_is_not_waited_for(questions: HubQuestions) -> None:
    answers = [questions.ask(ReadWriter(writer=WRITER)) for _ in range(QUESTIONS_MAX + 1)]
    questions.take((A,))
    assert [one.done() for one in answers[:2]] == [True, False]
    assert answers[0].result(0) is None


def test_other_messages_are_left_to_the_publisher(questions: HubQuestions) -> None:
    assert not questions.on_message(A, refused(7))
    assert not questions.on_message(A, Have(epoch=1, start=1, versions=()))
