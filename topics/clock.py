"""Clock: the time of a turn as the parts of a core read it, and the seconds of a subscriber.

These seconds pass also while the machine sleeps, so that the age of the held content is true.
Python's own monotonic clock stands still during a sleep on Linux and macOS: by that clock, a laptop
that wakes up would take content that it has held for hours for as new as before the sleep.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

# The second is macOS's, of which time.monotonic uses another; Windows has neither, and needs none.
_CLOCK: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))

seconds: Final[Callable[[], float]] = (
    time.monotonic if _CLOCK is None else partial(time.clock_gettime, _CLOCK)
)
"""Return the seconds since some moment; they never go back."""


class Clock(Protocol):
    """A turn as a part sees it that reads the time and decides no effects."""

    @property
    def now(self) -> float:
        """Seconds, monotonic."""

    @property
    def now_us(self) -> int:
        """Microseconds since 1970; 0 in a core whose facts do not have them."""
