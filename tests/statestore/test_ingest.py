"""What comes from a publisher: seeded, followed, filed, acknowledged, handed on, or refused."""

from dataclasses import replace

import pytest

from topicast.statestore.facts import Put, Subscription
from topicast.statestore.ingest import BELIEVED_S, QUIET_S, Ingest
from topicast.tests.statestore.scripted import (
    BULK,
    CONTROL,
    ScriptedPublisher,
    Stage,
    connect,
    contents,
    hello,
    seeded,
    serve,
    value,
)
from topicast.topics.entries import FULL, MINIMAL, STUB, prefix_tombstone, tombstone
from topicast.topics.follower import FollowerState
from topicast.topics.sharding import NAMESPACE
from topicast.topics.wire import encode
from topicast.topics.wire.header import prefix
from topicast.topics.wire.messages import (
    CONTROL_CHANNEL,
    PUBLISHER,
    CatchUp,
    Chunk,
    Filed,
    Have,
    Refused,
)

KEY = b"db\0table\0"


def _ingest(stage: Stage) -> Ingest:
    return stage.hub.ingest


def _codes(said: list) -> list[str]:
    return [message.code for message in said if isinstance(message, Refused)]


def test_cold_hub_asks_for_every_topic_in_one_request_and_is_seeded_when_all_have_come() -> None:
    """P-DATA-4: the first catch-up of a topic is published to nobody."""
    stage, publisher = Stage(), ScriptedPublisher()
    publisher.change(2)
    connect(stage, publisher)
    assert _ingest(stage).seeding
    assert stage.heartbeat(0).versions == ()
    said = stage.sent[-1][1]
    assert isinstance(said, CatchUp)
    assert [one.topic for one in said.wanted] == [0, 1, 2, 3, NAMESPACE]
    for part in publisher.hear([said]):
        assert _ingest(stage).seeding
        stage.say(BULK, part)
    assert not _ingest(stage).seeding
    assert stage.heartbeat().versions == (0, 0, 1, 0, 0)
    assert stage.deltas() == []


def test_delta_that_follows_is_handed_on_as_the_same_frame_and_filed_and_acknowledged() -> None:
    """P-DATA-2."""
    stage, publisher = seeded()
    delta = publisher.change(1)
    assert stage.put(BULK, delta) == []
    assert stage.frames == [encode(delta)]
    slot = _ingest(stage).slots[1]
    assert contents(slot.topic) == contents(publisher.topics[1])
    assert stage.tick() == [Filed(epoch=10, start=5, versions=((1, 1),))]
    assert stage.tick() == []


def test_deltas_of_one_turn_are_acknowledged_together() -> None:
    stage, publisher = seeded()
    for topic in (1, 2, 1):
        stage.put(BULK, publisher.change(topic))
    assert stage.tick() == [Filed(epoch=10, start=5, versions=((1, 2), (2, 1)))]


def test_doubled_delta_is_acknowledged_again_and_not_handed_on() -> None:
    stage, publisher = seeded()
    delta = publisher.change(1)
    stage.put(BULK, delta)
    stage.tick()
    stage.frames.clear()
    stage.put(BULK, delta)
    assert stage.frames == []
    assert stage.tick() == [Filed(epoch=10, start=5, versions=((1, 1),))]


def test_minimal_frame_is_derived_only_while_somebody_listens() -> None:
    """P-DATA-2."""
    stage, publisher = seeded()
    stage.listen(1, MINIMAL)
    delta = publisher.change(1)
    stage.put(BULK, delta)
    full, minimal = stage.deltas()
    assert full == delta
    assert (minimal.level, minimal.from_version, minimal.to_version) == (MINIMAL, 0, 1)
    assert [(entry.key, entry.kind, entry.value) for entry in minimal.entries] == [
        (KEY, STUB, None)
    ]
    stage.tell(Subscription(b"\0" + prefix(1, MINIMAL)))
    stage.put(BULK, publisher.change(1))
    assert [delta.level for delta in stage.deltas()] == [FULL]


