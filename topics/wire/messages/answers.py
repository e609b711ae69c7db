"""The answers to questions and orders: rows, each of its type.

Rows are tuples, which are written as they are: an answer may have thousands.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, get_args, get_type_hints

from .fields import I64, U8, U16, U64, Cell, Key, Message, TopicOrNone


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected(Message):
    """The answer to the Question or Order ``request``: rows, whose type the subclass declares."""

    request: U64 = 0
    rows: tuple[Any, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the fields of a row."""
        return columns_of(type(self))  # type: ignore[arg-type]  # a type is hashable

    def records(self) -> list[dict[str, Any]]:
        """Return the rows, each by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFacts(Inspected):
    """Facts of one value each, by name: a process may add some at any time."""

    rows: tuple[tuple[str, Cell], ...]


class ReasonRow(NamedTuple):
    """A reason why a process does not serve as it should: ``topics/verdict.py``."""

    state: str
    code: str
    subject: str
    what: str
    mend: str
    starting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons(Inspected):
    """The answer to ReadVerdict, the worst reason first; none: the process serves."""

    rows: tuple[ReasonRow, ...]


class HubTopic(NamedTuple):
    """One topic at a hub. ``lag_versions``: behind the publisher's last heartbeat.

    ``full_bytes`` and ``minimal_bytes``: what the topic takes of a member at that level; what a
    member at minimal has pulled comes on top. None: the caller's key may not see it.
    """

    topic: U16
    state: str
    version: U64
    floor: U64
    entries: U64 | None
    full_bytes: U64 | None
    minimal_bytes: U64
    full_members: U64 | None
    minimal_members: U64 | None
    lag_versions: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class HubTopics(Inspected):
    """The answer to ReadTopics."""

    rows: tuple[HubTopic, ...]


class HeldTopic(NamedTuple):
    """One topic as catalogd holds it. None: the caller's key may not see it."""

    topic: U16
    version: U64
    floor: U64
    entries: U64 | None
    held_bytes: U64 | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTopics(Inspected):
    """The answer to ReadHeldTopics."""

    rows: tuple[HeldTopic, ...]


class SubscriberStatus(NamedTuple):
    """One member of a hub. ``lag_s``: as it reported; while it is not LIVE, plus its silence.

    ``role``: reader, publisher or operator; of a command that reads: command.
    """

    name: str
    registration: str
    role: str
    state: str
    topics: U64
    lag_versions: U64
    lag_s: float
    held_bytes: U64
    budget_bytes: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribers(Inspected):
    """The answer to ReadSubscribers."""

    rows: tuple[SubscriberStatus, ...]


class DriverStatus(NamedTuple):
    """One attached driver, as it last announced itself; ``since_s``: how long it is in its state.

    ``state``: connecting, live, plain, or gone, for an hour; ``reason``: why, or what a live driver
    does without. ``hubs``: how many it may go to, this one included; 0: not known. ``writer``:
    the id under which it reports its writes.
    """

    driver: str
    registration: str
    application: str
    application_id: str
    user: str
    host: str
    pid: U64
    spark: str
    release: str
    state: str
    reason: str
    control: str
    hubs: U64 = 0
    writer: str = ""
    since_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedDrivers(Inspected):
    """The answer to ReadDrivers."""

    rows: tuple[DriverStatus, ...]


class FollowedTopic(NamedTuple):
    """The position of a member of a hub in a topic that it follows."""

    topic: U16
    level: str
    version: U64
    lag_versions: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedTopics(Inspected):
    """The answer to ReadPositions."""

    rows: tuple[FollowedTopic, ...]


class TopicLevel(NamedTuple):
    """One topic as a reader follows it: ``subscriber/protocol/status.py``. None: not known."""

    id: U16
    level: str
    version: U64
    bytes: U64
    hits: U64
    lag_s: float | None
    full_bytes: U64
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelList(Inspected):
    """The answer to ReadLevels."""

    rows: tuple[TopicLevel, ...]


class TableUse(NamedTuple):
    """When a reader read a table last."""

    table: str
    topic: U16
    read_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUses(Inspected):
    """The answer to ReadUsage."""

    rows: tuple[TableUse, ...]


class TracedMessage(NamedTuple):
    """A message that came or went ``ago_s`` ago, with the topics that it is about."""

    ago_s: float
    way: str
    message: str
    topics: str
    version: U64 | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTrace(Inspected):
    """The answer to ReadTrace."""

    rows: tuple[TracedMessage, ...]


class HubFacts(NamedTuple):
    """A hub as catalogd sees it: whether it is connected, since when, and why not.

    ``unacknowledged``: changes that catalogd has sent to it, and that it has not acknowledged.
    ``pages``: where its pages are, as it said last; empty: not known.
    """

    address: str
    connected: bool
    since_s: float
    reason: str
    unacknowledged: U64
    pages: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubList(Inspected):
    """The answer to ReadHubs."""

    rows: tuple[HubFacts, ...]


