"""Bulk: the sending half of everything large, under byte credit and fair between streams.

    open ──▶ parts wait ──credit──▶ one part of each stream in turn ──▶ last part: closed

A stream is (peer, id) and yields parts of (cost in bytes, message). A part is sent while the
stream's credit is above zero, so the overshoot is one part. ``chunks`` cuts a topic into parts.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from .entries import MINIMAL, Entry, stub
from .topic import Topic
from .wire.codec import row_bytes
from .wire.header import CHUNK_BYTES_MAX
from .wire.messages import Chunk, Message, Refused, Wanted

STREAMS_MAX: Final = 64  # at once; who comes later is told when to come again
STREAMS_PER_PEER_MAX: Final = 16
CREDIT_MAX: Final = 64 << 20  # of one stream: what a peer can make us put into its queue
CREDIT_DEFAULT: Final = 1 << 20  # four chunks: full throughput, measured in research B7
RETRY_MS: Final = 100
STUBS_BYTES_MAX: Final = 60 * 1024  # stubs that fit a PUB frame; more are told as a horizon

Part = tuple[int, Message]


@dataclass(frozen=True, slots=True)
class Send:
    """Send ``message`` to ``peer``."""

    peer: bytes
    message: Message


@dataclass(slots=True)
class Stream:
    """One answer that is being sent."""

    parts: Iterator[Part]
    credit: int


class Sender:
    """The open streams of one process."""

    def __init__(self, streams_max: int = STREAMS_MAX) -> None:
        self._streams_max = streams_max
        self._streams: OrderedDict[tuple[bytes, int], Stream] = OrderedDict()

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def ready(self) -> bool:
        """Whether a turn would send something."""
        return any(stream.credit > 0 for stream in self._streams.values())

    def open(self, peer: bytes, stream: int, *, credit: int, parts: Iterable[Part]) -> Send | None:
        """Begin to answer ``stream`` of ``peer``; a refusal is returned, to be sent."""
        key = (peer, stream)
        of_peer = sum(1 for other, _ in self._streams if other == peer)
        if len(self._streams) >= self._streams_max or of_peer >= STREAMS_PER_PEER_MAX:
            busy = f"{len(self._streams)} streams are open: ask again"
            return Send(peer, Refused(request=stream, code="BUSY", message=busy, retry_ms=RETRY_MS))
        self._streams[key] = Stream(iter(parts), min(credit, CREDIT_MAX))
        return None

    def credit(self, peer: bytes, stream: int, amount: int) -> None:
        """Let a stream send ``amount`` bytes more; of a stream that ended it means nothing."""
        found = self._streams.get((peer, stream))
        if found is not None:
            found.credit = min(found.credit + amount, CREDIT_MAX)

    def cancel(self, peer: bytes, stream: int) -> None:
        """Send no more of a stream."""
        self._streams.pop((peer, stream), None)

    def forget(self, peer: bytes) -> None:
        """Send no more to ``peer``."""
        for key in [key for key in self._streams if key[0] == peer]:
            del self._streams[key]

    def turn(self, bytes_max: int) -> tuple[Send, ...]:
        """Return about ``bytes_max`` bytes of parts, one of each stream after the other."""
        sends: list[Send] = []
        sent = 0
        while sent < bytes_max:
            key = next((k for k, s in self._streams.items() if s.credit > 0), None)
            if key is None:
                break
            stream = self._streams[key]
            part = next(stream.parts, None)
            if part is None:
                del self._streams[key]
                continue
            cost, message = part
            stream.credit -= cost
            sent += cost
            sends.append(Send(key[0], message))
            self._streams.move_to_end(key)
        return tuple(sends)


def chunk_cost(chunk: Chunk) -> int:
    """Return the credit that ``chunk`` takes, the same on both sides."""
    return 128 + sum(map(row_bytes, chunk.entries))


def chunks(
    stream: int,
    wanted: Iterable[Wanted],
    *,
    find: Callable[[Wanted], Topic | Refused],
    place: Callable[[], tuple[int, int]],
) -> Iterator[Part]:
    """Yield the catch-ups of ``wanted`` as parts; each topic is cut when its turn comes.

    ``find`` gives the topic, or why not (its ``request`` is set here); ``place`` the current
    (start, time in µs).
    """
    for one in wanted:
        topic = find(one)
        if isinstance(topic, Refused):
            reason = Refused(
                request=stream,
                code=topic.code,
                message=topic.message,
                retry_ms=topic.retry_ms,
                topic=one.topic,
            )
            yield 128, reason
            continue
        start, now_us = place()
        for chunk in _cut(stream, one, topic, (start, now_us)):
            yield chunk_cost(chunk), chunk


def _cut(stream: int, one: Wanted, topic: Topic, place: tuple[int, int]) -> Iterator[Chunk]:
    known = one.version if one.epoch == topic.epoch else 0
    resumed = one.epoch == topic.epoch and one.resume_version > 0
    held = one.cut or known if resumed else known  # a resumed snapshot is complete up to its cut
    snapshot = held == 0 or held < topic.floor
    resumed = resumed and not snapshot
    horizon = one.level == MINIMAL and snapshot
    if horizon:
        entries = []
    elif resumed:
        after = (one.resume_version, one.resume_key)
        entries = topic.since(one.resume_version - 1)
        entries = [entry for entry in entries if (entry.version, entry.key) > after]
    else:
        entries = topic.since(0 if snapshot else known, graves=not snapshot)
    if one.level == MINIMAL:
        entries = [stub(entry) for entry in entries]
        if sum(map(row_bytes, entries)) > STUBS_BYTES_MAX:
            entries, horizon = [], True
    yield from _slices(
        entries,
        Chunk(
            topic=one.topic,
            level=one.level,
            epoch=topic.epoch,
            start=place[0],
            from_version=0 if snapshot else min(known, topic.version),
            to_version=topic.version,
            floor=topic.floor,
            sent_us=place[1],
            stream=stream,
            sequence=0,
            resume_version=0,
            resume_key=b"",
            entries=(),
            snapshot=snapshot,
            horizon=horizon,
        ),
    )


def _slices(entries: list[Entry], like: Chunk) -> Iterator[Chunk]:
    """Cut ``entries`` into chunks like ``like``; what shares (version, key) stays together."""
    begin, sequence = 0, 0
    while True:
        end, size = begin, 0
        while end < len(entries) and (size == 0 or size < CHUNK_BYTES_MAX):
            cost = row_bytes(entries[end])
            if size and size + cost > CHUNK_BYTES_MAX and not _twins(entries, end):
                break
            size += cost
            end += 1
        last_entry = entries[end - 1] if end > begin else None
        last = end == len(entries)
        yield Chunk(
            topic=like.topic,
            level=like.level,
            epoch=like.epoch,
            start=like.start,
            from_version=like.from_version,
            to_version=like.to_version,
            floor=like.floor,
            sent_us=like.sent_us,
            stream=like.stream,
            sequence=sequence,
            resume_version=last_entry.version if last_entry else 0,
            resume_key=last_entry.key if last_entry else b"",
            entries=tuple(entries[begin:end]),
            first=sequence == 0,
            last=last,
            snapshot=like.snapshot and sequence == 0,
            horizon=like.horizon,
        )
        if last:
            return
        begin, sequence = end, sequence + 1


def _twins(entries: list[Entry], at: int) -> bool:
    one, other = entries[at - 1], entries[at]
    return one.version == other.version and one.key == other.key
