"""The newest invalidation of each table that is being pulled.

What was asked for before an invalidation, and answered from before it, is not shown after it.
"""


class InvalidationFence:
    """Remembers only groups that somebody pulls right now."""

    def __init__(self) -> None:
        self._pulled: dict[bytes, list[int]] = {}  # group: [topic, pulls, newest version]

    def begin(self, topic: int, group: bytes) -> None:
        """A pull of ``group`` begins."""
        self._pulled.setdefault(group, [topic, 0, 0])[1] += 1

    def end(self, group: bytes) -> None:
        """A pull of ``group`` has ended."""
        known = self._pulled[group]
        known[1] -= 1
        if not known[1]:
            del self._pulled[group]

    def invalidate(self, group: bytes, version: int) -> None:
        """A stub of ``group`` was applied."""
        known = self._pulled.get(group)
        if known is not None:
            known[2] = max(known[2], version)

    def invalidate_all(self, topic: int, version: int) -> None:
        """Everything of ``topic`` up to ``version`` may have changed."""
        for known in self._pulled.values():
            if known[0] == topic:
                known[2] = max(known[2], version)

    def new_epoch(self, topic: int) -> None:
        """``topic`` is of another epoch: versions of the one before say nothing."""
        for known in self._pulled.values():
            if known[0] == topic:
                known[2] = 0

    def minimum(self, group: bytes) -> int:
        """Return the version below which a reply about ``group`` is too old."""
        known = self._pulled.get(group)
        return 0 if known is None else known[2]

    def __len__(self) -> int:
        return len(self._pulled)
