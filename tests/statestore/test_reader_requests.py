"""The answers of a hub to its readers: joins, drops, statuses, catch-ups under credit."""

from dataclasses import replace

import pytest

from topicast.tests.statestore.hub_driver import (
    AMPLE,
    CONTROL,
    READER_BULK,
    READER_CONTROL,
    HubDriver,
    PublisherPeer,
    at,
    refused,
    seeded,
    want,
)
from topicast.topics.streams.follower import LIVE, Due, Follower
from topicast.topics.streams.sender import chunk_cost
from topicast.topics.topic import ALL_OFFERED, FULL, MINIMAL, NAMESPACE, NONE, tombstone
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.data import Chunk
from topicast.topics.wire.messages.readers import (
    Cancel,
    CatchUp,
    Credit,
    Drop,
    Dropped,
    Join,
    JoinAnswer,
    Joined,
    Position,
    ReaderStatus,
    TopicState,
    Wanted,
)
from topicast.topics.wire.refusal import request_id


def with_reader(changes: int = 3) -> tuple[HubDriver, PublisherPeer]:
    """Return a seeded hub that holds changes of topic 1, and has greeted a reader."""
    driver, publisher = seeded()
    for _ in range(changes):
        driver.put(publisher.change(1))
    driver.greet()
    driver.sent.clear()
    return driver, publisher


def join(driver: HubDriver, *positions: Position) -> tuple[TopicState, ...]:
    (answer,) = driver.receive(READER_CONTROL, Join(request=7, positions=positions))
    assert isinstance(answer, Joined)
    assert answer.request == 7
    return answer.topics


def follows(driver: HubDriver, topic: int = 1) -> tuple[int, int]:
    """Return how many follow a topic at minimal and at full."""
    (one,) = [one for one in driver.status.topics if one.topic == topic]
    return one.minimal_members, one.full_members


def status(*positions: Position) -> ReaderStatus:
    return ReaderStatus(positions=positions, lag_us=1_500_000, held_bytes=11, budget_bytes=22)


def report(driver: HubDriver, *positions: Position) -> None:
    assert driver.receive(READER_CONTROL, status(*positions)) == []


def offer(driver: HubDriver, publisher: PublisherPeer, offers: int) -> None:
    driver.receive(CONTROL, replace(publisher.heartbeat(), offers=offers))


def catch_up(driver: HubDriver, credit: int, *wanted: Wanted, stream: int = 5) -> None:
    assert driver.receive(READER_BULK, CatchUp(stream=stream, credit=credit, wanted=wanted)) == []


def test_join_is_answered_with_the_way_to_the_newest_version_and_the_size_of_the_topic() -> None:
    """P-JOIN-1: every position is answered, also what was joined before."""
    driver, _ = with_reader()
    states = join(
        driver, at(1), at(1, 1), at(1, 3), at(1, 3, epoch=9), at(NAMESPACE, level=MINIMAL)
    )
    assert [state.answer for state in states] == [
        JoinAnswer.SNAPSHOT,
        JoinAnswer.BEHIND,
        JoinAnswer.CURRENT,
        JoinAnswer.SNAPSHOT,
        JoinAnswer.CURRENT,
    ]
    assert {state.version for state in states[:4]} == {3}
    assert states[0].full_bytes > 0
    assert join(driver, at(1, 3)) == (states[2],)


@pytest.mark.parametrize("level", [MINIMAL, FULL])
def test_reader_takes_a_snapshot_below_the_floor_and_nothing_when_it_is_ahead(level: int) -> None:
    """P-JOIN-1."""
    driver, publisher = with_reader(changes=1)
    driver.put(publisher.commit(1, tombstone(b"db\0table\0", 2)))
    publisher.topics[1].raise_floor(2)
    driver.put(publisher.change(1))
    places = (at(1, 1), at(1, 2), at(1, 4), at(1, 3, epoch=11))
    states = join(driver, *(replace(place, level=level) for place in places))
    assert [state.answer for state in states] == [
        JoinAnswer.SNAPSHOT,
        JoinAnswer.BEHIND,
        JoinAnswer.CURRENT,
        JoinAnswer.SNAPSHOT,
    ]
    assert {state.level for state in states} == {level}
    assert all(bool(state.full_bytes) == (level == FULL) for state in states)


def test_join_of_no_topic_or_no_level_is_denied_and_the_others_are_answered() -> None:
    """P-JOIN-1."""
    driver, _ = with_reader()
    states = join(driver, at(99), at(1, level=NONE), at(1))
    assert [state.answer for state in states] == [
        JoinAnswer.DENIED,
        JoinAnswer.DENIED,
        JoinAnswer.SNAPSHOT,
    ]
    assert [(state.version, state.full_bytes) for state in states[:2]] == [(0, 0), (0, 0)]
    assert follows(driver) == (0, 1)


