"""What passes between the core of a subscriber and its shell, on which channels.

    sockets, applications, time ──fact──▶ core ──effect──▶ sockets, callers, watches

A command of an application (pending.py) is a fact, too.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from ...topics.errors import TopicastError
from ...topics.wire.messages import Message

CREATED: Final = "created"
SCHEMA: Final = "schema"
DATA_CHANGED: Final = "data"
DROPPED: Final = "dropped"


class Channel(StrEnum):
    """A connection with a socket of its own, which has its name."""

    DATA = "data"  # SUB to the hub: deltas, heartbeats, barriers
    CONTROL = "control"  # to the hub: joins, status
    BULK = "bulk"  # to the hub: catch-ups
    SERVICE = "service"  # to catalogd: sync, compare, validate, reports
    PULLS = "pulls"  # to catalogd: pulls


# Facts


@dataclass(frozen=True, slots=True)
class Received:
    """``message`` arrived on ``channel``."""

    channel: Channel
    message: Message


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A frame that is no message arrived and was dropped."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Watching:
    """The first watch was opened, or the last one closed."""

    on: bool


@dataclass(frozen=True, slots=True)
class Leave:
    """The subscriber is closed; no fact follows."""


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of the object ``object``, which is ``db`` or ``db.table``.

    ``kind`` is created, schema, data or dropped. ``version`` is the version of the topic that
    brought the change: the namespace for objects that came or went. ``validate`` takes an
    object's own version. ``origin`` is where catalogd saw it first: events, reports, reconcile,
    orders; catch-up where that is lost. ``files``: whether its files may read differently; else
    partitions came or went. ``overwritten``: files that it had are known to be gone.
    """

    object: str
    kind: str
    version: int
    origin: str
    files: bool = True
    overwritten: bool = False


class Caller(Protocol):
    """The end of a command at which an application's thread waits."""

    def release(self) -> None:
        """Let that thread go on: the command has its outcome."""

    def abort(self, error: TopicastError) -> None:
        """Fail the command, which the core does not complete any more."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send ``message`` on ``channel``."""

    channel: Channel
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
    """Leave the hub, with its data connection, and open control and bulk to that of ``index``."""

    index: int


@dataclass(frozen=True, slots=True)
class ConnectData:
    """Open a new data connection to ``address``, without subscriptions."""

    address: str


@dataclass(frozen=True, slots=True)
class ConnectCatalog:
    """Leave catalogd, and open service and pulls to ``address``."""

    address: str


@dataclass(frozen=True, slots=True)
class Complete:
    """Release the caller of a command that has its outcome."""

    command: Caller


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


Effect = (
    Send
    | Subscribe
    | Unsubscribe
    | ConnectHub
    | ConnectData
    | ConnectCatalog
    | Complete
    | Notify
    | PinsNotHeld
)
Effects = tuple[Effect, ...]
NO_EFFECTS: Final[Effects] = ()
