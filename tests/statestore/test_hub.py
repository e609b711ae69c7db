"""The hub as a whole: greetings, roles, the leading publisher, silence, heartbeats, garbage."""

from dataclasses import replace

import pytest

from topicast.statestore.hub import (
    HEARTBEAT_MS,
    SIZES_EVERY,
    Subscription,
    Undecodable,
    Unreachable,
)
from topicast.statestore.status import Counts, HubStatus
from topicast.statestore.validation import request_id
from topicast.tests.statestore.hub_driver import (
    BULK,
    CATALOG,
    CONTROL,
    DATA,
    READER_BULK,
    READER_CONTROL,
    HubDriver,
    PublisherPeer,
    codes,
    hello,
    large,
    registration,
    seeded,
)
from topicast.topics.errors import VersionMismatch, WireError
from topicast.topics.topic import FULL
from topicast.topics.wire import decode, messages
from topicast.topics.wire.header import PROTOCOL, barrier_prefix, prefix
from topicast.topics.wire.messages import (
    CONTROL_CHANNEL,
    CURRENT,
    OPERATOR,
    PUBLISHER,
    READER,
    Bye,
    Cancel,
    CatchUp,
    Chunk,
    Credit,
    Drop,
    Have,
    Heartbeat,
    Inspect,
    Inspected,
    Join,
    Joined,
    Message,
    Position,
    Refused,
    Wanted,
    Welcome,
)

AT = Position(topic=1, level=FULL, epoch=10, version=0)
WANTED = Wanted(topic=1, level=FULL, epoch=10, version=0)
CHUNK = Chunk(
    topic=1,
    level=FULL,
    epoch=10,
    start=5,
    from_version=0,
    to_version=1,
    floor=0,
    sent_us=1,
    stream=4,
    sequence=0,
    resume_version=0,
    resume_key=b"",
    entries=(),
)


def code(sent: list[Message]) -> str:
    """Return the code of the one message, which is a refusal."""
    (message,) = sent
    assert isinstance(message, Refused)
    return message.code


def picture(driver: HubDriver) -> HubStatus:
    """Return all that a hub shows, but for its counters."""
    return replace(driver.status, counts=Counts())


def state(driver: HubDriver, role: str = "reader") -> str:
    (one,) = [one for one in driver.status.subscribers if one.role == role]
    return one.state


def held_version(driver: HubDriver) -> int:
    """Return the version of topic 1 that the hub names to a publisher."""
    _, have = driver.receive(b"again", hello("publisher", PUBLISHER, CONTROL_CHANNEL))
    assert isinstance(have, Have)
    return have.versions[1]


def test_hello_is_answered_on_both_connections() -> None:
    """P-SUB-4."""
    driver, _ = seeded()
    welcome, on_bulk = driver.greet()
    assert isinstance(welcome, Welcome)
    assert isinstance(on_bulk, Welcome)
    assert (welcome.data_address, welcome.catalog_address) == (DATA, CATALOG)
    assert (welcome.epoch, welcome.start, welcome.num_topics) == (10, 5, 4)
    assert (welcome.heartbeat_ms, welcome.lost_ms) == (250, 8000)


def test_welcome_names_the_version_chosen_and_the_features_of_both() -> None:
    """P-VER-1."""
    greeting = hello("reader", READER, CONTROL_CHANNEL, protocol=(0, 9))
    (welcome,) = HubDriver().receive(READER_CONTROL, replace(greeting, features=0b111))
    assert isinstance(welcome, Welcome)
    assert (welcome.protocol, welcome.features) == (PROTOCOL, 0)
    assert (welcome.epoch, welcome.start, welcome.num_topics) == (0, 0, 0)
    assert (welcome.catalog_address, welcome.catalog_name) == ("", "")


@pytest.mark.parametrize("offered", [(0, 0), (2, 99)])
def test_protocol_that_is_not_spoken_is_refused(offered: tuple[int, int]) -> None:
    """P-VER-1."""
    driver = HubDriver()
    greeting = hello("reader", READER, CONTROL_CHANNEL, protocol=offered)
    assert code(driver.receive(READER_CONTROL, greeting)) == "VERSION"
    assert driver.status.subscribers == ()


