"""EventRouter: decides whether an event is applied, has objects read again, or is left out.

poll ──▶ new events ──▶ objects ──followed?──▶ applied in place, or dirty ──▶ the loader
             └─ events missing, passed or skipped ──▶ everything is read again
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ...topics.turn import PartTurn
from ...topics.wire.messages.data import SOURCE_EVENTS
from ..content.unloading import Unloading
from ..ingest.events.actions import (
    SKIPPED,
    STATISTICS,
    TRANSACTIONS,
    dirty_objects,
    is_known,
    named_objects,
)
from ..ingest.events.event_batches import EventBatches
from ..ingest.events.event_log import LEFT_OUT, NOT_FOLLOWED, NOTHING, RUNS, EventLog
from ..ingest.events.event_processor import EventProcessor
from ..ingest.events.event_window import Gap
from ..ingest.events.identity import Identified
from ..ingest.events.poller import Batch, Polled, Poller, PollFailed
from ..ingest.events.transactions import Transactions
from ..ingest.loads.follow_rules import Follow, FollowRules
from ..ingest.loads.in_place import InPlace
from ..ingest.loads.loader import Loader
from ..ingest.loads.needs import Result
from ..metastore.port import (
    Dirty,
    DirtyDatabase,
    DirtyPartitions,
    DirtyTable,
    RawEvent,
    untried,
)
from ..model.namespace import Namespace
from ..model.tables import Tables
from ..reconcile.reconciliation import Reconciliation
from .name_listing import Lifecycle, NameListing, missing
from .notes import CatalogCounts, Noted

CREATE_TABLE: Final = "CREATE_TABLE"
TYPES_MAX: Final = 32  # of events that are not understood, to be named; 4.2 has 31
DOUBT_S: Final = 3600.0  # how long the status warns of an event that was not understood


class EventRouter:
    """Applies the events that polls bring, has objects read again, or leaves events out."""

    def __init__(
        self,
        namespace: Namespace,
        tables: Tables,
        *,
        loader: Loader,
        poller: Poller,
        reconciliation: Reconciliation,
        listing: NameListing,
        follow_rules: FollowRules,
        in_place: InPlace,
        unloading: Unloading,
        event_batches: EventBatches,
        event_log: EventLog,
        event_processor: EventProcessor,
        follows: Callable[[str], bool],
        write_results: Callable[[tuple[Result, ...]], None],
        counts: CatalogCounts,
        turn: PartTurn[Noted],
        finding: str,
    ) -> None:
        """Take the parts that events concern.

        ``follows``: whether the operator does not leave a database out. ``write_results`` writes
        what was read. ``finding``: why catalogd reads everything anew, if it does.
        """
        self._namespace = namespace
        self._tables = tables
        self._loader = loader
        self._poller = poller
        self._reconciliation = reconciliation
        self._listing = listing
        self._follow_rules = follow_rules
        self._in_place = in_place
        self._unloading = unloading
        self._event_batches = event_batches
        self._event_log = event_log
        self._event_processor = event_processor
        self._follows = follows
        self._write_results = write_results
        self._counts = counts
        self._turn = turn
        self.finding = finding  # of the last check of a connection, as text
        self.first_seq: int | None = None  # arrival number of what the first poll brought
        self._has_polled = False  # this turn has taken events, so it takes no more of an answer
        self._transactions = Transactions()
        window = poller.window
        self._newest_id = 0 if window is None else window.newest_id  # of the events that were seen
        self._release = ""  # of the metastore, as it says
        self._not_understood: dict[str, float] = {}  # types of events, and when the last came
        self._failed_types: set[str] = set()  # of events at which Topicast's own code failed

    def check(self) -> None:
        """Assert every invariant."""
        self._transactions.check()

    def on_failed(self, fact: PollFailed) -> None:
        """Note a poll that failed; pass the events that the metastore cannot send."""
        self._counts.polls_failed += 1
        passed = self._poller.on_failed(fact)
        if passed is not None:
            self._on_passed(passed)

    def not_understood(self) -> tuple[str, ...]:
        """Return the types of events that were not understood lately."""
        since = self._turn.now - DOUBT_S
        return tuple(one or "(no type)" for one, at in self._not_understood.items() if at > since)

    def on_polled(self, fact: Polled) -> None:
        """Route the events that a poll has brought."""
        self._has_polled = True
        batch = self._poller.on_polled(fact)
        if batch is None:
            return
        if batch.gap is not None:  # first, so that its events do not publish a part of a table
            self._listing.on_gap(batch.gap, batch.seq)
        every: list[Dirty] = []
        for event in batch.events:
            self._counts.events += 1
            outcome, dirty = self._on_event(event, seq=batch.seq)
            self._event_log.add(event, dirty, outcome=outcome, seq=batch.seq)
            every += dirty
        self._event_batches.begin(batch.events, every, seq=batch.seq, missing=missing(batch.gap))
        self._write_results(self._in_place.results(batch.seq))
        if self._reconciliation.missed and batch.events:
            self._reconciliation.on_events(connection=fact.connection)
        if batch.whole:
            self._write_results(self._loader.on_poll_done(fact.poll))
            self.first_seq = batch.seq if self.first_seq is None else self.first_seq

    def take_rest(self) -> None:
        """Take more of an answer that is too large for one turn, unless this turn took events."""
        if not self._has_polled and (rest := self._poller.rest()) is not None:
            self.on_polled(rest)
        self._has_polled = False

    def _on_event(self, event: RawEvent, *, seq: int) -> tuple[str, tuple[Dirty, ...]]:
        """Route ``event``; return its outcome, and the objects that it makes dirty."""
        is_late = event.id <= self._newest_id  # the objects in its message may be old
        self._newest_id = max(self._newest_id, event.id)
        found = self._objects_of(event)
        dirty = tuple(one for one in found if self._follows(one.db))
        elsewhere = bool(event.catalog or (found and not dirty))
        self._counts.events_elsewhere += elsewhere
        if self._reconciliation.suspects:
            self._reconciliation.on_event(dirty)
        follow, dirty = self._follow_rules.judge(event, dirty)
        if follow is Follow.SKIP:
            self._counts.events_sync_off += 1
            return NOT_FOLLOWED, ()
        self._note_type(event, dirty)
        applies = follow is not Follow.RELOAD and not is_late
        self._loader.mark_dirty(self._apply(event, dirty) if applies else dirty, seq=seq)
        self._loader.mark_dirty(self._unknown(dirty), seq=seq)
        self._raise_unheld(dirty)
        tables = {(one.db, one.table) for one in dirty if not isinstance(one, DirtyDatabase)}
        if event.type in STATISTICS:
            for table in tables:
                self._tables.raise_version(table, source=SOURCE_EVENTS)
        if follow is Follow.RELOAD:
            if event.type == CREATE_TABLE:  # the drop of the former table was left out
                ended = [DirtyTable(db=db, table=t, whole=True, dropped=True) for db, t in tables]
                self._loader.mark_dirty(ended, seq=seq)
            self._loader.resync(sorted(tables), seq=seq)
        if elsewhere:
            return LEFT_OUT, ()
        return (RUNS if dirty else NOTHING), dirty

    def _apply(self, event: RawEvent, dirty: tuple[Dirty, ...]) -> tuple[Dirty, ...]:
        """Apply the content of ``event`` in place; return the objects that must be read."""
        if not self._listing.serving:
            return dirty
        rest = tuple(one for one in dirty if not self._needs_no_read(one, said_bytes=event.size))
        self._counts.events_in_place += bool(dirty and not rest)
        return rest

    def _needs_no_read(self, one: Dirty, *, said_bytes: int) -> bool:
        """Apply what an event says of ``one``, if that replaces a read; return whether it does."""
        if not isinstance(one, DirtyDatabase) and self._loader.needs_resync((one.db, one.table)):
            return False
        return self._in_place.take(one, said_bytes=said_bytes) or self._stays_unloaded(one)

    def _stays_unloaded(self, one: Dirty) -> bool:
        """Raise the version of a table that is unloaded; return whether ``one`` is such a table."""
        if not isinstance(one, DirtyTable) or one.dropped or one.degraded:
            return False
        table = one.db, one.table
        known = self._namespace.find(table) is not None and not self._loader.pending(table)
        if not known or not self._unloading.leaves_out(table):
            return False
        self._tables.raise_unloaded(table, source=SOURCE_EVENTS)
        return True

    def _objects_of(self, event: RawEvent) -> tuple[Dirty, ...]:
        """Return what ``event`` makes dirty: all that it names, if Topicast's own code fails."""
        try:
            if event.type in TRANSACTIONS:
                return self._transactions.dirty_objects(event)
            return dirty_objects(event)
        except Exception as error:  # noqa: BLE001 - a defect of ours harms one object, not the stream
            self._counts.events_failed += 1
            if event.type not in self._failed_types and len(self._failed_types) < TYPES_MAX:
                self._failed_types.add(event.type)
                what = f"event {event.id} ({event.type} of {event.db}.{event.table})"
                text = f"{what}: {type(error).__name__}: {error}: what it names is read again whole"
                self._note(f"a defect of Topicast at {text}", trouble=True)
            self._listing.read_names_again()  # it may be a rename
            return named_objects(event)

    def _note_type(self, event: RawEvent, dirty: tuple[Dirty, ...]) -> None:
        """Count an event that is skipped or not understood; log once each type not understood."""
        if event.catalog:
            return
        if event.type in SKIPPED:
            self._counts.events_skipped += 1
            return
        known = is_known(event.type)
        broken = any(not isinstance(one, DirtyPartitions) and one.degraded for one in dirty)
        if known and not broken:
            return
        self._counts.events_not_understood += 1
        if event.type not in self._not_understood:
            why = "cannot be decoded" if known else "are of a type that is not known"
            text = f"events {event.type or '(no type)'} {why}: what they name is read again whole"
            self._note(text, trouble=True)
        if event.type in self._not_understood or len(self._not_understood) < TYPES_MAX:
            self._not_understood[event.type] = self._turn.now
        if not known and not dirty:
            self._listing.read_names_again()

    def _unknown(self, dirty: Iterable[Dirty]) -> Iterator[Dirty]:
        """Yield the objects of ``dirty`` that catalogd lacks: no event of their creation came."""
        for one in dirty if self._listing.names_known else ():
            database, pending = (one.db, ""), self._loader.pending
            if not (self._namespace.has_database(one.db) or pending(database)):
                yield DirtyDatabase(db=one.db)
            if isinstance(one, DirtyPartitions):
                table = one.db, one.table
                if self._namespace.find(table) is None and not pending(table):
                    yield DirtyTable(db=one.db, table=one.table, whole=True)

    def _raise_unheld(self, dirty: Iterable[Dirty]) -> None:
        """Raise the data version of each table that is not loaded and has written partitions.

        The loader reads nothing of such a table, or reads it as part of a load. A load does not
        notify readers of a change, so that without this no reader would learn of the write.
        """
        for one in dirty:
            if not (isinstance(one, DirtyPartitions) and one.data):
                continue
            table = one.db, one.table
            if self._namespace.find(table) is not None and not self._tables.loaded(table):
                self._tables.raise_data(table, partitions=one.names, source=SOURCE_EVENTS)

    def _on_passed(self, batch: Batch) -> None:
        """Read everything again: nobody knows what the events that are passed have changed."""
        assert batch.gap is not None
        first, last = batch.gap
        self._counts.events_passed += last - first + 1
        text = f"events {first} to {last} are passed, and all is read again: {batch.passed}"
        self._note(text, trouble=True)
        self._listing.on_gap(batch.gap, batch.seq)
        self._event_batches.begin((), [], seq=batch.seq, missing=missing(batch.gap))

    def skip(self, id_: int) -> Gap:
        """Pass every event up to ``id_`` that was not read, and read everything again.

        Returns the ids of the first and the last event that are passed.

        Raises:
            UsageError: as of ``Poller.skip``.
        """
        batch = self._poller.skip(id_)
        assert batch.gap is not None
        self._on_passed(batch)
        return batch.gap

    def on_identified(self, fact: Identified) -> None:
        """Go on if a new connection leads to the same metastore; else abandon what is held."""
        if fact.release != self._release:
            self._release = fact.release
            if untried(fact.release):
                self._note(untried(fact.release), trouble=True)
        self._in_place.begin(enabled=fact.tells_all)
        finding = self._poller.on_identified(fact)
        if finding is None:
            return
        self.finding = str(finding)
        self._note(f"connected to {finding}", trouble=not finding.same)
        if not finding.same:
            self._listing.abandon()
            self._event_processor.observe(stopped=str(finding))
            return
        self._loader.read_again()  # a metastore restored from a copy may be older than the reads
        if finding.by_tables or self._listing.lifecycle is Lifecycle.RELISTING:
            # Polls may show no gap: the ids of another log of events can continue those of the
            # former log. Names that are being read may come from the connection before.
            self._listing.read_again(self._poller.doubt())
        self._move()
        if (first := self._poller.first_poll(fact)) is not None:
            self.on_polled(first)

    def _move(self) -> None:
        """Go on at the event that an operator ordered; if that skips any, read everything again."""
        moved = self._poller.move()
        if moved is None:
            return
        at, gap = moved
        window = self._poller.window
        assert window is not None
        text = f"events are followed from {window.last_id} on, as an operator ordered"
        self._note(text, trouble=False)
        if gap is not None:
            self._listing.on_gap(gap, self._poller.seq)
        elif at < 0:
            self._listing.read_again(self._poller.seq)

    def _note(self, text: str, *, trouble: bool) -> None:
        self._turn.add(Noted(text=text, trouble=trouble))
