"""Fetcher: pulls tables from catalogd: one pull of a selection for all callers that wait for it.

  fetch ──Pull──▶ parts, under credit ──last──▶ fence ──▶ answered
            ▲        │                └─cursor: the next page, if nothing of the table has moved
            └────────┴── of two versions, out of order, or older than an answer: pulled again

A pull names the entries that are held already, so that catalogd sends only those that differ.

**Fence.** A reply that catalogd read before an invalidation is not returned after the invalidation.
``HeldTables`` decides whether a complete reply may be returned, and keeps of it what may be kept.

**Revalidation.** A pull of one table confirms other tables of its topic that are held.

    pull of b ──"is a unchanged since 15?"──▶ catalogd ──b as of 18, a unchanged──▶ a is as of 18

While the hub is behind, memory answers only with tables as new as the newest reply of their topic.
So each reply would end the use of all other tables of its topic; a claim keeps a table in use. At
full a pull claims the tables in use, and its own table, which then answers from memory again.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import chain, islice
from math import inf
from operator import itemgetter
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from ...topics.clock import Clock
from ...topics.errors import (
    LinkError,
    NotReady,
    OverBudget,
    StaleMetadata,
    TopicastError,
)
from ...topics.objects.encoding.values import decode_listing
from ...topics.objects.names import parse_table_key, partition_keys, table_key, table_name
from ...topics.objects.selector import ALL, Selector, SelectorKind
from ...topics.objects.tables import Column
from ...topics.requests import RETRY_S, Requests
from ...topics.streams.sender import CREDIT_DEFAULT, pulled_cost
from ...topics.topic import Entry, value_of
from ...topics.wire.messages.catalog import Claimed, Pull, Pulled
from ...topics.wire.messages.connection import Refused
from ...topics.wire.messages.fields import Message
from ...topics.wire.messages.readers import Cancel, Credit
from ...topics.wire.refusal import error_of
from ..protocol.commands import Wake
from ..store.latency import LatencyEstimate
from ..store.table_snapshot import NO_SELECTIONS, Selections, TableSnapshot, snapshot_of
from ..store.view import TopicView

PULLS_MAX: Final = 16  # at once: as many streams as catalogd gives one peer; other fetches wait
WAITING_MAX: Final = 1000  # fetches without a pull; more are refused
STALE_AGAIN_S: Final = 0.02  # until a stale reply is pulled again
SPREAD: Final = 0.5  # of the demanded pause, over which refused pulls are spread after it

HELD_BYTES_MAX: Final = 256 << 10  # of the keys that one pull names; other entries come again
HELD_COST: Final = 16  # bytes of a named entry, in addition to its key

SELECTIONS_MAX: Final = 64  # of one table, the newest, that are remembered
SELECTION_BYTES_MAX: Final = 4096  # of a remembered selection in a message; it has 24 KB in memory

CLAIMS_MAX: Final = 16  # in one pull, those of the newest tables: 0.8 KB, 0.1 ms at catalogd
LOOKED_AT_MAX: Final = 10_000  # tables at full, to find those in use: at most 0.5 ms

Result = TableSnapshot | tuple[bytes, ...]  # the pulled content, or listings of names


class PartitionRequest(NamedTuple):
    """A table with the partitions that ``selector`` selects.

    ``names_only``: a pull brings listings of their names alone. ``fresh``: the pull names nothing
    that is held, and its reply is compared with memory, not kept.
    """

    db: str
    table: str
    selector: Selector
    names_only: bool = False
    fresh: bool = False

    @property
    def name(self) -> str:
        """The table's name, ``db.table``."""
        return table_name(self.db, self.table)

    @property
    def group(self) -> bytes:
        """The key of the table's entry, and of the group of its blocks."""
        return table_key(self.db, self.table)


@dataclass(slots=True, eq=False)
class Fetch:
    """The request of one caller; the fetcher sets ``outcome`` once, to the result or an error.

    ``background``: no application waits, so that a stale reply is an error instead of being pulled
    again. ``bytes_max``: a larger reply is an error. ``last``: the last part of the reply.
    """

    request: PartitionRequest
    background: bool = False
    bytes_max: float = inf
    outcome: Result | TopicastError | None = None
    last: Pulled | None = None


