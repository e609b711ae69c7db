"""Follower: one rule after the other, then all of them under loss, doubling and disorder."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.tests.topics.following import KEY, behind, chunk, delta, entry, live, requested, walk
from topicast.topics.streams.follower import (
    BEHIND,
    LIVE,
    QUEUE_BYTES_MAX,
    QUEUE_MAX,
    RETRY_S,
    RETRY_S_MAX,
    SILENCE_S,
    Adopt,
    Adopted,
    Apply,
    CaughtUp,
    Due,
    Fact,
    File,
    Follower,
    PeerAt,
    Reset,
    StreamLost,
)
from topicast.topics.topic import FULL, MINIMAL, stub
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.data import Chunk, Delta
from topicast.topics.wire.messages.readers import Wanted

SEEDS, WALKS = 10, 100


def again(follower: Follower, stream: int) -> None:
    """Lose the follower's stream, and open another."""
    follower.handle(StreamLost(), now=10)
    follower.opened(stream, now=10)


@pytest.mark.parametrize("position", [{}, {"epoch": 5, "version": 10}], ids=["new", "kept"])
def test_follower_begins_by_requesting_what_its_position_lacks(position: dict[str, int]) -> None:
    follower = Follower(7, FULL, **position)
    assert (follower.state, follower.deadline) == (BEHIND, 0.0)
    like = {"epoch": 0, "version": 0} | position
    assert requested(follower.handle(Due(), now=0)) == Wanted(topic=7, level=FULL, **like)


def test_follower_that_is_placed_goes_on_with_the_deltas_that_came_before() -> None:
    """P-CATCH-18: whatever start they are of, those behind the position are applied."""
    follower = Follower(7, MINIMAL)
    early = delta(9, 10, level=MINIMAL)
    late = (delta(10, 11, level=MINIMAL), replace(delta(11, 12, level=MINIMAL), start=2))
    for one in (early, *late):
        assert follower.handle(one, now=0) == ()
    assert follower.handle(Adopt(5, 10), now=1) == (Adopted(7, 5, 10), *map(Apply, late))
    assert (follower.state, follower.epoch, follower.version) == (LIVE, 5, 12)
    assert follower.deadline is None
    follower.check()


def test_delta_that_follows_is_applied_without_what_was_applied_before() -> None:
    """P-FOLLOW-1, P-FOLLOW-2."""
    follower = live()
    assert follower.handle(delta(10, 11), now=1) == (Apply(delta(10, 11)),)
    assert (follower.version, follower.deadline) == (11, None)
    assert follower.handle(delta(7, 12), now=1) == (Apply(delta(11, 12)),)
    assert follower.version == 12


