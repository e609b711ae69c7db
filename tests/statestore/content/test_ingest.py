"""What a hub does with its publisher's messages: files, acknowledges, forwards, refuses them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from topicast.statestore.content.ingest import BELIEVED_S, QUIET_S
from topicast.statestore.effects import Subscription
from topicast.tests.statestore.hub_driver import (
    BULK,
    CONTROL,
    KEY,
    READER_CONTROL,
    HubDriver,
    PublisherPeer,
    catch_ups,
    codes,
    contents,
    hello,
    large,
    refused,
    seeded,
)
from topicast.tests.strategies import value
from topicast.topics.streams.follower import RETRY_S, SILENCE_S, FollowerState
from topicast.topics.streams.followers import CANCEL_AGAIN_S
from topicast.topics.topic import FULL, MINIMAL, NAMESPACE, STUB, prefix_tombstone, tombstone
from topicast.topics.wire import encode
from topicast.topics.wire.header import prefix
from topicast.topics.wire.messages.connection import BULK_CHANNEL, PUBLISHER, Refused
from topicast.topics.wire.messages.data import Chunk, Delta
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.publishers import Filed, Have
from topicast.topics.wire.messages.readers import Cancel, CatchUp, Credit

OTHER = b"db\0other\0"
BUSY = Refused(request=99, code="BUSY", message="later", retry_ms=100)


def changed() -> tuple[HubDriver, PublisherPeer]:
    """Return a hub that has filed one change of topic 1 and acknowledged it."""
    driver, publisher = seeded()
    driver.put(publisher.change(1))
    driver.tick()
    driver.deltas()
    return driver, publisher


def test_new_hub_requests_every_topic_at_once_and_is_seeded_when_all_have_come() -> None:
    """P-DATA-4, P-HEARTBEAT-3: until then it names no versions, and it broadcasts no delta."""
    driver, publisher = HubDriver(), PublisherPeer()
    publisher.change(2)
    driver.connect(publisher)
    assert driver.heartbeat(0).versions == ()
    request = driver.sent[-1][1]
    assert isinstance(request, CatchUp)
    assert [one.topic for one in request.wanted] == [0, 1, 2, 3, NAMESPACE]
    for part in publisher.answer([request]):
        assert driver.hub.ingest.seeding
        driver.receive(BULK, part)
    assert not driver.hub.ingest.seeding
    assert driver.heartbeat().versions == (0, 0, 1, 0, 0)
    assert driver.deltas() == []


def test_delta_that_follows_is_forwarded_as_the_same_frame_filed_and_acknowledged() -> None:
    """P-DATA-2."""
    driver, publisher = seeded()
    delta = publisher.change(1)
    driver.put(delta)
    assert driver.frames == [encode(delta)]
    assert contents(driver.topic(1)) == contents(publisher.topics[1])
    assert driver.tick() == [Filed(epoch=10, start=5, versions=((1, 1),))]
    assert driver.tick() == []
    driver.frames.clear()
    driver.put(delta)
    assert driver.frames == [], "a doubled delta is acknowledged again, and not forwarded"
    assert driver.tick() == [Filed(epoch=10, start=5, versions=((1, 1),))]


def test_minimal_frame_is_derived_only_for_subscribers_at_minimal() -> None:
    """P-DATA-2."""
    driver, publisher = seeded()
    driver.subscribe(1, MINIMAL)
    delta = publisher.change(1)
    driver.put(delta)
    full, minimal = driver.deltas()
    assert full == delta
    assert (minimal.level, minimal.from_version, minimal.to_version) == (MINIMAL, 0, 1)
    assert [(one.key, one.kind, one.value) for one in minimal.entries] == [(KEY, STUB, None)]
    driver.handle(Subscription(b"\0" + prefix(1, MINIMAL)))
    driver.put(publisher.change(1))
    assert [delta.level for delta in driver.deltas()] == [FULL]


def test_gap_is_caught_up_and_reported_to_readers_as_stubs() -> None:
    """P-DATA-4."""
    driver, publisher = changed()
    driver.subscribe(1, MINIMAL)
    before = replace(driver.hub.counts)
    publisher.change(1, b"db\0lost\0")
    driver.put(publisher.change(1, b"db\0late\0"))
    assert driver.deltas() == []
    assert driver.topic(1).version == 1
    driver.serve(publisher)
    full, minimal = driver.deltas()
    assert (full.from_version, full.to_version, full.stubbed) == (1, 3, True)
    assert [entry.key for entry in full.entries] == [b"db\0lost\0", b"db\0late\0"]
    assert {entry.kind for entry in full.entries} == {STUB}
    assert not full.invalidate_all
    assert minimal == replace(full, level=MINIMAL, stubbed=False)
    assert contents(driver.topic(1)) == contents(publisher.topics[1])
    came = driver.hub.counts
    assert (came.deltas - before.deltas, came.chunks - before.chunks) == (1, 1)
    assert came.broadcasts - before.broadcasts == len((full, minimal))


def test_deltas_that_wait_for_the_end_of_a_catch_up_are_forwarded_after_it() -> None:
    driver, publisher = seeded()
    publisher.change(1)
    driver.put(publisher.change(1))
    parts = publisher.answer(driver.tick())
    waiting = publisher.change(1, b"db\0new\0")
    driver.put(waiting)
    driver.receive(BULK, *parts)
    stubs, after = driver.deltas()
    assert (stubs.from_version, stubs.to_version, stubs.stubbed) == (0, 2, True)
    assert after == waiting


def stubbed_transaction(publisher: PublisherPeer) -> Delta:
    return publisher.commit(1, value(KEY, 2, b"x" * 70_000), stubbed=True)


def more_stubs_than_a_frame_holds(publisher: PublisherPeer) -> Delta:
    publisher.commit(1, *(value(b"db\0t%05d\0" % number, 2) for number in range(2000)))
    return publisher.change(1)


def snapshot_below_the_floor(publisher: PublisherPeer) -> Delta:
    publisher.commit(1, tombstone(KEY, 2))
    publisher.change(1, OTHER)
    publisher.topics[1].raise_floor(2)
    return publisher.change(1, b"db\0third\0")


@pytest.mark.parametrize(
    ("change", "from_version", "to_version", "invalidate_all"),
    [
        (stubbed_transaction, 1, 2, False),
        (more_stubs_than_a_frame_holds, 1, 3, True),
        (snapshot_below_the_floor, 0, 4, True),
    ],
)
def test_gap_is_reported_as_stubs_or_as_an_invalidate_all_marker(
    change: Callable[[PublisherPeer], Delta],
    from_version: int,
    to_version: int,
    invalidate_all: bool,
) -> None:
    """P-DATA-2, P-FLOOR-4, P-DATA-4."""
    driver, publisher = changed()
    driver.put(change(publisher))
    assert driver.deltas() == []
    driver.serve(publisher)
    (delta,) = driver.deltas()
    assert (delta.from_version, delta.to_version) == (from_version, to_version)
    assert (delta.stubbed, delta.invalidate_all) == (True, invalidate_all)
    assert bool(delta.entries) is not invalidate_all
    assert contents(driver.topic(1)) == contents(publisher.topics[1])
    assert driver.topic(1).floor == publisher.topics[1].floor


def test_catch_up_that_brings_nothing_new_is_not_broadcast() -> None:
    """P-DATA-4."""
    driver, publisher = changed()
    follower = driver.hub.ingest.followed[1].follower
    wrong = PublisherPeer()
    wrong.topics[1].version = 7
    driver.receive(CONTROL, wrong.heartbeat())
    requests = driver.pass_time(2 * QUIET_S)
    assert follower.state is FollowerState.BEHIND
    driver.receive(BULK, *publisher.answer(requests))
    assert follower.state is FollowerState.LIVE
    assert driver.deltas() == []


def test_floor_of_a_delta_drops_tombstones() -> None:
    """P-FLOOR-4, P-DATA-3."""
    driver, publisher = changed()
    driver.put(publisher.commit(1, prefix_tombstone(KEY, 2)))
    topic = driver.topic(1)
    assert len(topic) == 1
    publisher.topics[1].raise_floor(2)
    driver.put(publisher.change(1, OTHER))
    assert (topic.floor, len(topic)) == (2, 1)
    delta = publisher.change(1, OTHER)
    driver.put(replace(delta, floor=delta.to_version))
    assert topic.floor == topic.version == delta.to_version, "all may be above what is held"


def test_heartbeat_raises_only_floors_that_are_reached() -> None:
    """P-FLOOR-4."""
    driver, publisher = changed()
    driver.put(publisher.commit(1, tombstone(KEY, 2)))
    publisher.topics[1].raise_floor(2)
    publisher.topics[2].version = 7
    publisher.topics[2].raise_floor(7)
    driver.receive(CONTROL, publisher.heartbeat())
    assert (driver.topic(1).floor, len(driver.topic(1))) == (2, 0)
    assert driver.topic(2).floor == 0


def test_lost_last_delta_is_noticed_from_the_heartbeat_once_bulk_is_quiet() -> None:
    """P-HEARTBEAT-4."""
    driver, publisher = seeded()
    publisher.change(3)
    assert driver.receive(CONTROL, publisher.heartbeat(watermark=9)) == []
    assert driver.tick(QUIET_S / 2) == []
    assert driver.status.watermark == 0
    requests = driver.pass_time(2 * QUIET_S)
    assert [type(message) for message in requests] == [CatchUp]
    driver.receive(BULK, *publisher.answer(requests))
    driver.pass_time(0.1)
    assert driver.topic(3).version == 1
    assert driver.heartbeat().watermark == 9


def test_heartbeat_that_overtook_a_delta_causes_no_catch_up() -> None:
    """P-HEARTBEAT-4."""
    driver, publisher = seeded()
    delta = publisher.change(3)
    driver.receive(CONTROL, publisher.heartbeat(watermark=9))
    driver.tick(QUIET_S / 2)
    driver.put(delta)
    assert [type(message) for message in driver.pass_time(1.0)] == [Filed]
    assert driver.status.watermark == 9


def test_heartbeats_are_believed_after_a_time_though_bulk_is_never_quiet() -> None:
    """P-HEARTBEAT-4."""
    driver, publisher = seeded()
    publisher.change(3)
    requests = []
    for turn in range(int(BELIEVED_S / 0.05) + 2):
        if turn % 3 == 0:
            driver.receive(CONTROL, publisher.heartbeat())
        driver.put(publisher.change(1))
        requests += catch_ups(driver.tick(0.05))
    assert [one.wanted[0].topic for one in requests] == [3]


def test_watermark_waits_for_the_versions_of_its_heartbeat() -> None:
    driver, publisher = seeded()
    driver.receive(CONTROL, publisher.heartbeat(watermark=4))
    assert driver.status.watermark == 4
    one, other = publisher.change(1), publisher.change(2)
    driver.receive(CONTROL, publisher.heartbeat(watermark=6))
    driver.put(one)
    driver.tick(0.05)
    assert driver.status.watermark == 4
    driver.put(other)
    assert driver.heartbeat().watermark == 6


def test_heartbeat_without_versions_names_only_the_catalog() -> None:
    driver, publisher = seeded()
    heartbeat = replace(
        publisher.heartbeat(), versions=(), floors=(), catalog_address="tcp://other:1"
    )
    for sent in (heartbeat, replace(heartbeat, catalog_address="")):
        assert driver.receive(CONTROL, sent) == []
        assert driver.heartbeat().catalog_address == "tcp://other:1"


def test_new_start_of_the_same_epoch_is_followed_without_a_resync() -> None:
    driver, publisher = changed()
    publisher.start = 6
    assert Have(epoch=10, start=5, versions=(0, 1, 0, 0, 0)) in driver.connect(publisher)
    assert driver.tick() == [
        Filed(epoch=10, start=6, versions=((0, 0), (1, 1), (2, 0), (3, 0), (NAMESPACE, 0)))
    ]
    delta = publisher.change(1)
    driver.put(delta)
    assert driver.deltas() == [delta]


def test_newer_epoch_begins_every_topic_anew() -> None:
    driver, _ = changed()
    after = PublisherPeer(epoch=11, num_topics=8)
    after.change(5)
    driver.connect(after)
    assert driver.hub.ingest.seeding
    assert len(driver.hub.ingest.followed) == 9
    driver.serve(after)
    assert driver.heartbeat().versions == (0, 0, 0, 0, 0, 1, 0, 0, 0)
    assert driver.deltas() == []


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
def test_announcement_that_cannot_be_followed_is_refused_and_changes_nothing(
    change: dict[str, Any], code: str
) -> None:
    """P-START-5."""
    driver, publisher = changed()
    assert codes(driver.receive(CONTROL, replace(publisher.announce(), **change))) == [code]
    assert driver.status.epoch == 10
    driver.put(publisher.change(1))
    assert driver.tick() == [Filed(epoch=10, start=5, versions=((1, 2),))]


@pytest.mark.parametrize(("epoch", "refusals"), [(0, ["AHEAD"]), (1, [])], ids=str)
def test_first_epoch_of_all_is_one(epoch: int, refusals: list[str]) -> None:
    """P-START-5."""
    driver, publisher = HubDriver(), PublisherPeer(epoch=epoch)
    assert codes(driver.connect(publisher)) == refusals
    assert driver.status.epoch == epoch


@pytest.mark.parametrize(
    ("change", "code", "problem"),
    [
        ({"epoch": 11}, "START", "epoch 11 start 5 is not followed"),
        ({"start": 6}, "START", "epoch 10 start 6 is not followed"),
        ({"topic": 9}, "TOPIC", "no topic 9"),
        ({"level": MINIMAL}, "DELTA", "level full only"),
        ({"invalidate_all": True}, "DELTA", "needs flag stubbed"),
        ({"floor": 5}, "DELTA", "floor 5 is above version 1"),
    ],
    ids=str,
)
def test_delta_that_breaks_a_rule_is_refused_counted_and_changes_nothing(
    change: dict[str, Any], code: str, problem: str
) -> None:
    """P-DATA-2, P-FLOOR-4."""
    driver, publisher = seeded()
    delta = publisher.change(1)
    driver.put(replace(delta, **change))
    fault = refused(driver.tick())
    assert (fault.code, fault.topic) == (code, change.get("topic", 1))
    assert problem in fault.message
    assert driver.hub.counts.refused == {code: 1}
    assert driver.deltas() == []
    assert driver.topic(1).version == 0
    driver.put(delta)
    assert driver.deltas() == [delta]


def test_malformed_body_under_a_right_checksum_is_refused_and_not_forwarded() -> None:
    """P-DATA-3."""
    driver, publisher = seeded()
    delta = publisher.change(1)
    driver.put(replace(delta, entries=(delta.entries[0]._replace(key=b"no nul"),)))
    assert driver.frames == []
    assert codes(driver.tick()) == ["WIRE"]
    assert driver.hub.counts.frames_undecodable == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [({"start": 6}, "START"), ({"versions": (1,), "floors": (1,)}, "VECTOR")],
    ids=str,
)
def test_heartbeat_that_does_not_fit_is_refused(change: dict[str, Any], code: str) -> None:
    """P-HEARTBEAT-5."""
    driver, publisher = seeded()
    heartbeat = replace(publisher.heartbeat(watermark=3), **change)
    answer = refused(driver.receive(CONTROL, heartbeat))
    assert (answer.code, answer.topic) == (code, -1)
    assert driver.status.watermark == 0


def unseeded(*changes: int) -> tuple[HubDriver, PublisherPeer, list[Message]]:
    """Return a hub, its publisher with a change of each topic, and the hub's first requests."""
    driver, publisher = HubDriver(), PublisherPeer()
    for topic in changes:
        publisher.change(topic)
    driver.connect(publisher)
    return driver, publisher, driver.tick()


