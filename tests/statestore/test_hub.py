"""The hub as a whole: greetings, the leading publisher, silence, heartbeats, garbage, status."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from topicast.statestore.effects import HaveKeys, MessageReceived, Undecodable
from topicast.statestore.heartbeats import SIZES_EVERY
from topicast.statestore.leadership import RIVAL_S
from topicast.statestore.members.membership import LOST_LISTED_S
from topicast.statestore.status import (
    BEHIND_S,
    LOST_SHOWN_S,
    HubCounts,
    HubStatus,
    answer,
    verdict,
)
from topicast.tests.keys import client
from topicast.tests.statestore.hub_driver import (
    AMPLE,
    BULK,
    CATALOG,
    CONTROL,
    DATA,
    READER_BULK,
    READER_CONTROL,
    HubDriver,
    PublisherPeer,
    at,
    catch_ups,
    chunk,
    codes,
    hello,
    large,
    refused,
    registration,
    seeded,
    want,
)
from topicast.topics.errors import VersionMismatch, WireError
from topicast.topics.keys.clients import Client, ClientRole, Clients, clients_text
from topicast.topics.liveness import HEARTBEAT_MS, SUSPECT_S
from topicast.topics.memory.memory_limit import MemoryLimit
from topicast.topics.topic import FULL, stub, topic_ids
from topicast.topics.verdict import Reason, Serving, Verdict
from topicast.topics.wire import decode, encode
from topicast.topics.wire.header import PROTOCOL
from topicast.topics.wire.messages.answers import SubscriberStatus
from topicast.topics.wire.messages.connection import (
    BULK_CHANNEL,
    CONTROL_CHANNEL,
    OPERATOR,
    PUBLISHER,
    READER,
    Bye,
    Introduction,
    KeepAlive,
    Refused,
    Role,
    ServerKeys,
    Welcome,
)
from topicast.topics.wire.messages.data import Chunk, Delta, Heartbeat
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.publishers import ClientList, Have
from topicast.topics.wire.messages.questions import ReadStatus, ReadVerdict
from topicast.topics.wire.messages.readers import (
    Cancel,
    CatchUp,
    Credit,
    Drop,
    Join,
    JoinAnswer,
    Joined,
    ReaderStatus,
    Wanted,
)
from topicast.topics.wire.refusal import request_id

REFUSAL = Refused(request=3, code="X", message="", retry_ms=0)


def picture(driver: HubDriver) -> HubStatus:
    """Return the status of a hub without its counters."""
    return replace(driver.status, counts=HubCounts())


def member(driver: HubDriver, role: str = "reader") -> SubscriberStatus:
    """Return the status of the one member in ``role``."""
    (one,) = [one for one in driver.status.subscribers if one.role == role]
    return one


def have(*versions: int, epoch: int = 10, start: int = 5) -> Have:
    return Have(epoch=epoch, start=start, versions=versions)


def held_version(driver: HubDriver) -> int:
    """Return the version of topic 1 that the hub names to a publisher."""
    _, held = driver.receive(b"again", hello("publisher", PUBLISHER, CONTROL_CHANNEL))
    assert isinstance(held, Have)
    return held.versions[1]


def test_hello_is_answered_on_both_connections() -> None:
    """P-SUB-4."""
    driver, _ = seeded()
    welcome, on_bulk = driver.greet()
    assert isinstance(welcome, Welcome)
    assert isinstance(on_bulk, Welcome)
    assert (welcome.data_address, welcome.catalog_address) == (DATA, CATALOG)
    assert (welcome.epoch, welcome.start, welcome.num_topics) == (10, 5, 4)
    assert (welcome.heartbeat_ms, welcome.lost_ms) == (250, 8000)


def test_hello_of_a_reader_that_waited_behind_another_hello_is_not_answered_again() -> None:
    """P-LIVE-9."""
    driver, _ = seeded()
    driver.greet()
    assert driver.greet() == []
    driver.tick(0.5)
    assert [type(one) for one in driver.greet()] == [Welcome, Welcome]
    again = hello("reader", READER, CONTROL_CHANNEL)
    assert [type(one) for one in driver.receive(b"reconnected", again)] == [Welcome]
    assert [type(one) for one in driver.receive(READER_CONTROL, again)] == [Welcome]


def test_welcome_names_the_version_chosen_and_none_of_the_features_that_only_a_peer_knows() -> None:
    """P-VER-1, P-VER-4."""
    greeting = hello("reader", READER, CONTROL_CHANNEL, protocol=(0, 9))
    (welcome,) = HubDriver().receive(READER_CONTROL, replace(greeting, features=0b111111))
    assert isinstance(welcome, Welcome)
    assert (welcome.protocol, welcome.features) == (PROTOCOL, 0)
    assert (welcome.epoch, welcome.start, welcome.num_topics) == (0, 0, 0)
    assert (welcome.catalog_address, welcome.catalog_name) == ("", "")


@pytest.mark.parametrize(
    "message",
    [
        Join(request=4, positions=(at(1),)),
        Drop(request=4, topics=(1,)),
        ReadStatus(request=4),
        CatchUp(stream=4, credit=1, wanted=()),
        Credit(stream=4, amount=1),
        Cancel(stream=4),
        chunk(),
        PublisherPeer(start=6).announce(),
        PublisherPeer().heartbeat(watermark=99),
        PublisherPeer().change(1),
        KeepAlive(),
        Bye(reason="closed"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_message_before_hello_is_refused_and_changes_nothing(message: Message) -> None:
    """P-SUB-4, P-BAD-3: also of a peer that greeted an earlier hub."""
    driver, _ = seeded()
    before = picture(driver)
    refusal = refused(driver.receive(READER_CONTROL, message))
    assert (refusal.code, refusal.request) == ("HELLO", request_id(message))
    assert driver.hub.counts.refused == {"HELLO": 1}
    assert picture(driver) == before
    assert driver.frames == []


def test_message_on_the_wrong_connection_or_of_the_wrong_role_is_refused() -> None:
    """P-MSG-4."""
    driver, publisher = seeded()
    driver.greet()
    catch_up = CatchUp(stream=3, credit=1, wanted=(want(1),))
    assert codes(driver.receive(READER_CONTROL, catch_up)) == ["ROLE"]
    sent = driver.receive(READER_BULK, publisher.announce(), publisher.change(1))
    assert codes(sent) == ["ROLE", "ROLE"]
    assert driver.deltas() == []


def test_full_hub_refuses_a_hello() -> None:
    driver = HubDriver(members_max=1)
    driver.greet("one")
    assert refused(driver.greet("two")[:1]).code == "HUB_FULL"


def test_publisher_receives_what_the_hub_has_before_it_announces() -> None:
    """P-DATA-3, P-START-1."""
    driver, publisher = seeded()
    driver.put(publisher.change(1))
    for name in ("publisher", "other"):
        welcome, held, on_bulk = driver.greet(name, PUBLISHER)
        assert (type(welcome), held, type(on_bulk)) == (Welcome, have(0, 1, 0, 0, 0), Welcome)


def test_streams_of_the_publisher_end_with_its_bulk_connection_and_with_no_other_hello() -> None:
    """P-START-1: a Hello that is repeated, or somebody else's, leaves them as they are."""
    driver, publisher = seeded()
    hellos = driver.hub.counts.hellos
    publisher.change(1)
    driver.put(publisher.change(1))
    (request,) = catch_ups(driver.tick())
    again = hello("publisher", PUBLISHER, BULK_CHANNEL)
    driver.receive(BULK, again)
    driver.greet("reader")
    assert catch_ups(driver.tick(0.5)) == []
    driver.receive(b"another-bulk", again)
    assert [one.wanted for one in catch_ups(driver.tick(0.5))] == [request.wanted]
    assert driver.hub.counts.hellos == hellos + 4


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
    for peer, message in (
        (b"early-control", early.heartbeat(watermark=99)),
        (b"early-bulk", early.change(1)),
        (b"early-bulk", chunk()),
    ):
        assert refused(driver.receive(peer, message)).code == "START"
    assert driver.hub.counts.refused == {"START": 3}
    assert picture(driver) == before
    assert driver.frames == []
    driver.receive(b"early-control", early.announce())
    assert driver.status.publisher == "early"


