"""Every message between processes, by socket.

    data   (hub XPUB -> SUB)          Delta  Heartbeat  Barrier
    control (DEALER <-> hub ROUTER)   Hello  Welcome  ServerKeys  Join  Joined  Drop  Dropped
                                      Status  Bye  Announce  Have  Filed  ClientList  Inspect
                                      Inspected  DriverFacts  Introduction  Refused
    bulk   (DEALER <-> hub ROUTER)    Hello  CatchUp  Chunk  Credit  Cancel  Delta (publisher)
    catalog (DEALER <-> catalogd)     Pull  Pulled  Sync  Synced  Compare  Compared  Scan  Scanned …

Authority: docs/protocol.md. Times are microseconds since 1970, sizes bytes; the types of fields
have their bounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from ..backports import IntEnum, StrEnum
from ..errors import UsageError
from ..objects.drivers import COUNT_MAX, FACT_CHARS_MAX, HUBS_MAX, PID_MAX
from ..objects.names import KEY_BYTES_MAX
from ..objects.selector import Selector, SelectorKind, by_filter, by_sql
from ..topic import ALL_OFFERED, FULL, NONE, Entry
from .header import PROTOCOL, PROTOCOL_MIN, VALUE_BYTES_MAX


class Bounds(NamedTuple):
    """The least and the largest value of an integer, or length of bytes or a text."""

    least: int
    most: int


SELECTORS_MAX: Final = 64  # of pulls that are kept read: names of a pull may take 512 KB
BY_TOPIC: Final = "by topic"  # marks records that begin with a topic: they are written in columns

U8 = Annotated[int, Bounds(0, 255)]
U16 = Annotated[int, Bounds(0, 65_535)]
U64 = Annotated[int, Bounds(0, (1 << 64) - 1)]
TopicOrNone = Annotated[int, Bounds(-1, 65_535)]  # -1: of no topic
LevelNumber = Annotated[int, Bounds(NONE, FULL)]
Registration = Annotated[bytes, Bounds(16, 16)]
Key = Annotated[bytes, Bounds(0, KEY_BYTES_MAX)]
Content = Annotated[bytes, Bounds(0, VALUE_BYTES_MAX)]
FactText = Annotated[str, Bounds(0, FACT_CHARS_MAX)]
Count = Annotated[int, Bounds(0, COUNT_MAX)]
Cell: TypeAlias = str | int | float | bool | None
Rows: TypeAlias = tuple[tuple[Cell, ...], ...]


class Role(IntEnum):
    """What a peer is to the hub."""

    READER = 1
    PUBLISHER = 2
    OPERATOR = 3


READER, PUBLISHER, OPERATOR = Role


class Channel(IntEnum):
    """Which of a peer's two connections to a hub this is."""

    CONTROL = 1
    BULK = 2


CONTROL_CHANNEL, BULK_CHANNEL = Channel


class Source(IntEnum):
    """What caused a delta."""

    LOAD = 0
    EVENTS = 1
    REPORTS = 2
    RECONCILIATION = 3  # what differed from the metastore, and no event had told by then
    ORDERS = 4
    CATCH_UP = 5  # several of them: a hub caught up
    OVERWRITES = 6  # a report that files which were there are gone


ORIGINS: Final[Mapping[int, str]] = {
    Source.LOAD: "load",
    Source.EVENTS: "events",
    Source.REPORTS: "reports",
    Source.RECONCILIATION: "reconciliation",
    Source.ORDERS: "orders",
    Source.CATCH_UP: "catch-up",
    Source.OVERWRITES: "reports",
}
"""Where a change is from, in the words of commands, watches, histories and the data source."""

SOURCE_LOAD: Final = Source.LOAD
SOURCE_EVENTS: Final = Source.EVENTS
SOURCE_REPORTS: Final = Source.REPORTS
SOURCE_RECONCILIATION: Final = Source.RECONCILIATION
SOURCE_ORDERS: Final = Source.ORDERS
SOURCE_CATCH_UP: Final = Source.CATCH_UP
SOURCE_OVERWRITES: Final = Source.OVERWRITES


