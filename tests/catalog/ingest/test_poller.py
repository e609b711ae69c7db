"""The poller: asks in time and once at a time, and knows up to where everything is published."""

import pytest

from topicast.catalog.ingest.loader import NEVER
from topicast.catalog.ingest.poller import (
    BACKOFF_S,
    BACKOFF_S_MAX,
    LATE_S,
    SETTLE_EVERY_S,
    WINDOW_S,
    Batch,
    EventWindow,
    Polled,
    Poller,
    PollFailed,
    WindowState,
)
from topicast.catalog.metastore.port import RawEvent

INTERVAL_S = 0.5


def event(number: int) -> RawEvent:
    return RawEvent(
        id=number,
        type="ALTER_TABLE",
        db="d",
        table="t",
        message="{}",
        message_format="json-0.2",
        digest=number.to_bytes(16, "big"),
    )


class Stand:
    """A poller in virtual time, whose polls are numbered from 1."""

    def __init__(self, last_id: int | None = 10, *, interval_s: float = INTERVAL_S) -> None:
        self.now = 100.0
        window = None
        if last_id is not None:
            window = EventWindow(WindowState(last_id=last_id, settled=last_id), now=self.now)
        self.poller = Poller(window, interval_s=interval_s)
        self.number = 0

    def poll(self, *ids: int, current_id: int | None = None) -> Batch | None:
        """Poll once; these events are answered."""
        self.number += 1
        self.poller.begin(self.number, self.now)
        events = tuple(map(event, ids))
        newest = max(ids, default=self.poller.watermark) if current_id is None else current_id
        return self.poller.on_polled(
            Polled(poll=self.number, current_id=newest, events=events), self.now
        )

    def settle(self) -> None:
        """Let everything seen so far become too old to be read again."""
        for _ in range(3):
            self.now += WINDOW_S + SETTLE_EVERY_S
            last = self.poller.window.last_id if self.poller.window else 0
            self.poll(current_id=last)


@pytest.fixture
def stand() -> Stand:
    return Stand()


def test_first_poll_only_learns_where_events_stand() -> None:
    stand = Stand(None)
    order = stand.poller.begin(1, stand.now)
    assert order.quiet_at == -1
    answer = Polled(poll=1, current_id=7, events=())
    assert stand.poller.on_polled(answer, stand.now) is None
    assert stand.poller.watermark == 7
    assert stand.poller.silent_s(stand.now + 1) == 1
    assert stand.poller.seq == 0


def test_one_poll_runs_at_a_time_and_the_next_is_due_an_interval_after_it_began(
    stand: Stand,
) -> None:
    assert stand.poller.may_begin(stand.now)
    stand.poller.begin(1, stand.now)
    stand.now += 0.1
    assert not stand.poller.may_begin(stand.now + 60)
    assert stand.poller.deadline is None
    stand.poller.on_polled(Polled(poll=1, current_id=10, events=()), stand.now)
    assert stand.poller.deadline == stand.now - 0.1 + INTERVAL_S
    assert not stand.poller.may_begin(stand.now)


def test_poll_that_took_longer_than_the_interval_is_followed_at_once(stand: Stand) -> None:
    stand.poller.begin(1, stand.now)
    stand.now += 3 * INTERVAL_S
    stand.poller.on_polled(Polled(poll=1, current_id=10, events=()), stand.now)
    assert stand.poller.may_begin(stand.now)


def test_whoever_waits_hastens_the_next_poll_but_never_delays_it(stand: Stand) -> None:
    stand.poll()
    stand.poller.poll_now(stand.now)
    assert stand.poller.may_begin(stand.now)
    stand.poller.poll_now(stand.now + 60)
    assert stand.poller.may_begin(stand.now)


def test_failing_metastore_is_asked_ever_more_slowly_and_not_hastened(stand: Stand) -> None:
    pauses = []
    for number in range(1, 8):
        stand.poller.begin(number, stand.now)
        stand.poller.on_failed(PollFailed(poll=number, error="down"), stand.now)
        stand.poller.poll_now(stand.now)
        assert stand.poller.deadline is not None
        pauses.append(round(stand.poller.deadline - stand.now, 3))
        stand.now = stand.poller.deadline
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, BACKOFF_S_MAX, BACKOFF_S_MAX]
    assert stand.poller.error == "down"
    stand.poll()
    assert stand.poller.error == ""
    stand.number = 9
    stand.poller.begin(9, stand.now)
    stand.poller.on_failed(PollFailed(poll=9, error="down"), stand.now)
    assert stand.poller.deadline == stand.now + BACKOFF_S