def test_newer_start_takes_over_and_the_old_start_is_refused() -> None:
    """P-START-4."""
    driver, _ = seeded()
    newer = PublisherPeer(start=6)
    driver.connect(newer, "newer")
    old = [message for peer, message in driver.sent if peer == CONTROL]
    assert refused(old[-1:]).code == "START"
    assert driver.status.start == 6
    assert codes(driver.receive(BULK, newer.change(1))) == ["START"]


def test_start_compared_with_an_older_have_is_sent_the_new_have_and_does_not_lead() -> None:
    """P-START-10: only a start that was compared with what the hub holds now may lead."""
    driver, publisher = seeded()
    newer = PublisherPeer(start=6)
    _, compared, _ = driver.greet("newer", PUBLISHER)
    assert compared == have(0, 0, 0, 0, 0)
    driver.put(publisher.change(1))
    assert driver.receive(b"newer-control", newer.announce()) == [have(0, 1, 0, 0, 0)]
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
    first_at = driver.now - 44 * 0.25
    assert [one.sent_us for one in (heartbeats[0], heartbeats[-1])] == [
        int(at * 1e6) for at in (first_at, driver.now)
    ]
    assert heartbeats[-1].age_ms - heartbeats[0].age_ms == 44 * 250


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
    report = ReaderStatus(positions=(at(1, 1),), lag_us=0, held_bytes=0, budget_bytes=0)
    assert driver.receive(READER_CONTROL, report) == []
    assert have(epoch=0, start=0) in driver.connect(publisher)
    assert driver.status.topics_behind == 5
    driver.serve(publisher)
    assert driver.deltas() == []
    (joined,) = driver.receive(READER_CONTROL, Join(request=1, positions=(at(1, 1),)))
    assert isinstance(joined, Joined)
    assert joined.topics[0].answer == JoinAnswer.CURRENT


