"""Operators ask about readers; the hub answers what it knows and hands on the rest."""

import pytest

from topicast.statestore.introspection import WAITING_MAX
from topicast.tests.statestore.scripted import (
    READER_CONTROL,
    Stage,
    hello,
    registration,
    seeded,
)
from topicast.topics.entries import FULL, MINIMAL
from topicast.topics.wire.messages import (
    CONTROL_CHANNEL,
    OPERATOR,
    READER,
    Bye,
    Inspect,
    Inspected,
    Join,
    Message,
    Position,
    Refused,
)

OF = registration("reader").hex()


@pytest.fixture
def stage() -> Stage:
    """A hub with a publisher, a reader and the operator ``op``."""
    made, _ = seeded()
    made.greet()
    made.say(b"op", hello("op", OPERATOR, CONTROL_CHANNEL))
    made.answers()
    return made


def ask(stage: Stage, what: str, *, request: int = 7) -> Message:
    """Ask as the operator; return the one thing that the hub said then, to whomever."""
    (said,) = stage.say(b"op", Inspect(request=request, what=what))
    return said


def refusal(message: Message) -> str:
    assert isinstance(message, Refused)
    assert message.request == 7
    return f"{message.code} {message.message}"


def answer(request: int, cell: str = "x") -> Inspected:
    return Inspected(request=request, columns=("why",), rows=((cell,),))


def test_what_a_member_joined_is_told_by_the_hub(stage: Stage) -> None:
    positions = (
        Position(topic=1, level=FULL, epoch=10, version=0),
        Position(topic=2, level=MINIMAL, epoch=10, version=0),
    )
    stage.say(READER_CONTROL, Join(request=1, positions=positions))
    told = ask(stage, f"joined@{OF}")
    assert isinstance(told, Inspected)
    assert told.columns == ("topic", "level", "version", "lag_versions")
    assert [row[:3] for row in told.rows] == [(1, "full", 0), (2, "minimal", 0)]


def test_question_is_handed_to_the_reader_and_its_answer_back(stage: Stage) -> None:
    """P-INSPECT-1."""
    handed = ask(stage, f"topics@{OF}")
    assert isinstance(handed, Inspect)
    assert (stage.sent[-1][0], handed.what) == (READER_CONTROL, "topics")
    stage.say(READER_CONTROL, answer(handed.request))
    assert stage.sent[-1] == (b"op", answer(7))
    handed = ask(stage, f"nonsense@{OF}")
    assert isinstance(handed, Inspect)
    no = Refused(request=handed.request, code="INSPECT", message="no table", retry_ms=0)
    stage.say(READER_CONTROL, no)
    assert stage.sent[-1][0] == b"op"
    assert refusal(stage.sent[-1][1]) == "INSPECT no table"


def test_answer_that_nobody_asked_of_this_reader_goes_nowhere(stage: Stage) -> None:
    """P-INSPECT-2."""
    stage.greet("other")
    handed = ask(stage, f"topics@{OF}")
    assert isinstance(handed, Inspect)
    assert stage.say(b"other-control", answer(handed.request)) == []
    assert stage.say(READER_CONTROL, answer(handed.request + 1)) == []
    assert stage.say(READER_CONTROL, answer(handed.request)) == [answer(7)]
    assert stage.say(READER_CONTROL, answer(handed.request)) == [], "twice"


def test_question_that_is_never_answered_is_forgotten_in_time(stage: Stage) -> None:
    first, second = ask(stage, f"topics@{OF}", request=1), ask(stage, f"topics@{OF}", request=2)
    for request in range(3, WAITING_MAX + 2):
        ask(stage, f"topics@{OF}", request=request)
    assert isinstance(first, Inspect)
    assert isinstance(second, Inspect)
    assert stage.say(READER_CONTROL, answer(first.request)) == []
    assert stage.say(READER_CONTROL, answer(second.request)) == [answer(2)]


def test_who_cannot_be_asked_is_named(stage: Stage) -> None:
    """P-INSPECT-1."""
    assert "no member has the registration 00" in refusal(ask(stage, "topics@00"))
    assert "op is no reader" in refusal(ask(stage, f"topics@{registration('op').hex()}"))
    stage.pass_time(9)  # the reader is LOST; the operator is forgotten
    assert refusal(ask(stage, f"topics@{OF}")).startswith("HELLO")
    stage.say(b"op", hello("op", OPERATOR, CONTROL_CHANNEL))
    assert "reader is no reader that is connected" in refusal(ask(stage, f"topics@{OF}"))
    stage.say(READER_CONTROL, Bye(reason="closed"))
    assert "no member has the registration" in refusal(ask(stage, f"topics@{OF}"))


def test_reader_without_a_control_connection_cannot_be_asked(stage: Stage) -> None:
    stage.say(READER_CONTROL, hello("another", READER, CONTROL_CHANNEL))  # its connection now
    assert "reader is no reader that is connected" in refusal(ask(stage, f"topics@{OF}"))
