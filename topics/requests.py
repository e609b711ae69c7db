"""Requests: the requester's half of messages that are repeated until they are answered.

    open ──▶ due, again and again, each pause twice the last ──▶ close: answered, or timed out

A request keeps its id over every repetition, so that the first answer ends it, to whichever of them
it is; a peer must tolerate the same request twice. No request ends by itself: a caller that gives
up closes it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from .clock import Clock

RETRY_S: Final = 1.0  # a lost connection is the only reason, and it is back after 0.2 s
RETRY_S_MAX: Final = 8.0  # so that repetitions do not pile up at a peer that loads a large table

SubjectT = TypeVar("SubjectT")


@dataclass(slots=True)
class _Open(Generic[SubjectT]):
    subject: SubjectT
    due_at: float
    pause_s: float  # until the repetition after the next


class Requests(Generic[SubjectT]):
    """The requests that are not answered yet, by id."""

    def __init__(
        self, next_id: Callable[[], int], clock: Clock, *, retry_s: float = RETRY_S
    ) -> None:
        self._next_id = next_id
        self._clock = clock
        self._retry_s = retry_s
        self._open: dict[int, _Open[SubjectT]] = {}  # by id
        self._due_at: float | None = None  # the first of their times, unless ``_moved``
        self._moved = False  # a request was opened, closed or sent, or its time was changed

    def __len__(self) -> int:
        return len(self._open)

    @property
    def deadline(self) -> float | None:
        """The time at which ``due`` returns the next request; None if none is open.

        Cost: O(1), but for the first time after a change.
        """
        if self._moved:
            self._due_at = min((one.due_at for one in self._open.values()), default=None)
            self._moved = False
        return self._due_at

    def open(self, subject: SubjectT, *, pause_s: float = 0.0) -> int:
        """Return the id of a new request, which is due at once.

        ``pause_s``: the least time until its first repetition.
        """
        request = self._next_id()
        self._moved = True
        self._open[request] = _Open(subject, self._clock.now, max(pause_s, self._retry_s))
        return request

    def get(self, request: int) -> SubjectT | None:
        """Return the subject of an open request."""
        found = self._open.get(request)
        return None if found is None else found.subject

    def close(self, request: int) -> SubjectT | None:
        """End a request, which was answered or timed out; return its subject, None if unknown."""
        found = self._open.pop(request, None)
        self._moved = True
        return None if found is None else found.subject

    def find(self, test: Callable[[SubjectT], bool]) -> tuple[int, ...]:
        """Return the ids of the open requests whose subject passes ``test``."""
        return tuple(request for request, one in self._open.items() if test(one.subject))

    def clear(self) -> None:
        """End every request."""
        self._moved = True
        self._open.clear()

    def due(self) -> tuple[tuple[int, SubjectT], ...]:
        """Return what is to be sent now, first or once more, and schedule the next repetition."""
        now, first_at = self._clock.now, self.deadline
        if first_at is None or now < first_at:
            return ()
        due = [(request, one) for request, one in self._open.items() if one.due_at <= now]
        self._moved = True
        for _, one in due:
            one.due_at = now + one.pause_s
            one.pause_s = max(min(2 * one.pause_s, RETRY_S_MAX), one.pause_s)
        return tuple((request, one.subject) for request, one in due)

    def back_off(self, request: int, *, for_s: float) -> None:
        """Make a request due after ``for_s`` and not before: its peer has asked for that."""
        found = self._open.get(request)
        if found is not None:
            found.due_at = self._clock.now + for_s
            self._moved = True

    def send_by(self, request: int, at: float) -> None:
        """Make a request due at ``at``, unless it is due before."""
        found = self._open.get(request)
        if found is not None:
            found.due_at = min(found.due_at, at)
            self._moved = True

    def retry_now(self) -> None:
        """Make every request due: the connection, or the peer, is another."""
        self._moved = True
        for one in self._open.values():
            one.due_at, one.pause_s = self._clock.now, self._retry_s
