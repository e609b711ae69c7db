"""Reports of an application about its writes, on their way into the outbox."""

import pytest

from topicast.subscriber.client.write_reports import WriteIntent, object_name, report_write
from topicast.subscriber.engine.write_outbox import WriteOutbox
from topicast.topics.errors import UsageError
from topicast.topics.wire.messages.reports import (
    ABANDONED,
    FAILED,
    INTENT,
    OVERWRITTEN,
    WRITTEN,
    Write,
)


def outbox() -> WriteOutbox:
    return WriteOutbox(driver=b"d" * 16, metastore="")


def only(of: WriteOutbox) -> Write:
    report = of.next_report(now=0.0)
    assert report is not None
    (write,) = report.writes
    return write


@pytest.mark.parametrize(
    ("written", "reported"),
    [
        ("Sales.Orders", "sales.orders"),
        ("s3a://Lake/Sales", "s3a://Lake/Sales"),
        ("/w/Sales", "/w/Sales"),
    ],
)
def test_tables_are_reported_in_lower_case_and_paths_as_they_are(
    written: str, reported: str
) -> None:
    assert object_name(written) == reported


@pytest.mark.parametrize("wrong", ["", "orders", "a.b.c"])
def test_name_of_neither_table_nor_path_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="db.table"):
        object_name(wrong)


def test_partitions_are_names_or_prefixes_of_names() -> None:
    for names in (["ds=1", "ds=1/", "ds=1/hour=2"], []):
        assert WriteIntent(outbox(), "sales.orders", names).partitions == tuple(names)
    with pytest.raises(UsageError):
        WriteIntent(outbox(), "sales.orders", ["ds"])


@pytest.mark.parametrize(
    ("how", "state"),
    [
        ({}, WRITTEN),
        ({"failed": True}, FAILED),
        ({"overwritten": True}, OVERWRITTEN),
        ({"failed": True, "overwritten": True}, FAILED),
    ],
)
def test_write_that_has_ended_is_reported_as_it_ended(how: dict[str, bool], state: int) -> None:
    reports = outbox()
    assert report_write(reports, "D.T", **how) == 1
    assert only(reports) == Write(number=1, state=state, object="d.t")
    WriteIntent(reports, "d.u").end(**how)
    assert reports.ended == 2


def test_intent_reports_the_beginning_and_at_the_end_of_its_block_the_end() -> None:
    reports = outbox()
    with WriteIntent(reports, "d.t", ["ds=1"]) as intent:
        assert only(reports) == Write(number=1, state=INTENT, object="d.t", partitions=("ds=1",))
        intent.partitions = ("ds=2",)
    assert only(reports) == Write(number=1, state=WRITTEN, object="d.t", partitions=("ds=2",))


def test_block_that_raises_reports_a_failed_write_and_abandon_that_nothing_was_written() -> None:
    reports = outbox()
    with pytest.raises(ZeroDivisionError), WriteIntent(reports, "d.t"):
        _ = 1 / 0
    assert only(reports).state == FAILED
    reports = outbox()
    WriteIntent(reports, "d.t").abandon()
    assert only(reports).state == ABANDONED


def test_refused_report_takes_no_number() -> None:
    reports = outbox()
    with pytest.raises(UsageError):
        report_write(reports, "nothing")
    with pytest.raises(UsageError):
        WriteIntent(reports, "d.t", ["ds"])
    assert report_write(reports, "d.t") == 1