@dataclass(slots=True)
class _Fenced:
    """A table that is being pulled."""

    pulls: int = 0  # how many are open
    minimum: int = 0  # a topic version; an older reply is not returned


class InvalidationFence:
    """The newest invalidation of each table that is being pulled.

    The fetcher begins and ends pulls, and the replicas report invalidations. The topic of a group
    is looked up at the invalidation: a pull may begin before the number of topics is known.
    """

    def __init__(self, topic_of: Callable[[bytes], int]) -> None:
        """``topic_of`` returns the topic of a group, by the present number of topics."""
        self.pulls = 0  # how many are open; without any no invalidation need be reported
        self._topic_of = topic_of
        self._pulled: dict[bytes, _Fenced] = {}  # by group

    def begin(self, group: bytes) -> None:
        """Note that a pull of ``group`` begins."""
        self.pulls += 1
        self._pulled.setdefault(group, _Fenced()).pulls += 1

    def end(self, group: bytes) -> None:
        """Note that a pull of ``group`` has ended."""
        self.pulls -= 1
        pulled = self._pulled[group]
        pulled.pulls -= 1
        if not pulled.pulls:
            del self._pulled[group]

    def invalidate(self, group: bytes, version: int) -> None:
        """Note that a stub of ``group`` was applied, of this topic version."""
        pulled = self._pulled.get(group)
        if pulled is not None:
            pulled.minimum = max(pulled.minimum, version)

    def invalidate_all(self, topic: int, version: int) -> None:
        """Note that everything of ``topic`` up to ``version`` may have changed."""
        for pulled in self._of(topic):
            pulled.minimum = max(pulled.minimum, version)

    def new_epoch(self, topic: int) -> None:
        """Note that ``topic`` has begun another epoch, in which earlier versions mean nothing."""
        for pulled in self._of(topic):
            pulled.minimum = 0

    def minimum(self, group: bytes) -> int:
        """Return the topic version below which a reply about ``group`` is too old."""
        pulled = self._pulled.get(group)
        return 0 if pulled is None else pulled.minimum

    def _of(self, topic: int) -> list[_Fenced]:
        return [one for group, one in self._pulled.items() if self._topic_of(group) == topic]


@dataclass(slots=True)
class _Page:
    """A page of the reply to a pull: the entries behind the key ``after`` that have come."""

    after: bytes = b""
    at: tuple[int, int] = (0, 0)  # epoch and version of the page before; (0, 0): this is the first
    sequence: int = 0  # of the next part
    stamp: tuple[int, ...] = ()  # epoch, start, topic and versions, which all its parts share
    entries: list[Entry] = field(default_factory=list)
    pieces: list[Entry] = field(default_factory=list)  # of a value that has come in part
    pieces_bytes: int = 0  # of these
    listings: list[bytes] = field(default_factory=list)
    gone: tuple[bytes, ...] = ()  # keys of held entries that catalogd no longer has

    def take(self, entry: Entry) -> bool:
        """Take an entry, or a piece of one; return False if it does not fit the piece before."""
        if self.pieces and entry[:5] != self.pieces[0][:5]:
            return False
        value = value_of(entry)
        self.pieces_bytes += len(value)
        if self.pieces_bytes < entry.size:
            self.pieces.append(entry)
            return True
        if self.pieces:
            whole = b"".join([*map(value_of, self.pieces), value])
            entry = entry._replace(value=whole)
            self.pieces.clear()
        self.entries.append(entry)
        fits, self.pieces_bytes = self.pieces_bytes == entry.size, 0
        return fits


