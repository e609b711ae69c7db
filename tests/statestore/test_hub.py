"""The hub as a whole: greetings, roles, who leads, silence, beacons, inspection, rubbish."""

import pytest

from topicast.statestore.facts import Put, Subscription, Undecodable, Unreachable
from topicast.tests.statestore.scripted import (
    BULK,
    CATALOG,
    CONTROL,
    DATA,
    READER_BULK,
    READER_CONTROL,
    ScriptedPublisher,
    Stage,
    connect,
    hello,
    registration,
    seeded,
    serve,
)
from topicast.topics.entries import FULL
from topicast.topics.errors import VersionMismatch, WireError
from topicast.topics.wire import encode
from topicast.topics.wire.header import barrier_prefix, prefix
from topicast.topics.wire.messages import (
    CONTROL_CHANNEL,
    OPERATOR,
    PUBLISHER,
    READER,
    Bye,
    CatchUp,
    Delta,
    Have,
    Inspect,
    Inspected,
    Join,
    Message,
    Position,
    Refused,
    Wanted,
    Welcome,
)


def code(said: list[Message]) -> str:
    (answer,) = said
    assert isinstance(answer, Refused)
    return answer.code


def test_hello_is_answered_on_both_connections() -> None:
    stage, _ = seeded()
    said = stage.greet()
    assert [type(one) for one in said] == [Welcome, Welcome]
    welcome = said[0]
    assert isinstance(welcome, Welcome)
    assert (welcome.data_address, welcome.catalog_address) == (DATA, CATALOG)
    assert (welcome.epoch, welcome.start, welcome.num_topics) == (10, 5, 4)
    assert (welcome.beacon_ms, welcome.lost_ms) == (250, 8000)


@pytest.mark.parametrize("offered", [(0, 0), (2, 99)])
def test_protocol_that_is_not_spoken_is_refused(offered: tuple[int, int]) -> None:
    """P-VER-1."""
    stage = Stage()
    greeting = hello("reader", READER, CONTROL_CHANNEL, protocol=offered)
    assert code(stage.say(READER_CONTROL, greeting)) == "VERSION"
    assert stage.hub.status(now=stage.now).subscribers == ()


def test_role_that_is_none_is_refused() -> None:
    assert code(Stage().say(READER_CONTROL, hello("x", 9, CONTROL_CHANNEL))) == "ROLE"


def test_stranger_is_asked_to_say_hello() -> None:
    """P-BAD-3: refused to its sender, counted, and nothing else changes."""
    stage, _ = seeded()
    said = stage.say(READER_CONTROL, Join(request=4, positions=()))
    assert code(said) == "HELLO"
    assert said[0].request == 4  # type: ignore[union-attr]  # a Refused, as code() asserted
    assert stage.hub.counts.refused == {"HELLO": 1}


def test_message_on_the_wrong_connection_or_of_the_wrong_role_is_refused() -> None:
    stage, publisher = seeded()
    stage.greet()
    wanted = Wanted(topic=1, level=FULL, epoch=10, version=0)
    catch_up = CatchUp(stream=3, credit=1, wanted=(wanted,))
    assert code(stage.say(READER_CONTROL, catch_up)) == "ROLE"
    assert code(stage.say(READER_BULK, publisher.announce())) == "ROLE"
    assert code(stage.put(READER_BULK, publisher.change(1))) == "ROLE"
    assert stage.deltas() == []


def test_put_of_a_stranger_goes_nowhere() -> None:
    stage, publisher = seeded()
    said = stage.tell(Put(b"stranger", encode(publisher.change(1)))) + stage.tick()
    assert code(said) == "HELLO"
    assert stage.deltas() == []


def test_full_house_is_said_with_a_time_to_come_again() -> None:
    stage = Stage(members_max=1)
    stage.greet("one")
    assert code(stage.say(b"two", hello("two", READER, CONTROL_CHANNEL))) == "FULL"


def test_publisher_is_told_what_the_hub_has_before_it_announces() -> None:
    """P-START-1."""
    stage, publisher = seeded()
    stage.put(BULK, publisher.change(1))
    said = stage.say(b"again", hello("publisher", PUBLISHER, CONTROL_CHANNEL))
    have = said[-1]
    assert isinstance(have, Have)
    assert (have.epoch, have.start) == (10, 5)
    assert have.versions == (0, 1, 0, 0, 0)


def test_newer_start_takes_over_and_the_old_one_is_told() -> None:
    """P-START-5."""
    stage, _ = seeded()
    newer = ScriptedPublisher(start=6)
    stage.say(b"n-control", hello("newer", PUBLISHER, CONTROL_CHANNEL))
    stage.say(b"n-bulk", hello("newer", PUBLISHER, 2))
    stage.say(b"n-control", newer.announce())
    old = [message for peer, message in stage.sent if peer == CONTROL]
    assert code(old[-1:]) == "START"
    assert stage.hub.status(now=stage.now).start == 6
    assert code(stage.put(BULK, newer.change(1))) == "START"


def test_lower_epoch_is_refused() -> None:
    """P-START-4."""
    stage, _ = seeded()
    older = ScriptedPublisher(epoch=9)
    assert code(stage.say(CONTROL, older.announce())) == "AHEAD"
    assert stage.hub.status(now=stage.now).epoch == 10


