"""Heartbeat timer: the next heartbeat is due each period, and soon after a new subscription.

A new reader needs a heartbeat before it joins anything; many that come at once share one. While
readers go on coming, as after a restart of the hub, each heartbeat that is brought forward has a
pause before it that is twice the last one, up to the period: every reader handles all of them.
"""

from math import inf
from typing import Final

from ..topics.wire.header import HEARTBEAT_PREFIX

SOON_S: Final = 0.05  # from the last heartbeat to the first that is brought forward

_SUBSCRIBED: Final = b"\1" + HEARTBEAT_PREFIX


class HeartbeatTimer:
    """``due_at`` is when the next heartbeat is due."""

    def __init__(self, period_s: float) -> None:
        self.due_at = 0.0
        self._period_s = period_s
        self._sent_at = -inf
        self._pause_s = SOON_S  # from the last heartbeat to one that is brought forward
        self._is_wanted = False  # whether a reader has subscribed since the last one

    def on_subscription(self, frame: bytes, *, now: float) -> None:
        """Bring the next heartbeat forward if ``frame`` subscribes to heartbeats."""
        if frame == _SUBSCRIBED:
            self._is_wanted = True
            self.due_at = min(self.due_at, max(now, self._sent_at + self._pause_s))

    def on_sent(self, *, now: float) -> None:
        """Schedule the next heartbeat; one that was late is made up for by half a period."""
        self._sent_at = now
        self._pause_s = min(2 * self._pause_s, self._period_s) if self._is_wanted else SOON_S
        self._is_wanted = False
        self.due_at = max(self.due_at + self._period_s, now + self._period_s / 2)
