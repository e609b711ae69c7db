"""Recorder: which of our files each thread of this process goes through, from wake-up to wake-up.

    thread ──wait──▶ wake-up: calls and returns ──wait──▶ wake-up …
                       └── of each call of ours its path: the calls of ours that lead to it

A thread of ours works in wake-ups: it waits for a socket, a queue or a condition, does what came,
and waits again. The hook of ``sys.setprofile`` sees every call and every return; what is not ours
it passes over. A constructor that ``dataclass`` generated counts as its class's file.

A fact's walk is counted from the wake-ups in which it was under way, by comparison with a quiet
time before, in which only heartbeats and idle looks happened:

- A wake-up belongs to the walk if it has a call path that no wake-up of the quiet time had.
- Of such a wake-up the housekeeping is left out: call paths that the quiet time often had in
  wake-ups which nothing had caused (their wait timed out), unless they lead to a counted call.

So a file that heartbeats enter, too, such as the codec's, counts where the fact passes it.
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDERS: Final = ("topics", "statestore", "catalog", "subscriber")
PYTHON_WAITS: Final = {  # unless their ``timeout`` is 0: that is a look, and no wait
    ("selectors.py", "EpollSelector.select"),
    ("threading.py", "Condition.wait"),
}
C_WAIT: Final = "SimpleQueue.get"
WAIT: Final = "(wait)"
OFTEN: Final = 5  # idle wake-ups; in one or two something came just after the wait had timed out


class CallPath:
    """A call of ours and those that lead to it; equal paths are one object."""

    __slots__ = ("calls", "file", "parent")

    def __init__(self, file: str, parent: "CallPath | None" = None) -> None:
        self.file = file  # within the repository; empty: the thread itself
        self.parent = parent
        self.calls: dict[int, CallPath] = {}

    def call(self, code: int, file: str) -> "CallPath":
        """Return the path of a call, from here, of the code with the id ``code``."""
        return self.calls.get(code) or self.calls.setdefault(code, CallPath(file, self))


@dataclass(eq=False, slots=True)
class WakeUp:
    """What a thread did between two waits: where it was after each call and each return."""

    group: str
    thread: int
    steps: list[CallPath] = field(default_factory=list)
    began_at: float = 0.0
    idle: bool = False  # its wait timed out


@dataclass(frozen=True, slots=True)
class Walk:
    """The files of a walk, as they were first entered; how often it went from one to another."""

    files: tuple[str, ...]
    turns: int


def walk_of(wakeups: Iterable[WakeUp], *, quiet: Iterable[WakeUp]) -> Walk:
    """Count the walk in ``wakeups`` of all threads, beside those of a ``quiet`` time."""
    quiet = list(quiet)
    idle = Counter(path for one in quiet if one.idle for path in set(one.steps))
    housekeeping = {path for path, times in idle.items() if times >= OFTEN}
    entered: dict[str, None] = {}
    last: dict[int, str] = {}
    turns = 0
    for one in unusual(wakeups, quiet=quiet):
        counted = _with_callers(path for path in one.steps if path not in housekeeping)
        for path in one.steps:
            if path.file and path in counted:
                entered[path.file] = None
                turns += last.setdefault(one.thread, path.file) != path.file
                last[one.thread] = path.file
    return Walk(tuple(entered), turns)


def unusual(wakeups: Iterable[WakeUp], *, quiet: Iterable[WakeUp]) -> list[WakeUp]:
    """Return those of ``wakeups`` in which a fact was under way, in the order of their time."""
    usual = {path for one in quiet for path in one.steps}
    found = [one for one in wakeups if not usual.issuperset(one.steps)]
    return sorted(found, key=lambda one: one.began_at)


def _with_callers(paths: Iterable[CallPath]) -> set[CallPath]:
    found: set[CallPath] = set()
    for path in paths:
        here: CallPath | None = path
        while here is not None and here not in found:
            found.add(here)
            here = here.parent
    return found


class Recorder:
    """Records the threads that begin within ``group``, while it is ``on``."""

    def __init__(self, *, last: Callable[..., object] | None = None) -> None:
        """Recording ends when ``last``, a function of ours, calls into the JVM by Py4J."""
        self.on = False
        self.ended = threading.Event()
        self._last = last.__code__ if isinstance(last, FunctionType) else None
        self._group = ""
        self._root = CallPath("")
        # By id, since generated constructors are equal; the code is held, so its id stays its own.
        self._files: dict[int, tuple[str, CodeType]] = {}
        self._tracks: list[_Track] = []

    @contextmanager
    def group(self, name: str) -> Iterator[None]:
        """Watch the threads that begin until the block ends, and those that begin in them."""
        self._group = name
        threading.setprofile(self._watch)
        try:
            yield
        finally:
            threading.setprofile(None)

    @contextmanager
    def this_thread(self, name: str) -> Iterator[None]:
        """Watch this thread until the block ends."""
        track = _Track(self, name, self._root)
        self._tracks.append(track)
        sys.setprofile(track.hook)
        try:
            yield
        finally:
            sys.setprofile(None)

    def begin(self) -> None:
        """Record from now on."""
        self.take()
        self.ended.clear()
        self.on = True

    def take(self) -> list[WakeUp]:
        """End recording; return what was recorded."""
        self.on = False
        found: list[WakeUp] = []
        for track in self._tracks:
            found += track.take()
        return found

    def is_last(self, frame: FrameType) -> bool:
        """Tell whether ``frame`` calls what ends the recording."""
        caller = frame.f_back
        if self._last is None or caller is None or caller.f_code is not self._last:
            return False
        return frame.f_code.co_qualname == "JavaMember.__call__"

    def file_of(self, frame: FrameType) -> str:
        """Return the file of ours that ``frame`` runs in; WAIT: it waits; empty: neither."""
        code = frame.f_code
        known = self._files.get(id(code))
        if known is None:
            waits = (Path(code.co_filename).name, code.co_qualname) in PYTHON_WAITS
            file = WAIT if waits else _file_of(code, frame.f_globals)
            known = self._files[id(code)] = (file, code)
        return known[0]

    def _watch(self, frame: FrameType, event: str, arg: Any) -> None:
        """Be the first hook of a thread; its own takes over."""
        track = _Track(self, self._group, self._root)
        self._tracks.append(track)
        sys.setprofile(track.hook)


class _Track:
    """One thread: where it is, and its wake-ups."""

    def __init__(self, recorder: Recorder, group: str, root: CallPath) -> None:
        self._recorder = recorder
        self._group = group
        self._here = root
        self._thread = threading.get_ident()
        self._done: list[WakeUp] = []
        self._wakeup = WakeUp(group, self._thread)

    def take(self) -> list[WakeUp]:
        """Return the wake-ups since the last time, the present wake-up included."""
        done, self._done = [*self._done, self._wakeup], []
        self._wakeup = WakeUp(self._group, self._thread, began_at=time.perf_counter())
        return [one for one in done if one.steps]

    def hook(self, frame: FrameType, event: str, arg: Any) -> None:
        """See a call or a return."""
        recorder = self._recorder
        if event in {"call", "return"}:
            file = recorder.file_of(frame)
            if file == WAIT:
                if frame.f_locals.get("timeout") not in (0, 0.0):
                    self._waits(event == "return", answer=arg)
            elif file:
                if event == "call":
                    self._here = self._here.call(id(frame.f_code), file)
                else:
                    self._here = self._here.parent or self._here
                if recorder.on:
                    self._wakeup.steps.append(self._here)
            elif event == "call" and recorder.on and recorder.is_last(frame):
                recorder.on = False
                recorder.ended.set()
        elif getattr(arg, "__qualname__", "") == C_WAIT:
            self._waits(event != "c_call", answer=True)

    def _waits(self, over: bool, *, answer: object) -> None:
        if not over:
            if self._recorder.on and self._wakeup.steps:
                self._done.append(self._wakeup)
            self._wakeup = WakeUp(self._group, self._thread)
        self._wakeup.began_at = time.perf_counter()
        self._wakeup.idle = over and not answer
        if over and self._recorder.on:
            self._wakeup.steps.append(self._here)


def _file_of(code: CodeType, names: dict[str, Any]) -> str:
    written = code.co_filename
    path = Path(str(names.get("__file__", "")) if written.startswith("<") else written).resolve()
    if not path.is_relative_to(ROOT):
        return ""
    name = path.relative_to(ROOT).as_posix()
    return name if name.partition("/")[0] in FOLDERS else ""
