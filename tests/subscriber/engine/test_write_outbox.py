"""Each write is reported until catalogd has it, in the order in which the writes began."""

import os
import threading
from collections.abc import Callable
from itertools import count

import pytest

from topicast.subscriber.engine.write_outbox import RENEW_S, Outbox
from topicast.subscriber.engine.write_sender import WriteSender
from topicast.topics.errors import UsageError
from topicast.topics.requests import RETRY_S
from topicast.topics.wire.messages import (
    ABANDONED,
    FAILED,
    INTENT,
    OVERWRITTEN,
    WRITTEN,
    Refused,
    Report,
    Reported,
    Verdict,
    Write,
)

DRIVER = b"d" * 16


class Stand:
    """An outbox, the subscriber that sends what it holds, and a catalogd that answers."""

    def __init__(self, **limits: int) -> None:
        self.now = 100.0
        self.outbox = Outbox(driver=DRIVER, metastore="thrift://hms:9083", **limits)
        self.ids = count(1)
        self.wakes = 0
        self.reconnect()

    def reconnect(self) -> None:
        """Let another subscriber send."""
        self.sender = WriteSender(self.outbox, self.ids.__next__)
        self.outbox.attach(self.wake)

    def wake(self) -> None:
        self.wakes += 1

    def begin(self, wanted: str, *partitions: str) -> int:
        return self.outbox.add(wanted, partitions, state=INTENT)

    def wrote(self, wanted: str, *partitions: str, state: int = WRITTEN) -> int:
        return self.outbox.add(wanted, partitions, state=state)

    def end(self, number: int, state: int, wanted: str = "d.t", *partitions: str) -> None:
        self.outbox.end(Write(number=number, state=state, object=wanted, partitions=partitions))

    def due(self, after_s: float = 0.0) -> list[Report]:
        self.now += after_s
        self.sender.check()
        return list(self.sender.due(now=self.now))

    def one(self, after_s: float = 0.0) -> Report:
        (report,) = self.due(after_s)
        return report

    def answer(self, report: Report, problem: Callable[[Write], str] = lambda _write: "") -> None:
        verdicts = tuple(
            Verdict(number=write.number, topic=1, version=2, problem=problem(write))
            for write in report.writes
        )
        reported = Reported(request=report.request, epoch=1, start=1, verdicts=verdicts)
        self.sender.on_reported(reported, now=self.now)
        self.sender.check()

    def refuse(self, report: Report, code: str, retry_ms: int = 0) -> None:
        refused = Refused(request=report.request, code=code, message="why", retry_ms=retry_ms)
        self.sender.on_refused(refused, now=self.now)
        self.sender.check()


def states(report: Report) -> list[tuple[int, int]]:
    return [(write.number, write.state) for write in report.writes]


def test_write_is_removed_once_it_is_acknowledged() -> None:
    stand = Stand()
    assert stand.sender.deadline is None
    number = stand.wrote("d.t", "ds=1")
    assert stand.sender.deadline == 0.0
    report = stand.one()
    assert (report.driver, report.metastore, report.settled) == (DRIVER, "thrift://hms:9083", 1)
    assert report.writes == (
        Write(number=number, state=WRITTEN, object="d.t", partitions=("ds=1",)),
    )
    assert not stand.outbox.has_settled(number)
    stand.answer(report)
    assert stand.outbox.has_settled(number)
    assert stand.due(100.0) == []
    assert stand.sender.deadline is None
    assert stand.outbox.acknowledged == 1


def test_unanswered_report_is_repeated_as_it_was() -> None:
    stand = Stand()
    stand.wrote("d.t")
    first = stand.one()
    stand.wrote("d.u")
    assert stand.due(RETRY_S / 2) == []
    assert stand.one(RETRY_S) == first
    stand.sender.hasten(now=stand.now)
    assert stand.one() == first
    stand.answer(first)
    assert states(stand.one()) == [(2, WRITTEN)]


def test_answer_to_nothing_is_ignored() -> None:
    stand = Stand()
    stand.wrote("d.t")
    report = stand.one()
    stranger = Reported(request=report.request + 1, epoch=1, start=1, verdicts=())
    stand.sender.on_reported(stranger, now=stand.now)
    assert stand.outbox.pending == 1
    stand.refuse(Report(request=99, driver=b"", metastore="", settled=0, writes=()), "METASTORE")
    assert stand.outbox.refusal == ""


def test_reason_why_a_report_is_put_off_is_shown_until_it_is_answered() -> None:
    stand = Stand()
    stand.wrote("d.t")
    stand.refuse(stand.one(), "RATE", retry_ms=1000)
    assert stand.outbox.delay == "why"
    stand.answer(stand.one(RETRY_S + 1))
    assert stand.outbox.delay == ""


