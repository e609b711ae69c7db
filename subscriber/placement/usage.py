"""UsageTracker: how much of each topic is read, and how much of that minimal would pull.

    read ──▶ once ──read again──▶ again ──not read for WINDOW_S, or too many──▶ removed
               └──── too many of these ──▶ removed ◀─────────────────────────────┘

Invariant: ``working_bytes`` of a topic is the sum over its tables that were read again.

A read *misses* if it is the first of its table, or if the table has changed since the last read,
unless the table is hot, so that it was prefetched. This does not depend on the level of the topic,
so that the worth of a topic does not jump when its level does. The tables that were read again are
the working set. A scan of many tables, each read once, adds none to it and removes none.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nlargest
from itertools import chain, islice
from math import inf, log
from operator import itemgetter
from typing import Final

from ...topics.newest import Newest

HALF_LIFE_S: Final = 1200.0  # of every rate: longer than a job's pauses, shorter than a shift
WINDOW_S: Final = 3600.0  # without a read, until a table is no longer in use
AGAIN_MAX: Final = 4096  # tables in ``again``, of 250 bytes each
ONCE_MAX: Final = 1024  # tables in ``once``: few, as a scan is not to stay
HOT_PER_S: Final = 1 / 60  # reads a second from which on a table is hot: a loop reads it
FIRST_SHARE: Final = 0.25  # of a read, for the first read of a table: it may stay the only one

_PER_S: Final = log(2) / HALF_LIFE_S
ONCE_PER_S: Final = FIRST_SHARE * _PER_S  # the rate of a table that was read for the first time


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUsage:
    """How a topic is used, in rates per second; the first read of a table counts a quarter.

    ``misses``, ``missed_bytes``: what minimal would pull for these reads, if the cache had room for
    all tables. ``working_bytes``: of its tables that were read again. ``read_at``: the time of the
    last read; -inf: there was none.
    """

    reads: float = 0.0
    read_bytes: float = 0.0
    misses: float = 0.0
    missed_bytes: float = 0.0
    working_bytes: int = 0
    read_at: float = -inf


@dataclass(slots=True)
class _Table:
    """A table that was read lately."""

    topic: int
    size: int  # bytes that its last read needed
    read_at: float  # the time of that read
    reads: float  # the decaying count of its reads, as of that read
    stale_bytes: int = 0  # that changes have made stale since that read
    changes: int = 0  # the number of these changes
    changed_at: int = 0  # the version of the last of them


class UsageTracker:
    """Counts reads by topic, and remembers a bounded number of tables."""

    def __init__(self) -> None:
        self._sums: dict[int, TopicUsage] = {}  # by topic: sums that decay, as of ``read_at``
        self._working_bytes: Counter[int] = Counter()  # by topic
        # by table read once, and more than once; both in the order of the last read
        self._once = Newest[bytes, _Table](ONCE_MAX)
        self._again: dict[bytes, _Table] = {}
        self._expire_at = inf  # the earliest time at which a table leaves the window

    def __len__(self) -> int:
        return len(self._once) + len(self._again)

    def __contains__(self, group: bytes) -> bool:
        """Return whether a table was read again lately."""
        return group in self._again

    def read(self, topic: int, group: bytes, *, size: int, now: float, times: int = 1) -> None:
        """Count ``times`` reads of a table, each of which needed ``size`` bytes of it.

        A read counts the same whoever has answered it, and at any level of the topic.
        """
        self._expire(now)
        table = self._take(group)
        missed, missed_bytes = FIRST_SHARE, FIRST_SHARE * size
        weight = times - 1 + FIRST_SHARE
        if table is not None:
            weight = times
            waits = table.stale_bytes and not self._was_prefetched(table, now)
            missed, missed_bytes = (1.0, min(table.stale_bytes, size)) if waits else (0.0, 0.0)
        sums = self._sums.get(topic, TopicUsage())
        share = _share(sums.read_at, now)
        self._sums[topic] = TopicUsage(
            reads=sums.reads * share + weight,
            read_bytes=sums.read_bytes * share + weight * size,
            misses=sums.misses * share + missed,
            missed_bytes=sums.missed_bytes * share + missed_bytes,
            read_at=now,
        )
        again = table is not None or times > 1
        before = 0.0 if table is None else table.reads * _share(table.read_at, now)
        self._put(group, _Table(topic, size, now, before + weight), again=again)

    def on_changed(self, group: bytes, *, size: int, version: int) -> None:
        """Count ``size`` bytes of a table as stale, whether they are cached or not."""
        table = self._again.get(group) or self._once.get(group)
        if table is not None:
            table.stale_bytes += max(size, 1)
            table.changes += version != table.changed_at
            table.changed_at = version

    def on_dropped(self, group: bytes) -> None:
        """Forget a table."""
        self._take(group)

    def of(self, topic: int, *, now: float) -> TopicUsage:
        """Return how ``topic`` is used.

        Cost: O(1), and O(tables that have left the window since the last call).
        """
        if now >= self._expire_at:
            self._expire(now)
        sums = self._sums.get(topic, TopicUsage())
        per_s = _PER_S * _share(sums.read_at, now)
        return TopicUsage(
            reads=sums.reads * per_s,
            read_bytes=sums.read_bytes * per_s,
            misses=sums.misses * per_s,
            missed_bytes=sums.missed_bytes * per_s,
            working_bytes=self._working_bytes[topic],
            read_at=sums.read_at,
        )

    def rate(self, group: bytes, *, now: float) -> float:
        """Return how many times a second a table is read; 0: not read again within WINDOW_S."""
        table = self._again.get(group)
        return 0.0 if table is None else table.reads * _PER_S * _share(table.read_at, now)

    def newest(self, count: int) -> list[tuple[int, bytes, float]]:
        """Return topic, key and time of the last read of the last ``count`` tables read."""
        found = [
            (table.topic, group, table.read_at)
            for some in (self._once, self._again)
            for group, table in islice(reversed(some.items()), count)
        ]
        return nlargest(count, found, key=itemgetter(2))

    def check(self) -> None:
        """Assert every invariant."""
        assert not self._once.keys() & self._again.keys()
        assert len(self._once) <= ONCE_MAX
        assert len(self._again) <= AGAIN_MAX
        assert _ordered(self._once.values())
        assert _ordered(self._again.values())
        oldest = [next(iter(some.values())) for some in (self._once, self._again) if some]
        assert all(self._expire_at <= table.read_at + WINDOW_S for table in oldest)
        working: Counter[int] = Counter()
        for table in self._again.values():
            working[table.topic] += table.size
        assert working == self._working_bytes
        known = {table.topic for table in chain(self._once.values(), self._again.values())}
        assert known <= self._sums.keys()

    def _was_prefetched(self, table: _Table, now: float) -> bool:
        """Return whether the prefetcher has pulled the changes of ``table`` since its last read.

        It does so for hot tables, at most once for each read.
        """
        rate = table.reads * _PER_S * _share(table.read_at, now)
        return rate >= HOT_PER_S and table.changes == 1

    def _expire(self, now: float) -> None:
        """Forget the tables that were not read for WINDOW_S."""
        self._expire_at = inf
        for tables in (self._once, self._again):
            while tables:
                group, table = next(iter(tables.items()))
                if now - table.read_at < WINDOW_S:
                    self._expire_at = min(self._expire_at, table.read_at + WINDOW_S)
                    break
                self._take(group)

    def _take(self, group: bytes) -> _Table | None:
        """Remove a table, and return it."""
        table = self._again.pop(group, None)
        if table is None:
            return self._once.pop(group, None)
        self._working_bytes[table.topic] -= table.size
        return table

    def _put(self, group: bytes, table: _Table, *, again: bool) -> None:
        self._expire_at = min(self._expire_at, table.read_at + WINDOW_S)
        if not again:
            self._once.put(group, table)
            return
        self._again[group] = table
        self._working_bytes[table.topic] += table.size
        if len(self._again) > AGAIN_MAX:
            self._take(next(iter(self._again)))


def _share(at: float, now: float) -> float:
    """Return the share of a sum as of ``at`` that has not decayed at ``now``."""
    left: float = 2.0 ** ((at - now) / HALF_LIFE_S)
    return left


def _ordered(tables: Iterable[_Table]) -> bool:
    times = [table.read_at for table in tables]
    return times == sorted(times)
