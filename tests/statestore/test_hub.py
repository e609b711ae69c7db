"""The hub as a whole: greetings, roles, who leads, silence, heartbeats, inspection, rubbish."""

from dataclasses import replace

import pytest

from topicast.statestore.facts import Put, Subscription, Undecodable, Unreachable
from topicast.statestore.hub import HEARTBEAT_MS, SIZES_EVERY
from topicast.statestore.status import Counts, HubStatus
from topicast.statestore.validation import request_id
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
    value,
)
from topicast.topics.entries import FULL
from topicast.topics.errors import VersionMismatch, WireError
from topicast.topics.wire import decode, encode, messages
from topicast.topics.wire.header import PROTOCOL, barrier_prefix, prefix
from topicast.topics.wire.messages import (
    BULK_CHANNEL,
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
    Delta,
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

PLACE = {
    "topic": 1,
    "level": FULL,
    "epoch": 10,
    "start": 5,
    "from_version": 0,
    "to_version": 1,
    "floor": 0,
    "sent_us": 1,
}


def code(said: list[Message]) -> str:
    (answer,) = said
    assert isinstance(answer, Refused)
    return answer.code


def picture(stage: Stage) -> HubStatus:
    """Return all that a hub shows, but for what it counts."""
    return replace(stage.hub.status(now=stage.now), counts=Counts())


def test_hello_is_answered_on_both_connections() -> None:
    """P-SUB-4."""
    stage, _ = seeded()
    said = stage.greet()
    assert [type(one) for one in said] == [Welcome, Welcome]
    welcome = said[0]
    assert isinstance(welcome, Welcome)
    assert (welcome.data_address, welcome.catalog_address) == (DATA, CATALOG)
    assert (welcome.epoch, welcome.start, welcome.num_topics) == (10, 5, 4)
    assert (welcome.heartbeat_ms, welcome.lost_ms) == (250, 8000)


def test_welcome_names_the_version_chosen_and_the_features_of_both() -> None:
    """P-VER-1."""
    greeting = hello("reader", READER, CONTROL_CHANNEL, protocol=(0, 9))
    (welcome,) = Stage().say(READER_CONTROL, replace(greeting, features=0b111))
    assert isinstance(welcome, Welcome)
    assert (welcome.protocol, welcome.features) == (PROTOCOL, 0)
    assert (welcome.epoch, welcome.start, welcome.num_topics) == (0, 0, 0)
    assert (welcome.catalog_address, welcome.catalog_name) == ("", "")


@pytest.mark.parametrize("offered", [(0, 0), (2, 99)])
def test_protocol_that_is_not_spoken_is_refused(offered: tuple[int, int]) -> None:
    """P-VER-1."""
    stage = Stage()
    greeting = hello("reader", READER, CONTROL_CHANNEL, protocol=offered)
    assert code(stage.say(READER_CONTROL, greeting)) == "VERSION"
    assert stage.hub.status(now=stage.now).subscribers == ()


@pytest.mark.parametrize(
    "message",
    [
        Join(request=4, positions=(Position(topic=1, level=FULL, epoch=10, version=0),)),
        Drop(request=4, topics=(1,)),
        Inspect(request=4, what="status"),
        CatchUp(stream=4, credit=1, wanted=()),
        Credit(stream=4, amount=1),
        Cancel(stream=4),
        Chunk(**PLACE, stream=4, sequence=0, resume_version=0, resume_key=b"", entries=()),
        ScriptedPublisher(start=6).announce(),
        ScriptedPublisher().heartbeat(watermark=99),
        ScriptedPublisher().change(1),
        Bye(reason="closed"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_stranger_is_asked_to_say_hello_and_changes_nothing(message: Message) -> None:
    """P-SUB-4, P-BAD-3: also from whoever had said it to the hub before this one."""
    stage, _ = seeded()
    before = picture(stage)
    said = stage.say(READER_CONTROL, message)
    assert code(said) == "HELLO"
    assert said[0].request == request_id(message)  # type: ignore[union-attr]  # a Refused
    assert stage.hub.counts.refused == {"HELLO": 1}
    assert picture(stage) == before
    assert stage.frames == []


def test_message_on_the_wrong_connection_or_of_the_wrong_role_is_refused() -> None:
    """P-MSG-4."""
    stage, publisher = seeded()
    stage.greet()
    wanted = Wanted(topic=1, level=FULL, epoch=10, version=0)
    catch_up = CatchUp(stream=3, credit=1, wanted=(wanted,))
    assert code(stage.say(READER_CONTROL, catch_up)) == "ROLE"
    assert code(stage.say(READER_BULK, publisher.announce())) == "ROLE"
    assert code(stage.put(READER_BULK, publisher.change(1))) == "ROLE"
    assert stage.deltas() == []


def test_put_of_a_stranger_goes_nowhere() -> None:
    """P-SUB-4."""
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
    on_control = stage.say(b"again", hello("publisher", PUBLISHER, CONTROL_CHANNEL))
    assert [type(one) for one in on_control] == [Welcome, Have]
    assert on_control[1] == Have(epoch=10, start=5, versions=(0, 1, 0, 0, 0))
    on_bulk = stage.say(b"again-bulk", hello("publisher", PUBLISHER, BULK_CHANNEL))
    assert [type(one) for one in on_bulk] == [Welcome]
    other = stage.say(b"other", hello("other", PUBLISHER, CONTROL_CHANNEL))
    assert other[1:] == on_control[1:], "whoever it is"


def held_version(stage: Stage, topic: int = 1) -> int:
    """Return the version of ``topic`` that the hub names to a publisher."""
    _, have = stage.say(b"again", hello("publisher", PUBLISHER, CONTROL_CHANNEL))
    assert isinstance(have, Have)
    return have.versions[topic]


def large(publisher: ScriptedPublisher, version: int) -> Delta:
    """Change topic 1 by so much that a chunk holds only some of these changes."""
    return publisher.commit(1, value(b"db\0t%02d\0" % version, version, b"x" * 60_000))


def test_have_counts_what_a_catch_up_has_filed_before_it_ends() -> None:
    """P-START-1: the version of anything that is held, also while the topic answers no reader."""
    stage, publisher = seeded()
    stage.put(BULK, large(publisher, 1))
    for version in range(2, 12):
        large(publisher, version)
    stage.put(BULK, publisher.change(1))
    first, *rest = publisher.hear(stage.tick())
    assert held_version(stage) == 1, "nothing of the catch-up was filed yet"
    stage.say(BULK, first)
    assert isinstance(first, Chunk)
    assert 1 < held_version(stage) == first.resume_version < publisher.topics[1].version
    for part in rest:
        stage.say(BULK, part)
    serve(stage, publisher)
    assert held_version(stage) == publisher.topics[1].version == 12


def test_have_counts_nothing_that_a_snapshot_has_replaced() -> None:
    """P-START-1: what the hub had before a snapshot began is held no longer."""
    stage, publisher = seeded()
    for version in range(1, 12):
        stage.put(BULK, large(publisher, version))
    assert held_version(stage) == 11
    publisher.change(1)
    publisher.topics[1].raise_floor(12)
    stage.put(BULK, publisher.change(1))
    first = publisher.hear(stage.tick())[0]
    stage.say(BULK, first)
    assert isinstance(first, Chunk)
    assert held_version(stage) == first.resume_version < 11


def test_nothing_is_taken_of_a_publisher_before_it_announces() -> None:
    """P-START-4."""
    stage, _ = seeded()
    early = ScriptedPublisher()
    stage.say(b"e-control", hello("early", PUBLISHER, CONTROL_CHANNEL))
    stage.say(b"e-bulk", hello("early", PUBLISHER, BULK_CHANNEL))
    before = picture(stage)
    assert code(stage.say(b"e-control", early.heartbeat(watermark=99))) == "START"
    assert code(stage.put(b"e-bulk", early.change(1))) == "START"
    chunk = Chunk(**PLACE, stream=1, sequence=0, resume_version=0, resume_key=b"", entries=())
    assert code(stage.say(b"e-bulk", chunk)) == "START"
    assert stage.hub.counts.refused == {"START": 3}
    assert picture(stage) == before
    assert stage.frames == []
    stage.say(b"e-control", early.announce())
    assert stage.hub.status(now=stage.now).publisher == "early"


def test_newer_start_takes_over_and_the_old_one_is_told() -> None:
    """P-START-4."""
    stage, _ = seeded()
    newer = ScriptedPublisher(start=6)
    stage.say(b"n-control", hello("newer", PUBLISHER, CONTROL_CHANNEL))
    stage.say(b"n-bulk", hello("newer", PUBLISHER, 2))
    stage.say(b"n-control", newer.announce())
    old = [message for peer, message in stage.sent if peer == CONTROL]
    assert code(old[-1:]) == "START"
    assert stage.hub.status(now=stage.now).start == 6
    assert code(stage.put(BULK, newer.change(1))) == "START"


def test_start_that_judged_an_older_have_is_sent_the_new_one_and_does_not_lead_yet() -> None:
    """P-START-4: only a start that was compared with what the hub holds now may lead."""
    stage, publisher = seeded()
    newer = ScriptedPublisher(start=6)
    _, judged = stage.say(b"n-control", hello("newer", PUBLISHER, CONTROL_CHANNEL))
    assert judged == Have(epoch=10, start=5, versions=(0, 0, 0, 0, 0))
    stage.put(BULK, publisher.change(1))
    now_held = Have(epoch=10, start=5, versions=(0, 1, 0, 0, 0))
    assert stage.say(b"n-control", newer.announce()) == [now_held]
    assert stage.hub.status(now=stage.now).start == 5
    stage.say(b"n-control", newer.announce())
    assert stage.hub.status(now=stage.now).start == 6


def test_lower_epoch_is_refused() -> None:
    """P-START-5."""
    stage, _ = seeded()
    older = ScriptedPublisher(epoch=9)
    assert code(stage.say(CONTROL, older.announce())) == "AHEAD"
    assert stage.hub.status(now=stage.now).epoch == 10


def test_heartbeat_says_where_the_hub_stands_and_its_sizes_now_and_then() -> None:
    """P-HEARTBEAT-2."""
    stage, publisher = seeded()
    stage.put(BULK, publisher.change(1))
    heartbeats = [stage.heartbeat() for _ in range(45)]
    assert {one.versions for one in heartbeats} == {(0, 1, 0, 0, 0)}
    assert {one.interval_ms for one in heartbeats} == {HEARTBEAT_MS}
    first = heartbeats[0].sequence
    assert [one.sequence for one in heartbeats] == list(range(first, first + 45))
    assert {one.sequence % SIZES_EVERY for one in heartbeats if one.sizes} == {1}
    (sizes,) = {one.sizes for one in heartbeats if one.sizes}
    assert [bool(size) for size in sizes] == [False, True, False, False, False]
    assert heartbeats[0].catalog_address == CATALOG
    assert heartbeats[-1].age_ms > heartbeats[0].age_ms


def test_hub_that_is_being_seeded_sends_no_vector() -> None:
    """P-HEARTBEAT-3."""
    stage, publisher = Stage(), ScriptedPublisher()
    publisher.change(1)
    connect(stage, publisher)
    assert stage.heartbeat(0).versions == ()
    for part in publisher.hear(stage.answers()):
        stage.say(BULK, part)
    serve(stage, publisher)
    assert stage.heartbeat().versions == (0, 1, 0, 0, 0)


@pytest.mark.parametrize("heartbeat_ms", [HEARTBEAT_MS, 1000])
def test_heartbeats_go_out_as_often_as_the_hub_was_told(heartbeat_ms: int) -> None:
    """P-HEARTBEAT-2."""
    stage, _ = seeded(heartbeat_ms=heartbeat_ms)
    stage.pass_time(10 * heartbeat_ms / 1000)
    heartbeats = [one for one in map(decode, stage.frames) if isinstance(one, Heartbeat)]
    assert len(heartbeats) in (10, 11)


def test_restarted_hub_is_filled_by_catch_ups_and_its_readers_stay_where_they_are() -> None:
    """P-LIVE-4."""
    _, publisher = seeded()
    publisher.change(1)
    stage = Stage()
    stage.greet()
    at = Position(topic=1, level=FULL, epoch=10, version=1)
    told = messages.Status(positions=(at,), lag_us=0, held_bytes=0, budget_bytes=0)
    assert stage.say(READER_CONTROL, told) == []
    said = connect(stage, publisher)
    assert Have(epoch=0, start=0, versions=()) in said
    assert stage.hub.status(now=stage.now).topics_behind == 5
    serve(stage, publisher)
    assert stage.deltas() == []
    (joined,) = stage.say(READER_CONTROL, Join(request=1, positions=(at,)))
    assert isinstance(joined, Joined)
    assert joined.topics[0].answer == CURRENT


def test_barrier_is_answered_by_its_own_frame() -> None:
    """P-SUB-2."""
    stage, _ = seeded()
    asked = barrier_prefix(bytes(range(16)))
    stage.tell(Subscription(b"\1" + prefix(1, FULL)))
    assert stage.frames == []
    stage.tell(Subscription(b"\1" + asked))
    assert stage.frames == [asked]
    stage.tell(Subscription(b"\0" + asked))
    assert stage.frames == [asked]


def test_silent_reader_is_suspect_then_lost_and_its_streams_are_forgotten() -> None:
    """P-LIVE-1."""
    stage, _ = seeded()
    stage.greet()
    wanted = Wanted(topic=1, level=FULL, epoch=10, version=0)
    stage.say(READER_BULK, CatchUp(stream=3, credit=0, wanted=(wanted,)))
    assert state(stage) == "LIVE"
    stage.pass_time(2.5)
    assert state(stage) == "SUSPECT"
    assert stage.hub.status(now=stage.now).streams == 1
    stage.pass_time(6.5)
    assert state(stage) == "LOST"
    assert stage.hub.status(now=stage.now).streams == 0
    assert stage.hub.counts.lost == 2, "the publisher was silent, too"
    stage.say(READER_CONTROL, Refused(request=1, code="X", message="", retry_ms=0))
    assert state(stage) == "LIVE", "any message is a sign of life"


def test_publisher_lives_by_its_deltas() -> None:
    """P-LIVE-1."""
    stage, publisher = seeded()
    for _ in range(10):
        stage.pass_time(1.5)
        stage.put(BULK, publisher.change(1))
    stage.tick()
    assert state(stage, "publisher") == "LIVE"
    assert stage.hub.counts.lost == 0


def state(stage: Stage, role: str = "reader") -> str:
    (one,) = [one for one in stage.hub.status(now=stage.now).subscribers if one.role == role]
    return one.state


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
    """P-BAD-3."""
    stage, _ = seeded()
    stage.greet()
    first = stage.tell(Undecodable(READER_CONTROL, WireError("no message")))
    assert code(first) == "WIRE"
    assert stage.tell(Undecodable(READER_CONTROL, WireError("no message"))) == []
    assert stage.hub.counts.undecodable == 2
    stage.now += 1.5
    other = stage.tell(Undecodable(READER_CONTROL, VersionMismatch("1", "2")))
    assert code(other) == "VERSION"


def test_peer_that_waits_for_an_answer_is_refused_each_time() -> None:
    """P-BAD-3."""
    stage, _ = seeded()
    for request in (1, 2, 3):
        (answer,) = stage.say(b"stranger", Drop(request=request, topics=()))
        assert isinstance(answer, Refused)
        assert (answer.request, answer.code) == (request, "HELLO")


def test_refusal_is_never_answered() -> None:
    """P-BAD-3."""
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
