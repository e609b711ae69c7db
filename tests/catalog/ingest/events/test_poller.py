"""The poller: polls in time and one at a time, and knows up to where everything is published."""

import gc
from dataclasses import replace
from typing import Any

import pytest

from topicast.catalog.ingest.events.event_window import SETTLE_EVERY_S, WINDOW_S, EventWindow
from topicast.catalog.ingest.events.identity import Finding, Identified, Identify
from topicast.catalog.ingest.events.poller import (
    ACTIVE_S,
    BACKOFF_S,
    BACKOFF_S_MAX,
    BEHIND_EVENTS_MAX,
    LATE_S,
    LOOKS,
    POLL_EVENTS_MAX,
    REFUSED,
    STATES_MAX,
    UNSENDABLE_TRIES_MAX,
    Batch,
    Poll,
    Polled,
    Poller,
    PollFailed,
)
from topicast.catalog.ingest.loads.needs import NEVER
from topicast.catalog.model.window_state import KnownEvent, WindowState
from topicast.tests.cluster.fake_metastore import raw_event
from topicast.topics.errors import UsageError
from topicast.topics.objects.source_problem import ProblemKind, SourceProblem
from topicast.topics.turn import Turn

INTERVAL_S = 0.5


class World:
    """A poller in virtual time, whose polls are numbered from 1."""

    def __init__(
        self,
        last_id: int | None = 10,
        *,
        interval_s: float = INTERVAL_S,
        checked: bool = True,
        known: tuple[KnownEvent, ...] = (),
    ) -> None:
        self.turn = Turn[Poll | Identify]()
        self.now = 100.0
        window = None
        if last_id is not None:
            state = WindowState(last_id=last_id, stable_id=last_id, known=known)
            window = EventWindow(state, now=self.now)
        self.poller = Poller(window, turn=self.turn, interval_s=interval_s)
        self.number = 0
        for _ in range(
            2 if checked and window else 0
        ):  # no event is known: the second one compares tables
            self.check()

    @property
    def now(self) -> float:
        return self.turn.now

    @now.setter
    def now(self, now: float) -> None:
        self.turn.now = now

    def begin(self, number: int) -> Any:
        """Return what is ordered as poll ``number``."""
        self.poller.begin(number)
        (order,) = self.turn.end()
        return order

    def check(self, current_id: int | None = None, **found: Any) -> Finding | None:
        """Check the connection; by default it is the first, and leads to the same log."""
        order = self.begin(0)
        assert isinstance(order, Identify)
        newest = self.poller.watermark if current_id is None else current_id
        fields = {"connection": 1, "uuid": "", "current_id": newest, **found}
        return self.poller.on_identified(Identified(poll=0, **fields))

    def poll(self, *ids: int, current_id: int | None = None) -> Batch | None:
        """Poll once; these events are answered."""
        self.number += 1
        self.demand()
        self.begin(self.number)
        events = tuple(map(raw_event, ids))
        newest = max(ids, default=self.poller.watermark) if current_id is None else current_id
        return self.poller.on_polled(
            Polled(poll=self.number, connection=1, current_id=newest, events=events)
        )

    def demand(self) -> None:
        """Let the next poll read all again."""
        self.poller.poll_now()

    def settle(self) -> None:
        """Let everything seen so far become too old to be read again."""
        for _ in range(3):
            self.now += WINDOW_S + SETTLE_EVERY_S
            last = self.poller.window.last_id if self.poller.window else 0
            self.poll(current_id=last)


@pytest.fixture
def world() -> World:
    return World()


def test_first_check_begins_a_window_at_the_newest_event() -> None:
    world = World(None)
    assert world.check(current_id=7, uuid="one") is None
    assert (world.poller.watermark, world.poller.seq) == (7, 0)
    assert world.poller.published == WindowState(last_id=7, stable_id=0, uuid="one")
    world.now += 1
    assert world.poller.silent_s() == 1
    assert world.poll(7) is not None


