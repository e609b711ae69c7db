"""Catalog: the core of catalogd. Facts of the metastore become versions, then effects.

    events ─▶ poller ─▶ loader ─▶ materializer ─▶ version log ─▶ commit ─▶ hubs, answers
                 ▲         ▲                                        │
                 └─ sync ──┴─ pull ◀─────────── desk ◀── asked ─────┘

Two steps a turn: ``handle`` decides, ``flush`` returns what may leave, the commit first.
Invariant: nothing leaves that the store does not have.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Final

from ..topics.objects.names import TableId
from ..topics.topic import Topic
from ..topics.wire.messages import SOURCE_LOAD, Inspected
from . import status
from .facts import Asked, Commit, Counts, Effect, Fact, Floors, Minted, MintEpoch, Publish, Settings
from .ingest.actions import Dirty, DirtyDatabase, DirtyTable, dirty_objects
from .ingest.event_window import EventWindow
from .ingest.loader import Loader, Result
from .ingest.materializer import Materializer
from .ingest.poller import Polled, Poller, PollFailed
from .ingest.reads import NamesFailed, NamesRead, ReadDone, ReadFailed, ReadNames
from .ingest.reports import Reports
from .model.lineage import AHEAD, Claim, StartRecord, judge
from .model.namespace import Namespace
from .model.tables import Tables
from .model.versions import VersionLog, WriteRow
from .publish.backfill import Backfill
from .publish.modes import POLICY_DEFAULT, Mode, Policy, overrides_text
from .serve.admin import AdminOrders, Controls, Jobs
from .serve.dispatcher import Dispatcher
from .serve.report_acks import ReportAcks

CHECKED_PER_TURN: Final = 200  # names looked at for what a restart left without content
LISTING_RETRY_S: Final = 1.0
IDLE_S: Final = 1.0  # a turn at least so often


class Catalog:
    """Everything that catalogd decides, over what its store holds."""

    def __init__(
        self,
        topics: dict[int, Topic],
        *,
        starts: tuple[StartRecord, ...],
        window: EventWindow | None,
        settings: Settings,
        policy: Policy = POLICY_DEFAULT,
        writes: Iterable[WriteRow] = (),
    ) -> None:
        """Begin with what a store holds.

        Args:
            topics: As loaded, in the order of ``topic_ids``.
            starts: Of the running epoch, the last is the running one.
            window: How far in the events the store is; None: nothing was ever stored.
            settings: The operator's.
            policy: What is offered, as it is stored.
            writes: What drivers reported, as it is stored.
        """
        self.settings = settings
        self.starts = starts
        self.counts = Counts()
        self.error = ""
        self.version_log = VersionLog(topics)
        self.backfill = Backfill(self.version_log, policy)
        self.namespace = Namespace(self.version_log)
        self.tables = Tables(self.version_log, len(topics) - 1)
        self.poller = Poller(window, interval_s=settings.polling_interval_s)
        self.loader = Loader(
            loaded=self.tables.loaded,
            reads_max=settings.reads_max,
            fenced=self.poller.enabled,
        )
        self._materializer = Materializer(self.namespace, self.tables, self.loader)
        self.admin = self._make_admin()
        self.report_acks = ReportAcks(
            Reports(self.namespace, self.tables, topics, known=writes),
            metastore=settings.metastore,
            position=self.position,
        )
        self.dispatcher = self._make_dispatcher()
        self._wanted: list[Effect] = []
        self._listing = False
        self._list_at: float | None = 0.0 if window is None else None
        self._first_seq: int | None = None  # arrival number of what the first poll brought
        self._mint_above = 0  # a new epoch is ordered, above this one
        self._caught_up = not self.poller.enabled
        self._unchecked = self._known_tables() if window is not None else None
        self._place = self.poller.place
        self._now = 0.0
        self._gap_seq = 0  # arrival number of the oldest gap that is not read over yet
        self.dispatcher.serving = self.dispatcher.settled = window is not None

    def position(self) -> tuple[int, int]:
        """Return epoch and start."""
        return self.starts[-1].epoch, self.starts[-1].start

    def handle(  # noqa: C901 - dispatch
        self, fact: Fact, *, now: float, now_us: int
    ) -> None:
        """Take ``fact`` in; what follows from it is handed over by ``flush``."""
        match fact:
            case Polled():
                self._on_polled(fact, now, now_us)
            case PollFailed():
                self.counts.polls_failed += 1
                self.poller.failed(fact, now)
            case ReadDone():
                self._write(self.loader.on_read_done(fact), now_us)
            case ReadFailed():
                self.counts.reads_failed += 1
                self.error = fact.error
                deaf = self.poller.trouble(now)  # polls fail too: it is not this table
                away = bool(deaf) or (fact.away and not self.poller.enabled)
                self._write(self.loader.on_read_failed(fact, away=away, now=now), now_us)
            case NamesRead() | NamesFailed() if fact.job:
                self.admin.on_names(fact, now=now)
            case NamesRead():
                self._on_names(fact, now_us)
            case NamesFailed():
                self.counts.reads_failed += 1
                self.error, self._listing = fact.error, False
                self._list_at = now + LISTING_RETRY_S
            case Asked():
                self.dispatcher.handle(
                    fact.peer,
                    fact.message,
                    judge=self.judge,
                    inspect=self._inspect,
                    now=now,
                    at_us=now_us,
                )
            case Minted():
                self.starts, self._mint_above = fact.starts, 0
                for topic in self.version_log.topics.values():
                    topic.epoch = fact.epoch
            case Floors():
                for number, floor in fact.floors.items():
                    self.version_log.topics[number].forget(floor)

    def flush(self, *, now: float, now_us: int) -> tuple[Effect, ...]:
        """Return what may leave now: orders, the commit, then what depends on it."""
        self._now = now
        self.poller.look(now)
        if self.dispatcher.settled:
            self.admin.step(now=now, at_us=now_us)
            self.report_acks.step(
                unresolved=self.loader.oldest_unpublished(), now=now, at_us=now_us
            )
        self._write(self.loader.next_slice(now=now), now_us)
        self._order(now)
        effects, self._wanted = self._wanted, []
        if self.dispatcher.settled:
            self.backfill.touch(now=now, at_us=now_us)
        transactions, policy = self.version_log.take(), self.backfill.take()
        orders, (writes, settled) = self.admin.given(now_us), self.report_acks.commits()
        if self.dispatcher.settled:
            self.poller.resolved(self.loader.oldest_unpublished())
        place = self.poller.place if self.dispatcher.settled else self._place
        news = (transactions, policy, orders, writes, settled)
        if any(news) or place != self._place:
            self._place = place
            effects.append(
                Commit(
                    transactions=transactions,
                    place=place,
                    orders=orders,
                    policy=policy,
                    writes=writes,
                    settled=settled,
                )
            )
        effects += [Publish(transactions=transactions)] if transactions else []
        self._catch_up()
        if self._mint_above and self._caught_up:
            effects.append(MintEpoch(at_least=self._mint_above))
        return (*effects, *self.dispatcher.replies(now=now))

    def deadline(self, now: float) -> float:
        """Return when ``flush`` may have something to do without a new fact."""
        if self.dispatcher.ready or self._unchecked is not None:
            return now
        times = [self.poller.deadline, self._list_at, self.loader.deadline()]
        times += [self.backfill.deadline, self.report_acks.deadline]
        return min([now + IDLE_S, *(time for time in times if time is not None)])

    def judge(self, claim: Claim) -> bool:
        """Return whether a peer's ``claim`` can be continued; if not, a new epoch is ordered.

        Raises:
            WireError: the claim cannot be true.
        """
        versions = dict(zip(self.version_log.topics, self.version_log.versions(), strict=True))
        if judge(self.starts, versions, claim=claim) != AHEAD:
            return True
        self.outgrow(claim.epoch)
        return False

    def outgrow(self, epoch: int) -> None:
        """Begin an epoch above ``epoch``, once everything is as new as the metastore.

        A peer is ahead of a store that was restored: what it has been shown is newer than what
        is held here, until the events since have been read again.
        """
        self._mint_above = max(self._mint_above, epoch)

    def turn(self, mode: Mode) -> bool:
        """Let ``mode`` hold; False if it does already. What it loads is loaded, else not."""
        if not self.backfill.change(mode):
            return False
        self.loader.retain(self._loads)
        if self.dispatcher.serving:
            self._unchecked = self._known_tables()
        return True

    def status(self) -> status.Status:
        """Picture catalogd; the picture does not change afterwards. Cost: O(topics)."""
        (epoch, start), poller = self.position(), self.poller
        topics = status.of_topics(self.version_log.topics)
        problem, warning = status.troubles(
            poller.trouble(self._now),
            self.error,
            serving=self.dispatcher.serving,
            settled=self.dispatcher.settled,
            metastore=self.settings.metastore,
        )
        return status.Status(
            problem=problem,
            warning=warning,
            epoch=epoch,
            start=start,
            num_topics=len(topics) - 1,
            mode=self.backfill.mode.name,
            overrides=overrides_text(self.backfill.mode),
            offers=self.backfill.mode.offers,
            topics_to_touch=self.backfill.topics_left,
            watermark=poller.watermark,
            newest_event=poller.window.last_id if poller.window else 0,
            metastore_silent_s=poller.silent_s(self._now),
            databases=len(self.namespace.databases()),
            tables_to_load=self.loader.tables_left,
            waiting_requests=self.dispatcher.waiting,
            entries=sum(topic.entries for topic in topics),
            held_bytes=sum(topic.held_bytes for topic in topics),
            counts=asdict(self.counts)
            | self.report_acks.counts()
            | {"polls_late": poller.late, "unfit": self.tables.unfit},
            topics=topics,
        )

    def check(self) -> None:
        """Assert every invariant."""
        self.version_log.check()
        self.backfill.check()
        self.admin.check()
        self.report_acks.check()
        self.loader.check()
        if self.poller.window is not None:
            self.poller.window.check()

    def _make_admin(self) -> AdminOrders:
        return AdminOrders(
            self.namespace,
            Jobs(self.namespace, self.tables, self.loader, poller=self.poller, load=self._load),
            poller=self.poller,
            backfill=self.backfill,
            controls=Controls(change_mode=self.turn, follows=self._follows),
        )

    def _make_dispatcher(self) -> Dispatcher:
        return Dispatcher(
            self.namespace,
            self.tables,
            loader=self.loader,
            poller=self.poller,
            admin=self.admin,
            report_acks=self.report_acks,
            version_log=self.version_log,
            counts=self.counts,
            position=self.position,
        )

    def _catch_up(self) -> None:
        """Notice once that every event that was there at the start has been published."""
        if self._first_seq is not None and self.dispatcher.settled:
            self._caught_up |= self.loader.oldest_unpublished() > self._first_seq

    def _on_polled(self, fact: Polled, now: float, now_us: int) -> None:
        batch = self.poller.polled(fact, now)
        if batch is None:
            return
        for event in batch.news.events:
            self.counts.events += 1
            dirty = tuple(dirt for dirt in dirty_objects(event) if self._follows(dirt.db))
            self.counts.degraded += sum(map(_is_degraded, dirty))
            self.loader.mark_dirty(dirty, seq=batch.seq)
        if batch.news.gap is not None:
            self.counts.gaps += 1
            self._gap_seq = batch.seq if self.dispatcher.settled else self._gap_seq
            self.dispatcher.settled, self._list_at = False, now
        if batch.whole:
            self._write(self.loader.on_poll_done(fact.poll), now_us)
            self.dispatcher.on_polled(fact.poll, batch.seq)
            self._first_seq = batch.seq if self._first_seq is None else self._first_seq

    def _on_names(self, fact: NamesRead, now_us: int) -> None:
        self.error, self._listing = "", False
        databases = {db: found for db, found in fact.databases.items() if self._follows(db)}
        tables = {(db, name): kind for db, (_, rows) in databases.items() for name, kind in rows}
        if self.dispatcher.serving:
            self._distrust(
                {*databases, *self.namespace.databases()}, {*tables, *self._known_tables()}
            )
        else:
            structs = {db: thrift for db, (thrift, _) in databases.items()}
            self.namespace.write(structs, tables, source=SOURCE_LOAD, at_us=now_us)
            for table in tables:
                self._load(table)
        self.dispatcher.serving = self.dispatcher.settled = True

    def _distrust(self, databases: set[str], tables: set[TableId]) -> None:
        """Read everything again, as new: events are missing."""
        self.loader.mark_dirty(
            [DirtyDatabase(db=db) for db in sorted(databases)], seq=self._gap_seq
        )
        self.loader.resync(sorted(tables), seq=self._gap_seq)

    def _write(self, effects: tuple[Result, ...], now_us: int) -> None:
        for withdrawn in self._materializer.apply(effects, now_us):
            self.counts.withdrawn += 1
            self.dispatcher.on_withdrawn(withdrawn)

    def _order(self, now: float) -> None:
        """Order what may be asked of the metastore now."""
        based = self.poller.window is not None or not self.poller.enabled
        if self._list_at is not None and now >= self._list_at and based and not self._listing:
            self._list_at, self._listing = None, True
            self._wanted.append(ReadNames())
        self._wanted += self.admin.listings()
        if self.dispatcher.serving:
            self._check_some()
            found = self.loader.reads(now=now)
            self.counts.reads += len(found)
            self._wanted += found
        if self.loader.wants_poll or self.dispatcher.wants_poll:
            self.poller.hasten(now)
        waits = self.poller.window is not None and not self.dispatcher.serving
        if self.poller.may_begin(now) and not waits:
            self._wanted.append(self.poller.begin(self.loader.begin_poll(), now))

    def _check_some(self) -> None:
        """Look for tables that a restart left without content."""
        for _ in range(CHECKED_PER_TURN if self._unchecked is not None else 0):
            table = next(self._unchecked, None) if self._unchecked is not None else None
            if table is None:
                self._unchecked = None
                return
            self._load(table)

    def _load(self, table: TableId) -> None:
        """Load ``table`` in the background, if that is to be done without being asked."""
        if self._loads(table) and not self.tables.loaded(table):
            self.loader.load(table)

    def _loads(self, table: TableId) -> bool:
        return self.settings.load_in_background and not self.backfill.mode.withholds(table)

    def _inspect(self, what: str) -> Inspected | None:
        found = status.table(self.status(), what)
        return Inspected(request=0, columns=found[0], rows=found[1]) if found else None

    def _follows(self, db: str) -> bool:
        return db not in self.settings.blacklisted_dbs

    def _known_tables(self) -> Iterator[TableId]:
        for db in self.namespace.databases():
            for record in tuple(self.namespace.tables(db)):
                yield db, record.name


def _is_degraded(dirt: Dirty) -> bool:
    return isinstance(dirt, DirtyDatabase | DirtyTable) and dirt.degraded
