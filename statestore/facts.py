"""What a hub is told: facts, and who may say which message on which channel."""

from dataclasses import dataclass
from typing import Final

from ..topics.errors import WireError
from ..topics.wire.messages import (
    BULK_CHANNEL,
    CONTROL_CHANNEL,
    PUBLISHER,
    READER,
    Announce,
    Bye,
    Cancel,
    CatchUp,
    Channel,
    Chunk,
    Compare,
    Credit,
    Delta,
    Drop,
    Heartbeat,
    Inspect,
    Inspected,
    Join,
    Message,
    Order,
    Pull,
    Refused,
    Report,
    Role,
    Status,
    Sync,
    Validate,
)

ROLES: Final[dict[int, str]] = {role: role.name.lower() for role in Role}
CHANNELS: Final[dict[int, str]] = {channel: channel.name.lower() for channel in Channel}

_MAY: Final[dict[type, tuple[tuple[int, ...], tuple[int, ...]]]] = {
    Join: ((READER,), (CONTROL_CHANNEL,)),
    Drop: ((READER,), (CONTROL_CHANNEL,)),
    Status: (tuple(ROLES), (CONTROL_CHANNEL,)),
    Inspect: (tuple(ROLES), (CONTROL_CHANNEL,)),
    Inspected: ((READER,), (CONTROL_CHANNEL,)),
    Bye: (tuple(ROLES), tuple(CHANNELS)),
    Refused: (tuple(ROLES), tuple(CHANNELS)),
    CatchUp: ((READER,), (BULK_CHANNEL,)),
    Credit: ((READER,), (BULK_CHANNEL,)),
    Cancel: ((READER,), (BULK_CHANNEL,)),
    Announce: ((PUBLISHER,), (CONTROL_CHANNEL,)),
    Heartbeat: ((PUBLISHER,), (CONTROL_CHANNEL,)),
    Chunk: ((PUBLISHER,), (BULK_CHANNEL,)),
    Delta: ((PUBLISHER,), (BULK_CHANNEL,)),
}


@dataclass(frozen=True, slots=True)
class Heard:
    """``peer`` said ``message`` on a connection to the ROUTER."""

    peer: bytes
    message: Message


@dataclass(frozen=True, slots=True)
class Put:
    """``peer`` sent a delta, as the bytes to be handed on."""

    peer: bytes
    frame: bytes


@dataclass(frozen=True, slots=True)
class Subscription:
    """A reader subscribed (``b"\\x01"`` and a prefix), or the last one of a prefix left it."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class Undecodable:
    """``peer`` sent bytes that are no message."""

    peer: bytes
    error: WireError


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A message to ``peer`` was not sent: it is gone, or takes nothing any more."""

    peer: bytes


@dataclass(frozen=True, slots=True)
class Tick:
    """A turn ends, at ``wall_us`` since 1970: what was collected in it goes out."""

    wall_us: int


Fact = Heard | Put | Subscription | Undecodable | Unreachable | Tick


def may(message: Message, *, role: int, channel: int) -> bool:
    """Tell whether a peer in ``role`` may say ``message`` on ``channel``."""
    roles, channels = _MAY.get(type(message), ((), ()))
    return role in roles and channel in channels


def id_of(message: Message | None) -> int:
    """Return the id by which the sender knows ``message``; 0 if it has none."""
    match message:
        case Join() | Drop() | Inspect() | Pull() | Sync() | Compare() | Validate():
            return message.request
        case Order() | Report():
            return message.request
        case CatchUp() | Credit() | Cancel() | Chunk():
            return message.stream
        case _:
            return 0