def test_gap_is_caught_up_and_told_to_readers_as_stubs() -> None:
    """P-DATA-4."""
    stage, publisher = seeded()
    stage.put(BULK, publisher.change(1))
    stage.listen(1, MINIMAL)
    publisher.change(1, b"db\0lost\0")
    stage.frames.clear()
    stage.put(BULK, publisher.change(1, b"db\0late\0"))
    assert stage.deltas() == []
    assert _ingest(stage).slots[1].topic.version == 1
    serve(stage, publisher)
    full, minimal = stage.deltas()
    assert (full.from_version, full.to_version, full.stubbed) == (1, 3, True)
    assert [entry.key for entry in full.entries] == [b"db\0lost\0", b"db\0late\0"]
    assert {entry.kind for entry in full.entries} == {STUB}
    assert not full.invalidate_all
    assert minimal == replace(full, level=MINIMAL, stubbed=False)
    assert contents(_ingest(stage).slots[1].topic) == contents(publisher.topics[1])


def test_deltas_that_wait_for_the_end_of_a_catch_up_are_handed_on_after_it() -> None:
    stage, publisher = seeded()
    publisher.change(1)
    stage.put(BULK, publisher.change(1))
    parts = publisher.hear(stage.tick())
    waiting = publisher.change(1, b"db\0new\0")
    stage.put(BULK, waiting)
    for part in parts:
        stage.say(BULK, part)
    told, after = stage.deltas()
    assert (told.from_version, told.to_version, told.stubbed) == (0, 2, True)
    assert after == waiting


def test_stubbed_transaction_is_caught_up_before_it_is_told() -> None:
    stage, publisher = seeded()
    stage.put(BULK, publisher.change(1))
    stage.deltas()
    stage.put(BULK, publisher.commit(1, value(KEY, 2, b"x" * 70_000), stubbed=True))
    assert stage.deltas() == []
    serve(stage, publisher)
    (told,) = stage.deltas()
    assert (told.from_version, told.to_version, told.stubbed, told.invalidate_all) == (
        1,
        2,
        True,
        False,
    )
    assert contents(_ingest(stage).slots[1].topic) == {KEY: b"x" * 70_000}


def test_catch_up_of_more_stubs_than_a_frame_holds_is_told_as_an_invalidate_all_marker() -> None:
    stage, publisher = seeded()
    stage.put(BULK, publisher.change(1))
    stage.deltas()
    many = [value(b"db\0t%05d\0" % number, 2) for number in range(2000)]
    publisher.commit(1, *many)
    stage.put(BULK, publisher.change(1))
    serve(stage, publisher)
    (told,) = stage.deltas()
    assert (told.from_version, told.to_version, told.entries) == (1, 3, ())
    assert told.stubbed
    assert told.invalidate_all


def test_snapshot_below_the_floor_is_told_as_an_invalidate_all_marker_from_zero() -> None:
    """P-FLOOR-4, P-DATA-4."""
    stage, publisher = seeded()
    stage.put(BULK, publisher.change(1))
    publisher.commit(1, tombstone(KEY, 2))
    publisher.change(1, b"db\0other\0")
    publisher.topics[1].raise_floor(2)
    stage.deltas()
    stage.put(BULK, publisher.change(1, b"db\0third\0"))
    serve(stage, publisher)
    (told,) = stage.deltas()
    assert (told.from_version, told.to_version, told.invalidate_all) == (0, 4, True)
    assert contents(_ingest(stage).slots[1].topic) == contents(publisher.topics[1])
    assert _ingest(stage).slots[1].topic.floor == 2


def test_catch_up_that_brings_nothing_new_is_not_told() -> None:
    stage, publisher = seeded()
    slot = _ingest(stage).slots[1]
    stage.put(BULK, publisher.change(1))
    stage.deltas()
    liar = ScriptedPublisher()
    liar.topics[1].version = 7
    stage.say(CONTROL, liar.heartbeat())
    asked = stage.pass_time(2 * QUIET_S)
    assert slot.follower.state is FollowerState.BEHIND
    for part in publisher.hear(asked):
        stage.say(BULK, part)
    assert slot.follower.state is FollowerState.LIVE
    assert stage.deltas() == []