@dataclass(slots=True)
class _Pull:
    """A pull that is under way, and the fetches that wait for it."""

    wanted: PartitionRequest
    fetches: list[Fetch]
    epoch: int  # of ``base``
    base: TableSnapshot | None  # the table as it was held when the pull began
    held: dict[bytes, Entry]  # the entries of ``base`` that the pull names, by key
    claims: tuple[Claimed, ...] = ()
    refused: str = ""  # why catalogd refused it the last time
    sent_at: float = 0.0  # when it was last sent
    received_bytes: int = 0
    counted_bytes: int = 0  # of these, what had come before it was last sent
    pages: list[_Page] = field(default_factory=lambda: [_Page()])


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply: its last part, the result of all parts, and the claims that it confirms."""

    request: PartitionRequest
    last: Pulled
    result: Result
    confirmed: tuple[Claimed, ...] = ()


class HeldTables(Protocol):
    """The held content of pulled tables; the session with catalogd implements it."""

    def base(self, db: str, table: str) -> tuple[int, TableSnapshot | None, tuple[Claimed, ...]]:
        """Return the accepted epoch, a table as held in it, and the claims about its topic."""

    def take(self, reply: Reply) -> Result | TopicastError | None:
        """Keep of ``reply`` what may be kept; return the outcome for its callers.

        None: the reply is older than an earlier answer, so that the table is pulled again.
        """


class Fetcher:
    """The pulls that are under way, and the fetches that wait for each."""

    def __init__(
        self,
        next_id: Callable[[], int],
        *,
        clock: Clock,
        send: Callable[[Message], None],
        tables: HeldTables,
        fence: InvalidationFence,
        wake: Wake,
        latency: LatencyEstimate,
        name: str = "",
    ) -> None:
        """Begin without a pull.

        Args:
            next_id: Returns ids of requests, none of them twice.
            clock: The turn of the core.
            send: Sends catalogd a message, or drops it while its address is not known.
            tables: What memory holds of pulled tables.
            fence: The newest invalidation of each table that is pulled.
            wake: Has the core poll the commands that wait for a fetch.
            latency: Takes the duration of each pull.
            name: The subscriber's, so that refused pulls of several subscribers are spread.
        """
        self.sent = 0  # Pull messages, repetitions and pages included
        self.stale_replies = 0  # that were discarded, and pulled again if an application waited
        self._clock = clock
        self._send = send
        self._latency = latency
        self._fence = fence
        self._wake = wake
        self._tables = tables
        self._name = name
        self._requests: Requests[_Pull] = Requests(next_id, clock)
        self._running: dict[PartitionRequest, int] = {}  # the id of each pull that is under way
        self._queue: deque[Fetch] = deque()  # fetches without a pull, while PULLS_MAX are under way

    @property
    def deadline(self) -> float | None:
        """The time at which ``send_due`` has a pull to send; None: there is none."""
        return self._requests.deadline

    @property
    def open_pulls(self) -> int:
        """The number of pulls that have been sent and not answered."""
        return len(self._requests)

    def begin(self, fetch: Fetch) -> None:
        """Pull what is requested, or wait for a pull of it that is under way."""
        if len(self._queue) >= WAITING_MAX:
            fetch.outcome = NotReady(f"{len(self._queue)} pulls are waiting: try again")
        elif not self._start(fetch):
            self._queue.append(fetch)
        self.send_due()

    def detach(self, fetch: Fetch) -> None:
        """Have ``fetch`` wait no longer; cancel its pull if no other fetch waits for that."""
        if fetch.outcome is not None:
            return
        if fetch in self._queue:
            self._queue.remove(fetch)
            return
        request = self._running[_sendable(fetch.request)]
        pull = self._requests.get(request)
        assert pull is not None
        pull.fetches.remove(fetch)
        if not pull.fetches:
            self._close(request)
            self._send(Cancel(stream=request))
            self._next()

    def on_pulled(self, part: Pulled) -> None:
        """Take a part of a reply; the last part ends the fetches, or the table is pulled again."""
        reply = self._completed(part)
        if reply is None:
            return
        if reply.request.fresh:
            self._answer(part.request, reply.result, part)
            return
        outcome = self._tables.take(reply)
        if outcome is None:
            self._pull_again(part)
        else:
            self._answer(part.request, outcome)

    def on_refused(self, refused: Refused) -> None:
        """Repeat a refused pull later, or end it with an error if the refusal is final."""
        pull = self._requests.get(refused.request)
        if pull is None:
            return
        if refused.retry_ms:
            pull.refused = f": {refused.code}: {refused.message}"
            after_s = refused.retry_ms / 1000 * (1 + SPREAD * self._jitter(refused.request))
            self._requests.back_off(refused.request, for_s=after_s)
            return
        self._answer(refused.request, error_of(refused))

    def retry_now(self) -> None:
        """Send every pull again at once: there is another catalogd, or another start of it."""
        self._requests.retry_now()

    def send_due(self) -> None:
        """Send the pulls that are due, for the first time or again."""
        for request, pull in self._requests.due():
            self.sent += 1
            pull.sent_at, pull.counted_bytes = self._clock.now, pull.received_bytes
            self._send(_message(request, pull))

    def refusal(self, fetch: Fetch) -> str:
        """Return why catalogd last refused the pull of ``fetch``; empty: it did not."""
        pull = self._requests.get(self._running.get(_sendable(fetch.request), 0))
        return pull.refused if pull is not None else ""

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._running) <= PULLS_MAX
        assert len(self._queue) <= WAITING_MAX
        assert len(self._requests) == len(self._running) == self._fence.pulls
        for wanted, request in self._running.items():
            pull = self._requests.get(request)
            assert pull is not None
            assert pull.wanted == wanted
            assert pull.fetches
            assert all(fetch.outcome is None for fetch in pull.fetches)

    def _completed(self, part: Pulled) -> Reply | None:
        """Take a part of a reply; return the reply if it is complete by that."""
        pull, now = self._requests.get(part.request), self._clock.now
        if pull is None:
            self._cancel(part)
            return None
        if not part.last:
            self._requests.back_off(part.request, for_s=RETRY_S)  # the reply is on its way
        stamp = (part.epoch, part.start, part.topic, part.topic_version, part.namespace_version)
        page = pull.pages[-1]
        if part.sequence == 0:
            page = pull.pages[-1] = _Page(page.after, page.at, stamp=stamp, gone=part.gone)
        is_foreign = pull.base is not None and part.epoch != pull.epoch  # ``held`` is of another
        if is_foreign or part.moved or part.sequence != page.sequence or stamp != page.stamp:
            self._credit(part)
            self._pull_again(part)
            return None
        page.sequence += 1
        pull.received_bytes += pulled_cost(part)
        page.listings.append(part.names)
        if pull.received_bytes > (room := max(fetch.bytes_max for fetch in pull.fetches)):
            name, size = pull.wanted.name, pull.received_bytes
            large = OverBudget(name, needed_bytes=size, free_bytes=int(room))
            self._cancel(part)
            self._answer(part.request, large)
            return None
        if not all(map(page.take, part.entries)) or (part.last and page.pieces):
            error = LinkError(f"catalogd sent a value of {pull.wanted.name} in pieces that differ")
            self._cancel(part)
            self._answer(part.request, error)
            return None
        if not part.last:
            self._credit(part)
            return None
        if part.cursor:
            self._continue(part)
            return None
        self._latency.note(pull.received_bytes - pull.counted_bytes, now - pull.sent_at)
        confirmed = confirmed_claims(pull.claims, part) if part.epoch == pull.epoch else ()
        return Reply(pull.wanted, part, _result(pull, part), confirmed)

    def _pull_again(self, part: Pulled) -> None:
        """Discard this reply; pull once more, after STALE_AGAIN_S, if an application waits."""
        pull = self._close(part.request)
        self.stale_replies += 1
        if all(fetch.background for fetch in pull.fetches):
            self._end(pull, StaleMetadata(f"{pull.wanted.name} has changed meanwhile"))
            self._cancel(part)
            self._next()
            return
        request = self._open(pull.wanted, pull.fetches)
        self._requests.back_off(request, for_s=STALE_AGAIN_S)
        self._cancel(part)

    def _answer(
        self, request: int, outcome: Result | TopicastError, last: Pulled | None = None
    ) -> None:
        """End the fetches of ``request`` with ``outcome``, and begin those that are queued."""
        self._end(self._close(request), outcome, last)
        self._next()

    def _end(
        self, pull: _Pull, outcome: Result | TopicastError, last: Pulled | None = None
    ) -> None:
        for fetch in pull.fetches:
            fetch.outcome, fetch.last = outcome, last
            self._wake(fetch)

    def _start(self, fetch: Fetch) -> bool:
        wanted = _sendable(fetch.request)
        pull = self._requests.get(self._running.get(wanted, 0))
        if pull is not None:
            pull.fetches.append(fetch)
            return True
        if len(self._running) >= PULLS_MAX:
            return False
        self._open(wanted, [fetch])
        return True

    def _open(self, wanted: PartitionRequest, fetches: list[Fetch]) -> int:
        epoch, base, claims = self._tables.base(wanted.db, wanted.table)
        if wanted.fresh:
            base, claims = None, ()
        pull = _Pull(wanted, fetches, epoch, base, _held(base, wanted), claims)
        request = self._requests.open(pull)
        self._running[wanted] = request
        self._fence.begin(wanted.group)
        return request

    def _continue(self, part: Pulled) -> None:
        """Request the next page, under another id: a repetition of this one may yet be answered."""
        pull = self._requests.close(part.request)
        assert pull is not None
        pull.pages.append(_Page(part.cursor, (part.epoch, part.topic_version)))
        self._running[pull.wanted] = self._requests.open(pull)
        self.send_due()

    def _jitter(self, request: int) -> float:
        """Return a number in [0, 1) by the names of subscriber and request."""
        return crc32(f"{self._name} {request}".encode()) / (1 << 32)

    def _close(self, request: int) -> _Pull:
        pull = self._requests.close(request)
        assert pull is not None
        del self._running[pull.wanted]
        self._fence.end(pull.wanted.group)
        return pull

    def _next(self) -> None:
        while self._queue and self._start(self._queue[0]):
            self._queue.popleft()
        self.send_due()

    def _credit(self, part: Pulled) -> None:
        """Let catalogd send as many bytes more as ``part`` has, if it is not the last part."""
        if not part.last:
            self._send(Credit(stream=part.request, amount=pulled_cost(part)))

    def _cancel(self, part: Pulled) -> None:
        """Cancel the rest of a reply, if ``part`` is not the last part."""
        if not part.last:
            self._send(Cancel(stream=part.request))


def _sendable(request: PartitionRequest) -> PartitionRequest:
    """Return the request to send: if the selector is too long for a message, it selects all."""
    return request if request.selector.is_sendable else request._replace(selector=ALL)


def _held(base: TableSnapshot | None, wanted: PartitionRequest) -> dict[bytes, Entry]:
    """Return the entries of ``base`` that a pull of ``wanted`` names, so that only others come."""
    held: dict[bytes, Entry] = {}
    if base is None or wanted.names_only:
        return held
    own_key, size = wanted.group, 0
    for entry in base.values():
        size += len(entry.key) + HELD_COST
        if size > HELD_BYTES_MAX:
            break
        if wanted.selector.kind != SelectorKind.TABLE or entry.key == own_key:
            held[entry.key] = entry
    return held


def _message(request: int, pull: _Pull) -> Pull:
    """Return the message that requests the present page of ``pull``."""
    page = pull.pages[-1]
    db, table, selector, names_only, _ = pull.wanted
    return Pull(
        request=request,
        db=db,
        table=table,
        selector=selector,
        credit=CREDIT_DEFAULT,
        held=tuple((key, entry.version) for key, entry in pull.held.items()),
        names_only=names_only,
        after=page.after,
        epoch=page.at[0] or pull.epoch,
        version=page.at[1],
        claims=pull.claims if page.at[0] in (0, pull.epoch) else (),
    )


def _result(pull: _Pull, last: Pulled) -> Result:
    """Return the held entries that are unchanged, with those that the reply has brought."""
    selector, names_only = pull.wanted.selector, pull.wanted.names_only
    if names_only:
        return tuple(chain.from_iterable(page.listings for page in pull.pages))
    gone = pull.pages[0].gone
    rows = {key: entry for key, entry in pull.held.items() if key not in set(gone)}
    rows.update((entry.key, entry) for page in pull.pages for entry in page.entries)
    at = last.topic_version
    selections = None if selector == ALL else _selections(pull, at)
    return snapshot_of(rows.values(), epoch=last.epoch, selections=selections, as_of=at)


def _selections(pull: _Pull, at: int) -> Selections:
    """Return the selection that the reply to ``pull`` answers, beside those known before it."""
    selector = pull.wanted.selector
    if selector.kind == SelectorKind.TABLE:
        return NO_SELECTIONS
    before = pull.base.selections if pull.base is not None else None
    news = {selector: at} if selector.size <= SELECTION_BYTES_MAX else {}
    selections = {**(before or {}), **news}
    return dict(sorted(selections.items(), key=itemgetter(1))[-SELECTIONS_MAX:])


def selected_names(
    request: PartitionRequest, result: Result, columns: Callable[[], Sequence[Column]]
) -> tuple[str, ...]:
    """Return the names of the partitions that ``request`` selects, sorted, from its ``result``.

    ``columns`` returns the table's partition columns. It is called if the selector was too long for
    a message, so that all names have come.

    Raises:
        StaleMetadata: the table was created again with other partition columns meanwhile.
    """
    if isinstance(result, TableSnapshot):
        return result.partition_names(request.db, request.table, request.selector)
    selector = request.selector
    names = tuple([name for listing in result for name in decode_listing(listing)])
    if not names or selector.is_sendable:
        return names
    of = columns()
    if [key.lower() for key in partition_keys(names[0])] != [one.name.lower() for one in of]:
        raise StaleMetadata(f"{request.name} was created again meanwhile: try again")
    ranges = selector.ranges(of)
    if ranges is not None:  # most names need not be compared with hundreds of terms
        each = [names[bisect_left(names, low) : bisect_left(names, high)] for low, high in ranges]
        names = tuple(chain.from_iterable(each))
    return tuple(filter(selector.matches(of), names))


def claims_in_pull(held: TopicView, group: bytes, *, reached: int) -> tuple[Claimed, ...]:
    """Return the claims in a pull of ``group``: that the newest held tables have not changed.

    ``held``: the view of its topic, whose deltas have ``reached`` this version.
    """
    pulled = held.groups if held.pulled is None else held.pulled.groups
    others = [(other, content) for other, content in pulled.items() if other != group]
    if held.pulled is not None:
        others += _in_use(held, group)
    known = [
        (other == group, max(content.as_of, reached), other, not _is_head(content))
        for other, content in others
    ]
    claims = []
    for _, version, other, whole in nlargest(CLAIMS_MAX, known):
        name = parse_table_key(other)
        claims.append(Claimed(db=name.db, table=name.table, version=version, whole=whole))
    return tuple(claims)


def confirmed_claims(claims: Sequence[Claimed], last: Pulled) -> tuple[Claimed, ...]:
    """Return the ``claims`` that are true, as the ``last`` part of a reply says."""
    stale = set(last.stale)
    return tuple([claim for index, claim in enumerate(claims) if index not in stale])


def confirm(held: TopicView, claims: Iterable[Claimed], *, at: int, reached: int) -> None:
    """Note that the tables of true ``claims`` are held as of topic version ``at``."""
    for claim in claims:
        content = held.content(table_key(claim.db, claim.table))
        if content is None or claim.version > max(content.as_of, reached):
            continue  # older content has replaced the content that was claimed
        if claim.whole or _is_head(content):
            content.as_of = max(content.as_of, at)


def _in_use(held: TopicView, group: bytes) -> list[tuple[bytes, TableSnapshot]]:
    """Return the tables held at full with their values that were read lately; ``group`` anyway."""
    first = islice(held.groups.items(), LOOKED_AT_MAX)
    found = [(other, content) for other, content in first if content.used and not content.stubs]
    own = held.groups.get(group)
    if own is None or own.stubs or (group, own) in found:
        return found
    return [*found, (group, own)]


def _is_head(content: TableSnapshot) -> bool:
    """Return whether only a table's own entry is held."""
    return content.selections is not None and not content.selections
