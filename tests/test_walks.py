"""What is counted as a fact's walk, and what is not."""

import inspect
import sys
import threading
from queue import SimpleQueue
from typing import Any

from topicast.tests.recorder import OFTEN, ROOT, CallPath, Recorder, WakeUp, walk_of
from topicast.tests.walks import APPLICATION
from topicast.topics.link import Inbox


class Calls:
    """Call paths by their names, as ``loop codec header``; a file is named as the call."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._root = CallPath("")

    def wakeup(self, *steps: str, thread: int = 1, idle: bool = False, at: float = 0.0) -> WakeUp:
        return WakeUp(APPLICATION, thread, [self._path(step) for step in steps], at, idle)

    def _path(self, names: str) -> CallPath:
        path = self._root
        for name in names.split():
            path = path.call(self._codes.setdefault(name, len(self._codes)), name)
        return path


def test_walk_has_its_files_in_order_and_a_turn_for_each_call_and_return_between_them() -> None:
    calls = Calls()
    there = calls.wakeup("loop", "loop codec", "loop", "loop member", "loop member view")
    walk = walk_of([there], quiet=[])
    assert walk.files == ("loop", "codec", "member", "view")
    assert walk.turns == 4


def test_wakeup_that_does_nothing_unusual_is_not_counted() -> None:
    calls = Calls()
    quiet = [calls.wakeup("loop", "loop codec"), calls.wakeup("loop", "loop pace")]
    both = calls.wakeup("loop", "loop codec", "loop", "loop pace")
    assert walk_of([both], quiet=quiet).files == ()


def test_file_that_a_heartbeat_enters_too_is_counted_where_the_fact_passes_it() -> None:
    calls = Calls()
    quiet = [calls.wakeup("loop", "loop codec", "loop")]
    walk = walk_of([calls.wakeup("loop", "loop codec", "loop", "loop view")], quiet=quiet)
    assert walk.files == ("loop", "codec", "view")


def test_what_is_done_though_nothing_has_come_is_left_out() -> None:
    calls = Calls()
    quiet = [calls.wakeup("loop", "loop pace", "loop", idle=True) for _ in range(OFTEN)]
    walk = walk_of([calls.wakeup("loop", "loop pace", "loop", "loop view", "loop")], quiet=quiet)
    assert walk.files == ("loop", "view")
    assert walk.turns == 2


def test_thread_of_ours_is_recorded_from_wait_to_wait() -> None:
    """Given a thread that waits for orders to put something in an inbox."""
    recorder, orders = Recorder(), SimpleQueue[int]()
    inbox: Inbox[int] = Inbox(lambda: None)
    done = SimpleQueue[int]()

    def work() -> None:
        while order := orders.get():
            inbox.put(order, timeout_s=1.0)
            done.put(order)

    with recorder.group("worker"):
        thread = threading.Thread(target=work)
        thread.start()
    orders.put(1)
    done.get(timeout=10)
    recorder.begin()
    for order in (1, 2):
        orders.put(order)
        done.get(timeout=10)
    orders.put(0)
    thread.join()
    found = [one for one in recorder.take() if one.steps[-1].file or len(one.steps) > 1]
    inbox_file = inspect.getfile(Inbox).removeprefix(f"{ROOT}/")
    assert [one.group for one in found] == ["worker"] * 2
    assert walk_of(found, quiet=[]).files == (inbox_file,)


def test_equal_code_of_two_files_is_told_apart() -> None:
    """As that of constructors which are generated for classes of the same fields."""
    recorder = Recorder()

    def frame_in(file: str) -> Any:
        names: dict[str, Any] = {"sys": sys, "__file__": f"{ROOT}/{file}"}
        exec("def make():\n    return sys._getframe()", names)  # our own text
        return names["make"]()

    frames = [frame_in("topics/one.py"), frame_in("topics/other.py")]
    assert frames[0].f_code == frames[1].f_code
    assert [recorder.file_of(frame) for frame in frames] == ["topics/one.py", "topics/other.py"]
