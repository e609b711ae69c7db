"""What a hub answers its readers: joins, drops, statuses, catch-ups under credit."""

from dataclasses import replace

import pytest

from topicast.tests.statestore.scripted import (
    CONTROL,
    READER_BULK,
    READER_CONTROL,
    ScriptedPublisher,
    Stage,
    connect,
    seeded,
    serve,
)
from topicast.topics.bulk import chunk_cost
from topicast.topics.entries import FULL, MINIMAL, NONE, tombstone
from topicast.topics.follower import LIVE, Follower, Tick
from topicast.topics.offers import ALL_OFFERED
from topicast.topics.sharding import NAMESPACE
from topicast.topics.wire.messages import (
    BEHIND,
    CURRENT,
    DENIED,
    SNAPSHOT,
    Cancel,
    CatchUp,
    Chunk,
    Credit,
    Drop,
    Dropped,
    Join,
    Joined,
    Position,
    Refused,
    Status,
    TopicState,
    Wanted,
)


def at(topic: int, version: int = 0, *, level: int = FULL, epoch: int = 10) -> Position:
    return Position(topic=topic, level=level, epoch=epoch, version=version)


def with_reader(changes: int = 3) -> tuple[Stage, ScriptedPublisher]:
    """A seeded hub that has heard changes of topic 1 and greeted a reader."""
    stage, publisher = seeded()
    for _ in range(changes):
        stage.put(b"publisher-bulk", publisher.change(1))
    stage.greet()
    stage.sent.clear()
    return stage, publisher


def join(stage: Stage, *positions: Position) -> tuple[TopicState, ...]:
    (answer,) = stage.say(READER_CONTROL, Join(request=7, positions=positions))
    assert isinstance(answer, Joined)
    assert answer.request == 7
    return answer.topics


def test_join_says_how_far_the_reader_is_and_what_the_topic_would_take() -> None:
    """P-JOIN-1: every position is answered, also what was joined before."""
    stage, _ = with_reader()
    states = join(stage, at(1), at(1, 2), at(1, 3), at(1, 3, epoch=9), at(NAMESPACE, level=MINIMAL))
    assert [state.answer for state in states] == [SNAPSHOT, BEHIND, CURRENT, SNAPSHOT, CURRENT]
    assert {state.version for state in states[:4]} == {3}
    assert states[0].full_bytes > 0
    assert join(stage, at(1, 3)) == (states[2],)


@pytest.mark.parametrize("level", [MINIMAL, FULL])
def test_reader_takes_a_snapshot_below_the_floor_and_nothing_when_it_is_ahead(level: int) -> None:
    """P-JOIN-1."""
    stage, publisher = with_reader(changes=1)
    stage.put(b"publisher-bulk", publisher.commit(1, tombstone(b"db\0table\0", 2)))
    publisher.topics[1].raise_floor(2)
    stage.put(b"publisher-bulk", publisher.change(1))
    places = (at(1, 1), at(1, 2), at(1, 4), at(1, 3, epoch=11))
    states = join(stage, *(replace(place, level=level) for place in places))
    assert [state.answer for state in states] == [SNAPSHOT, BEHIND, CURRENT, SNAPSHOT]
    assert {state.level for state in states} == {level}
    assert all(bool(state.full_bytes) == (level == FULL) for state in states)


def test_join_of_no_topic_or_no_level_is_denied_and_the_others_are_answered() -> None:
    """P-JOIN-1."""
    stage, _ = with_reader()
    states = join(stage, at(99), at(1, level=NONE), at(1))
    assert [state.answer for state in states] == [DENIED, DENIED, SNAPSHOT]
    assert follows(stage) == (0, 1)


def follows(stage: Stage, topic: int = 1) -> tuple[int, int]:
    """Return how many follow a topic at minimal and at full."""
    (one,) = [one for one in stage.hub.status(now=stage.now).topics if one.topic == topic]
    return one.minimal_members, one.full_members


def report(stage: Stage, *positions: Position) -> None:
    told = Status(positions=positions, lag_us=0, held_bytes=0, budget_bytes=0)
    assert stage.say(READER_CONTROL, told) == []


def test_word_about_a_level_stands_until_the_next_one() -> None:
    """P-JOIN-3: whether it comes in a Join, a Status or a Drop."""
    stage, _ = with_reader()
    join(stage, at(1), at(2))
    report(stage, at(2))
    stage.pass_time(1.0)
    assert follows(stage) == (0, 1), "of topic 1 nothing was said"
    report(stage, at(1, level=MINIMAL))
    assert follows(stage) == (1, 0)
    join(stage, at(1))
    assert follows(stage) == (0, 1)
    report(stage, at(1, level=NONE))
    assert follows(stage) == (0, 0)
    report(stage, at(1, level=MINIMAL))
    stage.say(READER_CONTROL, Drop(request=8, topics=(1,)))
    assert follows(stage) == (0, 0)
    assert follows(stage, 2) == (0, 1)


