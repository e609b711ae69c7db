"""The effects of a hub: what its core has its shell do."""

from dataclasses import dataclass

from ..topics.keys.clients import Clients
from ..topics.streams.bulk import SendTo
from ..topics.wire.messages.answers import Inspected
from ..topics.wire.messages.connection import Refused


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
    """What a reader has answered to the question ``number`` of a page of this process."""

    number: int
    answer: Inspected | Refused


Effect = SendTo | Broadcast | Admit | Answered
Effects = tuple[Effect, ...]
