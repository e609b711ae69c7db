"""What a reporter says of itself, and when it asks Spark nothing; tests/spark has the rest."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from topicast.subscriber.spark.driver.connect import Hosted
from topicast.subscriber.spark.guard import Guard
from topicast.subscriber.spark.sessions import Sessions
from topicast.subscriber.spark.writes import reporter as reporter_module
from topicast.subscriber.spark.writes.callbacks import Deaf
from topicast.subscriber.spark.writes.listener import MISSED
from topicast.subscriber.spark.writes.metastores import Metastore
from topicast.subscriber.spark.writes.reporter import Reporter
from topicast.subscriber.spark.writes.statements import Target
from topicast.subscriber.spark.writes.unacknowledged import KEPT_MAX, Wrote

T = (Target(name=("d", "t")),)
NO_SESSION = object()  # whoever asks it anything fails, and is counted


class Made:
    """A reporter that is not started, and what it stands on."""

    def __init__(self, metastore: Metastore = Metastore(uris="thrift://m:1")) -> None:  # noqa: B008 - it is frozen
        self.guard = Guard()
        self.sessions = Sessions()
        self.is_on = True
        self.held: list[Hosted] = []
        self.reporter = Reporter(
            self.sessions,
            guard=self.guard,
            live=lambda: None,
            metastore=metastore,
            said="",
            is_on=lambda: self.is_on,
        )

    def finds(self, *contexts: "Context") -> None:
        """Let there be a session of each context."""
        for context in contexts:
            session = Hosted(SimpleNamespace(_sc=context, _jvm=None), None, None)
            self.held.append(session)
            self.sessions.found(session)


class Context:
    """A context of Spark, until it is stopped."""

    def __init__(self) -> None:
        self._jsc: object = self


class Heard:
    """What was listened to, in words; callbacks do not arrive while ``deaf``."""

    def __init__(self, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self.deaf = False
        self._reporter = made.reporter
        monkeypatch.setattr(reporter_module, "Listening", self._listen)
        monkeypatch.setattr(self._reporter._callbacks, "prove", self._prove)

    def turn(self) -> list[str]:
        """Look once more, and return what was done."""
        before = len(self.said)
        self._reporter._listen()
        return self.said[before:]

    def _listen(self, _session: Any, _take: Any) -> SimpleNamespace:
        self.said.append("listened")
        return SimpleNamespace(stop=lambda: self.said.append("undone"))

    def _prove(self, _session: Any) -> None:
        if self.deaf:
            raise Deaf("only from Python")


def test_status_says_why_writes_are_not_reported() -> None:
    assert Made().reporter.standing() == "reported"
    found = Made(Metastore(reason="its catalog is in-memory, not hive")).reporter
    assert found.standing() == "not reported: its catalog is in-memory, not hive"
    found = Made().reporter
    found.delay = "later: send fewer"
    assert found.standing() == "reported, but later: send fewer"
    found.deaf = "only from Python"
    assert found.standing() == "reported, but only from Python"
    found.refusal = "another metastore"
    assert found.standing() == "not reported: another metastore"


def test_status_says_what_was_lost() -> None:
    reporter = Made().reporter
    write = Wrote(object="d.t", partitions=(), failed=False)
    reporter.untold.wrote(*[write] * (KEPT_MAX + 2))
    assert reporter.standing() == "reported, but 2 were lost"
    reporter._take(MISSED, 3)
    assert reporter.standing() == "reported, but 5 were lost"


def test_failure_of_ours_is_counted_and_the_write_goes_on() -> None:
    made = Made()
    begun = made.reporter.begin(NO_SESSION, T)
    made.reporter.end(begun, failed=False)
    assert (begun, made.guard.errors) == ([], 1)


def test_spark_is_asked_nothing_where_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made()
    assert made.reporter.begin(NO_SESSION, ()) == []
    made.is_on = False
    assert made.reporter.begin(NO_SESSION, T) == []
    made.is_on = True
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert made.reporter.begin(NO_SESSION, T) == []
    made.reporter.flush()
    assert made.guard.errors == 0


def test_reporter_that_was_never_started_stops_at_once() -> None:
    Made().reporter.stop()


def test_each_context_is_listened_to_once_whatever_sessions_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, first, second = Made(), Context(), Context()
    heard = Heard(made, monkeypatch)
    assert heard.turn() == [], "there is none yet"
    made.finds(first, first)
    assert [heard.turn(), heard.turn()] == [["listened"], []]
    first._jsc = None
    assert heard.turn() == [], "its listener went with it"
    made.finds(second)
    assert [heard.turn(), heard.turn()] == [["listened"], []]


def test_while_callbacks_do_not_arrive_the_jvm_has_no_listener_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reporter_module, "PROVE_S", 0.0)
    made = Made()
    heard = Heard(made, monkeypatch)
    made.finds(Context())
    assert heard.turn() == ["listened"]
    heard.deaf = True
    assert [heard.turn(), heard.turn()] == [["undone"], []]
    assert made.reporter.standing() == "reported, but only from Python"
    assert made.guard.errors == 1
    heard.deaf = False
    assert [heard.turn(), heard.turn()] == [["listened"], []]
    assert made.reporter.standing() == "reported"


def test_who_is_deaf_is_asked_again_only_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made()
    heard = Heard(made, monkeypatch)
    made.finds(Context())
    heard.deaf = True
    assert heard.turn() == []
    heard.deaf = False
    assert heard.turn() == []
    made.reporter._prove_at = 0.0
    assert heard.turn() == ["listened"]
