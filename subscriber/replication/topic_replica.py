"""TopicReplica: how one followed topic is held, and the change of its level.

    none ──▶ minimal ──raise──▶ full comes, minimal stays live ──caught up──▶ full
      ▲         ▲──lower: full's content goes at once, full stays live until minimal is ──┘
      └─drop────┴───────────────────────────────────────────────────────────────────────┘

A follower is LIVE, or BEHIND until it has a position (minimal) or is caught up (full). A level
takes over only at or above the position of the level that it replaces.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ...topics.streams.follower import LIVE, Follower
from ...topics.topic import FULL
from ...topics.wire.messages.data import Delta
from ...topics.wire.messages.readers import Position
from ..store.view import TopicView


@dataclass(slots=True, eq=False)
class TopicReplica:
    """One followed topic."""

    current: Follower  # at the level that readers see, or at full while the topic is lowered
    coming: Follower | None = None  # at another level; it will replace ``current``
    staged: TopicView | None = None  # the content that a coming full has brought; else None
    loading: bool = False  # it was never LIVE at full: the entries that come are not changes

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
        """Yield the current follower, and the coming follower if there is one."""
        yield self.current
        if self.coming is not None:
            yield self.coming

    def step(self, delta: Delta) -> bool:
        """Advance over ``delta`` if it follows the position, and return whether it did.

        The hot path of a subscriber that follows everything: only the version moves.
        """
        current = self.current
        if current.level != delta.level or self.coming is not None:
            return False
        if delta.level == FULL and (delta.stubbed or delta.invalidate_all):
            return False
        return current.step(delta.epoch, delta.from_version, delta.to_version)

    def may_take_over(self) -> bool:
        """Return whether the coming follower is as far as the current, or nothing can be lost."""
        old, new = self.current, self.coming
        if new is None:
            return False
        lost = old.level == FULL and old.state is not LIVE  # ``lower`` has discarded its content
        return lost or (new.state is LIVE and (new.epoch, new.version) >= (old.epoch, old.version))

    def newest_version(self, epoch: int) -> int:
        """Return the highest version of ``epoch`` that is held or queued; 0 if there is none."""
        known = [(one.epoch, one.version) for one in self.followers()]
        known += [(d.epoch, d.to_version) for one in self.followers() for d in one.queued()]
        return max((version for of, version in known if of == epoch), default=0)

    def target(self) -> Position:
        """Return the position of the follower at the level that the topic is to have."""
        one = self.coming or self.current
        return Position(topic=one.topic, level=one.level, epoch=one.epoch, version=one.version)

    def check(self) -> None:
        """Assert every invariant."""
        at_full = self.coming is not None and self.coming.level == FULL
        assert (self.staged is not None) is at_full
        assert self.coming is None or self.coming.topic == self.topic
        assert self.coming is None or self.coming.level != self.current.level
        assert not self.loading or any(
            one.level == FULL and one.state is not LIVE for one in self.followers()
        )