def test_waiting_topics_are_not_requested_again_while_their_stream_flows() -> None:
    driver, publisher = HubDriver(), PublisherPeer()
    for version in range(1, 40):
        publisher.commit(0, large(version))
    driver.connect(publisher)
    parts = publisher.answer(driver.tick())
    assert catch_ups(driver.pass_time(SILENCE_S - 0.5)) == []
    while parts:
        sent = driver.receive(BULK, *parts) + driver.pass_time(1.0)
        assert catch_ups(sent) == []
        parts = publisher.answer(sent)
    assert not driver.hub.ingest.seeding


def test_silent_stream_is_cancelled_and_requested_again() -> None:
    driver, publisher, requests = unseeded(0)
    late = publisher.answer(requests)
    sent = driver.pass_time(SILENCE_S + 0.1)
    again = catch_ups(sent)
    assert [one.stream for one in again] == [2]
    assert Cancel(stream=1) in sent
    assert driver.receive(BULK, late[0]) == [], "it came before the publisher had read that"
    driver.receive(BULK, *publisher.answer(again))
    assert not driver.hub.ingest.seeding


def test_what_comes_of_an_unknown_stream_is_cancelled_once_a_second() -> None:
    """P-CATCH-6: else a publisher would read as many Cancels as it has sent chunks."""
    driver, publisher = seeded()
    stray = replace(publisher.answer(unseeded(0)[2])[0], stream=77)
    for _ in range(3):
        assert driver.receive(BULK, *[stray] * 5) == [Cancel(stream=77)]
        driver.pass_time(1.1 * CANCEL_AGAIN_S)