def test_one_poll_runs_at_a_time_and_the_next_is_due_an_interval_after_it_began(
    world: World,
) -> None:
    assert world.poller.may_begin()
    world.begin(1)
    world.now += 60
    assert not world.poller.may_begin()
    assert world.poller.deadline is None
    world.now -= 59.9
    world.poller.on_polled(Polled(poll=1, connection=1, current_id=10, events=()))
    assert world.poller.deadline == world.now - 0.1 + INTERVAL_S
    assert not world.poller.may_begin()


def test_poll_that_took_longer_than_the_interval_is_followed_at_once(world: World) -> None:
    world.begin(1)
    world.now += 3 * INTERVAL_S
    world.poller.on_polled(Polled(poll=1, connection=1, current_id=10, events=()))
    assert world.poller.may_begin()


def test_request_that_waits_makes_the_next_poll_due_and_never_delays_it(world: World) -> None:
    world.poll()
    world.poller.poll_now()
    assert world.poller.deadline == world.now
    assert world.poller.may_begin()
    world.now += 60
    world.poller.poll_now()
    assert world.poller.deadline == world.now - 60


def test_pauses_grow_while_the_metastore_fails_and_no_request_shortens_them(world: World) -> None:
    pauses = []
    for number in range(1, 8):
        world.begin(number)
        world.poller.on_failed(PollFailed(poll=number, error="down"))
        world.poller.poll_now()
        assert world.poller.deadline is not None
        pauses.append(round(world.poller.deadline - world.now, 3))
        world.now = world.poller.deadline
    assert pauses == [0.2, 0.4, 0.8, 1.6, BACKOFF_S_MAX, BACKOFF_S_MAX, BACKOFF_S_MAX]
    assert world.poller.error == "down"
    world.poll()
    assert world.poller.error == ""
    world.number = 9
    world.begin(9)
    world.poller.on_failed(PollFailed(poll=9, error="down"))
    assert world.poller.deadline == world.now + BACKOFF_S


def test_poll_that_failed_is_followed_by_polls_of_fewer_events_until_they_are_answered(
    world: World,
) -> None:
    """Each can bring something new, though what is known is read again; after answers, of more."""
    world.poll(11, 12, 13)
    known = 3

    def events_max() -> int:
        world.demand()
        order = world.begin(world.number + 1)
        assert isinstance(order, Poll)
        return order.events_max

    assert events_max() == POLL_EVENTS_MAX
    for most in (256, 64, 16, 4, 1, 1):
        world.poller.on_failed(PollFailed(poll=world.number + 1, error="timed out"))
        assert events_max() == known + most
    batch = world.poll(11, 12, 13, 14, current_id=20)
    assert batch is not None
    assert [one.id for one in batch.events] == [14]
    assert not batch.whole, "it was as many as were asked for"
    assert world.poller.deadline == world.now
    assert events_max() == known + 1 + 4
    world.now += LATE_S
    world.poller.check_late()
    events = tuple(map(raw_event, range(11, 19)))
    late = Polled(poll=world.number + 1, connection=1, current_id=20, events=events)
    assert world.poller.on_polled(late) is not None
    assert events_max() == known + 1 + 4 + 5, "of many more none may come in time"
    batch = world.poll(*range(11, 21))
    assert batch is not None
    assert batch.whole
    for _ in range(3):
        world.poll(current_id=20)
    assert events_max() == POLL_EVENTS_MAX