def test_member_that_is_lost_makes_room_for_a_new_member_and_is_listed_for_a_while() -> None:
    driver = HubDriver(members_max=2)
    for name in ("one", "two"):
        driver.greet(name)
    driver.pass_time(9.0)
    driver.receive(b"two-bulk", REFUSAL)
    assert [one.state for one in driver.status.subscribers] == ["LOST", "LIVE"]
    assert isinstance(driver.greet("three")[0], Welcome)
    assert [one.name for one in driver.status.subscribers] == ["two", "three"]
    driver.pass_time(9.0)
    driver.tick(LOST_LISTED_S)
    assert driver.status.subscribers == ()


@pytest.mark.parametrize(
    ("role", "is_command", "listed_as", "stays"),
    [
        (READER, False, "reader", True),
        (READER, True, "command", False),
        (OPERATOR, False, "operator", False),
    ],
)
def test_command_that_was_killed_is_gone_as_soon_as_it_is_lost(
    role: Role, is_command: bool, listed_as: str, stays: bool
) -> None:
    """P-LIVE-12."""
    driver, _ = seeded()
    greeting = replace(hello("one", role, CONTROL_CHANNEL), is_command=is_command)
    driver.receive(b"one", greeting)
    assert member(driver, listed_as).name == "one"
    driver.pass_time(SUSPECT_S + 1)
    assert "one" in [one.name for one in driver.status.subscribers]
    driver.pass_time(9.0)
    assert ("one" in [one.name for one in driver.status.subscribers]) is stays


def test_registration_in_another_role_is_another_member() -> None:
    driver, _ = seeded()
    driver.greet()
    driver.receive(READER_CONTROL, Join(request=1, positions=(at(1),)))
    reader = member(driver)
    assert (reader.registration, reader.topics) == (registration("reader").hex(), 1)
    driver.receive(b"op", hello("reader", OPERATOR, CONTROL_CHANNEL))
    operator = member(driver, "operator")
    assert (operator.registration, operator.topics) == (registration("reader").hex(), 0)
    assert codes(driver.receive(READER_CONTROL, Drop(request=1, topics=()))) == ["HELLO"]


def test_silent_reader_is_suspect_then_lost_and_its_streams_end() -> None:
    """P-LIVE-1."""
    driver, _ = seeded()
    driver.greet()
    driver.receive(READER_BULK, CatchUp(stream=3, credit=0, wanted=(want(1),)))
    assert member(driver).state == "LIVE"
    driver.pass_time(2.5)
    assert member(driver).state == "SUSPECT"
    assert driver.status.streams == 1
    driver.pass_time(6.5)
    assert member(driver).state == "LOST"
    assert driver.status.streams == 0
    assert driver.hub.counts.members_lost == 2, "the publisher was silent, too"
    driver.receive(READER_CONTROL, REFUSAL)
    assert member(driver).state == "LIVE", "any message is a sign of life"


