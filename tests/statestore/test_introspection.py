"""Operators inspect readers through the hub, which answers from its own state or forwards."""

import pytest

from topicast.statestore.hub import Ask
from topicast.statestore.introspection import WAITING_MAX, Answered
from topicast.tests.statestore.hub_driver import (
    READER_CONTROL,
    HubDriver,
    at,
    hello,
    registration,
    seeded,
)
from topicast.topics.topic import MINIMAL
from topicast.topics.wire.messages import (
    CONTROL_CHANNEL,
    OPERATOR,
    READER,
    Bye,
    Inspect,
    Inspected,
    Join,
    Message,
    Refused,
)

OF = registration("reader")


@pytest.fixture
def driver() -> HubDriver:
    """A hub with a publisher, a reader and the operator ``op``."""
    made, _ = seeded()
    made.greet()
    made.receive(b"op", hello("op", OPERATOR, CONTROL_CHANNEL))
    made.sent.clear()
    return made


def inspect(driver: HubDriver, what: str, of: bytes = b"", *, request: int = 7) -> Message:
    """Send an Inspect as the operator; return the one message that the hub sends then."""
    (message,) = driver.receive(b"op", Inspect(request=request, what=what, member=of))
    return message


def refusal(message: Message) -> str:
    assert isinstance(message, Refused)
    assert message.request == 7
    return f"{message.code} {message.message}"


def answer(request: int, cell: str = "x") -> Inspected:
    return Inspected(request=request, columns=("why",), rows=((cell,),))


def test_operator_receives_tables_of_the_hub_and_a_refusal_for_an_unknown_one(
    driver: HubDriver,
) -> None:
    for what, column in (("status", "name"), ("topics", "topic"), ("subscribers", "name")):
        table = inspect(driver, what)
        assert isinstance(table, Inspected)
        assert (table.request, table.columns[0], bool(table.rows)) == (7, column, True)
    assert refusal(inspect(driver, "nonsense")).startswith("INSPECT")


def test_topics_that_a_member_joined_are_answered_by_the_hub(driver: HubDriver) -> None:
    join = Join(request=1, positions=(at(1), at(2, level=MINIMAL)))
    driver.receive(READER_CONTROL, join)
    joined = inspect(driver, "joined", OF)
    assert isinstance(joined, Inspected)
    assert joined.columns == ("topic", "level", "version", "lag_versions")
    assert [row[:3] for row in joined.rows] == [(1, "full", 0), (2, "minimal", 0)]


def test_request_is_forwarded_to_the_reader_and_its_answer_back(driver: HubDriver) -> None:
    """P-INSPECT-1."""
    forwarded = inspect(driver, "topics", OF)
    assert isinstance(forwarded, Inspect)
    assert driver.sent[-1][0] == READER_CONTROL
    assert (forwarded.what, forwarded.member) == ("topics", b"")
    driver.receive(READER_CONTROL, answer(forwarded.request))
    assert driver.sent[-1] == (b"op", answer(7))
    forwarded = inspect(driver, "nonsense", OF)
    assert isinstance(forwarded, Inspect)
    no = Refused(request=forwarded.request, code="INSPECT", message="no table", retry_ms=0)
    driver.receive(READER_CONTROL, no)
    assert driver.sent[-1][0] == b"op"
    assert refusal(driver.sent[-1][1]) == "INSPECT no table"


def test_answer_to_no_request_of_this_reader_is_not_forwarded(driver: HubDriver) -> None:
    """P-INSPECT-2."""
    driver.greet("other")
    forwarded = inspect(driver, "topics", OF)
    assert isinstance(forwarded, Inspect)
    assert driver.receive(b"other-control", answer(forwarded.request)) == []
    assert driver.receive(READER_CONTROL, answer(forwarded.request + 1)) == []
    assert driver.receive(READER_CONTROL, answer(forwarded.request)) == [answer(7)]
    assert driver.receive(READER_CONTROL, answer(forwarded.request)) == [], "twice"


def test_page_of_the_hub_asks_a_reader_and_receives_its_answer(driver: HubDriver) -> None:
    (forwarded,) = driver.handle(Ask("tables", registration("reader"), 3))
    assert isinstance(forwarded, Inspect)
    assert (driver.sent[-1][0], forwarded.what) == (READER_CONTROL, "tables")
    driver.receive(READER_CONTROL, answer(forwarded.request))
    assert driver.answered == [Answered(3, answer(forwarded.request))]
    assert driver.handle(Ask("tables", registration("gone"), 4)) == []
    (_, refused) = driver.answered
    assert refused.number == 4
    assert isinstance(refused.answer, Refused)


def test_request_that_is_never_answered_is_discarded_in_time(driver: HubDriver) -> None:
    first, second, *_ = [
        inspect(driver, "topics", OF, request=request) for request in range(1, WAITING_MAX + 2)
    ]
    assert isinstance(first, Inspect)
    assert isinstance(second, Inspect)
    assert driver.receive(READER_CONTROL, answer(first.request)) == []
    assert driver.receive(READER_CONTROL, answer(second.request)) == [answer(2)]


def test_peer_that_cannot_be_inspected_is_named(driver: HubDriver) -> None:
    """P-INSPECT-1."""
    assert "no member has the registration 00" in refusal(inspect(driver, "topics", bytes(1)))
    assert "op is no reader" in refusal(inspect(driver, "topics", registration("op")))
    driver.pass_time(9)  # the reader is LOST; the operator is removed
    assert refusal(inspect(driver, "topics", OF)).startswith("HELLO")
    driver.receive(b"op", hello("op", OPERATOR, CONTROL_CHANNEL))
    assert "reader is no reader that is connected" in refusal(inspect(driver, "topics", OF))
    driver.receive(READER_CONTROL, Bye(reason="closed"))
    assert "no member has the registration" in refusal(inspect(driver, "topics", OF))


def test_reader_without_a_control_connection_cannot_be_inspected(driver: HubDriver) -> None:
    driver.receive(READER_CONTROL, hello("another", READER, CONTROL_CHANNEL))  # its connection now
    assert "reader is no reader that is connected" in refusal(inspect(driver, "topics", OF))
