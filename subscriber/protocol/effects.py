"""The facts and effects between a subscriber's core and its shell, and the connections.

    sockets, applications, time ──fact──▶ core ──effect──▶ sockets, callers, watches

A command (``commands.py``) is the fact that an application calls.
"""

from dataclasses import dataclass

from ...topics.backports import StrEnum
from ...topics.errors import NotReady, WireError
from ...topics.keys.credential import PublicKeys
from ...topics.objects.changes import ChangeKind
from ...topics.wire.messages.fields import Message
from .commands import Command


class Connection(StrEnum):
    """A connection with a socket of its own, which has its name."""

    DATA = "data"  # SUB to the hub: deltas, heartbeats, barriers
    CONTROL = "control"  # to the hub: joins, status
    BULK = "bulk"  # to the hub: catch-ups
    SERVICE = "service"  # to catalogd: sync, compare, validate, reports
    PULLS = "pulls"  # to catalogd: pulls


class EngineRestarted(NotReady):
    """The engine has failed, and runs again: it may have carried out the call, or not."""


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
    """Why a server is not reached, or does not admit us; empty: there is no such server."""

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
    """Open all sockets again and restart the core; ``why`` the held content is not valid now."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of the object ``object``, which is ``db`` or ``db.table``.

    ``version``: of the topic that brought the change, which is the namespace for objects that were
    created or dropped. (``validate`` takes an object's own version, not this.) ``origin``: where
    catalogd saw the change first: events, reports, orders; catch-up if that is not known any more.
    ``files``: queries may read other files, or their files differ; False: partitions were added or
    dropped, or the description has changed. ``overwritten``: files that the object had are gone.
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
    """Receive data frames that begin with ``prefix`` no longer."""

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
    """Accept these public keys of the hub that is followed, and of catalogd; empty: unknown.

    Each server has its present key and, if that is known, its next.
    """

    hub: PublicKeys
    catalogd: PublicKeys


@dataclass(frozen=True, slots=True)
class Complete:
    """Release the caller of a command that has its outcome."""

    command: Command[object]


@dataclass(frozen=True, slots=True)
class Notify:
    """Offer ``changes`` to the watches."""

    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PinsNotHeld:
    """Warn that so many pinned ``tables`` are not held: pins need more bytes than their room."""

    tables: int
    needed_bytes: int
    room_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """Warn ``why`` the ``hub``, an address, does not register us; empty: it does by now."""

    hub: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDiffers:
    """Warn that memory and catalogd differ about ``table`` at the same version: in ``what``."""

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
    | Registration
)
Effects = tuple[Effect, ...]