def test_keep_alive_is_a_sign_of_life_and_changes_nothing_else() -> None:
    """P-LIVE-6."""
    driver, publisher = seeded()
    driver.put(publisher.change(1))
    driver.greet()
    report = ReaderStatus(positions=(at(1, 1),), lag_us=300_000, held_bytes=7, budget_bytes=9)
    driver.receive(READER_CONTROL, report)
    before = member(driver)
    for _ in range(9):
        driver.pass_time(1.0)
        assert driver.receive(READER_CONTROL, KeepAlive()) == []
        assert member(driver) == before
    driver.pass_time(9.0)
    assert member(driver).state == "LOST"
    assert driver.receive(READER_CONTROL, KeepAlive()) == []
    assert member(driver) == before


def test_publisher_lives_by_its_deltas() -> None:
    """P-LIVE-1."""
    driver, publisher = seeded()
    for _ in range(10):
        driver.pass_time(1.5)
        driver.put(publisher.change(1))
    driver.tick()
    assert member(driver, "publisher").state == "LIVE"
    assert driver.hub.counts.members_lost == 0


@pytest.mark.parametrize(
    ("leave", "members"),
    [
        (lambda driver: driver.receive(READER_CONTROL, Bye(reason="closed")), 1),
        (lambda driver: driver.hub.end_streams(READER_BULK), 2),
    ],
    ids=["says goodbye", "does not read"],
)
def test_reader_that_leaves_loses_its_streams_at_once(
    leave: Callable[[HubDriver], object], members: int
) -> None:
    driver, publisher = seeded()
    driver.put(publisher.change(1))
    driver.greet()
    driver.receive(READER_BULK, CatchUp(stream=3, credit=AMPLE, wanted=(want(1),)))
    leave(driver)
    assert driver.turn() == []
    assert len(driver.status.subscribers) == members
    assert driver.hub.counts.unreachable == members - 1


def test_garbage_is_counted_and_refused_now_and_then() -> None:
    """P-BAD-3, P-VER-3."""
    driver, _ = seeded()
    driver.greet()
    garbage = Undecodable(READER_CONTROL, WireError("no message"))
    assert codes(driver.handle(garbage)) == ["WIRE"]
    assert driver.handle(garbage) == []
    assert driver.hub.counts.frames_undecodable == 2
    driver.now += 1.5
    other = Undecodable(READER_CONTROL, VersionMismatch("1", "2"))
    assert codes(driver.handle(other)) == ["VERSION"]


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
    assert driver.receive(b"stranger", REFUSAL) == driver.receive(CONTROL, REFUSAL) == []


def test_hub_without_a_publisher_does_not_serve() -> None:
    (reason,) = verdict(HubDriver().hub.status(now=2000.0)).reasons
    assert (reason.code, reason.state, reason.starting) == (
        *("no_catalogd", Serving.NOT_SERVING),
        True,
    )


def test_catalogd_that_has_announced_nothing_is_named_to_operators_and_not_to_readers() -> None:
    """P-START-9."""
    driver, publisher = HubDriver(), PublisherPeer()
    driver.receive(CONTROL, hello("publisher", PUBLISHER, CONTROL_CHANNEL))
    assert driver.receive(CONTROL, Introduction(catalog_address="tcp://c:26000")) == []

    def named(peer: bytes, role: int) -> str:
        answers = driver.receive(peer, hello(peer.decode(), role, CONTROL_CHANNEL))
        return next(one.catalog_address for one in answers if isinstance(one, Welcome))

    assert (named(b"operator", OPERATOR), named(b"reader", READER)) == ("tcp://c:26000", "")
    assert driver.status.catalog_address == "tcp://c:26000"
    (reason,) = verdict(driver.status).reasons
    assert (reason.code, reason.starting) == ("no_catalogd", True)
    assert reason.what.startswith("publisher at tcp://c:26000 is connected, and has not read")
    driver.receive(CONTROL, publisher.announce())
    assert driver.status.unannounced == ""
    assert (
        named(b"another", OPERATOR) == named(b"one more", READER) == driver.status.catalog_address
    )


