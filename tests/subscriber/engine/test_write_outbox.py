"""Each write is reported until catalogd has it, in the order in which the writes began."""

import os
import threading
from itertools import count

import pytest

from topicast.subscriber.engine.write_outbox import RENEW_S, WriteOutbox, WriteSender
from topicast.subscriber.protocol.effects import Effect
from topicast.topics.errors import UsageError
from topicast.topics.requests import RETRY_S
from topicast.topics.turn import Turn
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.reports import (
    ABANDONED,
    ALTERED,
    FAILED,
    INTENT,
    NAMED,
    OVERWRITTEN,
    WRITTEN,
    Report,
    Reported,
    Write,
    WriteOutcome,
    WriteState,
)

DRIVER = b"d" * 16


class Reports:
    """An outbox, the sender of its reports, and the answers of catalogd."""

    def __init__(self, **limits: int) -> None:
        self.now = 100.0
        self.outbox = WriteOutbox(driver=DRIVER, metastore="thrift://hms:9083", **limits)
        self.ids = count(1)
        self.turn = Turn[Effect]()
        self.wakes = 0
        self.reconnect()

    def reconnect(self) -> None:
        """Let another subscriber send."""
        self.sender = WriteSender(self.outbox, self.ids.__next__, clock=self.turn)
        self.outbox.attach(self.wake)

    def wake(self) -> None:
        self.wakes += 1

    def begin(self, wanted: str, *partitions: str) -> int:
        return self.outbox.add(wanted, partitions, state=INTENT)

    def wrote(self, wanted: str, *partitions: str, state: WriteState = WRITTEN) -> int:
        return self.outbox.add(wanted, partitions, state=state)

    def end(self, number: int, state: WriteState, wanted: str = "d.t", *partitions: str) -> None:
        self.outbox.end(Write(number=number, state=state, object=wanted, partitions=partitions))

    def due(self, after_s: float = 0.0) -> list[Report]:
        self.now += after_s
        self.turn.now = self.now
        self.sender.check()
        return list(self.sender.due())

    def one(self, after_s: float = 0.0) -> Report:
        (report,) = self.due(after_s)
        return report

    def answer(self, report: Report, code: str = "", message: str = "") -> None:
        verdicts = tuple(
            WriteOutcome(number=write.number, topic=1, version=2, code=code, message=message)
            for write in report.writes
        )
        reported = Reported(request=report.request, epoch=1, start=1, outcomes=verdicts)
        self.sender.on_reported(reported)
        self.sender.check()

    def refuse(self, report: Report, code: str, retry_ms: int = 0) -> None:
        refused = Refused(request=report.request, code=code, message="why", retry_ms=retry_ms)
        self.sender.on_refused(refused)
        self.sender.check()


@pytest.fixture
def reports() -> Reports:
    return Reports()


def states(report: Report) -> list[tuple[int, int]]:
    return [(write.number, write.state) for write in report.writes]


def test_write_is_removed_once_it_is_acknowledged(reports: Reports) -> None:
    assert reports.sender.deadline is None
    number = reports.wrote("d.t", "ds=1")
    assert reports.sender.deadline == 0.0
    report = reports.one()
    assert (report.driver, report.metastore, report.finished) == (DRIVER, "thrift://hms:9083", 1)
    assert report.writes == (
        Write(number=number, state=WRITTEN, object="d.t", partitions=("ds=1",)),
    )
    assert not reports.outbox.has_finished(number)
    reports.answer(report)
    assert reports.outbox.has_finished(number)
    assert reports.due(100.0) == []
    assert reports.sender.deadline is None
    assert reports.outbox.acknowledged == 1


def test_unanswered_report_is_repeated_as_it_was(reports: Reports) -> None:
    reports.wrote("d.t")
    first = reports.one()
    reports.wrote("d.u")
    assert reports.due(RETRY_S / 2) == []
    assert reports.one(RETRY_S) == first
    reports.sender.retry_now()
    assert reports.one() == first
    reports.answer(first)
    assert states(reports.one()) == [(2, WRITTEN)]