def test_streams_of_a_publisher_that_connected_anew_are_requested_again() -> None:
    driver, publisher, requests = unseeded(0)
    driver.receive(b"anew", hello("publisher", PUBLISHER, BULK_CHANNEL))
    again = catch_ups(driver.pass_time(RETRY_S + 0.1))
    assert [one.wanted for one in again] == [one.wanted for one in catch_ups(requests)]
    assert driver.sent[-1][0] == b"anew"
    driver.receive(b"anew", *publisher.answer(again))
    assert not driver.hub.ingest.seeding


def test_each_chunk_gives_back_its_credit() -> None:
    driver, publisher, requests = unseeded(0)
    for part in publisher.answer(requests):
        assert [type(message) for message in driver.receive(BULK, part)] == [Credit]


@pytest.mark.parametrize(
    ("change", "code", "problem"),
    [
        ({"level": MINIMAL}, "CHUNK", "level full"),
        ({"invalidate_all": True}, "CHUNK", "no invalidate_all"),
        ({"floor": 5}, "CHUNK", "floor 5 is above version 1"),
        ({"resume_version": 0}, "CHUNK", "after its last entry"),
        ({"start": 6}, "START", "epoch 10 start 6 is not followed"),
        ({"topic": 99}, "TOPIC", "no topic 99"),
    ],
    ids=str,
)
def test_chunk_that_breaks_a_rule_is_refused_and_requested_later(
    change: dict[str, Any], code: str, problem: str
) -> None:
    """P-DATA-2, P-FLOOR-4."""
    driver, publisher, requests = unseeded(0)
    first = publisher.answer(requests)[0]
    assert isinstance(first, Chunk)
    (fault,) = [
        one for one in driver.receive(BULK, replace(first, **change)) if isinstance(one, Refused)
    ]
    assert (fault.code, fault.request) == (code, first.stream)
    assert problem in fault.message
    assert bool(fault.retry_ms) is (code == "CHUNK")
    assert len(driver.topic(0)) == 0
    again = catch_ups(driver.pass_time(SILENCE_S + 0.1 if code != "CHUNK" else 1.2))
    assert again[0].wanted[0].topic == 0