def test_floor_of_a_delta_drops_tombstones() -> None:
    """P-FLOOR-4."""
    stage, publisher = seeded()
    stage.put(BULK, publisher.change(1))
    stage.put(BULK, publisher.commit(1, prefix_tombstone(KEY, 2)))
    topic = _ingest(stage).slots[1].topic
    assert len(topic) == 1
    publisher.topics[1].raise_floor(2)
    stage.put(BULK, publisher.change(1, b"db\0other\0"))
    assert (topic.floor, len(topic)) == (2, 1)


def test_lost_last_delta_is_noticed_from_the_heartbeat_once_bulk_is_quiet() -> None:
    """P-HEARTBEAT-4."""
    stage, publisher = seeded()
    publisher.change(3)
    assert stage.say(CONTROL, publisher.heartbeat(watermark=9)) == []
    assert stage.tick(QUIET_S / 2) == []
    assert _ingest(stage).watermark == 0
    asked = stage.pass_time(2 * QUIET_S)
    assert [type(message) for message in asked] == [CatchUp]
    for part in publisher.hear(asked):
        stage.say(BULK, part)
    stage.pass_time(0.1)
    assert _ingest(stage).slots[3].topic.version == 1
    assert stage.heartbeat().watermark == 9


def test_heartbeat_that_overtook_a_delta_orders_no_catch_up() -> None:
    """P-HEARTBEAT-4."""
    stage, publisher = seeded()
    delta = publisher.change(3)
    stage.say(CONTROL, publisher.heartbeat(watermark=9))
    stage.tick(QUIET_S / 2)
    stage.put(BULK, delta)
    said = stage.pass_time(1.0)
    assert [type(message) for message in said] == [Filed]
    assert _ingest(stage).watermark == 9


def test_heartbeats_are_believed_in_the_end_though_bulk_is_never_quiet() -> None:
    """P-HEARTBEAT-4."""
    stage, publisher = seeded()
    publisher.change(3)
    asked = []
    for turn in range(int(BELIEVED_S / 0.05) + 2):
        if turn % 3 == 0:
            stage.say(CONTROL, publisher.heartbeat())
        stage.put(BULK, publisher.change(1))
        asked += [one for one in stage.tick(0.05) if isinstance(one, CatchUp)]
    assert [one.wanted[0].topic for one in asked] == [3]


def test_watermark_waits_for_the_versions_that_it_speaks_of() -> None:
    stage, publisher = seeded()
    stage.say(CONTROL, publisher.heartbeat(watermark=4))
    assert _ingest(stage).watermark == 4
    one, other = publisher.change(1), publisher.change(2)
    stage.say(CONTROL, publisher.heartbeat(watermark=6))
    stage.put(BULK, one)
    stage.tick(0.05)
    assert _ingest(stage).watermark == 4
    stage.put(BULK, other)
    assert stage.heartbeat().watermark == 6


def test_heartbeat_raises_floors_of_what_is_reached_only() -> None:
    """P-FLOOR-4."""
    stage, publisher = seeded()
    stage.put(BULK, publisher.change(1))
    stage.put(BULK, publisher.commit(1, tombstone(KEY, 2)))
    publisher.topics[1].raise_floor(2)
    publisher.topics[2].version = 7
    publisher.topics[2].raise_floor(7)
    stage.say(CONTROL, publisher.heartbeat())
    slots = _ingest(stage).slots
    assert (slots[1].topic.floor, len(slots[1].topic)) == (2, 0)
    assert slots[2].topic.floor == 0


def test_heartbeat_without_versions_names_the_catalog_only() -> None:
    stage, publisher = seeded()
    heartbeat = replace(
        publisher.heartbeat(), versions=(), floors=(), catalog_address="tcp://other:1"
    )
    assert stage.say(CONTROL, heartbeat) == []
    assert _ingest(stage).catalog_address == "tcp://other:1"
    assert stage.say(CONTROL, replace(heartbeat, catalog_address="")) == []
    assert stage.heartbeat().catalog_address == "tcp://other:1"


