"""Followers driven through catch-ups: what is requested when, under which credit, and retried."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pytest

from topicast.tests.topics.following import chunk, delta
from topicast.topics.backports import Self
from topicast.topics.streams.follower import (
    LIVE,
    SILENCE_S,
    Adopt,
    Adopted,
    CaughtUp,
    Due,
    Fact,
    PeerAt,
    Reset,
    StreamLost,
    Want,
)
from topicast.topics.streams.followers import (
    CANCELLED_MAX,
    PATIENCE_S_MAX,
    Abandoned,
    Followers,
    Step,
    TopicLevel,
)
from topicast.topics.streams.sender import CREDIT_DEFAULT
from topicast.topics.topic import FULL, MINIMAL
from topicast.topics.turn import Turn
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.data import Chunk
from topicast.topics.wire.messages.readers import CatchUp

STEP = 100  # bytes: the smallest credit


@dataclass
class Reader:
    """A session and limits that a test sets; nothing else is confirmed, or expected."""

    topics_confirmed: set[int] = field(default_factory=set)
    expected: dict[int, int] = field(default_factory=dict)

    def confirmed(self, topic_level: TopicLevel) -> bool:
        return topic_level[0] in self.topics_confirmed

    def expected_bytes(self, topic_level: TopicLevel) -> int:
        return self.expected.get(topic_level[0], 0)


class TimedSet(Followers):
    """Followers whose time a test sets."""

    def __init__(self, turn: Turn[object], **limits: Any) -> None:
        super().__init__(turn, **limits)
        self._turn = turn

    def at(self, now: float) -> Self:
        """Return itself, at ``now``."""
        self._turn.now = now
        return self


def replicas(*topics: int, answer_s: float = 0.0, reader: Reader | None = None) -> TimedSet:
    """Return a set that follows ``topics`` at full; without ``reader`` there is no limit."""
    limits: dict[str, Any] = {"answer_s": lambda: answer_s}
    if reader is not None:
        limits |= {"confirmed": reader.confirmed, "expected_bytes": reader.expected_bytes}
    made = TimedSet(Turn[object](), next_id=count(1).__next__, credit_step=STEP, **limits)
    for topic in topics:
        made.follow(topic, FULL)
    return made


def feed(one: TimedSet, topic: int, fact: Fact, *, now: float) -> list[Step]:
    steps = list(one.at(now).feed((topic, FULL), fact))
    one.check()
    return steps


def tick(one: TimedSet, *, now: float) -> CatchUp | None:
    """Let what is overdue be requested."""
    for topic, _ in one.at(now).overdue():
        feed(one, topic, Due(), now=now)
    return one.at(now).request(one.wanted)


def opened(one: TimedSet, *, now: float = 0.0) -> CatchUp:
    request = tick(one, now=now)
    assert request is not None
    return request


def granted(one: TimedSet, cost: int) -> int:
    """Return the credit that stream 1 is granted once ``cost`` bytes of it are processed."""
    more = one.processed(1, cost)
    return 0 if more is None else more.amount


def part(topic: int, stream: int, version: int, **changed: object) -> Chunk:
    """Return the whole snapshot of a topic, or what ``changed`` makes of it."""
    return replace(chunk(stream, 0, version, snapshot=True, topic=topic), **changed)  # type: ignore[arg-type]  # each names a field


def topics_of(topic_levels: Iterable[TopicLevel]) -> list[int]:
    return [topic for topic, _ in topic_levels]


def test_one_request_is_opened_for_all_that_is_wanted_in_its_order() -> None:
    one = replicas(3, 1, 2)
    request = opened(one)
    assert [wanted.topic for wanted in request.wanted] == [3, 1, 2]
    assert (request.stream, request.credit) == (1, CREDIT_DEFAULT)
    assert one.served_by(1) == ((3, FULL), (1, FULL), (2, FULL))
    assert tick(one, now=0.5) is None


def test_topic_that_is_caught_up_leaves_its_stream_and_the_last_topic_closes_it() -> None:
    one = replicas(1, 2)
    opened(one)
    steps = feed(one, 1, part(1, 1, 10), now=0.1)
    assert steps == [Reset(1, FULL, 5), CaughtUp(part(1, 1, 10), 0)]
    assert (one.behind_count, topics_of(one.served_by(1))) == (1, [2])
    feed(one, 2, part(2, 1, 4), now=0.2)
    assert one.behind_count == 0
    assert one.deadline is None
    assert not one.at(0.3).note_active(1, (2, FULL)), "what still comes is cancelled"
    assert one.processed(1, 500) is None


@pytest.mark.parametrize("fact", [PeerAt(5, 99), StreamLost(), Due()], ids=str)
def test_nothing_is_requested_before_its_deltas_are_sure_to_come(fact: Fact) -> None:
    """P-SUB-3: neither for a heartbeat, nor a lost stream, nor an answer that is overdue."""
    reader = Reader({1}, {1: 1000})
    one = replicas(1, reader=reader)
    opened(one)
    if isinstance(fact, PeerAt):
        feed(one, 1, part(1, 1, 10), now=0.1)
    reader.topics_confirmed.clear()  # another connection
    one.lose_streams()
    assert feed(one, 1, fact, now=10.0) == []
    assert (one.wanted, one.deadline) == ((), None)
    reader.topics_confirmed.add(1)
    assert [type(step) for step in feed(one, 1, fact, now=10.0)] == [Want]
    assert one.wanted == ((1, FULL),)


def test_position_that_comes_in_a_catch_up_abandons_its_stream() -> None:
    """P-SUB-3: nothing of it is expected any more, so what still comes is cancelled."""
    one = replicas()
    one.follow(1, MINIMAL)
    assert [type(step) for step in one.at(0.0).feed((1, MINIMAL), Due())] == [Want]
    assert one.at(0.0).request(one.wanted) is not None
    steps = list(one.at(0.1).feed((1, MINIMAL), Adopt(5, 10)))
    assert steps == [Adopted(1, 5, 10), Abandoned(1)]
    one.check()
    assert (one.behind_count, one.served_by(1), one.deadline) == (0, (), None)
    assert not one.at(0.2).note_active(1, (1, MINIMAL))


def test_what_is_due_first_is_nothing_any_more_once_it_is_not_confirmed() -> None:
    """P-SUB-3."""
    reader = Reader({1})
    one = replicas(1, reader=reader)
    opened(one)
    assert one.deadline == SILENCE_S
    reader.topics_confirmed.clear()
    assert one.deadline is None


def test_stream_is_granted_only_the_bytes_that_are_expected() -> None:
    """P-CREDIT-5."""
    reader = Reader({1, 2}, {1: 600, 2: 400})
    one = replicas(1, 2, reader=reader)
    assert opened(one).credit == 1000
    reader.expected[1] = 300  # as much of what was reserved is held now
    assert granted(one, 300) == 0
    assert granted(one, 150) == 150, "of the chunks' headers: that is not reserved"
    reader.expected[1] = 0
    feed(one, 1, part(1, 1, 10), now=0.1)
    assert granted(one, 300) == 0, "400 bytes were granted, and are expected"
    reader.expected[2] = CREDIT_DEFAULT + 1
    assert granted(one, 10) == 0, "it is looked at once in a step"
    assert granted(one, 90) == CREDIT_DEFAULT - 300


def test_stream_for_which_nothing_is_reserved_gets_one_byte_and_ends_in_time() -> None:
    """P-CREDIT-5."""
    one = replicas(1, reader=Reader({1}))
    assert opened(one).credit == 1
    assert granted(one, 200) == 200


def test_credit_for_less_than_a_step_is_not_worth_its_frame() -> None:
    """P-CREDIT-5: it is renewed from one step on."""
    one = replicas(1)
    opened(one)
    assert granted(one, STEP - 1) == 0
    assert granted(one, 1) == STEP


def test_stream_that_has_no_credit_left_is_granted_even_less_than_a_step() -> None:
    """P-CREDIT-5: else it would stop there until it counts as silent."""
    one = replicas(1, reader=Reader({1}, {1: STEP // 2}))
    assert opened(one).credit == STEP // 2
    assert granted(one, STEP // 2 - 1) == 0
    assert granted(one, 1) == STEP // 2


def test_topic_whose_turn_has_not_come_waits_as_long_as_its_stream_is_active() -> None:
    """P-CATCH-12."""
    one = replicas(1, 2)
    opened(one)
    for sequence in range(4):
        now = 1.5 * (sequence + 1)
        assert one.at(now).overdue() == []
        first = {"first": sequence == 0, "snapshot": sequence == 0}
        entries = delta(sequence, sequence + 1).entries
        token = {"resume_version": sequence + 1, "resume_key": entries[0].key}
        got = part(1, 1, 10, sequence=sequence, last=False, entries=entries, **first, **token)
        assert one.at(now).note_active(1, (1, FULL))
        feed(one, 1, got, now=now)
    assert one.at(6.0 + SILENCE_S - 0.1).overdue() == []
    assert topics_of(one.at(6.0 + SILENCE_S).overdue()) == [1, 2]


@pytest.mark.parametrize("order", [(1, 2), (2, 1)], ids=["first", "second"])
def test_topic_whose_turn_has_come_is_overdue_when_nothing_more_of_it_comes(
    order: tuple[int, int],
) -> None:
    """P-CATCH-12: whichever of the topics was followed first."""
    one = replicas(*order)
    opened(one)
    one.at(0.1).note_active(1, (1, FULL))
    one.at(1.9).note_active(1, (2, FULL))  # the end of the first topic was lost
    feed(one, 2, part(2, 1, 10, last=False), now=1.9)
    assert topics_of(one.at(SILENCE_S).overdue()) == [1]


def test_silent_stream_is_abandoned_by_what_is_requested_anew() -> None:
    """P-CATCH-12."""
    one = replicas(1)
    opened(one)
    feed(one, 1, part(1, 1, 10, last=False, entries=delta(0, 1).entries), now=0.1)
    assert one.deadline == 0.1 + SILENCE_S
    [want, abandoned] = feed(one, 1, Due(), now=0.1 + SILENCE_S)
    assert isinstance(want, Want)
    assert abandoned == Abandoned(1)
    assert not one.at(0.1 + SILENCE_S).note_active(1, (1, FULL)), "what still comes is cancelled"
    again = one.at(0.1 + SILENCE_S).request(one.wanted)
    assert again is not None
    assert again.stream == 2


@pytest.mark.parametrize(
    ("answer_s", "silence_s"), [(0.1, SILENCE_S), (3.0, 12.0), (30.0, PATIENCE_S_MAX)]
)
def test_peer_that_is_slow_is_waited_for_longer(answer_s: float, silence_s: float) -> None:
    """P-CATCH-12: a peer that is asked again does everything twice, and is slower yet."""
    one = replicas(1, 2, answer_s=answer_s)
    opened(one)
    assert one.deadline == silence_s
    assert one.at(silence_s - 0.1).overdue() == []
    assert topics_of(one.at(silence_s).overdue()) == [1, 2]


def test_stream_that_still_comes_is_cancelled_once_a_second() -> None:
    """P-CATCH-6: what was sent before the peer reads the Cancel is on its way."""
    one = replicas(1)
    now_or_not = [one.at(at).must_cancel(7) for at in (0.0, 0.0, 0.9, 1.0, 1.9)]
    assert now_or_not == [True, False, False, True, False]
    assert one.at(1.9).must_cancel(8)
    opened(one, now=2.0)
    feed(one, 1, StreamLost(), now=2.1)
    assert not one.at(2.2).must_cancel(1), "the owner was notified that it is abandoned"
    for stream in range(100, 100 + CANCELLED_MAX):
        assert one.at(2.2).must_cancel(stream)
    assert one.at(2.2).must_cancel(8), "no more are remembered"


def test_topic_that_is_refused_alone_leaves_the_others_in_the_stream() -> None:
    one = replicas(1, 2)
    opened(one)
    refused = Refused(request=1, code="RETRY", message="", retry_ms=300, topic=2)
    assert feed(one, 2, refused, now=0.0) == []
    assert topics_of(one.served_by(1)) == [1]
    again = tick(one, now=0.3)
    assert again is not None
    assert [wanted.topic for wanted in again.wanted] == [2]


def test_what_is_followed_no_more_is_neither_wanted_nor_served() -> None:
    one = replicas(1, 2)
    opened(one)
    assert one.stop((1, FULL)) == ()
    assert one.stop((2, FULL)) == (1,), "nothing is left in the stream"
    assert one.topic_levels() == ()
    assert feed(one, 1, part(1, 1, 10), now=0.1) == []
    one.follow(1, MINIMAL)
    one.check()


def test_steps_end_when_one_of_them_had_the_follower_stopped() -> None:
    one = replicas(1)
    opened(one)
    steps = one.at(0.1).feed((1, FULL), part(1, 1, 10, entries=delta(0, 1).entries))
    assert isinstance(next(steps), Reset)
    one.stop((1, FULL))
    assert list(steps) == []
    one.check()


def test_lost_streams_are_requested_anew_in_one_stream() -> None:
    one = replicas(1, 2, 3)
    opened(one)
    feed(one, 2, part(2, 1, 10), now=0.1)
    lost = one.lose_streams()
    assert topics_of(lost) == [1, 3]
    for topic, _ in lost:
        feed(one, topic, StreamLost(), now=1.0)
    again = one.at(1.0).request(one.wanted)
    assert again is not None
    assert [wanted.topic for wanted in again.wanted] == [1, 3]
    follower = one.get((2, FULL))
    assert follower is not None
    assert follower.state is LIVE
