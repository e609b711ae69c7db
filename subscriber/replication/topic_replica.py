"""The replica of one topic: its followers, how far they have come, and what they staged.

    none ──▶ minimal ──raise──▶ full comes, minimal stays live ──caught up──▶ full
      ▲         ▲──lower: full's content goes at once, full stays live until minimal is ──┘
      └─drop────┴───────────────────────────────────────────────────────────────────────┘

A follower is LIVE, or BEHIND until it has a position (minimal) or is caught up (full). A level
takes over only at or above the position of the one that it replaces.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from ...topics.follower import LIVE, Follower
from ...topics.topic import FULL
from ...topics.wire.messages import Delta, Position
from ..store.view import TopicView


@dataclass(slots=True, eq=False)
class TopicReplica:
    """One followed topic."""

    current: Follower  # its level is the one that readers see, or the one that is being left
    coming: Follower | None = None  # of another level; it will replace ``current``
    staged: TopicView | None = None  # what a coming full has brought; None for any other
    loading: bool = False  # it is followed at full and never was LIVE there: nothing is a change
    current_at: float | None = None  # seconds: when it was last as new as the hub's heartbeat

    @property
    def topic(self) -> int:
        """The topic's number."""
        return self.current.topic

    @property
    def is_live(self) -> bool:
        """Whether the current follower is LIVE."""
        return self.current.state is LIVE

    @property
    def position(self) -> tuple[int, int]:
        """Epoch and version up to which the topic is held."""
        return self.current.epoch, self.current.version

    def followers(self) -> Iterator[Follower]:
        """Yield the current follower, and the coming one if there is any."""
        yield self.current
        if self.coming is not None:
            yield self.coming

    def step(self, delta: Delta) -> bool:
        """Move over a delta that just follows, and tell whether it did.

        The hot path of a subscriber that follows everything: such a delta changes nothing else.
        """
        current = self.current
        if current.level != delta.level or self.coming is not None:
            return False
        if delta.level == FULL and (delta.stubbed or delta.invalidate_all):
            return False
        return current.step(delta.epoch, delta.from_version, delta.to_version)

    def reached(self, position: tuple[int, int]) -> bool:
        """Tell whether the topic is LIVE at or above ``position``."""
        return self.current.state is LIVE and self.position >= position

    def may_take_over(self) -> bool:
        """Tell whether the coming follower is where the current one is, or loses nothing."""
        old, new = self.current, self.coming
        if new is None:
            return False
        lost = old.level == FULL and old.state is not LIVE  # its content is not held any more
        return lost or (new.state is LIVE and (new.epoch, new.version) >= (old.epoch, old.version))

    def newest_version(self, epoch: int) -> int:
        """Return the highest version of ``epoch`` that is held or queued; 0 if there is none."""
        versions = [0]
        for follower in self.followers():
            if follower.epoch == epoch:
                versions.append(follower.version)
            versions += [d.to_version for d in follower.queued() if d.epoch == epoch]
        return max(versions)

    def target(self) -> Position:
        """Return the position of the follower at the level that the topic is to have."""
        one = self.coming or self.current
        return Position(topic=one.topic, level=one.level, epoch=one.epoch, version=one.version)

    def lag_s(self, *, now: float) -> float:
        """Return the seconds since the topic was known to be current; infinite if it never was."""
        return inf if self.current_at is None else max(now - self.current_at, 0.0)

    def check(self) -> None:
        """Assert every invariant."""
        at_full = self.coming is not None and self.coming.level == FULL
        assert (self.staged is not None) is at_full
        assert self.coming is None or self.coming.topic == self.topic
        assert self.coming is None or self.coming.level != self.current.level
        assert not self.loading or any(
            one.level == FULL and one.state is not LIVE for one in self.followers()
        )
