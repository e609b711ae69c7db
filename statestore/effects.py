"""The facts that a hub's core takes in, and the effects that it has its shell do."""

from dataclasses import dataclass
from typing import Any

from ..topics.errors import WireError
from ..topics.keys.clients import Client, Clients
from ..topics.keys.credential import PublicKeys
from ..topics.policy import Policy
from ..topics.streams.sender import SendTo
from ..topics.wire.messages.answers import Inspected
from ..topics.wire.messages.connection import Refused
from ..topics.wire.messages.fields import Message
from ..topics.wire.messages.questions import ReaderQuestion


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """``peer``, a connection to the ROUTER with the key of ``client``, sent ``message``.

    Not used for catalogd's deltas: see ``Hub.take_delta``.
    """

    peer: bytes
    message: Message
    client: Client


@dataclass(frozen=True, slots=True)
class Subscription:
    """A reader subscribed to a prefix (``b"\\x01"`` comes before it), or unsubscribed.

    ``policy``: what the key of a reader that subscribes may see; None: everything.
    """

    frame: bytes
    policy: Policy | None = None


@dataclass(frozen=True, slots=True)
class Undecodable:
    """``peer`` sent bytes that are not a message."""

    peer: bytes
    error: WireError


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """A turn ends, at ``wall_us`` since 1970: what was collected in it is sent."""

    wall_us: int


@dataclass(frozen=True, slots=True)
class Ask:
    """A page of this process has a question to a reader; ``Answered`` has its number."""

    question: ReaderQuestion[Any]


@dataclass(frozen=True, slots=True)
class HaveKeys:
    """The hub's own public keys, the current and the next, are these: members are notified."""

    own: PublicKeys


Fact = MessageReceived | Subscription | Undecodable | Ask | HaveKeys | TurnEnd


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Send ``frame`` to every subscription to its prefix."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class Admit:
    """Admit ``clients`` to the sockets, and nobody else; keep the list for restarts."""

    clients: Clients


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer of a reader to the question ``number``, which a page of this process has asked."""

    number: int
    answer: Inspected | Refused


Effect = SendTo | Broadcast | Admit | Answered
Effects = tuple[Effect, ...]
