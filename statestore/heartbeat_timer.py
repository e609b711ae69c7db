"""Pace: when the next heartbeat is due: each period, and soon after somebody began to listen.

Who comes waits for a heartbeat before it joins anything; many who come at once share one.
"""

from math import inf
from typing import Final

from ..topics.wire.header import HEARTBEAT_PREFIX

SOON_S: Final = 0.05  # at least between two: a storm of readers makes them 5 times as many

_BEGINS: Final = b"\1" + HEARTBEAT_PREFIX


class Pace:
    """``at`` is when the next one is due."""

    def __init__(self, period_s: float) -> None:
        self.at = 0.0
        self._period_s = period_s
        self._sent_at = -inf

    def heard(self, frame: bytes, *, now: float) -> None:
        """Take a subscription; its first byte is 1 where somebody begins to listen."""
        if frame == _BEGINS:
            self.at = min(self.at, max(now, self._sent_at + SOON_S))

    def sent(self, *, now: float) -> None:
        """Take that one goes out."""
        self._sent_at = now
        self.at = max(self.at + self._period_s, now + self._period_s / 2)