def test_answers_to_another_poll_are_ignored(stand: Stand) -> None:
    stand.poller.begin(2, stand.now)
    stand.poller.on_failed(PollFailed(poll=1, error="late"), stand.now)
    late = Polled(poll=1, current_id=11, events=(event(11),))
    assert stand.poller.on_polled(late, stand.now) is None
    assert stand.poller.error == ""
    assert stand.poller.deadline is None, "poll 2 still runs"


def test_each_batch_of_news_has_a_number_and_silence_has_none(stand: Stand) -> None:
    first = stand.poll(11, 12)
    assert first is not None
    assert ([one.id for one in first.events], first.seq, first.whole) == ([11, 12], 1, True)
    again = stand.poll(11, 12)
    assert again is not None
    assert (again.events, again.seq) == ((), 1)
    third = stand.poll(11, 12, 13)
    assert third is not None
    assert third.seq == stand.poller.seq == 2


def test_only_the_newest_id_is_asked_while_nothing_can_be_news(stand: Stand) -> None:
    assert stand.poller.begin(1, stand.now).quiet_at == 10
    stand.poller.on_polled(Polled(poll=1, current_id=11, events=(event(11),)), stand.now)
    assert stand.poller.begin(2, stand.now).quiet_at is None, "11 may come twice"
    stand.poller.on_polled(Polled(poll=2, current_id=11, events=(event(11),)), stand.now)
    stand.number = 2
    stand.settle()
    assert stand.poller.begin(9, stand.now).quiet_at == 11


def test_metastore_that_was_reset_begins_a_new_window_with_a_gap() -> None:
    stand = Stand(10)
    batch = stand.poll(current_id=3)
    assert batch is not None
    assert batch.gap
    assert batch.seq == 1
    stand.poller.mark_published(NEVER)
    assert stand.poller.watermark == 3


def test_place_follows_only_what_is_published(stand: Stand) -> None:
    """Given batches 1, 2 and 3, when 2 is published last, then the store may keep 1 until then."""
    for number in (11, 12, 13):
        stand.poll(number)
    stand.poller.mark_published(1)
    assert stand.poller.watermark == 10
    stand.poller.mark_published(2)
    assert stand.poller.watermark == 11
    stand.poller.mark_published(NEVER)
    assert stand.poller.watermark == 13
    stand.poller.mark_published(NEVER)
    assert stand.poller.watermark == 13


def test_place_of_a_batch_is_the_newest_that_its_number_stands_for(stand: Stand) -> None:
    """Given a batch whose events are settled before it is published, both are kept as one."""
    stand.poll(11)
    stand.settle()
    stand.poller.mark_published(1)
    assert stand.poller.published is not None
    assert stand.poller.published.settled == 10
    stand.poller.mark_published(NEVER)
    assert stand.poller.published == WindowState(last_id=11, settled=11)


def test_silence_gives_the_store_nothing_to_keep(stand: Stand) -> None:
    before = stand.poller.published
    stand.poll()
    stand.poller.mark_published(NEVER)
    assert stand.poller.published is before


def test_poll_that_waits_for_its_answer_is_told_and_counted_once(stand: Stand) -> None:
    stand.poller.check_late(stand.now)  # while none runs
    stand.poller.begin(1, stand.now)
    stand.now += LATE_S - 0.1
    stand.poller.check_late(stand.now)
    assert (stand.poller.late, stand.poller.problem(stand.now)) == (0, "")
    stand.now += 0.1
    for _ in range(3):
        stand.poller.check_late(stand.now)
    assert stand.poller.late == 1
    assert stand.poller.problem(stand.now) == "a poll for events has waited 2 s for its answer"
    stand.poller.on_polled(Polled(poll=1, current_id=10, events=()), stand.now)
    stand.poller.check_late(stand.now)
    assert (stand.poller.late, stand.poller.problem(stand.now)) == (1, "")
    stand.number = 1
    stand.poll()
    assert stand.poller.problem(stand.now) == ""


def test_late_poll_that_fails_is_told_as_failed(stand: Stand) -> None:
    stand.poller.begin(1, stand.now)
    stand.now += LATE_S
    stand.poller.check_late(stand.now)
    stand.poller.on_failed(PollFailed(poll=1, error="timed out"), stand.now)
    assert stand.poller.problem(stand.now) == "timed out"


def test_silence_of_the_metastore_is_counted_from_its_last_answer(stand: Stand) -> None:
    assert stand.poller.silent_s(stand.now) is None
    for _ in range(2):
        stand.poller.check_late(stand.now)
        stand.now += 2
    assert stand.poller.silent_s(stand.now) == 4, "it never answered"
    stand.poll()
    stand.now += 3
    assert stand.poller.silent_s(stand.now) == 3
    off = Stand(None, interval_s=0)
    off.poller.check_late(off.now)
    assert off.poller.silent_s(off.now + 1) is None
