"""Catalog: the core of catalogd. Events of the metastore become versions, then effects.

    events ─▶ poller ─▶ loader ─▶ materializer ─▶ version log ─▶ commit ─▶ hubs, replies
                 ▲         ▲                                                  ▲
                 └─ sync ──┴─ pull ◀────── dispatcher ◀── requests            │
                                               └──────────────────────────────┘

Two steps a turn: ``handle`` decides, ``flush`` returns what may leave, the commit first. Between
turns ``check_some`` looks for content that is missing.
Invariant: nothing leaves that the store does not have. When another metastore answers, nothing
leaves any more: the shell empties the store, in a new epoch, and another core begins over it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ..topics.memory.memory_limit import MemoryLimit
from ..topics.objects.names import EVERYTHING, Scope
from ..topics.settings import BLACKLISTED_DBS_DEFAULT, parse_names
from ..topics.topic import Topic
from ..topics.turn import Turn
from ..topics.wire.messages.answers import Inspected
from ..topics.wire.messages.questions import Question
from .content.backfill import Backfill
from .content.background import Background
from .content.unloading import NEVER_UNLOAD, Unloading, UnloadSettings
from .effects import (
    AFTER_COMMIT,
    BeginEpoch,
    Connections,
    Effect,
    Fact,
    FloorRaised,
    Minted,
    MintEpoch,
    Publish,
    Requested,
)
from .follow.differences import Differences
from .follow.event_router import EventRouter
from .follow.name_listing import Lifecycle, NameListing
from .follow.notes import CatalogCounts
from .follow.unreadable import Unreadable
from .history.history_thread import HistoryRead
from .ingest.events.event_batches import EventBatches
from .ingest.events.event_log import EventLog
from .ingest.events.event_processor import EventProcessor
from .ingest.events.event_window import EventWindow
from .ingest.events.identity import TABLES_MAX, Creations, Identified
from .ingest.events.poller import Poll, Polled, Poller, PollFailed
from .ingest.loads.follow_rules import FollowRules
from .ingest.loads.in_place import InPlace
from .ingest.loads.loader import READS_MAX_DEFAULT, Loader
from .ingest.loads.materializer import Materializer
from .ingest.loads.needs import NEVER, CompleteLoad, Result, WriteTables
from .ingest.writes.locations import Aliases, Locations
from .ingest.writes.reports import Reports
from .introspection import CatalogIntrospection
from .metastore.port import (
    COMPARING,
    EventRead,
    FactsRead,
    ListingFailed,
    NamesFailed,
    NamesListed,
    NamesRead,
    Read,
    ReadDone,
    ReadFailed,
)
from .model.decoded import created_at, forget_decoded
from .model.folders import StoredFolders
from .model.lineage import Epochs, StartRecord
from .model.modes import MODE_STATE_DEFAULT, ModeState
from .model.namespace import Namespace
from .model.tables import Tables
from .model.versions import Commit, LeaseRow, SweepRow, VersionLog, WriteRow
from .model.window_state import WindowState
from .reconcile.held import Held
from .reconcile.reconciliation import CALLS_PER_S_DEFAULT, Reconciliation
from .serve.admin import AdminOrders
from .serve.dispatcher import Dispatcher
from .serve.leases import Leases
from .serve.replies import Replies
from .serve.report_acks import ReportAcks
from .serve.sweeps import Sweeps
from .status import CatalogStatus

POLLING_INTERVAL_S_DEFAULT: Final = 0.2
IDLE_S: Final = 1.0  # a turn at least so often


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSettings:
    """The operator's settings, as the core needs them."""

    polling_interval_s: float = POLLING_INTERVAL_S_DEFAULT
    load_in_background: bool = True
    unload: UnloadSettings = NEVER_UNLOAD
    reads_max: int = READS_MAX_DEFAULT
    blacklisted_dbs: tuple[str, ...] = parse_names(BLACKLISTED_DBS_DEFAULT)
    metastore: str = ""  # its addresses, for messages and for reports of drivers
    reconcile_calls_per_s: float = CALLS_PER_S_DEFAULT
    sync_off_by_default: bool = False  # of tables, unless they or their database say otherwise

    def follows(self, db: str) -> bool:
        """Return whether ``db`` is not left out by the operator."""
        return db not in self.blacklisted_dbs


