"""Load progress: how many tables of a load are read, and how long the others will take.

nothing left ──tables to read──▶ a load, measured each STEP_S ──nothing left──▶ forgotten
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from ....topics.clock import Clock

STEP_S: Final = 1.0  # between two measurements
STEPS_MAX: Final = 60  # the pace is that of the last minute


@dataclass(frozen=True, slots=True)
class LoadFacts:
    """A load at one moment: ``read`` tables were read, ``left`` are still to be read.

    ``left_s``: how long the latter take at the pace of the last minute; None: the pace is not known
    yet, or no table is left.
    """

    read: int = 0
    left: int = 0
    left_s: float | None = None


class LoadProgress:
    """Measures one load after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._read = 0  # tables, since the load began
        self._left = 0
        self._steps: deque[tuple[float, int]] = deque(maxlen=STEPS_MAX)  # time, and ``_read`` then

    def measure(self, left: int) -> LoadFacts:
        """Return how far the load is; ``left``: how many tables it has still to read."""
        now = self._clock.now
        if not left:
            self._read = self._left = 0
            self._steps.clear()
            return LoadFacts()
        self._read += max(self._left - left, 0)
        self._left = left
        if not self._steps or now >= self._steps[-1][0] + STEP_S:
            self._steps.append((now, self._read))
        began, before = self._steps[0]
        pace = (self._read - before) / (now - began) if now > began else 0.0
        return LoadFacts(self._read, left, left / pace if pace else None)
