"""The newest invalidation of each table that is being pulled.

What catalogd read before an invalidation is not shown after it. The replicas report invalidations
while the fetcher begins and ends pulls.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class _Pulled:
    topic: int
    pulls: int = 0  # open ones
    minimum: int = 0  # topic version; a reply that is older is not shown


class InvalidationFence:
    """Holds only the groups that are being pulled right now."""

    def __init__(self) -> None:
        self._pulled: dict[bytes, _Pulled] = {}  # by group

    def begin(self, topic: int, group: bytes) -> None:
        """A pull of ``group`` begins."""
        self._pulled.setdefault(group, _Pulled(topic)).pulls += 1

    def end(self, group: bytes) -> None:
        """A pull of ``group`` has ended."""
        pulled = self._pulled[group]
        pulled.pulls -= 1
        if not pulled.pulls:
            del self._pulled[group]

    def invalidate(self, group: bytes, version: int) -> None:
        """A stub of ``group`` was applied."""
        pulled = self._pulled.get(group)
        if pulled is not None:
            pulled.minimum = max(pulled.minimum, version)

    def invalidate_all(self, topic: int, version: int) -> None:
        """Everything of ``topic`` up to ``version`` may have changed."""
        for pulled in self._of(topic):
            pulled.minimum = max(pulled.minimum, version)

    def new_epoch(self, topic: int) -> None:
        """``topic`` is of another epoch: versions of the one before mean nothing."""
        for pulled in self._of(topic):
            pulled.minimum = 0

    def minimum(self, group: bytes) -> int:
        """Return the topic version below which a reply about ``group`` is too old."""
        pulled = self._pulled.get(group)
        return 0 if pulled is None else pulled.minimum

    def __len__(self) -> int:
        return len(self._pulled)

    def _of(self, topic: int) -> list[_Pulled]:
        return [pulled for pulled in self._pulled.values() if pulled.topic == topic]