def test_audits_count_as_a_reader_goes_on_with_them_also_after_it_has_begun_anew() -> None:
    driver, _ = with_reader()
    for audits in (5, 8, 8, 2, 3):
        assert driver.receive(READER_CONTROL, replace(status(), audits=audits)) == []
    assert driver.status.answers_audited == 3 + 1


def test_reported_level_holds_until_the_next_report() -> None:
    """P-JOIN-3: whether it comes in a Join, a ReaderStatus or a Drop."""
    driver, _ = with_reader()
    join(driver, at(1), at(2))
    report(driver, at(2))
    driver.pass_time(1.0)
    assert follows(driver) == (0, 1), "nothing was reported of topic 1"
    report(driver, at(1, level=MINIMAL))
    assert follows(driver) == (1, 0)
    join(driver, at(1))
    assert follows(driver) == (0, 1)
    report(driver, at(1, level=NONE))
    assert follows(driver) == (0, 0)
    report(driver, at(1, level=MINIMAL))
    dropped = driver.receive(READER_CONTROL, Drop(request=8, topics=(1, 3)))
    assert dropped == [Dropped(request=8)], "also for what was not joined"
    assert follows(driver) == (0, 0)
    assert follows(driver, 2) == (0, 1)


@pytest.mark.parametrize(
    ("offers", "topic", "level", "answer"),
    [
        (MINIMAL, 1, FULL, JoinAnswer.DENIED),
        (MINIMAL, 1, MINIMAL, JoinAnswer.SNAPSHOT),
        (FULL, 2, MINIMAL, JoinAnswer.DENIED),
        (FULL, 2, FULL, JoinAnswer.CURRENT),
        (MINIMAL, NAMESPACE, FULL, JoinAnswer.CURRENT),  # without names there is no catalog
    ],
)
def test_only_levels_that_are_offered_can_be_joined(
    offers: int, topic: int, level: int, answer: int
) -> None:
    """P-JOIN-5."""
    driver, publisher = with_reader()
    offer(driver, publisher, offers)
    assert [state.answer for state in join(driver, at(topic, level=level))] == [answer]


def test_reader_keeps_a_level_that_is_offered_no_more_until_it_leaves() -> None:
    """P-JOIN-5: a mode that changes takes nothing away from its readers."""
    driver, publisher = with_reader()
    join(driver, at(1))
    offer(driver, publisher, MINIMAL)
    assert join(driver, at(1, 3))[0].answer == JoinAnswer.CURRENT, "joined again, after a doubt"
    report(driver, at(1, 3))
    assert join(driver, at(1, 3))[0].answer == JoinAnswer.CURRENT
    catch_up(driver, 1000, want(1, 2))
    assert [type(one) for one in driver.turn()] == [Chunk]
    driver.receive(READER_CONTROL, Drop(request=8, topics=(1,)))
    assert join(driver, at(1, 3))[0].answer == JoinAnswer.DENIED


def test_heartbeats_name_the_levels_that_are_offered() -> None:
    """P-HEARTBEAT-5: every level until catalogd names others; a new epoch changes nothing."""
    driver, publisher = with_reader()
    assert driver.heartbeat().offers == ALL_OFFERED
    offer(driver, publisher, MINIMAL)
    assert driver.heartbeat().offers == MINIMAL
    assert driver.status.offers == MINIMAL
    driver.connect(PublisherPeer(epoch=11))
    assert driver.heartbeat().offers == MINIMAL


def test_join_before_any_catalogd_is_refused_for_a_while() -> None:
    driver = HubDriver()
    driver.greet()
    refusal = refused(driver.receive(READER_CONTROL, Join(request=7, positions=(at(1),))))
    assert refusal.code == "RETRY"
    assert refusal.retry_ms > 0


@pytest.mark.parametrize(
    ("peer", "message", "code"),
    [
        (READER_CONTROL, Join(request=7, positions=(at(1),) * 11), "TOO_MANY"),
        (READER_CONTROL, status(*(at(1),) * 11), "TOO_MANY"),
        (READER_BULK, CatchUp(stream=7, credit=1, wanted=(want(1),) * 11), "TOO_MANY"),
        (READER_CONTROL, status(at(1), at(99)), "TOPIC"),
    ],
    ids=["join", "status", "catch-up", "status of no topic"],
)
def test_request_for_more_topics_than_there_are_is_refused(
    peer: bytes, message: Join | ReaderStatus | CatchUp, code: str
) -> None:
    driver, _ = with_reader()
    refusal = refused(driver.receive(peer, message))
    assert (refusal.code, refusal.request) == (code, request_id(message))


def test_status_is_listed_as_the_lag_of_its_reader() -> None:
    driver, _ = with_reader()
    join(driver, at(1))
    report(driver, at(1, 1))
    (reader,) = [one for one in driver.status.subscribers if one.role == "reader"]
    assert (reader.lag_versions, reader.held_bytes, reader.budget_bytes) == (2, 11, 22)
    assert (reader.lag_s, reader.topics) == (1.5, 1)