@pytest.mark.parametrize("floor", [2, 3])
def test_floor_of_a_catch_up_holds_from_its_last_chunk_on(floor: int) -> None:
    """P-FLOOR-4: no heartbeat, no earlier chunk, and no delta that waits raises it before."""
    driver, publisher = seeded()
    topic = driver.topic(1)
    driver.put(publisher.change(1))
    driver.put(publisher.commit(1, tombstone(KEY, 2)))
    for version in range(3, 10):
        publisher.commit(1, large(version))
    publisher.topics[1].raise_floor(2)
    driver.put(publisher.change(1))
    assert topic.floor == 0
    *parts, last = publisher.answer(driver.tick())
    assert parts
    if floor > 2:
        publisher.topics[1].raise_floor(floor)
        driver.put(publisher.change(1))
    for part in parts:
        assert isinstance(part, Chunk)
        assert part.floor == 2
        driver.receive(BULK, part)
    driver.receive(CONTROL, publisher.heartbeat())
    assert topic.floor == 0
    driver.receive(BULK, last)
    assert topic.floor == floor


@pytest.mark.parametrize(
    ("topic", "requested"), [(-1, [0, 1, 2, 3, 0xFFFE]), (2, [2])], ids=["stream", "topic"]
)
def test_refused_stream_or_topic_is_requested_again_after_the_time_named(
    topic: int, requested: list[int]
) -> None:
    driver, _, requests = unseeded()
    (request,) = catch_ups(requests)
    driver.receive(BULK, replace(BUSY, request=request.stream, retry_ms=400, topic=topic))
    assert driver.pass_time(0.35) == []
    (again,) = catch_ups(driver.pass_time(0.15))
    assert [wanted.topic for wanted in again.wanted] == requested


def test_refusal_that_a_reader_sends_ends_no_catch_up_of_the_hub() -> None:
    driver, publisher = seeded()
    driver.greet()
    publisher.change(1)
    driver.put(publisher.change(1))
    (request,) = catch_ups(driver.tick())
    driver.receive(READER_CONTROL, replace(BUSY, request=request.stream))
    driver.receive(BULK, *publisher.answer([request]))
    assert driver.topic(1).version == 2


def test_refusal_of_no_request_changes_nothing() -> None:
    driver, _ = seeded()
    assert driver.receive(BULK, BUSY) == []
    assert not driver.hub.ingest.seeding