def test_while_events_come_new_ids_are_looked_for_more_often(world: World) -> None:
    """A look reads no event: alone, the new events may lack an event of a lower id."""
    world.poll(11)
    assert world.poller.deadline == world.now + INTERVAL_S / LOOKS
    world.now += INTERVAL_S / LOOKS
    look = world.begin(2)
    assert isinstance(look, Poll)
    assert look.events_max == 0
    assert world.poller.on_polled(Polled(poll=2, connection=1, current_id=11, events=())) is None
    assert world.poller.deadline == world.now + INTERVAL_S / LOOKS
    assert world.poller.polled[0] == 1, "it confirms nothing"
    world.poller.reading = True
    assert world.poller.deadline == world.now + INTERVAL_S * (1 - 1 / LOOKS), "no look in its way"
    world.poller.reading = False
    world.now += INTERVAL_S / LOOKS
    world.begin(3)
    world.poller.on_polled(Polled(poll=3, connection=1, current_id=12, events=()))
    assert world.poller.deadline == world.now
    poll = world.begin(4)
    assert isinstance(poll, Poll)
    assert (poll.after, poll.events_max) == (10, POLL_EVENTS_MAX)
    found = Polled(poll=4, connection=1, current_id=12, events=(raw_event(11), raw_event(12)))
    batch = world.poller.on_polled(found)
    assert batch is not None
    assert ([one.id for one in batch.events], batch.whole) == ([12], True)
    world.number = 4
    world.now += ACTIVE_S + INTERVAL_S
    world.poll(current_id=12)
    assert world.poller.deadline == world.now + INTERVAL_S, "nothing came for a while"


@pytest.fixture
def absent() -> World:
    """A poller that knows event 10 of a connection that was not checked."""
    return World(10, checked=False, known=((10, raw_event(10).digest),))


LARGE = '{"x": "' + "x" * 10_000 + '"}'
MANY_EVENTS = 10 + 4 * POLL_EVENTS_MAX


def checked_with(world: World, *ids: int, current_id: int = MANY_EVENTS) -> Polled | None:
    """Check with the answer ``ids``, behind event 10; return what of it is a poll's answer."""
    assert world.begin(7) == Identify(poll=7, after=9, behind=True)
    events = (raw_event(10), *(raw_event(id_, message=LARGE) for id_ in ids))
    fact = Identified(poll=7, connection=1, uuid="", current_id=current_id, events=events)
    finding = world.poller.on_identified(fact)
    assert finding is not None
    assert finding.same
    return world.poller.first_poll(fact)


def test_what_a_check_reads_after_an_absence_is_the_answer_to_the_first_poll(absent: World) -> None:
    first = checked_with(absent, 11, 12, 13)
    assert first is not None
    batch = absent.poller.on_polled(first)
    assert batch is not None
    assert ([one.id for one in batch.events], batch.gap, batch.whole) == ([11, 12, 13], None, False)
    assert absent.poller.deadline == absent.now
    then = absent.begin(8)
    assert 10 <= then.after <= 13
    assert POLL_EVENTS_MAX < then.events_max < BEHIND_EVENTS_MAX


def test_missing_events_show_in_what_a_check_reads_after_an_absence(absent: World) -> None:
    first = checked_with(absent, 15, 16)
    assert first is not None
    batch = absent.poller.on_polled(first)
    assert batch is not None
    assert batch.gap == (11, 14)


def test_few_events_that_wait_are_left_to_the_first_poll(absent: World) -> None:
    assert checked_with(absent, 11, 12, current_id=12) is None
    assert isinstance(absent.begin(8), Poll)


def test_what_a_check_reads_is_no_answer_for_an_order_to_go_elsewhere(absent: World) -> None:
    """Given a check that knows events behind the id to go to, then a poll reads from there."""
    absent.poller.start(3)
    assert checked_with(absent, 11, 12) is None
    absent.poller.move()
    assert absent.begin(8).after == 3


def test_events_between_the_last_and_those_that_a_check_knows_are_polled() -> None:
    """Given a crash, then the newest that were seen may all be ahead of what is published."""
    ahead = tuple((id_, raw_event(id_).digest) for id_ in range(20, 36))
    state = WindowState(last_id=10, stable_id=10, ahead=ahead)
    world = World()
    world.poller = Poller(EventWindow(state, now=100.0), turn=world.turn, interval_s=INTERVAL_S)
    order = world.begin(1)
    assert order.after == 19
    events = tuple(map(raw_event, range(20, 40)))
    fact = Identified(poll=1, connection=1, uuid="", current_id=MANY_EVENTS, events=events)
    assert world.poller.on_identified(fact) is not None
    assert world.poller.first_poll(fact) is None
    assert world.begin(2).after == 10


