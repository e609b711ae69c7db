"""The status of a reporter, and when it calls Spark; tests/spark has the rest."""

from typing import Any

from topicast.subscriber.engine.write_outbox import WriteOutbox
from topicast.subscriber.spark.guard import Guard
from topicast.subscriber.spark.refresh.control import Control
from topicast.subscriber.spark.sessions import Sessions
from topicast.subscriber.spark.writes.listener import (
    MISSED,
    PATH_REFRESHED,
    TABLE_REFRESHED,
    Execution,
    Queue,
)
from topicast.subscriber.spark.writes.metastores import ReportedMetastore
from topicast.subscriber.spark.writes.reporter import Reporter
from topicast.topics.objects.rules import OFF, ON
from topicast.topics.wire.messages.reports import WRITTEN, WriteOutcome

NO_SESSION = object()  # each call to it fails, and is counted


class Nothing:
    """A listener of a context that executes nothing."""

    def tell(self, sessions: object) -> None:
        self.told = sessions


class Live:
    """A session whose context was not stopped."""

    def __init__(self) -> None:
        self._sc: Any = self
        self._jsc = self


class Made:
    """A reporter that is not started, and its surroundings."""

    def __init__(self) -> None:
        self.guard = Guard()
        self.control = Control()
        self.outbox = WriteOutbox(
            driver=b"d" * 16, metastore="thrift://m:1", probe=True, writes_max=2
        )
        self.session, sessions = Live(), Sessions()
        sessions.add(self.session)
        self.reporter = Reporter(
            sessions,
            outbox=self.outbox,
            guard=self.guard,
            control=self.control,
            metastore_of=lambda _session: ReportedMetastore(),
            configured="",
            queue=Queue(Nothing(), sessions=None),
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
    why = "d.t is not visible to this driver's key, which sees sales"
    refused = WriteOutcome(
        number=report.writes[0].number, topic=1, version=2, code="NOT_VISIBLE", message=why
    )
    made.outbox.acknowledge(report, (refused,), now=1.0)
    assert made.reporter.status() == f"reported, but NOT_VISIBLE: {why}"


def test_status_says_what_was_lost() -> None:
    made = Made()
    made.accept()
    for table in range(4):
        made.outbox.add(f"d.t{table}", state=WRITTEN)
    assert made.reporter.status() == "reported, but 2 were lost"
    made.reporter.take(Execution(MISSED, missed=3))
    assert made.reporter.status() == "reported, but 5 were lost"


def test_execution_that_cannot_be_read_is_counted() -> None:
    made = Made()
    made.reporter.take(Execution("executed", of=object))
    assert made.guard.errors == 1


def test_refresh_that_cannot_be_read_is_counted_and_spark_is_not_called_while_it_is_off() -> None:
    made = Made()
    for count, what in enumerate((TABLE_REFRESHED, PATH_REFRESHED), start=1):
        made.reporter.take(Execution(what, of=lambda: (NO_SESSION, "d.t")))
        assert made.guard.errors == count
    for who in ("application", "operators"):
        setattr(made.control, who, OFF)
        made.reporter.take(Execution(what, of=lambda: (NO_SESSION, "d.t")))
        setattr(made.control, who, ON)
    assert made.guard.errors == count


def test_failure_while_spark_ends_is_none_of_ours() -> None:
    made = Made()
    made.session._sc = None
    made.reporter.take(Execution("executed", of=object))
    assert made.guard.errors == 0


def test_reporter_that_was_never_started_stops_at_once() -> None:
    Made().reporter.stop()
