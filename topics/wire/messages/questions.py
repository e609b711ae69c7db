"""Questions of operators and pipelines to any process, each with its answer, and their orders."""

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, get_args

from ...backports import StrEnum
from .answers import (
    AttachedDrivers,
    EventCosts,
    EventLines,
    FilePage,
    FollowedTopics,
    FunctionPage,
    HeldTopics,
    HistoryPage,
    HubList,
    HubTopics,
    Inspected,
    KeyCuts,
    LevelList,
    LogPage,
    LogSpan,
    MessageTrace,
    NamedFacts,
    Reasons,
    StatisticsPage,
    Subscribers,
    SweepPage,
    TableStates,
    TableUses,
    TopicVersions,
    VersionBounds,
)
from .fields import U16, U64, Message, Registration

TABLE_STATES_MAX: Final = 200  # tables of one question: 10 µs each, of a turn's 2 ms
STATISTICS_MAX: Final = 2_000  # rows of about 100 bytes; names of columns take up to 128

A = TypeVar("A", bound=Inspected)


class OrderKind(StrEnum):
    """The kind of an operator's order to catalogd."""

    DRIVERS = "drivers"
    EVENTS = "events"
    MODE = "mode"
    INVALIDATE = "invalidate"
    REFRESH = "refresh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order(Message):
    """An operator's command to catalogd; answered by Inspected when it is done.

    ``sender``: an operator, by its own account, for the history. Orders: docs/protocol.md.
    """

    request: U64
    sender: str
    order: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Message, Generic[A]):
    """Request facts about a process, or of what it knows; ``Inspected`` answers it."""

    request: U64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStatus(Question[NamedFacts]):
    """Request of a hub or of catalogd every fact about it that is a single value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadVerdict(Question[Reasons]):
    """Request of a hub or of catalogd the reasons why it does not serve as it should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTopics(Question[HubTopics]):
    """Request of a hub what it holds of each topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHeldTopics(Question[HeldTopics]):
    """Request of catalogd what it holds of each topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSubscribers(Question[Subscribers]):
    """Request of a hub its members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDrivers(Question[AttachedDrivers]):
    """Request of a hub what attached drivers have last announced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadWriter(Question[NamedFacts]):
    """Request of a hub what the driver has announced that reports its writes as ``writer``."""

    writer: Registration


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPositions(Question[FollowedTopics]):
    """Request of a hub where the member ``member`` is in each topic that it follows."""

    member: Registration


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderQuestion(Question[A]):
    """Request facts that only the reader ``member`` knows: a hub forwards it to that reader."""

    member: Registration


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLevels(ReaderQuestion[LevelList]):
    """Request the level of each topic, and the reason for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadUsage(ReaderQuestion[TableUses]):
    """Request the tables that were read last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTrace(ReaderQuestion[MessageTrace]):
    """Request the messages that came and went lately, without what was in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStats(ReaderQuestion[NamedFacts]):
    """Request the reader's counters, and the state of its budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDriver(ReaderQuestion[NamedFacts]):
    """Request what the application of an attached driver says of itself."""


HUB_ANSWERS: Final[tuple[type[Question[Any]], ...]] = (
    *(ReadStatus, ReadVerdict, ReadTopics, ReadSubscribers, ReadDrivers, ReadWriter),
    *(ReadPositions, ReadLevels, ReadUsage, ReadTrace, ReadStats, ReadDriver),
)
"""The questions that a hub answers, or forwards to the reader that they are about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHubs(Question[HubList]):
    """Request of catalogd its hubs, and whether each is connected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEvents(Question[NamedFacts]):
    """Request of catalogd how it follows the metastore's events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEventCosts(Question[EventCosts]):
    """Request of catalogd which tables have cost the most time since its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEventLog(Question[EventLines]):
    """Request of catalogd the events behind the number ``after``, up to the first that runs.

    ``newest``: the last events instead, which may run.
    """

    after: U64 = 0
    newest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTableStates(Question[TableStates]):
    """Request of catalogd which of these ``tables``, by full name, are not as they should be.

    catalogd looks at the first TABLE_STATES_MAX of them, and leaves the others out.
    """

    tables: tuple[str, ...] = ()


CATALOG_ANSWERS: Final[tuple[type[Question[Any]], ...]] = (
    *(ReadStatus, ReadVerdict, ReadHeldTopics, ReadHubs, ReadEvents, ReadEventCosts, ReadEventLog),
    ReadTableStates,
)
"""The questions that catalogd answers without its store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreQuestion(Question[A]):
    """Request something of catalogd's store beside its entries, which a thread of its own reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadVersions(StoreQuestion[TopicVersions]):
    """Request of catalogd which versions of each topic can be scanned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCuts(StoreQuestion[KeyCuts]):
    """Request keys between which about ``every_bytes`` of the values of ``topic`` lie."""

    topic: U16
    every_bytes: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadChanges(StoreQuestion[HistoryPage]):
    """Request the changes of a topic's tables in ``(after, until]``, but for ``skip`` rows.

    The oldest are the first, as many as a frame holds.
    """

    topic: U16
    epoch: U64
    after: U64
    until: U64
    skip: U64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBound(StoreQuestion[VersionBounds]):
    """Request the version up to which the transactions behind ``after`` replace ``count`` entries.

    It is that of one transaction at least.
    """

    topic: U16
    epoch: U64
    after: U64
    count: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHistory(StoreQuestion[HistoryPage]):
    """Request the newest ``count`` changes of a table behind a version; 0: what a frame holds."""

    db: str
    table: str
    after: U64 = 0
    count: U64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLogBounds(StoreQuestion[LogSpan]):
    """Request the numbers of the first and the last line of catalogd's log of changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog(StoreQuestion[LogPage]):
    """Request the next lines of the log of changes behind the number ``after``."""

    after: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecent(StoreQuestion[LogPage]):
    """Request the newest ``count`` lines of the log since a time, of objects of ``pattern``.

    All orders are among them. ``pattern`` empty: all objects.
    """

    since_us: U64
    count: U64
    pattern: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFiles(StoreQuestion[FilePage]):
    """Request what sweeps have found of the files of a table, by partition.

    ``behind``: the partition behind which the page begins; none: it is the first page.
    """

    db: str
    table: str
    behind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSweeps(StoreQuestion[SweepPage]):
    """Request how far each table is swept, and what was found; ``behind``: the last ``db.table``.

    Empty: from the first.
    """

    behind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreQuestion(Question[A]):
    """Request of catalogd what it reads from the metastore then, as nobody holds it."""

    db: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFunctions(MetastoreQuestion[FunctionPage]):
    """Request the next permanent functions of ``db`` behind the name ``after``, sorted by name."""

    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStatistics(MetastoreQuestion[StatisticsPage]):
    """Request the statistics of ``columns`` of a table; of these ``partitions``, if there are any.

    The columns times the partitions of a request are STATISTICS_MAX at most.
    """

    table: str
    columns: tuple[str, ...]
    partitions: tuple[str, ...] = ()


def answer_to(kind: type[Question[A]]) -> type[A]:
    """Return the type of the answer to questions of ``kind``."""
    base: Any = kind.__orig_bases__[0]  # type: ignore[attr-defined]  # of every generic class
    found: type[A] = get_args(base)[0]
    return found
