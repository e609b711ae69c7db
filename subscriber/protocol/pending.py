"""Commands: calls of the application into the engine, and those of them that wait for something.

    any thread ──Command[T]──▶ start: the operation ──Done──▶ completed ──release──▶ result: T
                                        └──Wait──▶ PendingRequests ──poll: Done, or an error──▶ ┘
                                                        └──deadline──▶ NotReady: what is missing

An operation is a method of the core, bound to its arguments. It runs in the engine's thread, so it
may read and change what that thread owns; its result is the only thing that leaves it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from ...topics.errors import NotReady, TopicastError
from .shell import Complete, Effects

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

    def close(self, _now: float) -> Effects:
        """Give back what the wait holds: its command is completed, or its time is over."""
        return ()


Started: TypeAlias = tuple[Done[T_co] | Wait[T_co], Effects]


Operation: TypeAlias = Callable[[float], Started[T_co]]
"""What a command does, at a time: returns its result, or what to wait for, and effects.

Raises TopicastError if it cannot be.
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

    def start(self, *, now: float) -> Effects:
        """Begin the operation."""
        try:
            begun, effects = self._operation(now)
        except TopicastError as error:
            return self._complete(error)
        if isinstance(begun, Done):
            return (*effects, *self._complete(begun))
        self._wait = begun
        return effects

    def settle(self, *, now: float) -> Effects:
        """Complete the command if its wait, or its time, is over."""
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
            return ()
        self._wait = None
        return (*wait.close(now), *self._complete(outcome))

    def release(self) -> None:
        """Let the caller's thread go on."""
        if self._future.done():
            return
        if isinstance(self.outcome, Done):
            self._future.set_result(self.outcome.result)
        else:
            self._future.set_exception(self.outcome)

    def abort(self, error: TopicastError) -> None:
        """Fail the command, which the core does not complete any more."""
        self.outcome = error
        self.release()

    def result(self, timeout_s: float) -> T_co:
        """Wait for the outcome: return the result, or raise the error.

        Raises:
            TimeoutError: there is none in time: the engine's thread is held up.
        """
        return self._future.result(timeout_s)

    def _complete(self, outcome: Done[T_co] | TopicastError) -> Effects:
        self.outcome = outcome
        return (Complete(self),)


class PendingRequests:
    """The commands that wait, oldest first."""

    def __init__(self) -> None:
        self.commands: list[Command[object]] = []  # none of them completed

    @property
    def deadline(self) -> float | None:
        """The time at which the next command times out."""
        return min((one.deadline for one in self.commands), default=None)

    def start(self, command: Command[object], *, now: float) -> Effects:
        """Begin ``command``, and keep it until it is completed."""
        effects = command.start(now=now)
        if command.outcome is None:
            self.commands.append(command)
        return effects

    def settle(self, *, now: float) -> Effects:
        """Complete the commands whose wait, or time, is over."""
        effects: Effects = ()
        for command in self.commands:
            effects += command.settle(now=now)
        self.commands = [one for one in self.commands if one.outcome is None]
        return effects
