"""Poller: when to poll, how many events to read, and up to which event catalogd is complete.

    IDLE ──due | a read to confirm | a sync──▶ POLLING ──answer──▶ IDLE     failed: a longer pause
     └──due for a look, while there is activity──▶ LOOKING ──no new id──▶ IDLE, else POLLING
                        one event fails UNSENDABLE_TRIES_MAX times: polls search for it, and pass it

The event window (event_window.py) decides which events a poll reads again. Before the first poll of
a connection, the poller has the metastore behind it identified (identity.py).
While events come, the poller looks at the newest id LOOKS times in an interval; a new id demands a
poll. A look does not read events: if it read only those above the last id, it would miss a late
event of a lower id, and readers would see half a change.

Invariants: ``published`` is the state of the window that a store may keep: every event in it has
been published or needs nothing, so that catalogd reads the later events again after a crash. With
an interval of 0 there are no polls; in an operator's pause no poll begins, and the window stays.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from ....topics.errors import UsageError
from ....topics.objects.source_problem import ProblemKind, SourceProblem
from ....topics.turn import PartTurn
from ...metastore.port import RawEvent
from ...model.window_state import WindowState
from .event_window import REREAD_EVENTS_MAX, START_OVERLAP, EventWindow, Gap
from .identity import (
    FEWER,
    Creations,
    Finding,
    Identified,
    Identify,
    IdentityCheck,
    first_after,
)
from .unsendable import UnsendableSearch

POLL_EVENTS_MAX: Final = 4 * REREAD_EVENTS_MAX  # more than the overlap, so that polls advance
TURN_EVENTS_MAX: Final = POLL_EVENTS_MAX  # of an answer: 0.1 s; later turns take the rest
BEHIND_EVENTS_MAX: Final = 12 * POLL_EVENTS_MAX  # of a poll while more events wait than it reads,
BEHIND_BYTES_MAX: Final = 32 << 20  # with messages up to this: 2.3 reads all events for each poll
LOOKS: Final = 4  # in one interval, while there is activity: 1 ms each for the metastore
ACTIVE_S: Final = 2.0  # since the last event
BACKOFF_S: Final = 0.2  # after a poll that failed, doubled up to
BACKOFF_S_MAX: Final = 3.0  # so that catalogd follows within 5 s of the metastore's return
CHECK_S: Final = 10.0  # between two looks whether the metastore records events: one call
REFUSED_S: Final = 10.0  # of refusals only: a hiccup of the metastore's database is shorter
UNSENDABLE_TRIES_MAX: Final = 3  # polls for one new event; larger polls failed for 15 s before
STATES_MAX: Final = 32  # while events wait; 18 KB each at 50 events/s, 1.8 MB at 3,000 events/s
LATE_S: Final = 1.5  # an answer takes milliseconds, a second with 100 MB of messages

StartAt = int
"""The id of an event after which to go on; -1: the newest event, and everything is read again."""
EVENTS_OFF: Final = (
    "events are off (--hms_event_polling_interval_s=0): a change of the metastore is seen once it "
    "is compared (--reconcile_calls_per_s), or at once after topicast refresh"
)
LISTENER_SETTING: Final = (
    "set hive.metastore.transactional.event.listeners="
    "org.apache.hive.hcatalog.listener.DbNotificationListener in its hive-site.xml (from Hive 3 on "
    "metastore.transactional.event.listeners) and restart it"
)
NO_LISTENER: Final = (
    "the metastore records no events, and its changes arrive only once they are compared: "
    f"{LISTENER_SETTING}; then everything is read again"
)
UNPROVEN: Final = (
    "the metastore does not say whether it records events, and none has come since it was "
    "connected: until one comes, what is held is compared with it, and a sync compares all names"
)
REFUSED: Final = "the metastore refuses to tell its events: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """Effect: read the newest id, then the events after ``after``.

    ``quiet_at``: if the newest id is this id, no events are read. ``events_max`` 0: only the newest
    id is read. ``check``: also read whether the metastore records events.
    """

    poll: int
    after: int
    quiet_at: int | None
    events_max: int
    check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """Fact: the answer to a Poll; ``current_id`` was read before the events.

    ``connection``: the number of the connection that brought the answer. ``recorded``: whether the
    metastore records events; None: it does not say, or the poll did not request that.
    """

    poll: int
    connection: int
    current_id: int
    events: tuple[RawEvent, ...]
    recorded: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PollFailed:
    """Fact: a Poll or an Identify has failed; ``refused``: the metastore answered by an exception.

    ``current_id``: the newest id, if the metastore has sent it before the events failed.
    """

    poll: int
    error: str
    refused: bool = False
    current_id: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """The events of one poll that were never seen. ``seq``: their arrival number.

    ``gap``: the events that are missing before them. ``whole``: the metastore has no more events.
    ``passed``: why catalogd passed the events of the gap; empty: the metastore has deleted them.
    """

    seq: int
    events: tuple[RawEvent, ...]
    gap: Gap | None
    whole: bool
    passed: str = ""


class Poller:
    """One window on the events; one poll at a time."""

    def __init__(
        self,
        window: EventWindow | None,
        *,
        turn: PartTurn[Poll | Identify],
        interval_s: float,
        known_tables: Callable[[], Creations] = dict,
    ) -> None:
        """``window`` None: the first check makes a window that begins at the newest event.

        ``known_tables``: see IdentityCheck.
        """
        self.window = window
        self._turn = turn
        self._check = IdentityCheck(known_tables)
        self._followed = window is not None  # a poll was answered, so its metastore is known
        self._interval_s = interval_s
        self.error = ""  # of the last poll; "" if the metastore answered it
        self.late = 0  # polls that took LATE_S or longer
        self.published = window.state if window else None  # what a store may keep, see above
        self.polled = (0, 0)  # the newest poll that brought all events, and its last seq
        self.polled_at = -inf  # when that poll began
        self.polled_on = 0  # the connection that answered that poll
        self.newest = window.last_id if window else 0  # the newest event that the metastore named
        self._current_at = -inf  # when the last poll began of which every event is published
        self.seq = 0  # arrival number of the newest events
        # Windows by seq, not yet published. Of more than STATES_MAX every other one is dropped, so
        # that catalogd reads a few more events again after a crash.
        self._states: deque[tuple[int, WindowState]] = deque()
        self._polling: int | None = None  # the poll that is not answered
        self._began_at = 0.0  # when that poll began
        self._events_max = 0  # how many events it reads at most
        self._news_max = POLL_EVENTS_MAX  # how many of them are new; fewer after failed polls
        self._behind_max = 0  # how many events the next poll reads at least: so many wait
        self._rest: Polled | None = None  # events of the answer that no turn has taken yet
        self._taken = 0  # events of the answer that earlier turns have taken
        self._tries = 0  # polls for one new event that failed, one after the other
        self._search: UnsendableSearch | None = None  # for an event that cannot be sent
        self._is_late = False  # ``late`` has counted the running poll
        self.reading = False  # a read is about to demand a poll, which a look would delay
        self._due_at = 0.0  # when the next poll or look is due
        self._whole_at = 0.0  # when the next poll that reads events is due
        self._is_look = False  # the running poll reads only the newest id
        self._event_at = -inf  # when the last event arrived
        self._backoff_s = BACKOFF_S  # the pause after the next poll that fails
        self._answered_at: float | None = None  # when a poll or a check was answered last
        self._began_first_at: float | None = None  # the first turn of the core
        self._check_at = 0.0  # when to look again whether events are recorded
        self._checking = False  # the running poll looks whether events are recorded
        self._checked_on: int | None = None  # the connection that answered the last such poll
        self._recorded = True  # whether the metastore records events, as it said last
        self._says = True  # whether the metastore said that at the last request
        self._connected_at_id = 0  # the newest event when the connection was made
        self._events_on: int | None = None  # the last connection that brought a newer event
        self._refused_since: float | None = None  # the first of the refusals without an answer
        self._refusal = ""  # the last refusal, once they have lasted REFUSED_S
        self.paused = ""  # by whom polls are paused, as a sentence; empty: they are not paused
        self.drains = False  # in a pause: polls go on to confirm earlier reads
        self._resumed_at = 0.0  # when polls went on after the last pause
        self._start_at: StartAt | None = None  # where to go on, once the metastore is identified
        self._moved_seq: int | None = None  # arrival number of a move, until it is published
        self._doubted_seq: int | None = None  # arrival number of a doubt, until it is published

    @property
    def enabled(self) -> bool:
        """Whether events are polled at all."""
        return self._interval_s > 0

    @property
    def follows(self) -> bool:
        """Whether events are polled now."""
        return self.enabled and not self.paused

    @property
    def source_problem(self) -> SourceProblem | None:
        """Why no change of the metastore will ever arrive; None when changes arrive."""
        if not self.enabled:
            return SourceProblem(ProblemKind.OFF, EVENTS_OFF)
        if not self._recorded:
            return SourceProblem(ProblemKind.UNRECORDED, NO_LISTENER)
        if self.paused:
            return SourceProblem(ProblemKind.PAUSED, self.paused)
        return SourceProblem(ProblemKind.REFUSED, self._refusal) if self._refusal else None

    @property
    def reads(self) -> bool:
        """Whether the metastore may be read: in a pause no poll can confirm a read."""
        return not self.paused or self.drains

    @property
    def caught_up(self) -> bool:
        """Whether all changes until the end of the last pause are published."""
        return self._current_at >= self._resumed_at

    @property
    def unproven(self) -> bool:
        """Whether nothing shows that the metastore records events.

        The metastore does not say so, and no event has come since the connection was made. Earlier
        events prove nothing: the metastore may have been restarted without its listener.
        """
        came = self._events_on is not None and self._events_on == self._check.connection
        return self.enabled and not self._says and not came

    @property
    def watermark(self) -> int:
        """The event id up to which everything is published."""
        return self.published.last_id if self.published else 0

    @property
    def unread(self) -> int:
        """The events of the metastore that are not read yet, as of the last look at its newest."""
        return 0 if self.window is None else max(self.newest - self.window.last_id, 0)

    @property
    def lag_events(self) -> int | None:
        """The events of the metastore that are not published yet; None without polls."""
        return max(self.newest - self.watermark, 0) if self.enabled else None

    def lag_s(self) -> float | None:
        """Return for how long the metastore may have had changes that are not published.

        If everything is published, that is the time since the last poll began. None: there are no
        polls, or no poll's events were all published yet.
        """
        known = self.enabled and self._current_at > -inf
        return round(max(self._turn.now - self._current_at, 0.0), 3) if known else None

    @property
    def deadline(self) -> float | None:
        """When the next poll, or the next turn of an answer, is due; None while one runs."""
        if self._rest is not None:
            return self._due_at
        if self._polling is not None or not self._polls:
            return None
        return max(self._due_at, self._whole_at) if self.reading else self._due_at

    def silent_s(self) -> float | None:
        """Return for how long no poll was answered; None without polls."""
        since = self._began_first_at if self._answered_at is None else self._answered_at
        return (
            None
            if since is None or not self.follows
            else round(max(self._turn.now - since, 0.0), 3)
        )

    def problem(self) -> str:
        """Return why polls bring nothing; empty: they are answered."""
        if self._polling is not None and self._is_late:
            waited_s = self._turn.now - self._began_at
            return f"a poll for events has waited {waited_s:.0f} s for its answer"
        return self.error

    def check_late(self) -> None:
        """Count a poll, once, whose answer takes longer than LATE_S."""
        now = self._turn.now
        self._began_first_at = now if self._began_first_at is None else self._began_first_at
        waits = self._polling is not None and self._rest is None
        if waits and not self._is_late and now - self._began_at >= LATE_S:
            self._is_late = True
            self.late += 1

    def poll_now(self, *, check: bool = False) -> None:
        """Make a poll due now, because a request waits for it, unless the metastore fails.

        ``check``: the poll also reads whether the metastore records events, unless a poll on this
        connection has: a server reads its listeners as it starts, which ends its connections.
        """
        now = self._turn.now
        if check and self._checked_on != self._check.connection:
            self._check_at = now
        if not self.error:
            self._due_at = min(self._due_at, now)
        self._whole_at = min(self._whole_at, now)

    def may_begin(self) -> bool:
        """Return whether a poll is due."""
        due_at = self.deadline
        return self._rest is None and due_at is not None and self._turn.now >= due_at

    def rest(self) -> Polled | None:
        """Remove and return the events of an answer that no turn has taken, as an answer."""
        found, self._rest = self._rest, None
        return found

    def _drop_rest(self) -> None:
        """Drop the events of an answer that no turn has taken: a later poll reads them again."""
        if self._rest is not None:
            self._rest = self._polling = None

    def pause(self, why: str) -> None:
        """Begin no poll until ``start``, except while the poller ``drains``.

        ``why``: by whom polls are paused, as a sentence.
        """
        self.paused = why
        self._drop_rest()

    def start(self, at: StartAt | None) -> None:
        """Poll again, from where polls have ended, or from ``at`` if that is given.

        The metastore is identified first. In the pause its database may have been restored from a
        copy beneath a server that kept our connection, and the ids may be above ours again.
        """
        now = self._turn.now
        self.paused, self.drains, self.error, self._answered_at = "", False, "", now
        self._due_at = self._whole_at = self._resumed_at = now
        self._drop_rest()
        self._check.connection = None
        if at is not None:
            self.go_to(at)

    def go_to(self, at: StartAt) -> None:
        """Go on ``at`` once the metastore is identified: the check also reads its newest id."""
        self._drop_rest()
        self._start_at, self._check.connection = at, None

    def begin(self, poll: int) -> None:
        """Order poll number ``poll``, or the check that comes before it."""
        self._turn.add(self._order(poll))

    def _order(self, poll: int) -> Poll | Identify:
        now = self._turn.now
        self._polling, self._began_at, self._is_late = poll, now, False
        if self.window is None or self._check.connection is None:
            return self._check.order(poll, self.window.newest if self.window else ())
        if self._search is not None:
            self._checking, after = False, self._search.after
            most = self.window.known_after(after) + 1
            return Poll(poll=poll, after=after, quiet_at=None, events_max=most)
        self._checking = check = now >= self._check_at
        if check:
            self._check_at = now + CHECK_S
        self._is_look = now < self._whole_at
        if self._is_look:
            last = self.window.last_id
            return Poll(poll=poll, after=last, quiet_at=None, events_max=0, check=check)
        self._whole_at = now + self._interval_s
        after = self.window.next_poll(now)
        quiet = self.window.last_id if self.window.is_quiet(self.window.last_id) else None
        most = self._news_max
        if most < POLL_EVENTS_MAX:
            most = min(self.window.known_after(after) + most, POLL_EVENTS_MAX)
        else:
            settling = min(self.window.settling_max(BEHIND_BYTES_MAX), BEHIND_EVENTS_MAX)
            most = max(most, self._behind_max, settling)
        self._events_max, self._taken = most, 0
        return Poll(poll=poll, after=after, quiet_at=quiet, events_max=most, check=check)

    def on_failed(self, fact: PollFailed) -> Batch | None:
        """Note a poll that failed; the next comes after a longer pause, and reads fewer events.

        Messages may be so large that the metastore cannot send all of them in time. If it cannot
        send an event even alone, the poller passes that event, and the batch has the gap.
        """
        now = self._turn.now
        if fact.poll != self._polling:
            return None
        self._polling, self.error = None, fact.error
        self._check_at = now  # the next answer is of a metastore that may have been restarted
        self._due_at, self._whole_at = now + self._backoff_s, now
        self._backoff_s = min(self._backoff_s * 2, BACKOFF_S_MAX)
        passed = self._look_for_unsendable(fact)
        self._news_max = max(self._news_max // FEWER, 1)
        if not fact.refused:
            self._refused_since = None
            return passed
        self._refused_since = now if self._refused_since is None else self._refused_since
        if now - self._refused_since >= REFUSED_S:
            self._refusal = f"{REFUSED}{fact.error}"
        return passed

    def skip(self, id_: int) -> Batch:
        """Read no event up to ``id_`` any more; the batch has the gap that this leaves.

        Raises:
            UsageError: no events are read, this event was read, or the metastore has none so new.
        """
        window = self.window
        if window is None or not self.enabled:
            found = self.source_problem
            why = "none is read yet" if found is None else found.text
            raise UsageError(f"event {id_} cannot be skipped: {why}")
        if id_ <= window.stable_id:
            raise UsageError(f"event {id_} was read before: the next is {window.stable_id + 1}")
        if id_ > self.newest:
            raise UsageError(f"there is no event {id_} yet: the newest is {self.newest}")
        return self._pass(min(window.last_id, id_ - 1), id_, why="an operator skips it")

    def _look_for_unsendable(self, fact: PollFailed) -> Batch | None:
        """Search for an event that fails by itself, once it has failed often enough."""
        now = self._turn.now
        search, window = self._search, self.window
        if window is None or fact.current_id is None:  # the metastore does not answer at all
            self._search, self._tries = None, 0
            return None
        self.newest = max(self.newest, fact.current_id)
        if self._check.connection is None:
            self._check.on_events_failed()
            return None
        if search is None:
            self._tries += self._news_max == 1
            if self._tries < UNSENDABLE_TRIES_MAX:
                return None
            begins, read = window.polled_after, window.last_id
            search = UnsendableSearch(begins=begins, read=read, newest=fact.current_id)
        else:
            search.on_failure()
            self._due_at, self._whole_at = now + BACKOFF_S, now
        self._search, self._tries = (None, 0) if search.over else (search, self._tries)
        if search.found is None:
            return None
        return self._pass(search.origin, search.found, why=fact.error)

    def _pass(self, after: int, last: int, *, why: str) -> Batch:
        """Pass the events after ``after`` up to ``last``."""
        assert self.window is not None
        self._drop_rest()
        self.window.pass_over(last)
        self._polling, self._search, self._tries = None, None, 0  # a running poll may bring them
        self._due_at = self._whole_at = self._turn.now
        self.seq += 1
        self._note_state(self.window.state)
        return Batch(self.seq, (), (after + 1, last), whole=False, passed=why)

    def on_polled(self, fact: Polled) -> Batch | None:
        """Take the answer to the running poll; None: it is of another poll, or brings no events."""
        now = self._turn.now
        if fact.poll != self._polling or self.window is None:
            return None
        self._on_answer()
        if self._checking:
            self._says, self._checked_on = fact.recorded is not None, fact.connection
        if fact.recorded is not None:
            self._recorded = fact.recorded
        lower = fact.current_id < self.window.newest_id  # its database was replaced beneath it
        if lower or fact.connection != self._check.connection:
            self._check.connection, self._due_at, self._whole_at = None, now, now
            self._check_at = now  # its server may have been restarted without a listener
            return None
        self._followed = True
        self.newest = max(fact.current_id, self.window.last_id)
        if self._search is not None:
            self._search.on_answer()
            self._search, self._due_at = (None if self._search.over else self._search), now
            return None
        if self._is_look:
            if fact.current_id > self.window.last_id:
                self._event_at = self._due_at = self._whole_at = now
            return None
        return self._take(fact, self.window)

    def _take(self, fact: Polled, window: EventWindow) -> Batch:
        """Take as many events of the answer as one turn may; the rest waits in ``_rest``."""
        now = self._turn.now
        self._tries = 0
        current = fact.current_id
        cut = len(fact.events) >= self._events_max - self._taken and fact.events[-1].id <= current
        if not self._taken:
            self._behind_max = behind_max(fact.events) if cut else 0
        some = fact.events[:TURN_EVENTS_MAX]
        if len(some) < len(fact.events):
            self._rest = replace(fact, events=fact.events[TURN_EVENTS_MAX:])
            self._polling, cut = fact.poll, True
            self._taken += len(some)
        events, gap = window.take(some, now, current_id=current, cut=cut)
        whole = not cut and window.last_id >= current
        more = self._news_max + 1 if self._is_late else self._news_max * FEWER
        self._news_max = min(more, POLL_EVENTS_MAX)
        if not whole:
            self._due_at = self._whole_at = now
        if events or gap:
            self.seq += 1
            self._event_at = now
            self._due_at = min(self._due_at, self._began_at + self._pause_s())
        if whole:
            self.polled = fact.poll, self.seq
            self.polled_at, self.polled_on = self._began_at, fact.connection
        self._note_state(window.state)
        if window.last_id > self._connected_at_id:
            self._events_on = fact.connection
        return Batch(self.seq, events, gap, whole)

    def on_identified(self, fact: Identified) -> Finding | None:
        """Take the answer to the running check.

        Returns whether the same metastore answers; after another one the caller ends all polls.
        None: the answer is to another check, begins the window, or does not decide that yet.
        """
        now = self._turn.now
        if fact.poll != self._polling:
            return None
        self._on_answer()
        self._connected_at_id = fact.current_id
        window = self.window
        if window is None:
            window = self.window = EventWindow.starting_at(fact.current_id, now=now)
            self._check.connection, window.uuid = fact.connection, fact.uuid
            self._start_at = None
            self.published = window.state
            self.newest = window.last_id
            return None
        self._due_at = self._whole_at = now
        self.newest = max(fact.current_id, window.last_id)
        if not self._followed:
            return Finding(same=False, why="nothing shows that the names were read from it")
        finding = self._check.on_identified(
            fact, uuid=window.uuid, last_id=window.newest_id, known=window.newest
        )
        if self._check.connection is not None:
            window.uuid = fact.uuid or window.uuid
        return finding

    def first_poll(self, fact: Identified) -> Polled | None:
        """Return the events that a check has read, as the answer to the first poll.

        None: few events wait, or a poll has to read others. If 100,000 events wait, Hive 2.3 takes
        10 s for each read, however many events are requested: this saves one of two reads.
        """
        window = self.window
        if window is None or not (fact.events and is_behind(fact.current_id, window.last_id)):
            return None
        if self._search is not None or self.moves or not self._polls:
            return None
        if not window.begin_with(first_after(window.newest), self._began_at):
            return None
        self._polling, self._checking, self._is_look = fact.poll, False, False
        self._events_max, self._taken = len(fact.events), 0
        return Polled(
            poll=fact.poll,
            connection=fact.connection,
            current_id=fact.current_id,
            events=fact.events,
        )

    def move(self) -> tuple[StartAt, Gap | None] | None:
        """Go to the event that an operator ordered, after a check found the same metastore.

        Returns the order and the ids that it skips; None: nothing was ordered. Reads because of the
        move have the arrival number ``seq``.
        """
        at, self._start_at, window = self._start_at, None, self.window
        if at is None or window is None:
            return None
        to = self._connected_at_id if at < 0 else min(at, self._connected_at_id)
        gap = (window.last_id + 1, to) if to > window.last_id else None
        self._search, self._tries = None, 0
        self.window = window.moved(to, overlap=START_OVERLAP if at < 0 else 0, now=self._turn.now)
        self.seq += 1  # until it is published, the store keeps the order and the old window
        self._moved_seq = self.seq
        self._note_state(self.window.state)
        return at, gap

    @property
    def moves(self) -> bool:
        """Whether the store has yet to keep the order of an operator to start elsewhere."""
        return self._start_at is not None or self._moved_seq is not None

    def next_seq(self) -> int:
        """Return a new arrival number, for changes without events."""
        self.seq += 1
        return self.seq

    @property
    def doubts(self) -> bool:
        """Whether everything is read again, as the ids of another log may continue the known ids.

        Until that has ended the store must keep no event of that log: after a crash catalogd would
        take the log for the known one, and would not read the rest.
        """
        return self._doubted_seq is not None

    def doubt(self) -> int:
        """Return a new arrival number, for everything that is read again."""
        self._doubted_seq = self.next_seq()
        return self._doubted_seq

    def mark_published(self, oldest_unpublished: int) -> None:
        """Note the arrival number of the oldest event that is not published."""
        while self._states and self._states[0][0] < oldest_unpublished:
            seq, self.published = self._states.popleft()
            if self._moved_seq is not None and seq >= self._moved_seq:
                self._moved_seq = None
        if self._doubted_seq is not None and self._doubted_seq < oldest_unpublished:
            self._doubted_seq = None
        if self.polled[1] < oldest_unpublished:
            self._current_at = self.polled_at

    @property
    def _polls(self) -> bool:
        """Whether polls may begin. Without a window they may even in a pause, to begin one."""
        return self.enabled and (self.reads or self.window is None)

    def _on_answer(self) -> None:
        """Note an answer of the metastore; during a search the last error stays."""
        now = self._turn.now
        self._polling, self._backoff_s, self._answered_at = None, BACKOFF_S, now
        if self._search is None:
            self.error, self._refused_since, self._refusal = "", None, ""
        self._due_at = max(now, self._began_at + self._pause_s())

    def _pause_s(self) -> float:
        """Return how long after a poll the next poll is due."""
        active = self._turn.now - self._event_at <= ACTIVE_S
        return self._interval_s / LOOKS if active else self._interval_s

    def _note_state(self, state: WindowState) -> None:
        if self._states and self._states[-1][0] == self.seq:
            self._states.pop()
        elif not self._states and self.published == state:
            return
        self._states.append((self.seq, state))
        if len(self._states) > STATES_MAX:  # of an odd number, so that the first and the last stay
            self._states = deque([*self._states][::2])


def is_behind(current_id: int, last_id: int) -> bool:
    """Return whether more events wait than POLL_EVENTS_MAX, which one poll reads."""
    return current_id - last_id > POLL_EVENTS_MAX


def behind_max(events: Sequence[RawEvent]) -> int:
    """Return how many events of the mean size of ``events`` one poll may read."""
    size = max(sum(event.size for event in events) // len(events), 1)
    return min(BEHIND_BYTES_MAX // size, BEHIND_EVENTS_MAX)
