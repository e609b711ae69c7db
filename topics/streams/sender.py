"""Sender: the sending half of large answers, under byte credit and fair between peers.

    open ──▶ parts wait ──credit──▶ one part of each peer in turn ──▶ last part: closed

A stream is (peer, id) and yields parts of (cost in bytes, message). A part is sent while the
stream's credit is above zero, so the overshoot is one part. The last part closes the stream, also
if it took the last of the credit. ``chunks`` splits topics into parts.

All streams may be taken by peers that give no credit. Then a stream that has had none for STALLED_S
gives its place to the stream of another peer; its own peer requests it again after a silence.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import dropwhile, groupby
from math import inf
from operator import itemgetter
from typing import Final

from ..clock import Clock
from ..topic import MINIMAL, Entry, Topic, stub
from ..wire.codec import row_bytes
from ..wire.header import CHUNK_BYTES_MAX
from ..wire.messages.catalog import Pulled
from ..wire.messages.connection import Refused
from ..wire.messages.data import Chunk
from ..wire.messages.fields import Message
from ..wire.messages.readers import Wanted
from ..wire.refusal import Refusal, refuse

STREAMS_MAX: Final = 64  # at once; one more is refused as BUSY
STREAMS_PER_PEER_MAX: Final = 16
CREDIT_MAX: Final = 64 << 20  # of one stream: what a peer can make us queue for it
CREDIT_DEFAULT: Final = 1 << 20  # four chunks: none waits for credit that is under way
STALLED_S: Final = 2.0  # a follower takes a stream for lost after a silence of this length
RETRY_MS: Final = 100
RETRY_MS_MAX: Final = 5000  # for a peer that was refused as BUSY behind many others
RETRIES_MAX: Final = 16  # peers refused as BUSY that retry within the same RETRY_MS
REFUSAL_COST: Final = 128
CHUNK_COST: Final = 128  # in addition to its rows: headers, and frames of ZeroMQ
CHUNK_ENTRIES_MAX: Final = 256  # 0.4 ms to make and encode, 0.4 ms to read and file: of a turn's 2
STUBS_BYTES_MAX: Final = 60 * 1024  # stubs that fit a PUB frame; beyond, an invalidate-all marker

_order = itemgetter(1, 0)  # of an entry in a stream: version and key

Part = tuple[int, Message]
Visible = Callable[[int, Sequence[Entry]], Sequence[Entry]]


@dataclass(frozen=True, slots=True)
class SendTo:
    """Send ``message`` to ``peer``."""

    peer: bytes
    message: Message


@dataclass(slots=True)
class Stream:
    """One answer that is being sent."""

    parts: Iterator[Part]
    credit: int
    next: Part | None = None  # made when the credit ran out, and not sent yet


class Sender:
    """The open streams of one process."""

    def __init__(self, clock: Clock, streams_max: int = STREAMS_MAX) -> None:
        self._clock = clock
        self._streams_max = streams_max
        self._streams: dict[bytes, dict[int, Stream]] = {}  # by peer
        self._ready: OrderedDict[bytes, OrderedDict[int, Stream]] = OrderedDict()
        """By peer, the streams with credit; peers and the streams of each in the order of turns."""
        self._stalled: OrderedDict[tuple[bytes, int], float] = OrderedDict()
        """By stream that waits for credit, the longest first: since when, in seconds."""
        self._count = 0  # of all streams
        self._waiting: dict[bytes, int] = {}  # by peer refused for want of room: its ``_arrivals``
        self._arrivals = 0  # how many peers were so refused

    def __len__(self) -> int:
        return self._count

    @property
    def ready(self) -> bool:
        """Whether a turn would send something."""
        return bool(self._ready)

    @property
    def stalled_at(self) -> float:
        """Since when a stream has waited for credit, the longest of all; inf: none waits."""
        return next(iter(self._stalled.values()), inf)

    @property
    def gives_way_at(self) -> float:
        """When the next stream may have to give its place to another peer; inf: none may."""
        now = self._clock.now
        times = (since + STALLED_S for since in self._stalled.values())
        return next((at for at in times if at > now), inf)

    def may_open(self, peer: bytes) -> bool:
        """Return whether ``peer`` may open one more stream."""
        if len(self._streams.get(peer, ())) >= STREAMS_PER_PEER_MAX:
            return False
        return self._count < self._streams_max or self._giving_way(peer) is not None

    def open(
        self, peer: bytes, stream: int, *, credit: int, parts: Iterable[Part]
    ) -> Refused | None:
        """Begin to answer ``stream`` of ``peer``, or return the refusal.

        Caller: a hub's reader requests, catalogd's publishers and its pull server.
        Affects: the turns of all other streams, which become rarer; a stream of the same id ends,
            and without room the stream of another peer that has been without credit for longest.
        """
        if not self.may_open(peer):
            busy = f"{len(self)} streams are open: retry"
            retry_ms = self._retry_ms(peer)
            return refuse(Refusal.BUSY, busy, request=stream, retry_ms=retry_ms)
        self._waiting.pop(peer, None)
        if 2 * self._count < self._streams_max:
            self._waiting.clear()  # there is room for all; some may not come any more
        self.cancel(peer, stream)
        self.make_room(peer)
        self._streams.setdefault(peer, {})[stream] = Stream(iter(parts), 0)
        self._count += 1
        self.credit(peer, stream, credit)
        return None

    def make_room(self, peer: bytes) -> tuple[bytes, int] | None:
        """End the stream that gives its place to a stream of ``peer``, if any does; return it.

        Caller: ``open``; the pull server before, as it keeps more of each stream.
        Affects: the peer of the stream that ends, which requests it again after a silence.
        """
        found = self._giving_way(peer) if self._count >= self._streams_max else None
        if found is not None:
            self.cancel(*found)
        return found

    def end_stalled(self, after_s: float) -> tuple[tuple[bytes, int], ...]:
        """End the streams that have had no credit for ``after_s`` seconds, and return them."""
        ended = tuple(self._stalled_for(after_s))
        for peer, stream in ended:
            self.cancel(peer, stream)
        return ended

    def credit(self, peer: bytes, stream: int, amount: int) -> None:
        """Let a stream send ``amount`` bytes more; ignored for a stream that ended.

        Caller: as of ``open``, for the credit that the peer gives.
        Affects: the next turns, in which the stream has its place among the others.
        """
        found = self._streams.get(peer, {}).get(stream)
        if found is None:
            return
        found.credit = min(found.credit + amount, CREDIT_MAX)
        self._stalled.pop((peer, stream), None)
        if found.credit > 0:
            self._ready.setdefault(peer, OrderedDict()).setdefault(stream, found)
        else:
            self._stalled[peer, stream] = self._clock.now

    def cancel(self, peer: bytes, stream: int) -> None:
        """End a stream, if it is open.

        Caller: as of ``open``, if the peer cancels, asks again or stalls; a turn, at the last part.
        Affects: other streams, which get the room.
        """
        self._count -= stream in self._streams.get(peer, ())
        self._stalled.pop((peer, stream), None)
        for streams in (self._streams, self._ready):
            of_peer = streams.get(peer, {})
            of_peer.pop(stream, None)
            if not of_peer:
                streams.pop(peer, None)

    def remove_peer(self, peer: bytes) -> None:
        """End every stream of ``peer``.

        Caller: the hub, a publisher or the pull server, once the peer is gone or connects anew.
        Affects: other peers, which get the room; the peer itself is sent nothing of it.
        """
        for stream in tuple(self._streams.get(peer, ())):
            self.cancel(peer, stream)
        self._waiting.pop(peer, None)

    def send_some(self, bytes_max: int) -> tuple[SendTo, ...]:
        """Return about ``bytes_max`` bytes of parts; peers take turns, part by part.

        A peer's streams take turns, too: with many streams it gets no more than with one stream.
        Caller: the hub, a publisher or the pull server, in each turn of its shell.
        Affects: the credit of the streams; those that have ended make room for others.
        """
        sends: list[SendTo] = []
        sent = 0
        while sent < bytes_max and self._ready:
            peer, streams = next(iter(self._ready.items()))
            number, stream = next(iter(streams.items()))
            part = stream.next or next(stream.parts, None)
            if part is None:
                self.cancel(peer, number)
                continue
            sends.append(SendTo(peer, part[1]))
            sent += part[0]
            self._ready.move_to_end(peer)
            streams.move_to_end(number)
            self._charge(peer, number, part[0])
        return tuple(sends)

    def _giving_way(self, peer: bytes) -> tuple[bytes, int] | None:
        """Return the stream that gives its place to a stream of ``peer``, if any does."""
        late = self._stalled_for(STALLED_S)
        return next((stream for stream in late if stream[0] != peer), None)

    def _stalled_for(self, after_s: float) -> Iterator[tuple[bytes, int]]:
        """Yield the streams that have waited for credit for ``after_s``, the longest first."""
        for stream, since in self._stalled.items():
            if since + after_s > self._clock.now:
                return
            yield stream

    def _retry_ms(self, peer: bytes) -> int:
        """Return when ``peer`` is to retry: the later, the more peers wait before it.

        So they come as fast as streams end, in their order. If all came every RETRY_MS, refusing
        them would take more time than the streams.
        """
        if self._count < self._streams_max:
            return RETRY_MS  # it has too many itself
        if peer not in self._waiting:
            self._arrivals += 1
            self._waiting[peer] = self._arrivals
        before = self._waiting[peer] - next(iter(self._waiting.values()))
        return min(RETRY_MS * (1 + before // RETRIES_MAX), RETRY_MS_MAX)

    def _charge(self, peer: bytes, number: int, cost: int) -> None:
        stream = self._ready[peer][number]
        stream.credit -= cost
        stream.next = None if stream.credit > 0 else next(stream.parts, None)
        if stream.credit > 0:
            return
        if not stream.next:
            self.cancel(peer, number)
            return
        self._stalled[peer, number] = self._clock.now
        del self._ready[peer][number]
        if not self._ready[peer]:
            del self._ready[peer]


def everything(_topic: int, entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return ``entries``: to most readers all of them are visible."""
    return entries


