"""Status: what a hub is and does at one moment, for pages, metrics and operators.

``answer`` gives the answer to a question; any thread may hold a HubStatus.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

from .. import __version__
from ..topics.histogram import HistogramFacts
from ..topics.liveness import LIVE, LOST, SUSPECT_S
from ..topics.memory.memory_limit import MemoryFacts, memory_short
from ..topics.objects.drivers import ANNOUNCED, CONNECTING, GONE, PLAIN, is_ill
from ..topics.objects.drivers import LIVE as DRIVER_LIVE
from ..topics.objects.rules import ON
from ..topics.topic import FULL, MINIMAL, MINIMAL_BYTES
from ..topics.verdict import (
    Reason,
    RefusedHandshake,
    Serving,
    Verdict,
    refused_handshakes,
    verdict_of,
)
from ..topics.wire.messages.answers import (
    AttachedDrivers,
    DriverStatus,
    HubTopic,
    HubTopics,
    Inspected,
    NamedFacts,
    Reasons,
    Subscribers,
    SubscriberStatus,
)
from ..topics.wire.messages.connection import READER
from ..topics.wire.messages.fields import Cell
from ..topics.wire.messages.questions import (
    Question,
    ReadDrivers,
    ReadStatus,
    ReadSubscribers,
    ReadTopics,
    ReadVerdict,
)
from .content.ingest import IngestedTopic
from .members.drivers import AnnouncedDriver
from .members.membership import Member, Membership

ROWS: Final = ("topics", "subscribers", "drivers")
APART: Final = (
    *("seeding", "rival", "behind_s", "refused_handshake", "answers_differed_s", "memory"),
    *("counts", "driver_counts", "applied"),
    *ROWS,
)
"""The fields of a HubStatus that are not facts of one value."""
LOST_SHOWN_S: Final = 300.0  # time for an operator to look; then a dead reader is no news
BEHIND_S: Final = 60.0  # that a reader, or the hub, is not current: to catch up with all takes less
DIFFERED_SHOWN_S: Final = 3600.0  # as long as the alarm of it; it is too rare to be missed
NAMED_MAX: Final = 5  # subscribers or drivers in a reason
READS: Final = READER.name.lower()  # the role of a subscriber
COMMAND: Final = "command"  # the role of a reader that is a command
_COMMON: Final = frozenset(
    (
        *("hub", "release", "problem", "epoch", "start", "num_topics", "data_address"),
        *("catalog_address", "catalog_name", "watermark", "offers", "publisher", "unannounced"),
        *("publisher_silent_s", "topics_behind", "warning", "verdict"),
    )
)
"""The facts that are shown to a caller with access to some databases only."""


@dataclass(slots=True)
class HubCounts:
    """Counts of a hub since its process began."""

    deltas: int = 0
    delta_bytes: int = 0
    broadcasts: int = 0  # frames, but heartbeats
    chunks: int = 0  # of its own catch-ups
    catch_ups: int = 0  # requested by readers
    hellos: int = 0
    barriers: int = 0
    members_lost: int = 0  # members that became LOST by their silence
    frames_undecodable: int = 0
    unreachable: int = 0  # messages not sent: no such peer, or its queue is full
    subscriptions_invalid: int = 0
    refused: dict[str, int] = field(default_factory=dict)  # by code


@dataclass(frozen=True, slots=True, kw_only=True)
class HubStatus:
    """A hub at one moment; a time ending in ``_s`` is how many seconds ago, or for how long."""

    hub: int
    epoch: int
    start: int
    num_topics: int  # without the namespace; 0 until a catalogd has announced itself
    data_address: str
    catalog_address: str  # where catalogd takes requests, also before it has announced itself
    catalog_name: str
    watermark: int
    offers: int
    publisher: str  # the name of the catalogd that leads; empty: none does
    unannounced: str  # the name of a catalogd that is connected while none leads
    rival: str  # the address of another catalogd that led lately and lived on; empty: none did
    publisher_silent_s: float
    catalogd_pages: str  # where its pages are, as it said; empty: not known
    topics_behind: int
    behind_s: float  # for how long it has lacked what catalogd announced; 0: it lacks nothing
    streams: int
    seeding: bool  # whether some topics have not been caught up once
    refused_handshake: RefusedHandshake | None  # the last client with a wrong key
    answers_audited: int  # tables whose content in memory readers have compared with catalogd
    answers_differing: int  # those that were not equal
    answers_differed_s: float | None  # since the last of these; None: all were equal
    memory: MemoryFacts | None = None  # what is known of the limit of memory; None: there is none
    cold_bytes: int = 0  # of values that the limit keeps out of memory: readers pull them
    counts: HubCounts
    driver_counts: Mapping[str, int]  # the counts of drivers since they first announced themselves
    applied: HistogramFacts  # seconds from a broadcast to the report that a reader has applied it
    topics: tuple[HubTopic, ...]
    subscribers: tuple[SubscriberStatus, ...]
    drivers: tuple[DriverStatus, ...]


def verdict(status: HubStatus) -> Verdict:
    """Return whether a hub serves."""
    return verdict_of(
        (
            *_catalogd(status),
            *_two_catalogds(status),
            *_topics_behind(status),
            *memory_short(status.memory),
            *_lost(status.subscribers),
            *_behind(status),
            *_differing(status),
            *_drivers(status.drivers),
            *refused_handshakes(status.refused_handshake),
        )
    )


def _drivers(drivers: Sequence[DriverStatus]) -> Iterator[Reason]:
    """Yield which drivers that are there are plain Spark, or lack something, as they say."""
    ill = [one for one in drivers if _is_ill(one)]
    if ill:
        named = _some([_in_words(one) for one in ill], between="; ")
        yield Reason(
            state=Serving.DEGRADED,
            code="drivers_problem",
            what=f"drivers are not as they should be: {named}",
            mend="topicast drivers shows all",
        )


def _is_ill(driver: DriverStatus) -> bool:
    """Return whether a driver is not what it should be."""
    return is_ill(
        driver.state, reason=driver.reason, control=driver.control, since_s=driver.since_s
    )


def _in_words(driver: DriverStatus) -> str:
    name = driver.application or driver.driver
    control = f", switched to {driver.control}" if driver.control not in ("", ON) else ""
    return f"{name} is {driver.state}{control}" + (f": {driver.reason}" if driver.reason else "")


def _some(texts: Sequence[str], *, between: str = ", ") -> str:
    """Return the first NAMED_MAX of ``texts``, and how many more there are."""
    more = [f"{len(texts) - NAMED_MAX} more"] if len(texts) > NAMED_MAX else []
    return between.join([*texts[:NAMED_MAX], *more])


def _lost(members: Sequence[SubscriberStatus]) -> Iterator[Reason]:
    """Yield which subscribers have died, or are stopped, without a goodbye."""
    lost = [
        one
        for one in members
        if one.state == LOST and one.role == READS and one.lag_s <= LOST_SHOWN_S
    ]
    if lost:
        named = _some([f"{one.name} for {one.lag_s:.0f} s" for one in lost])
        yield Reason(
            state=Serving.DEGRADED,
            code="subscribers_lost",
            what=f"subscribers have sent nothing: {named}",
            mend="topicast drivers shows them; look at their processes. A process that has died is "
            f"counted for {LOST_SHOWN_S / 60:g} minutes",
        )


def _two_catalogds(status: HubStatus) -> Iterator[Reason]:
    """Yield that catalogds take over from each other, each with an epoch of its own."""
    if status.rival:
        yield Reason(
            state=Serving.DEGRADED,
            code="two_catalogds",
            what=f"two catalogds publish here, at {status.rival} and at {status.catalog_address}: "
            "each time that one takes over, subscribers read everything again",
            mend="stop one of them, or give each statestoreds of its own",
        )


def _topics_behind(status: HubStatus) -> Iterator[Reason]:
    """Yield that the hub does not get what catalogd says that it has.

    Its readers do not notice: they follow the versions that the hub has.
    """
    if status.behind_s >= BEHIND_S and not (status.seeding or _hears_nothing(status)):
        yield Reason(
            state=Serving.DEGRADED,
            code="topics_behind",
            what="changes that catalogd has announced have not arrived for "
            f"{status.behind_s:.0f} s",
            mend="topicast topics shows which; look at the network to catalogd, or restart this "
            "statestored",
        )


def _behind(status: HubStatus) -> Iterator[Reason]:
    """Yield which subscribers answer, and do not get along, unless catalogd itself is silent."""
    late = [
        one
        for one in status.subscribers
        if one.role == READS and one.state != LOST and one.lag_s >= BEHIND_S
    ]
    if not late or _hears_nothing(status):
        return
    named = _some([f"{one.name} for {one.lag_s:.0f} s" for one in late])
    yield Reason(
        state=Serving.DEGRADED,
        code="subscribers_behind",
        what=f"subscribers have not been current: {named}",
        mend="topicast subscribers shows all; look at the network to them, and at their processes",
    )


def _differing(status: HubStatus) -> Iterator[Reason]:
    """Yield that a subscriber has found its memory not to be as catalogd has it."""
    ago_s = status.answers_differed_s
    if ago_s is not None and ago_s <= DIFFERED_SHOWN_S:
        yield Reason(
            state=Serving.DEGRADED,
            code="answers_differ",
            what=f"{ago_s / 60:.0f} min ago a subscriber found that a table in its memory was not "
            "as catalogd had it, and has pulled it again; what it answered before may be wrong",
            mend="self-audit: in the log of the driver's agent names the table; please report it",
        )


def _hears_nothing(status: HubStatus) -> bool:
    return bool(status.publisher) and status.publisher_silent_s >= SUSPECT_S


def _catalogd(status: HubStatus) -> Iterator[Reason]:
    """Yield what a hub lacks of its catalogd."""
    runs = "does catalogd run, and is this statestored among its --statestores?"
    if not status.num_topics:
        yield Reason(
            state=Serving.NOT_SERVING,
            code="no_catalogd",
            what=f"{status.unannounced} at {status.catalog_address} is connected, and has not read "
            "the metastore's names yet"
            if status.unannounced
            else "no catalogd has announced itself yet",
            mend="catalogd gives its reason: topicast status, or its page"
            if status.unannounced
            else runs,
            starting=True,
        )
    elif status.seeding:
        yield Reason(
            state=Serving.NOT_SERVING,
            code="seeding",
            what=f"{status.topics_behind} of {len(status.topics)} topics are being seeded",
            mend="wait, catalogd sends them",
            starting=True,
        )
    if _hears_nothing(status):
        yield Reason(
            state=Serving.DEGRADED,
            code="catalogd_silent",
            what=f"{status.publisher} at {status.catalog_address} has been silent for "
            f"{status.publisher_silent_s:.0f} s: what is held is served on, nothing newer comes",
            mend=runs,
        )


def topic_status(number: int, followed: IngestedTopic, membership: Membership) -> HubTopic:
    """Return the status of one topic."""
    topic = followed.topic
    return HubTopic(
        topic=number,
        state=followed.follower.state.value,
        version=topic.version,
        floor=topic.floor,
        entries=len(topic),
        full_bytes=topic.full_bytes,
        minimal_bytes=MINIMAL_BYTES,
        full_members=membership.followers(number, FULL),
        minimal_members=membership.followers(number, MINIMAL),
        lag_versions=max(0, followed.published - topic.version),
    )


def subscriber_status(member: Member, *, now: float) -> SubscriberStatus:
    """Return the status of one member."""
    silent_s = 0.0 if member.state == LIVE else now - member.seen_at
    return SubscriberStatus(
        name=member.name,
        registration=member.registration.hex(),
        role=_role(member),
        state=member.state,
        topics=len(member.joined),
        lag_versions=member.lag_versions,
        lag_s=round(member.lag_us / 1e6 + silent_s, 3),
        held_bytes=member.held_bytes,
        budget_bytes=member.budget_bytes,
    )


def _role(member: Member) -> str:
    reads = member.role == READER
    return COMMAND if reads and member.is_command else member.role.name.lower()


def driver_status(driver: AnnouncedDriver, *, now: float) -> DriverStatus:
    """Return the status of one driver."""
    said: dict[str, Any] = {name: getattr(driver.said, name) for name in ANNOUNCED}
    said |= {"state": driver.state, "reason": driver.reason}
    return DriverStatus(
        registration=driver.registration.hex(),
        since_s=round(max(now - driver.since, 0.0), 3),
        **said,
    )


def answer(status: HubStatus, question: Question[Any]) -> Inspected:
    """Return the answer to ``question``, which is about a hub."""
    request = question.request
    match question:
        case ReadStatus():
            return NamedFacts(request=request, rows=tuple(facts(status).items()))
        case ReadVerdict():
            return Reasons(request=request, rows=verdict(status).rows)
        case ReadTopics():
            return HubTopics(request=request, rows=status.topics)
        case ReadSubscribers():
            return Subscribers(request=request, rows=status.subscribers)
        case _:
            assert isinstance(question, ReadDrivers), question
            return AttachedDrivers(request=request, rows=status.drivers)


def answer_for_policy(
    status: HubStatus, question: Question[Any], *, members: Collection[str]
) -> Inspected:
    """Return ``answer`` for a caller that sees some databases, and the registrations ``members``.

    Facts that count others, too, are None: a topic's totals would tell of databases that the caller
    may not see.
    """
    own = tuple(one for one in status.subscribers if one.registration in members)
    drivers = tuple(one for one in status.drivers if one.registration in members)
    found = answer(replace(status, subscribers=own, drivers=drivers), question)
    match found:
        case NamedFacts(rows=facts):
            shown = tuple((name, value if name in _COMMON else None) for name, value in facts)
            return replace(found, rows=shown)
        case HubTopics(rows=topics):
            return replace(found, rows=tuple(map(_without_totals, topics)))
        case _:
            return found


def facts(status: HubStatus) -> dict[str, Cell]:
    """Return every fact that is a single value, by its name."""
    serves = verdict(status)
    found: dict[str, Cell] = {
        "release": __version__,
        "verdict": str(serves.state),
        "problem": serves.texts(Serving.NOT_SERVING),
        "warning": serves.texts(Serving.DEGRADED),
    } | {f.name: getattr(status, f.name) for f in fields(status) if f.name not in APART}
    found["members"] = len(status.subscribers)
    readers = (one for one in status.subscribers if one.role == READS)
    found["reader_lag_s"] = max((one.lag_s for one in readers), default=0.0)
    found |= _counts_of_drivers(status.drivers)
    found |= {f"drivers_{name}": count for name, count in status.driver_counts.items()}
    found["entries"] = sum(one.entries or 0 for one in status.topics)
    found["full_bytes"] = sum(one.full_bytes or 0 for one in status.topics)
    counts = asdict(status.counts)
    refused = counts.pop("refused")
    return found | counts | {f"refused_{code}": refused[code] for code in sorted(refused)}


def _counts_of_drivers(drivers: Collection[DriverStatus]) -> dict[str, Cell]:
    """Return how many drivers are in each state, and how many the verdict finds ill."""
    counts = Counter(one.state for one in drivers)
    return {
        **{f"drivers_{state}": counts[state] for state in (DRIVER_LIVE, CONNECTING, PLAIN, GONE)},
        "drivers_with_problem": sum(map(_is_ill, drivers)),
        "drivers_with_another_hub": sum(one.hubs > 1 and one.state != GONE for one in drivers),
    }


def _without_totals(topic: HubTopic) -> HubTopic:
    return topic._replace(entries=None, full_bytes=None, full_members=None, minimal_members=None)