def test_answer_to_nothing_is_ignored(reports: Reports) -> None:
    reports.wrote("d.t")
    report = reports.one()
    stranger = Reported(request=report.request + 1, epoch=1, start=1, outcomes=())
    reports.sender.on_reported(stranger)
    assert reports.outbox.pending == 1
    reports.refuse(Report(request=99, driver=b"", metastore="", finished=0, writes=()), "METASTORE")
    assert reports.outbox.refusal == ""


@pytest.mark.parametrize(
    ("state", "partitions"),
    [(WRITTEN, ("ds=1",)), (OVERWRITTEN, ("ds=1",)), (FAILED, ()), (ABANDONED, ())],
)
def test_intent_that_ends_before_it_is_reported_is_reported_as_it_ended(
    reports: Reports, state: WriteState, partitions: tuple[str, ...]
) -> None:
    """A write that failed may have changed any partition."""
    number = reports.begin("d.t")
    reports.end(number, state, "d.t", "ds=1")
    (write,) = reports.one().writes
    assert write == Write(number=number, state=state, object="d.t", partitions=partitions)


def test_intent_is_renewed_until_it_ends(reports: Reports) -> None:
    number = reports.begin("d.t", "ds=1")
    reports.answer(reports.one())
    assert reports.outbox.has_finished(number)
    assert reports.due(RENEW_S / 2) == []
    again = reports.one(RENEW_S / 2)
    assert states(again) == [(number, INTENT)]
    reports.answer(again)
    reports.end(number, WRITTEN, "d.t", "ds=1")
    ended = reports.one()
    assert ended.writes == (
        Write(number=number, state=WRITTEN, object="d.t", partitions=("ds=1",)),
    )
    reports.answer(ended)
    assert reports.sender.deadline is None


def test_write_that_ends_while_its_intent_is_in_flight_is_reported_after_it(
    reports: Reports,
) -> None:
    number = reports.begin("d.t")
    intent = reports.one()
    reports.end(number, WRITTEN, "d.t", "ds=2")
    reports.answer(intent)
    assert not reports.outbox.has_finished(number)
    (ended,) = reports.one().writes
    assert (ended.state, ended.partitions) == (WRITTEN, ("ds=2",))


def test_second_end_changes_nothing(reports: Reports) -> None:
    number = reports.wrote("d.t")
    reports.end(number, ABANDONED)
    assert states(reports.one()) == [(number, WRITTEN)]


def test_report_without_writes_names_the_next_number_as_settled() -> None:
    """P-REPORT-8: a probe, which asks only whether catalogd follows the metastore."""
    outbox = WriteOutbox(driver=DRIVER, metastore="thrift://hms:9083", probe=True)
    outbox.attach(lambda: None)
    probe = outbox.next_report(now=0.0)
    assert probe is not None
    assert (probe.request, probe.finished, probe.writes) == (0, 1, ())


def test_settled_number_is_below_every_write_that_may_be_reported_again(reports: Reports) -> None:
    first = reports.begin("d.t")
    reports.wrote("d.u")
    reports.answer(reports.one())
    reports.wrote("d.v")
    report = reports.one()
    assert report.finished == first
    reports.answer(report)
    reports.end(first, ABANDONED)
    reports.answer(reports.one())
    reports.wrote("d.w")
    assert reports.one().finished == 4


def test_write_of_an_unknown_object_is_not_reported_again(reports: Reports) -> None:
    reports.wrote("d.none")
    reports.answer(reports.one(), "NO_OBJECT", "d.none")
    assert reports.due(100.0) == []
    assert (reports.outbox.acknowledged, reports.outbox.unknown) == (0, 1)
    assert reports.outbox.not_visible == ""


def test_reason_is_kept_why_a_write_is_refused_whose_table_the_key_may_not_see(
    reports: Reports,
) -> None:
    why = "d.t is not visible to this driver's key, which sees sales"
    reports.begin("d.t")
    reports.answer(reports.one(), "NOT_VISIBLE", why)
    assert reports.outbox.not_visible == f"NOT_VISIBLE: {why}"