class JoinAnswer(IntEnum):
    """What a hub answers for one position of a Join."""

    CURRENT = 0  # nothing newer is here
    BEHIND = 1  # a catch-up brings what changed
    SNAPSHOT = 2  # a catch-up brings everything: below the floor, or of another epoch
    DENIED = 3  # no such topic, or the level is not offered


CURRENT, BEHIND, SNAPSHOT, DENIED = JoinAnswer

SELECT_TABLE, SELECT_BLOCKS, SELECT_FILTER, SELECT_NAMES, SELECT_VALUES, SELECT_SQL = SelectorKind


class WriteState(IntEnum):
    """The state of a Write."""

    INTENT = 0  # it begins; catalogd counts it as done if its driver is lost
    WRITTEN = 1
    FAILED = 2  # it ended in an error: what it changed is not known
    ABANDONED = 3  # it never began, or changed nothing
    OVERWRITTEN = 4  # done, and files that were there are gone
    ALTERED = 5  # no data: the table is described otherwise, or partitions came or went
    NAMED = 6  # no data: the table was created, dropped or renamed


INTENT, WRITTEN, FAILED, ABANDONED, OVERWRITTEN, ALTERED, NAMED = WriteState


class OrderKind(StrEnum):
    """What an operator orders catalogd to do."""

    DRIVERS = "drivers"
    EVENTS = "events"
    MODE = "mode"
    INVALIDATE = "invalidate"
    REFRESH = "refresh"


