"""Whether a daemon serves. A loop that hangs cannot report that itself.

The loop records the time of each turn; the pages, in their own thread, check how old it is.
"""

from typing import Final

STUCK_S: Final = 10.0  # an idle loop turns every 0.25 s, a busy one every few milliseconds


def trouble(problem: str, *, silent_s: float) -> str:
    """Return why a daemon does not serve; the empty text when it does.

    Args:
        problem: As the daemon reported it in its last turn.
        silent_s: The age of that report.
    """
    if silent_s <= STUCK_S:
        return problem
    return (
        f"the daemon's loop hangs: its last turn began {silent_s:.0f} s ago, {STUCK_S:g} s are "
        "allowed, and no request is answered; restart the process, nothing is lost"
    )
