"""GroupLeaves: the blocks of a database's names, or of a table's partitions, by their bounds."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

from ...topics.objects.encoding.edits import Leaves
from ...topics.topic import TOMBSTONE, Entry, Topic


class GroupLeaves(Leaves):
    """The blocks of one group of one topic, by their lower bounds."""

    def __init__(self, topic: Topic, group: bytes, blocks: bytes) -> None:
        """``blocks`` is what the keys of the group's blocks begin with."""
        self._topic = topic
        self._blocks = blocks
        keys = (entry.key for entry in topic.heads(group))
        start = len(blocks)
        self.bounds = sorted(key[start:].decode() for key in keys if key.startswith(blocks))

    def floor(self, name: str) -> str | None:
        """Return the largest bound at or below ``name``; None if there are no blocks."""
        at = bisect_right(self.bounds, name)
        return self.bounds[at - 1] if at else None

    def after(self, lower: str) -> str | None:
        """Return the smallest bound above ``lower``; None if there is none."""
        at = bisect_right(self.bounds, lower)
        return self.bounds[at] if at < len(self.bounds) else None

    def read(self, lower: str) -> tuple[int, bytes]:
        """Return version and value of the block at the bound ``lower``."""
        entry = self._topic.get(self._blocks + lower.encode())
        assert entry is not None, lower
        assert entry.value is not None, lower
        return entry.version, entry.value

    def apply(self, entries: Iterable[Entry]) -> None:
        """Keep up with ``entries``, which were written to the topic."""
        start = len(self._blocks)
        for entry in entries:
            if not entry.key.startswith(self._blocks):
                continue
            lower = entry.key[start:].decode()
            at = bisect_left(self.bounds, lower)
            known = at < len(self.bounds) and self.bounds[at] == lower
            if entry.kind == TOMBSTONE:
                if known:
                    del self.bounds[at]
            elif not known:
                insort(self.bounds, lower)
