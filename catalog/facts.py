"""Facts and effects of catalogd's core; those of the read threads are in ``ingest/reads``."""

from dataclasses import dataclass
from typing import Final

from ..topics.wire.messages import Message
from .ingest.event_window import WindowState
from .ingest.loader import READS_MAX_DEFAULT
from .ingest.poller import Poll, Polled, PollFailed
from .ingest.reads import NamesFailed, NamesRead, Read, ReadDone, ReadFailed, ReadNames
from .model.lineage import StartRecord
from .model.versions import OrderRow, Transaction, WriteId, WriteRow
from .publish.modes import Policy

POLLING_INTERVAL_S_DEFAULT: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Effect: make this durable; what follows in the same tuple leaves only afterwards.

    ``place``: how far in the events; None where there are none. ``policy``: None: as it was.
    ``writes``: what drivers reported; ``settled``: what of it may be forgotten.
    """

    transactions: tuple[Transaction, ...]
    place: WindowState | None
    orders: tuple[OrderRow, ...] = ()
    policy: Policy | None = None
    writes: tuple[WriteRow, ...] = ()
    settled: tuple[WriteId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Effect: tell every hub."""

    transactions: tuple[Transaction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MintEpoch:
    """Effect: begin a new epoch above ``at_least``; answered by ``Minted``."""

    at_least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Effect: answer a peer of the catalog service."""

    peer: bytes
    message: Message


Effect = Poll | Read | ReadNames | Commit | Publish | MintEpoch | Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Fact: a peer of the catalog service said something."""

    peer: bytes
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Minted:
    """Fact: the store began this epoch; ``starts`` are those of the epoch."""

    epoch: int
    starts: tuple[StartRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """Fact: the store forgot the tombstones at or below these versions, by topic."""

    floors: dict[int, int]


Fact = (
    Polled | PollFailed | ReadDone | ReadFailed | NamesRead | NamesFailed | Asked | Minted | Floors
)


@dataclass(slots=True)
class Counts:
    """What happened since the start."""

    events: int = 0
    degraded: int = 0
    gaps: int = 0
    reads: int = 0
    reads_failed: int = 0
    polls_failed: int = 0
    withdrawn: int = 0
    pulls: int = 0
    syncs: int = 0
    orders: int = 0
    reports: int = 0
    refused: int = 0
    garbled: int = 0  # frames that were no message, of hubs and of the service
    unreachable: int = 0  # answers that found no peer, or a full queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the operator chose, as the core needs it."""

    polling_interval_s: float = POLLING_INTERVAL_S_DEFAULT
    load_in_background: bool = True
    reads_max: int = READS_MAX_DEFAULT
    blacklisted_dbs: tuple[str, ...] = ("sys", "information_schema")
    metastore: str = ""  # where it is, to be named when it does not answer