class Catalog:
    """Everything that catalogd decides, over what its store holds."""

    def __init__(
        self,
        topics: dict[int, Topic],
        *,
        starts: tuple[StartRecord, ...],
        window: EventWindow | None,
        folders: StoredFolders,
        settings: CatalogSettings,
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
            starts: Of the running epoch; the last is the running start.
            window: The events that the store covers; None: nothing was ever stored.
            folders: Where the data of tables lies, as it is stored.
            settings: The operator's.
            mode_state: The mode, as it is stored, and the backfill that it still requires.
            writes: The writes that drivers reported, as they are stored.
            leases: Those of tables, as they are stored.
            sweeps: As of which revision the files of each table are known, as it is stored.
            finding: Why everything is read anew, if that is so.
            memory: The limit of memory that the topics keep; None: there is none.
        """
        self.memory = memory
        self.settings = settings
        self.counts = CatalogCounts()
        self.turn = turn = Turn[Effect](quiet=(Connections, Poll, Publish))  # of all parts
        self.version_log = VersionLog(topics, turn)
        self.epochs = Epochs(starts, self.version_log)
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
            wanted=lambda table: self.tables.holds(table) or self.background.wants(table),
            reads_max=settings.reads_max,
            polled=self.poller.enabled,
            began=self._on_read_began,
        )
        self.event_processor = EventProcessor(
            self.poller, self.namespace, clock=turn, unpublished=self._is_unpublished
        )
        self.follow_rules = FollowRules(
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
            pending=lambda table: self.loader.pending(table) or self.dispatcher.awaits(table),
        )
        self.in_place = InPlace(self.tables, pending=self.loader.pending)
        self.event_batches = EventBatches(turn)
        self.event_log = EventLog(turn)
        held = Held(
            self.namespace,
            self.tables,
            follows=settings.follows,
            every_table=self.namespace.every_table,
            pending=self.loader.pending,
            rules=self.follow_rules,
        )
        self.reconciliation = Reconciliation(
            held, turn=turn, calls_per_s=settings.reconcile_calls_per_s
        )
        self.listing = NameListing(
            self.namespace,
            loader=self.loader,
            poller=self.poller,
            reconciliation=self.reconciliation,
            follow_rules=self.follow_rules,
            follows=settings.follows,
            counts=self.counts,
            turn=turn,
        )
        self.background = Background(
            self.namespace,
            self.tables,
            loader=self.loader,
            backfill=self.backfill,
            unloading=self.unloading,
            names_known=lambda: self.names_known,
            enabled=settings.load_in_background,
        )
        self.differences = Differences(
            self.reconciliation,
            self.namespace,
            loader=self.loader,
            poller=self.poller,
            listing=self.listing,
            unpublished=self._oldest_unpublished,
            calls_per_s=settings.reconcile_calls_per_s,
            turn=turn,
        )
        self.event_router = EventRouter(
            self.namespace,
            self.tables,
            loader=self.loader,
            poller=self.poller,
            reconciliation=self.reconciliation,
            listing=self.listing,
            follow_rules=self.follow_rules,
            in_place=self.in_place,
            unloading=self.unloading,
            event_batches=self.event_batches,
            event_log=self.event_log,
            event_processor=self.event_processor,
            follows=settings.follows,
            write_results=self._write_results,
            counts=self.counts,
            turn=turn,
            finding=finding,
        )
        self.unreadable = Unreadable(self.namespace, self.tables, loader=self.loader, turn=turn)
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
            event_router=self.event_router,
            background=self.background,
            follows=settings.follows,
        )
        self.locations = Locations(self.version_log, folders)
        self.reports = Reports(
            self.namespace, self.tables, self.locations, clock=turn, known=writes
        )
        self._aliases = Aliases(self.tables, self.locations)
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
            differences=self.differences,
            admin=self.admin,
            report_acks=self.report_acks,
            replies=replies,
            version_log=self.version_log,
            leases=self._leases,
            sweeps=self._sweeps,
            unloading=self.unloading,
            turn=turn,
            listing=self.listing,
            epochs=self.epochs,
            answer=self.answer,
        )
        self.introspection = CatalogIntrospection(
            self.namespace,
            self.tables,
            version_log=self.version_log,
            epochs=self.epochs,
            loader=self.loader,
            poller=self.poller,
            listing=self.listing,
            event_router=self.event_router,
            event_batches=self.event_batches,
            event_log=self.event_log,
            event_processor=self.event_processor,
            unreadable=self.unreadable,
            follow_rules=self.follow_rules,
            reconciliation=self.reconciliation,
            reports=self.reports,
            backfill=self.backfill,
            unloading=self.unloading,
            dispatcher=self.dispatcher,
            memory=memory,
            counts=self.counts,
            metastore=settings.metastore,
            off_by_default=settings.sync_off_by_default,
            clock=turn,
        )
        self._materializer = Materializer(
            self.namespace,
            self.tables,
            self.loader,
            rules=self.follow_rules,
            has_differed=self.reconciliation.has_found,
        )
        self._caught_up = not self.poller.enabled  # everything before the start is published
        self._committed = self.poller.published  # of the last Commit: which events it covers

    @property
    def position(self) -> tuple[int, int]:
        """The current epoch and start."""
        return self.epochs.position

    @property
    def names_known(self) -> bool:
        """Whether the names were ever read; until then most requests are refused."""
        return self.listing.names_known

    @property
    def watermark(self) -> int:
        """The event id up to which everything is committed."""
        return self.poller.watermark

    def handle(  # noqa: C901 - dispatch
        self, fact: Fact, *, now: float, now_us: int
    ) -> None:
        """Take ``fact`` in; ``flush`` returns what follows from it."""
        if self.listing.lifecycle is Lifecycle.ABANDONED:
            return  # it may be of either metastore; requests are repeated
        self.turn.now, self.turn.now_us = now, now_us
        if not isinstance(fact, Polled) or fact.events:
            self.turn.came(fact)
        match fact:
            case Polled():
                self.event_router.on_polled(fact)
            case Identified():
                self.event_router.on_identified(fact)
            case PollFailed():
                self.event_router.on_failed(fact)
            case ReadDone(read=number) if number == COMPARING:
                self.reconciliation.on_read(fact)
            case ReadFailed(read=number) if number == COMPARING:
                self.differences.read_differing(self.reconciliation.on_failed(fact))
            case ReadDone():
                self.event_batches.read_ended(fact.read)
                self._write_results(self.loader.on_read_done(fact))
            case ReadFailed():
                self.counts.reads_failed += 1
                self.event_batches.read_ended(fact.read)
                self.listing.error = fact.error
                no_polls = bool(self.poller.problem())  # then it is not for this table alone
                away = no_polls or (fact.away and not self.poller.enabled)
                self._write_results(self.loader.on_read_failed(fact, away=away))
            case NamesRead() if fact.job:
                self.admin.on_names(fact.job, fact.databases)
            case NamesFailed() if fact.job:
                self.admin.on_names_failed(fact.job, fact.error)
            case NamesRead():
                for table in self.listing.on_names(fact):
                    self.background.load(table)
            case NamesFailed():
                self.counts.reads_failed += 1
                self.listing.on_failed(fact)
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
                self.epochs.on_minted(fact.epoch, fact.starts)
            case Connections():
                self.introspection.connections = fact
            case FloorRaised(topic=topic, floor=floor):
                self.version_log.topics[topic].raise_floor(floor)

    def flush(self, *, now: float, now_us: int) -> tuple[Effect, ...]:
        """Return what may leave now: reads, the commit, then what depends on it."""
        self.turn.now, self.turn.now_us = now, now_us
        self.unreadable.note()
        self.differences.observe()
        if self.listing.lifecycle is Lifecycle.ABANDONED:
            self._abandon()
            return self._end()
        self.poller.check_late()
        for db in self.listing.take_left_out():
            self._write_results((WriteTables(databases={db: None}, tables={}, needs={}),))
        self.event_router.take_rest()
        self.event_processor.observe()
        for db in self.follow_rules.take_on_again():
            self.listing.follow_again(db)
        if self.names_known:
            self.differences.step()
        if self.listing.serving:
            self.admin.step()
            self.unloading.step()
            self.report_acks.step(
                unpublished=self.loader.oldest_unpublished(),
                polled=self.poller.polled,
                position=self.position,
            )
        self._write_results(self.loader.next_slice())
        self._aliases.step()
        self._order_reads()
        if self.listing.serving:
            self.backfill.restamp()
            self.poller.mark_published(self._oldest_unpublished())
        published = self._oldest_unpublished()
        self.event_batches.publish(before=published)
        self.event_log.publish(before=published)
        self._commit()
        if self.event_router.first_seq is not None:
            self._caught_up |= self._oldest_unpublished() > self.event_router.first_seq
        if self.epochs.minted_above and self._caught_up:
            self.turn.add(MintEpoch(at_least=self.epochs.minted_above))
        self.dispatcher.send(unpublished=self._oldest_unpublished)
        return self._end()

    def story(self, topic: int | None = None) -> tuple[str, ...]:
        """Return a line for each message that came or went lately; of those about ``topic``."""
        return self.turn.trace.story(topic)

    def check_some(self) -> bool:
        """Look for content that is missing of some tables; return False when none is left."""
        return self.background.check_some()

    def deadline(self, now: float) -> float:
        """Return when ``flush`` may have something to do without a new fact.

        Only what may be done counts: else catalogd would take one turn after the other in vain.
        """
        if self.dispatcher.ready or self.background.ready:
            return now
        times = [self.listing.deadline, self.dispatcher.deadline]
        times.append(self.loader.deadline(reads=self._may_read))
        times += [self.poller.deadline] if self._may_poll else []
        times += [self.reconciliation.deadline] if self.differences.may_compare else []
        if self.listing.serving:
            times += [self.admin.deadline, self.unloading.deadline]
            times += [self.backfill.deadline, self.reports.deadline]
        return min([now + IDLE_S, *(time for time in times if time is not None)])

    def measured(self, resident_bytes: int) -> None:
        """Note how much memory the process takes; discard what was decoded if that is too much."""
        if self.memory is not None and self.memory.measured(resident_bytes):
            forget_decoded()

    def answer(self, question: Question[Any]) -> Inspected:
        """Return the answer to ``question``, which CATALOG_ANSWERS names."""
        return self.introspection.answer(question)

    def status(self) -> CatalogStatus:
        """Return the status of catalogd; it does not change afterwards. Cost: O(topics)."""
        return self.introspection.status()

    def check(self) -> None:
        """Assert every invariant."""
        self.version_log.check()
        self.namespace.check()
        self.locations.check()
        self.backfill.check()
        self.admin.check()
        self.reports.check()
        self.report_acks.check()
        self._leases.check()
        self.dispatcher.check()
        self.unloading.check()
        self.loader.check()
        self.event_router.check()
        self.event_batches.check()
        self.event_processor.check()
        if self.poller.window is not None:
            self.poller.window.check()

    # -- facts

    def _write_results(self, results: tuple[Result, ...]) -> None:
        for unreadable in self._materializer.apply(results):
            self.counts.tables_turned_unreadable += 1
            self.dispatcher.on_unreadable(unreadable.table, unreadable.error)
        for result in results:
            if isinstance(result, WriteTables):
                for table in filter(self.tables.holds, result.tables):
                    self.unloading.loaded(table)
            elif isinstance(result, CompleteLoad):
                self.unloading.loaded(result.table)

    # -- effects

    @property
    def _may_read(self) -> bool:
        """Whether tables may be read: their names are known, and events are not paused."""
        return self.names_known and self.poller.reads

    @property
    def _may_poll(self) -> bool:
        """Whether events may be read: after the names, once it is known where events begin."""
        return self.poller.window is None or self.names_known

    def _end(self) -> tuple[Effect, ...]:
        """Take the effects of this turn: the commit before all that rests on it."""
        effects = self.turn.end()
        kinds = [type(one) for one in effects]
        assert Commit not in kinds or AFTER_COMMIT.isdisjoint(kinds[: kinds.index(Commit)])
        return effects

    def _order_reads(self) -> None:
        """Order what may be requested of the metastore now."""
        self.listing.order()
        self.admin.order()
        self.dispatcher.order()
        if self.differences.may_compare:
            self.reconciliation.order()
        if self._may_read:
            self.loader.order()
        if self.loader.wants_poll or self.dispatcher.wants_poll:
            self.poller.poll_now(check=self.dispatcher.wants_poll)
        self.poller.reading = self._is_unpublished()
        if self._may_poll and self.poller.may_begin():
            self.poller.begin(self.loader.begin_poll())

    def _on_read_began(self, read: Read) -> None:
        self.counts.reads += 1
        self.event_batches.read_began([read])

    def _abandon(self) -> None:
        """End this core; of its last turns only what operators ordered is kept."""
        mode_state, orders = self.backfill.take(), self.admin.given()
        if mode_state is not None or orders:
            window = self._stored_window()
            self.turn.add(Commit(window=window, orders=orders, mode_state=mode_state))
        self.turn.add(
            BeginEpoch(finding=self.event_router.finding, at_least=self.epochs.minted_above)
        )

    def _commit(self) -> None:
        """Make everything durable that is not, and publish it."""
        folders = self.locations.take()
        transactions, mode_state = self.version_log.take(), self.backfill.take()
        orders, (writes, finished, writers) = self.admin.given(), self.reports.take()
        leases, sweeps = self._leases.changed(), self._sweeps.take()
        window = self._committed
        if self.listing.serving:
            window = self.poller.published
        news = transactions, mode_state, orders, writes, finished, sweeps
        if not any(news) and leases is None and window == self._committed:
            return
        self._committed = window
        commit = Commit(
            transactions=transactions,
            window=self._stored_window(),
            orders=orders,
            mode_state=mode_state,
            writes=writes,
            finished=finished,
            writers=writers,
            leases=leases,
            sweeps=sweeps,
            folders=folders,
        )
        self.turn.add(commit)
        if transactions:
            self.turn.add(Publish(transactions=transactions))

    def _stored_window(self) -> WindowState | None:
        """Return the committed window with the events read since: content may show their effect."""
        window, committed = self.poller.window, self._committed
        if window is None or committed is None or self.poller.doubts:
            return committed
        return window.with_ahead(committed)

    def _oldest_unpublished(self, scope: Scope = EVERYTHING) -> int:
        """Return the arrival number of the oldest event in ``scope`` that is not published.

        0 while the names are read: any event may be of an object in ``scope``. A table that is
        known does not wait for the names: it is read again by itself meanwhile.
        """
        if not self.listing.serving:
            known = scope.table and self.namespace.find(scope) is not None
            if not (known and self.listing.lifecycle is Lifecycle.RELISTING):
                return 0
        return self.loader.oldest_unpublished(scope)

    def _is_unpublished(self) -> bool:
        """Return whether something that events have changed is still to be read or published."""
        return self.loader.oldest_unpublished() != NEVER

    def _some_tables(self) -> Creations:
        """Return tables from all over the catalog, each with the time of its creation.

        A metastore whose log has lost every known event is identified by them. Cost: O(tables).
        """
        known = list(self.namespace.every_table())
        held = [table for table in known if self.tables.holds(table)] or known
        some = held[:: max(1, len(held) // TABLES_MAX)][:TABLES_MAX]
        values = {table: self.tables.value(table) for table in some}
        return {table: created_at(one.thrift) if one else None for table, one in values.items()}