def test_answers_to_another_poll_are_ignored(world: World) -> None:
    world.begin(2)
    world.poller.on_failed(PollFailed(poll=1, error="late"))
    late = Polled(poll=1, connection=1, current_id=11, events=(raw_event(11),))
    assert world.poller.on_polled(late) is None
    assert world.poller.error == ""
    assert world.poller.deadline is None, "poll 2 still runs"


def test_each_batch_of_new_events_has_a_number_and_silence_has_none(world: World) -> None:
    first = world.poll(11, 12)
    assert first is not None
    assert ([one.id for one in first.events], first.seq, first.whole) == ([11, 12], 1, True)
    again = world.poll(11, 12)
    assert again is not None
    assert (again.events, again.seq) == ((), 1)
    third = world.poll(11, 12, 13)
    assert third is not None
    assert third.seq == world.poller.seq == 2


def test_only_the_newest_id_is_read_while_no_event_can_be_new(world: World) -> None:
    assert world.begin(1).quiet_at == 10
    world.poller.on_polled(Polled(poll=1, connection=1, current_id=11, events=(raw_event(11),)))
    world.now += INTERVAL_S
    assert world.begin(2).quiet_at is None, "11 may come twice"
    world.poller.on_polled(Polled(poll=2, connection=1, current_id=11, events=(raw_event(11),)))
    world.number = 2
    world.settle()
    world.demand()
    assert world.begin(9).quiet_at == 11


def test_lower_id_is_checked_and_then_of_another_metastore(world: World) -> None:
    assert world.poll(current_id=3) is None
    found = world.check(current_id=3)
    assert found is not None
    assert (found.same, found.why) == (False, "its newest event is 3, and 10 was read before")
    assert world.poller.published == WindowState(last_id=10, stable_id=10)


def test_answer_of_another_connection_is_void_until_it_is_checked(world: World) -> None:
    """Given a known event, then it distinguishes the connections that lead to the metastore."""
    world.poll(11)
    world.number += 1
    world.begin(world.number)
    stranger = Polled(poll=world.number, connection=2, current_id=12, events=(raw_event(12),))
    assert world.poller.on_polled(stranger) is None
    assert world.poller.deadline == world.now, "the check follows at once"
    events = (raw_event(11), raw_event(12))
    found = world.check(connection=2, current_id=12, events=events, uuid="one")
    assert found is not None
    assert found.same
    assert world.poller.window is not None
    assert world.poller.window.uuid == "one"
    world.number += 1
    world.begin(world.number)
    batch = world.poller.on_polled(replace(stranger, poll=world.number))
    assert batch is not None
    assert [one.id for one in batch.events] == [12]


def test_check_that_fails_is_repeated_after_a_pause() -> None:
    world = World(checked=False)
    world.begin(1)
    world.poller.on_failed(PollFailed(poll=1, error="down"))
    assert world.poller.deadline == world.now + BACKOFF_S
    assert world.poller.problem() == "down"
    assert isinstance(world.begin(2), Identify)
    late = Identified(poll=1, connection=1, uuid="", current_id=3)
    assert world.poller.on_identified(late) is None
    assert world.poller.problem() == "down", "check 2 still runs"


def test_watermark_follows_only_what_is_published(world: World) -> None:
    """Given batches 1, 2 and 3, when 2 is published last, then the store may keep 1 until then."""
    for number in (11, 12, 13):
        world.poll(number)
    for oldest_unpublished, watermark in ((1, 10), (2, 11), (NEVER, 13), (NEVER, 13)):
        world.poller.mark_published(oldest_unpublished)
        assert world.poller.watermark == watermark


def test_state_of_a_batch_is_the_newest_of_its_number(world: World) -> None:
    """Given a batch whose ids become stable before it is published, only its newest is kept."""
    world.poll(11)
    world.settle()
    world.poller.mark_published(1)
    assert world.poller.published is not None
    assert world.poller.published.stable_id == 10
    world.poller.mark_published(NEVER)
    digest = raw_event(11).digest
    assert world.poller.published == WindowState(last_id=11, stable_id=11, known=((11, digest),))