def offer(stage: Stage, publisher: ScriptedPublisher, offers: int) -> None:
    stage.say(CONTROL, replace(publisher.heartbeat(), offers=offers))


def test_level_that_is_not_offered_is_denied() -> None:
    """P-JOIN-5."""
    stage, publisher = with_reader()
    offer(stage, publisher, MINIMAL)
    assert [state.answer for state in join(stage, at(1), at(1, level=MINIMAL))] == [
        DENIED,
        SNAPSHOT,
    ]
    offer(stage, publisher, FULL)
    assert [state.answer for state in join(stage, at(2, level=MINIMAL), at(2))] == [DENIED, CURRENT]
    offer(stage, publisher, MINIMAL)
    assert join(stage, at(NAMESPACE))[0].answer == CURRENT, "without names there is no catalog"


def test_reader_keeps_a_level_that_is_offered_no_more_until_it_leaves() -> None:
    """P-JOIN-5: a mode that changes takes nothing away from whoever is there."""
    stage, publisher = with_reader()
    join(stage, at(1))
    offer(stage, publisher, MINIMAL)
    assert join(stage, at(1, 3))[0].answer == CURRENT, "joined again, after a doubt"
    report(stage, at(1, 3))
    assert join(stage, at(1, 3))[0].answer == CURRENT
    catch_up(stage, 1000, Wanted(topic=1, level=FULL, epoch=10, version=2))
    assert [type(one) for one in stage.turn()] == [Chunk]
    stage.say(READER_CONTROL, Drop(request=8, topics=(1,)))
    assert join(stage, at(1, 3))[0].answer == DENIED


def test_readers_are_told_by_heartbeat_what_is_offered() -> None:
    """P-HEARTBEAT-5: every level until catalogd said otherwise; a new epoch changes nothing."""
    stage, publisher = with_reader()
    assert stage.heartbeat().offers == ALL_OFFERED
    offer(stage, publisher, MINIMAL)
    assert stage.heartbeat().offers == MINIMAL
    assert stage.hub.status(now=stage.now).offers == MINIMAL
    connect(stage, ScriptedPublisher(epoch=11))
    assert stage.heartbeat().offers == MINIMAL


def test_join_before_any_catalogd_is_refused_for_a_while() -> None:
    stage = Stage()
    stage.greet()
    (answer,) = stage.say(READER_CONTROL, Join(request=7, positions=(at(1),)))
    assert isinstance(answer, Refused)
    assert answer.code == "RETRY"
    assert answer.retry_ms > 0


def test_join_of_more_than_there_can_be_is_refused() -> None:
    stage, _ = with_reader()
    (answer,) = stage.say(READER_CONTROL, Join(request=7, positions=(at(1),) * 11))
    assert isinstance(answer, Refused)
    assert (answer.code, answer.request) == ("TOO_MANY", 7)


def test_drop_is_answered_also_for_what_was_not_joined() -> None:
    stage, _ = with_reader()
    join(stage, at(1))
    assert stage.say(READER_CONTROL, Drop(request=8, topics=(1, 2))) == [Dropped(request=8)]
    assert follows(stage) == (0, 0)


def test_status_is_shown_as_lag() -> None:
    stage, _ = with_reader()
    join(stage, at(1))
    told = Status(positions=(at(1, 1),), lag_us=1500, held_bytes=11, budget_bytes=22)
    assert stage.say(READER_CONTROL, told) == []
    (reader,) = [r for r in stage.hub.status(now=stage.now).subscribers if r.role == "reader"]
    assert (reader.lag_versions, reader.held_bytes, reader.budget_bytes) == (2, 11, 22)
    assert reader.topics == 1


def test_status_about_no_topic_is_refused() -> None:
    stage, _ = with_reader()
    told = Status(positions=(at(99),), lag_us=0, held_bytes=0, budget_bytes=0)
    (answer,) = stage.say(READER_CONTROL, told)
    assert isinstance(answer, Refused)
    assert answer.code == "TOPIC"
    assert "99" in answer.message


def catch_up(stage: Stage, credit: int, *wanted: Wanted, stream: int = 5) -> None:
    assert stage.say(READER_BULK, CatchUp(stream=stream, credit=credit, wanted=wanted)) == []


def want(topic: int, version: int = 0) -> Wanted:
    return Wanted(topic=topic, level=FULL, epoch=10, version=version)


def test_reader_catches_up_with_several_topics_in_one_stream() -> None:
    stage, publisher = with_reader()
    stage.put(b"publisher-bulk", publisher.change(2))
    catch_up(stage, 1 << 20, want(1), want(2), want(3))
    chunks = [one for one in stage.turn() if isinstance(one, Chunk)]
    assert [(one.topic, one.to_version, one.last) for one in chunks] == [
        (1, 3, True),
        (2, 1, True),
        (3, 0, True),
    ]
    follower = Follower(1, FULL)
    follower.handle(Tick(), now=0)
    follower.opened(5, now=0)
    follower.handle(chunks[0], now=0)
    assert (follower.state, follower.version) == (LIVE, 3)


