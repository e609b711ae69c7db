"""Poller: when to poll for events, and up to which event catalogd is complete.

    IDLE ──due | fence | sync──▶ POLLING ──answer──▶ IDLE        a failure: later, and later

Invariant: ``published`` is the state of the window that a store may keep: every event known to it
has been published or needs nothing; after a crash the later ones are read again. With an interval
of 0 there are no polls.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from ..metastore.port import RawEvent
from .event_window import POLL_EVENTS_MAX, EventWindow, Gap, NewEvents, WindowState

BACKOFF_S: Final = 0.2  # after a poll that failed, doubled up to
BACKOFF_S_MAX: Final = 5.0
LATE_S: Final = 2.0  # an answer takes milliseconds, a second with 100 MB of messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """Effect: read the newest id, then the events after ``after``.

    ``quiet_at``: no events are read if the newest id is this one; -1: only the id is read.
    """

    poll: int
    after: int
    quiet_at: int | None
    events_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """Fact: the answer to a Poll; ``current_id`` was read before the events."""

    poll: int
    current_id: int
    events: tuple[RawEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PollFailed:
    """Fact: a Poll was not answered."""

    poll: int
    error: str


@dataclass(frozen=True, slots=True)
class Batch:
    """The events of one poll. ``seq``: their arrival number; ``whole``: no more events wait."""

    seq: int
    new: NewEvents
    whole: bool


class Poller:
    """One window on the events; one poll at a time."""

    def __init__(self, window: EventWindow | None, *, interval_s: float) -> None:
        """``window`` None: the first poll makes one, which begins at the newest event."""
        self.window = window
        self.interval_s = interval_s
        self.error = ""  # of the last poll; "" if it was answered
        self.late = 0  # polls whose answer took longer than LATE_S
        self.published = window.state if window else None  # what a store may keep, see above
        self._seq = 0  # arrival number of the newest events
        self._states: deque[tuple[int, WindowState]] = deque()  # by seq, not yet published
        self._polling: int | None = None  # the poll that is not answered
        self._began_at = 0.0  # when it began
        self._is_late = False  # it is counted in ``late``
        self._due_at = 0.0
        self._backoff_s = BACKOFF_S
        self._answered_at: float | None = None
        self._checked_at: float | None = None  # the first call of ``check_late``

    @property
    def enabled(self) -> bool:
        """Whether events are polled at all."""
        return self.interval_s > 0

    @property
    def seq(self) -> int:
        """The arrival number of the newest events."""
        return self._seq

    @property
    def watermark(self) -> int:
        """The event id up to which everything is published."""
        return self.published.last_id if self.published else 0

    @property
    def deadline(self) -> float | None:
        """When the next poll is due; None while one runs."""
        return None if self._polling is not None or not self.enabled else self._due_at

    def silent_s(self, now: float) -> float | None:
        """Return for how long no poll was answered; None without polls."""
        since = self._checked_at if self._answered_at is None else self._answered_at
        return None if since is None or not self.enabled else round(max(now - since, 0.0), 3)

    def problem(self, now: float) -> str:
        """Return why polls bring nothing; the empty text when they do."""
        if self._polling is not None and self._is_late:
            return f"a poll for events has waited {now - self._began_at:.0f} s for its answer"
        return self.error

    def check_late(self, now: float) -> None:
        """Count a poll, once, whose answer takes longer than LATE_S."""
        self._checked_at = now if self._checked_at is None else self._checked_at
        if self._polling is not None and not self._is_late and now - self._began_at >= LATE_S:
            self._is_late = True
            self.late += 1

    def poll_now(self, now: float) -> None:
        """Make a poll due now, because a request waits for it, unless the metastore fails."""
        if not self.error:
            self._due_at = min(self._due_at, now)

    def may_begin(self, now: float) -> bool:
        """Return whether a poll is due."""
        return self.enabled and self._polling is None and now >= self._due_at

    def begin(self, poll: int, now: float) -> Poll:
        """Order poll number ``poll``."""
        self._polling, self._began_at, self._is_late = poll, now, False
        if self.window is None:
            return Poll(poll=poll, after=0, quiet_at=-1, events_max=0)
        after = self.window.next_poll(now)
        quiet = self.window.last_id if self.window.is_quiet(self.window.last_id) else None
        return Poll(poll=poll, after=after, quiet_at=quiet, events_max=POLL_EVENTS_MAX)

    def on_failed(self, fact: PollFailed, now: float) -> None:
        """Note a poll that failed; the next comes after a pause that grows."""
        if fact.poll != self._polling:
            return
        self._polling, self.error = None, fact.error
        self._due_at = now + self._backoff_s
        self._backoff_s = min(self._backoff_s * 2, BACKOFF_S_MAX)

    def on_polled(self, fact: Polled, now: float) -> Batch | None:
        """Take the answer to a poll; None if it is late, or only brought the newest id."""
        if fact.poll != self._polling:
            return None
        self._polling, self.error, self._backoff_s, self._answered_at = None, "", BACKOFF_S, now
        self._due_at = max(now, self._began_at + self.interval_s)
        if self.window is None:
            self.window = EventWindow.starting_at(fact.current_id, now=now)
            self.published = self.window.state
            return None
        gap: Gap | None = self.window.went_back(fact.current_id)
        if gap is not None:
            self.window = EventWindow.starting_at(fact.current_id, now=now)
            new = NewEvents(events=(), gap=gap)
        else:
            new = self.window.take(fact.events, now, current_id=fact.current_id)
        whole = len(fact.events) < POLL_EVENTS_MAX
        if not whole:
            self._due_at = now
        if new.events or new.gap:
            self._seq += 1
        self._note_state(self.window.state)
        return Batch(self._seq, new, whole)

    def mark_published(self, oldest_unpublished: int) -> None:
        """Note the arrival number of the oldest event that is not published."""
        while self._states and self._states[0][0] < oldest_unpublished:
            self.published = self._states.popleft()[1]

    def _note_state(self, state: WindowState) -> None:
        if self._states and self._states[-1][0] == self._seq:
            self._states.pop()
        elif not self._states and self.published == state:
            return
        self._states.append((self._seq, state))