@pytest.mark.parametrize(
    "message",
    [
        Join(request=4, positions=(AT,)),
        Drop(request=4, topics=(1,)),
        Inspect(request=4, what="status"),
        CatchUp(stream=4, credit=1, wanted=()),
        Credit(stream=4, amount=1),
        Cancel(stream=4),
        CHUNK,
        PublisherPeer(start=6).announce(),
        PublisherPeer().heartbeat(watermark=99),
        PublisherPeer().change(1),
        Bye(reason="closed"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_message_before_hello_is_refused_and_changes_nothing(message: Message) -> None:
    """P-SUB-4, P-BAD-3: also of a peer that greeted an earlier hub."""
    driver, _ = seeded()
    before = picture(driver)
    sent = driver.receive(READER_CONTROL, message)
    assert code(sent) == "HELLO"
    assert sent[0].request == request_id(message)  # type: ignore[union-attr]  # a Refused
    assert driver.hub.counts.refused == {"HELLO": 1}
    assert picture(driver) == before
    assert driver.frames == []


def test_delta_before_hello_is_not_forwarded() -> None:
    """P-SUB-4."""
    driver, publisher = seeded()
    driver.put(publisher.change(1), b"stranger")
    assert code(driver.tick()) == "HELLO"
    assert driver.deltas() == []


def test_message_on_the_wrong_connection_or_of_the_wrong_role_is_refused() -> None:
    """P-MSG-4."""
    driver, publisher = seeded()
    driver.greet()
    catch_up = CatchUp(stream=3, credit=1, wanted=(WANTED,))
    assert code(driver.receive(READER_CONTROL, catch_up)) == "ROLE"
    assert code(driver.receive(READER_BULK, publisher.announce())) == "ROLE"
    driver.put(publisher.change(1), READER_BULK)
    assert code(driver.tick()) == "ROLE"
    assert driver.deltas() == []


def test_full_hub_refuses_a_hello() -> None:
    driver = HubDriver(members_max=1)
    driver.greet("one")
    assert code(driver.receive(b"two", hello("two", READER, CONTROL_CHANNEL))) == "FULL"


def test_publisher_receives_what_the_hub_has_before_it_announces() -> None:
    """P-START-1."""
    driver, publisher = seeded()
    driver.put(publisher.change(1))
    welcome, have, on_bulk = driver.greet("publisher", PUBLISHER)
    assert (type(welcome), type(on_bulk)) == (Welcome, Welcome)
    assert have == Have(epoch=10, start=5, versions=(0, 1, 0, 0, 0))
    assert driver.greet("other", PUBLISHER)[1] == have, "each publisher does"


def test_have_counts_what_a_catch_up_has_filed_before_it_ends() -> None:
    """P-START-1: the version of anything that is held, also while the topic answers no reader."""
    driver, publisher = seeded()
    driver.put(publisher.commit(1, large(1)))
    for version in range(2, 12):
        publisher.commit(1, large(version))
    driver.put(publisher.change(1))
    first, *rest = publisher.answer(driver.tick())
    assert held_version(driver) == 1, "nothing of the catch-up was filed yet"
    driver.receive(BULK, first)
    assert isinstance(first, Chunk)
    assert not first.last
    assert 1 < held_version(driver) == first.resume_version < publisher.topics[1].version
    assert driver.topic(1).version == 1
    driver.receive(BULK, *rest)
    driver.serve(publisher)
    assert held_version(driver) == publisher.topics[1].version == 12


def test_have_counts_nothing_that_a_snapshot_has_replaced() -> None:
    """P-START-1: what the hub had before a snapshot began is held no longer."""
    driver, publisher = seeded()
    for version in range(1, 12):
        driver.put(publisher.commit(1, large(version)))
    assert held_version(driver) == 11
    publisher.change(1)
    publisher.topics[1].raise_floor(12)
    driver.put(publisher.change(1))
    first = publisher.answer(driver.tick())[0]
    driver.receive(BULK, first)
    assert isinstance(first, Chunk)
    assert held_version(driver) == first.resume_version < 11


def test_nothing_of_a_publisher_is_accepted_before_it_announces() -> None:
    """P-START-4."""
    driver, _ = seeded()
    early = PublisherPeer()
    driver.greet("early", PUBLISHER)
    before = picture(driver)
    assert code(driver.receive(b"early-control", early.heartbeat(watermark=99))) == "START"
    driver.put(early.change(1), b"early-bulk")
    assert code(driver.tick()) == "START"
    assert code(driver.receive(b"early-bulk", CHUNK)) == "START"
    assert driver.hub.counts.refused == {"START": 3}
    assert picture(driver) == before
    assert driver.frames == []
    driver.receive(b"early-control", early.announce())
    assert driver.status.publisher == "early"


def test_newer_start_takes_over_and_the_old_one_is_refused() -> None:
    """P-START-4."""
    driver, _ = seeded()
    newer = PublisherPeer(start=6)
    driver.connect(newer, "newer")
    old = [message for peer, message in driver.sent if peer == CONTROL]
    assert code(old[-1:]) == "START"
    assert driver.status.start == 6
    driver.put(newer.change(1))
    assert codes(driver.tick()) == ["START"]


def test_start_that_was_compared_with_an_older_have_receives_the_new_one_and_does_not_lead() -> (
    None
):
    """P-START-4: only a start that was compared with what the hub holds now may lead."""
    driver, publisher = seeded()
    newer = PublisherPeer(start=6)
    _, compared, _ = driver.greet("newer", PUBLISHER)
    assert compared == Have(epoch=10, start=5, versions=(0, 0, 0, 0, 0))
    driver.put(publisher.change(1))
    now_held = Have(epoch=10, start=5, versions=(0, 1, 0, 0, 0))
    assert driver.receive(b"newer-control", newer.announce()) == [now_held]
    assert driver.status.start == 5
    driver.receive(b"newer-control", newer.announce())
    assert driver.status.start == 6


def test_heartbeat_names_the_positions_of_the_hub_and_sometimes_its_sizes() -> None:
    """P-HEARTBEAT-2."""
    driver, publisher = seeded()
    driver.put(publisher.change(1))
    heartbeats = [driver.heartbeat() for _ in range(45)]
    assert {one.versions for one in heartbeats} == {(0, 1, 0, 0, 0)}
    assert {one.interval_ms for one in heartbeats} == {HEARTBEAT_MS}
    first = heartbeats[0].sequence
    assert [one.sequence for one in heartbeats] == list(range(first, first + 45))
    assert {one.sequence % SIZES_EVERY for one in heartbeats if one.sizes} == {1}
    (sizes,) = {one.sizes for one in heartbeats if one.sizes}
    assert [bool(size) for size in sizes] == [False, True, False, False, False]
    assert heartbeats[0].catalog_address == CATALOG
    assert heartbeats[-1].age_ms > heartbeats[0].age_ms


@pytest.mark.parametrize("heartbeat_ms", [HEARTBEAT_MS, 1000])
def test_heartbeats_are_sent_at_the_interval_that_was_set(heartbeat_ms: int) -> None:
    """P-HEARTBEAT-2."""
    driver, _ = seeded(heartbeat_ms=heartbeat_ms)
    driver.pass_time(10 * heartbeat_ms / 1000)
    heartbeats = [one for one in map(decode, driver.frames) if isinstance(one, Heartbeat)]
    assert len(heartbeats) in (10, 11)


def test_restarted_hub_is_filled_by_catch_ups_and_its_readers_keep_their_positions() -> None:
    """P-LIVE-4."""
    _, publisher = seeded()
    publisher.change(1)
    driver = HubDriver()
    driver.greet()
    at = replace(AT, version=1)
    report = messages.Status(positions=(at,), lag_us=0, held_bytes=0, budget_bytes=0)
    assert driver.receive(READER_CONTROL, report) == []
    assert Have(epoch=0, start=0, versions=()) in driver.connect(publisher)
    assert driver.status.topics_behind == 5
    driver.serve(publisher)
    assert driver.deltas() == []
    (joined,) = driver.receive(READER_CONTROL, Join(request=1, positions=(at,)))
    assert isinstance(joined, Joined)
    assert joined.topics[0].answer == CURRENT


def test_barrier_is_answered_by_its_own_frame() -> None:
    """P-SUB-2."""
    driver, _ = seeded()
    barrier = barrier_prefix(bytes(range(16)))
    frames = [driver.frames.copy()]
    for subscription in (b"\1" + prefix(1, FULL), b"\1" + barrier, b"\0" + barrier):
        driver.handle(Subscription(subscription))
        frames.append(driver.frames.copy())
    assert frames == [[], [], [barrier], [barrier]]


def test_silent_reader_is_suspect_then_lost_and_its_streams_end() -> None:
    """P-LIVE-1."""
    driver, _ = seeded()
    driver.greet()
    driver.receive(READER_BULK, CatchUp(stream=3, credit=0, wanted=(WANTED,)))
    assert state(driver) == "LIVE"
    driver.pass_time(2.5)
    assert state(driver) == "SUSPECT"
    assert driver.status.streams == 1
    driver.pass_time(6.5)
    assert state(driver) == "LOST"
    assert driver.status.streams == 0
    assert driver.hub.counts.lost == 2, "the publisher was silent, too"
    driver.receive(READER_CONTROL, Refused(request=1, code="X", message="", retry_ms=0))
    assert state(driver) == "LIVE", "any message is a sign of life"


def test_publisher_lives_by_its_deltas() -> None:
    """P-LIVE-1."""
    driver, publisher = seeded()
    for _ in range(10):
        driver.pass_time(1.5)
        driver.put(publisher.change(1))
    driver.tick()
    assert state(driver, "publisher") == "LIVE"
    assert driver.hub.counts.lost == 0


def test_reader_that_says_goodbye_is_removed_at_once() -> None:
    driver, _ = seeded()
    driver.greet()
    driver.receive(READER_CONTROL, Bye(reason="closed"))
    assert [one.role for one in driver.status.subscribers] == ["publisher"]


def test_unreachable_reader_loses_its_streams() -> None:
    driver, publisher = seeded()
    driver.put(publisher.change(1))
    driver.greet()
    driver.receive(READER_BULK, CatchUp(stream=3, credit=1 << 20, wanted=(WANTED,)))
    driver.handle(Unreachable(READER_BULK))
    assert driver.turn() == []
    assert driver.hub.counts.unreachable == 1


def test_garbage_is_counted_and_refused_now_and_then() -> None:
    """P-BAD-3."""
    driver, _ = seeded()
    driver.greet()
    garbage = Undecodable(READER_CONTROL, WireError("no message"))
    assert code(driver.handle(garbage)) == "WIRE"
    assert driver.handle(garbage) == []
    assert driver.hub.counts.undecodable == 2
    driver.now += 1.5
    other = Undecodable(READER_CONTROL, VersionMismatch("1", "2"))
    assert code(driver.handle(other)) == "VERSION"


def test_peer_that_waits_for_an_answer_is_refused_each_time() -> None:
    """P-BAD-3."""
    driver, _ = seeded()
    refusals = driver.receive(b"stranger", *(Drop(request=n, topics=()) for n in (1, 2, 3)))
    assert [(one.request, one.code) for one in refusals if isinstance(one, Refused)] == [
        (number, "HELLO") for number in (1, 2, 3)
    ]


def test_refusal_is_never_answered() -> None:
    """P-BAD-3."""
    driver, _ = seeded()
    refusal = Refused(request=3, code="X", message="", retry_ms=0)
    assert driver.receive(b"stranger", refusal) == []
    assert driver.receive(CONTROL, refusal) == []


def test_operator_receives_tables_and_a_refusal_for_an_unknown_one() -> None:
    driver, _ = seeded()
    driver.receive(b"op", hello("operator", OPERATOR, CONTROL_CHANNEL))
    for what, column in (("status", "name"), ("topics", "topic"), ("subscribers", "name")):
        (answer,) = driver.receive(b"op", Inspect(request=2, what=what))
        assert isinstance(answer, Inspected)
        assert answer.columns[0] == column
        assert answer.rows
    assert codes(driver.receive(b"op", Inspect(request=2, what="nonsense"))) == ["INSPECT"]


def test_registration_ties_the_connections_of_one_member() -> None:
    driver, _ = seeded()
    driver.greet()
    driver.receive(READER_CONTROL, Join(request=1, positions=(AT,)))
    (reader,) = [one for one in driver.status.subscribers if one.role == "reader"]
    assert reader.registration == registration("reader").hex()
    assert reader.topics == 1