def test_intent_that_ends_before_it_is_reported_is_reported_as_it_ended() -> None:
    stand = Stand()
    number = stand.begin("d.t")
    stand.end(number, FAILED)
    assert states(stand.one()) == [(number, FAILED)]


def test_intent_is_renewed_until_it_ends() -> None:
    stand = Stand()
    number = stand.begin("d.t", "ds=1")
    stand.answer(stand.one())
    assert stand.outbox.has_settled(number)
    assert stand.due(RENEW_S / 2) == []
    again = stand.one(RENEW_S / 2)
    assert states(again) == [(number, INTENT)]
    stand.answer(again)
    stand.end(number, WRITTEN, "d.t", "ds=1")
    ended = stand.one()
    assert ended.writes == (
        Write(number=number, state=WRITTEN, object="d.t", partitions=("ds=1",)),
    )
    stand.answer(ended)
    assert stand.sender.deadline is None


def test_write_that_ends_while_its_intent_is_in_flight_is_reported_after_it() -> None:
    stand = Stand()
    number = stand.begin("d.t")
    intent = stand.one()
    stand.end(number, WRITTEN, "d.t", "ds=2")
    stand.answer(intent)
    assert not stand.outbox.has_settled(number)
    (ended,) = stand.one().writes
    assert (ended.state, ended.partitions) == (WRITTEN, ("ds=2",))


def test_overwrite_is_reported_with_its_partitions() -> None:
    stand = Stand()
    number = stand.begin("d.t")
    stand.end(number, OVERWRITTEN, "d.t", "ds=2")
    (ended,) = stand.one().writes
    assert (ended.state, ended.partitions) == (OVERWRITTEN, ("ds=2",))


def test_second_end_changes_nothing() -> None:
    stand = Stand()
    number = stand.wrote("d.t")
    stand.end(number, ABANDONED)
    assert states(stand.one()) == [(number, WRITTEN)]


def test_failed_write_may_have_changed_anything() -> None:
    stand = Stand()
    number = stand.begin("d.t", "ds=1")
    stand.end(number, FAILED, "d.t", "ds=1")
    assert stand.one().writes[0].partitions == ()


def test_settled_is_below_everything_that_may_be_reported_again() -> None:
    stand = Stand()
    first = stand.begin("d.t")
    stand.wrote("d.u")
    stand.answer(stand.one())
    stand.wrote("d.v")
    report = stand.one()
    assert report.settled == first
    stand.answer(report)
    stand.end(first, ABANDONED)
    stand.answer(stand.one())
    stand.wrote("d.w")
    assert stand.one().settled == 4


def test_unknown_object_is_reported_no_more() -> None:
    stand = Stand()
    stand.wrote("d.none")
    stand.answer(stand.one(), lambda _write: "NO_OBJECT: d.none")
    assert stand.due(100.0) == []
    assert (stand.outbox.acknowledged, stand.outbox.unknown) == (0, 1)


def test_report_that_is_put_off_waits_as_long_as_catalogd_says() -> None:
    stand = Stand()
    stand.wrote("d.t")
    report = stand.one()
    stand.refuse(report, "RATE", retry_ms=5000)
    assert stand.due(4.9) == []
    assert stand.one(0.1) == report


def test_report_to_another_metastore_ends_all_reports() -> None:
    """P-REPORT-5."""
    stand = Stand()
    number = stand.wrote("d.t")
    stand.refuse(stand.one(), "METASTORE")
    stand.wrote("d.u")
    assert stand.outbox.refusal == "why"
    assert stand.outbox.has_settled(number)
    assert stand.due(1000.0) == []
    assert stand.sender.deadline is None


def test_reports_are_bounded_and_everything_comes_in_turn() -> None:
    stand = Stand(batch_max=2)
    for number in range(5):
        stand.wrote(f"d.t{number}")
    numbers = []
    while reports := stand.due():
        numbers += [number for number, _ in states(reports[0])]
        stand.answer(reports[0])
    assert numbers == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("limits", [{"writes_max": 4}, {"bytes_max": 18}])
def test_outbox_that_is_full_merges_the_writes_of_a_table(limits: dict[str, int]) -> None:
    stand = Stand(**limits)
    begun = stand.begin("d.t")
    for number in range(20):
        stand.wrote("d.t", f"ds={number}")
        stand.wrote("d.u")
        if number == 10:
            stand.wrote("d.u", "ds=1", state=OVERWRITTEN)
    assert stand.outbox.pending <= 4
    stand.wrote("d.v")
    writes = stand.one().writes
    states = {write.object: write.state for write in writes}
    assert states == {"d.t": WRITTEN, "d.u": OVERWRITTEN, "d.v": WRITTEN}
    assert writes[0].number == begun
    assert writes[0].state == INTENT
    assert stand.outbox.merged >= 36
    assert stand.outbox.discarded == 0


