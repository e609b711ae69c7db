"""Operators inspect readers through the hub, which answers from its own state or forwards."""

import pytest

from topicast.statestore.effects import Answered, Ask, MessageReceived
from topicast.statestore.introspection import ASKED_MAX, WAITING_MAX
from topicast.tests.keys import client_for
from topicast.tests.statestore.hub_driver import (
    READER_CONTROL,
    HubDriver,
    at,
    hello,
    registration,
    seeded,
)
from topicast.topics.keys.clients import Clients
from topicast.topics.objects.drivers import driver_facts
from topicast.topics.slices import ROWS_MAX
from topicast.topics.topic import MINIMAL
from topicast.topics.wire.messages.answers import Inspected, TableUse, TableUses
from topicast.topics.wire.messages.connection import CONTROL_CHANNEL, OPERATOR, READER, Bye, Refused
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.questions import (
    Question,
    ReadDrivers,
    ReadHubs,
    ReadLevels,
    ReadPositions,
    ReadStatus,
    ReadSubscribers,
    ReadTopics,
    ReadUsage,
    ReadVerdict,
    ReadWriter,
)
from topicast.topics.wire.messages.readers import DriverFacts, Join

OF = registration("reader")


@pytest.fixture
def driver() -> HubDriver:
    """A hub with a publisher, a reader and the operator ``op``."""
    made, _ = seeded()
    made.greet()
    made.receive(b"op", hello("op", OPERATOR, CONTROL_CHANNEL))
    made.sent.clear()
    return made


def inspect(driver: HubDriver, question: Question) -> Message:
    """Send a question as the operator; return the one message that the hub sends then."""
    (message,) = driver.receive(b"op", question)
    return message


def levels(driver: HubDriver, of: bytes = OF, *, request: int = 7) -> Message:
    """As ``inspect``, about the levels of a reader."""
    return inspect(driver, ReadLevels(request=request, member=of))


def refusal(message: Message) -> str:
    assert isinstance(message, Refused)
    assert message.request == 7
    return f"{message.code} {message.message}"


def answer(request: int) -> Inspected:
    return TableUses(request=request, rows=(TableUse("shop.orders", 2, 7.5),))


def test_operator_receives_what_the_hub_knows_and_a_refusal_of_what_catalogd_does(
    driver: HubDriver,
) -> None:
    asked = ((ReadStatus, "name"), (ReadTopics, "topic"), (ReadSubscribers, "name"))
    for kind, column in asked:
        table = inspect(driver, kind(request=7))
        assert isinstance(table, Inspected)
        assert (table.request, table.columns[0], bool(table.rows)) == (7, column, True)
    assert refusal(inspect(driver, ReadHubs(request=7))).startswith("ROLE")


def test_topics_that_a_member_joined_are_answered_by_the_hub(driver: HubDriver) -> None:
    join = Join(request=1, positions=(at(1), at(2, level=MINIMAL)))
    driver.receive(READER_CONTROL, join)
    joined = inspect(driver, ReadPositions(request=7, member=OF))
    assert isinstance(joined, Inspected)
    assert joined.columns == ("topic", "level", "version", "lag_versions")
    assert [row[:3] for row in joined.rows] == [(1, "full", 0), (2, "minimal", 0)]


def test_request_is_forwarded_to_the_reader_and_its_answer_back(driver: HubDriver) -> None:
    """P-INSPECT-1."""
    forwarded = levels(driver)
    assert isinstance(forwarded, ReadLevels)
    assert driver.sent[-1][0] == READER_CONTROL
    assert forwarded.member == OF
    driver.receive(READER_CONTROL, answer(forwarded.request))
    assert driver.sent[-1] == (b"op", answer(7))
    forwarded = levels(driver)
    assert isinstance(forwarded, ReadLevels)
    no = Refused(request=forwarded.request, code="INSPECT", message="no table", retry_ms=0)
    driver.receive(READER_CONTROL, no)
    assert driver.sent[-1][0] == b"op"
    assert refusal(driver.sent[-1][1]) == "INSPECT no table"


def test_answer_to_no_request_of_this_reader_is_not_forwarded(driver: HubDriver) -> None:
    """P-INSPECT-2."""
    driver.greet("other")
    forwarded = levels(driver)
    assert isinstance(forwarded, ReadLevels)
    assert driver.receive(b"other-control", answer(forwarded.request)) == []
    assert driver.receive(READER_CONTROL, answer(forwarded.request + 1)) == []
    assert driver.receive(READER_CONTROL, answer(forwarded.request)) == [answer(7)]
    assert driver.receive(READER_CONTROL, answer(forwarded.request)) == [], "twice"


def test_page_of_the_hub_asks_a_reader_and_receives_its_answer(driver: HubDriver) -> None:
    (forwarded,) = driver.handle(Ask(ReadUsage(request=3, member=OF)))
    assert isinstance(forwarded, ReadUsage)
    assert driver.sent[-1][0] == READER_CONTROL
    driver.receive(READER_CONTROL, answer(forwarded.request))
    assert driver.answered == [Answered(3, answer(forwarded.request))]
    assert driver.handle(Ask(ReadUsage(request=4, member=registration("gone")))) == []
    (_, refused) = driver.answered
    assert refused.number == 4
    assert isinstance(refused.answer, Refused)


