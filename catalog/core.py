"""Catalog: the core of catalogd. Events of the metastore become versions, then effects.

    events ─▶ poller ─▶ loader ─▶ materializer ─▶ version log ─▶ commit ─▶ hubs, replies
                 ▲         ▲                                                  ▲
                 └─ sync ──┴─ pull ◀────── dispatcher ◀── requests            │
                                               └──────────────────────────────┘

    STARTING ──names read──▶ SERVING ──events are missing──▶ RELISTING ──names read──▶ SERVING
                                └──────────another metastore answers──────────▶ ABANDONED

Two steps a turn: ``handle`` decides, ``flush`` returns what may leave, the commit first. Between
turns ``check_some`` looks for content that is missing.
Invariant: nothing leaves that the store does not have. When another metastore answers, nothing
leaves any more: the shell empties the store, in a new epoch, and another core begins over it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from itertools import islice
from typing import Any, Final

from ..topics.bulk import Send
from ..topics.keys.clients import Client
from ..topics.memory_limit import MemoryLimit
from ..topics.objects.names import EVERYTHING, Scope, TableId, table_name
from ..topics.slices import in_slices
from ..topics.topic import Topic
from ..topics.turn import Turn
from ..topics.wire.messages.answers import (
    EventLines,
    HeldTopic,
    HubFacts,
    Inspected,
    TableState,
    TableStates,
)
from ..topics.wire.messages.data import SOURCE_EVENTS, SOURCE_LOAD
from ..topics.wire.messages.fields import Message
from ..topics.wire.messages.questions import (
    TABLE_STATES_MAX,
    Question,
    ReadEventLog,
    ReadTableStates,
)
from . import status
from .history.history_thread import HistoryRead, ReadStore
from .ingest.actions import SKIPPED, STATISTICS, dirty_objects, is_known, named_objects
from .ingest.aliases import Aliases
from .ingest.event_history import EventHistory
from .ingest.event_log import LEFT_OUT, NOT_FOLLOWED, NOTHING, RUNS, EventLog
from .ingest.event_processor import EventProcessor
from .ingest.event_window import EventWindow, Gap
from .ingest.identity import TABLES_MAX, Creations, Identified
from .ingest.in_place import InPlace
from .ingest.load_progress import LoadProgress
from .ingest.loader import (
    NEVER,
    READS_MAX_DEFAULT,
    CompleteLoad,
    Loader,
    Materializer,
    PublishTables,
    Result,
)
from .ingest.poller import FOLLOWED_LATER, PAUSED, Batch, Poll, Polled, Poller, PollFailed
from .ingest.read_threads import Answer, Order
from .ingest.reports import Reports
from .ingest.sync_rules import Follow, SyncRules
from .ingest.transactions import Transactions
from .metastore.port import (
    Dirty,
    DirtyDatabase,
    DirtyPartitions,
    DirtyTable,
    EventRead,
    FactsRead,
    ListingFailed,
    NamesFailed,
    NamesListed,
    NamesRead,
    RawEvent,
    Read,
    ReadDone,
    ReadFailed,
    ReadNames,
    untried,
)
from .model.commit import Commit
from .model.lineage import StartRecord, Verdict, judge
from .model.modes import MODE_STATE_DEFAULT, Mode, ModeState, overrides_text
from .model.tables import Namespace, Tables, created_at, forget_decoded
from .model.versions import LeaseRow, SweepRow, Transaction, VersionLog, WriteRow
from .model.window_state import WindowState
from .publish.backfill import Backfill
from .publish.unloading import NEVER_UNLOAD, Unloading, UnloadSettings
from .reconcile.held import Difference, Held
from .reconcile.reconciliation import CALLS_PER_S_DEFAULT, COMPARING, Reconciliation
from .serve.admin import AdminOrders
from .serve.dispatcher import Dispatcher
from .serve.grants import Admit
from .serve.leases import Leases
from .serve.replies import Replies
from .serve.report_acks import ReportAcks
from .serve.sweeps import Sweeps
from .status import MetastoreFacts, Status

POLLING_INTERVAL_S_DEFAULT: Final = 0.2
CHECKED_AT_ONCE: Final = 25  # names looked at for content that was missing at a restart
LISTING_RETRY_S: Final = 1.0
NAMES_AGAIN_S: Final = 10.0  # between two listings for events that name nothing
CREATE_TABLE: Final = "CREATE_TABLE"
TYPES_MAX: Final = 32  # of events that are not understood, to be named; 4.2 has 31
DOUBT_S: Final = 3600.0  # for so long an event that was not understood is warned of
IDLE_S: Final = 1.0  # a turn at least so often


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Effect: send these transactions to every hub."""

    transactions: tuple[Transaction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MintEpoch:
    """Effect: begin a new epoch above ``at_least``; answered by ``Minted``."""

    at_least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """Effect: log what was found out; ``trouble``: an operator wants to know of it."""

    text: str
    trouble: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginAnew:
    """Effect: discard all that is held, in a new epoch above ``at_least``, and this core with it.

    ``finding``: why, for the status of the core that begins then.
    """

    finding: str
    at_least: int


Effect = Order | ReadStore | Admit | Commit | Publish | MintEpoch | Noted | BeginAnew | Send
RESTING: Final = frozenset((ReadStore, Admit, Publish, MintEpoch, BeginAnew, Send))
"""The types of effects that come behind the commit: what they show or end is durable by then."""


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
class Floors:
    """Fact: the store deleted the tombstones at or below these versions, by topic."""

    floors: dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """Fact: how each hub is connected, and how long ago a client was refused; None: never."""

    hubs: tuple[HubFacts, ...] = ()
    handshake_failed_s: float | None = None


Fact = Answer | Requested | Minted | Floors | HistoryRead | Connections


@dataclass(slots=True)
class Counts:
    """What happened since the start; requests are counted by the dispatcher."""

    events: int = 0
    events_failed: int = 0  # at which our own code failed: what they name is read again
    events_sync_off: int = 0  # of tables that are not followed, as their parameters say
    events_elsewhere: int = 0  # of another catalog, or a database that is left out
    events_not_understood: int = 0  # of a type that is not known, or that cannot be decoded
    events_in_place: int = 0  # that needed no call of the metastore
    events_skipped: int = 0  # of a type that tells of nothing that is held
    event_gaps: int = 0
    events_passed: int = 0  # that the metastore cannot send, or that an operator skips
    reads: int = 0
    reads_failed: int = 0
    polls_failed: int = 0
    tables_withdrawn: int = 0
    frames_undecodable: int = 0  # frames that could not be decoded, of hubs and of the service
    unreachable: int = 0  # answers that found no peer, or a full queue


class Lifecycle(Enum):
    """Whether the names of databases and tables have been read."""

    STARTING = "STARTING"  # no names were ever read: most requests are refused
    SERVING = "SERVING"
    RELISTING = "RELISTING"  # events are missing: requests are served, syncs wait
    ABANDONED = "ABANDONED"  # the metastore is another one: nothing comes in or leaves


NEXT: Final[Mapping[Lifecycle, tuple[Lifecycle, ...]]] = {
    Lifecycle.STARTING: (Lifecycle.SERVING, Lifecycle.ABANDONED),
    Lifecycle.SERVING: (Lifecycle.RELISTING, Lifecycle.ABANDONED),
    Lifecycle.RELISTING: (Lifecycle.SERVING, Lifecycle.ABANDONED),
    Lifecycle.ABANDONED: (),
}
"""What may follow each state; another core follows ABANDONED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The operator's settings, as the core needs them."""

    polling_interval_s: float = POLLING_INTERVAL_S_DEFAULT
    load_in_background: bool = True
    unload: UnloadSettings = NEVER_UNLOAD
    reads_max: int = READS_MAX_DEFAULT
    blacklisted_dbs: tuple[str, ...] = ("sys", "information_schema")
    metastore: str = ""  # its addresses, for messages and for reports of drivers
    reconcile_calls_per_s: float = CALLS_PER_S_DEFAULT
    sync_off_by_default: bool = False  # of tables, unless they or their database say otherwise


class Catalog:
    """Everything that catalogd decides, over what its store holds."""

    def __init__(
        self,
        topics: dict[int, Topic],
        *,
        starts: tuple[StartRecord, ...],
        window: EventWindow | None,
        settings: Settings,
        mode_state: ModeState = MODE_STATE_DEFAULT,
        writes: Iterable[WriteRow] = (),
        leases: Iterable[LeaseRow] = (),
        sweeps: Iterable[SweepRow] = (),
        finding: str = "",
        memory: MemoryLimit | None = None,
    ) -> None:
        """Begin with what a store holds.

        Args:
            topics: As loaded, in the order of ``topic_ids``.
            starts: Of the running epoch; the last is the running one.
            window: The events that the store covers; None: nothing was ever stored.
            settings: The operator's.
            mode_state: The mode, as it is stored, and the backfill that it still requires.
            writes: The writes that drivers reported, as they are stored.
            leases: Those of tables, as they are stored.
            sweeps: Likewise as of which revisions their files are known.
            finding: Why everything is read anew, if that is so.
            memory: The limit of memory that the topics keep; None: there is none.
        """
        self.memory = memory
        self.lifecycle = Lifecycle.STARTING if window is None else Lifecycle.SERVING
        self.settings = settings
        self.counts = Counts()
        self.turn = turn = Turn[Effect](quiet=(Connections, Poll, Publish))  # of all parts
        self.version_log = VersionLog(topics, turn)
        self.backfill = Backfill(self.version_log, mode_state, turn)
        self.namespace = Namespace(self.version_log)
        self.tables = Tables(self.version_log, len(topics) - 1)
        self.poller = Poller(
            window,
            turn=turn,
            interval_s=settings.polling_interval_s,
            known_tables=self._some_tables,
        )
        self.loader = Loader(
            turn=turn,
            loaded=self.tables.loaded,
            partitioned=lambda table: bool(self.tables.partition_columns(table)),
            reads_max=settings.reads_max,
            polled=self.poller.enabled,
            began=self._on_read_began,
        )
        self.event_processor = EventProcessor(
            self.poller, self.namespace, clock=turn, unpublished=self._is_unpublished
        )
        self._transactions = Transactions()
        self.sync_rules = SyncRules(
            self.namespace,
            self.tables,
            pending=self.loader.pending,
            off_by_default=settings.sync_off_by_default,
        )
        self.unloading = Unloading(
            self.tables,
            clock=turn,
            settings=settings.unload,
            memory=memory,
            pending=self.loader.pending,
        )
        self.in_place = InPlace(self.tables, pending=self.loader.pending)
        self._newest_id = 0 if window is None else window.newest_id  # of the events that were seen
        self.event_history = EventHistory(turn)
        self.event_log = EventLog(turn)
        self._load_progress = LoadProgress(turn)
        held = Held(
            self.namespace,
            self.tables,
            follows=self.follows,
            every_table=self._known_tables,
            pending=self.loader.pending,
            rules=self.sync_rules,
        )
        self.reconciliation = Reconciliation(
            held, turn=turn, calls_per_s=settings.reconcile_calls_per_s
        )
        replies = Replies()
        self.admin = AdminOrders(
            self.namespace,
            self.tables,
            loader=self.loader,
            poller=self.poller,
            backfill=self.backfill,
            event_processor=self.event_processor,
            replies=replies,
            turn=turn,
            core=self,
        )
        self.reports = Reports(self.namespace, self.tables, topics, clock=turn, known=writes)
        self.aliases = Aliases(self.tables, self.reports.locations)
        self.report_acks = ReportAcks(
            self.reports, replies, clock=turn, metastore=settings.metastore
        )
        self._leases = Leases(turn, leases)
        self._sweeps = Sweeps(self.namespace, self.tables, clock=turn, known=sweeps)
        self.dispatcher = Dispatcher(
            self.namespace,
            self.tables,
            loader=self.loader,
            poller=self.poller,
            reconciliation=self.reconciliation,
            admin=self.admin,
            report_acks=self.report_acks,
            replies=replies,
            version_log=self.version_log,
            leases=self._leases,
            sweeps=self._sweeps,
            unloading=self.unloading,
            turn=turn,
            core=self,
        )
        self._materializer = Materializer(
            self.namespace,
            self.tables,
            self.loader,
            rules=self.sync_rules,
            found=self.reconciliation.has_found,
        )
        self._starts = starts  # of the current epoch; the last is the running one
        self._error = ""  # of the last read or listing that failed; "" after a listing
        self._names_at = 0.0 if window is None else None  # when names are read; None: not needed
        self._reading_names = False  # names are being read
        self._names_again_at = 0.0  # not before, for events that name nothing
        self._gap_seq = 0  # arrival number of the oldest gap that is being resynced
        self._gap: Gap | None = None  # its ids, until the names are read
        self._first_seq: int | None = None  # arrival number of what the first poll brought
        self._caught_up = not self.poller.enabled  # everything before the start is published
        self._mint_above = 0  # a new epoch is to be minted above this one; 0: none
        self._unchecked = None if window is None else self._known_tables()  # not yet looked at
        self._seen_seq: int | None = None  # arrival number of what was seen without an event
        self._committed = self.poller.published  # of the last Commit: which events it covers
        self._finding = finding  # of the last check of a connection, for the status
        self._connections = Connections()  # as last seen
        self._release = ""  # of the metastore, as it says
        self._not_understood: dict[str, float] = {}  # types of events, and when the last came
        self._failed_types: set[str] = set()  # of events at which our own code failed
        self._unreadable: dict[TableId, str] = {}  # why tables cannot be answered, as last logged
        self._unreadable_partitions: dict[str, str] = {}  # likewise, by their names and the tables'

    @property
    def position(self) -> tuple[int, int]:
        """The current epoch and start."""
        return self._starts[-1].epoch, self._starts[-1].start

    @property
    def names_known(self) -> bool:
        """Whether the names were ever read; until then most requests are refused."""
        return self.lifecycle is not Lifecycle.STARTING

    @property
    def blind(self) -> str:
        """Why not every change of the metastore arrives; empty when, as far as is known, all do."""
        return self.poller.blind or self.reconciliation.missed

    @property
    def watermark(self) -> int:
        """The event id up to which everything is committed."""
        return self.poller.watermark

    def handle(  # noqa: C901 - dispatch
        self, fact: Fact, *, now: float, now_us: int
    ) -> None:
        """Take ``fact`` in; ``flush`` returns what follows from it."""
        if self.lifecycle is Lifecycle.ABANDONED:
            return  # it may be of either metastore; requests are repeated
        self.turn.now, self.turn.now_us = now, now_us
        if not isinstance(fact, Polled) or fact.events:
            self.turn.came(fact)
        match fact:
            case Polled():
                self._on_polled(fact)
            case Identified():
                self._on_identified(fact)
            case PollFailed():
                self.counts.polls_failed += 1
                passed = self.poller.on_failed(fact)
                if passed is not None:
                    self._on_passed(passed)
            case ReadDone(read=number) if number == COMPARING:
                self.reconciliation.on_read(fact)
            case ReadFailed(read=number) if number == COMPARING:
                self._read_differing(self.reconciliation.on_failed(fact))
            case ReadDone():
                self.event_history.read_ended(fact.read)
                self._publish(self.loader.on_read_done(fact))
            case ReadFailed():
                self.counts.reads_failed += 1
                self.event_history.read_ended(fact.read)
                self._error = fact.error
                no_polls = bool(self.poller.problem())  # then it is not for this table alone
                away = no_polls or (fact.away and not self.poller.enabled)
                self._publish(self.loader.on_read_failed(fact, away=away))
            case NamesRead() if fact.job:
                self.admin.on_names(fact.job, fact.databases)
            case NamesFailed() if fact.job:
                self.admin.on_names_failed(fact.job, fact.error)
            case NamesRead():
                self._on_names(fact)
            case NamesFailed():
                self.counts.reads_failed += 1
                self._error, self._reading_names = fact.error, False
                self._names_at = now + LISTING_RETRY_S
            case NamesListed():
                self.reconciliation.on_listed(fact)
            case ListingFailed():
                self.reconciliation.on_failed(fact)
            case EventRead():
                self.admin.on_event_read(fact, self.event_log)
            case FactsRead():
                self.dispatcher.on_facts(fact)
            case HistoryRead():
                self.dispatcher.on_history(fact)
            case Requested():
                self.dispatcher.handle(fact.peer, fact.message, client=fact.client)
            case Minted():
                self._starts, self._mint_above = fact.starts, 0
                for topic in self.version_log.topics.values():
                    topic.epoch = fact.epoch
            case Connections():
                self._connections = fact
            case Floors():
                for number, floor in fact.floors.items():
                    self.version_log.topics[number].raise_floor(floor)

    def flush(self, *, now: float, now_us: int) -> tuple[Effect, ...]:
        """Return what may leave now: reads, the commit, then what depends on it."""
        self.turn.now, self.turn.now_us = now, now_us
        self._note_unreadable()
        self.reconciliation.progress.observe(self._before_comparing())
        if self.lifecycle is Lifecycle.ABANDONED:
            self._abandon()
            return self._end()
        self.poller.check_late()
        self.event_processor.observe()
        for db in self.sync_rules.take_on_again():
            self._follow_again(db)
        if self.names_known:
            if self.reconciliation.suspects:
                self._judge()
            if self._reconciles:
                self._read_differing(self.reconciliation.take_slice())
            self._note_blindness()
        if self.lifecycle is Lifecycle.SERVING:
            self.admin.step()
            self.unloading.step()
            unpublished = self.loader.oldest_unpublished()
            self.report_acks.step(
                unresolved=unpublished,
                polled=self.poller.polled,
                position=self.position,
            )
        self._publish(self.loader.next_slice())
        self.aliases.step(seq=self.poller.seq)
        self._order_reads()
        if self.lifecycle is Lifecycle.SERVING:
            self.backfill.restamp()
            self.poller.mark_published(self._oldest_unpublished())
        published = self._oldest_unpublished()
        self.event_history.publish(before=published)
        self.event_log.publish(before=published)
        self._commit()
        if self._first_seq is not None:
            self._caught_up |= self._oldest_unpublished() > self._first_seq
        if self._mint_above and self._caught_up:
            self.turn.add(MintEpoch(at_least=self._mint_above))
        self.dispatcher.send(unpublished=self._oldest_unpublished)
        return self._end()

    def story(self, topic: int | None = None) -> tuple[str, ...]:
        """Return a line for each message that came or went lately; of those about ``topic``."""
        return self.turn.trace.story(topic)

    def check_some(self) -> bool:
        """Let the loader load those of the next CHECKED_AT_ONCE known tables that it does not hold.

        After a start, or a change of the mode, it goes once through all tables. Returns False when
        none is left. Cost: about 30 µs a table.
        """
        if self._unchecked is None or not self.names_known:
            return False
        some = tuple(islice(self._unchecked, CHECKED_AT_ONCE))
        for table in some:
            self.load_in_background(table)
        if len(some) < CHECKED_AT_ONCE:
            self._unchecked = None
        return True

    def deadline(self, now: float) -> float:
        """Return when ``flush`` may have something to do without a new fact."""
        if self.dispatcher.ready or self._unchecked is not None or self.aliases.oldest < NEVER:
            return now
        times = [self.poller.deadline, self._names_at, self.loader.deadline()]
        times += [self.dispatcher.grants.deadline, self.backfill.deadline, self.reports.deadline]
        times += [self.reconciliation.deadline] if self._reconciles else []
        times.append(self.unloading.deadline)
        return min([now + IDLE_S, *(time for time in times if time is not None)])

    def accepts(self, *, epoch: int, start: int, held: Mapping[int, int]) -> bool:
        """Return whether what a peer holds can be continued; if not, a new epoch follows.

        ``epoch``, ``start`` and ``held`` are as of ``judge``.

        Raises:
            WireError: that cannot be true.
        """
        versions = dict(zip(self.version_log.topics, self.version_log.versions(), strict=True))
        verdict = judge(self._starts, versions, epoch=epoch, start=start, held=held)
        if verdict is not Verdict.AHEAD:
            return True
        self.mint_above(epoch)
        return False

    def mint_above(self, epoch: int) -> None:
        """Begin an epoch above ``epoch``, once everything is as new as the metastore.

        A peer is ahead of a store that was restored: the peer has seen newer versions than are
        held here, until the events since have been read again.
        """
        self._mint_above = max(self._mint_above, epoch)

    def skip_event(self, id_: int) -> Gap:
        """Pass every event up to ``id_`` that was not read, and read everything again.

        Returns the first and the last that is passed.

        Raises:
            UsageError: as of ``Poller.skip``.
        """
        batch = self.poller.skip(id_)
        assert batch.gap is not None
        self._on_passed(batch)
        return batch.gap

    def measured(self, resident_bytes: int) -> None:
        """Take in what the process takes of its limit."""
        if self.memory is not None and self.memory.measured(resident_bytes):
            forget_decoded()

    def change_mode(self, mode: Mode) -> bool:
        """Publish under ``mode`` from now on, and load what it needs; False if it is so already."""
        if not self.backfill.change(mode):
            return False
        self.loader.retain(self._loads_in_background)
        if self.names_known:
            self._unchecked = self._known_tables()
        return True

    def follows(self, db: str) -> bool:
        """Return whether ``db`` is not left out by the operator."""
        return db not in self.settings.blacklisted_dbs

    def load_in_background(self, table: TableId) -> None:
        """Load ``table`` in the background, if the mode has its content published."""
        wanted = self._loads_in_background(table) and not self.unloading.leaves_out(table)
        if wanted and not self.tables.loaded(table):
            self.loader.load(table)

    def answer(self, question: Question[Any]) -> Inspected:
        """Return the answer to ``question``, which is one of CATALOG_ANSWERS."""
        if isinstance(question, ReadEventLog):
            rows = self.event_log.after(None if question.newest else question.after)
            return EventLines(request=question.request, rows=rows)
        if isinstance(question, ReadTableStates):
            some = question.tables[:TABLE_STATES_MAX]
            states = tuple([row for name in some for row in self._state_of(name)])
            return TableStates(request=question.request, rows=states)
        return status.answer(self.status(), question)

    def _state_of(self, name: str) -> Iterator[TableState]:
        """Yield a row if the table ``name`` is not as it should be."""
        db, _, of_db = name.partition(".")
        table = db, of_db
        if why := self._unreadable.get(table, ""):
            yield TableState(name, status.UNREADABLE, why)
        elif bad := self.loader.bad_partitions().get(table):
            yield TableState(
                name, status.PARTITIONS_UNREADABLE, status.first_named(bad, of=len(bad))
            )
        elif text := self.loader.loading().get(table):
            yield TableState(name, status.LOADING, text)
        elif self.namespace.find(table) is not None and self.sync_rules.is_off(table):
            yield TableState(name, status.UNFOLLOWED, "")

    def status(self) -> Status:
        """Return the status of catalogd; it does not change afterwards. Cost: O(topics)."""
        return next(one for one in self.status_in_slices() if one is not None)

    def status_in_slices(self) -> Iterator[Status | None]:
        """Yield None after each slice of a status, and the status at last.

        Its totals and its rows agree.
        """
        topics: list[HeldTopic] = []
        rows = self.version_log.topics.items()
        yield from in_slices(rows, lambda one: status.topic_status(*one), into=topics)
        yield self._status(tuple(topics))

    def check(self) -> None:
        """Assert every invariant."""
        self.version_log.check()
        self.namespace.check()
        self.backfill.check()
        self.admin.check()
        self.reports.check()
        self.report_acks.check()
        self._leases.check()
        self.dispatcher.check()
        self.unloading.check()
        self.loader.check()
        self._transactions.check()
        self.event_history.check()
        self.event_processor.check()
        if self.poller.window is not None:
            self.poller.window.check()

    def _status(self, topics: tuple[HeldTopic, ...]) -> Status:
        (epoch, start), poller, mode = self.position, self.poller, self.backfill.mode
        load = self._load_progress.measure(self.loader.tables_left)
        metastore = MetastoreFacts(
            addresses=self.settings.metastore,
            polls=poller.problem(),
            names=self._error,
            names_known=self.names_known,
            missing=_missing(self._gap),
            blind=self.namespace.metastore_problem(),
            unproven=poller.unproven,
            not_understood=self._doubted(),
        )
        return Status(
            metastore=metastore,
            hubs=self._connections.hubs,
            handshake_failed_s=self._connections.handshake_failed_s,
            rules=self.namespace.rules(),
            epoch=epoch,
            start=start,
            num_topics=len(topics) - 1,
            mode=mode.name,
            overrides=overrides_text(mode),
            offers=mode.offers,
            topics_to_backfill=self.backfill.topics_left,
            watermark=poller.watermark,
            newest_event=poller.newest,
            lag_events=poller.lag_events,
            lag_s=poller.lag_s(),
            metastore_uuid=poller.window.uuid if poller.window else "",
            metastore_found=self._finding,
            metastore_silent_s=poller.silent_s(),
            databases=self.namespace.databases_count,
            tables_to_load=load.left,
            load_read=load.read,
            load_left_s=load.left_s,
            loading=status.first_of(self.loader.loading()),
            tables_unreadable=len(self._unreadable),
            sync_off_by_default=self.settings.sync_off_by_default,
            partitions_unreadable=len(self._unreadable_partitions),
            unreadable=status.first_of(self._unreadable)
            or next((f"{one}: {why}" for one, why in self._unreadable_partitions.items()), ""),
            waiting_requests=self.dispatcher.waiting,
            entries=sum(topic.entries or 0 for topic in topics),
            held_bytes=sum(topic.held_bytes or 0 for topic in topics),
            cold_bytes=sum(one.cold_bytes for one in self.version_log.topics.values()),
            memory=None if self.memory is None else self.memory.facts,
            counts=asdict(self.counts)
            | self.dispatcher.counts
            | self.reports.counts()
            | {f"reconcile_{name}": n for name, n in asdict(self.reconciliation.counts).items()}
            | {"polls_late": poller.late, "tables_unfit": self.tables.unfit}
            | {"tables_unloaded": self.unloading.unloaded},
            topics=topics,
            reconciliation=self.reconciliation.progress.facts(),
            events=self.event_history.facts(
                [self.loader.left(seq) for seq in self.event_history.running_seqs],
            ),
            processor=self.event_processor.facts,
            pull_times=self.dispatcher.pull_times,
        )

    def _doubted(self) -> tuple[str, ...]:
        """Return the types of events that were not understood lately."""
        since = self.turn.now - DOUBT_S
        return tuple(one or "(no type)" for one, at in self._not_understood.items() if at > since)

    # -- facts

    def _on_polled(self, fact: Polled) -> None:
        batch = self.poller.on_polled(fact)
        if batch is None:
            return
        if batch.gap is not None:  # before its events: no part of a table is published alone
            self._on_gap(batch.gap, batch.seq)
        every: list[Dirty] = []
        for event in batch.events:
            self.counts.events += 1
            outcome, dirty = self._on_event(event, seq=batch.seq)
            self.event_log.add(event, dirty, outcome=outcome, seq=batch.seq)
            every += dirty
        self.event_history.begin(batch.events, every, seq=batch.seq, missing=_missing(batch.gap))
        self._publish(self.in_place.results())
        if self.reconciliation.missed and batch.events:
            self.reconciliation.on_events(connection=fact.connection)
        if batch.whole:
            self._publish(self.loader.on_poll_done(fact.poll))
            self._first_seq = batch.seq if self._first_seq is None else self._first_seq

    def _on_event(self, event: RawEvent, *, seq: int) -> tuple[str, tuple[Dirty, ...]]:
        """Have read again what ``event`` has changed, and return it, with what becomes of it."""
        is_late = event.id <= self._newest_id  # what it has may be old
        self._newest_id = max(self._newest_id, event.id)
        found = self._objects_of(event)
        dirty = tuple(one for one in found if self.follows(one.db))
        elsewhere = bool(event.catalog or (found and not dirty))
        self.counts.events_elsewhere += elsewhere
        if self.reconciliation.suspects:
            self.reconciliation.on_event(dirty)
        follow, dirty = self.sync_rules.judge(event, dirty)
        if follow is Follow.SKIP:
            self.counts.events_sync_off += 1
            return NOT_FOLLOWED, ()
        self._note_type(event, dirty)
        applies = follow is not Follow.RELOAD and not is_late
        self.loader.mark_dirty(self._apply(event, dirty) if applies else dirty, seq=seq)
        self.loader.mark_dirty(self._unknown(dirty), seq=seq)
        self._raise_unheld(dirty)
        if event.type in STATISTICS:
            for table in {
                (one.db, one.table) for one in dirty if not isinstance(one, DirtyDatabase)
            }:
                self.tables.raise_version(table, source=SOURCE_EVENTS)
        if follow is Follow.RELOAD:
            tables = {(one.db, one.table) for one in dirty if not isinstance(one, DirtyDatabase)}
            if event.type == CREATE_TABLE:  # the end of the one before it was left out
                ended = [DirtyTable(db=db, table=t, whole=True, dropped=True) for db, t in tables]
                self.loader.mark_dirty(ended, seq=seq)
            self.loader.resync(sorted(tables), seq=seq)
        if elsewhere:
            return LEFT_OUT, ()
        return (RUNS if dirty else NOTHING), dirty

    def _follow_again(self, db: str) -> None:
        """Read the tables of ``db``, which is followed again, and the names of new ones."""
        seq = self.poller.next_seq()
        tables = ((db, row.name) for row in self.namespace.tables(db))
        self.loader.resync(sorted(t for t in tables if not self.sync_rules.is_off(t)), seq=seq)
        self._names_at = self.turn.now
        if self.lifecycle is Lifecycle.SERVING:
            self._gap_seq = seq
            self._become(Lifecycle.RELISTING)

    def _apply(self, event: RawEvent, dirty: tuple[Dirty, ...]) -> tuple[Dirty, ...]:
        """Apply what ``event`` says, which was not late; return what is to be read."""
        if self.lifecycle is not Lifecycle.SERVING:
            return dirty
        rest = tuple(one for one in dirty if not self._needs_no_read(one, said_bytes=event.size))
        self.counts.events_in_place += bool(dirty and not rest)
        return rest

    def _needs_no_read(self, one: Dirty, *, said_bytes: int) -> bool:
        """Return whether what an event says of an object is all that is to be done for it."""
        if not isinstance(one, DirtyDatabase) and self.loader.needs_resync((one.db, one.table)):
            return False
        return self.in_place.take(one, said_bytes=said_bytes) or self._stays_unloaded(one)

    def _stays_unloaded(self, one: Dirty) -> bool:
        """Raise the version of a table that nobody uses: it is read when somebody does."""
        if not isinstance(one, DirtyTable) or one.dropped or one.degraded:
            return False
        table = one.db, one.table
        known = self.namespace.find(table) is not None and not self.loader.pending(table)
        if not known or not self.unloading.leaves_out(table):
            return False
        self.tables.raise_unloaded(table, source=SOURCE_EVENTS)
        return True

    def _objects_of(self, event: RawEvent) -> tuple[Dirty, ...]:
        """Return what ``event`` makes dirty: all that it names, if our own code fails at it."""
        try:
            return dirty_objects(event) + self._transactions.dirty_objects(event)
        except Exception as error:  # noqa: BLE001 - a defect of ours harms one object, not the stream
            self.counts.events_failed += 1
            if event.type not in self._failed_types and len(self._failed_types) < TYPES_MAX:
                self._failed_types.add(event.type)
                what = f"event {event.id} ({event.type} of {event.db}.{event.table})"
                text = f"{what}: {type(error).__name__}: {error}: what it names is read again whole"
                self._note(f"a defect of Topicast at {text}", trouble=True)
            self._read_names_again()  # it may be a rename
            return named_objects(event)

    def _note_type(self, event: RawEvent, dirty: tuple[Dirty, ...]) -> None:
        """Count an event that is skipped, or not understood; say once which type that is."""
        if event.catalog:
            return
        if event.type in SKIPPED:
            self.counts.events_skipped += 1
            return
        known = is_known(event.type)
        broken = any(not isinstance(one, DirtyPartitions) and one.degraded for one in dirty)
        if known and not broken:
            return
        self.counts.events_not_understood += 1
        if event.type not in self._not_understood:
            why = "cannot be decoded" if known else "are of a type that is not known"
            text = f"events {event.type or '(no type)'} {why}: what they name is read again whole"
            self._note(text, trouble=True)
        if event.type in self._not_understood or len(self._not_understood) < TYPES_MAX:
            self._not_understood[event.type] = self.turn.now
        if not known and not dirty:
            self._read_names_again()

    def _read_names_again(self) -> None:
        """Read the names, for an event that may have made one that it does not tell."""
        if self._names_at is None:
            self._names_at = max(self.turn.now, self._names_again_at)
            self._names_again_at = self._names_at + NAMES_AGAIN_S

    def _unknown(self, dirty: Iterable[Dirty]) -> Iterator[Dirty]:
        """Yield what is named and not known: no event has told that it was created."""
        for one in dirty if self.names_known else ():
            database, pending = (one.db, ""), self.loader.pending
            if not (self.namespace.has_database(one.db) or pending(database)):
                yield DirtyDatabase(db=one.db)
            if isinstance(one, DirtyPartitions):
                table = one.db, one.table
                if self.namespace.find(table) is None and not pending(table):
                    yield DirtyTable(db=one.db, table=one.table, whole=True)

    def _raise_unheld(self, dirty: Iterable[Dirty]) -> None:
        """Raise the data version of each table that is not loaded and has written partitions.

        The loader reads nothing of such a table, or reads it as part of a load. Readers take a load
        for no change, so without this they would not hear of the write.
        """
        for one in dirty:
            if not (isinstance(one, DirtyPartitions) and one.data):
                continue
            table = one.db, one.table
            if self.namespace.find(table) is not None and not self.tables.loaded(table):
                self.tables.raise_data(table, partitions=one.names, source=SOURCE_EVENTS)

    def _become(self, state: Lifecycle) -> None:
        assert state in (self.lifecycle, *NEXT[self.lifecycle]), f"{self.lifecycle} to {state}"
        self.lifecycle = state

    def _on_gap(self, gap: Gap, seq: int) -> None:
        """Note what is missing, and read everything again."""
        self.counts.event_gaps += 1
        self._gap = (self._gap[0] if self._gap else gap[0]), gap[1]
        self._read_again(seq)

    def _on_passed(self, batch: Batch) -> None:
        """Note the events that are passed, and read everything again: one may be of anything."""
        assert batch.gap is not None
        first, last = batch.gap
        self.counts.events_passed += last - first + 1
        text = f"events {first} to {last} are passed, and all is read again: {batch.passed}"
        self._note(text, trouble=True)
        self._on_gap(batch.gap, batch.seq)
        missing = _missing(batch.gap)
        self.event_history.begin((), [], seq=batch.seq, missing=missing)

    def _read_again(self, seq: int) -> None:
        """Read again what is known, and the names, for what is not."""
        self._names_at = self.turn.now
        self.reconciliation.clear()
        if self.lifecycle is Lifecycle.SERVING:
            self._gap_seq = seq
            self._become(Lifecycle.RELISTING)
        self._resync(self.namespace.databases(), self._known_tables())

    def _on_identified(self, fact: Identified) -> None:
        if fact.release != self._release:
            self._release = fact.release
            if untried(fact.release):
                self._note(untried(fact.release), trouble=True)
        self.in_place.enabled = fact.tells_all
        finding = self.poller.on_identified(fact)
        if finding is None:
            return
        self._finding = str(finding)
        self._note(f"connected to {finding}", trouble=not finding.same)
        if not finding.same:
            self._become(Lifecycle.ABANDONED)
            self.event_processor.observe(stopped=str(finding))
            return
        self.loader.read_again()  # a copy that was put back may be older than what was read
        if finding.by_tables or self.lifecycle is Lifecycle.RELISTING:
            # Polls may show no gap, as ids of another log can go on from ours. Names that are
            # being read may be of the connection before.
            self._read_again(self.poller.next_seq())
        self._move()

    def _move(self) -> None:
        """Go on at the event that an operator ordered; what is left out is read again."""
        moved = self.poller.move()
        if moved is None:
            return
        at, gap = moved
        window = self.poller.window
        assert window is not None
        text = f"events are followed from {window.last_id} on, as an operator ordered"
        self._note(text, trouble=False)
        if gap is not None:
            self._on_gap(gap, self.poller.seq)
        elif at < 0:
            self._read_again(self.poller.seq)

    def _on_names(self, fact: NamesRead) -> None:
        self._error, self._reading_names = "", False
        databases = {db: found for db, found in fact.databases.items() if self.follows(db)}
        tables = {(db, name): kind for db, (_, rows) in databases.items() for name, kind in rows}
        if self.names_known:
            self._resync(databases, (t for t in tables if self.namespace.find(t) is None))
            if self._gap is not None:
                known = sum(1 for _ in self._known_tables())
                text = f"{_missing(self._gap)}: {known} tables are read again, and what is new"
                self._note(text, trouble=True)
                self._gap = None
        else:
            structs = {db: thrift for db, (thrift, _) in databases.items()}
            self.namespace.write(structs, tables, source=SOURCE_LOAD)
            for table in tables:
                self.load_in_background(table)
        self._become(Lifecycle.SERVING)

    def _note_blindness(self) -> None:
        """Notify readers why changes do not arrive; withdraw it once the changes have been read."""
        blind, noted = self.blind, self.namespace.metastore_problem()
        if noted.startswith(PAUSED) and not blind and not self.poller.caught_up:
            return
        if not noted or noted.startswith(FOLLOWED_LATER):
            self.namespace.set_metastore_problem(blind)
        elif blind:
            self._seen_seq = None
            if not blind.startswith(FOLLOWED_LATER):
                self.namespace.set_metastore_problem(blind)
        elif self._seen_seq is None:
            self._seen_seq = self._gap_seq = self.poller.next_seq()
            self._names_at = self.turn.now
            self._become(Lifecycle.RELISTING)
            self._resync(self.namespace.databases(), self._known_tables())
        elif self._oldest_unpublished() > self._seen_seq:
            self.namespace.set_metastore_problem("")

    @property
    def _reconciles(self) -> bool:
        """Whether what is held can be compared: nothing is being read again as a whole."""
        serving = self.lifecycle is Lifecycle.SERVING and self.poller.reads
        return serving and not self.loader.resyncing

    def _before_comparing(self) -> str:
        """Return what comes before anything is compared; empty: nothing does."""
        if not self.settings.reconcile_calls_per_s:
            return "--reconcile_calls_per_s is 0"
        if not self.poller.reads:
            return "events are paused"
        if self.poller.problem():
            return "the metastore does not answer"
        if self.lifecycle is not Lifecycle.SERVING:
            return "the names are read"
        return "what events are missing of is read again" if self.loader.resyncing else ""

    def _read_differing(self, found: Sequence[Difference]) -> None:
        """Read again what is not as it is held; an event of it may follow."""
        if not found:
            return
        seq = self.poller.next_seq()
        self.reconciliation.suspect(found, seq=seq)
        parts: dict[tuple[TableId, bool], list[str]] = {}
        for (db, table, part), content, _ in found:
            if part:
                parts.setdefault(((db, table), content), []).append(part)
            elif not table:
                self.loader.mark_dirty([DirtyDatabase(db=db)], seq=seq)
            elif content:
                self.loader.mark_dirty([DirtyTable(db=db, table=table, data=True)], seq=seq)
        for ((db, table), content), names in parts.items():
            dirty = DirtyPartitions(db=db, table=table, names=tuple(names), data=content)
            self.loader.mark_dirty([dirty], seq=seq)
        whole = [one.name[:2] for one in found if one.name[1] and not (one.name[2] or one.content)]
        self.loader.resync(whole, seq=seq)

    def _judge(self) -> None:
        """Note what has changed without an event."""
        if not self.poller.enabled or self.poller.blind:
            self.reconciliation.forget(unpublished=self._oldest_unpublished())
            return
        missed = self.reconciliation.missed
        drift = self.reconciliation.judge(
            unpublished=self._oldest_unpublished(),
            polled_at=self.poller.polled_at,
            connection=self.poller.polled_on,
        )
        if self.reconciliation.missed != missed:
            self._note(self.reconciliation.missed, trouble=True)
        elif drift:
            others = f" and {len(drift) - 1} others" if len(drift) > 1 else ""
            text = f"{drift[0]}{others} changed without an event, and was read again"
            self._note(text, trouble=False)

    def _resync(self, databases: Iterable[str], tables: Iterable[TableId]) -> None:
        """Read these again, first what readers have requested last: events are missing."""
        dirty = [DirtyDatabase(db=db) for db in sorted(databases)]
        self.loader.mark_dirty(dirty, seq=self._gap_seq)
        every = dict.fromkeys(sorted(tables))
        used = dict.fromkeys(table for table in self.reconciliation.used() if table in every)
        self.loader.resync([*used, *(one for one in every if one not in used)], seq=self._gap_seq)

    def _note_unreadable(self) -> None:
        """Note which tables cannot be answered since the last turn, and which can be again."""
        known, loading = self._unreadable.items(), self.loader.is_loading
        bad = self.loader.bad_partitions()
        self._note_partitions(bad)
        unreadable = {  # it may fail again
            table: why for table, why in known if loading(table) and table not in bad
        }
        unreadable |= {**self.loader.errors, **self.tables.unfit_why}
        for table in sorted(unreadable.keys() - self._unreadable.keys()):
            text = f"{table_name(*table)} is withdrawn: {unreadable[table]}"
            self._note(text, trouble=True)
        for table in sorted(self._unreadable.keys() - unreadable.keys()):
            if self.namespace.find(table) is not None:
                text = f"{table_name(*table)} can be read again"
                self._note(text, trouble=False)
        self._unreadable = unreadable

    def _note_partitions(self, bad: Mapping[TableId, Mapping[str, str]]) -> None:
        """Note which partitions cannot be read since the last turn, and which can be again."""
        known, self._unreadable_partitions = (
            self._unreadable_partitions,
            {
                f"{table_name(*t)}/{one}": why
                for t, found in bad.items()
                for one, why in found.items()
            },
        )
        for one, why in self._unreadable_partitions.items():
            if one not in known:
                text = f"{one} cannot be read, the rest of its table is served: {why}"
                self._note(text, trouble=True)
        for one in known:
            if one not in self._unreadable_partitions:
                self._note(f"{one} can be read again, or is gone", trouble=False)

    def _publish(self, results: tuple[Result, ...]) -> None:
        for withdrawn in self._materializer.apply(results):
            self.counts.tables_withdrawn += 1
            self.dispatcher.on_withdrawn(withdrawn.table, withdrawn.error)
        for result in results:
            if isinstance(result, PublishTables):
                for table in result.tables:
                    self.unloading.loaded(table)
            elif isinstance(result, CompleteLoad):
                self.unloading.loaded(result.table)

    # -- effects

    def _end(self) -> tuple[Effect, ...]:
        """Take the effects of this turn: the commit before all that rests on it."""
        effects = self.turn.end()
        kinds = [type(one) for one in effects]
        assert Commit not in kinds or RESTING.isdisjoint(kinds[: kinds.index(Commit)])
        return effects

    def _note(self, text: str, *, trouble: bool) -> None:
        self.turn.add(Noted(text=text, trouble=trouble))

    def _order_reads(self) -> None:
        """Order what may be requested of the metastore now."""
        has_base = self.poller.window is not None or not self.poller.enabled
        may_read = has_base and not self._reading_names
        may_read &= self.poller.reads or not self.names_known
        if self._names_at is not None and self.turn.now >= self._names_at and may_read:
            self._names_at, self._reading_names = None, True
            self.turn.add(ReadNames())
        self.admin.order()
        self.dispatcher.order()
        if self._reconciles:
            self.reconciliation.order()
        if self.names_known and self.poller.reads:
            self.loader.order()
        if self.loader.wants_poll or self.dispatcher.wants_poll:
            self.poller.poll_now(check=self.dispatcher.wants_poll)
        self.poller.reading = self.loader.oldest_unpublished() != NEVER
        names_first = self.poller.window is not None and not self.names_known
        if self.poller.may_begin() and not names_first:
            self.poller.begin(self.loader.begin_poll())

    def _on_read_began(self, read: Read) -> None:
        self.counts.reads += 1
        self.event_history.read_began([read])

    def _abandon(self) -> None:
        """End this core; of its last turns only what operators ordered is kept."""
        mode_state, orders = self.backfill.take(), self.admin.given()
        if mode_state is not None or orders:
            window = self._stored_window()
            self.turn.add(Commit(window=window, orders=orders, mode_state=mode_state))
        self.turn.add(BeginAnew(finding=self._finding, at_least=self._mint_above))

    def _commit(self) -> None:
        """Make everything durable that is not, and publish it."""
        transactions, mode_state = self.version_log.take(), self.backfill.take()
        orders, (writes, settled) = self.admin.given(), self.reports.take()
        leases, sweeps = self._leases.changed(), self._sweeps.take()
        window = self._committed
        if self.lifecycle is Lifecycle.SERVING:
            window = self.poller.published
        news = transactions, mode_state, orders, writes, settled, sweeps
        if not any(news) and leases is None and window == self._committed:
            return
        self._committed = window
        commit = Commit(
            transactions=transactions,
            window=self._stored_window(),
            orders=orders,
            mode_state=mode_state,
            writes=writes,
            settled=settled,
            leases=leases,
            sweeps=sweeps,
        )
        self.turn.add(commit)
        if transactions:
            self.turn.add(Publish(transactions=transactions))

    def _stored_window(self) -> WindowState | None:
        """Return the committed window with the events read since: content may show their effect."""
        window, committed = self.poller.window, self._committed
        return committed if window is None or committed is None else window.with_ahead(committed)

    def _oldest_unpublished(self, scope: Scope = EVERYTHING) -> int:
        """Return the arrival number of the oldest event in ``scope`` that is not published.

        While names are read, every event may be one: 0. A table that is known is read again by
        itself meanwhile.
        """
        if self.lifecycle is not Lifecycle.SERVING:
            known = scope.table and self.namespace.find(scope) is not None
            if not (known and self.lifecycle is Lifecycle.RELISTING):
                return 0
        return min(self.loader.oldest_unpublished(scope), self.aliases.oldest)

    def _is_unpublished(self) -> bool:
        """Return whether something that events have changed is to be read or published."""
        return self.loader.oldest_unpublished() != NEVER

    def _loads_in_background(self, table: TableId) -> bool:
        return self.settings.load_in_background and not self.backfill.mode.withholds(table)

    def _some_tables(self) -> Creations:
        """Return tables from all over the catalog. Cost: O(tables), once a log was cleaned."""
        known = list(self._known_tables())
        held = [table for table in known if self.tables.holds(table)] or known
        some = held[:: max(1, len(held) // TABLES_MAX)][:TABLES_MAX]
        values = {table: self.tables.value(table) for table in some}
        return {table: created_at(one.thrift) if one else None for table, one in values.items()}

    def _known_tables(self) -> Iterator[TableId]:
        for db in self.namespace.databases():
            for record in tuple(self.namespace.tables(db)):
                yield db, record.name


def _missing(gap: Gap | None) -> str:
    """Say which events are missing; nothing if none is."""
    return f"events {gap[0]} to {gap[1]} are missing" if gap else ""
