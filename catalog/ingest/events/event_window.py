"""EventWindow: the ids of events that polls read again, because an event may appear late.

Event ids are not a cursor: Hive 2.3 gives one id to concurrent writers, and a reader that
requests only ids above the last loses some (measured: 12 of 489). So every poll reads again the
ids first seen in the last seconds, and drops the events whose (id, digest) is known.

    ids ≤ stable_id │ stable_id < id ≤ last: read again  │ > last: never seen
          never read│ last when WINDOW_S old, then stable

Ids that were given WINDOW_S before a poll began are stable once it has read them: all their writers
have committed. So a backlog is read once, and not a second time in search of late events.

Invariant: every pair known has an id above ``stable_id``, and no event is new twice.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from ...metastore.port import RawEvent
from ...model.window_state import KNOWN_MAX, KnownEvent, WindowState

WINDOW_S: Final = 5.0  # a writer that got its id commits within that time
SETTLE_EVERY_S: Final = 1.0  # how much older than WINDOW_S the oldest id gets before it settles
REREAD_EVENTS_MAX: Final = 256  # a poll's overlap while there is activity: 5 s at 50 events/s
REREAD_BYTES_MAX: Final = 1 << 20  # likewise of messages; the poll that settles ids obeys neither
PENDING_MAX: Final = 20_000  # 6 s of 3,000 events/s; ids further below the newest settle at once
START_OVERLAP: Final = 16  # ids that concurrent writers may hold when a window starts

Gap = tuple[int, int]
"""The first and the last id of events that are missing."""


def _gap(after: int, ids: Iterable[int], last: int) -> Gap | None:
    """Return the first and the last id above ``after``, up to ``last``, that ``ids`` lack."""
    lacking, next_id = list[int](), after + 1
    for id_ in (*ids, last + 1):  # ascending
        if id_ > next_id:
            lacking += next_id, id_ - 1
        next_id = max(next_id, id_ + 1)
    return (lacking[0], lacking[-1]) if lacking else None


@dataclass(slots=True)
class _Pending:
    """An id that polls still read again, and its known events."""

    first_seen: float
    size: int = 0  # of their messages, in characters
    digests: set[bytes] = field(default_factory=set)


class EventWindow:
    """The ids that polls read again, and their known events.

    One poll at a time: ``next_poll``, then ``take`` with its answer; a poll that failed is
    simply followed by another ``next_poll``.
    """

    def __init__(self, state: WindowState, *, now: float) -> None:
        """Continue from ``state``; polls read its pending events again at least once."""
        self.last_id = state.last_id
        self.stable_id = state.stable_id
        self.uuid = state.uuid
        self._newest = deque[KnownEvent]((*sorted(state.known), *state.ahead), maxlen=KNOWN_MAX)
        """The events that were seen last, in any order; stable events, too."""
        self._pending: dict[int, _Pending] = {}  # ids that are read again, ascending
        for id_, digest in sorted(state.known):
            if id_ > self.stable_id:
                self._pending.setdefault(id_, _Pending(now)).digests.add(digest)
        if self.stable_id < self.last_id:  # polls read the last id again, even with no known event
            self._pending.setdefault(self.last_id, _Pending(now))
        self.polled_after = state.last_id  # the id after which the last poll read
        self._polled_at = now  # when that poll began
        self._settling = False  # that poll read every pending id
        self._lacks_end = False  # its answer lacked the newest ids: the next poll reads those alone
        self._given = (-inf, 0)  # when a poll began, and the newest id then: WINDOW_S or more ago
        self._given_later = (-inf, 0)  # likewise of a later poll, which is to replace it

    @classmethod
    def starting_at(cls, current_id: int, *, now: float) -> "EventWindow":
        """Return a window that begins at ``current_id``, which was read before all else.

        Events of the START_OVERLAP ids before it count as new: nobody knows which of them were
        committed before the read that follows.
        """
        stable_id = max(0, current_id - START_OVERLAP)
        return cls(WindowState(last_id=current_id, stable_id=stable_id), now=now)

    @property
    def state(self) -> WindowState:
        """The window, to be stored with the transactions that its events have caused."""
        stable = sorted(event for event in self._newest if event[0] <= self.stable_id)
        pending = ((id_, one) for id_, of in self._pending.items() for one in sorted(of.digests))
        return WindowState(
            last_id=self.last_id,
            stable_id=self.stable_id,
            known=(*stable, *pending),
            uuid=self.uuid,
        )

    @property
    def newest(self) -> tuple[KnownEvent, ...]:
        """The events that were seen last, KNOWN_MAX at most."""
        return tuple(self._newest)

    @property
    def newest_id(self) -> int:
        """The largest id that was ever read; above ``last_id`` after a restart."""
        return max(self.last_id, max((id_ for id_, _ in self._newest), default=0))

    def with_ahead(self, state: WindowState) -> WindowState:
        """Return ``state``, of an earlier time, with the events that were read since."""
        known = set(state.known)
        return replace(state, ahead=tuple(one for one in self._newest if one not in known))

    def moved(self, to: int, *, overlap: int, now: float) -> "EventWindow":
        """Return a window that goes on behind the id ``to``, and reads ``overlap`` ids again.

        If that skips no event, the window still looks for late events of ids up to ``to``. It keeps
        the newest events, which tell one metastore from another.
        """
        stable_id, known = max(0, to - overlap), tuple[KnownEvent, ...]()
        if to <= self.last_id:
            stable_id = min(stable_id, self.stable_id)
            known = tuple((i, d) for i, d in self.state.known if stable_id < i <= to)
        state = WindowState(
            last_id=to, stable_id=stable_id, known=known, uuid=self.uuid, ahead=self.newest
        )
        return EventWindow(state, now=now)

    def is_quiet(self, current_id: int) -> bool:
        """Return whether a poll would bring nothing: no id is new, and none is pending."""
        return current_id == self.last_id and not self._pending

    def next_poll(self, now: float) -> int:
        """Return the id after which to read events."""
        self._polled_at = now
        if self._lacks_end:
            self._settling, self.polled_after = False, self.last_id
            return self.polled_after
        oldest = next(iter(self._pending.values()), None)
        due = oldest is not None and now >= oldest.first_seen + WINDOW_S + SETTLE_EVERY_S
        self._settling = due and not self._settling  # every other poll reads only new ids
        self.polled_after = self.stable_id if self._settling else self._overlap()
        return self.polled_after

    def begin_with(self, after: int, now: float) -> bool:
        """Return whether events read after ``after`` can serve as a poll that began at ``now``."""
        if after > self.last_id:
            return False
        self.polled_after = max(self.next_poll(now), after)
        self._settling = False
        return True

    def take(
        self, events: Iterable[RawEvent], now: float, *, current_id: int = 0, cut: bool = False
    ) -> tuple[tuple[RawEvent, ...], Gap | None]:
        """Take the answer to the last ``next_poll``.

        Args:
            events: Ascending by id.
            cut: Whether the metastore may have more events.
            now: When the answer arrived.
            current_id: The metastore's newest id, read before this poll; 0 if it was not read.
                Events above it are left to later polls: if the counter of Hive 2.3 went back, the
                metastore will give their ids again.

        Returns:
            The events that were never seen, in their order, and the first and the last id of the
            missing events. The metastore, or somebody in its database, has deleted those: an id is
            committed with its event, so no event of these ids is still to come.
        """
        read = [
            event
            for event in events
            if event.id > self.polled_after and (not current_id or event.id <= current_id)
        ]
        covered = read[-1].id if read else max(self.last_id, current_id)
        self._note_given(current_id)
        gap = _gap(self.last_id, [event.id for event in read], covered)
        self._lacks_end = covered < current_id and not cut
        new = tuple([event for event in read if self._is_new(event, now)])
        self.last_id = max(self.last_id, covered)
        self._settle(covered, far_below=current_id - PENDING_MAX)
        return new, gap

    def pass_over(self, id_: int) -> None:
        """Read no event up to ``id_`` any more."""
        self.last_id, self.stable_id = max(self.last_id, id_), max(self.stable_id, id_)
        self._pending = {at: held for at, held in self._pending.items() if at > id_}
        if not self._pending:
            self.stable_id = self.last_id

    def known_after(self, id_: int) -> int:
        """Return how many events above ``id_`` are known, and are to be read again."""
        return sum(len(one.digests) for at, one in self._pending.items() if at > id_)

    def settling_max(self, size_max: int) -> int:
        """Return how many known events the last ``next_poll`` has to read to settle them.

        Their messages have ``size_max`` characters at most. 0: that poll settles no events.
        """
        count = size = 0
        for pending in self._pending.values() if self._settling else ():
            size += pending.size
            if size > size_max:
                break
            count += len(pending.digests)
        return count

    def check(self) -> None:
        """Assert every invariant."""
        assert self.stable_id <= self.last_id
        assert list(self._pending) == sorted(self._pending)
        assert all(self.stable_id < id_ <= self.last_id for id_ in self._pending)
        assert len(self._pending) <= PENDING_MAX

    def _overlap(self) -> int:
        """Return the id after which to read so that the overlap stays within its bounds."""
        count = size = 0
        for id_, pending in reversed(self._pending.items()):
            count += max(1, len(pending.digests))
            size += pending.size
            if count > REREAD_EVENTS_MAX or size > REREAD_BYTES_MAX:
                return id_
        return self.stable_id

    def _is_new(self, event: RawEvent, now: float) -> bool:
        pending = self._pending.get(event.id)
        if pending is None:
            newest = next(reversed(self._pending), 0)
            pending = self._pending[event.id] = _Pending(now)
            if event.id < newest:  # its writer committed after the writer of a higher id
                self._pending = dict(sorted(self._pending.items()))
        if event.digest in pending.digests:
            return False
        pending.digests.add(event.digest)
        if (event.id, event.digest) not in self._newest:  # it was read before a restart
            self._newest.append((event.id, event.digest))
        pending.size += event.size
        return True

    def _note_given(self, current_id: int) -> None:
        """Note that ``current_id`` was the newest id when the poll began; 0: it was not read."""
        if not current_id:
            return
        old = self._polled_at - WINDOW_S
        if self._given_later[0] <= old:
            self._given, self._given_later = self._given_later, (self._polled_at, current_id)
        # The metastore gives ids above its counter once more, if the counter went back.
        self._given = self._given[0], min(self._given[1], current_id)
        self._given_later = self._given_later[0], min(self._given_later[1], current_id)

    def _settle(self, covered: int, *, far_below: int) -> None:
        """Settle the ids that the poll covered and that were old enough when it began.

        The ids up to ``far_below`` settle whatever their age, and so do the lowest ids if more than
        PENDING_MAX are pending.
        """
        old, given = self._polled_at - WINDOW_S, self._given[1]
        surplus, settled = len(self._pending) - PENDING_MAX, list[int]()
        for id_, pending in self._pending.items():
            is_old = id_ <= given or pending.first_seen <= old
            read_late = is_old and self.polled_after < id_ <= covered
            if not read_late and id_ > far_below and len(settled) >= surplus:
                break
            settled.append(id_)
        for id_ in settled:
            self.stable_id = max(self.stable_id, id_)
            del self._pending[id_]
        if not self._pending:
            self.stable_id = self.last_id
