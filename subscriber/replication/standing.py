"""Standing: the followers of all topics, and how far what they bring may be answered from.

One follower for each topic that is followed, and one more, coming, while its level changes.
"""

from collections.abc import Iterator

from ...topics.entries import FULL
from ...topics.follower import LIVE, Follower
from ...topics.sharding import NAMESPACE
from ...topics.wire.messages import Delta, Position
from ..store.memory_budget import Account
from ..store.read_floor import ReadFloor
from ..store.view import TopicView


class Standing:
    """Where each topic stands; ``shown`` is the lower bound of every answer."""

    def __init__(self, read_floor: ReadFloor) -> None:
        self.followers: dict[int, Follower] = {}
        self.coming: dict[int, Follower] = {}  # which will replace one of another level
        self.current_at: dict[int, float] = {}
        self._read_floor = read_floor

    def at(self, account: Account) -> Follower | None:
        """Return the follower of a topic at a level."""
        for follower in (self.followers.get(account[0]), self.coming.get(account[0])):
            if follower is not None and follower.level == account[1]:
                return follower
        return None

    def follower(self, account: Account) -> Follower:
        """Return the follower of a topic at a level, of which there is one."""
        follower = self.at(account)
        assert follower is not None, account
        return follower

    def step(self, delta: Delta) -> bool:
        """Move a topic over a delta that just follows, and tell whether it did.

        The hot path of who watches everything: nothing else can come of such a delta.
        """
        follower = self.followers.get(delta.topic)
        if follower is None or follower.level != delta.level or delta.topic in self.coming:
            return False
        if delta.level == FULL and (delta.stubbed or delta.horizon):
            return False
        return follower.step(delta.epoch, delta.from_version, delta.to_version)

    def accounts(self) -> Iterator[Account]:
        """Yield each topic with each level at which it is followed right now."""
        for follower in (*self.followers.values(), *self.coming.values()):
            yield follower.topic, follower.level

    def reached(self, topic: int, position: tuple[int, int]) -> bool:
        """Tell whether ``topic`` is LIVE at or above ``position``."""
        follower = self.followers.get(topic)
        if follower is None or follower.state is not LIVE:
            return False
        return (follower.epoch, follower.version) >= position

    def position(self, topic: int) -> tuple[int, int]:
        """Return epoch and version up to which ``topic`` is held, which is followed."""
        follower = self.followers[topic]
        return follower.epoch, follower.version

    def stands_at(self, topic: int, position: tuple[int, int]) -> bool:
        """Tell whether ``topic`` is LIVE at exactly ``position``."""
        follower = self.followers.get(topic)
        if follower is None or follower.state is not LIVE:
            return False
        return (follower.epoch, follower.version) == position

    def version(self, topic: int) -> int:
        """Return the version at which ``topic`` stands, or was last shown."""
        follower = self.followers.get(topic)
        return self._read_floor.of(topic)[1] if follower is None else follower.version

    def settled(self, topic: int) -> bool:
        """Tell whether ``topic`` is LIVE, of the namespace's epoch, and at or above all shown.

        Incarnations mean something within one epoch only.
        """
        namespace = self.followers.get(NAMESPACE)
        if namespace is None or not self.reached(topic, self._read_floor.of(topic)):
            return False
        return self.followers[topic].epoch == namespace.epoch

    def floor(self, topic: int, held: TopicView | None) -> tuple[int, int] | None:
        """Return from where on what is ``held`` is answered while ``topic`` is not settled.

        A reply is often ahead of the hub: it need not be fetched again until the hub is there.
        Changes come, and what a pull knows as new as all that was shown is not too old.
        """
        follower, namespace = self.followers.get(topic), self.followers.get(NAMESPACE)
        if follower is None or follower.state is not LIVE or held is None or namespace is None:
            return None
        shown = self._read_floor.of(topic)
        same = shown[0] == follower.epoch == namespace.epoch == held.epoch
        return shown if same else None

    def versions(self, epoch: int) -> tuple[tuple[int, int], ...]:
        """Return (topic, version) of everything shown, held or queued in ``epoch``, sorted."""
        versions = dict(self._read_floor.versions(epoch))
        for follower in (*self.followers.values(), *self.coming.values()):
            reached = [follower.version] if follower.epoch == epoch else []
            reached += [d.to_version for d in follower.queued() if d.epoch == epoch]
            if any(reached):
                versions[follower.topic] = max(versions.get(follower.topic, 0), *reached)
        return tuple(sorted(versions.items()))

    def positions(self) -> tuple[Position, ...]:
        """Return where each topic stands, at the level that it is to have."""
        return tuple(
            Position(topic=f.topic, level=f.level, epoch=f.epoch, version=f.version)
            for f in (self.coming.get(t, f) for t, f in self.followers.items())
        )

    def lag_s(self, topic: int, *, now: float) -> float:
        """Tell how long ago ``topic`` was last known to be current; infinite if it never was."""
        at = self.current_at.get(topic)
        return float("inf") if at is None else max(now - at, 0.0)