@pytest.mark.parametrize(
    "fact",
    [
        *(delta(8, 10), delta(9, 10), delta(0, 1), delta(3, 99, epoch=4)),
        *(PeerAt(5, 10), PeerAt(5, 9), PeerAt(4, 99), StreamLost(), Due()),
        Refused(request=0, code="BUSY", message="", retry_ms=0),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_live_follower_ignores_what_is_late_or_no_newer(fact: Fact) -> None:
    """P-FOLLOW-3."""
    follower = live()
    assert follower.handle(fact, now=1) == ()
    assert (follower.state, follower.epoch, follower.version) == (LIVE, 5, 10)


@pytest.mark.parametrize(
    "fact",
    [delta(11, 12), delta(0, 1, epoch=6), PeerAt(5, 11), PeerAt(6, 0)],
    ids=["gap", "newer epoch", "heartbeat", "heartbeat of a newer epoch"],
)
def test_gap_is_noticed_and_repaired_from_the_position(fact: Delta | PeerAt) -> None:
    """P-FOLLOW-4, P-FOLLOW-5."""
    follower = live()
    assert requested(follower.handle(fact, now=1)) == Wanted(
        topic=7, level=FULL, epoch=5, version=10
    )
    assert follower.state is BEHIND
    follower.check()


@pytest.mark.parametrize("flags", [{"stubbed": True}, {"stubbed": True, "invalidate_all": True}])
def test_delta_without_its_values_is_no_step_at_full(flags: dict[str, bool]) -> None:
    """P-FOLLOW-6."""
    reported = delta(10, 11, entries=(stub(entry(11)),), **flags)
    assert requested(live().handle(reported, now=1)).version == 10
    assert live(level=MINIMAL).handle(reported, now=1) == (Apply(reported),)


@pytest.mark.parametrize("step", [(5, 10, 12), (5, 12, 13), (6, 11, 12)])
def test_step_moves_only_over_what_just_follows(step: tuple[int, int, int]) -> None:
    """P-FOLLOW-1."""
    follower = live()
    assert follower.step(5, 10, 11)
    assert not follower.step(*step)
    assert not behind().step(5, 10, 11)
    assert follower.version == 11


def test_chunks_are_filed_and_the_position_moves_at_the_end() -> None:
    """P-CATCH-2."""
    follower = behind()
    one = chunk(2, 10, 14, entries=(entry(12),), last=False)
    two = chunk(2, 10, 14, entries=(entry(14),), first=False, sequence=1)
    assert follower.handle(one, now=10) == (File(one),)
    assert (follower.state, follower.version) == (BEHIND, 10)
    follower.check()
    assert follower.handle(two, now=10) == (File(two), CaughtUp(two, 10))
    assert (follower.state, follower.version) == (LIVE, 14)
    follower.check()


def test_snapshot_discards_what_is_held_before_it_is_filed() -> None:
    """P-CATCH-4."""
    follower = behind()
    whole = chunk(2, 0, 14, entries=(entry(12),), snapshot=True)
    assert follower.handle(whole, now=10) == (Reset(7, FULL, 5), File(whole), CaughtUp(whole, 0))
    assert follower.version == 14


def test_deltas_wait_for_the_end_and_go_by_the_same_rule() -> None:
    """P-CATCH-5, P-CATCH-18: of another start is what would fill the gap."""
    follower, other = behind(), replace(delta(15, 16), start=2)
    waiting = (delta(9, 11), delta(11, 13), delta(13, 15), other, delta(16, 17), delta(17, 18))
    for one in waiting:
        assert follower.handle(one, now=10) == ()
    assert follower.queued() == waiting
    end = chunk(2, 10, 12, entries=(entry(12),))
    effects = follower.handle(end, now=10)
    assert effects[:2] == (File(end), CaughtUp(end, 10))
    assert effects[2:4] == (Apply(delta(12, 13)), Apply(delta(13, 15)))
    assert requested(effects[4:]).version == 15
    assert follower.queued() == (delta(17, 18),)
    follower.check()


def test_doubled_chunk_and_chunk_of_a_stream_given_up_are_nothing() -> None:
    """P-CATCH-6."""
    follower = behind()
    one = chunk(2, 10, 14, entries=(entry(12),), last=False)
    follower.handle(one, now=10)
    assert follower.handle(one, now=10) == ()
    for other in (follower, behind(), live()):
        assert other.handle(chunk(1, 0, 99, snapshot=True), now=10) == ()


def test_rest_after_a_missing_chunk_is_requested_from_the_last_that_came() -> None:
    """P-CATCH-7."""
    follower = behind()
    follower.handle(chunk(2, 10, 14, entries=(entry(12, KEY + b"k"),), last=False), now=10)
    late = chunk(2, 10, 14, entries=(entry(14),), first=False, sequence=2)
    assert requested(follower.handle(late, now=10)) == Wanted(
        topic=7,
        level=FULL,
        epoch=5,
        version=10,
        resume_version=12,
        resume_key=KEY + b"k",
        cut=14,
    )
    follower.check()


def test_resumed_snapshot_names_the_lowest_cut() -> None:
    """P-CATCH-8."""
    follower = behind()
    first = chunk(2, 0, 14, entries=(entry(11),), snapshot=True, last=False)
    follower.handle(first, now=10)
    wanted = requested(follower.handle(StreamLost(), now=10))
    assert (wanted.version, wanted.resume_version, wanted.cut) == (0, 11, 14)
    follower.opened(3, now=10)
    follower.handle(chunk(3, 0, 20, entries=(entry(12),), last=False), now=10)
    assert requested(follower.handle(StreamLost(), now=10)).cut == 14


def test_resume_that_comes_as_a_snapshot_begins_anew() -> None:
    follower = behind()
    follower.handle(chunk(2, 10, 14, entries=(entry(12),), last=False), now=10)
    again(follower, 3)
    anew = chunk(3, 0, 20, entries=(entry(2),), snapshot=True, last=False)
    assert follower.handle(anew, now=10) == (Reset(7, FULL, 5), File(anew))
    wanted = requested(follower.handle(StreamLost(), now=10))
    assert (wanted.version, wanted.resume_version, wanted.cut) == (0, 2, 20)


@pytest.mark.parametrize(
    "strange",
    [
        chunk(2, 10, 14, first=False),
        chunk(2, 10, 14, sequence=1),
        chunk(2, 10, 14, epoch=6),
        chunk(2, 0, 14, epoch=4, snapshot=True),
        chunk(2, 11, 14),
    ],
    ids=["not first", "not in order", "other epoch", "older snapshot", "above the position"],
)
def test_chunk_that_does_not_fit_ends_its_stream(strange: Chunk) -> None:
    """P-CATCH-7, P-CATCH-9."""
    follower = behind()
    assert follower.handle(strange, now=20) != ()
    assert (follower.stream, follower.epoch, follower.version) == (0, 5, 10)
    assert follower.handle(replace(strange, stream=2), now=20) == ()


def test_chunk_that_goes_back_behind_what_was_filed_ends_its_stream() -> None:
    """P-CATCH-9."""
    follower = behind()
    follower.handle(chunk(2, 10, 14, entries=(entry(12),), last=False), now=10)
    back = chunk(2, 10, 14, entries=(entry(12), entry(13)), first=False, sequence=1)
    assert requested(follower.handle(back, now=10)).resume_version == 12
    follower.opened(3, now=10)
    assert follower.handle(chunk(3, 10, 14), now=10)[-1] == CaughtUp(chunk(3, 10, 14), 10)


def test_catch_up_never_ends_below_what_another_sender_gave() -> None:
    """P-CATCH-10: what was filed up to 12 is of the moment 14, and not whole before."""
    follower = behind()
    assert follower.handle(chunk(2, 8, 8), now=10) == (CaughtUp(chunk(2, 8, 8), 10),)
    assert (follower.state, follower.version) == (LIVE, 10), "a lagging sender moves nobody back"
    follower = behind()
    follower.handle(chunk(2, 10, 14, entries=(entry(12),), last=False), now=10)
    again(follower, 3)
    assert follower.handle(chunk(3, 10, 13), now=10) == ()
    assert (follower.state, follower.version, follower.stream) == (BEHIND, 10, 0)
    assert requested(follower.handle(Due(), now=11)).resume_version == 12


def test_snapshot_of_a_lagging_sender_does_not_roll_back() -> None:
    """P-CATCH-10: a reset forgets the content, not what has been answered from it."""
    follower = behind(25)
    follower.handle(chunk(2, 0, 30, snapshot=True, last=False), now=10)
    again(follower, 3)
    follower.handle(chunk(3, 0, 20, entries=(entry(20),), snapshot=True), now=10)
    assert follower.state is BEHIND
    follower.check()
    follower.handle(Due(), now=11)
    follower.opened(4, now=11)
    follower.handle(chunk(4, 0, 31), now=11)
    assert (follower.state, follower.version) == (LIVE, 31)


def test_newer_epoch_may_begin_below_the_old_epoch() -> None:
    follower = behind(25)
    whole = chunk(2, 0, 3, epoch=6, snapshot=True, entries=(entry(3),))
    assert follower.handle(whole, now=10)[0] == Reset(7, FULL, 6)
    assert (follower.state, follower.epoch, follower.version) == (LIVE, 6, 3)


def test_new_epoch_in_the_middle_of_a_catch_up_orders_another() -> None:
    follower = behind()
    follower.handle(chunk(2, 10, 14, entries=(entry(12),), last=False), now=10)
    follower.handle(delta(0, 1, epoch=6), now=10)
    end = chunk(2, 10, 14, first=False, sequence=1)
    effects = follower.handle(end, now=10)
    assert effects[0] == CaughtUp(end, 10)
    assert requested(effects[1:]) == Wanted(topic=7, level=FULL, epoch=5, version=14)
    assert follower.queued() == ()


def test_delta_that_fits_nowhere_orders_one_catch_up() -> None:
    """P-FOLLOW-7."""
    follower = live()
    requested(follower.handle(delta(98, 99), now=10))
    follower.opened(2, now=10)
    assert follower.handle(delta(88, 89), now=10) == ()
    requested(follower.handle(chunk(2, 10, 12), now=11)[1:])
    follower.opened(3, now=11)
    assert follower.queued() == ()
    assert follower.handle(chunk(3, 12, 12), now=12) == (CaughtUp(chunk(3, 12, 12), 12),)
    assert follower.state is LIVE


def test_invalidate_all_marker_is_filed_and_is_no_token() -> None:
    reported = chunk(2, 0, 14, level=MINIMAL, invalidate_all=True, snapshot=True)
    effects = behind(level=MINIMAL).handle(reported, now=10)
    assert effects == (Reset(7, MINIMAL, 5), File(reported), CaughtUp(reported, 0))
    follower = behind(level=MINIMAL)
    follower.handle(replace(reported, last=False), now=10)
    assert requested(follower.handle(StreamLost(), now=10)).resume_version == 0


@pytest.mark.parametrize(
    ("retry_ms", "waits_s"), [(0, RETRY_S), (1500, 1.5), (1 << 60, RETRY_S_MAX)]
)
@pytest.mark.parametrize("topic", [-1, 7])
def test_refused_follower_requests_again_after_the_time_named(
    retry_ms: int, waits_s: float, topic: int
) -> None:
    """P-CATCH-11."""
    follower = behind()
    no = Refused(request=2, code="BUSY", message="", retry_ms=retry_ms, topic=topic)
    deadline = follower.deadline
    for other in (replace(no, topic=8), replace(no, request=3)):
        assert follower.handle(other, now=10) == (), "something else was refused"
    assert (follower.stream, follower.deadline) == (2, deadline)
    assert follower.handle(no, now=10) == ()
    assert (follower.stream, follower.deadline) == (0, 10 + waits_s)
    assert follower.handle(Due(), now=10 + waits_s - 0.01) == ()
    assert requested(follower.handle(Due(), now=10 + waits_s)).version == 10


def test_silent_stream_is_given_up() -> None:
    """P-CATCH-12."""
    follower = behind()
    assert follower.deadline == 10 + SILENCE_S
    assert follower.handle(Due(), now=10 + SILENCE_S - 0.01) == ()
    assert requested(follower.handle(Due(), now=10 + SILENCE_S)).version == 10
    assert follower.stream == 0


def test_each_silent_stream_in_a_row_is_waited_for_twice_as_long() -> None:
    """P-CATCH-12: a sender that is slow is not asked ever more often."""
    follower, now, waits_s = behind(), 10.0, []
    for stream in range(3, 9):
        waits_s.append(follower.deadline - now)
        now = follower.deadline
        requested(follower.handle(Due(), now=now))
        follower.opened(stream, now=now)
    assert waits_s == [2.0, 4.0, 8.0, 16.0, 16.0, 16.0]
    follower.handle(chunk(8, 10, 14, entries=(entry(12),), last=False), now=now)
    assert follower.deadline == now + SILENCE_S


def test_stream_that_carries_another_topic_is_not_silent() -> None:
    """P-CATCH-12."""
    follower = behind()
    follower.on_stream_active(now=11)
    assert follower.deadline == 11 + SILENCE_S
    follower.handle(Due(), now=11 + SILENCE_S)
    follower.on_stream_active(now=20)
    assert follower.deadline == 11 + SILENCE_S + RETRY_S


def test_answers_that_bring_nothing_are_requested_again_after_a_pause() -> None:
    """P-CATCH-13: otherwise a sender of an old epoch would be asked as fast as it answers."""
    follower = behind()
    old = chunk(2, 0, 50, epoch=4, snapshot=True)
    assert follower.handle(old, now=10.1) == ()
    assert follower.deadline == pytest.approx(10 + RETRY_S)
    requested(follower.handle(Due(), now=10 + RETRY_S))
    follower.opened(3, now=10 + RETRY_S)
    assert follower.handle(replace(old, stream=3), now=10.3) == ()


def test_snapshot_that_has_begun_is_followed_at_once() -> None:
    """P-CATCH-4, P-CATCH-13: what was held is gone, so waiting would leave readers with nothing."""
    follower = behind()
    follower.handle(chunk(2, 0, 50, snapshot=True, last=False), now=10)
    assert requested(follower.handle(StreamLost(), now=10)).version == 0


def test_answers_that_bring_something_are_followed_at_once() -> None:
    """P-CATCH-13."""
    follower = behind()
    follower.handle(chunk(2, 10, 14, entries=(entry(12),), last=False), now=10)
    requested(follower.handle(StreamLost(), now=10))
    follower.opened(3, now=10)
    follower.handle(chunk(3, 10, 15), now=10)
    assert requested(follower.handle(delta(16, 17), now=10)).version == 15
    follower.opened(4, now=10)
    follower.handle(chunk(4, 15, 15), now=10)
    assert follower.handle(delta(18, 19), now=10) == ()
    assert follower.deadline == pytest.approx(10 + RETRY_S)


def test_queue_is_bounded_in_deltas_and_the_newest_stay() -> None:
    """P-LIM-7."""
    follower = behind()
    for version in range(10, 10 + QUEUE_MAX + 1):
        follower.handle(delta(version, version + 1, entries=()), now=10)
    assert follower.queued() == (delta(10 + QUEUE_MAX, 11 + QUEUE_MAX, entries=()),)
    effects = follower.handle(chunk(2, 10, 11), now=10)
    assert requested(effects[1:]).version == 11
    follower.check()


def test_queue_is_bounded_in_bytes() -> None:
    """P-LIM-7."""
    follower = behind()
    large = (entry(11, content=bytes(60_000)),)
    for version in range(10, 10 + QUEUE_BYTES_MAX // 60_000 + 2):
        follower.handle(delta(version, version + 1, entries=large), now=10)
        follower.check()
    assert 0 < len(follower.queued()) < 5


@pytest.mark.parametrize("seed", range(SEEDS))
def test_reader_shows_only_moments_of_the_writer_and_never_goes_back(seed: int) -> None:
    """P-CATCH-7, P-CATCH-8, P-FLOOR-1, P-FLOOR-3."""
    rng = Random(seed)
    for _ in range(WALKS):
        walk(rng.randint, steps=150)


@given(data=st.data(), steps=st.integers(1, 30))
def test_no_short_story_breaks_the_reader(data: st.DataObject, steps: int) -> None:
    walk(lambda low, high: data.draw(st.integers(low, high)), steps=steps)
