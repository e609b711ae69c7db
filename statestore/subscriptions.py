"""Subscriptions: what somebody listens to, as far as a hub must know, and the barrier's answer.

They come from anybody who connects to the data socket, so whatever they hold is bounded here.
"""

from ..topics.entries import FULL, MINIMAL
from ..topics.sharding import NUM_TOPICS_MAX, is_topic
from ..topics.wire.header import BARRIER_PREFIX, HEARTBEAT_PREFIX, NONCE_BYTES, prefix
from .status import Counts

_BARRIER_BYTES = len(BARRIER_PREFIX) + NONCE_BYTES


class Subscriptions:
    """``minimal``: the topics that somebody listens to at level minimal."""

    def __init__(self, counts: Counts) -> None:
        self.minimal: set[int] = set()
        self._counts = counts

    def take(self, frame: bytes) -> bytes | None:
        """Take one; the first byte is 1 where it begins. Return the barrier that answers it."""
        begins, asked = frame[:1] == b"\1", frame[1:]
        if asked.startswith(BARRIER_PREFIX) and len(asked) == _BARRIER_BYTES:
            self._counts.barriers += begins
            return asked if begins else None
        topic = int.from_bytes(asked[1:3])
        known = is_topic(topic, NUM_TOPICS_MAX)
        if known and asked == prefix(topic, MINIMAL):
            (self.minimal.add if begins else self.minimal.discard)(topic)
        elif asked != HEARTBEAT_PREFIX and not (known and asked == prefix(topic, FULL)):
            self._counts.subscriptions_odd += 1
        return None
