"""AdminOrders: the orders of operators, carried out at once, or as jobs of several turns.

    mode, drivers, events  ──▶ answered at once
    invalidate, refresh    ──▶ job: names listed ──▶ some tables a turn ──▶ answered when done

A job on a database, or on everything, lists the names in the metastore first, unless only data has
changed. All that a job has read again is published before its next step.
Invariant: an order is refused before anything is changed, or carried out to its end.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

from ...topics.backports import StrEnum
from ...topics.errors import ConfigError, NoSuchObject, UsageError, WireError
from ...topics.objects.names import (
    TableId,
    check_partition_name,
    database_key,
    parse_table_name,
    table_key,
)
from ...topics.objects.rules import rule_of, with_rule
from ...topics.topic import offered_names
from ...topics.turn import PartTurn
from ...topics.wire.messages.answers import EventText, EventTexts, NamedFacts
from ...topics.wire.messages.data import SOURCE_ORDERS
from ...topics.wire.messages.questions import Order, OrderKind
from ...topics.wire.refusal import Refusal
from ..content.backfill import Backfill
from ..content.background import Background
from ..follow.event_router import EventRouter
from ..ingest.events.actions import decode
from ..ingest.events.event_log import EventLog
from ..ingest.events.event_processor import EventProcessor
from ..ingest.events.poller import Poller
from ..ingest.loads.loader import Loader
from ..metastore.port import (
    Dirty,
    DirtyDatabase,
    DirtyPartitions,
    DirtyTable,
    EventRead,
    RawEvent,
    ReadEvent,
    ReadNames,
)
from ..model.modes import overrides_text, parse_mode
from ..model.namespace import Namespace
from ..model.tables import Tables
from ..model.versions import OrderRow
from .pending import PendingRequests
from .replies import Replies

DATA: Final = "data"  # behind the object that is refreshed
EVENTS_TAKES: Final = (
    "events takes pause, start and perhaps an id, skip or show and an id: topicast events --help"
)
MESSAGE_CHARS_MAX: Final = 4_000  # of an event that is shown
JOBS_MAX: Final = 100
REFRESHED_PER_STEP_MAX: Final = 8  # tables: as many as are read together with their partitions
TABLES_PER_STEP_MAX: Final = 50  # 20 µs each, and their rows in the commit
STALLED_S_MAX: Final = 60.0  # without progress: the metastore does not answer

Listing = Mapping[str, tuple[bytes, tuple[tuple[str, str], ...]]]
"""By database: its Thrift struct, and the (name, type) of its tables."""


class EventVerb(StrEnum):
    """An order about events."""

    PAUSE = "pause"
    START = "start"
    SKIP = "skip"
    SHOW = "show"


@dataclass(slots=True, kw_only=True)
class Job:
    """One order that takes more than a turn; empty names stand for everything below.

    ``data``: only the data has changed, not the metadata in the metastore. ``progress_at``: when
    the last step ended. ``tables``: still to do; None while the names are being listed.
    ``found``: those that the metastore listed. ``requested``, ``failed``: tables of the last step
    that are read again, and those that the metastore could not read, with its error. ``seq``:
    everything up to this arrival number is published before the next step; None: no wait.
    """

    number: int
    order: OrderKind
    db: str = ""
    table: str = ""
    partition: str = ""
    data: bool = False
    progress_at: float
    tables: deque[TableId] | None = None
    found: frozenset[TableId] = frozenset()
    requested: tuple[TableId, ...] = ()
    seq: int | None = None
    done: int = 0
    failed: dict[TableId, str] = field(default_factory=dict)

    @property
    def object(self) -> str:
        """The object as an operator writes it; empty: everything."""
        name = ".".join(filter(None, (self.db, self.table)))
        return f"{name}/{self.partition}" if self.partition else name


class AdminOrders:
    """The orders that were given, their jobs, and the answers to them."""

    def __init__(
        self,
        namespace: Namespace,
        tables: Tables,
        *,
        loader: Loader,
        poller: Poller,
        backfill: Backfill,
        event_processor: EventProcessor,
        replies: Replies,
        turn: PartTurn[ReadNames | ReadEvent],
        event_router: EventRouter,
        background: Background,
        follows: Callable[[str], bool],
    ) -> None:
        self._namespace = namespace
        self._tables = tables
        self._loader = loader
        self._replies = replies
        self._poller = poller
        self._backfill = backfill
        self._event_processor = event_processor
        self._event_router = event_router
        self._background = background
        self._follows = follows
        self._turn = turn
        self._open: dict[int, Job] = {}  # by number
        self._callers: PendingRequests[int, None] = PendingRequests(turn, requests_max=JOBS_MAX)
        """The requests that wait for a job, by its number; a job goes on when its client leaves."""
        self._last_number = 0
        self._to_list: list[tuple[int, str]] = []  # job and database, "" for all
        self._event_callers: PendingRequests[int, int] = PendingRequests(
            turn, requests_max=JOBS_MAX
        )
        """By the job that reads an event of the metastore: the request that waits, and the id."""
        self._events_to_read: list[ReadEvent] = []
        self._given: list[OrderRow] = []  # not stored yet

    def __len__(self) -> int:
        return len(self._open) + len(self._event_callers)

    @property
    def ready(self) -> bool:
        """Whether a turn has something to do without a new fact."""
        return any(job.tables is not None and job.seq is None for job in self._open.values())

    @property
    def deadline(self) -> float:
        """When the next job ends, unless it makes progress; infinite: there is no job."""
        return min((job.progress_at + STALLED_S_MAX for job in self._open.values()), default=inf)

    def on_order(self, peer: bytes, order: Order, *, key: str) -> None:
        """Take in an order that was given with ``key``; refuse a wrong order at once."""
        if any(of.get(peer, order.request) for of in (self._callers, self._event_callers)):
            return  # sent again
        try:
            match _kind_of(order):
                case OrderKind.MODE:
                    given = self._mode(peer, order)
                case OrderKind.DRIVERS:
                    given = self._drivers(peer, order)
                case OrderKind.EVENTS:
                    given = self._order_events(peer, order, key=key)
                case OrderKind.INVALIDATE | OrderKind.REFRESH as kind:
                    given = self._begin(peer, order, kind)
        except NoSuchObject as error:
            why = str(error)
            self._replies.refuse(peer, order.request, Refusal.NO_OBJECT, why=why, about=error.name)
        except (UsageError, ConfigError) as error:
            self._replies.refuse(peer, order.request, Refusal.ORDER, why=str(error))
        else:
            if given is not None:
                self._given.append(
                    OrderRow(
                        sender=order.sender,
                        key=key,
                        order=order.order,
                        object=given,
                        at_us=self._turn.now_us,
                    )
                )

    def on_event_read(self, fact: EventRead, log: EventLog) -> None:
        """Answer with the events of an id, the objects that each has changed, and its outcome."""
        for caller in self._event_callers.take(fact.job):
            peer, request = caller.peer, caller.request
            if fact.error:
                self._replies.refuse(peer, request, Refusal.SOURCE, why=fact.error)
            elif not fact.events:
                why = (
                    f"event {caller.value} is not in the metastore's log: cleaned, or not there yet"
                )
                self._replies.refuse(peer, request, Refusal.GONE, why=why)
            else:
                rows = tuple(_event_row(one, log) for one in fact.events)
                self._replies.add(peer, EventTexts(request=request, rows=rows))

    def order(self) -> None:
        """Order the names that jobs wait for, and the events that operators want to see."""
        to_list, self._to_list = self._to_list, []
        for job, db in to_list:
            self._turn.add(ReadNames(job=job, db=db))
        to_read, self._events_to_read = self._events_to_read, []
        for event in to_read:
            self._turn.add(event)

    def on_names(self, number: int, databases: Listing) -> None:
        """Take in the names that job ``number`` waits for."""
        job = self._open.get(number)
        if job is None:
            return
        job.progress_at = self._turn.now
        found = {db: rows for db, rows in databases.items() if self._follows(db)}
        if not self._start(job, found):
            self._end_missing(job, job.db)

    def on_names_failed(self, number: int, error: str) -> None:
        """End job ``number``: the names that it waits for could not be read."""
        job = self._open.get(number)
        if job is not None:
            self._end(job, (Refusal.SOURCE, f"the metastore does not answer: {error}"))

    def on_unreadable(self, table: TableId, error: str) -> None:
        """Note that a table cannot be read."""
        for job in self._open.values():
            if table in job.requested:
                job.failed[table] = error

    def remove_peer(self, peer: bytes) -> None:
        """Stop answering ``peer``; its orders are carried out all the same."""
        self._callers.remove_peer(peer)
        self._event_callers.remove_peer(peer)

    def step(self) -> None:
        """Carry out one step of each job."""
        now = self._turn.now
        for job in tuple(self._open.values()):
            if not self._waits(job):
                job.progress_at = now
                if self._advance(job):
                    self._done(job)
            elif now >= job.progress_at + STALLED_S_MAX:
                reason = self._poller.paused or self._poller.error or "it is slow"
                why = f"the metastore does not answer: {reason}"
                self._end(job, (Refusal.SOURCE, why))

    def given(self) -> tuple[OrderRow, ...]:
        """Hand over the orders that were given, for the history."""
        given, self._given = tuple(self._given), []
        return given

    def check(self) -> None:
        """Assert every invariant."""
        self._callers.check()
        self._event_callers.check()
        assert len(self._open) <= JOBS_MAX
        assert all(number in self._open for number in self._callers.awaited())
        assert all(job.number == number for number, job in self._open.items())

    def _mode(self, peer: bytes, order: Order) -> str | None:
        """Answer with the mode, after a change of it; return the change."""
        given = None
        if len(order.arguments) > 2:
            raise UsageError("mode takes a mode and its overrides")
        mode = self._backfill.mode
        if order.arguments:
            name, *more = order.arguments
            mode = parse_mode(name, more[0] if more else overrides_text(mode))
            self._background.change_mode(mode)
            given = f"{name} {overrides_text(mode)}".strip()
        facts: dict[str, str | int] = {
            "mode": mode.name,
            "overrides": overrides_text(mode),
            "offers": offered_names(mode.offers),
            "topics_to_backfill": self._backfill.topics_left,
        }
        self._answer(peer, order.request, facts)
        return given

    def _drivers(self, peer: bytes, order: Order) -> str | None:
        """Answer with the rules for drivers, after a new rule; return that."""
        given = None
        if len(order.arguments) > 2:
            raise UsageError("drivers takes a state and a pattern of applications")
        rules = self._namespace.rules()
        if order.arguments:
            rule = rule_of(*order.arguments)
            rules = with_rule(rules, rule)
            self._namespace.set_rules(rules)
            given = f"{rule.state} {rule.pattern}"
        self._answer(peer, order.request, {one.pattern: one.state for one in rules})
        return given

    def _order_events(self, peer: bytes, order: Order, *, key: str) -> str | None:
        """Answer with the state of events, after a pause or a start; return what has changed."""
        verb, *more = order.arguments or ("",)
        passed = (0, 0)
        match verb, more:
            case EventVerb.PAUSE, []:
                changed = self._event_processor.pause(f"{key} ({order.sender})")
            case EventVerb.START, []:
                changed = self._event_processor.start(None)
            case EventVerb.SHOW, [at]:
                self._show_event(peer, order.request, _event_id(at))
                return None
            case EventVerb.SKIP, [at]:
                passed = self._event_router.skip(_event_id(at))
                changed = True
            case EventVerb.START, [at]:
                changed = self._event_processor.start(_event_id(at))
            case _:
                raise UsageError(EVENTS_TAKES)
        found = self._event_processor.facts
        facts: dict[str, str | int] = {
            "state": found.state.value,
            "because": found.because,
            "since_us": found.since_us,
            "passed_from": passed[0],
            "passed_to": passed[1],
        }
        self._answer(peer, order.request, facts)
        return " ".join(order.arguments) if changed else None

    def _show_event(self, peer: bytes, request: int, event_id: int) -> None:
        if event_id < 1:
            raise UsageError(f"there is no event {event_id}: ids begin at 1")
        self._last_number += 1
        if self._event_callers.add(peer, request, key=self._last_number, value=event_id):
            self._events_to_read.append(ReadEvent(job=self._last_number, id=event_id))
            return
        why = f"{JOBS_MAX} events are being read: try again"
        self._replies.refuse(peer, request, Refusal.BUSY, why=why)

    def _begin(self, peer: bytes, order: Order, kind: OrderKind) -> str | None:
        """Open a job for an order; return its object, or None if there are too many jobs."""
        db, table, partition = self._object(order)
        data = len(order.arguments) > 1
        if self._poller.paused and not data:
            why = f"{order.order} reads from the metastore, and {self._poller.paused}"
            self._replies.refuse(peer, order.request, Refusal.NO_EVENTS, why=why)
            return None
        if len(self._open) >= JOBS_MAX:
            why = f"{JOBS_MAX} orders are being carried out: try again"
            self._replies.refuse(peer, order.request, Refusal.BUSY, why=why)
            return None
        self._last_number += 1
        job = Job(
            number=self._last_number,
            order=kind,
            db=db,
            table=table,
            partition=partition,
            data=data,
            progress_at=self._turn.now,
        )
        self._open[job.number] = job
        self._callers.add(peer, order.request, key=job.number, value=None)
        if table:
            job.tables, job.found = deque([(db, table)]), frozenset([(db, table)])
        elif job.data and self._namespace.has_database(db):
            known = ((db, row.name) for row in self._namespace.tables(db))
            job.tables = deque(sorted(known))
        else:
            self._to_list.append((job.number, db))
        return f"{job.object} {DATA}" if job.data else job.object

    def _object(self, order: Order) -> tuple[str, str, str]:
        _, *more = order.arguments or ("",)
        if more and (order.order, more) != (OrderKind.REFRESH, [DATA]):
            raise UsageError(f"{order.order} takes one object, or none: everything")
        db, table, partition = _parts(order.arguments[0] if order.arguments else "")
        if more and not db:
            raise UsageError("data of everything: name a database, a table or a partition")
        if db and not self._follows(db):
            raise UsageError(f"database {db} is left out (--blacklisted_dbs)")
        must_be = table and (partition or order.order == OrderKind.INVALIDATE)
        if must_be and self._namespace.find((db, table)) is None:
            if not more:
                raise NoSuchObject(f"{db}.{table}")
            partition = ""  # a table that is as new as this is read as a whole
        return db, table, partition

    def _waits(self, job: Job) -> bool:
        """Return whether ``job`` waits for names, or for what it has read again."""
        if job.tables is None or job.seq is None:
            return job.tables is None
        if self._loader.oldest_unpublished() <= job.seq:
            return True
        left = (table for table in job.requested if table not in job.failed)
        return bool(job.table) and any(map(self._loader.large.is_loading, left))

    def _start(self, job: Job, databases: Listing) -> bool:
        """Let ``job`` begin with the listed names; False if none of them is of its object."""
        known = [db for db in self._namespace.databases() if job.db in ("", db)]
        every = {*databases, *known}
        job.found = frozenset((db, row[0]) for db, (_, rows) in databases.items() for row in rows)
        held = {(db, row.name) for db in known for row in self._namespace.tables(db)}
        job.tables = deque(sorted(job.found | held))
        news = (
            every if job.order == OrderKind.REFRESH else every - set(databases).intersection(known)
        )
        if news:
            self._read(job, [DirtyDatabase(db=db) for db in sorted(news)])
        return bool(every)

    def _advance(self, job: Job) -> bool:
        """Carry out the next step of ``job``, which does not wait; return whether it is done."""
        job.seq = None
        if job.tables and job.order == OrderKind.INVALIDATE and not job.partition:
            self._invalidate_some(job)
        elif job.tables and job.data and not self._is_missing(job):
            self._raise_data_of_some(job)
        elif job.tables:  # the list of the metastore may be all that names them
            self._refresh_some(job)
        return not job.tables and job.seq is None

    def _is_missing(self, job: Job) -> bool:
        """Return whether the object of ``job`` does not exist."""
        table = (job.db, job.table)
        if job.partition and self._tables.loaded(table):
            return not self._tables.has_partition(table, job.partition)
        if job.table:
            return self._namespace.find(table) is None
        return bool(job.db) and not self._namespace.has_database(job.db)

    def _invalidate_some(self, job: Job) -> None:
        dirty: list[Dirty] = []
        for table in _take(job, TABLES_PER_STEP_MAX):
            known = self._namespace.find(table) is not None
            if known:
                self._loader.invalidate(table)
                self._tables.end_content(table, source=SOURCE_ORDERS)
                self._background.load(table)
                job.done += 1
            if known != (table in job.found):
                dirty.append(DirtyTable(db=table[0], table=table[1], dropped=known))
        if dirty:
            self._read(job, dirty)

    def _raise_data_of_some(self, job: Job) -> None:
        named = (job.partition,) if job.partition else ()
        for table in _take(job, TABLES_PER_STEP_MAX):
            if self._namespace.find(table) is None:
                continue  # it was dropped since the order began
            self._tables.raise_data(table, partitions=named, source=SOURCE_ORDERS)
            job.done += 1

    def _refresh_some(self, job: Job) -> None:
        if job.partition:
            _take(job, 1)
            partition = DirtyPartitions(
                db=job.db, table=job.table, names=(job.partition,), data=True
            )
            self._read(job, [partition])
            job.done += 1
            return
        dirty: list[Dirty] = []
        for table in _take(job, REFRESHED_PER_STEP_MAX):
            known = self._namespace.find(table) is not None
            if not job.table and known and table in job.found and not self._tables.loaded(table):
                continue  # nothing old can be held
            if not self._namespace.has_database(table[0]):
                dirty.append(DirtyDatabase(db=table[0]))
            whole, named = table in job.found, bool(job.table)
            dirty.append(DirtyTable(db=table[0], table=table[1], whole=whole, data=named))
            job.done += 1
        if dirty:
            self._read(job, dirty)

    def _read(self, job: Job, dirty: Iterable[Dirty]) -> None:
        dirty = tuple(dirty)
        job.seq = self._poller.seq
        job.requested = tuple(
            (one.db, one.table) for one in dirty if not isinstance(one, DirtyDatabase)
        )
        self._loader.mark_dirty(dirty, seq=job.seq)

    def _done(self, job: Job) -> None:
        if self._is_missing(job):
            self._end_missing(job, job.object)
        elif job.failed and job.table:
            error = job.failed[job.db, job.table]
            self._end(job, (Refusal.SOURCE, f"the metastore cannot read {job.object}: {error}"))
        else:
            self._end(job)

    def _end_missing(self, job: Job, name: str) -> None:
        self._end(job, (Refusal.NO_OBJECT, str(NoSuchObject(name))), about=name)

    def _end(
        self, job: Job, refusal: tuple[Refusal, str] | None = None, *, about: str = ""
    ) -> None:
        del self._open[job.number]
        facts: dict[str, str | int] = {
            "order": job.order.value,
            "object": job.object,
            "tables": job.done,
            "failed": len(job.failed),
        }
        for caller in self._callers.take(job.number):
            if refusal is None:
                self._answer(caller.peer, caller.request, facts)
                continue
            code, why = refusal
            self._replies.refuse(caller.peer, caller.request, code, why=why, about=about)

    def _answer(self, peer: bytes, request: int, facts: dict[str, str | int]) -> None:
        rows = NamedFacts(request=request, rows=tuple(facts.items()))
        self._replies.add(peer, rows)


def _kind_of(order: Order) -> OrderKind:
    try:
        return OrderKind(order.order)
    except ValueError:
        raise UsageError(f"no order {order.order!r}: {', '.join(OrderKind)}") from None


def _event_row(event: RawEvent, log: EventLog) -> EventText:
    try:
        message = json.dumps(decode(event).body, ensure_ascii=False)
    except WireError as error:
        message = f"({error})"
    named = f"{event.db}.{event.table}" if event.table.strip() else event.db
    changes, outcome, took_s = log.outcome_of(event)
    return EventText(
        id=event.id,
        type=event.type,
        object=named,
        time_us=event.at_s * 1_000_000,
        format=event.message_format,
        changes=changes,
        outcome=outcome,
        took_s=took_s,
        message=message[:MESSAGE_CHARS_MAX],
    )


def _event_id(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{text!r} is no id of an event: a number, or -1: the newest") from None


def _parts(text: str) -> tuple[str, str, str]:
    """Return database, table and partition of an object's name; those that it lacks are empty."""
    name, slash, partition = text.partition("/")
    if slash:
        check_partition_name(partition)
    if "." in name or slash:
        db, table = parse_table_name(name)
        table_key(db, table)  # refuses a name that no key can hold
        return db, table, partition
    database_key(name)  # likewise
    return name.lower(), "", ""


def _take(job: Job, count: int) -> list[TableId]:
    """Remove and return the next tables of ``job``, whose names were listed."""
    assert job.tables is not None
    return [job.tables.popleft() for _ in range(min(count, len(job.tables)))]