def test_beacon_says_where_the_hub_stands_and_its_sizes_now_and_then() -> None:
    """P-BEACON-2."""
    stage, publisher = seeded()
    stage.put(BULK, publisher.change(1))
    beacons = [stage.beacon() for _ in range(21)]
    assert {one.versions for one in beacons} == {(0, 1, 0, 0, 0)}
    assert [bool(one.sizes) for one in beacons].count(True) in (1, 2)
    assert beacons[0].catalog_address == CATALOG
    assert beacons[-1].age_ms > beacons[0].age_ms


def test_hub_that_is_being_seeded_sends_no_vector() -> None:
    """P-BEACON-3."""
    stage, publisher = Stage(), ScriptedPublisher()
    publisher.change(1)
    connect(stage, publisher)
    assert stage.beacon(0).versions == ()
    for part in publisher.hear(stage.answers()):
        stage.say(BULK, part)
    serve(stage, publisher)
    assert stage.beacon().versions == (0, 1, 0, 0, 0)


def test_barrier_is_answered_by_its_own_frame() -> None:
    """P-SUB-4."""
    stage, _ = seeded()
    asked = barrier_prefix(bytes(range(16)))
    stage.tell(Subscription(b"\1" + prefix(1, FULL)))
    assert stage.frames == []
    stage.tell(Subscription(b"\1" + asked))
    assert stage.frames == [asked]
    stage.tell(Subscription(b"\0" + asked))
    assert stage.frames == [asked]


def test_odd_subscription_is_counted_only() -> None:
    stage, _ = seeded()
    for frame in (b"\1", b"\1everything", b"\1" + prefix(9999, FULL)[:3], b""):
        assert stage.tell(Subscription(frame)) == []
    assert stage.hub.counts.subscriptions_odd >= 3
    assert stage.frames == []


def test_silent_reader_is_suspect_then_lost_and_its_streams_are_forgotten() -> None:
    """P-LIVE-1."""
    stage, publisher = seeded()
    stage.greet()
    wanted = Wanted(topic=1, level=FULL, epoch=10, version=0)
    stage.say(READER_BULK, CatchUp(stream=3, credit=0, wanted=(wanted,)))

    def state() -> str:
        (one,) = [r for r in stage.hub.status(now=stage.now).subscribers if r.role == "reader"]
        return one.state

    assert state() == "LIVE"
    stage.pass_time(2.5)
    assert state() == "SUSPECT"
    assert stage.hub.status(now=stage.now).streams == 1
    stage.pass_time(6.5)
    assert state() == "LOST"
    assert stage.hub.status(now=stage.now).streams == 0
    assert stage.hub.counts.lost >= 1
    stage.say(READER_CONTROL, hello("reader", READER, CONTROL_CHANNEL))
    assert state() == "LIVE"
    assert publisher.topics[1].version == 0


def test_reader_that_says_goodbye_is_gone_at_once() -> None:
    stage, _ = seeded()
    stage.greet()
    stage.say(READER_CONTROL, Bye(reason="closed"))
    roles = [one.role for one in stage.hub.status(now=stage.now).subscribers]
    assert roles == ["publisher"]


def test_unreachable_reader_loses_its_streams() -> None:
    stage, publisher = seeded()
    stage.put(BULK, publisher.change(1))
    stage.greet()
    wanted = Wanted(topic=1, level=FULL, epoch=10, version=0)
    stage.say(READER_BULK, CatchUp(stream=3, credit=1 << 20, wanted=(wanted,)))
    stage.tell(Unreachable(READER_BULK))
    assert stage.turn() == []
    assert stage.hub.counts.unreachable == 1


def test_rubbish_is_counted_and_answered_now_and_then() -> None:
    stage, _ = seeded()
    stage.greet()
    first = stage.tell(Undecodable(READER_CONTROL, WireError("no message")))
    assert code(first) == "WIRE"
    assert stage.tell(Undecodable(READER_CONTROL, WireError("no message"))) == []
    assert stage.hub.counts.undecodable == 2
    stage.now += 1.5
    other = stage.tell(Undecodable(READER_CONTROL, VersionMismatch("1", "2")))
    assert code(other) == "VERSION"


def test_refusal_is_never_answered() -> None:
    stage, _ = seeded()
    refusal = Refused(request=3, code="X", message="", retry_ms=0)
    assert stage.say(b"stranger", refusal) == []
    assert stage.say(CONTROL, refusal) == []


def test_operator_sees_tables_and_is_told_which_there_are() -> None:
    stage, _ = seeded()
    stage.say(b"op", hello("operator", OPERATOR, CONTROL_CHANNEL))
    for what, column in (("status", "name"), ("topics", "topic"), ("subscribers", "name")):
        (answer,) = stage.say(b"op", Inspect(request=2, what=what))
        assert isinstance(answer, Inspected)
        assert answer.columns[0] == column
        assert answer.rows
    assert code(stage.say(b"op", Inspect(request=2, what="nonsense"))) == "INSPECT"


def test_registration_ties_the_connections_of_one_member() -> None:
    stage, _ = seeded()
    stage.greet()
    position = Position(topic=1, level=FULL, epoch=10, version=0)
    stage.say(READER_CONTROL, Join(request=1, positions=(position,)))
    (reader,) = [r for r in stage.hub.status(now=stage.now).subscribers if r.role == "reader"]
    assert reader.registration == registration("reader").hex()
    assert reader.topics == 1


def test_delta_of_an_epoch_that_was_not_announced_waits() -> None:
    stage, _ = seeded()
    after = ScriptedPublisher(epoch=11)
    delta: Delta = after.change(1)
    assert code(stage.put(BULK, delta) + stage.tick()) == "START"
    assert stage.deltas() == []
