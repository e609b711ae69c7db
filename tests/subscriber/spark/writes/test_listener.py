"""When the JVM is listened to; tests/spark has the real listener."""

from types import SimpleNamespace
from typing import Any

from topicast.subscriber.spark.guard import Guard
from topicast.subscriber.spark.sessions import Sessions
from topicast.subscriber.spark.writes.listener import ContextListener, NoListener


class Context:
    """A context of Spark, until it is stopped: in the JVM first, then in Python."""

    def __init__(self) -> None:
        self._jsc: object = self
        self.stopped = False

    def sc(self) -> "Context":
        return self

    def isStopped(self) -> bool:  # noqa: N802 - its name in Spark
        return self.stopped


class Session:
    def __init__(self, context: Context) -> None:
        self._sc = context


class Scene:
    """A process with sessions; while ``deaf`` the JVM's calls do not arrive."""

    def __init__(self) -> None:
        self.now = 100.0
        self.guard = Guard()
        self.sessions = Sessions()
        self.held: list[Session] = []
        self.deaf = False
        self.is_stopping = False  # while it is listened to
        self.done: list[str] = []
        self.listener = ContextListener(
            self.sessions,
            lambda _what, _of: None,
            guard=self.guard,
            prove=self._prove,
            listen=self._listen,
            prove_s=10.0,
        )

    def add(self, *contexts: Context) -> None:
        """Let there be a session of each context."""
        for context in contexts:
            self.held.append(Session(context))
            self.sessions.add(self.held[-1])

    def check(self, after_s: float = 0.0) -> list[str]:
        """Look once more, and return what was done."""
        self.now += after_s
        before = len(self.done)
        self.listener.check(now=self.now)
        return self.done[before:]

    def _listen(self, session: Any, _on_execution: Any) -> Any:
        if self.is_stopping:
            session._sc.stopped = True
            raise NoListener("java.lang.IllegalStateException: LiveListenerBus is stopped.")
        self.done.append("added")
        return SimpleNamespace(stop=lambda: self.done.append("removed"))

    def _prove(self, _session: Any) -> None:
        if self.deaf:
            raise NoListener("only from Python")


def test_each_context_has_one_listener_whatever_sessions_it_has() -> None:
    scene, first, second = Scene(), Context(), Context()
    assert scene.check() == [], "there is no session yet"
    scene.add(first, first)
    assert [scene.check(), scene.check()] == [["added"], []]
    first._jsc = None
    assert scene.check() == [], "its listener went with it"
    scene.add(second)
    assert [scene.check(), scene.check()] == [["added"], []]


def test_while_calls_do_not_arrive_the_jvm_has_no_listener_of_ours() -> None:
    scene = Scene()
    scene.add(Context())
    assert scene.check() == ["added"]
    scene.deaf = True
    assert [scene.check(10), scene.check(10)] == [["removed"], []]
    assert scene.listener.problem == "only from Python"
    assert scene.guard.errors == 1
    scene.deaf = False
    assert [scene.check(10), scene.check(10)] == [["added"], []]
    assert scene.listener.problem == ""


def test_calls_are_proved_again_only_after_a_pause() -> None:
    scene = Scene()
    scene.add(Context())
    scene.deaf = True
    assert scene.check() == []
    scene.deaf = False
    assert scene.check(9) == []
    assert scene.check(1) == ["added"]


def test_listener_that_was_stopped_is_removed_once() -> None:
    scene = Scene()
    scene.add(Context())
    scene.check()
    scene.listener.stop()
    scene.listener.stop()
    assert scene.done == ["added", "removed"]


def test_context_that_is_stopped_while_it_is_listened_to_is_no_failure() -> None:
    scene, first, second = Scene(), Context(), Context()
    scene.add(first)
    scene.is_stopping = True
    assert scene.check() == []
    assert (scene.guard.errors, scene.listener.problem) == (0, "")
    scene.is_stopping, first._jsc = False, None
    scene.add(second)
    assert scene.check() == ["added"]
    scene.is_stopping = second.stopped = True
    scene.listener.settle(0.0)
    assert scene.guard.errors == 0
