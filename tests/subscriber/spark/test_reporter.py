"""What a reporter says of itself, and when it asks Spark nothing; tests/spark has the rest."""

import gc
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from topicast.subscriber.spark import reporter as reporter_module
from topicast.subscriber.spark.callbacks import Deaf
from topicast.subscriber.spark.connect import Hosted
from topicast.subscriber.spark.guard import Guard
from topicast.subscriber.spark.metastores import Metastore
from topicast.subscriber.spark.reporter import Reporter
from topicast.subscriber.spark.sessions import Sessions
from topicast.subscriber.spark.statements import Target
from topicast.subscriber.spark.untold import KEPT_MAX, Wrote

T = (Target(name=("d", "t")),)
NO_SESSION = object()  # whoever asks it anything fails, and is counted


class Made:
    """A reporter that is not started, and what it stands on."""

    def __init__(self, metastore: Metastore = Metastore(uris="thrift://m:1")) -> None:  # noqa: B008 - it is frozen
        self.guard = Guard()
        self.sessions = Sessions()
        self.is_on = True
        self.reporter = Reporter(
            self.sessions,
            guard=self.guard,
            live=lambda: None,
            metastore=metastore,
            said="",
            is_on=lambda: self.is_on,
        )

    def hosts(self, monkeypatch: pytest.MonkeyPatch) -> Hosted:
        """Return a session of a client, which is found; its callbacks arrive."""
        monkeypatch.setattr(self.reporter._callbacks, "prove", lambda _session: None)
        monkeypatch.setattr(self.reporter._states, "has", lambda _session: True)
        base = SimpleNamespace(_sc=SimpleNamespace(_jsc=object()), _jvm=None)
        hosted = Hosted(base, SimpleNamespace(sessionUUID=lambda: "1"), None)
        self.sessions.found(hosted)
        return hosted


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


def test_session_of_a_client_is_listened_to_no_longer_than_it_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server has thousands of them, one after the other."""
    heard: list[bool] = []
    undone: list[str] = []

    def listen(_session: Any, _take: Any, *, streaming: bool) -> Callable[[], None]:
        heard.append(streaming)
        return lambda: undone.append("1")

    monkeypatch.setattr(reporter_module, "listen", listen)
    made = Made()
    hosted = made.hosts(monkeypatch)
    for _turn in range(2):
        made.reporter._listen()
    assert (heard, undone) == ([False], [])
    del hosted
    gc.collect()
    made.reporter._listen()
    assert (undone, made.reporter._undoings) == (["1"], {})


def test_while_callbacks_do_not_arrive_the_jvm_has_no_listener_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[str] = []
    deaf = iter((False, True, True, False))

    def listen(_session: Any, _take: Any, *, streaming: bool) -> Callable[[], None]:
        heard.append("listened")
        return lambda: heard.append("undone")

    def prove(_session: Any) -> None:
        if next(deaf):
            raise Deaf("only from Python")

    monkeypatch.setattr(reporter_module, "listen", listen)
    monkeypatch.setattr(reporter_module, "PROVE_S", 0.0)
    made = Made()
    hosted = made.hosts(monkeypatch)
    monkeypatch.setattr(made.reporter._callbacks, "prove", prove)
    for _turn in range(3):
        made.reporter._listen()
    assert hosted in made.sessions.alive()
    assert made.reporter.standing() == "reported, but only from Python"
    assert (heard, made.guard.errors) == (["listened", "undone"], 1)
    made.reporter._listen()
    assert made.reporter.standing() == "reported"
    assert heard == ["listened", "undone", "listened"]
