"""Clock: seconds that pass also while the machine sleeps, for the age of the held content.

Python's own monotonic clock stands still during a sleep on Linux and macOS: by that clock, a laptop
that wakes up would take content that it has held for hours for as new as before the sleep.
"""

import time
from typing import Final

# The second is macOS's, of which time.monotonic uses another; Windows has neither, and needs none.
_CLOCK: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def seconds() -> float:
    """Return the seconds since some moment; they never go back."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