def test_reader_catches_up_with_several_topics_in_one_stream() -> None:
    driver, publisher = with_reader()
    driver.put(publisher.change(2))
    catch_up(driver, AMPLE, want(1), want(2), want(3))
    chunks = [one for one in driver.turn() if isinstance(one, Chunk)]
    assert [(one.topic, one.to_version, one.last) for one in chunks] == [
        (1, 3, True),
        (2, 1, True),
        (3, 0, True),
    ]
    follower = Follower(1, FULL)
    follower.handle(Due(), now=0)
    follower.opened(5, now=0)
    follower.handle(chunks[0], now=0)
    assert (follower.state, follower.version) == (LIVE, 3)


KEYS = [b"db\0t%02d\0" % number for number in range(40)]


def with_large_topic() -> tuple[HubDriver, PublisherPeer]:
    """Return a hub with a topic of several chunks, of which a reader was sent the first."""
    driver, publisher = with_reader(0)
    for key in KEYS:
        driver.put(publisher.change(1, key, bytes(30_000)))
    catch_up(driver, 1, want(1))
    (first,) = driver.turn()
    assert isinstance(first, Chunk)
    assert not first.last
    assert chunk_cost(first) <= 300_000
    assert driver.turn() == []
    return driver, publisher


def test_chunks_wait_for_credit_and_are_shared_out_fairly() -> None:
    """P-CREDIT: a stream without credit waits; the others go on in turn."""
    driver, _ = with_large_topic()
    driver.greet("other")
    driver.receive(b"other-bulk", CatchUp(stream=6, credit=AMPLE, wanted=(want(1),)))
    driver.receive(READER_BULK, Credit(stream=5, amount=AMPLE))
    streams = [one.stream for one in driver.turn() if isinstance(one, Chunk)]
    assert streams[:4] in ([5, 6, 5, 6], [6, 5, 6, 5])


def test_cancelled_stream_sends_nothing_more() -> None:
    driver, _ = with_large_topic()
    driver.receive(READER_BULK, Cancel(stream=5))
    driver.receive(READER_BULK, Credit(stream=5, amount=AMPLE))
    assert driver.turn() == []
    assert not driver.hub.sending


def test_chunks_of_a_stream_are_of_one_moment_whatever_comes_meanwhile() -> None:
    """P-CATCH-16."""
    driver, publisher = with_large_topic()
    driver.put(publisher.change(1, KEYS[-1]))
    driver.put(publisher.change(1, b"db\0new\0"))
    driver.receive(READER_BULK, Credit(stream=5, amount=AMPLE))
    driver.turn()
    parts = [one for _, one in driver.sent if isinstance(one, Chunk)]
    assert {one.to_version for one in parts} == {len(KEYS)}
    assert [entry.key for one in parts for entry in one.entries] == KEYS
    assert [one.last for one in parts] == [False] * (len(parts) - 1) + [True]


def test_catch_up_of_a_topic_that_cannot_be_sent_is_refused_by_topic() -> None:
    """P-CATCH-17: until the end of its own catch-up a hub answers none of that topic."""
    driver, publisher = HubDriver(), PublisherPeer()
    publisher.change(1)
    driver.connect(publisher)
    driver.greet()
    no_level = replace(want(2), level=NONE)
    catch_up(driver, AMPLE, want(1), want(99), want(3, 1, epoch=11), no_level)
    refusals = [one for one in driver.turn() if isinstance(one, Refused)]
    assert {one.request for one in refusals} == {5}
    assert [(one.topic, one.code, one.retry_ms > 0) for one in refusals] == [
        (1, "RETRY", True),
        (99, "UNKNOWN", False),
        (3, "AHEAD", True),
        (2, "LEVEL", False),
    ]
    assert sum(driver.hub.counts.refused.values()) == 4


def test_topic_that_fell_behind_is_refused_until_it_has_caught_up_and_others_are_sent() -> None:
    """P-CATCH-17."""
    driver, publisher = with_reader()
    publisher.change(1)
    driver.put(publisher.change(1))
    catch_up(driver, AMPLE, want(1), want(2))
    refusal, chunk = driver.turn()
    assert isinstance(refusal, Refused)
    assert (refusal.code, refusal.topic) == ("RETRY", 1)
    assert isinstance(chunk, Chunk)
    driver.serve(publisher)
    catch_up(driver, AMPLE, want(1), stream=6)
    (chunk,) = driver.turn()
    assert isinstance(chunk, Chunk)
    assert (chunk.to_version, chunk.last) == (5, True)


def test_too_many_streams_are_refused_as_busy() -> None:
    driver, _ = with_reader()
    streams = [CatchUp(stream=n, credit=0, wanted=(want(1),)) for n in range(1, 18)]
    refusal = refused(driver.receive(READER_BULK, *streams))
    assert (refusal.code, refusal.request) == ("BUSY", 17)
