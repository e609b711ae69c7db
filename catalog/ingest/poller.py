"""Poller: when to ask for events, and up to which event catalogd is complete.

    IDLE ──due | fence | sync──▶ ASKING ──answer──▶ IDLE        a failure: later, and later

Invariant: ``place`` is what the store may keep: every event known to it has been published or
needs nothing; a crash reads again what came after it. Without events (interval 0) it never asks.
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
    """Effect: ask for the newest id, then for the events after ``after``.

    ``quiet_at``: nothing is asked if the newest id is this one; -1: only the id is wanted.
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
    """What a poll brought. ``seq``: its arrival number; ``whole``: no more events wait."""

    seq: int
    news: NewEvents
    whole: bool


class Poller:
    """One window on the events; one poll at a time."""

    def __init__(self, window: EventWindow | None, *, interval_s: float) -> None:
        self.window = window
        self.interval_s = interval_s
        self.error = ""
        self.last_at: float | None = None  # when a poll last succeeded
        self.late = 0  # polls that were not answered in time
        self._is_late = False
        self._looked_at: float | None = None
        self._asking: int | None = None
        self._began_at = 0.0
        self._due_at = 0.0
        self._backoff_s = BACKOFF_S
        self._seq = 0
        self._points: deque[tuple[int, WindowState]] = deque()
        self.place: WindowState | None = window.state if window else None

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
        return self.place.last_id if self.place else 0

    @property
    def deadline(self) -> float | None:
        """When the next poll is due; None while one runs."""
        return None if self._asking is not None or not self.enabled else self._due_at

    def silent_s(self, now: float) -> float | None:
        """Return how long ago a poll was answered, or since the first look; None without polls."""
        since = self._looked_at if self.last_at is None else self.last_at
        return None if since is None or not self.enabled else round(max(now - since, 0.0), 3)

    def trouble(self, now: float) -> str:
        """Say why polls bring nothing; the empty text when they do."""
        if self._asking is not None and self._is_late:
            return f"a poll for events has waited {now - self._began_at:.0f} s for its answer"
        return self.error

    def look(self, now: float) -> None:
        """Notice, once for each poll, that its answer takes long."""
        self._looked_at = now if self._looked_at is None else self._looked_at
        if self._asking is not None and not self._is_late and now - self._began_at >= LATE_S:
            self._is_late = True
            self.late += 1

    def hasten(self, now: float) -> None:
        """Poll as soon as may be: somebody waits. A failing metastore is not asked faster."""
        if not self.error:
            self._due_at = min(self._due_at, now)

    def may_begin(self, now: float) -> bool:
        """Whether ``begin`` would ask now."""
        return self.enabled and self._asking is None and now >= self._due_at

    def begin(self, poll: int, now: float) -> Poll:
        """Order poll number ``poll``."""
        self._asking, self._began_at, self._is_late = poll, now, False
        if self.window is None:
            return Poll(poll=poll, after=0, quiet_at=-1, events_max=0)
        after = self.window.next_poll(now)
        quiet = self.window.last_id if self.window.is_quiet(self.window.last_id) else None
        return Poll(poll=poll, after=after, quiet_at=quiet, events_max=POLL_EVENTS_MAX)

    def failed(self, fact: PollFailed, now: float) -> None:
        """Learn that a poll failed; the next comes after a pause that grows."""
        if fact.poll != self._asking:
            return
        self._asking, self.error = None, fact.error
        self._due_at = now + self._backoff_s
        self._backoff_s = min(self._backoff_s * 2, BACKOFF_S_MAX)

    def polled(self, fact: Polled, now: float) -> Batch | None:
        """Take the answer to a poll; None if it was not asked for, or only found the newest id."""
        if fact.poll != self._asking:
            return None
        self._asking, self.error, self._backoff_s, self.last_at = None, "", BACKOFF_S, now
        self._due_at = max(now, self._began_at + self.interval_s)
        if self.window is None:
            self.window = EventWindow.starting_at(fact.current_id, now=now)
            self.place = self.window.state
            return None
        gap: Gap | None = self.window.went_back(fact.current_id)
        if gap is not None:
            self.window = EventWindow.starting_at(fact.current_id, now=now)
            news = NewEvents(events=(), gap=gap)
        else:
            news = self.window.news(fact.events, now, current_id=fact.current_id)
        whole = len(fact.events) < POLL_EVENTS_MAX
        if not whole:
            self._due_at = now
        if news.events or news.gap:
            self._seq += 1
        self._note()
        return Batch(self._seq, news, whole)

    def resolved(self, unresolved: int) -> None:
        """Learn the arrival number of the oldest event that is not published."""
        while self._points and self._points[0][0] < unresolved:
            self.place = self._points.popleft()[1]

    def _note(self) -> None:
        assert self.window is not None
        if self._points and self._points[-1][0] == self._seq:
            self._points.pop()
        elif not self._points and self.place == self.window.state:
            return
        self._points.append((self._seq, self.window.state))
