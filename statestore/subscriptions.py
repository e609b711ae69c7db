"""Subscriptions: the topics with subscribers at minimal, and the answers to barriers.

Any peer of the data socket may subscribe to anything, so what is kept here is bounded. The end of
one subscription does not say whether others are left: then members count that have joined.
"""

from collections.abc import Callable

from ..topics.topic import FULL, MINIMAL, NUM_TOPICS_MAX, is_topic
from ..topics.wire.header import BARRIER_PREFIX, HEARTBEAT_PREFIX, NONCE_BYTES, prefix
from .status import Counts

_BARRIER_BYTES = len(BARRIER_PREFIX) + NONCE_BYTES


class Subscriptions:
    """What the subscribers of the data socket receive, as far as a hub has to know."""

    def __init__(self, counts: Counts, followers: Callable[[int, int], int]) -> None:
        """``followers`` returns how many members follow a topic at a level."""
        self._minimal: set[int] = set()  # the topics subscribed to at level minimal, and not ended
        self._followers = followers
        self._counts = counts

    def has_minimal(self, topic: int) -> bool:
        """Return whether ``topic`` has a subscriber at level minimal."""
        return topic in self._minimal or self._followers(topic, MINIMAL) > 0

    def take(self, frame: bytes) -> bytes | None:
        """Record a subscription (first byte 1) or its end; return the barrier that answers it."""
        begins, prefixed = frame[:1] == b"\1", frame[1:]
        if prefixed.startswith(BARRIER_PREFIX) and len(prefixed) == _BARRIER_BYTES:
            self._counts.barriers += begins
            return prefixed if begins else None
        topic = int.from_bytes(prefixed[1:3], "big")
        known = is_topic(topic, NUM_TOPICS_MAX)
        if known and prefixed == prefix(topic, MINIMAL):
            (self._minimal.add if begins else self._minimal.discard)(topic)
        elif prefixed != HEARTBEAT_PREFIX and not (known and prefixed == prefix(topic, FULL)):
            self._counts.subscriptions_odd += 1
        return None
