"""Commands: what applications call, and what each of them waits for until it is completed.

    any thread ──Command[T]──▶ start: the operation ──Done──▶ completed ──release──▶ result: T
                                        └──Wait──▶ PendingCommands ──poll: Done, or an error──▶ ┘
                                          a key is woken ──▲ └──deadline──▶ NotReady, and why

An operation is a method of the core, bound to its arguments. It runs in the engine's thread, so it
may read and change what that thread owns; its result is the only thing that leaves it.

A wait names its keys: the topics, or the request, that can answer it. The part of the core that
changes a topic, or takes the reply to a request, wakes that key, and at the end of the turn the
commands that wait for it are polled. All others cost nothing. If a part fails to wake a key, a
command waits although it has an answer: ``answerable`` finds it, for tests.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, Generic, TypeAlias, TypeVar

from ...topics.clock import Clock
from ...topics.errors import NotReady, TopicastError

T_co = TypeVar("T_co", covariant=True)

Key: TypeAlias = Hashable
"""The key of a wait, by which the core wakes the commands that wait.

A number: the topic with it. Its content, its position or its level has changed, or a join of it has
failed. Of the namespace also: the topics of the start were chosen, or it cannot be held.
Any other object: the reply to what it has requested, or an error instead of the reply.
"""

Wake: TypeAlias = Callable[[Key], None]
"""Has the commands that wait for a key polled at the end of this turn."""


@dataclass(frozen=True, slots=True)
class Done(Generic[T_co]):
    """The result of a command."""

    result: T_co


DONE: Final = Done(None)


class Wait(ABC, Generic[T_co]):
    """The wait of a command."""

    @abstractmethod
    def poll(self) -> Done[T_co] | None:
        """Return the result once it is there; change nothing before.

        Raises:
            TopicastError: it will never be there.
        """

    @abstractmethod
    def keys(self) -> tuple[Key, ...]:
        """Return the keys that may answer it, as of now, when it has just been polled in vain."""

    @abstractmethod
    def missing(self) -> str:
        """Return as text what the command still waits for."""

    def close(self) -> None:
        """Give back what the wait holds: its command is completed, or its time is over."""


Started: TypeAlias = Done[T_co] | Wait[T_co]


Operation: TypeAlias = Callable[[], Started[T_co]]
"""The work of a command: returns its result, or its wait.

Raises TopicastError if it fails; then it has decided nothing.
"""


class Command(Generic[T_co]):
    """One call into the engine, and the future of its result.

    ``result`` is for the caller's thread; all other methods are for the engine's.
    """

    def __init__(self, operation: Operation[T_co], *, deadline: float) -> None:
        """``deadline``: the engine's time at which the caller stops waiting."""
        self.deadline = deadline
        self.outcome: Done[T_co] | TopicastError | None = None  # set once
        self._operation = operation
        self._wait: Wait[T_co] | None = None  # from start to the outcome
        self._future: Future[T_co] = Future()

    def start(self) -> bool:
        """Begin the operation; return whether that is all, and the outcome is set."""
        try:
            begun = self._operation()
        except TopicastError as error:
            self.outcome = error
            return True
        if isinstance(begun, Done):
            self.outcome = begun
            return True
        self._wait = begun
        return False

    def answer(self) -> Done[T_co] | TopicastError | None:
        """Return what can be answered now; None: it has to wait."""
        assert self._wait is not None
        try:
            return self._wait.poll()
        except TopicastError as error:
            return error

    def keys(self) -> tuple[Key, ...]:
        """Return the keys that may answer it."""
        assert self._wait is not None
        return self._wait.keys()

    def settle(self, *, now: float) -> bool:
        """Set the outcome if the wait, or the time, is over; return whether it is."""
        wait, outcome = self._wait, self.answer()
        assert wait is not None
        if outcome is None and now >= self.deadline:
            outcome = NotReady(wait.missing())
        if outcome is None:
            return False
        self._wait = None
        wait.close()
        self.outcome = outcome
        return True

    def release(self) -> None:
        """Let the caller's thread go on."""
        if self._future.done():
            return
        if isinstance(self.outcome, Done):
            self._future.set_result(self.outcome.result)
        else:
            self._future.set_exception(self.outcome)

    def abort(self, error: TopicastError) -> None:
        """Release the caller with the outcome, else with ``error``: the core is gone."""
        self.outcome = self.outcome or error
        self.release()

    def result(self, timeout_s: float) -> T_co:
        """Wait for the outcome: return the result, or raise the error.

        Raises:
            concurrent.futures.TimeoutError: no outcome in time: the engine's thread is held up.
        """
        return self._future.result(timeout_s)