def test_refused_report_waits_as_long_as_catalogd_says_and_the_reason_is_reported(
    reports: Reports,
) -> None:
    reports.wrote("d.t")
    report = reports.one()
    reports.refuse(report, "RATE", retry_ms=5000)
    assert reports.outbox.delay == "why"
    assert reports.due(4.9) == []
    assert reports.one(0.1) == report
    reports.answer(report)
    assert reports.outbox.delay == ""


def test_report_to_another_metastore_ends_all_reports(reports: Reports) -> None:
    """P-REPORT-5."""
    number = reports.wrote("d.t")
    reports.refuse(reports.one(), "METASTORE")
    reports.wrote("d.u")
    assert reports.outbox.refusal == "why"
    assert reports.outbox.has_finished(number)
    assert reports.due(1000.0) == []
    assert reports.sender.deadline is None


def test_reports_are_bounded_and_every_write_is_reported_in_turn() -> None:
    reports = Reports(batch_max=2)
    for number in range(5):
        reports.wrote(f"d.t{number}")
    numbers = []
    while found := reports.due():
        numbers += [number for number, _ in states(found[0])]
        reports.answer(found[0])
    assert numbers == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("limits", [{"writes_max": 4}, {"bytes_max": 18}])
def test_outbox_that_is_full_merges_the_writes_of_a_table(limits: dict[str, int]) -> None:
    reports = Reports(**limits)
    begun = reports.begin("d.t")
    for number in range(20):
        reports.wrote("d.t", f"ds={number}")
        reports.wrote("d.u")
        if number == 10:
            reports.wrote("d.u", "ds=1", state=OVERWRITTEN)
    assert reports.outbox.pending <= 4
    reports.wrote("d.v")
    writes = reports.one().writes
    states = {write.object: write.state for write in writes}
    assert states == {"d.t": WRITTEN, "d.u": OVERWRITTEN, "d.v": WRITTEN}
    assert writes[0].number == begun
    assert writes[0].state == INTENT
    assert reports.outbox.discarded == 0


def test_outbox_that_is_full_keeps_statements_apart_from_writes() -> None:
    reports = Reports(writes_max=4)
    for _ in range(5):
        reports.wrote("d.t", state=NAMED)
        reports.wrote("d.t", state=ALTERED)
        reports.wrote("d.t")
    merged = {(write.object, write.state) for write in reports.one().writes}
    assert merged >= {("d.t", NAMED), ("d.t", WRITTEN)}
    assert reports.outbox.discarded == 0


@pytest.mark.parametrize("limits", [{"writes_max": 4}, {"bytes_max": 16}])
def test_outbox_of_too_many_tables_discards_the_oldest_and_counts_it(
    limits: dict[str, int],
) -> None:
    reports = Reports(**limits)
    for number in range(6):
        reports.wrote(f"d.t{number}")
    assert reports.outbox.discarded == 2
    assert [write.object for write in reports.one().writes] == ["d.t2", "d.t3", "d.t4", "d.t5"]


def test_writes_that_one_subscriber_did_not_deliver_are_delivered_by_the_next(
    reports: Reports,
) -> None:
    begun = reports.begin("d.t")
    reports.answer(reports.one())
    reports.wrote("d.u")
    lost = reports.one()
    reports.outbox.detach(reports.wake)
    reports.wrote("d.v")
    reports.reconnect()
    report = reports.one()
    assert report.request != lost.request
    assert (report.driver, report.finished) == (DRIVER, begun)
    assert states(report) == [(2, WRITTEN), (3, WRITTEN)]
    reports.answer(lost)
    assert not reports.outbox.has_finished(), "it is an answer to the subscriber before"
    reports.answer(report)
    assert reports.outbox.has_finished()
    assert states(reports.one(RENEW_S)) == [(begun, INTENT)]


def test_next_subscriber_reports_what_was_refused_to_the_last_subscriber(reports: Reports) -> None:
    reports.wrote("d.t")
    reports.refuse(reports.one(), "METASTORE")
    reports.reconnect()
    reports.outbox.detach(lambda: None)  # late, by the former connection
    assert reports.outbox.refusal == ""
    before = reports.wakes
    reports.wrote("d.u")
    assert reports.wakes == before + 1
    assert states(reports.one()) == [(2, WRITTEN)]


