"""Introspection: answers about catalogd itself: its status, its events, states of its tables.

    shell, twice a second ──▶ status_in_slices ──parts of the core──▶ Status
    Question ──▶ answer ──▶ Inspected

It changes nothing.
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ..topics.clock import Clock
from ..topics.memory.memory_limit import MemoryLimit
from ..topics.slices import in_slices
from ..topics.wire.messages.answers import (
    EventLines,
    HeldTopic,
    Inspected,
    TableState,
    TableStates,
)
from ..topics.wire.messages.questions import (
    TABLE_STATES_MAX,
    Question,
    ReadEventLog,
    ReadTableStates,
)
from . import status
from .content.backfill import Backfill
from .content.unloading import Unloading
from .effects import Connections
from .follow.event_router import EventRouter
from .follow.name_listing import NameListing
from .follow.notes import CatalogCounts
from .follow.unreadable import Unreadable
from .ingest.events.event_batches import EventBatches
from .ingest.events.event_log import EventLog
from .ingest.events.event_processor import EventProcessor
from .ingest.events.poller import Poller
from .ingest.loads.follow_rules import FollowRules
from .ingest.loads.load_progress import LoadProgress
from .ingest.loads.loader import Loader
from .ingest.writes.reports import Reports
from .model.lineage import Epochs
from .model.modes import overrides_text
from .model.namespace import Namespace
from .model.tables import Tables
from .model.versions import VersionLog
from .reconcile.reconciliation import Reconciliation
from .serve.dispatcher import Dispatcher
from .status import CatalogStatus, MetastoreFacts


class CatalogIntrospection:
    """Reads the parts of the core. ``connections``: those of the shell, as last seen."""

    def __init__(
        self,
        namespace: Namespace,
        tables: Tables,
        *,
        version_log: VersionLog,
        epochs: Epochs,
        loader: Loader,
        poller: Poller,
        listing: NameListing,
        event_router: EventRouter,
        event_batches: EventBatches,
        event_log: EventLog,
        event_processor: EventProcessor,
        unreadable: Unreadable,
        follow_rules: FollowRules,
        reconciliation: Reconciliation,
        reports: Reports,
        backfill: Backfill,
        unloading: Unloading,
        dispatcher: Dispatcher,
        memory: MemoryLimit | None,
        counts: CatalogCounts,
        metastore: str,
        off_by_default: bool,
        clock: Clock,
    ) -> None:
        """Answer for these parts; ``metastore`` and ``off_by_default`` are the operator's."""
        self._namespace, self._tables = namespace, tables
        self._version_log = version_log
        self._epochs = epochs
        self._loader = loader
        self._poller = poller
        self._listing = listing
        self._event_router = event_router
        self._event_batches = event_batches
        self._event_log = event_log
        self._event_processor = event_processor
        self._unreadable = unreadable
        self._follow_rules = follow_rules
        self._reconciliation = reconciliation
        self._reports = reports
        self._backfill = backfill
        self._unloading = unloading
        self._dispatcher = dispatcher
        self._memory = memory
        self._counts = counts
        self._metastore = metastore
        self._off_by_default = off_by_default
        self._progress = LoadProgress(clock)
        self.connections = Connections()

    def answer(self, question: Question[Any]) -> Inspected:
        """Return the answer to ``question``, which is one of CATALOG_ANSWERS."""
        if isinstance(question, ReadEventLog):
            rows = self._event_log.after(None if question.newest else question.after)
            return EventLines(request=question.request, rows=rows)
        if isinstance(question, ReadTableStates):
            some = question.tables[:TABLE_STATES_MAX]
            states = tuple([row for name in some for row in self._state_of(name)])
            return TableStates(request=question.request, rows=states)
        return status.answer(self.status(), question)

    def status(self) -> CatalogStatus:
        """Return the status of catalogd; it does not change afterwards. Cost: O(topics)."""
        return next(one for one in self.status_in_slices() if one is not None)

    def status_in_slices(self) -> Iterator[CatalogStatus | None]:
        """Yield None after each slice of a status, and the status at last.

        Its totals are sums of its rows, so both agree though they were not counted at one moment.
        """
        topics: list[HeldTopic] = []
        rows = self._version_log.topics.items()
        yield from in_slices(rows, lambda one: status.topic_status(*one), into=topics)
        yield self._status(tuple(topics))

    def _state_of(self, name: str) -> Iterator[TableState]:
        """Yield a row if the table ``name`` is not as it should be."""
        db, _, of_db = name.partition(".")
        table = db, of_db
        if why := self._unreadable.tables.get(table, ""):
            yield TableState(name, status.UNREADABLE, why)
        elif bad := self._loader.large.bad_partitions().get(table):
            yield TableState(
                name, status.PARTITIONS_UNREADABLE, status.first_named(bad, of=len(bad))
            )
        elif text := self._loader.large.loading().get(table):
            yield TableState(name, status.LOADING, text)
        elif self._namespace.find(table) is not None and self._follow_rules.is_off(table):
            yield TableState(name, status.UNFOLLOWED, "")

    def _status(self, topics: tuple[HeldTopic, ...]) -> CatalogStatus:
        (epoch, start), poller, mode = self._epochs.position, self._poller, self._backfill.mode
        load = self._progress.measure(self._loader.tables_left)
        metastore = MetastoreFacts(
            addresses=self._metastore,
            polls=poller.problem(),
            names=self._listing.error,
            names_known=self._listing.names_known,
            listed=self._listing.progress,
            missing=self._listing.missing,
            source_problem=self._namespace.source_problem(),
            unproven=poller.unproven,
            not_understood=self._event_router.not_understood(),
        )
        return CatalogStatus(
            metastore=metastore,
            hubs=self.connections.hubs,
            refused_handshake=self.connections.refused_handshake,
            rules=self._namespace.rules(),
            epoch=epoch,
            start=start,
            num_topics=len(topics) - 1,
            mode=mode.name,
            overrides=overrides_text(mode),
            offers=mode.offers,
            topics_to_backfill=self._backfill.topics_left,
            watermark=poller.watermark,
            newest_event=poller.newest,
            lag_events=poller.lag_events,
            lag_s=poller.lag_s(),
            metastore_uuid=poller.window.uuid if poller.window else "",
            metastore_found=self._event_router.finding,
            metastore_silent_s=poller.silent_s(),
            databases=self._namespace.databases_count,
            tables_to_load=load.left,
            load_read=load.read,
            load_left_s=load.left_s,
            loading=status.first_of(self._loader.large.loading() | self._loader.large.comparing()),
            tables_unreadable=len(self._unreadable.tables),
            sync_off_by_default=self._off_by_default,
            partitions_unreadable=len(self._unreadable.partitions),
            unreadable=status.first_of(self._unreadable.tables) or self._unreadable.first_partition,
            waiting_requests=self._dispatcher.waiting,
            entries=sum(topic.entries or 0 for topic in topics),
            held_bytes=sum(topic.held_bytes or 0 for topic in topics),
            cold_bytes=sum(one.cold_bytes for one in self._version_log.topics.values()),
            memory=None if self._memory is None else self._memory.facts,
            counts=asdict(self._counts)
            | self._dispatcher.counts
            | self._reports.counts()
            | {f"reconcile_{name}": n for name, n in asdict(self._reconciliation.counts).items()}
            | {"polls_late": poller.late, "tables_rejected": self._tables.rejected}
            | {"tables_unloaded": self._unloading.unloaded},
            topics=topics,
            reconciliation=self._reconciliation.progress.facts(),
            events=self._event_batches.facts(
                [self._loader.left(seq) for seq in self._event_batches.running_seqs],
            ),
            processor=self._event_processor.facts,
            pull_times=self._dispatcher.pull_times,
        )
