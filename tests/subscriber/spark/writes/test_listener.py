"""What is taken from the JVM's queue, as it is written there; tests/spark has the real listener."""

import re
from collections import deque

from topicast.subscriber.spark.java import java_source
from topicast.subscriber.spark.writes import plans
from topicast.subscriber.spark.writes.listener import ENDED, MISSED, NAME, Queue


class Listener:
    """A queue of texts."""

    def __init__(self, *texts: str) -> None:
        self.waiting = deque(texts)
        self.told: object = None
        self.handled = 0

    def tell(self, sessions: object) -> None:
        self.told = sessions

    def take(self, ms: int, handled: int) -> str:
        self.handled = handled
        return self.waiting.popleft() if self.waiting else ""

    def of(self) -> str:
        return "a plan"


def test_texts_of_the_jvm_say_what_was_executed_and_of_which_plan() -> None:
    sessions = object()
    listener = Listener("inner executed 12", "started", "table refreshed", "missed 3", ENDED)
    queue = Queue(listener, sessions=sessions)
    assert listener.told is sessions
    found = [queue.take(1.0) for _ in range(5)]
    assert [(one.what, one.mark, one.missed) for one in found if one is not None] == [
        ("inner executed", 12, 0),
        ("started", 0, 0),
        ("table refreshed", 0, 0),
        (MISSED, 0, 3),
        (ENDED, 0, 0),
    ]
    assert found[0] is not None
    assert found[0].of() == "a plan"
    assert queue.take(1.0) is None
    assert listener.handled == 3


def test_only_what_is_handled_is_said_to_be() -> None:
    listener = Listener("executed 1", "executed 2", "missed 3", "executed 4")
    queue = Queue(listener, sessions=None)
    for handled, known in ((False, 0), (True, 1), (False, 1), (False, 1), (True, 3)):
        queue.take(1.0, handled=handled)
        assert listener.handled == known


def test_what_the_jvm_takes_for_a_write_is_what_plans_are_read_of() -> None:
    """The queue is there before any Python of ours, so the names are written in its source."""
    source = java_source("topicast.subscriber.spark.writes", NAME)
    (names,) = re.findall(r"WRITES = .*?\{(.*?)\}", source, re.DOTALL)
    assert set(re.findall(r'"(\w+)"', names)) == plans.WRITES