def test_thread_waits_until_catalogd_has_acknowledged_its_write(reports: Reports) -> None:
    number = reports.wrote("d.t")
    assert not reports.outbox.wait(number, timeout_s=0.0)
    waiter = threading.Thread(target=lambda: answers.append(reports.outbox.wait(timeout_s=60)))
    answers: list[bool] = []
    report = reports.one()
    assert not reports.outbox.urgent
    waiter.start()
    while not reports.outbox.urgent:
        waiter.join(0.001)
    reports.answer(report)
    waiter.join()
    assert answers == [True]
    assert reports.outbox.flush(0.0)


def test_wait_returns_at_once_while_nothing_is_sent_or_everything_is_refused(
    reports: Reports,
) -> None:
    reports.wrote("d.t")
    reports.outbox.detach(reports.wake)
    assert not reports.outbox.wait(timeout_s=60)
    assert not reports.outbox.flush(60)
    reports.reconnect()
    reports.refuse(reports.one(), "METASTORE")
    assert not reports.outbox.flush(60)
    with pytest.raises(UsageError, match="why"):
        reports.outbox.wait(timeout_s=60)


@pytest.mark.parametrize("why", ["closed", "process"])
def test_outbox_that_is_closed_or_of_another_process_takes_no_write(
    reports: Reports, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = reports.begin("d.t")
    calls = [lambda: reports.wrote("d.u"), lambda: reports.end(number, WRITTEN)]
    if why == "closed":
        reports.outbox.close()
    else:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        calls.append(lambda: reports.outbox.wait(timeout_s=0))
    for call in calls:
        with pytest.raises(UsageError, match=why):
            call()


def test_numbers_are_reported_in_their_order_whatever_thread_writes() -> None:
    """P-REPORT-8: catalogd ignores a number below a number that it takes for finished."""
    reports = Reports(batch_max=10_000)
    writers = [
        threading.Thread(target=lambda: [reports.wrote("d.t") for _ in range(200)])
        for _ in range(4)
    ]
    for writer in writers:
        writer.start()
    seen: list[int] = []
    while any(writer.is_alive() for writer in writers) or reports.outbox.pending:
        for report in reports.due():
            numbers = [write.number for write in report.writes]
            assert report.finished == numbers[0] == len(seen) + 1
            seen += numbers
            reports.answer(report)
    assert seen == list(range(1, 801))


def test_outbox_that_probes_knows_before_a_write_whether_reports_are_accepted() -> None:
    reports = Reports(probe=True)
    assert (reports.sender.deadline, reports.outbox.accepted) == (0.0, False)
    probe = reports.one()
    assert (probe.writes, probe.metastore) == ((), "thrift://hms:9083")
    reports.answer(probe)
    assert (reports.outbox.accepted, reports.due(100.0)) == (True, [])
    reports.reconnect()
    reports.refuse(reports.one(), "METASTORE")
    assert (reports.outbox.accepted, reports.outbox.refusal, reports.due()) == (False, "why", [])


def test_outbox_is_about_the_first_metastore_that_is_accepted() -> None:
    reports = Reports(probe=True)
    outbox, old = reports.outbox, reports.one()
    assert outbox.follow("thrift://new:1"), "nothing is known of the old one yet"
    reports.refuse(old, "METASTORE")
    assert outbox.refusal == "", "that was the old one"
    reports.answer(reports.one())
    assert outbox.accepted
    assert outbox.follow("thrift://more:1,thrift://new:1"), "an address of it is the same"
    assert not outbox.follow("thrift://hms:9083")
    assert outbox.metastore == "thrift://new:1"


def test_writes_that_wait_keep_their_metastore() -> None:
    reports = Reports(probe=True)
    reports.wrote("d.t")
    assert not reports.outbox.follow("thrift://new:1")
    assert reports.one().metastore == "thrift://hms:9083"
