"""Facts: what the hub's shell reports to the hub."""

from dataclasses import dataclass

from ..topics.errors import WireError
from ..topics.wire.messages import Message


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """``peer``, a connection to the ROUTER, sent ``message``."""

    peer: bytes
    message: Message


@dataclass(frozen=True, slots=True)
class Put:
    """``peer`` sent a delta, as the bytes to be forwarded."""

    peer: bytes
    frame: bytes


@dataclass(frozen=True, slots=True)
class Subscription:
    """A reader subscribed (``b"\\x01"`` and a prefix), or the last one unsubscribed a prefix."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class Undecodable:
    """``peer`` sent bytes that are no message."""

    peer: bytes
    error: WireError


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A message to ``peer`` was not sent: it has disconnected, or its queue is full."""

    peer: bytes


@dataclass(frozen=True, slots=True)
class Tick:
    """A turn ends, at ``wall_us`` since 1970: what was collected in it is sent."""

    wall_us: int


Fact = MessageReceived | Put | Subscription | Undecodable | Unreachable | Tick