def test_catalogd_that_has_left_before_it_announced_anything_is_not_named() -> None:
    driver = HubDriver()
    driver.receive(CONTROL, hello("publisher", PUBLISHER, CONTROL_CHANNEL))
    driver.receive(CONTROL, Introduction(catalog_address="c"))
    driver.receive(CONTROL, Bye(reason="ends"))
    assert (driver.status.unannounced, driver.status.catalog_address) == ("", "")
    (reason,) = verdict(driver.status).reasons
    assert reason.what == "no catalogd has announced itself yet"


def test_catalogd_that_fell_silent_is_named_with_what_to_look_at() -> None:
    driver, _ = seeded()
    assert verdict(driver.status) == Verdict()
    status = driver.hub.status(now=driver.now + SUSPECT_S + 5)
    (reason,) = verdict(status).reasons
    assert (reason.code, reason.state) == ("catalogd_silent", Serving.DEGRADED), "it serves on"
    since = f"{status.publisher} at {status.catalog_address} has been silent for"
    assert reason.what.startswith(since)
    assert "--statestores" in reason.mend
    assert answer(status, ReadVerdict()).rows == verdict(status).rows
    facts = dict(answer(status, ReadStatus()).rows)
    found = [facts[name] for name in ("verdict", "problem", "warning")]
    assert found == ["degraded", "", reason.text]


def test_subscribers_that_died_are_named_for_a_while() -> None:
    """Given seven that fell silent and a command, then five are named, and later none."""
    driver, _ = seeded()

    def lost() -> list[Reason]:
        reasons = verdict(driver.status).reasons
        return [one for one in reasons if one.code == "subscribers_lost"]

    for name in "abcdefg":
        driver.greet(name)
    greeting = replace(hello("killed", READER, CONTROL_CHANNEL), is_command=True)
    driver.receive(b"killed", greeting)
    driver.pass_time(SUSPECT_S + 1)
    assert lost() == [], "it may be a pause"
    driver.pass_time(6.0)
    (reason,) = lost()
    assert reason.state is Serving.DEGRADED
    assert reason.what.endswith(": a for 9 s, b for 9 s, c for 9 s, d for 9 s, e for 9 s, 2 more")
    driver.pass_time(LOST_SHOWN_S - 5)
    assert lost() == []


@pytest.mark.parametrize(
    ("before", "address", "expected"),
    [
        ("is there", "tcp://other:26000", ["two_catalogds"]),
        ("is there", "", []),  # it has restarted, and its old connection has not ended yet
        ("has left", "tcp://other:26000", []),
        ("is silent", "tcp://other:26000", []),
    ],
)
def test_catalogd_that_takes_over_from_another_is_said_if_that_is_alive(
    before: str, address: str, expected: list[str]
) -> None:
    driver, _ = seeded()
    if before == "has left":
        driver.receive(CONTROL, Bye(reason="ends"))
    if before == "is silent":
        driver.pass_time(SUSPECT_S + 0.5)
    other = PublisherPeer(epoch=11)
    announce = other.announce()
    driver.greet("other", PUBLISHER)
    driver.receive(
        b"other-control",
        replace(announce, catalog_address=address or announce.catalog_address),
    )
    codes_now = [one.code for one in verdict(driver.status).reasons if one.code != "seeding"]
    assert codes_now == expected
    driver.pass_time(RIVAL_S + 1)
    assert "two_catalogds" not in [one.code for one in verdict(driver.status).reasons]


def test_hub_that_does_not_get_what_catalogd_announces_says_so() -> None:
    """Given a delta that was lost, a catch-up that is not answered, and deltas of other topics."""
    driver, publisher = seeded()
    sent: list[Message] = []

    def reasons_after(seconds: float) -> list[str]:
        for _ in range(int(seconds)):
            driver.put(publisher.change(1))
            sent.extend(driver.receive(CONTROL, publisher.heartbeat()))
            sent.extend(driver.pass_time(1.0))
        return [one.code for one in verdict(driver.status).reasons]

    lost = publisher.change(2)
    assert reasons_after(BEHIND_S - 5) == []
    assert driver.topic(2).version < lost.to_version
    assert reasons_after(10) == ["topics_behind"]
    assert len(catch_ups(sent)) > 1, "it goes on to ask"
    driver.receive(BULK, *publisher.answer(catch_ups(sent)[-1:]))
    assert reasons_after(2) == []


