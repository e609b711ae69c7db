"""EventLog: the last events one by one, with what each has changed and its outcome.

    add ──to be read──▶ runs ──all its objects are published──▶ published
     └─ nothing is to be read: left out, not followed, needs nothing

For operators alone. Its size is bounded: 1,000 events, and no text is longer than TEXT_MAX.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ....topics.clock import Clock
from ....topics.objects.names import table_name
from ....topics.wire.messages.answers import EventLine
from ...metastore.port import Dirty, DirtyDatabase, DirtyPartitions, RawEvent

EVENTS_MAX: Final = 1_000  # 20 s of 50 a second
SHOWN_MAX: Final = 200  # in one answer: 40 KB
NEWEST_SHOWN: Final = 10  # to a caller that names no event
TEXT_MAX: Final = 200
BYTES_MAX: Final = 1_000_000  # of the log: three texts of TEXT_MAX, and 300 bytes of each event
NOTHING: Final = "needs nothing"
LEFT_OUT: Final = "left out"
NOT_FOLLOWED: Final = "not followed"
PUBLISHED: Final = "published"
RUNS: Final = "runs"


@dataclass(slots=True)
class _Logged:
    """An event. ``number`` grows, even over a restart; ``seq`` is the arrival number."""

    number: int
    event_id: int
    type: str
    object: str
    time_us: int
    changes: str
    outcome: str
    seq: int
    began_at: float
    took_s: float | None = None

    @property
    def row(self) -> EventLine:
        return EventLine(
            number=self.number,
            id=self.event_id,
            type=self.type,
            object=self.object,
            time_us=self.time_us,
            outcome=self.outcome,
            took_s=self.took_s,
            changes=self.changes,
        )


class EventLog:
    """The last events, the oldest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._events: deque[_Logged] = deque(maxlen=EVENTS_MAX)
        self._running: deque[_Logged] = deque(maxlen=EVENTS_MAX)
        self._last = 0

    def add(self, event: RawEvent, dirty: Sequence[Dirty], *, outcome: str, seq: int) -> None:
        """Note an event and the objects that it makes ``dirty``; RUNS: catalogd reads them."""
        now_us = self._clock.now_us
        self._last = max(self._last + 1, now_us)
        named = (event.db, event.table) if event.table.strip() else (event.db,)
        logged = _Logged(
            number=self._last,
            event_id=event.id,
            type=event.type[:TEXT_MAX],
            object=".".join(named)[:TEXT_MAX],
            time_us=event.at_s * 1_000_000 or now_us,
            changes=changes_of(dirty),
            outcome=outcome,
            seq=seq,
            began_at=self._clock.now,
        )
        self._events.append(logged)
        if outcome == RUNS:
            self._running.append(logged)

    def publish(self, *, before: int) -> None:
        """Note that everything with an arrival number below ``before`` is published."""
        while self._running and self._running[0].seq < before:
            done = self._running.popleft()
            done.outcome, done.took_s = (
                PUBLISHED,
                round(max(self._clock.now - done.began_at, 0.0), 3),
            )

    def after(self, number: int | None) -> tuple[EventLine, ...]:
        """Return the events after ``number``, up to the first that runs; None: the newest."""
        if number is None:
            return tuple(one.row for one in list(self._events)[-NEWEST_SHOWN:])
        found: list[EventLine] = []
        for one in self._events:
            if one.number > number:
                if one.outcome == RUNS or len(found) == SHOWN_MAX:
                    break
                found.append(one.row)
        return tuple(found)

    def outcome_of(self, event: RawEvent) -> tuple[str, str, float | None]:
        """Return what ``event`` has changed, its outcome, and how long that took.

        Empty: the log has no such event.
        """
        for one in reversed(self._events):
            if (one.event_id, one.type) == (event.id, event.type):
                return one.changes, one.outcome, one.took_s
        return "", "", None


def changes_of(dirty: Sequence[Dirty]) -> str:
    """Return the names of ``dirty`` as text, at most two partitions of a table."""
    named: list[str] = []
    for one in dirty:
        if isinstance(one, DirtyDatabase):
            named.append(one.db)
        elif isinstance(one, DirtyPartitions):
            named += [f"{table_name(one.db, one.table)}/{part}" for part in one.names[:2]]
            named += [f"{len(one.names) - 2} more partitions"] if len(one.names) > 2 else []
        else:
            named.append(table_name(one.db, one.table))
    return ", ".join(named)[:TEXT_MAX]
