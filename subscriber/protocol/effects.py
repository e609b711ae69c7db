"""The facts and effects between a subscriber's core and its shell, and the connections.

    sockets, applications, time ──fact──▶ core ──effect──▶ sockets, callers, watches

A command is the fact that an application calls:

    any thread ──Command[T]──▶ start: the operation ──Done──▶ completed ──release──▶ result: T
                                        └──Wait──▶ PendingCommands ──poll: Done, or an error──▶ ┘
                                                        └──deadline──▶ NotReady: what is missing

An operation is a method of the core, bound to its arguments. It runs in the engine's thread, so it
may read and change what that thread owns; its result is the only thing that leaves it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from ...topics.backports import StrEnum
from ...topics.errors import NotReady, TopicastError, WireError
from ...topics.keys.credential import PublicKeys
from ...topics.objects.changes import ChangeKind
from ...topics.turn import Turn
from ...topics.wire.messages.fields import Message

T_co = TypeVar("T_co", covariant=True)


class Connection(StrEnum):
    """A connection with a socket of its own, which has its name."""

    DATA = "data"  # SUB to the hub: deltas, heartbeats, barriers
    CONTROL = "control"  # to the hub: joins, status
    BULK = "bulk"  # to the hub: catch-ups
    SERVICE = "service"  # to catalogd: sync, compare, validate, reports
    PULLS = "pulls"  # to catalogd: pulls


class EngineRestarted(NotReady):
    """The engine has failed, and runs again: the call may have been carried out or not."""


# Facts


@dataclass(frozen=True, slots=True)
class Received:
    """``message`` arrived on ``connection``; ``policy``: the number that its frame began with."""

    connection: Connection
    message: Message
    policy: int = 0


@dataclass(frozen=True, slots=True)
class DroppedFrame:
    """A frame that could not be decoded arrived on ``connection`` and was dropped."""

    connection: Connection
    error: WireError


@dataclass(frozen=True, slots=True)
class ConnectionProblem:
    """Why a server is not reached, or does not admit us; empty: all are reached, and admit us."""

    text: str


@dataclass(frozen=True, slots=True)
class Watching:
    """The first watch was opened, or the last one closed."""

    on: bool


@dataclass(frozen=True, slots=True)
class Leave:
    """The subscriber is closed; no fact follows."""


# Effects


@dataclass(frozen=True, slots=True)
class BeginAnew:
    """Open all sockets anew and restart the core: ``why`` says why nothing held may be used."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of the object ``object``, which is ``db`` or ``db.table``.

    ``version`` is the version of the topic that brought the change: the namespace's for objects
    that were created or dropped. ``validate`` takes an object's own version. ``origin`` is where
    catalogd saw the change first: events, reports, orders; catch-up where that is lost.
    ``files``: whether its files may read differently; else partitions were added or dropped, or it
    was described.
    ``overwritten``: files that it had are known to be gone.
    """

    object: str
    kind: ChangeKind
    version: int
    origin: str
    files: bool = True
    overwritten: bool = False


@dataclass(frozen=True, slots=True)
class Send:
    """Send ``message`` on ``connection``."""

    connection: Connection
    message: Message


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Receive data frames that begin with ``prefix``."""

    prefix: bytes


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Receive them no longer."""

    prefix: bytes


@dataclass(frozen=True, slots=True)
class ConnectHub:
    """Leave the hub, with its data connection, and open control and bulk to ``address``."""

    address: str


@dataclass(frozen=True, slots=True)
class ConnectData:
    """Open a new data connection to ``address``, without subscriptions."""

    address: str


@dataclass(frozen=True, slots=True)
class ConnectCatalog:
    """Leave catalogd, and open service and pulls to ``address``."""

    address: str


@dataclass(frozen=True, slots=True)
class Trust:
    """Take these for the public keys of the hub that is followed, and of catalogd; empty: unknown.

    Of each the current one and, if it is known, the next.
    """

    hub: PublicKeys
    catalogd: PublicKeys


@dataclass(frozen=True, slots=True)
class Complete:
    """Release the caller of a command that has its outcome."""

    command: "Command[object]"


@dataclass(frozen=True, slots=True)
class Notify:
    """Offer ``changes`` to the watches."""

    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PinsNotHeld:
    """Warn that so many pinned ``tables`` are not held: all need more than there is room for."""

    tables: int
    needed_bytes: int
    room_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDiffers:
    """Warn that memory answered for ``table`` what catalogd does not have at the same version."""

    table: str
    what: str


Effect = (
    BeginAnew
    | Send
    | Subscribe
    | Unsubscribe
    | ConnectHub
    | ConnectData
    | ConnectCatalog
    | Trust
    | Complete
    | Notify
    | PinsNotHeld
    | AnswerDiffers
)
Effects = tuple[Effect, ...]


# Commands


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

    def __init__(self, turn: Turn[Effect]) -> None:
        self.commands: list[Command[object]] = []  # none of them completed
        self._turn = turn

    @property
    def deadline(self) -> float | None:
        """The time at which the next command times out."""
        return min((one.deadline for one in self.commands), default=None)

    def start(self, command: Command[object]) -> None:
        """Begin ``command``, and keep it until it is completed; nothing if its caller has gone."""
        if command.outcome is not None:
            return
        if command.start():
            self._turn.add(Complete(command))
        else:
            self.commands.append(command)

    def settle(self) -> None:
        """Complete the commands whose wait, or time, is over."""
        for command in self.commands:
            if command.settle(now=self._turn.now):
                self._turn.add(Complete(command))
        self.commands = [one for one in self.commands if one.outcome is None]