def chunk_cost(chunk: Chunk) -> int:
    """Return the credit that ``chunk`` takes, the same on both sides."""
    return CHUNK_COST + sum(map(row_bytes, chunk.entries))


def pulled_cost(part: Pulled) -> int:
    """Return the credit that a part of a pull takes, the same on both sides."""
    rows = sum(map(row_bytes, part.entries)) + sum(map(len, part.gone))
    return CHUNK_COST + rows + len(part.names)


def chunks(
    stream: int,
    wanted: Iterable[Wanted],
    *,
    find: Callable[[Wanted], Topic | Refused],
    stamp: Callable[[], tuple[int, int]],
    visible: Visible = everything,
) -> Iterator[Part]:
    """Yield the catch-ups of ``wanted`` as parts; each topic is read when its turn comes.

    ``find`` returns the topic, or a refusal (its ``request`` is set here); ``stamp`` the current
    (start, time in µs); ``visible`` filters the entries of a topic. A topic that is below the
    version that the requester already has is refused as LAGGING.
    """
    for one in wanted:
        found = find(one)
        if isinstance(found, Topic) and _lags(found, one):
            behind = f"topic {one.topic} is at {found.version} of epoch {found.epoch} here"
            found = refuse(Refusal.LAGGING, behind, retry_ms=RETRY_MS)
        if isinstance(found, Refused):
            yield REFUSAL_COST, replace(found, request=stream, topic=one.topic)
            continue
        for chunk in _chunks_of(stream, one, topic=found, stamp=stamp(), visible=visible):
            yield chunk_cost(chunk), chunk


