"""Heartbeats: when a hub sends the next heartbeat, and the versions in it."""

from math import inf
from typing import Final

from ..topics.wire.header import HEARTBEAT_PREFIX
from ..topics.wire.messages.data import Heartbeat
from .content.ingest import Ingest

SOON_S: Final = 0.05  # from the last heartbeat to the first that is brought forward
MEMBER_S: Final = 0.001  # for each member, of the longest pause: each handles all heartbeats
SIZES_EVERY: Final = 20  # heartbeats, of which one has the sizes of topics
_SUBSCRIBED: Final = b"\1" + HEARTBEAT_PREFIX


class Heartbeats:
    """The heartbeats of one hub, by their sequence."""

    def __init__(self, ingest: Ingest, *, hub_id: int, period_ms: int) -> None:
        self._ingest = ingest
        self._hub_id = hub_id
        self._period_ms = period_ms
        self._sequence = 0  # of the last heartbeat

    def next(self, *, sent_us: int, silent_s: float) -> Heartbeat:
        """Return the next heartbeat; it has no vectors while the hub is being seeded.

        ``silent_s``: how long no publisher was seen.
        """
        ingest = self._ingest
        self._sequence += 1
        topics = [] if ingest.seeding else [followed.topic for followed in ingest.followed.values()]
        sized = topics if self._sequence % SIZES_EVERY == 1 else []
        return Heartbeat(
            hub=self._hub_id,
            epoch=ingest.epoch,
            start=ingest.start,
            sequence=self._sequence,
            interval_ms=self._period_ms,
            sent_us=sent_us,
            watermark=ingest.watermark,
            age_ms=int(silent_s * 1000),
            catalog_address=ingest.catalog_address,
            versions=tuple(topic.version for topic in topics),
            floors=tuple(topic.floor for topic in topics),
            sizes=tuple(topic.full_bytes for topic in sized),
            offers=ingest.offers,
        )


class HeartbeatTimer:
    """When the next heartbeat is due: each period, and soon after a new subscription.

    A new reader needs a heartbeat before it joins anything; readers that come at once share it.
    While readers keep coming, as after a restart of the hub, the pause before a heartbeat that is
    brought forward doubles, because every reader handles every heartbeat. It ends at SOON_S plus
    MEMBER_S for each member, and at the period: with few members none waits much over SOON_S.
    """

    def __init__(self, period_s: float) -> None:
        self.due_at = 0.0  # when the next heartbeat is due
        self._period_s = period_s
        self._sent_at = -inf  # when the last heartbeat was sent
        self._pause_s = SOON_S  # from the last heartbeat to an early heartbeat
        self._is_wanted = False  # whether a reader has subscribed since the last heartbeat

    def on_subscription(self, frame: bytes, *, now: float) -> None:
        """Bring the next heartbeat forward if ``frame`` subscribes to heartbeats."""
        if frame == _SUBSCRIBED:
            self._is_wanted = True
            self.due_at = min(self.due_at, max(now, self._sent_at + self._pause_s))

    def on_sent(self, *, now: float, members: int) -> None:
        """Schedule the next heartbeat; a late heartbeat is made up for by half a period."""
        self._sent_at = now
        longest_s = min(SOON_S + members * MEMBER_S, self._period_s)
        self._pause_s = min(2 * self._pause_s, longest_s) if self._is_wanted else SOON_S
        self._is_wanted = False
        self.due_at = max(self.due_at + self._period_s, now + self._period_s / 2)