def test_silence_gives_the_store_nothing_to_keep(world: World) -> None:
    before = world.poller.published
    world.poll()
    world.poller.mark_published(NEVER)
    assert world.poller.published is before


def test_poll_that_waits_for_its_answer_is_a_problem_and_counted_once(world: World) -> None:
    world.poller.check_late()  # while none runs
    world.begin(1)
    world.now += LATE_S - 0.1
    world.poller.check_late()
    assert (world.poller.late, world.poller.problem()) == (0, "")
    world.now += 0.1
    for _ in range(3):
        world.poller.check_late()
    assert world.poller.late == 1
    assert world.poller.problem() == "a poll for events has waited 2 s for its answer"
    world.poller.on_polled(Polled(poll=1, connection=1, current_id=10, events=()))
    world.poller.check_late()
    assert (world.poller.late, world.poller.problem()) == (1, "")
    world.number = 1
    world.poll()
    assert world.poller.problem() == ""


def test_late_poll_that_fails_has_failed(world: World) -> None:
    world.begin(1)
    world.now += LATE_S
    world.poller.check_late()
    world.poller.on_failed(PollFailed(poll=1, error="timed out"))
    assert world.poller.problem() == "timed out"


def test_silence_of_the_metastore_is_counted_from_its_last_answer() -> None:
    world = World(checked=False)
    assert world.poller.silent_s() is None
    for _ in range(2):
        world.poller.check_late()
        world.now += 2
    assert world.poller.silent_s() == 4, "it never answered"
    world.check()
    world.now += 3
    assert world.poller.silent_s() == 3
    off = World(None, interval_s=0)
    off.poller.check_late()
    off.now += 1
    assert off.poller.silent_s() is None


def test_lag_is_what_the_metastore_has_and_nobody_was_sent_yet() -> None:
    """Given events 11 to 40, of which 12 are read and 11 published, then 29 are to come."""
    world = World()
    assert (world.poller.lag_events, world.poller.lag_s()) == (0, None), "never complete"
    world.poll()
    world.poller.mark_published(NEVER)
    world.now += 0.25
    assert (world.poller.lag_events, world.poller.lag_s()) == (0, 0.25)
    world.poll(11)
    world.poll(12, current_id=40)
    world.poller.mark_published(2)
    world.now += 3
    assert (world.poller.lag_events, world.poller.lag_s()) == (29, 3)
    world.poller.mark_published(NEVER)
    assert (world.poller.lag_events, world.poller.lag_s()) == (28, 3)
    world.poll(*range(13, 41))
    world.poller.mark_published(NEVER)
    assert (world.poller.lag_events, world.poller.lag_s()) == (0, 0)
    off = World(interval_s=0, checked=False)
    assert (off.poller.lag_events, off.poller.lag_s()) == (None, None)


def polls_in_vain(world: World, *, newest: int | None, events: range | None = None) -> list[Batch]:
    """Poll for 30 s a metastore that sends only ``events``, if any; return what is passed."""
    ends, passed = world.now + 30, list[Batch]()
    while world.now < ends:
        world.number += 1
        order = world.begin(world.number)
        assert isinstance(order, Poll)
        some = list(range(order.after + 1, (newest or 0) + 1))[: order.events_max]
        if events is not None and all(id_ in events for id_ in some):
            sent = tuple(map(raw_event, some))
            fact = Polled(poll=world.number, connection=1, current_id=newest or 0, events=sent)
            batch = world.poller.on_polled(fact)
        else:
            failed = PollFailed(poll=world.number, error="bad", refused=True, current_id=newest)
            batch = world.poller.on_failed(failed)
        passed += [batch] if batch and batch.passed else []
        assert world.poller.deadline is not None
        world.now = world.poller.deadline
    return passed


