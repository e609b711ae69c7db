"""VersionLog: catalogd's topics, the versions that it assigns, and what is still to be committed.

    write ──▶ topics (in memory) ──▶ pending ──take──▶ the store's commit ──▶ publish

Invariant: a topic's version grows by one with each write; what is pending is exactly what the
store does not have. Nothing of it leaves the process before the commit returned.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ...topics.objects.edits import Leaves
from ...topics.topic import TOMBSTONE, Entry, Topic, group_of


class ChangeKind(StrEnum):
    """What became of an object, in the words of ``Subscriber.watch``, as the store keeps them."""

    CREATED = "created"
    SCHEMA = "schema"
    DATA = "data"
    DROPPED = "dropped"
    LOADED = "loaded"  # read for the first time, or again: nothing changed at the metastore
    UNLOADED = "unloaded"  # catalogd holds it no longer: its entries became stubs


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """A line of the history: what became of one object.

    ``object`` is ``db``, ``db.table`` or ``db.table/partition name``; ``before`` the version it
    had, 0 if there was none. The store adds the rest from the transaction and its commit.
    """

    object: str
    kind: ChangeKind
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRow:
    """A line of the history: an operator's order. ``object``: what it is for, or the new mode."""

    who: str
    order: str
    object: str
    at_us: int


WriteId = tuple[bytes, int]  # a driver, and the number that it gave to its write


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRow:
    """A write that a driver reported: an intent while ``open``, else done as of ``version``.

    ``driver`` and ``number`` are its key. ``object``: a table or a path.
    """

    driver: bytes
    number: int
    object: str
    partitions: tuple[str, ...]
    open: bool
    at_us: int
    topic: int = 0
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The changes of one topic in ``(from_version, to_version]``, all or none of them.

    All ``entries`` have ``to_version``; a PREFIX deletes what was there before, and nothing of
    its own transaction. ``source``: SOURCE_* of topics/wire/messages.
    """

    topic: int
    from_version: int
    to_version: int
    entries: tuple[Entry, ...]
    source: int
    at_us: int
    changes: tuple[ChangeRow, ...] = ()

    def check(self) -> None:
        """Assert that the versions of the transaction and of its entries agree."""
        assert 0 <= self.from_version < self.to_version
        for entry in self.entries:
            assert entry.version == self.to_version, entry.key
            assert max(entry.schema_version, entry.data_version) <= entry.version, entry.key


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


class VersionLog:
    """The topics of one catalogd, and the transactions that the store does not have yet."""

    def __init__(self, topics: dict[int, Topic]) -> None:
        self.topics = topics  # by ``topic_ids``
        self._pending: list[Transaction] = []  # in the order of their writes

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
        """Remove and return what is to be committed."""
        pending, self._pending = tuple(self._pending), []
        return pending

    def check(self) -> None:
        """Assert every invariant."""
        for topic in self.topics.values():
            topic.check()
        for transaction in self._pending:
            transaction.check()
            assert transaction.to_version <= self.topics[transaction.topic].version
            assert all(group_of(entry.key) for entry in transaction.entries)
