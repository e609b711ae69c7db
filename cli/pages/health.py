"""Health: whether a daemon serves, in words. A loop that hangs cannot say so itself.

The loop notes the time of each turn; the pages, in a thread of their own, look how old it is.
"""

from typing import Final

STUCK_S: Final = 10.0  # an idle loop turns every 0.25 s, a busy one every few milliseconds


def trouble(problem: str, *, silent_s: float) -> str:
    """Return why a daemon does not serve; the empty text when it does.

    Args:
        problem: What the daemon said itself, in its last turn.
        silent_s: How long ago that was.
    """
    if silent_s <= STUCK_S:
        return problem
    return (
        f"the daemon's loop hangs: its last turn began {silent_s:.0f} s ago, {STUCK_S:g} s are "
        "allowed, and nobody is answered meanwhile; restart the process, nothing is lost by that"
    )