def test_subscribers_that_answer_and_are_not_current_are_named_unless_catalogd_is_silent() -> None:
    driver, _ = seeded()

    def late(lag_s: float) -> list[str]:
        lag_us = int(lag_s * 1e6)
        report = ReaderStatus(positions=(), lag_us=lag_us, held_bytes=0, budget_bytes=0)
        driver.receive(READER_CONTROL, report)
        return [one.what for one in verdict(driver.status).reasons]

    driver.greet()
    assert late(BEHIND_S - 1) == []
    assert late(BEHIND_S + 5) == ["subscribers have not been current: reader for 65 s"]
    silent = driver.hub.status(now=driver.now + SUSPECT_S)
    assert [one.code for one in verdict(silent).reasons] == ["catalogd_silent"]
    assert late(0) == []


def test_status_made_in_slices_agrees_with_itself_while_members_come_and_go() -> None:
    driver, publisher = seeded()
    for number in range(250):
        driver.receive(b"%d" % number, hello(f"reader-{number}", READER, CONTROL_CHANNEL))
    driver.put(publisher.change(0))
    before, made = driver.status, list[HubStatus | None]()
    for one in driver.hub.status_in_slices():
        made.append(one)
        driver.receive(b"%d" % (250 - len(made)), Bye(reason="closed"))
        driver.receive(b"new%d" % len(made), hello(f"new-{len(made)}", READER, CONTROL_CHANNEL))
        driver.put(publisher.change(1, content=b"%d" % len(made)))
    *pauses, status = made
    assert len(pauses) > 2
    assert set(pauses) == {None}
    assert status is not None
    facts = dict(answer(status, ReadStatus()).rows)
    assert facts["members"] == len(status.subscribers) >= len(before.subscribers)
    assert len({one.registration for one in status.subscribers}) == len(status.subscribers)
    assert facts["entries"] == sum(one.entries for one in status.topics) == 1


def test_status_made_in_slices_begins_anew_when_another_epoch_is_announced() -> None:
    driver, _ = seeded()
    slices = driver.hub.status_in_slices()
    assert next(slices) is None
    driver.connect(PublisherPeer(epoch=11, start=6, num_topics=2))
    status = next(one for one in slices if one is not None)
    assert (status.epoch, status.num_topics) == (11, 2)
    assert [one.topic for one in status.topics] == list(topic_ids(2))
    assert {one.version for one in status.topics} == {0}


@pytest.mark.parametrize(
    ("role", "may_be"),
    [
        (ClientRole.CATALOGD, {PUBLISHER}),
        (ClientRole.DRIVER, {READER, OPERATOR}),
        (ClientRole.OPERATOR, {READER, OPERATOR}),
        (ClientRole.OBSERVER, {READER, OPERATOR}),
        (ClientRole.HUB, set()),
    ],
)
def test_client_is_what_the_role_of_its_key_allows(role: ClientRole, may_be: set[Role]) -> None:
    driver = HubDriver()
    for wanted in Role:
        greeting = hello("x", wanted, CONTROL_CHANNEL)
        answers = driver.handle(MessageReceived(b"%d" % wanted, greeting, client(role)))
        assert codes(answers) == ([] if wanted in may_be else ["ROLE"])
    refused = len(Role) - len(may_be)
    assert driver.status.counts.refused == ({"ROLE": refused} if refused else {})


def test_connection_of_a_member_is_not_spoken_for_with_another_key() -> None:
    driver, _ = seeded()
    driver.greet()
    join = Join(request=7, positions=())
    other = replace(client(), name="other", public="o" * 40)
    answers = driver.handle(MessageReceived(READER_CONTROL, join, other))
    assert codes(answers) == ["HELLO"]