class Message:
    """What one process sends another."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta(Message):
    """The changes of one topic in ``(from_version, to_version]``.

    ``stubbed``: values were left out, a FULL follower must catch up. ``invalidate_all``: the
    entries were left out too; it counts as a stub for every table of the topic.
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
    invalidate_all: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk(Message):
    """A part of the catch-up of one topic, in the order of (version, key).

    ``to_version`` is the position once the ``last`` chunk has been applied. ``resume_version`` and
    ``resume_key`` are of the last entry in the chunk. With ``first`` and ``snapshot`` everything
    held of the topic is discarded before the chunk is applied.
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
    invalidate_all: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(Message):
    """The positions of a sender. ``versions`` and ``floors`` follow ``topic_ids(num_topics)``.

    Empty ``versions``: the hub is being seeded. ``sizes`` (bytes at FULL) are sent now and then.
    ``watermark``: HMS event id up to which catalogd is complete. ``age_ms``: since catalogd's last
    message. ``offers``: the levels that may be joined, as ``topic.offered`` reads them.
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
class Barrier(Message):
    """Proof that every subscription made before that of ``nonce`` is active."""

    nonce: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello(Message):
    """First message on a connection, which offers the versions that this process speaks.

    ``registration`` ties control and bulk of one peer.
    ``features`` is for bits of later releases: receivers ignore those that they do not know.
    ``is_command``: the sender is a command, which ends soon, and no application.
    """

    role: U8
    channel: U8
    name: str
    registration: Registration
    protocol_min: U8 = PROTOCOL_MIN
    protocol_max: U8 = PROTOCOL
    features: U64 = 0
    is_command: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome(Message):
    """The hub's answer to Hello. ``features``: the bits that both sides have; there are none yet.

    ``policy``: the hub's number of the policy that the key has; 0: it has none, or no number is
    left. ``policy_digest``: of the policy; 0: the key has none.
    """

    protocol: U8
    features: U64 = 0
    hub: U64
    epoch: U64
    start: U64
    num_topics: U16
    data_address: str
    catalog_address: str
    catalog_name: str
    heartbeat_ms: U64
    lost_ms: U64
    policy: U16 = 0
    policy_digest: U64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKeys(Message):
    """A hub to its members: its public keys and catalogd's, the current ones and the next.

    After Welcome, and when one has changed. A next key is empty until it is drawn; catalogd's keys
    are empty at a hub that knows no catalogd.
    """

    hub: str
    hub_next: str
    catalogd: str
    catalogd_next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Message):
    """Why a request was not obeyed. ``retry_ms`` 0: do not send it again unchanged.

    ``request``: the request's or stream's id, 0 if it could not be read. ``topic``: -1 if none.
    """

    request: U64
    code: str
    message: str
    retry_ms: U64
    topic: TopicOrNone = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The position of a reader in one topic at one level."""

    topic: U16
    level: LevelNumber
    epoch: U64
    version: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(Message):
    """Raise topics to levels; always answered in full, also for what is joined already."""

    request: U64
    positions: Annotated[tuple[Position, ...], BY_TOPIC]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """One topic in Joined; ``full_bytes`` as accounted at FULL."""

    topic: U16
    level: LevelNumber
    answer: U8
    version: U64
    full_bytes: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined(Message):
    """The answer to Join, one state for each position, all of one epoch and start."""

    request: U64
    epoch: U64
    start: U64
    topics: Annotated[tuple[TopicState, ...], BY_TOPIC]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(Message):
    """Stop following these topics; some may not have been joined."""

    request: U64
    topics: tuple[U16, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped(Message):
    """The answer to Drop."""

    request: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(Message):
    """What a reader reports of itself; topics that it does not name are where they were."""

    positions: Annotated[tuple[Position, ...], BY_TOPIC]
    lag_us: U64
    held_bytes: U64
    budget_bytes: U64


@dataclass(frozen=True, slots=True)
class KeepAlive(Message):
    """A reader's sign of life while it has nothing to report: every one has the same bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFacts(Message):
    """An attached driver to its hub, after Welcome and when one has changed: what it is and does.

    ``driver``: its id, of application, host and process. ``state``: one of ANNOUNCED_STATES;
    ``reason``: why. ``hubs``: how many it may go to; 0: not said. ``writer``: the id under which
    it reports writes. The counts are since its attach: of reads, by who has answered, of calls of
    the metastore that these have saved, and of writes.
    """

    driver: FactText
    application: FactText
    application_id: FactText
    user: FactText
    host: FactText
    pid: Annotated[int, Bounds(0, PID_MAX)]
    spark: FactText
    release: FactText
    state: FactText
    reason: FactText
    control: FactText
    hubs: Annotated[int, Bounds(0, HUBS_MAX)]
    writer: FactText
    memory_reads: Count = 0
    endpoint_reads: Count = 0
    direct_reads: Count = 0
    metastore_calls_saved: Count = 0
    writes_refused: Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bye(Message):
    """The peer leaves in good order."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Have(Message):
    """A hub to a publisher, after its Welcome: what the hub holds, which catalogd compares."""

    epoch: U64
    start: U64
    versions: tuple[U64, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Announce(Message):
    """A publisher to a hub: this start was compared and leads; its deltas follow."""

    epoch: U64
    start: U64
    num_topics: U16
    catalog_address: str
    catalog_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Filed(Message):
    """A hub to a publisher: everything up to these versions is filed. (topic, version)"""

    epoch: U64
    start: U64
    versions: tuple[tuple[U16, U64], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientList(Message):
    """A publisher to a hub: the admitted clients, as text that ``topics/keys/clients.py`` reads."""

    text: Content


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction(Message):
    """A publisher to a hub, or a hub to a publisher, after Welcome: where others find it.

    ``catalog_address``: where a publisher takes requests, before it announces anything, too; empty
    from a hub. ``pages``: where its pages for people are; empty: nowhere that others reach.
    """

    catalog_address: str = ""
    pages: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One topic of a CatchUp: from ``version``, or resumed after (resume_version, resume_key).

    ``cut``: of a resumed catch-up, the lowest ``to_version`` of its chunks so far, else 0.
    """

    topic: U16
    level: LevelNumber
    epoch: U64
    version: U64
    resume_version: U64 = 0
    resume_key: Key = b""
    cut: U64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp(Message):
    """Request chunks of these topics, at most ``credit`` bytes before more credit is given."""

    stream: U64
    credit: U64
    wanted: tuple[Wanted, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit(Message):
    """Let ``stream`` send ``amount`` bytes more."""

    stream: U64
    amount: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(Message):
    """End ``stream``."""

    stream: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(Message):
    """A reader to catalogd, on a new start: does what it holds belong to the lineage?"""

    request: U64
    epoch: U64
    start: U64
    versions: tuple[tuple[U16, U64], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared(Message):
    """The answer to Compare: accepted, or ahead (a new epoch was minted)."""

    request: U64
    accepted: bool
    epoch: U64
    start: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A claim about a table: nothing of it has changed after ``version`` of its topic.

    ``whole``: of the table with its partitions, else of the table's own entry.
    """

    db: str
    table: str
    version: U64
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull(Message):
    """Request a table (and blocks) of catalogd. ``held``: (block key, version) pairs held.

    ``selector``: a SelectorKind.
    ``filter``, ``names`` and ``values`` are those of their selectors, else empty; ``values`` are
    the first ones of a partition, "" means any. ``names_only``: the names of the selected
    partitions without their content. ``bytes_max``: of the answer, about; 0: catalogd's own limit.
    ``after``: the cursor of the answer to be continued. ``version`` not 0: only if nothing of the
    table has changed since this version of its topic, in ``epoch``. ``claims``: made in ``epoch``,
    about tables of the topic, and judged with the answer.
    """

    request: U64
    db: str
    table: str
    selector: U8
    credit: U64
    held: tuple[tuple[Key, U64], ...] = ()
    filter: str = ""
    names: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    names_only: bool = False
    bytes_max: U64 = 0
    after: Key = b""
    epoch: U64 = 0
    version: U64 = 0
    claims: tuple[Claimed, ...] = ()

    @property
    def selection(self) -> Selector:
        """The selector that the fields of the message make up, read once for as long as it waits.

        Raises:
            UsageError: its kind is not known here, or its filter is not valid.
        """
        return _selector(self.selector, self.filter, names=self.names, values=self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled(Message):
    """A part of the answer to Pull; all parts are of one topic version.

    ``found`` false: no such table, as of ``namespace_version``. ``gone``: keys of those held
    that exist no more, or are stale and not selected; keys that are neither here nor in
    ``entries`` are current. ``names``: where only names were requested, packed
    (topics/objects/values.py). ``cursor``: of the last part, from where to continue; empty:
    nothing is left. ``moved``: the table has changed since the requested version. ``stale``: the
    indexes of the claims that are not true at ``topic_version``. Adjacent entries of one key are
    pieces of one value, whose length is the ``size`` of each.
    """

    request: U64
    sequence: U64
    last: bool
    found: bool
    epoch: U64
    start: U64
    topic: U16
    topic_version: U64
    namespace_version: U64
    incarnation: U64
    gone: tuple[Key, ...]
    entries: tuple[Entry, ...]
    names: Content = b""
    cursor: Key = b""
    moved: bool = False
    stale: tuple[U64, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan(Message):
    """Request a page of the entries of ``topic`` as of ``version`` in ``epoch``, sorted by key.

    The page begins behind the key ``after``, or inside of the value of the key behind it: at
    ``offset``, if that is not 0. It ends before the key ``until``; empty: at the topic's end.
    """

    request: U64
    epoch: U64
    topic: U16
    version: U64
    after: Key = b""
    offset: U64 = 0
    until: Key = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned(Message):
    """The answer to Scan: values; keys without one are left out, as if they were not there.

    The next page begins at ``after`` and ``offset``; empty and 0: nothing is left. An entry whose
    ``size`` is above that of its value is a piece, and the only entry.
    """

    request: U64
    entries: tuple[Entry, ...]
    after: Key
    offset: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Validate(Message):
    """Request which of these claims, made in ``epoch``, are no longer true."""

    request: U64
    epoch: U64
    claims: tuple[Claimed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated(Message):
    """The answer to Validate: indexes of stale claims with versions, as of one moment.

    A claim of that version, made in ``epoch``, would be true; 0: there is none that would be.
    """

    request: U64
    epoch: U64
    start: U64
    stale: tuple[tuple[U64, U64], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync(Message):
    """Request that catalogd finish everything that HMS had committed when this arrived."""

    request: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced(Message):
    """The answer to Sync: reach these versions (by topic_ids) and it is visible."""

    request: U64
    epoch: U64
    start: U64
    event_id: U64
    versions: tuple[U64, ...]


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
class Inspect(Message):
    """Request the table of facts ``what`` about a process.

    ``member``: the registration of the hub's member that it is about; empty: about the process
    that receives this.
    """

    request: U64 = 0
    what: str
    member: Annotated[bytes, Bounds(0, 16)] = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRequest(Message):
    """Request something of catalogd's store beside its entries, which a thread of its own reads."""

    request: U64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadVersions(StoreRequest):
    """Request of catalogd which versions of each topic can be scanned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCuts(StoreRequest):
    """Request keys between which about ``every_bytes`` of the values of ``topic`` lie."""

    topic: U16
    every_bytes: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadChanges(StoreRequest):
    """Request the changes of a topic's tables in ``(after, until]``, but for ``skip`` rows.

    The oldest are the first, as many as a frame holds.
    """

    topic: U16
    epoch: U64
    after: U64
    until: U64
    skip: U64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBound(StoreRequest):
    """Request the version up to which the transactions behind ``after`` replace ``count`` entries.

    It is that of one transaction at least.
    """

    topic: U16
    epoch: U64
    after: U64
    count: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHistory(StoreRequest):
    """Request the newest ``count`` changes of a table behind a version; 0: what a frame holds."""

    db: str
    table: str
    after: U64 = 0
    count: U64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLogBounds(StoreRequest):
    """Request the numbers of the first and the last line of catalogd's log of changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog(StoreRequest):
    """Request the next lines of the log of changes behind the number ``after``."""

    after: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecent(StoreRequest):
    """Request the newest ``count`` lines of the log since a time, of objects of ``pattern``.

    All orders are among them. ``pattern`` empty: all objects.
    """

    since_us: U64
    count: U64
    pattern: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFiles(StoreRequest):
    """Request what sweeps have found of the files of a table, by partition.

    ``behind``: the partition behind which the page begins; none: it is the first page.
    """

    db: str
    table: str
    behind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSweeps(StoreRequest):
    """Request how far each table is swept, and what was found; ``behind`` (db.table): the last one.

    Empty: from the first.
    """

    behind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected(Message):
    """The answer to Inspect, Order and Read…: rows of text, integers, floats, booleans or None."""

    request: U64
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def records(self) -> list[dict[str, Any]]:
        """Return the rows, each by column; the reader knows of which type a column's cells are."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """What a driver did, or is about to do, to the data of ``object``: a table or a path.

    ``number`` rises with each write of the driver; the same number is the same write, at each
    of its states. ``partitions``: names, or (with a slash at the end) how they begin; none:
    anything of the table may have changed.
    """

    number: U64
    state: U8
    object: str
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Message):
    """A driver to catalogd: its writes. Repeated until it is answered.

    ``driver``: its registration. ``metastore``: the URIs that it uses, which tell whether catalogd
    follows the same one. ``settled``: writes below this number are not reported again.
    """

    request: U64
    driver: Registration
    metastore: str
    settled: U64
    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of a write: done as of ``version`` of a topic, or ``problem`` says why not.

    An intent that is recorded has version 0 and no problem.
    """

    number: U64
    topic: U16
    version: U64
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported(Message):
    """The answer to Report, once it is committed: a verdict for each write."""

    request: U64
    epoch: U64
    start: U64
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant(Message):
    """A client to catalogd: admit the key ``public`` for a process of mine, which may only read."""

    request: U64
    public: str
    lease_s: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted(Message):
    """The answer to Grant: the key is admitted for so long, and renewed by the same Grant."""

    request: U64
    lease_s: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease(Message):
    """A client to catalogd: let me alone change the table, for so long; ``lease_s`` 0 ends it.

    ``holder``: drawn by the client, another one each time that it begins. ``owner``: its name for
    people. ``renew``: only if nobody else has held the lease since I took it.
    """

    request: U64
    db: str
    table: str
    holder: Registration
    owner: str
    lease_s: U64
    renew: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased(Message):
    """The answer to Lease: the lease is the holder's for so long; 0: it is not."""

    request: U64
    lease_s: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """The files of a partition, or with an empty name those of a table that has none.

    ``fingerprint``: another one whenever a file is added, removed or rewritten. ``small``: how many
    of ``files`` are small. ``newest_ms``: when the newest change was, by the file system's clock.
    ``folder_ms``: when the folder last got or lost an entry, by the same clock; 0: not known.
    """

    partition: str
    fingerprint: U64
    files: U64
    bytes: U64
    small: U64
    newest_ms: U64
    folder_ms: U64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep(Message):
    """A client to catalogd: these are the files of a table, which I compared with ``revision``.

    ``changed``: partitions whose data is another one than was known, without a report or an event;
    an empty name: any of them. ``overwritten``: files that were there may be gone. ``removed``:
    partitions of which nothing is to be known any more.

    ``as_of``: the number that the next line of catalogd's log had when the run began; 0: this says
    nothing about other partitions. Else all partitions up to ``until`` are known as of then, or
    with ``last`` all of the table. ``whole``: the run lists those behind ``until`` in any case.
    """

    request: U64
    db: str
    table: str
    revision: U64
    facts: tuple[FileFacts, ...]
    changed: tuple[str, ...]
    overwritten: bool
    removed: tuple[str, ...]
    as_of: U64 = 0
    until: str = ""
    last: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept(Message):
    """The answer to Sweep, once it is committed: what is known of the files is of ``revision`` now.

    ``version`` of its topic: at which the table has changed; 0: it has not. ``kept`` False: the
    sweep was compared with another revision, and nothing of it was kept.
    """

    request: U64
    revision: U64
    version: U64
    kept: bool


@lru_cache(maxsize=SELECTORS_MAX)
def _selector(
    number: int, text: str, *, names: tuple[str, ...], values: tuple[str, ...]
) -> Selector:
    try:
        kind = SelectorKind(number)
    except ValueError:
        raise UsageError(f"no selector {number}") from None
    if kind in (SelectorKind.FILTER, SelectorKind.SQL):
        return (by_filter if kind == SelectorKind.FILTER else by_sql)(text)
    return Selector(kind, names=tuple(sorted(set(names))), values=values)


NUMBERS: Final[dict[int, type[Message]]] = {
    1: Hello,
    2: Welcome,
    3: Refused,
    4: Join,
    5: Joined,
    6: Drop,
    7: Dropped,
    8: Status,
    9: Bye,
    10: Have,
    11: Announce,
    12: Filed,
    13: CatchUp,
    14: Credit,
    15: Cancel,
    16: Compare,
    17: Compared,
    18: Pull,
    19: Pulled,
    20: Sync,
    21: Synced,
    22: Inspect,
    23: Inspected,
    24: Validate,
    25: Validated,
    26: Order,
    27: Report,
    28: Reported,
    29: KeepAlive,
    30: Scan,
    31: Scanned,
    32: ClientList,
    33: Grant,
    34: Granted,
    35: Lease,
    36: Leased,
    37: Sweep,
    38: Swept,
    39: ServerKeys,
    40: Introduction,
    41: ReadVersions,
    42: ReadCuts,
    43: ReadChanges,
    44: ReadBound,
    45: ReadHistory,
    46: ReadLogBounds,
    47: ReadLog,
    48: ReadRecent,
    49: ReadFiles,
    50: ReadSweeps,
    51: DriverFacts,
}
"""The type of each control message, by its number on the wire; a number is never used twice."""