def test_chunks_wait_for_credit_and_are_shared_out_fairly() -> None:
    """P-CREDIT: a stream without credit waits; the others go on in turn."""
    stage, publisher = with_reader(0)
    for number in range(40):
        key = f"db\0t{number:02d}\0".encode()
        stage.put(b"publisher-bulk", publisher.change(1, key, bytes(30_000)))
    stage.greet("other")
    catch_up(stage, 1, want(1))
    (first,) = stage.turn()
    assert isinstance(first, Chunk)
    assert not first.last
    assert stage.turn() == []
    stage.say(b"other-bulk", CatchUp(stream=6, credit=10 << 20, wanted=(want(1),)))
    stage.say(READER_BULK, Credit(stream=5, amount=10 << 20))
    streams = [one.stream for one in stage.turn() if isinstance(one, Chunk)]
    assert streams[:4] in ([5, 6, 5, 6], [6, 5, 6, 5])
    assert chunk_cost(first) <= 300_000


def test_cancelled_stream_is_sent_no_more() -> None:
    stage, publisher = with_reader(0)
    for number in range(40):
        key = f"db\0t{number:02d}\0".encode()
        stage.put(b"publisher-bulk", publisher.change(1, key, bytes(30_000)))
    catch_up(stage, 1, want(1))
    assert len(stage.turn()) == 1
    stage.say(READER_BULK, Cancel(stream=5))
    stage.say(READER_BULK, Credit(stream=5, amount=10 << 20))
    assert stage.turn() == []
    assert not stage.hub.sending


def test_catch_up_of_a_topic_that_is_seeded_or_unknown_is_refused_by_topic() -> None:
    """P-CATCH-17: until the end of its own catch-up a hub answers none of that topic."""
    stage, publisher = Stage(), ScriptedPublisher()
    publisher.change(1)
    connect(stage, publisher)
    stage.greet()
    catch_up(stage, 1 << 20, want(1), want(99))
    refusals = [one for one in stage.turn() if isinstance(one, Refused)]
    assert [(one.request, one.topic) for one in refusals] == [(5, 1), (5, 99)]
    assert [one.code for one in refusals] == ["RETRY", "UNKNOWN"]
    assert refusals[0].retry_ms > 0
    assert stage.hub.counts.refused == {"RETRY": 1, "UNKNOWN": 1}


def test_topic_that_fell_behind_is_refused_until_it_has_caught_up_and_others_are_sent() -> None:
    """P-CATCH-17."""
    stage, publisher = with_reader()
    publisher.change(1)
    stage.put(b"publisher-bulk", publisher.change(1))
    catch_up(stage, 1 << 20, want(1), want(2))
    refused, chunk = stage.turn()
    assert isinstance(refused, Refused)
    assert (refused.code, refused.topic) == ("RETRY", 1)
    assert isinstance(chunk, Chunk)
    serve(stage, publisher)
    catch_up(stage, 1 << 20, want(1), stream=6)
    (chunk,) = stage.turn()
    assert isinstance(chunk, Chunk)
    assert (chunk.to_version, chunk.last) == (5, True)


def test_chunks_of_a_stream_are_of_one_moment_whatever_comes_meanwhile() -> None:
    """P-CATCH-16."""
    stage, publisher = with_reader(0)
    keys = [f"db\0t{number:02d}\0".encode() for number in range(20)]
    for key in keys:
        stage.put(b"publisher-bulk", publisher.change(1, key, bytes(30_000)))
    catch_up(stage, 1, want(1))
    chunks = stage.turn()
    stage.put(b"publisher-bulk", publisher.change(1, keys[-1]))
    stage.put(b"publisher-bulk", publisher.change(1, b"db\0new\0"))
    stage.say(READER_BULK, Credit(stream=5, amount=10 << 20))
    chunks += stage.turn()
    assert len(chunks) == 3
    parts = [one for one in chunks if isinstance(one, Chunk)]
    assert {one.to_version for one in parts} == {20}
    assert [entry.key for one in parts for entry in one.entries] == keys
    assert [one.last for one in parts] == [False, False, True]


def test_reader_ahead_of_the_hubs_epoch_is_not_rolled_back() -> None:
    stage, _ = with_reader()
    ahead = Wanted(topic=1, level=FULL, epoch=11, version=1)
    catch_up(stage, 1 << 20, ahead)
    (answer,) = stage.turn()
    assert isinstance(answer, Refused)
    assert answer.topic == 1
    assert answer.retry_ms > 0


def test_too_many_streams_are_told_to_come_again() -> None:
    stage, _ = with_reader()
    for stream in range(1, 18):
        said = stage.say(READER_BULK, CatchUp(stream=stream, credit=0, wanted=(want(1),)))
    (answer,) = said
    assert isinstance(answer, Refused)
    assert (answer.code, answer.request) == ("BUSY", 17)
