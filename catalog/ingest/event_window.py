"""Notifications: what the metastore logged, decoded, and which of it is news.

Event ids are not a cursor: Hive 2.3 gives one id to concurrent writers, and whoever asks only
for ids above the last loses some (measured: 12 of 489). So every poll reads again the ids first
seen in the last seconds, and drops what it knows by (id, digest).

    ids   ≤ settled │ settled < id ≤ last: read again    │ > last: never seen
          never read│ once more when WINDOW_S old, then settled

Invariant: every pair known has an id above ``settled``, and no event is news twice.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from struct import Struct, error
from typing import Final

from ...topics.errors import WireError
from ..metastore.port import RawEvent

MESSAGE_BYTES_MAX: Final = 1 << 30  # as much as one reply of the metastore may have
WINDOW_S: Final = (
    5.0  # a writer that got its id commits within that time, or reconciliation finds it
)
SETTLE_EVERY_S: Final = (
    1.0  # how far the oldest may be over WINDOW_S: then all that are get settled
)
REREAD_EVENTS_MAX: Final = 256  # a poll's overlap while there is activity: 5 s at 50 events/s
REREAD_BYTES_MAX: Final = 1 << 20  # likewise in messages; both give way once, when ids settle
POLL_EVENTS_MAX: Final = 4 * REREAD_EVENTS_MAX  # what a poll must ask for to get past its overlap
PENDING_MAX: Final = 20_000  # 6 s of 3,000 events/s; above, the oldest are settled at once
START_OVERLAP: Final = 16  # ids that concurrent writers may hold when a window starts

JSON_FORMATS: Final = ("", "json-0.2", "json-2.0")
GZIP_FORMATS: Final = ("gzip(json-2.0)", "gzip(json-0.2)")

_PLACE: Final = Struct(">qq")
_KNOWN: Final = Struct(">q16s")

CLEANED: Final = "cleaned"
RESET: Final = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A notification whose message has been read; ``table`` is empty where there is none."""

    id: int
    time_s: int
    type: str
    db: str
    table: str
    body: Mapping[str, object]
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Events are missing: the log was cleaned above ``last_id``, or the metastore was reset."""

    kind: str
    last_id: int
    found_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvents:
    """What a poll brought: the events never seen, as they came, and whether some are missing."""

    events: tuple[RawEvent, ...]
    gap: Gap | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowState:
    """What a store keeps of a window, so that nothing is lost or doubled over a restart."""

    last_id: int
    settled: int
    known: tuple[tuple[int, bytes], ...] = ()


def pack_state(state: WindowState | None) -> bytes:
    """Return ``state`` as a store keeps it: 16 bytes, and 24 for each event known."""
    if state is None:
        return b""
    known = (_KNOWN.pack(id_, digest) for id_, digest in state.known)
    return _PLACE.pack(state.last_id, state.settled) + b"".join(known)


def unpack_state(data: bytes) -> WindowState | None:
    """Read what ``pack_state`` wrote.

    Raises:
        WireError: it is damaged.
    """
    if not data:
        return None
    try:
        last_id, settled = _PLACE.unpack_from(data)
        known = tuple(_KNOWN.iter_unpack(data[_PLACE.size :]))
    except error as exc:
        raise WireError("state of the event window is damaged") from exc
    return WindowState(last_id=last_id, settled=settled, known=known)


def decode(raw: RawEvent) -> Event:
    """Read the message of an event by its ``message_format``.

    Raises:
        WireError: the format is unknown, or the message is not a JSON object in it.
    """
    try:
        body = json.loads(_text(raw))
    except (ValueError, RecursionError) as exc:
        raise WireError(f"event {raw.id} ({raw.type}): message is no JSON: {exc}") from exc
    if not isinstance(body, dict):
        raise WireError(f"event {raw.id} ({raw.type}): message is no JSON object")
    return Event(
        id=raw.id,
        time_s=raw.time_s,
        type=raw.type,
        db=raw.db,
        table=raw.table,
        body=body,
        digest=raw.digest,
    )


def _text(raw: RawEvent) -> str | bytes:
    if raw.message_format in JSON_FORMATS:
        return raw.message
    if raw.message_format not in GZIP_FORMATS:
        raise WireError(f"event {raw.id} ({raw.type}): format {raw.message_format!r} is unknown")
    try:
        packed = base64.b64decode(raw.message, validate=True)
        unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        text = unpacking.decompress(packed, MESSAGE_BYTES_MAX)
    except (binascii.Error, ValueError, zlib.error) as exc:
        raise WireError(f"event {raw.id} ({raw.type}): message is no gzip: {exc}") from exc
    if not unpacking.eof:
        raise WireError(f"event {raw.id} ({raw.type}): message is cut, or too large")
    return text


@dataclass(slots=True)
class _Pending:
    """An id that is still read again."""

    first_seen: float
    size: int


class EventWindow:
    """Tells which id to poll after, and which of the events that come are news.

    One poll at a time: ``next_poll``, then ``news`` with its answer; a poll that failed is
    simply followed by another ``next_poll``.
    """

    def __init__(self, state: WindowState, *, now: float) -> None:
        """Go on from ``state``; what it knows is read again at least once."""
        self.last_id = state.last_id
        self.settled = state.settled
        self._known: dict[int, set[bytes]] = {}
        self._pending: dict[int, _Pending] = {}  # by id, ascending
        for id_, digest in sorted(state.known):
            self._known.setdefault(id_, set()).add(digest)
            self._pending.setdefault(id_, _Pending(now, 0))
        if self.settled < self.last_id and self.last_id not in self._pending:
            self._known[self.last_id] = set()  # nothing of it is known: it is read again, too
            self._pending[self.last_id] = _Pending(now, 0)
        self._asked_after, self._asked_at, self._settling = state.last_id, now, False

    @classmethod
    def starting_at(cls, current_id: int, *, now: float) -> "EventWindow":
        """Return a window that begins at ``current_id``, read before anything else was.

        Events of the last few ids before it come as news: nothing tells which of them were
        committed before what is read next.
        """
        settled = max(0, current_id - START_OVERLAP)
        return cls(WindowState(last_id=current_id, settled=settled), now=now)

    @property
    def state(self) -> WindowState:
        """What to store with the events' effects."""
        known = ((id_, digest) for id_, found in self._known.items() for digest in sorted(found))
        return WindowState(last_id=self.last_id, settled=self.settled, known=tuple(known))

    def is_quiet(self, current_id: int) -> bool:
        """Tell whether a poll can bring nothing: no new id, and all seen ones are settled."""
        return current_id == self.last_id and not self._pending

    def went_back(self, current_id: int) -> Gap | None:
        """Tell whether the metastore's newest id is below one that was seen: it was reset."""
        if current_id >= self.last_id:
            return None
        return Gap(kind=RESET, last_id=self.last_id, found_id=current_id)

    def next_poll(self, now: float) -> int:
        """Return the id after which to read events."""
        self._asked_at = now
        oldest = next(iter(self._pending.values()), None)
        due = oldest is not None and now >= oldest.first_seen + WINDOW_S + SETTLE_EVERY_S
        self._settling = due and not self._settling  # every other poll goes for what is new
        self._asked_after = self.settled if self._settling else self._overlap()
        return self._asked_after

    def news(
        self, events: Iterable[RawEvent], now: float, *, current_id: int | None = None
    ) -> NewEvents:
        """Take the answer to the last ``next_poll``.

        Args:
            events: Ascending by id; may be cut short, then from the end.
            now: When they came.
            current_id: The metastore's newest id, read before this poll, if it was read.
        """
        came = [event for event in events if event.id > self._asked_after]
        gap = self._gap(came, current_id)
        news = [event for event in came if self._is_new(event, now)]
        if came:
            self.last_id = max(self.last_id, came[-1].id)
        elif gap is not None:
            self.last_id = max(self.last_id, gap.found_id)
        self._settle(came[-1].id if came else self.last_id)
        return NewEvents(events=tuple(news), gap=gap)

    def check(self) -> None:
        """Assert what always holds."""
        assert self.settled <= self.last_id
        assert list(self._pending) == sorted(self._pending)
        assert self._known.keys() == self._pending.keys()
        assert all(self.settled < id_ <= self.last_id for id_ in self._pending)
        assert len(self._pending) <= PENDING_MAX

    def _overlap(self) -> int:
        """Return the id after which the newest pending ids lie, within the overlap's bounds."""
        count = size = 0
        for id_ in reversed(self._pending):
            count += max(1, len(self._known[id_]))
            size += self._pending[id_].size
            if count > REREAD_EVENTS_MAX or size > REREAD_BYTES_MAX:
                return id_
        return self.settled

    def _gap(self, came: list[RawEvent], current_id: int | None) -> Gap | None:
        """Tell whether the log begins above where it was read: ids that were asked for are gone."""
        if came:
            first = came[0].id
            cleaned = self.last_id < first - 1
        else:
            first = current_id if current_id is not None else self.last_id
            cleaned = self.last_id < first
        return Gap(kind=CLEANED, last_id=self.last_id, found_id=first) if cleaned else None

    def _is_new(self, event: RawEvent, now: float) -> bool:
        known = self._known.setdefault(event.id, set())
        if event.digest in known:
            return False
        known.add(event.digest)
        if event.id not in self._pending:
            late = bool(self._pending) and event.id < next(reversed(self._pending))
            self._pending[event.id] = _Pending(now, 0)
            if late:  # its writer committed after the one of a higher id
                self._pending = dict(sorted(self._pending.items()))
        self._pending[event.id].size += len(event.message)
        return True

    def _settle(self, covered: int) -> None:
        """Settle ids that the poll covered and that were old enough when it was asked."""
        old = self._asked_at - WINDOW_S
        surplus = len(self._pending) - PENDING_MAX
        for id_, pending in list(self._pending.items()):
            read_again = self._asked_after < id_ <= covered and pending.first_seen <= old
            if not read_again and surplus <= 0:
                break
            surplus -= 1
            self.settled = max(self.settled, id_)
            del self._pending[id_], self._known[id_]
        if not self._pending:
            self.settled = self.last_id
