"""Heartbeat timer: the next heartbeat is due each period, and soon after a new subscription.

A new reader needs a heartbeat before it joins anything; many that come at once share one.
"""

from math import inf
from typing import Final

from ..topics.wire.header import HEARTBEAT_PREFIX

SOON_S: Final = 0.05  # at least between two: a storm of readers makes them 5 times as many

_SUBSCRIBED: Final = b"\1" + HEARTBEAT_PREFIX


class HeartbeatTimer:
    """``due_at`` is when the next heartbeat is due."""

    def __init__(self, period_s: float) -> None:
        self.due_at = 0.0
        self._period_s = period_s
        self._sent_at = -inf

    def on_subscription(self, frame: bytes, *, now: float) -> None:
        """Bring the next heartbeat forward if ``frame`` subscribes to heartbeats."""
        if frame == _SUBSCRIBED:
            self.due_at = min(self.due_at, max(now, self._sent_at + SOON_S))

    def on_sent(self, *, now: float) -> None:
        """Schedule the next heartbeat; one that was late is made up for by half a period."""
        self._sent_at = now
        self.due_at = max(self.due_at + self._period_s, now + self._period_s / 2)
