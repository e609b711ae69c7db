"""Refusals: why a peer refuses a message, and what a refusal is to the caller of its request."""

from ..backports import StrEnum
from ..errors import (
    HistoryGone,
    LeaseHeld,
    LinkError,
    NoSuchObject,
    NotVisible,
    SourceError,
    SourceRefused,
    TopicastError,
    UsageError,
    VersionMismatch,
    WireError,
)
from .header import PROTOCOL
from .messages.catalog import Compare, Grant, Lease, Pull, Scan, Sync, Validate
from .messages.connection import Refused
from .messages.data import Chunk
from .messages.fields import Message
from .messages.questions import Order, Question
from .messages.readers import Cancel, CatchUp, Credit, Drop, Join
from .messages.reports import Report, Sweep


class Refusal(StrEnum):
    """The codes of Refused; docs/protocol.md says which process sends each, and what to do then.

    ``Refused.code`` is a plain text on the wire: a newer peer may send a code that is not here.
    """

    AHEAD = "AHEAD"
    BUSY = "BUSY"
    CHUNK = "CHUNK"
    CLAIM = "CLAIM"
    DELTA = "DELTA"
    FILTER = "FILTER"
    GONE = "GONE"
    HELD = "HELD"
    HELLO = "HELLO"
    HUB_FULL = "HUB_FULL"
    INSPECT = "INSPECT"
    LAGGING = "LAGGING"
    LEVEL = "LEVEL"
    METASTORE = "METASTORE"
    NOT_LOADED = "NOT_LOADED"
    NOT_VISIBLE = "NOT_VISIBLE"
    NO_EVENTS = "NO_EVENTS"
    NO_OBJECT = "NO_OBJECT"
    NUM_TOPICS = "NUM_TOPICS"
    ORDER = "ORDER"
    RATE = "RATE"
    RETRY = "RETRY"
    ROLE = "ROLE"
    SOURCE = "SOURCE"
    START = "START"
    STARTING = "STARTING"
    TOO_MANY = "TOO_MANY"
    TOPIC = "TOPIC"
    UNEXPECTED = "UNEXPECTED"
    UNKNOWN = "UNKNOWN"
    UNREADABLE = "UNREADABLE"
    VECTOR = "VECTOR"
    VERSION = "VERSION"
    WIRE = "WIRE"

    @property
    def retriable(self) -> bool:
        """Whether the same request may be accepted later, with nothing changed by the caller."""
        return self in _RETRIABLE


_RETRIABLE = frozenset(
    {
        Refusal.BUSY,
        Refusal.HUB_FULL,
        Refusal.LAGGING,
        Refusal.NOT_LOADED,
        Refusal.RATE,
        Refusal.RETRY,
        Refusal.SOURCE,
        Refusal.STARTING,
    }
)


def refuse(
    code: Refusal,
    message: str,
    *,
    request: int = 0,
    retry_ms: int = 0,
    topic: int = -1,
    about: str = "",
) -> Refused:
    """Return a refusal; ``request`` 0: its sender sets the id. ``about``: the object."""
    return Refused(
        request=request, code=code, message=message, retry_ms=retry_ms, topic=topic, object=about
    )


def error_of(refused: Refused, where: str = "catalogd") -> TopicastError:
    """Return the error of a request that ``where`` has refused and that is not sent again."""
    match refused.code:
        case Refusal.NO_OBJECT:
            return NoSuchObject(refused.object)
        case Refusal.NOT_VISIBLE:
            return NotVisible(refused.object, refused.message)
        case Refusal.SOURCE:
            return SourceError(refused.message)
        case Refusal.UNREADABLE:
            return SourceRefused(refused.message)
        case Refusal.FILTER:
            return UsageError(refused.message)
        case Refusal.HELD:
            return LeaseHeld(refused.message)
        case Refusal.GONE:
            return HistoryGone(refused.message)
        case _ if refused.retry_ms:
            return LinkError(f"{where} is not ready: {refused.message}")
        case _:
            return UsageError(f"{where} refused: {refused.message}")


def refuse_frame(error: WireError) -> Refused:
    """Return the answer to bytes that ``decode`` refused with ``error``."""
    if isinstance(error, VersionMismatch):
        return refuse(Refusal.VERSION, str(error))
    text = f"{error}; protocol {PROTOCOL} is spoken here, see docs/protocol.md"
    return refuse(Refusal.WIRE, text)


def request_id(message: Message | None) -> int:
    """Return the id of the request or stream that ``message`` opens or serves; 0 if it has none."""
    match message:
        case Join() | Drop() | Pull() | Sync() | Compare() | Validate():
            return message.request
        case Order() | Report() | Scan() | Question() | Grant() | Lease() | Sweep():
            return message.request
        case CatchUp() | Credit() | Cancel() | Chunk():
            return message.stream
        case _:
            return 0