def test_member_whose_key_is_revoked_is_gone_with_its_catch_ups() -> None:
    driver, publisher = seeded()
    driver.greet()
    driver.put(publisher.change(1))
    wanted = Wanted(topic=1, level=FULL, epoch=driver.status.epoch, version=0)
    driver.receive(READER_BULK, CatchUp(stream=5, credit=1 << 20, wanted=(wanted,)))
    assert driver.hub.sending
    driver.hub.admit(Clients([client(ClientRole.CATALOGD)]))
    driver.hub.check()
    assert not driver.hub.sending
    assert [one.role for one in driver.status.subscribers] == ["publisher"]


def test_member_whose_key_has_another_role_by_now_is_gone() -> None:
    driver, _ = seeded()
    driver.greet()
    observer = replace(client(), role=ClientRole.OBSERVER)
    driver.hub.admit(Clients([client(ClientRole.CATALOGD), observer]))
    assert [one.role for one in driver.status.subscribers] == ["publisher"]


CATALOGD = client(ClientRole.CATALOGD)


def client_list(*clients: Client) -> ClientList:
    return ClientList(text=clients_text(Clients(clients)).encode())


def test_hub_admits_whom_the_last_list_names() -> None:
    """P-CLIENTS-2."""
    driver, _ = seeded()
    driver.greet()
    assert driver.receive(CONTROL, client_list(CATALOGD, client())) == []
    assert driver.receive(CONTROL, client_list(CATALOGD)) == []
    assert driver.admitted == [Clients([CATALOGD, client()]), Clients([CATALOGD])]
    assert [one.role for one in driver.status.subscribers] == ["publisher"]


def test_list_that_a_hub_has_already_is_not_admitted_again() -> None:
    driver, _ = seeded()
    for _ in range(2):
        driver.receive(CONTROL, client_list(CATALOGD, client()))
    assert len(driver.admitted) == 1


SECOND = replace(CATALOGD, name="other", public="o" * 40)


@pytest.mark.parametrize(
    "message",
    [
        ClientList(text=b"etl driver"),
        ClientList(text=b"\xff"),
        ClientList(text=b""),
        client_list(client()),
        client_list(SECOND, client()),
        client_list(CATALOGD, SECOND, client()),
    ],
    ids=["no line", "no text", "empty", "no catalogd", "another catalogd", "two catalogds"],
)
def test_list_that_its_sender_does_not_keep_is_refused_and_changes_nothing(
    message: ClientList,
) -> None:
    """P-CLIENTS-3, P-BAD-3."""
    driver, _ = seeded()
    driver.greet()
    before = picture(driver)
    assert refused(driver.receive(CONTROL, message)).code == "WIRE"
    assert driver.admitted == []
    assert picture(driver) == before


@pytest.mark.parametrize("peer", [READER_CONTROL, READER_BULK, BULK])
def test_list_is_taken_from_catalogd_on_control_alone(peer: bytes) -> None:
    """P-MSG-4."""
    driver, _ = seeded()
    driver.greet()
    assert refused(driver.receive(peer, client_list(CATALOGD))).code == "ROLE"
    assert driver.admitted == []


def test_members_that_know_next_keys_receive_the_servers_keys_and_their_changes() -> None:
    """P-CLIENTS-2, P-KEYS-1: behind Welcome on control."""
    driver, _ = seeded()
    driver.handle(HaveKeys(("h" * 40, "i" * 40)))
    driver.receive(CONTROL, client_list(CATALOGD, client()))
    _, keys = driver.receive(READER_CONTROL, hello("reader", READER, CONTROL_CHANNEL))
    public = CATALOGD.public
    assert keys == ServerKeys(hub="h" * 40, hub_next="i" * 40, catalogd=public, catalogd_next="")
    bulk = hello("reader", READER, BULK_CHANNEL)
    assert [type(one) for one in driver.receive(READER_BULK, bulk)] == [Welcome]
    following = replace(CATALOGD, next_public="n" * 40)
    sent = driver.receive(CONTROL, client_list(following, client()))
    assert sent == [replace(keys, catalogd_next="n" * 40)]
    driver.sent.clear()
    driver.handle(HaveKeys(("i" * 40,)))
    ((peer, told),) = driver.sent
    assert peer == READER_CONTROL
    assert (told.hub, told.hub_next) == ("i" * 40, "")


