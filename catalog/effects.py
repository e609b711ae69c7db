"""The facts that catalogd's core takes in, and the effects that it has its shell do."""

from dataclasses import dataclass
from typing import Final

from ..topics.keys.clients import Client
from ..topics.streams.sender import SendTo
from ..topics.verdict import RefusedHandshake
from ..topics.wire.messages.answers import HubFacts
from ..topics.wire.messages.fields import Message
from .follow.notes import Noted
from .history.history_thread import HistoryRead, ReadStore
from .ingest.loads.read_threads import Answer, ReadOrder
from .model.lineage import StartRecord
from .model.versions import Commit, Transaction
from .serve.grants import AdmitGranted


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Effect: send these transactions to every hub."""

    transactions: tuple[Transaction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MintEpoch:
    """Effect: begin a new epoch above ``at_least``; answered by ``Minted``."""

    at_least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpoch:
    """Effect: discard all that is held, in a new epoch above ``at_least``, and this core with it.

    ``finding``: why, for the status of the core that begins then.
    """

    finding: str
    at_least: int


Effect = (
    ReadOrder
    | ReadStore
    | AdmitGranted
    | Commit
    | Publish
    | MintEpoch
    | Noted
    | BeginEpoch
    | SendTo
)
AFTER_COMMIT: Final = frozenset((ReadStore, AdmitGranted, Publish, MintEpoch, BeginEpoch, SendTo))
"""The types of effects that follow the commit: what they show, or end, is durable by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """Fact: a peer of the catalog service, with the key of ``client``, sent a message."""

    peer: bytes
    message: Message
    client: Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Minted:
    """Fact: the store began this epoch; ``starts`` are those of the epoch."""

    epoch: int
    starts: tuple[StartRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorRaised:
    """Fact: the store deleted the tombstones of ``topic`` at or below the version ``floor``."""

    topic: int
    floor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """Fact: how each hub is connected, and the last client that was refused; None: none was."""

    hubs: tuple[HubFacts, ...] = ()
    refused_handshake: RefusedHandshake | None = None


Fact = Answer | Requested | Minted | FloorRaised | HistoryRead | Connections