def test_new_start_of_the_same_epoch_is_followed_without_a_resync() -> None:
    stage, publisher = seeded()
    stage.put(BULK, publisher.change(1))
    stage.tick()
    publisher.start = 6
    said = connect(stage, publisher)
    assert Have(epoch=10, start=5, versions=(0, 1, 0, 0, 0)) in said
    assert stage.tick() == [
        Filed(epoch=10, start=6, versions=((0, 0), (1, 1), (2, 0), (3, 0), (NAMESPACE, 0)))
    ]
    stage.deltas()
    delta = publisher.change(1)
    stage.put(BULK, delta)
    assert stage.deltas() == [delta]


def test_have_names_what_was_filed_of_a_catch_up_that_did_not_end() -> None:
    """P-START-1: the highest version of anything that is held, complete or not."""
    stage, publisher = seeded()
    stage.put(BULK, publisher.change(1))
    for version in range(2, 12):
        publisher.commit(1, value(b"db\0t%02d\0" % version, version, b"x" * 60_000))
    stage.put(BULK, publisher.change(1))
    first = publisher.hear(stage.tick())[0]
    assert isinstance(first, Chunk)
    stage.say(BULK, first)
    assert not first.last
    _, have = stage.say(b"again", hello("publisher", PUBLISHER, CONTROL_CHANNEL))
    assert isinstance(have, Have)
    assert have.versions[1] == first.resume_version > 1
    assert _ingest(stage).slots[1].topic.version == 1


def test_newer_epoch_begins_every_topic_anew() -> None:
    stage, publisher = seeded()
    stage.put(BULK, publisher.change(1))
    after = ScriptedPublisher(epoch=11, num_topics=8)
    after.change(5)
    connect(stage, after)
    assert _ingest(stage).seeding
    assert len(_ingest(stage).slots) == 9
    stage.deltas()
    serve(stage, after)
    assert stage.heartbeat().versions == (0, 0, 0, 0, 0, 1, 0, 0, 0)
    assert stage.deltas() == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"epoch": 9}, "AHEAD"),
        ({"epoch": 0}, "AHEAD"),
        ({"num_topics": 8}, "NUM_TOPICS"),
        ({"num_topics": 3, "epoch": 11}, "NUM_TOPICS"),
    ],
    ids=str,
)
def test_announcement_that_cannot_be_is_refused_and_changes_nothing(
    change: dict, code: str
) -> None:
    """P-START-5."""
    stage, publisher = seeded()
    stage.put(BULK, publisher.change(1))
    stage.tick()
    assert _codes(stage.say(CONTROL, replace(publisher.announce(), **change))) == [code]
    stage.put(BULK, publisher.change(1))
    assert stage.tick() == [Filed(epoch=10, start=5, versions=((1, 2),))]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"epoch": 11}, "START"),
        ({"start": 6}, "START"),
        ({"topic": 9}, "TOPIC"),
        ({"level": MINIMAL}, "DELTA"),
        ({"invalidate_all": True}, "DELTA"),
        ({"floor": 5}, "DELTA"),
    ],
    ids=str,
)
def test_delta_that_breaks_a_rule_is_refused_counted_and_changes_nothing(
    change: dict, code: str
) -> None:
    stage, publisher = seeded()
    delta = publisher.change(1)
    assert _codes(stage.put(BULK, replace(delta, **change))) == [code]
    assert stage.hub.counts.refused == {code: 1}
    assert stage.deltas() == []
    assert _ingest(stage).slots[1].topic.version == 0
    stage.put(BULK, delta)
    assert stage.deltas() == [delta]


def test_malformed_body_under_a_right_checksum_is_refused_and_goes_nowhere() -> None:
    """P-DATA-3."""
    stage, publisher = seeded()
    delta = publisher.change(1)
    broken = replace(delta, entries=(delta.entries[0]._replace(key=b"no nul"),))
    assert _codes(stage.tell(Put(BULK, encode(broken)))) == ["WIRE"]
    assert stage.frames == []
    assert stage.hub.counts.undecodable == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [({"start": 6}, "START"), ({"versions": (1,), "floors": (1,)}, "VECTOR")],
    ids=str,
)
def test_heartbeat_that_does_not_fit_is_refused(change: dict, code: str) -> None:
    stage, publisher = seeded()
    assert _codes(stage.say(CONTROL, replace(publisher.heartbeat(watermark=3), **change))) == [code]
    assert _ingest(stage).watermark == 0
