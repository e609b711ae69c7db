"""The status of a reporter, and when it calls Spark; tests/spark has the rest."""

import os

import pytest

from topicast.subscriber.engine.write_outbox import Outbox
from topicast.subscriber.spark.guard import Guard
from topicast.subscriber.spark.refresh.control import Control
from topicast.subscriber.spark.sessions import Sessions
from topicast.subscriber.spark.writes.listener import MISSED, Execution
from topicast.subscriber.spark.writes.metastores import Metastore
from topicast.subscriber.spark.writes.reporter import Reporter
from topicast.subscriber.spark.writes.statements import Target
from topicast.topics.objects.rules import DRY_RUN, OFF, ON
from topicast.topics.wire.messages import WRITTEN, Verdict

T = (Target(name=("d", "t")),)
NO_SESSION = object()  # each call to it fails, and is counted


class Made:
    """A reporter that is not started, and its surroundings."""

    def __init__(self) -> None:
        self.guard = Guard()
        self.control = Control()
        self.outbox = Outbox(driver=b"d" * 16, metastore="thrift://m:1", probe=True, writes_max=2)
        self.reporter = Reporter(
            Sessions(),
            outbox=self.outbox,
            guard=self.guard,
            control=self.control,
            metastore_of=lambda _session: Metastore(),
            configured="",
            found=None,
        )

    def accept(self) -> None:
        """Let catalogd take the first report, which is sent to learn whether it takes any."""
        self.outbox.attach(lambda: None)
        probe = self.outbox.next_report(now=0.0)
        assert probe is not None
        assert probe.writes == ()
        self.outbox.acknowledge(probe, (), now=0.0)


def test_status_says_whether_writes_are_reported_and_if_not_why() -> None:
    made = Made()
    assert made.reporter.status() == "not known yet: catalogd has not answered"
    made.accept()
    assert made.reporter.status() == "reported"
    made.outbox.back_off("send fewer")
    assert made.reporter.status() == "reported, but later: send fewer"
    made.outbox.refuse("another metastore")
    assert made.reporter.status() == "not reported: another metastore"
    made.control.operators = OFF
    assert made.reporter.status() == "not reported: control is off"


def test_status_says_which_write_is_refused_as_the_key_may_not_see_its_table() -> None:
    made = Made()
    made.accept()
    made.outbox.add("d.t", state=WRITTEN)
    report = made.outbox.next_report(now=1.0)
    assert report is not None
    why = "NOT_VISIBLE: d.t is not visible to this driver's key, which sees sales"
    refused = Verdict(number=report.writes[0].number, topic=1, version=2, problem=why)
    made.outbox.acknowledge(report, (refused,), now=1.0)
    assert made.reporter.status() == f"reported, but {why}"


def test_status_says_what_was_lost() -> None:
    made = Made()
    made.accept()
    for table in range(4):
        made.outbox.add(f"d.t{table}", state=WRITTEN)
    assert made.reporter.status() == "reported, but 2 were lost"
    made.reporter.take(Execution(MISSED, missed=3))
    assert made.reporter.status() == "reported, but 5 were lost"


def test_failure_of_ours_is_counted_and_the_write_goes_on() -> None:
    made = Made()
    begun = made.reporter.begin(NO_SESSION, T)
    made.reporter.end(begun, failed=False)
    assert (begun, made.guard.errors) == ([], 1)


def test_execution_that_cannot_be_read_is_counted() -> None:
    made = Made()
    made.reporter.take(Execution("executed", of=object))
    assert made.guard.errors == 1


def test_spark_is_not_called_where_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made()
    assert made.reporter.begin(NO_SESSION, ()) == []
    made.control.application = OFF
    assert made.reporter.begin(NO_SESSION, T) == []
    made.control.application = ON
    made.control.operators = OFF
    assert made.reporter.begin(NO_SESSION, T) == []
    made.control.operators = DRY_RUN
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert made.reporter.begin(NO_SESSION, T) == []
    made.reporter.end([], failed=False)
    made.reporter.flush()
    assert made.guard.errors == 0


def test_reporter_that_was_never_started_stops_at_once() -> None:
    Made().reporter.stop()
