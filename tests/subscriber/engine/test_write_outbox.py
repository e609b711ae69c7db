"""Outbox: each write is told until catalogd has it, and in the order in which it was begun."""

from collections.abc import Callable
from itertools import count

import pytest

from topicast.subscriber.engine import write_outbox as module
from topicast.subscriber.engine.write_outbox import RENEW_S, Outbox
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
    """An outbox, and a catalogd that has what it is told."""

    def __init__(self) -> None:
        self.now = 100.0
        self.outbox = Outbox(count(1).__next__, driver=DRIVER, metastore="thrift://hms:9083")
        self.last = 0

    def begin(self, wanted: str, *partitions: str) -> int:
        self.last += 1
        self.end(self.last, INTENT, wanted, *partitions)
        return self.last

    def wrote(self, wanted: str, *partitions: str) -> int:
        self.last += 1
        self.end(self.last, WRITTEN, wanted, *partitions)
        return self.last

    def end(self, number: int, state: int, wanted: str = "d.t", *partitions: str) -> None:
        self.outbox.note(Write(number=number, state=state, object=wanted, partitions=partitions))

    def due(self, after_s: float = 0.0) -> list[Report]:
        self.now += after_s
        self.outbox.check()
        return list(self.outbox.due(now=self.now))

    def one(self, after_s: float = 0.0) -> Report:
        (report,) = self.due(after_s)
        return report

    def answer(self, report: Report, problem: Callable[[Write], str] = lambda _write: "") -> None:
        verdicts = tuple(
            Verdict(number=write.number, topic=1, version=2, problem=problem(write))
            for write in report.writes
        )
        told = Reported(request=report.request, epoch=1, start=1, verdicts=verdicts)
        self.outbox.on_reported(told, now=self.now)
        self.outbox.check()

    def refuse(self, report: Report, code: str, retry_ms: int = 0) -> None:
        refused = Refused(request=report.request, code=code, message="why", retry_ms=retry_ms)
        self.outbox.on_refused(refused, now=self.now)
        self.outbox.check()


def states(report: Report) -> list[tuple[int, int]]:
    return [(write.number, write.state) for write in report.writes]


def test_write_is_told_once_it_is_answered() -> None:
    stand = Stand()
    assert stand.outbox.deadline is None
    number = stand.wrote("d.t", "ds=1")
    assert stand.outbox.deadline == 0.0
    report = stand.one()
    assert (report.driver, report.metastore, report.settled) == (DRIVER, "thrift://hms:9083", 1)
    assert report.writes == (
        Write(number=number, state=WRITTEN, object="d.t", partitions=("ds=1",)),
    )
    assert not stand.outbox.is_told(number)
    stand.answer(report)
    assert stand.outbox.is_told(number)
    assert stand.due(100.0) == []
    assert stand.outbox.deadline is None
    assert stand.outbox.told == 1


def test_unanswered_report_is_repeated_as_it_was() -> None:
    stand = Stand()
    stand.wrote("d.t")
    first = stand.one()
    stand.wrote("d.u")
    assert stand.due(RETRY_S / 2) == []
    assert stand.one(RETRY_S) == first
    stand.outbox.hasten(now=stand.now)
    assert stand.one() == first
    stand.answer(first)
    assert states(stand.one()) == [(2, WRITTEN)]


def test_answer_to_nothing_is_ignored() -> None:
    stand = Stand()
    stand.wrote("d.t")
    report = stand.one()
    stranger = Reported(request=report.request + 1, epoch=1, start=1, verdicts=())
    stand.outbox.on_reported(stranger, now=stand.now)
    assert len(stand.outbox) == 1
    stand.refuse(Report(request=99, driver=b"", metastore="", settled=0, writes=()), "METASTORE")
    assert stand.outbox.refusal == ""


def test_why_a_report_is_put_off_is_said_until_it_is_answered() -> None:
    stand = Stand()
    stand.wrote("d.t")
    stand.refuse(stand.one(), "RATE", retry_ms=1000)
    assert stand.outbox.delay == "why"
    stand.answer(stand.one(RETRY_S + 1))
    assert stand.outbox.delay == ""


def test_intent_that_ends_before_it_is_told_is_told_as_it_ended() -> None:
    stand = Stand()
    number = stand.begin("d.t")
    stand.end(number, FAILED)
    assert states(stand.one()) == [(number, FAILED)]


def test_intent_is_renewed_until_it_ends() -> None:
    stand = Stand()
    number = stand.begin("d.t", "ds=1")
    stand.answer(stand.one())
    assert stand.outbox.is_told(number)
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
    assert stand.outbox.deadline is None


def test_write_that_ends_while_its_intent_is_under_way_is_told_after_it() -> None:
    stand = Stand()
    number = stand.begin("d.t")
    intent = stand.one()
    stand.end(number, WRITTEN, "d.t", "ds=2")
    stand.answer(intent)
    assert not stand.outbox.is_told(number)
    (ended,) = stand.one().writes
    assert (ended.state, ended.partitions) == (WRITTEN, ("ds=2",))


def test_overwrite_is_told_with_its_partitions() -> None:
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


def test_settled_is_below_everything_that_may_be_told_again() -> None:
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


def test_unknown_object_is_told_no_more() -> None:
    stand = Stand()
    stand.wrote("d.none")
    stand.answer(stand.one(), lambda _write: "NO_OBJECT: d.none")
    assert stand.due(100.0) == []
    assert (stand.outbox.told, stand.outbox.unknown) == (0, 1)


def test_refusal_is_obeyed_for_as_long_as_it_says() -> None:
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
    assert stand.outbox.is_told(number)
    assert stand.due(1000.0) == []
    assert stand.outbox.deadline is None


def test_reports_are_bounded_and_everything_comes_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_MAX", 2)
    stand = Stand()
    for number in range(5):
        stand.wrote(f"d.t{number}")
    told = []
    while reports := stand.due():
        told += [number for number, _ in states(reports[0])]
        stand.answer(reports[0])
    assert told == [1, 2, 3, 4, 5]


def test_queue_that_is_full_makes_the_writes_of_a_table_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "QUEUE_MAX", 4)
    stand = Stand()
    begun = stand.begin("d.t")
    for number in range(20):
        stand.wrote("d.t", f"ds={number}")
        stand.wrote("d.u")
        if number == 10:
            stand.last += 1
            stand.end(stand.last, OVERWRITTEN, "d.u", "ds=1")
    assert len(stand.outbox) <= 4
    stand.wrote("d.v")
    writes = stand.one().writes
    states = {write.object: write.state for write in writes}
    assert states == {"d.t": WRITTEN, "d.u": OVERWRITTEN, "d.v": WRITTEN}
    assert writes[0].number == begun
    assert writes[0].state == INTENT
    assert stand.outbox.merged >= 36
    assert stand.outbox.lost == 0


def test_queue_of_too_many_tables_forgets_the_oldest_and_counts_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "QUEUE_MAX", 4)
    stand = Stand()
    for number in range(6):
        stand.wrote(f"d.t{number}")
    assert stand.outbox.lost == 2
    assert [write.object for write in stand.one().writes] == ["d.t2", "d.t3", "d.t4", "d.t5"]
