"""Commands: what applications call, and what each of them waits for until it is completed.

    any thread ──Command[T]──▶ start: the operation ──Done──▶ completed ──release──▶ result: T
                                        └──Wait──▶ PendingCommands ──poll: Done, or an error──▶ ┘
                                                        └──deadline──▶ NotReady: what is missing

An operation is a method of the core, bound to its arguments. It runs in the engine's thread, so it
may read and change what that thread owns; its result is the only thing that leaves it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from ...topics.errors import NotReady, TopicastError

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Done(Generic[T_co]):
    """The result of a command."""

    result: T_co


DONE: Final = Done(None)


class Wait(ABC, Generic[T_co]):
    """What a command waits for."""

    @abstractmethod
    def poll(self) -> Done[T_co] | None:
        """Return the result once it is there.

        Raises:
            TopicastError: it will never be there.
        """

    @abstractmethod
    def missing(self) -> str:
        """Say what has not happened yet."""

    def close(self) -> None:
        """Give back what the wait holds: its command is completed, or its time is over."""


Started: TypeAlias = Done[T_co] | Wait[T_co]


Operation: TypeAlias = Callable[[], Started[T_co]]
"""What a command does: returns its result, or what to wait for.

Raises TopicastError if it fails; then it has decided nothing.
"""


class Command(Generic[T_co]):
    """One call into the engine, and the future of its result.

    ``start``, ``settle`` and ``abort`` are for the engine's thread; ``result`` for the caller's.
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

    def settle(self, *, now: float) -> bool:
        """Set the outcome if the wait, or the time, is over; return whether it is."""
        wait = self._wait
        assert wait is not None
        outcome: Done[T_co] | TopicastError | None
        try:
            outcome = wait.poll()
        except TopicastError as error:
            outcome = error
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
    """The commands that wait, oldest first."""

    def __init__(self) -> None:
        self._commands: list[Command[object]] = []  # none of them completed

    @property
    def deadline(self) -> float | None:
        """The time at which the next command times out."""
        return min((one.deadline for one in self._commands), default=None)

    def start(self, command: Command[object]) -> bool:
        """Begin ``command``, and keep it until it is completed; return whether it is already.

        A command whose caller has gone is not begun.
        """
        if command.outcome is not None:
            return False
        if command.start():
            return True
        self._commands.append(command)
        return False

    def settle(self, *, now: float) -> Iterator[Command[object]]:
        """Complete the commands whose wait, or time, is over, and yield each."""
        for command in self._commands:
            if command.settle(now=now):
                yield command
        self._commands = [one for one in self._commands if one.outcome is None]
