"""Status: an immutable picture of catalogd, for pages, metrics and operators.

``answer`` gives the answer to a question; other threads may hold a Status.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, Final

from .. import __version__
from ..topics.errors import StoreError, StoreFull
from ..topics.histogram import HistogramFacts
from ..topics.memory.memory_limit import MemoryFacts, memory_short
from ..topics.objects.names import TableId, table_name
from ..topics.objects.rules import ON, Rule
from ..topics.objects.source_problem import ProblemKind, SourceProblem
from ..topics.topic import Topic
from ..topics.verdict import (
    Reason,
    RefusedHandshake,
    Serving,
    Verdict,
    refused_handshakes,
    verdict_of,
)
from ..topics.wire.messages.answers import (
    EventCost,
    EventCosts,
    HeldTopic,
    HeldTopics,
    HubFacts,
    HubList,
    Inspected,
    NamedFacts,
    Reasons,
)
from ..topics.wire.messages.fields import Cell
from ..topics.wire.messages.questions import (
    Question,
    ReadEventCosts,
    ReadEvents,
    ReadHeldTopics,
    ReadHubs,
    ReadStatus,
    ReadVerdict,
)
from .event_status import event_facts
from .ingest.events.event_batches import EventFacts
from .ingest.events.event_processor import EventState, ProcessorFacts
from .ingest.events.poller import UNPROVEN
from .reconcile.progress import ReconciliationFacts

NAMED_MAX: Final = 5  # tables, each with an error of a line
BEHIND_S: Final = 60.0  # that changes of the metastore wait: as long as a call that hangs may last
HUB_AWAY_S: Final = 2.0  # until a hub that is being connected counts as away: a restart takes 1 s
APART: Final = frozenset(
    (
        *("metastore", "hubs", "refused_handshake", "store_problem", "rules", "counts", "topics"),
        "memory",
        *("events", "processor", "pull_times", "reconciliation"),
    )
)
"""The fields of a Status that are not facts of one value."""
UNREADABLE: Final = "unreadable"  # a table, as are those below
PARTITIONS_UNREADABLE: Final = "partitions unreadable"
LOADING: Final = "loading"
UNFOLLOWED: Final = "not followed"
COMPARISON_TIMES: Final = ("reconcile_ended_s", "reconcile_late_s")
CATCHING_UP: Final = "events were paused, and what has changed meanwhile is being read"
SERVED_ON: Final = "hubs and drivers serve what they have meanwhile"
TRIED_AGAIN: Final = "catalogd tries again every few seconds"
TRY_EVENTS: Final = "topicast doctor --role catalogd, on this host, tries whether events come"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreFacts:
    """The facts that catalogd has of its metastore.

    Attributes:
        addresses: As the operator set them.
        polls: Why polls bring no events; empty when they do.
        names: Why the last listing or read failed; empty when it did not.
        names_known: Whether names were ever read.
        listed: Of how many databases the running listing has read the names, and how many there
            are; (0, 0) before its first portion.
        missing: Which events are missing; empty if none is.
        source_problem: Why no change of the metastore will arrive; None when they do.
        unproven: Whether it does not say that it records events, and none has come.
        not_understood: Types of events of the last hour; what such events name is read again whole.
    """

    addresses: str
    polls: str = ""
    names: str = ""
    names_known: bool = True
    listed: tuple[int, int] = (0, 0)
    missing: str = ""
    source_problem: SourceProblem | None = None
    unproven: bool = False
    not_understood: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogStatus:
    """catalogd at one moment.

    Attributes:
        refused_handshake: The last of a client without a key that is admitted; None: none was.
        store_problem: Why nothing can be stored now. While that is so, all else is as of the last
            commit, and the lag is not known.
        memory: What is known of the limit of memory; None: there is none.
        rules: Those that operators set for drivers.
        newest_event: The id of the metastore's newest event, as its last answer said.
        lag_events: How many events of the metastore are not published yet.
        lag_s: For how long the metastore may have had changes that are not published; None without
            polls, and before everything was published once.
        metastore_uuid: Empty if the metastore has none.
        metastore_found: What the last check of a connection has found: the same metastore or
            another, and why; empty before the first check.
        metastore_silent_s: How long ago a poll was answered last, or catalogd started; None without
            polls.
        load_read: Tables that were read since the running load began.
        load_left_s: How long ``tables_to_load`` take at the pace of the last minute; None: not
            known.
        loading: Some of the large tables that are read or compared a part at a time, and how far
            each is.
        tables_unreadable: Tables that the metastore cannot read, or that are rejected.
        partitions_unreadable: Partitions of tables whose other partitions are served.
        unreadable: Some of these tables and partitions, each with the reason.
        sync_off_by_default: Whether tables are followed only if they, or their database, say so.
        held_bytes: What entries take in memory.
        cold_bytes: Bytes of values that are in the store alone, because of the limit of memory.
        events: What became of the last batches of events.
        processor: Whether events are followed.
        reconciliation: How the comparison with the metastore goes.
        pull_times: The seconds from the arrival of pulls until their last part was sent.
    """

    metastore: MetastoreFacts
    hubs: tuple[HubFacts, ...] = ()
    refused_handshake: RefusedHandshake | None = None
    store_problem: StoreError | None = None
    memory: MemoryFacts | None = None
    rules: tuple[Rule, ...] = ()
    epoch: int
    start: int
    num_topics: int
    mode: str
    overrides: str
    offers: int
    topics_to_backfill: int
    watermark: int
    newest_event: int
    lag_events: int | None
    lag_s: float | None
    metastore_uuid: str
    metastore_found: str
    metastore_silent_s: float | None
    databases: int
    tables_to_load: int
    load_read: int
    load_left_s: float | None
    loading: str
    tables_unreadable: int
    partitions_unreadable: int
    unreadable: str
    sync_off_by_default: bool
    waiting_requests: int
    entries: int
    held_bytes: int
    cold_bytes: int
    counts: dict[str, int]
    topics: tuple[HeldTopic, ...]
    events: EventFacts
    processor: ProcessorFacts
    reconciliation: ReconciliationFacts
    pull_times: HistogramFacts


def topic_status(number: int, topic: Topic) -> HeldTopic:
    """Return the status of one topic."""
    return HeldTopic(
        topic=number,
        version=topic.version,
        floor=topic.floor,
        entries=len(topic),
        held_bytes=topic.held_bytes,
    )


def first_of(tables: Mapping[TableId, str]) -> str:
    """Return the first of ``tables``, each with what is said of it, and how many more there are."""
    some = {table_name(*table): why for table, why in islice(tables.items(), NAMED_MAX)}
    return first_named(some, of=len(tables))


def first_named(found: Mapping[str, str], *, of: int) -> str:
    """Return the first objects of ``found``, with what is said of each, and how many more.

    ``of``: how many there are, which may be more than ``found`` has.
    """
    named = [f"{name}: {why}" for name, why in islice(found.items(), NAMED_MAX)]
    more = of - len(named)
    return "; ".join([*named, *([f"{more} more"] if more else [])])


def without_store(status: CatalogStatus, problem: StoreError) -> CatalogStatus:
    """Return ``status`` while nothing can be stored: how far behind that falls nobody looks."""
    return replace(status, store_problem=problem, lag_events=None, lag_s=None)


def verdict(status: CatalogStatus) -> Verdict:
    """Return whether catalogd serves."""
    return verdict_of(
        (
            *_store(status.store_problem),
            *memory_short(status.memory),
            *_metastore(status),
            *_lag(status),
            *_comparison(status.reconciliation),
            *_hubs(status.hubs),
            *_rules(status.rules),
            *refused_handshakes(status.refused_handshake),
        )
    )


def _store(found: StoreError | None) -> Iterator[Reason]:
    """Yield why nothing is answered before it is stored."""
    if found is None:
        return
    what, mend = f"{found.path}: {found.problem}", f"{found.remedy}; {SERVED_ON}"
    if isinstance(found, StoreFull):
        yield Reason(state=Serving.NOT_SERVING, code="store_full", what=what, mend=mend)
    else:
        yield Reason(state=Serving.NOT_SERVING, code="store_moved", what=what, mend=mend)


def _metastore(status: CatalogStatus) -> Iterator[Reason]:
    """Yield what catalogd lacks of its metastore."""
    found = status.metastore
    where = f"does the metastore run, and at --hive_metastore_uris={found.addresses}?"
    failed = found.polls or found.names
    reason, mend = (f": {failed}", f"{TRIED_AGAIN}: {where}") if failed else ("", "wait")
    if not found.names_known:
        read, total = found.listed
        so_far = f", of {read} of {total} databases so far" if read else ""
        yield Reason(
            state=Serving.NOT_SERVING,
            code="metastore_names",
            what=f"reading names from the metastore{so_far}{reason}",
            mend=mend,
            starting=not failed,
        )
        return
    if found.source_problem is not None:
        yield _source(found.source_problem, status.processor.state)
    if found.polls:
        yield Reason(
            state=Serving.DEGRADED,
            code="metastore_silent",
            what=f"the metastore does not answer{reason}",
            mend=mend,
        )
    elif found.missing:
        yield Reason(
            state=Serving.DEGRADED,
            code="events_missing",
            what=f"{found.missing}, everything is read again{reason}",
            mend=mend,
        )
    if found.unproven and not found.polls and not found.source_problem:
        yield Reason(state=Serving.DEGRADED, code="events_unproven", what=UNPROVEN, mend=TRY_EVENTS)
    if found.not_understood:
        yield Reason(
            state=Serving.DEGRADED,
            code="events_not_understood",
            what=f"events were not understood ({', '.join(found.not_understood)}): what they name "
            "was read again whole",
            mend="topicast doctor says whether the metastore's release was tried",
        )


def _source(problem: SourceProblem, state: EventState) -> Reason:
    """Return why no change of the metastore arrives."""
    if problem.kind is ProblemKind.OFF:
        return Reason(
            state=Serving.DEGRADED,
            code="events_off",
            what=problem.text,
            mend="remove the flag where changes are to be seen by themselves",
        )
    if problem.kind is ProblemKind.PAUSED:
        is_over = state is not EventState.PAUSED
        return Reason(
            state=Serving.DEGRADED,
            code="events_paused",
            what=CATCHING_UP if is_over else problem.text,
            mend="wait" if is_over else "what was held before is served meanwhile",
        )
    return Reason(
        state=Serving.DEGRADED, code="metastore_events", what=problem.text, mend=TRY_EVENTS
    )


def _lag(status: CatalogStatus) -> Iterator[Reason]:
    """Yield that changes are not published although the metastore tells them."""
    found, lag_s = status.metastore, status.lag_s or 0.0
    if lag_s < BEHIND_S or found.polls or found.missing or found.source_problem:
        return
    waiting = status.lag_events
    events = "1 event waits" if waiting == 1 else f"{waiting} events wait"
    yield Reason(
        state=Serving.DEGRADED,
        code="behind",
        what=f"for {lag_s:.0f} s changes of the metastore have not been published ({events})",
        mend="topicast events status shows what the current batch waits for; does the metastore "
        "answer reads of tables?",
    )


def _comparison(found: ReconciliationFacts) -> Iterator[Reason]:
    """Yield that nothing is compared with the metastore although it is due."""
    if found.has_stopped:
        why = f": {found.error}" if found.error else ""
        yield Reason(
            state=Serving.DEGRADED,
            code="comparison_stopped",
            what="nothing that is held has been compared with the metastore for "
            f"{found.late_s:.0f} s{why}; changes that leave no event are not seen",
            mend="topicast doctor --role catalogd, on this host, tries the metastore's calls",
        )


def _hubs(hubs: tuple[HubFacts, ...]) -> Iterator[Reason]:
    """Yield each hub that is not connected."""
    for hub in hubs:
        if not hub.connected and hub.since_s >= HUB_AWAY_S:
            yield Reason(
                state=Serving.DEGRADED,
                code="hub_away",
                subject=hub.address,
                what=f"the statestored at {hub.address} has not been connected for "
                f"{hub.since_s:.0f} s ({hub.reason}), and its drivers get no changes",
                mend="does it run there? topicast doctor --role catalogd, on this host, tries it",
            )


def _rules(rules: tuple[Rule, ...]) -> Iterator[Reason]:
    """Yield the rules by which drivers are plain Spark, though nothing is broken."""
    less = [f"{one.state} for {one.pattern!r}" for one in rules if one.state != ON]
    if less:
        yield Reason(
            state=Serving.DEGRADED,
            code="drivers_off",
            what=f"by order of an operator drivers are not refreshed: {', '.join(less)}",
            mend="topicast drivers on, with the --app of the rule, ends it",
        )


def facts(status: CatalogStatus) -> dict[str, Cell]:
    """Return every fact that is a single value, by its name."""
    names = [f.name for f in fields(status) if f.name not in APART]
    serves = verdict(status)
    about: dict[str, Cell] = {
        "release": __version__,
        "metastore": status.metastore.addresses,
        "verdict": str(serves.state),
        "problem": serves.texts(Serving.NOT_SERVING),
        "warning": serves.texts(Serving.DEGRADED),
        "hubs": len(status.hubs),
        "hubs_connected": sum(one.connected for one in status.hubs),
    }
    own = {name: getattr(status, name) for name in names}
    times = (status.reconciliation.ended_s, status.reconciliation.late_s)
    compared: dict[str, Cell] = dict(zip(COMPARISON_TIMES, times, strict=True))
    return about | own | compared | status.counts


def events(status: CatalogStatus) -> dict[str, Cell]:
    """Return how the metastore's events are followed, by the name of each fact."""
    again = f"{status.metastore.missing}: everything is read again"
    why = status.metastore.polls or (again if status.metastore.missing else "")
    if status.store_problem is not None:
        why = f"nothing is published: {status.store_problem}"
    return event_facts(
        replace(status.processor, because=status.processor.because or why),
        status.events,
        status.reconciliation,
        counts=status.counts,
        lag=(status.lag_events, status.lag_s),
        ids=(status.newest_event, status.watermark),
    )


def answer(status: CatalogStatus, question: Question[Any]) -> Inspected:
    """Return the answer to ``question``, which CATALOG_ANSWERS names."""
    request = question.request
    match question:
        case ReadStatus():
            return NamedFacts(request=request, rows=tuple(facts(status).items()))
        case ReadVerdict():
            return Reasons(request=request, rows=verdict(status).rows)
        case ReadHubs():
            return HubList(request=request, rows=status.hubs)
        case ReadHeldTopics():
            return HeldTopics(request=request, rows=status.topics)
        case ReadEvents():
            return NamedFacts(request=request, rows=tuple(events(status).items()))
        case _:
            assert isinstance(question, ReadEventCosts), question
            costs = status.events.costs
            rows = tuple(EventCost(table_name(*one), reads, took_s) for one, reads, took_s in costs)
            return EventCosts(request=request, rows=rows)
