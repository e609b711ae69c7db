"""Facts and effects of catalogd's core; those of the read threads are in ``ingest/reads``."""

from dataclasses import dataclass

from ..topics.wire.messages import Message
from .ingest.poller import Poll, Polled, PollFailed, WindowState
from .ingest.reads import NamesFailed, NamesRead, Read, ReadDone, ReadFailed, ReadNames
from .model.lineage import StartRecord
from .model.versions import OrderRow, Transaction, WriteId, WriteRow
from .publish.modes import Policy
from .serve.port import Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Effect: make this durable; what follows in the same tuple leaves only afterwards.

    ``window``: the events that are covered; None where there are none. ``policy``: None: as it
    was. ``writes``: reported by drivers; ``settled``: ids of writes to delete.
    """

    transactions: tuple[Transaction, ...]
    window: WindowState | None
    orders: tuple[OrderRow, ...] = ()
    policy: Policy | None = None
    writes: tuple[WriteRow, ...] = ()
    settled: tuple[WriteId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Effect: send these transactions to every hub."""

    transactions: tuple[Transaction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MintEpoch:
    """Effect: begin a new epoch above ``at_least``; answered by ``Minted``."""

    at_least: int


Effect = Poll | Read | ReadNames | Commit | Publish | MintEpoch | Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """Fact: a peer of the catalog service sent a message."""

    peer: bytes
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Minted:
    """Fact: the store began this epoch; ``starts`` are those of the epoch."""

    epoch: int
    starts: tuple[StartRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """Fact: the store deleted the tombstones at or below these versions, by topic."""

    floors: dict[int, int]


Fact = (
    Polled
    | PollFailed
    | ReadDone
    | ReadFailed
    | NamesRead
    | NamesFailed
    | Requested
    | Minted
    | Floors
)


@dataclass(slots=True)
class Counts:
    """What happened since the start; requests are counted by the dispatcher."""

    events: int = 0
    degraded: int = 0
    gaps: int = 0
    reads: int = 0
    reads_failed: int = 0
    polls_failed: int = 0
    withdrawn: int = 0
    undecodable: int = 0  # frames that could not be decoded, of hubs and of the service
    unreachable: int = 0  # answers that found no peer, or a full queue
