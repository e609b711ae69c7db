"""Subscriptions of the data socket: which topics are wanted at minimal, and barriers.

A reader joins a topic by a message, which ``members/membership.py`` records, and subscribes to its
prefix at the socket, which does not say whose subscription it is.
"""

from collections.abc import Callable
from typing import Final

from ..topics.topic import FULL, MINIMAL
from ..topics.wire.header import (
    BARRIER_PREFIX,
    HEARTBEAT_PREFIX,
    NONCE_BYTES,
    prefixes_in,
    topic_level_of,
)
from .status import HubCounts

_BARRIER_BYTES: Final = len(BARRIER_PREFIX) + NONCE_BYTES


def is_to_full(frame: bytes) -> bool:
    """Return whether ``frame`` begins subscriptions to topics at full, and nothing else."""
    topic_levels = map(topic_level_of, prefixes_in(frame[1:]))
    return frame[:1] == b"\1" and all(one is not None and one[1] == FULL for one in topic_levels)


class DataSubscriptions:
    """The topics with subscribers at minimal, and the answers to barriers.

    Any peer of the data socket may subscribe to anything, so what is kept here is bounded. The end
    of one subscription does not say whether others are left: after it only members count that have
    joined.
    """

    def __init__(self, counts: HubCounts, followers: Callable[[int, int], int]) -> None:
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
        for one in prefixes_in(prefixed):
            topic_level = topic_level_of(one)
            if topic_level is None:
                self._counts.subscriptions_invalid += one != HEARTBEAT_PREFIX
            elif topic_level[1] == MINIMAL:
                (self._minimal.add if begins else self._minimal.discard)(topic_level[0])
        return None