class PendingCommands:
    """The commands that wait, by the keys that may answer them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.waiting: dict[int, Command[object]] = {}  # by number, the oldest first
        self.woken: set[Key] = set()  # in this turn; the core clears it where nothing waits
        self.wake: Wake = self.woken.add
        """Has the commands that wait for a key polled at the end of this turn.

        Caller: the part of the core that has changed what the key stands for, in the same turn.
        Affects: these commands only; a key for which nothing waits costs nothing.
        """
        self._last = 0  # number of the last command that waited
        self._keys: dict[int, tuple[Key, ...]] = {}  # by number: the keys it is filed under
        self._by_key: dict[Key, set[int]] = {}  # the same by key; none of the sets is empty
        self._deadlines: list[tuple[float, int]] = []  # a heap, with some that were completed
        self._started: set[int] = set()  # not polled yet

    @property
    def deadline(self) -> float | None:
        """The time at which the next command times out."""
        while self._deadlines and self._deadlines[0][1] not in self.waiting:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def start(self, command: Command[object]) -> bool:
        """Begin ``command``, and keep it until it is completed; return whether it is already.

        A command whose caller has gone is not begun.
        """
        if command.outcome is not None:
            return False
        if command.start():
            return True
        self._last = number = self._last + 1
        self.waiting[number] = command
        self._started.add(number)
        heappush(self._deadlines, (command.deadline, number))
        return False

    def settle(self) -> Iterator[Command[object]]:
        """Complete what can be answered now, or has timed out, and yield it, the oldest first."""
        now = self._clock.now
        while due := self._take_due(now):  # once, as a rule: a command's end may wake others
            for number in sorted(due):
                command = self.waiting[number]
                self._unfile(number)
                if command.settle(now=now):
                    del self.waiting[number]
                    yield command
                else:
                    self._file(number, command.keys())

    def answerable(self) -> tuple[Command[object], ...]:
        """Return the commands that wait although they have an answer: after a turn there is none.

        Cost: it polls them all.
        """
        return tuple(one for one in self.waiting.values() if one.answer() is not None)

    def check(self) -> None:
        """Assert every invariant."""
        assert not self._started
        assert self.waiting.keys() == self._keys.keys() <= {n for _, n in self._deadlines}
        assert all(self._keys.values()), "nothing could wake it"
        filed = {(key, number) for key, found in self._by_key.items() for number in found}
        assert filed == {(key, number) for number, keys in self._keys.items() for key in keys}
        assert not self.answerable(), "nothing woke it"

    def _take_due(self, now: float) -> set[int]:
        """Take the numbers of the commands to be polled: started, woken, or at their deadline."""
        due, self._started = self._started, set()
        for key in self.woken:
            due |= self._by_key.get(key, set())
        self.woken.clear()
        while self._deadlines and self._deadlines[0][0] <= now:
            due.add(heappop(self._deadlines)[1])
        return due & self.waiting.keys()

    def _file(self, number: int, keys: tuple[Key, ...]) -> None:
        self._keys[number] = keys
        for key in keys:
            self._by_key.setdefault(key, set()).add(number)

    def _unfile(self, number: int) -> None:
        for key in self._keys.pop(number, ()):
            numbers = self._by_key[key]
            numbers.discard(number)
            if not numbers:
                del self._by_key[key]
