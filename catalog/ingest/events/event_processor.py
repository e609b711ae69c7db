"""EventProcessor: whether catalogd follows events, since when, why, and what operators ordered.

    ACTIVE ──pause──▶ PAUSED ──start──▶ ACTIVE ◀──answers── ERROR ◀──no answer, a refusal── ACTIVE
    DISABLED: events are never polled.    STOPPED: another metastore answers, a new core begins

catalogd by itself reads again what lost events may have changed, so that no state waits for an
operator to invalidate everything. A pause, and an ordered start until it is committed, are an entry
of the namespace, so that they outlast a restart of catalogd, and the epoch. In a pause catalogd
reads nothing of the metastore, because only polls confirm that results of reads are of one moment.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ....topics.clock import Clock
from ....topics.errors import UsageError
from ....topics.objects.encoding.values import Pause
from ...model.namespace import Namespace
from .poller import EVENTS_OFF, Poller, StartAt

DRAIN_S_MAX: Final = 5.0  # of polls in a pause; tables that change all that time stay unread
ERROR_S: Final = 10.0  # without an answer; a hiccup of the metastore is shorter
ID_MAX: Final = (1 << 63) - 1
PAUSED: Final = "events are paused by {who} since {since} UTC: topicast events start ends it"
NAME_CHARS_MAX: Final = 200  # of the name of the client that paused events: every reader holds it


class EventState(Enum):
    """Whether catalogd follows the metastore's events."""

    DISABLED = "DISABLED"  # a setting turns polls off
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"  # by an operator
    ERROR = "ERROR"  # the metastore does not answer, or refuses; polls go on
    STOPPED = "STOPPED"  # another metastore answers


NEXT: Final[Mapping[EventState, tuple[EventState, ...]]] = {
    EventState.DISABLED: (EventState.STOPPED,),
    EventState.ACTIVE: (EventState.PAUSED, EventState.ERROR, EventState.STOPPED),
    EventState.PAUSED: (EventState.ACTIVE, EventState.STOPPED),
    EventState.ERROR: (EventState.ACTIVE, EventState.PAUSED, EventState.STOPPED),
    EventState.STOPPED: (),
}
"""The states that may follow each state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorFacts:
    """The state at one moment, the reason for it, and since when; 0: since the start."""

    state: EventState
    because: str
    since_us: int


class EventProcessor:
    """The state, and the orders that change it."""

    def __init__(
        self,
        poller: Poller,
        namespace: Namespace,
        *,
        clock: Clock,
        unpublished: Callable[[], bool],
    ) -> None:
        """Begin paused if the namespace has a pause.

        ``unpublished``: whether something that was read is not published.
        """
        self._poller = poller
        self._clock = clock
        self._unpublished = unpublished
        self._drains_until = 0.0  # in a pause: how long polls may go on to confirm earlier reads
        self._namespace = namespace
        self._state = EventState.ACTIVE if poller.enabled else EventState.DISABLED
        self._because = "" if poller.enabled else EVENTS_OFF
        self._since_us = 0
        self._obey_namespace()

    @property
    def facts(self) -> ProcessorFacts:
        """The state now."""
        return ProcessorFacts(state=self._state, because=self._because, since_us=self._since_us)

    def pause(self, who: str) -> bool:
        """Poll for no more events from now on; return False if events are paused already.

        Polls go on for DRAIN_S_MAX at most while earlier reads wait for a poll to confirm them.

        Raises:
            UsageError: events are never polled.
        """
        self._demand_polls()
        if self._state is EventState.PAUSED:
            return False
        pause = Pause(who[:NAME_CHARS_MAX], self._clock.now_us, self._namespace.pause().start_at)
        self._namespace.set_pause(pause)
        self._obey_namespace()
        self._drains_until = self._clock.now + DRAIN_S_MAX
        return True

    def start(self, at: StartAt | None) -> bool:
        """Poll again, from ``at`` if it is given; return False if nothing differs.

        Raises:
            UsageError: events are never polled, or ``at`` cannot be the id of an event.
        """
        self._demand_polls()
        if at is not None and not -1 <= at <= ID_MAX:
            raise UsageError(f"events start at {at}: an id of 0 or more, or -1: the newest")
        was_paused = self._state is EventState.PAUSED
        if was_paused:
            self._become(EventState.ACTIVE, "")
        if was_paused or at is not None:
            at = self._namespace.pause().start_at if at is None else at
            self._namespace.set_pause(Pause(start_at=at))
            self._poller.start(at)
        return was_paused or at is not None

    def observe(self, *, stopped: str = "") -> None:
        """Take the state from the poller; ``stopped``: why polls have ended for good.

        Caller: the core at the end of each turn, the event router once another metastore answers.
        Affects: what the verdict, commands and pages say of events; whether the poller drains.
        """
        ordered = self._namespace.pause()
        if ordered.start_at is not None and not self._poller.moves:
            self._namespace.set_pause(ordered._replace(start_at=None))
        self._poller.drains = self._clock.now < self._drains_until and self._unpublished()
        if stopped:
            self._become(EventState.STOPPED, stopped)
        if self._state not in (EventState.ACTIVE, EventState.ERROR):
            return
        silent_s = self._poller.silent_s() or 0.0
        silence = self._poller.problem() if silent_s >= ERROR_S else ""
        found = self._poller.source_problem
        problem = silence if found is None else found.text
        if bool(problem) is (self._state is EventState.ACTIVE):
            self._become(EventState.ERROR if problem else EventState.ACTIVE, problem)
        self._because = problem

    def check(self) -> None:
        """Assert every invariant."""
        assert (self._state is EventState.PAUSED) <= bool(self._poller.paused)
        assert (self._state is EventState.DISABLED) <= (not self._poller.enabled)

    def _demand_polls(self) -> None:
        if not self._poller.enabled:
            raise UsageError(f"{EVENTS_OFF}; remove the flag, and restart catalogd")

    def _obey_namespace(self) -> None:
        """Carry out the pause and the start that the namespace has of an operator."""
        who, since_us, start_at = self._namespace.pause()
        if start_at is not None and self._poller.enabled:
            self._poller.go_to(start_at)  # it was ordered before a restart
        if who and self._poller.enabled:
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(since_us // 1_000_000))
            self._become(EventState.PAUSED, f"by {who}")
            self._since_us = since_us
            self._poller.pause(PAUSED.format(who=who, since=since))

    def _become(self, state: EventState, because: str) -> None:
        assert state in (self._state, *NEXT[self._state]), f"{self._state} to {state}"
        if state is not self._state:
            self._since_us = self._clock.now_us
        self._state, self._because = state, because