def test_request_that_is_never_answered_is_discarded_in_time(driver: HubDriver) -> None:
    first, second, *_ = [levels(driver, request=request) for request in range(1, WAITING_MAX + 2)]
    assert isinstance(first, ReadLevels)
    assert isinstance(second, ReadLevels)
    assert driver.receive(READER_CONTROL, answer(first.request)) == []
    assert driver.receive(READER_CONTROL, answer(second.request)) == [answer(2)]


def test_peer_that_cannot_be_inspected_is_named(driver: HubDriver) -> None:
    """P-INSPECT-1."""
    assert "no member has the registration 00" in refusal(levels(driver, bytes(16)))
    assert "op is no reader" in refusal(levels(driver, registration("op")))
    driver.pass_time(9)  # the reader is LOST; the operator is removed
    assert refusal(levels(driver)).startswith("HELLO")
    driver.receive(b"op", hello("op", OPERATOR, CONTROL_CHANNEL))
    assert "reader is no reader that is connected" in refusal(levels(driver))
    driver.receive(READER_CONTROL, Bye(reason="closed"))
    assert "no member has the registration" in refusal(levels(driver))


def test_reader_without_a_control_connection_cannot_be_inspected(driver: HubDriver) -> None:
    driver.receive(READER_CONTROL, hello("another", READER, CONTROL_CHANNEL))  # its connection now
    assert "reader is no reader that is connected" in refusal(levels(driver))


def test_driver_is_found_by_the_id_of_its_reports(driver: HubDriver) -> None:
    """P-INSPECT-4."""
    writer = b"w" * 16
    said = {"driver": "d7", "application": "etl", "user": "ann", "writer": writer.hex()}
    driver.receive(READER_CONTROL, DriverFacts(**driver_facts(said)))
    found = inspect(driver, ReadWriter(request=7, writer=writer))
    assert isinstance(found, Inspected)
    assert said.items() <= dict(found.rows).items()  # type: ignore[arg-type]  # of two columns
    assert ("registration", OF.hex()) in found.rows
    driver.receive(READER_CONTROL, Bye(reason="closed"))
    assert isinstance(inspect(driver, ReadWriter(request=7, writer=writer)), Inspected), (
        "a driver that has ended"
    )
    other = b"v" * 16
    assert refusal(inspect(driver, ReadWriter(request=7, writer=other))).endswith(
        f"its writes as {other.hex()}"
    )


MANY = 4 * ROWS_MAX  # readers


@pytest.fixture
def crowded(driver: HubDriver) -> HubDriver:
    """A hub with many readers."""
    for number in range(MANY):
        driver.receive(b"%d" % number, hello(f"r{number}", READER, CONTROL_CHANNEL))
    return driver


def ask(driver: HubDriver, kind: type[Question], *, request: int = 7) -> list[Message]:
    """Send a question as the operator; return what the hub sends at once."""
    message = kind(request=request)
    return driver.handle(MessageReceived(b"op", message, client_for(message)))


def test_many_rows_are_made_in_many_turns_between_which_the_hub_obeys(crowded: HubDriver) -> None:
    assert ask(crowded, ReadSubscribers) == []
    turns = 0
    while not (sent := crowded.tick()):
        turns += 1
        assert turns <= MANY, "an answer"
    assert turns >= MANY // ROWS_MAX, "no more rows than a slice in a turn"
    (table,) = sent
    assert isinstance(table, Inspected)
    assert (table.request, len(table.rows)) == (7, MANY + 2 + 1)  # op, reader; the publisher
    assert not crowded.hub.answering


def test_callers_of_the_same_moment_share_a_picture_and_receive_an_answer_each_turn(
    crowded: HubDriver,
) -> None:
    asked = (ReadStatus, ReadSubscribers, ReadVerdict, ReadDrivers, ReadTopics)
    for number, kind in enumerate(asked):
        assert ask(crowded, kind, request=number) == []
    turns = [crowded.tick() for _ in range(20)]
    answers = [sent for sent in turns if sent]
    assert [[one.request for one in sent if isinstance(one, Inspected)] for sent in answers] == [
        [number] for number in range(len(asked))
    ]


def test_request_is_never_answered_by_a_picture_that_has_begun_before_it(
    crowded: HubDriver,
) -> None:
    ask(crowded, ReadSubscribers, request=1)
    crowded.tick()
    crowded.tick()
    crowded.receive(b"late", hello("late", READER, CONTROL_CHANNEL))
    before, after = ask(crowded, ReadSubscribers, request=2) + [
        one for _ in range(30) for one in crowded.tick()
    ]
    assert isinstance(before, Inspected)
    assert isinstance(after, Inspected)
    assert [one.request for one in (before, after)] == [1, 2]
    assert ["late" in {row[0] for row in one.rows} for one in (before, after)] == [False, True]


def test_more_requests_than_may_wait_for_a_table_are_refused_until_later(
    crowded: HubDriver,
) -> None:
    for number in range(ASKED_MAX):
        assert ask(crowded, ReadVerdict, request=number) == []
    (refused,) = ask(crowded, ReadVerdict)
    assert refusal(refused).startswith("RETRY")


def test_caller_that_has_lost_its_access_receives_no_table(crowded: HubDriver) -> None:
    ask(crowded, ReadSubscribers)
    crowded.tick()
    crowded.hub.admit(Clients(()))
    assert [one for _ in range(30) for one in crowded.tick()] == []
    assert not crowded.hub.answering