def test_event_that_fails_by_itself_is_passed_and_those_behind_it_are_read(world: World) -> None:
    """Given 11 to 14, of which 11 cannot be sent, then that event alone is missing."""
    (passed,) = polls_in_vain(world, newest=14, events=range(12, 15))
    assert (passed.gap, passed.events, passed.passed) == ((11, 11), (), "bad")
    assert world.poller.window is not None
    assert (world.poller.window.last_id, world.poller.problem()) == (14, "")
    assert world.poller.source_problem is None
    world.poller.mark_published(passed.seq)
    assert world.poller.watermark == 10, "until what it may have changed is read"
    world.poller.mark_published(NEVER)
    assert world.poller.watermark == 14


@pytest.mark.parametrize("newest", [None, 14])
def test_nothing_is_passed_while_no_event_is_sent_at_all(world: World, newest: int | None) -> None:
    """Be the metastore away, or unable to send any of its events."""
    assert polls_in_vain(world, newest=newest) == []
    assert world.poller.window is not None
    assert world.poller.window.last_id == 10
    assert world.poller.source_problem == SourceProblem(ProblemKind.REFUSED, f"{REFUSED}bad")
    assert world.poller.lag_events == (0 if newest is None else 4)


def test_event_has_several_tries_before_it_is_searched_for(world: World) -> None:
    """Eight failures: polls get smaller over five, and then one event is asked for three times."""
    after = []
    for number in range(1, 5 + UNSENDABLE_TRIES_MAX + 1):
        order = world.begin(number)
        assert isinstance(order, Poll)
        after.append(order.after)
        failed = PollFailed(poll=number, error="bad", current_id=12)
        assert world.poller.on_failed(failed) is None
    assert after == [10] * 8
    searching = world.begin(9)
    assert isinstance(searching, Poll)
    assert (searching.after, searching.events_max) == (12, 1)


def told_of_four(world: World) -> None:
    """Let a poll fail at which the metastore says that events 11 to 14 are there."""
    world.begin(8)
    world.poller.on_failed(PollFailed(poll=8, error="timed out", current_id=14))


def test_skipped_event_is_not_read_and_the_poll_that_may_hold_it_is_void(world: World) -> None:
    told_of_four(world)
    world.begin(9)
    passed = world.poller.skip(12)
    assert (passed.gap, passed.passed) == ((11, 12), "an operator skips it")
    late = Polled(poll=9, connection=1, current_id=12, events=(raw_event(11), raw_event(12)))
    assert world.poller.on_polled(late) is None
    order = world.begin(10)
    assert isinstance(order, Poll)
    assert order.after == 12


@pytest.mark.parametrize(
    ("id_", "why"), [(10, "was read before: the next is 11"), (15, "the newest is 14")]
)
def test_event_that_is_stable_or_not_there_is_not_skipped(world: World, id_: int, why: str) -> None:
    told_of_four(world)
    with pytest.raises(UsageError, match=why):
        world.poller.skip(id_)
    with pytest.raises(UsageError, match="events are off"):
        World(interval_s=0, checked=False).poller.skip(id_)


def test_few_states_are_kept_however_many_polls_bring_events_while_one_waits(world: World) -> None:
    def kept() -> int:
        gc.collect()
        return sum(type(one) is WindowState for one in gc.get_objects())

    before = kept()
    seqs = []
    for id_ in range(11, 11 + 5 * STATES_MAX):
        batch = world.poll(id_)
        assert batch is not None
        seqs.append(batch.seq)
        world.poller.mark_published(1)
        world.now += INTERVAL_S
    assert kept() <= before + STATES_MAX
    assert world.poller.watermark == 10
    world.poller.mark_published(seqs[-2])
    assert 10 < world.poller.watermark < 11 + 5 * STATES_MAX - 2
    world.poller.mark_published(NEVER)
    assert world.poller.watermark == 10 + 5 * STATES_MAX


def test_metastore_that_was_put_back_in_a_pause_is_found_though_its_connection_is_the_same(
    world: World,
) -> None:
    world.poll(11, 12)
    world.settle()
    world.poller.pause("events are paused")
    world.poller.start(None)
    other = tuple(raw_event(id_, "other") for id_ in range(11, 20))
    finding = world.check(current_id=19, events=other)
    assert finding is not None
    assert not finding.same
