"""What the core of a subscriber orders its shell to do: I/O, and completing commands."""

from dataclasses import dataclass
from typing import Protocol

from ...topics.errors import TopicastError
from ...topics.wire.messages import Message
from .channels import Channel
from .status import Change


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
