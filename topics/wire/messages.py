"""Everything that is said between processes, by socket.

    data   (hub XPUB -> SUB)          Delta  Heartbeat  Barrier
    control (DEALER <-> hub ROUTER)   Hello  Welcome  Join  Joined  Drop  Dropped  Status  Bye
                                      Announce  Have  Filed  Inspect  Inspected  Refused
    bulk   (DEALER <-> hub ROUTER)    Hello  CatchUp  Chunk  Credit  Cancel  Delta (publisher)
    catalog (DEALER <-> catalogd)     Pull  Pulled  Sync  Synced  Compare  Compared  Inspect …

Authority: docs/protocol.md. Times are microseconds since 1970, sizes bytes.
"""

from dataclasses import dataclass
from typing import Final

from ..entries import Entry
from ..offers import ALL_OFFERED

# isort: off
from .asked import (
    ABANDONED as ABANDONED,
    OVERWRITTEN as OVERWRITTEN,
    FAILED as FAILED,
    INTENT as INTENT,
    SELECT_BLOCKS as SELECT_BLOCKS,
    SELECT_FILTER as SELECT_FILTER,
    SELECT_NAMES as SELECT_NAMES,
    SELECT_TABLE as SELECT_TABLE,
    SELECT_VALUES as SELECT_VALUES,
    WRITTEN as WRITTEN,
    Claimed as Claimed,
    Compare as Compare,
    Compared as Compared,
    Inspect as Inspect,
    Inspected as Inspected,
    Order as Order,
    Pull as Pull,
    Pulled as Pulled,
    Report as Report,
    Reported as Reported,
    Sync as Sync,
    Synced as Synced,
    Validate as Validate,
    Validated as Validated,
    Verdict as Verdict,
    Write as Write,
)

# isort: on

READER: Final = 1  # roles in Hello
PUBLISHER: Final = 2
OPERATOR: Final = 3

CONTROL_CHANNEL: Final = 1  # channels in Hello
BULK_CHANNEL: Final = 2

SOURCE_LOAD: Final = 0  # who caused a delta
SOURCE_EVENTS: Final = 1
SOURCE_REPORTS: Final = 2
SOURCE_RECONCILE: Final = 3
SOURCE_ORDERS: Final = 4
SOURCE_CATCH_UP: Final = 5  # several of them: what a hub was brought at once
SOURCE_OVERWRITES: Final = 6  # a report that files which were there are gone

CURRENT: Final = 0  # answers in JOINED
BEHIND: Final = 1
SNAPSHOT: Final = 2
DENIED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """The changes of one topic in ``(from_version, to_version]``.

    ``stubbed``: values were left out, a FULL follower must catch up. ``horizon``: the entries
    were left out too; counts as a stub for every table of the topic.
    """

    topic: int
    level: int
    epoch: int
    start: int
    from_version: int
    to_version: int
    floor: int
    sent_us: int
    source: int
    entries: tuple[Entry, ...]
    stubbed: bool = False
    horizon: bool = False
    origin: int = 0
    hops: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A part of the catch-up of one topic, in the order of (version, key).

    ``to_version`` is the cut, the position once ``last`` has been applied. ``resume_version``
    and ``resume_key`` name the last entry in the chunk. ``first`` and ``snapshot``: forget
    what is held of the topic before this is applied.
    """

    topic: int
    level: int
    epoch: int
    start: int
    from_version: int
    to_version: int
    floor: int
    sent_us: int
    stream: int
    sequence: int
    resume_version: int
    resume_key: bytes
    entries: tuple[Entry, ...]
    first: bool = False
    last: bool = False
    snapshot: bool = False
    horizon: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Where a sender stands. ``versions`` and ``floors`` follow ``topic_ids(num_topics)``.

    Empty ``versions``: the hub is being seeded. ``sizes`` (bytes at FULL) ride now and then.
    ``watermark``: HMS event id up to which catalogd is complete. ``age_ms``: since catalogd
    was last heard. ``offers``: the levels that may be joined, as topics/offers.py reads them.
    """

    hub: int
    epoch: int
    start: int
    sequence: int
    interval_ms: int
    sent_us: int
    watermark: int
    age_ms: int
    catalog_address: str
    versions: tuple[int, ...]
    floors: tuple[int, ...]
    sizes: tuple[int, ...] = ()
    offers: int = ALL_OFFERED


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """Proof that every subscription made before that of ``nonce`` is active."""

    nonce: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """First message on a connection. ``registration`` ties control and bulk of one peer."""

    role: int
    channel: int
    name: str
    registration: bytes
    protocol_min: int
    protocol_max: int
    features: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """The hub's answer to Hello. ``features``: the bits that both sides have."""

    protocol: int
    features: int
    hub: int
    epoch: int
    start: int
    num_topics: int
    data_address: str
    catalog_address: str
    catalog_name: str
    heartbeat_ms: int
    lost_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why a request was not obeyed. ``retry_ms`` 0: do not try again unchanged.

    ``request``: the request's or stream's id, 0 if it could not be read. ``topic``: -1 if none.
    """

    request: int
    code: str
    message: str
    retry_ms: int
    topic: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a reader stands in one topic at one level."""

    topic: int
    level: int
    epoch: int
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Raise topics to levels; always answered in full, also for what is joined already."""

    request: int
    positions: tuple[Position, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """What the hub says of one topic in JOINED; ``full_bytes`` as accounted at FULL."""

    topic: int
    level: int
    answer: int
    version: int
    full_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The answer to Join, one state for each position asked, all of one epoch and start."""

    request: int
    epoch: int
    start: int
    topics: tuple[TopicState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Follow these topics no longer; dropping what was not joined is fine."""

    request: int
    topics: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """The answer to Drop."""

    request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A reader's word once a second, also its sign of life."""

    positions: tuple[Position, ...]
    lag_us: int
    held_bytes: int
    budget_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bye:
    """The peer leaves in good order."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Have:
    """A hub to a publisher, after its Welcome: what the hub holds, for catalogd to judge."""

    epoch: int
    start: int
    versions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Announce:
    """A publisher to a hub: this start was compared and leads; nothing of it came before."""

    epoch: int
    start: int
    num_topics: int
    catalog_address: str
    catalog_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Filed:
    """A hub to a publisher: everything up to these versions is filed. (topic, version)"""

    epoch: int
    start: int
    versions: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One topic of a CatchUp: from ``version``, or resumed after (resume_version, resume_key).

    ``cut``: of what is resumed, the lowest if several streams sent parts of it, else 0.
    """

    topic: int
    level: int
    epoch: int
    version: int
    resume_version: int = 0
    resume_key: bytes = b""
    cut: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """Ask for chunks of these topics, at most ``credit`` bytes before more credit is given."""

    stream: int
    credit: int
    wanted: tuple[Wanted, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """Let ``stream`` send so many bytes more."""

    stream: int
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Send no more of ``stream``."""

    stream: int


Data = Delta | Heartbeat | Barrier
Control = Hello | Welcome | Refused | Join | Joined | Drop | Dropped | Status | Bye
Publishing = Have | Announce | Filed
Bulk = Chunk | CatchUp | Credit | Cancel
Service = (
    Compare
    | Compared
    | Pull
    | Pulled
    | Validate
    | Validated
    | Sync
    | Synced
    | Inspect
    | Inspected
    | Order
    | Report
    | Reported
)
Message = Data | Control | Publishing | Bulk | Service