def _lags(topic: Topic, one: Wanted) -> bool:
    """Return whether an answer would end below what another sender sent before."""
    if one.epoch != topic.epoch:
        return one.epoch > topic.epoch
    return topic.version < max(one.cut, one.resume_version)


def _chunks_of(
    stream: int, one: Wanted, *, topic: Topic, stamp: tuple[int, int], visible: Visible
) -> Iterator[Chunk]:
    """Yield the chunks of one topic: a snapshot iff tombstones that the requester needs are gone.

    A requester that resumes a snapshot (it has no version) holds nothing that was deleted up to
    its ``cut``. A requester that resumes a catch-up from a version has every change before its
    token, and perhaps only a part of the token's own version.
    """
    same = one.epoch == topic.epoch
    known = one.version if same else 0  # 0: it has nothing, or the start of a snapshot
    resumed = same and one.resume_version > 0
    complete = max(known, one.resume_version - 1)  # up to here it has all that is not deleted
    if resumed and not known:
        snapshot = one.cut < topic.floor
    else:
        snapshot = not known or complete < topic.floor
    invalidate_all = one.level == MINIMAL and snapshot
    entries = iter(()) if invalidate_all else topic.since(0 if snapshot else complete)
    if resumed and not snapshot:
        after = (one.resume_version, one.resume_key)
        entries = dropwhile(lambda entry: _order(entry) <= after, entries)
    batches = _batches(visible(one.topic, tuple(unit)) for _, unit in groupby(entries, _order))
    if one.level == MINIMAL:
        stubs = _stubs(batch for batch, _ in batches)
        batches, invalidate_all = iter([(stubs or (), True)]), stubs is None or invalidate_all
    yield from _numbered(
        batches,
        partial(
            Chunk,
            topic=one.topic,
            level=one.level,
            epoch=topic.epoch,
            start=stamp[0],
            from_version=0 if snapshot else min(known, topic.version),
            to_version=topic.version,
            floor=topic.floor,
            sent_us=stamp[1],
            stream=stream,
            invalidate_all=invalidate_all,
        ),
        snapshot=snapshot,
    )