class TableState(NamedTuple):
    """A table that is not as it should be: its ``state``, in words, and ``why``."""

    table: str
    state: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStates(Inspected):
    """The answer to ReadTableStates, in the order of its tables."""

    rows: tuple[TableState, ...]


class EventCost(NamedTuple):
    """The cost of following the events of a table."""

    table: str
    reads: U64
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCosts(Inspected):
    """The answer to ReadEventCosts, the costliest first."""

    rows: tuple[EventCost, ...]


class EventLine(NamedTuple):
    """An event that catalogd has followed. ``number`` rises in the order in which events came."""

    number: U64
    id: I64
    type: str
    object: str
    time_us: I64
    outcome: str
    took_s: float | None
    changes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLines(Inspected):
    """The answer to ReadEventLog."""

    rows: tuple[EventLine, ...]


class EventText(NamedTuple):
    """An event as the metastore has it. ``changes``, ``outcome``: empty if they are not known."""

    id: I64
    type: str
    object: str
    time_us: I64
    format: str
    changes: str
    outcome: str
    took_s: float | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTexts(Inspected):
    """The answer to the order to show the events of an id."""

    rows: tuple[EventText, ...]


class TopicVersion(NamedTuple):
    """The committed version of a topic, and the oldest that can be read."""

    epoch: U64
    topic: U16
    version: U64
    oldest: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicVersions(Inspected):
    """The answer to ReadVersions, of one moment."""

    rows: tuple[TopicVersion, ...]


class KeyCut(NamedTuple):
    """A key; between it and the next key lie about as many bytes as were requested."""

    key: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCuts(Inspected):
    """The answer to ReadCuts, in order."""

    rows: tuple[KeyCut, ...]


class HistoryLine(NamedTuple):
    """The change of a table or partition with a version."""

    time_us: I64
    object: str
    change: str
    source: str
    version: U64
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPage(Inspected):
    """The answer to ReadChanges, the oldest first, and to ReadHistory, the newest first."""

    rows: tuple[HistoryLine, ...]


class VersionBound(NamedTuple):
    """The version of the last of the transactions."""

    version: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionBounds(Inspected):
    """The answer to ReadBound, one row."""

    rows: tuple[VersionBound, ...]


class LogEnds(NamedTuple):
    """The numbers of the first and the last line of the log; 0: it is empty."""

    first: U64
    last: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpan(Inspected):
    """The answer to ReadLogBounds, one row."""

    rows: tuple[LogEnds, ...]


class LogLine(NamedTuple):
    """A line of the log of changes and orders, and the events around it.

    ``who``: the sender of an order, which is of no topic. ``driver``: who has reported a write,
    while that is known.
    """

    number: U64
    time_us: I64
    source: str
    topic: TopicOrNone
    object: str
    change: str
    version_before: U64
    version_after: U64
    event_before: I64 | None
    event_after: I64 | None
    who: str | None
    driver: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage(Inspected):
    """The answer to ReadLog, the oldest first, and to ReadRecent, the newest first."""

    rows: tuple[LogLine, ...]


class PartitionFiles(NamedTuple):
    """The files of a partition, as FileFacts, as of the ``revision`` of its table.

    ``swept_us``: when all of the table was swept; 0: it never was.
    """

    revision: U64
    swept_us: U64
    partition: str
    fingerprint: U64
    files: U64
    bytes: U64
    small: U64
    newest_ms: U64
    folder_ms: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePage(Inspected):
    """The answer to ReadFiles, by partition; none: there are no more."""

    rows: tuple[PartitionFiles, ...]


class SweepState(NamedTuple):
    """The sweep of a table: how far it is, as of which lines of the log, and its files."""

    table: str
    revision: U64
    as_of: U64
    swept_us: U64
    open_as_of: U64
    open_until: str
    whole: U8
    partitions: U64
    files: U64
    bytes: U64
    small: U64
    newest_ms: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPage(Inspected):
    """The answer to ReadSweeps, by table."""

    rows: tuple[SweepState, ...]


class FunctionRow(NamedTuple):
    """A permanent function: ``topics/objects/metastore_facts.py``."""

    name: str
    class_name: str
    owner: str
    created_at_s: I64
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionPage(Inspected):
    """The answer to ReadFunctions, by name; none: there are no more."""

    rows: tuple[FunctionRow, ...]


class StatisticsRow(NamedTuple):
    """The statistics of a column: ``topics/objects/metastore_facts.py``."""

    partition: str
    column: str
    type: str
    nulls: I64 | None
    distinct: I64 | None
    low: str | None
    high: str | None
    average_length: float | None
    max_length: I64 | None
    trues: I64 | None
    falses: I64 | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsPage(Inspected):
    """The answer to ReadStatistics: those that there are."""

    rows: tuple[StatisticsRow, ...]


@lru_cache(maxsize=64)  # as many as there are answers
def columns_of(kind: type[Inspected]) -> tuple[str, ...]:
    """Return the names of the fields of a row of ``kind``."""
    row = get_args(get_type_hints(kind)["rows"])[0]
    return getattr(row, "_fields", ("name", "value"))
