"""VersionLog: catalogd's topics, the versions it gives, and what is still to be committed.

    write ──▶ topics (in memory) ──▶ pending ──take──▶ the store's commit ──▶ publish

Invariant: a topic's version grows by one with each write; what is pending is exactly what the
store does not have. Nothing of it leaves the process before the commit returned.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence

from ...topics.entries import TOMBSTONE, Entry, group_of
from ...topics.objects.edits import Leaves
from ...topics.topic import Topic
from .transactions import ChangeRow, Transaction


class GroupLeaves(Leaves):
    """The blocks of one group of one topic, by their lower bounds."""

    def __init__(self, topic: Topic, group: bytes, blocks: bytes) -> None:
        """``blocks`` is what the keys of the group's blocks begin with."""
        self._topic = topic
        self._blocks = blocks
        keys = (entry.key for entry in topic.rows(group))
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

    def learn(self, entries: Iterable[Entry]) -> None:
        """Follow what was written to the group."""
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


class VersionLog:
    """The topics of one catalogd, and the transactions that the store does not have yet."""

    def __init__(self, topics: dict[int, Topic]) -> None:
        self.topics = topics
        self._pending: list[Transaction] = []

    @property
    def dirty(self) -> bool:
        """Whether anything waits for a commit."""
        return bool(self._pending)

    def versions(self) -> tuple[int, ...]:
        """Return the version of each topic, by ``topic_ids``."""
        return tuple(topic.version for topic in self.topics.values())

    def write(
        self,
        topic: int,
        build: Callable[[int], Sequence[Entry]],
        *,
        source: int,
        at_us: int,
        changes: Sequence[ChangeRow] = (),
    ) -> tuple[Entry, ...]:
        """Give ``build`` the next version of ``topic`` and write the entries that it returns.

        No entries, no transaction. ``changes`` is read after ``build``, which may add to it.
        Returns the entries.
        """
        held = self.topics[topic]
        version = held.version + 1
        entries = tuple(build(version))
        if not entries:
            return ()
        held.file(entries)
        held.version = version
        self._pending.append(
            Transaction(
                topic=topic,
                from_version=version - 1,
                to_version=version,
                entries=entries,
                source=source,
                at_us=at_us,
                changes=tuple(changes),
            )
        )
        return entries

    def take(self) -> tuple[Transaction, ...]:
        """Hand over what is to be committed."""
        pending, self._pending = tuple(self._pending), []
        return pending

    def check(self) -> None:
        """Assert every invariant."""
        for topic in self.topics.values():
            topic.check()
        for transaction in self._pending:
            held = self.topics[transaction.topic]
            assert transaction.to_version <= held.version
            for entry in transaction.entries:
                assert entry.version == transaction.to_version
                assert group_of(entry.key)