def test_publisher_is_told_where_the_pages_are() -> None:
    """P-PAGES-1: behind Welcome on control, to a publisher, if there are pages."""
    driver, _ = seeded()
    greeting = hello("publisher", PUBLISHER, CONTROL_CHANNEL)
    assert Introduction not in map(type, driver.receive(b"before", greeting))
    driver.hub.pages = "http://a:25010"
    assert Introduction(pages="http://a:25010") in driver.receive(b"again", greeting)
    on_bulk = replace(greeting, channel=BULK_CHANNEL)
    assert Introduction not in map(type, driver.receive(b"bulk", on_bulk))
    reader = hello("reader", READER, CONTROL_CHANNEL)
    assert Introduction not in map(type, driver.receive(READER_CONTROL, reader))


def test_hub_knows_where_the_pages_of_its_catalogd_are() -> None:
    """P-PAGES-2: what is no address is refused, and the former address stays."""
    driver, _ = seeded()
    assert driver.status.catalogd_pages == ""
    assert driver.receive(CONTROL, Introduction(pages="https://[::1]:25020")) == []
    assert driver.status.catalogd_pages == "https://[::1]:25020"
    driver.tick(1.0)
    (refused,) = driver.receive(CONTROL, Introduction(pages="javascript:alert(1)"))
    assert isinstance(refused, Refused)
    assert refused.code == "WIRE"
    assert driver.status.catalogd_pages == "https://[::1]:25020"


def test_next_key_of_catalogd_is_admitted_and_may_send_the_list() -> None:
    """P-KEYS-3, P-CLIENTS-3: the list of a catalogd that has its next key by now."""
    driver, _ = seeded()
    rotated = replace(CATALOGD, public="n" * 40, next_public="o" * 40)
    assert refused(driver.receive(CONTROL, client_list(rotated))).code == "WIRE"
    before = replace(CATALOGD, next_public="n" * 40)
    driver.receive(CONTROL, client_list(before))
    driver.clients[b"again"] = before
    driver.handle(MessageReceived(b"again", hello("again", PUBLISHER, CONTROL_CHANNEL), before))
    assert driver.receive(b"again", client_list(rotated)) == []
    assert driver.admitted[-1].keys() == {"n" * 40, "o" * 40}


def test_story_of_a_topic_has_what_was_stored_and_sent_of_it() -> None:
    driver, publisher = seeded()
    driver.receive(BULK, publisher.change(1))
    driver.receive(BULK, publisher.change(2))
    story = [line.partition(" ")[2] for line in driver.hub.story(1)]
    assert "in Announce" in story
    assert story[-1] == "out Filed topic=1"
    assert [line.partition(" ")[2] for line in driver.hub.story(2)][-1] == "out Filed topic=2"
    assert not any("Tick" in line or "Broadcast" in line for line in story)


def test_refusal_of_a_put_is_sent_behind_the_next_fact() -> None:
    driver, publisher = seeded()
    assert driver.hub.take_delta(b"nobody", encode(publisher.change(1)), now=driver.now) == ()
    assert codes(driver.tick()) == ["HELLO"]


def test_content_that_leaves_the_memory_of_a_hub_is_sent_as_stubs_of_the_same_version() -> None:
    memory = MemoryLimit(1 << 20)
    driver, publisher = seeded(memory=memory)
    for version in (1, 2):
        driver.put(publisher.commit(1, large(version)))
    driver.put(publisher.change(0))
    before, broadcast = driver.status, len(driver.frames)
    memory.warm.limit_bytes = 0
    memory.hold()
    driver.greet("reader")
    driver.tick()
    frames = [decode(frame) for frame in driver.frames[broadcast:]]
    assert not any(isinstance(one, Delta) for one in frames), "nothing is broadcast for it"
    driver.receive(b"reader-bulk", CatchUp(stream=3, credit=1 << 20, wanted=(want(1), want(0))))
    sent = [send.message for send in driver.hub.send_some(1 << 20)]
    rows = [entry for one in sent if isinstance(one, Chunk) for entry in one.entries]
    assert rows == [stub(entry) for n in (1, 0) for entry in publisher.topics[n].since(0)]
    assert driver.status.cold_bytes == sum(entry.size for entry in rows)
    less = sum(one.full_bytes for one in driver.status.topics)
    assert less == sum(one.full_bytes for one in before.topics) - driver.status.cold_bytes
