"""When the JVM is listened to; tests/spark has the real listener."""

from collections import deque
from typing import Any

from topicast.subscriber.spark.guard import Guard
from topicast.subscriber.spark.sessions import Sessions
from topicast.subscriber.spark.writes.listener import (
    ENDED,
    RETRY_S,
    ContextListener,
    Execution,
    NoListener,
)


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


class Queue:
    """What a context executes; ``broken``: the JVM does not answer."""

    def __init__(self, done: list[str]) -> None:
        self._done = done
        self.waiting: deque[str] = deque()
        self.broken = False
        self._stopped = False

    def take(self, timeout_s: float) -> Execution | None:
        if self.broken:
            raise ConnectionError("no answer")
        if self._stopped:
            return Execution(ENDED)
        return Execution(self.waiting.popleft()) if self.waiting else None

    def settle(self, timeout_s: float) -> bool:
        return not self.waiting

    def stop(self) -> None:
        self._stopped = True
        self._done.append("removed")


class Scene:
    """A process with sessions; while ``deaf`` their contexts cannot be listened to."""

    def __init__(self) -> None:
        self.now = 100.0
        self.guard = Guard()
        self.sessions = Sessions()
        self.held: list[Session] = []
        self.deaf = False
        self.is_stopping = False  # while it is listened to
        self.done: list[str] = []
        self.queues: list[Queue] = []
        self.listener = ContextListener(self.sessions, guard=self.guard, listen=self._listen)

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

    def take(self) -> str:
        """Return what was executed; empty: nothing."""
        found = self.listener.take(1.0)
        return "" if found is None else found.what

    def _listen(self, session: Any) -> Any:
        if self.is_stopping:
            session._sc.stopped = True
            raise NoListener("java.lang.IllegalStateException: LiveListenerBus is stopped.")
        if self.deaf:
            raise NoListener("only from Python")
        self.done.append("added")
        self.queues.append(Queue(self.done))
        return self.queues[-1]


def test_each_context_has_one_listener_whatever_sessions_it_has() -> None:
    scene, first, second = Scene(), Context(), Context()
    assert scene.check() == [], "there is no session yet"
    scene.add(first, first)
    assert [scene.check(), scene.check()] == [["added"], []]
    first._jsc = None
    assert scene.check() == [], "its listener went with it"
    scene.add(second)
    assert [scene.check(), scene.take(), scene.check()] == [[], "", ["added"]]


def test_what_a_context_executed_last_is_taken_when_there_is_another_one() -> None:
    scene, first, second = Scene(), Context(), Context()
    scene.add(first)
    scene.check()
    scene.queues[0].waiting += ["executed", "failed"]
    first._jsc = None
    scene.add(second)
    assert [scene.check(), scene.take(), scene.check(), scene.take()] == [
        *([], "executed"),
        *([], "failed"),
    ]
    assert [scene.take(), scene.check()] == ["", ["added"]]
    scene.queues[1].waiting += ["executed"]
    assert [scene.take(), scene.take(), scene.check()] == ["executed", "", []]


def test_context_that_cannot_be_listened_to_is_tried_again_after_a_pause() -> None:
    scene = Scene()
    scene.add(Context())
    scene.deaf = True
    assert [scene.check(), scene.check(RETRY_S - 1)] == [[], []]
    assert (scene.listener.problem, scene.guard.errors) == ("only from Python", 1)
    scene.check(1)
    assert scene.guard.errors == 1
    scene.deaf = False
    assert [scene.check(RETRY_S - 1), scene.check(1), scene.check(1)] == [[], ["added"], []]
    assert scene.listener.problem == ""


def test_jvm_that_does_not_answer_is_asked_again_after_a_pause() -> None:
    scene = Scene()
    scene.add(Context())
    scene.check()
    scene.queues[0].broken = True
    assert [scene.take(), scene.check()] == ["", []]
    assert scene.listener.problem == "only from Python: Spark's JVM does not answer"
    assert (scene.done, scene.guard.errors) == (["added", "removed"], 1)
    assert [scene.check(RETRY_S), scene.take()] == [["added"], ""]
    assert (scene.listener.problem, scene.guard.errors) == ("", 1)


def test_listener_that_was_stopped_is_removed_once_and_has_nothing_to_take() -> None:
    scene = Scene()
    scene.add(Context())
    scene.check()
    scene.queues[0].waiting += ["executed"]
    scene.listener.stop()
    scene.listener.stop()
    assert scene.done == ["added", "removed"]
    assert [scene.take(), scene.guard.errors] == ["", 0]


def test_context_that_is_stopped_while_it_is_listened_to_is_no_failure() -> None:
    scene, first, second = Scene(), Context(), Context()
    scene.add(first)
    scene.is_stopping = True
    assert scene.check() == []
    assert (scene.guard.errors, scene.listener.problem) == (0, "")
    scene.is_stopping, first._jsc = False, None
    scene.add(second)
    assert scene.check() == ["added"]
    second.stopped = scene.queues[0].broken = True
    scene.listener.settle(0.0)
    assert (scene.take(), scene.guard.errors) == ("", 0)
