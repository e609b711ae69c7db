"""Progress: how fast the comparison with the metastore goes, and whether it has stopped.

    an answer ──▶ the next answer is due ──later than STOPPED_S──▶ it has stopped

Nothing is due while something else comes first (``waits``): a pause, events that are missing.
"""

from dataclasses import dataclass
from typing import Final

from ...topics.clock import Clock

STOPPED_S: Final = 300.0  # that an answer is late; a call that hangs ends after 60 s as a rule
RATE_S: Final = 60.0  # over so long, or up to twice that, calls a second are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciliationFacts:
    """The progress of the comparison at one time.

    Attributes:
        waits: What the comparison waits for; empty: nothing.
        late_s: For how long an answer has been due.
        error: Why the last call failed; empty if it did not.
        calls_per_s: Calls a second, of the last minute or two.
        ended_s: Since the last whole round ended; None: none has.
        took_s: How long it took; None: none has ended.
    """

    waits: str = ""
    late_s: float = 0.0
    error: str = ""
    calls_per_s: float = 0.0
    ended_s: float | None = None
    took_s: float | None = None

    @property
    def has_stopped(self) -> bool:
        """Whether an answer has been due for STOPPED_S."""
        return self.late_s >= STOPPED_S


class Progress:
    """The progress that ``Reconciliation`` notes of itself."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.error = ""  # of the last call
        self._waits = ""
        self._due_at: float | None = None  # when an answer is due; None: while something waits
        self._began_at = 0.0  # of the running round
        self._ended_at: float | None = None  # of the last whole round
        self._took_s: float | None = None
        self._calls = 0
        self._marks: list[tuple[float, int]] = []  # when so many calls were answered: two at most

    def observe(self, waits: str) -> None:
        """Note what the comparison waits for now; empty: nothing."""
        now = self._clock.now
        self._waits = waits
        self._marks = self._marks or [(now, 0)]
        if waits:
            self._due_at = None
        elif self._due_at is None:
            self._due_at = now

    def on_answer(self, *, calls: int, next_at: float) -> None:
        """Note an answer of the metastore, to so many calls; the next is due at ``next_at``."""
        now = self._clock.now
        self.error, self._due_at = "", next_at
        if not self._marks or now >= self._marks[-1][0] + RATE_S:
            self._marks = [*self._marks[-1:], (now, self._calls)]
        self._calls += calls

    def on_round_began(self) -> None:
        """Note that a round over everything begins."""
        self._began_at = self._clock.now

    def on_round_ended(self, *, next_at: float) -> None:
        """Note that a round over everything has ended; the next call is due at ``next_at``."""
        now = self._clock.now
        self._due_at = next_at
        self._ended_at, self._took_s = now, now - self._began_at

    def facts(self) -> ReconciliationFacts:
        """Return the progress as of now."""
        now = self._clock.now
        at, calls = self._marks[0] if self._marks else (now, 0)
        return ReconciliationFacts(
            waits=self._waits,
            late_s=0.0 if self._due_at is None else max(0.0, now - self._due_at),
            error=self.error,
            calls_per_s=(self._calls - calls) / max(now - at, 1.0),
            ended_s=None if self._ended_at is None else now - self._ended_at,
            took_s=self._took_s,
        )