def _numbered(
    batches: Iterable[tuple[Sequence[Entry], bool]], make: Callable[..., Chunk], *, snapshot: bool
) -> Iterator[Chunk]:
    """Yield a chunk of ``make`` for each of ``batches``; the first may begin a ``snapshot``."""
    for sequence, (batch, last) in enumerate(batches):
        token = batch[-1] if batch else None
        yield make(
            sequence=sequence,
            resume_version=token.version if token else 0,
            resume_key=token.key if token else b"",
            entries=tuple(batch),
            first=sequence == 0,
            last=last,
            snapshot=snapshot and sequence == 0,
        )


def _batches(units: Iterable[Sequence[Entry]]) -> Iterator[tuple[Sequence[Entry], bool]]:
    """Yield ``units`` in batches of at most a chunk's size, and whether each is the last batch.

    A batch has a unit at least; without units there is an empty batch. The entries of a unit
    share (version, key): a PREFIX and the table's own entry of one transaction. Only one unit is
    read ahead, so that the turn that sends a batch does little work for the next batch.
    """
    batch: list[Entry] = []
    size = 0
    for unit in units:
        cost = sum(map(row_bytes, unit))
        if batch and (size + cost > CHUNK_BYTES_MAX or len(batch) >= CHUNK_ENTRIES_MAX):
            yield batch, False
            batch, size = [], 0
        batch += unit
        size += cost
    yield batch, True


def _stubs(batches: Iterable[Sequence[Entry]]) -> Sequence[Entry] | None:
    """Return the stubs of all ``batches``; None if they are too many for one frame."""
    stubs: list[Entry] = []
    for batch in batches:
        stubs += map(stub, batch)
        if sum(map(row_bytes, stubs)) > STUBS_BYTES_MAX:
            return None
    return stubs
