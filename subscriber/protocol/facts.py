"""Facts and effects: what a member is told, and what it orders its shell to do.

An Ask carries an id; exactly one Answer or Fail with that id comes back. An id below 0 is of an
ask that the member put to itself: nobody waits for it.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

from ...topics.entries import FULL
from ...topics.objects.selector import Selector
from ...topics.wire.messages import Claimed, Message

DATA: Final = "data"  # SUB to the hub: deltas, heartbeats, barriers
CONTROL: Final = "control"  # to the hub: joins, status
BULK: Final = "bulk"  # to the hub: catch-ups
SERVICE: Final = "service"  # to catalogd: sync, compare
PULLS: Final = "pulls"  # to catalogd: pulls

CREATED: Final = "created"
SCHEMA: Final = "schema"
DATA_CHANGED: Final = "data"
DROPPED: Final = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """That an object differs: ``object`` is ``db`` or ``db.table``.

    ``kind`` is created, schema, data or dropped. ``version``: of the topic that told it, which is
    the namespace's where it came or went; ``validate`` takes an object's own.
    ``origin`` says who saw it first: events, reports, reconcile, orders; catch-up when it is lost.
    ``files``: whether what it held may read differently; else partitions came or went.
    ``overwritten``: files that it had are known to be gone.
    """

    object: str
    kind: str
    version: int
    origin: str
    files: bool = True
    overwritten: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """One topic as it is followed here; ``lag_s`` since it was last known to be current.

    ``full_bytes``: what it would take at full. ``why``: in plain words, it has this level.
    """

    id: int
    level: str
    version: int
    bytes: int
    hits: int
    lag_s: float
    full_bytes: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Counters since the start, and the state of the budget.

    ``staleness_s``: time since the last heartbeat from catalogd, infinite before the first one.
    ``evictions``: topics lowered, and pulled tables evicted, to make room. ``pulls_not_kept``:
    replies larger than the room for pulled tables, or not worth the tables that would have to go.
    ``stale_replies``: replies older than what was already returned, which were pulled again.
    ``prefetches``: the pulls made before any read, for tables that are pinned or hot.
    ``pinned_not_held``: the pinned tables for which there is no room.
    ``writes_acknowledged``: reports that catalogd has stored; ``writes_unknown_table``: those that
    name no table that catalogd has; ``writes_discarded``: those that the full outbox evicted;
    ``writes_delay_reason``: why catalogd postpones the pending ones, else empty.
    """

    budget_bytes: int
    held_bytes: int
    hits: int
    misses: int
    pulls: int
    evictions: int
    pulls_not_kept: int
    stale_replies: int
    prefetches: int
    pinned_tables: int
    pinned_not_held: int
    catch_ups: int
    wire_errors: int
    writes_acknowledged: int
    writes_pending: int
    writes_unknown_table: int
    writes_discarded: int
    writes_delay_reason: str
    staleness_s: float
    hub: str
    ready: bool


# Facts


@dataclass(frozen=True, slots=True)
class Received:
    """``message`` arrived on ``channel``."""

    channel: str
    message: Message


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A frame that is no message arrived and was dropped."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskReady:
    """Wait until the namespace and the initial topics are live."""

    id: int
    give_up_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AskNamespace:
    """Wait until memory answers for the namespace."""

    id: int
    give_up_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AskTable:
    """Get the TableSnapshot of a table with the blocks of the selected partitions.

    ``names_only``: if memory has them not, only the names of what is selected are wanted; listings
    of them come, as a tuple of bytes.
    """

    id: int
    db: str
    table: str
    selector: Selector
    give_up_at: float
    names_only: bool = False
    bytes_max: float = inf


@dataclass(frozen=True, slots=True, kw_only=True)
class AskValidate:
    """Get the places of those ``claims``, made in ``epoch``, that are true no more.

    As a mapping, to the versions at which their tables are now.
    """

    id: int
    epoch: int
    claims: tuple[Claimed, ...]
    give_up_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AskSync:
    """Wait until everything that HMS has committed by now is visible here."""

    id: int
    give_up_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AskJoin:
    """Follow all of ``topics`` at ``level``, minimal or full."""

    id: int
    topics: tuple[int, ...]
    level: int = FULL
    give_up_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AskDrop:
    """Follow ``topics`` no longer."""

    id: int
    topics: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskPin:
    """Keep a table always, and wait until it is held."""

    id: int
    db: str
    table: str
    give_up_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AskUnpin:
    """Leave a table to its use."""

    id: int
    db: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskTopics:
    """Get a tuple of TopicInfo."""

    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AskStats:
    """Get Stats."""

    id: int


@dataclass(frozen=True, slots=True)
class Watching:
    """Whether anybody listens to changes."""

    on: bool


@dataclass(frozen=True, slots=True)
class Leave:
    """Say goodbye; no fact follows."""


Ask = (
    AskReady
    | AskNamespace
    | AskTable
    | AskValidate
    | AskSync
    | AskJoin
    | AskDrop
    | AskPin
    | AskUnpin
    | AskTopics
    | AskStats
)
Fact = Received | Undecodable | Tick | Ask | Watching | Leave


# Effects


@dataclass(frozen=True, slots=True)
class Send:
    """Send ``message`` on ``channel``."""

    channel: str
    message: Message


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Receive data frames that begin with ``prefix``."""

    prefix: bytes


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Receive them no longer."""

    prefix: bytes


@dataclass(frozen=True, slots=True)
class ConnectHub:
    """Leave the hub, with its data connection, and open control and bulk to that of ``index``."""

    index: int


@dataclass(frozen=True, slots=True)
class ConnectData:
    """Open a new data connection to ``address``, without subscriptions."""

    address: str


@dataclass(frozen=True, slots=True)
class ConnectCatalog:
    """Leave catalogd, and open service and pulls to ``address``."""

    address: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of the Ask ``id``: TableSnapshot, listings, TopicInfos, Stats, places; or None."""

    id: int
    result: object


@dataclass(frozen=True, slots=True)
class Fail:
    """The Ask ``id`` has failed with ``error``."""

    id: int
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class PinsNotHeld:
    """Warn that so many pinned ``tables`` are not held: all need more than there is room for."""

    tables: int
    needed_bytes: int
    room_bytes: int


@dataclass(frozen=True, slots=True)
class Changed:
    """Tell whoever watches."""

    changes: tuple[Change, ...]


Effect = (
    Send
    | Subscribe
    | Unsubscribe
    | ConnectHub
    | ConnectData
    | ConnectCatalog
    | Answer
    | Fail
    | Changed
    | PinsNotHeld
)