@pytest.mark.parametrize("limits", [{"writes_max": 4}, {"bytes_max": 16}])
def test_outbox_of_too_many_tables_discards_the_oldest_and_counts_it(
    limits: dict[str, int],
) -> None:
    stand = Stand(**limits)
    for number in range(6):
        stand.wrote(f"d.t{number}")
    assert stand.outbox.discarded == 2
    assert [write.object for write in stand.one().writes] == ["d.t2", "d.t3", "d.t4", "d.t5"]


def test_what_one_subscriber_did_not_deliver_the_next_one_does() -> None:
    stand = Stand()
    begun = stand.begin("d.t")
    stand.answer(stand.one())
    stand.wrote("d.u")
    lost = stand.one()
    stand.outbox.detach(stand.wake)
    stand.wrote("d.v")
    stand.reconnect()
    report = stand.one()
    assert report.request != lost.request
    assert (report.driver, report.settled) == (DRIVER, begun)
    assert states(report) == [(2, WRITTEN), (3, WRITTEN)]
    stand.answer(lost)
    assert not stand.outbox.has_settled(), "it is an answer to the subscriber before"
    stand.answer(report)
    assert stand.outbox.has_settled()
    assert states(stand.one(RENEW_S)) == [(begun, INTENT)]


def test_late_detach_of_the_subscriber_before_changes_nothing() -> None:
    stand = Stand()
    stand.outbox.detach(lambda: None)
    before = stand.wakes
    stand.wrote("d.t")
    assert stand.wakes == before + 1


def test_next_subscriber_reports_what_the_one_before_was_refused() -> None:
    stand = Stand()
    stand.wrote("d.t")
    stand.refuse(stand.one(), "METASTORE")
    stand.reconnect()
    assert stand.outbox.refusal == ""
    stand.wrote("d.u")
    assert states(stand.one()) == [(2, WRITTEN)]


def test_thread_waits_until_catalogd_has_its_write() -> None:
    stand = Stand()
    number = stand.wrote("d.t")
    assert not stand.outbox.wait(number, timeout_s=0.0)
    waiter = threading.Thread(target=lambda: answers.append(stand.outbox.wait(timeout_s=60)))
    answers: list[bool] = []
    report = stand.one()
    assert not stand.outbox.urgent
    waiter.start()
    while not stand.outbox.urgent:
        waiter.join(0.001)
    stand.answer(report)
    waiter.join()
    assert answers == [True]
    assert stand.outbox.flush(0.0)


def test_nobody_waits_while_nothing_is_sent_or_everything_is_refused() -> None:
    stand = Stand()
    stand.wrote("d.t")
    stand.outbox.detach(stand.wake)
    assert not stand.outbox.wait(timeout_s=60)
    assert not stand.outbox.flush(60)
    stand.reconnect()
    stand.refuse(stand.one(), "METASTORE")
    assert not stand.outbox.flush(60)
    with pytest.raises(UsageError, match="why"):
        stand.outbox.wait(timeout_s=60)


def test_closed_outbox_takes_no_write() -> None:
    stand = Stand()
    number = stand.begin("d.t")
    stand.outbox.close()
    with pytest.raises(UsageError, match="closed"):
        stand.wrote("d.u")
    with pytest.raises(UsageError, match="closed"):
        stand.end(number, WRITTEN)


def test_forked_child_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stand = Stand()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for call in (lambda: stand.wrote("d.t"), lambda: stand.end(1, WRITTEN), stand.outbox.wait):
        with pytest.raises(UsageError, match="process"):
            call() if call != stand.outbox.wait else stand.outbox.wait(timeout_s=0)


def test_numbers_are_reported_in_their_order_whatever_thread_writes() -> None:
    """P-REPORT-8: catalogd ignores a number below one that it takes for settled."""
    stand = Stand(batch_max=10_000)
    writers = [
        threading.Thread(target=lambda: [stand.wrote("d.t") for _ in range(200)]) for _ in range(4)
    ]
    for writer in writers:
        writer.start()
    seen: list[int] = []
    while any(writer.is_alive() for writer in writers) or stand.outbox.pending:
        for report in stand.due():
            numbers = [write.number for write in report.writes]
            assert report.settled == numbers[0] == len(seen) + 1
            seen += numbers
            stand.answer(report)
    assert seen == list(range(1, 801))
