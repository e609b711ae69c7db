"""Priorities: how much each table matters to this subscriber, for what is held and prefetched.

It has the pins and bans, the usage, and the *hits*: changes of tables that are pinned or read. The
core constructs it before the replicas, which report changes to it, and before the prefetcher, which
takes the hits.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ...topics.clock import Clock
from ...topics.objects.names import group_of
from ...topics.objects.selector import ALL, TABLE_ONLY, Selector
from ...topics.topic import PREFIX, Entry
from ..store.eviction import Key
from ..store.table_snapshot import Swap, TableSnapshot
from ..store.view import View
from .pins import PinRules, Pins
from .usage import ONCE_PER_S, UsageTracker

FILTERS_MAX: Final = 4  # of one table, the newest

Wants = tuple[Selector, ...]


class Priorities:
    """Implements Retention, by which the resident set goes. ``automatic``: changes are counted."""

    def __init__(self, rules: PinRules, view: View, *, clock: Clock, automatic: bool) -> None:
        self.has_bans = rules.has_bans  # whether any table may be banned
        self.counts_changes = False  # whether any table was pinned or read, so that changes count
        self.has_work = True  # whether the prefetcher may have work; the prefetcher clears it
        self.pins = Pins(rules, view)
        self.usage = UsageTracker()
        self._clock = clock
        self._automatic = automatic
        self._view = view
        # by table that a change has hit: its topic, and what a pull has to bring
        self._hit: dict[bytes, tuple[int, Wants]] = {}
        self._prefetching: dict[bytes, bool] = {}  # by table being prefetched: whether as a pin

    def banned(self, group: bytes) -> bool:
        """Return whether a table is never held."""
        return self.pins.rules.banned(group)

    def pinned(self, group: bytes) -> bool:
        """Return whether a table is pinned, and exists."""
        return group in self.pins.known

    def may_evict(self, victim: bytes, newcomer: bytes) -> bool:
        """Return whether ``newcomer`` may evict ``victim``.

        A prefetched hot table may only evict tables that are read less often.
        """
        if self._prefetching.get(newcomer, True):
            return True
        return self.read_rate(victim) < self.read_rate(newcomer)

    def read_rate(self, group: bytes) -> float:
        """Return how many times a second a table is read."""
        return self.usage.rate(group, now=self._clock.now)

    def newcomer_rate(self, group: bytes) -> float:
        """Return the read rate of a table that was just pulled: at least that of a first read."""
        return max(self.read_rate(group), ONCE_PER_S)

    def on_entry_changed(self, topic: int, entry: Entry) -> None:
        """Count the change, and note the table for the prefetcher if it is pinned or read."""
        if self._automatic:
            if entry.kind == PREFIX:
                self.usage.on_dropped(entry.key)
            else:
                self.usage.on_changed(group_of(entry.key), size=entry.size, version=entry.version)
        group = group_of(entry.key)
        pinned = group in self.pins.known
        if group in self._hit or not (pinned or group in self.usage):
            return
        held = self._view.pulled(topic)
        content = held.groups.get(group) if held is not None else None
        if pinned or content is not None:
            self._hit[group] = topic, _wants(None if pinned else content)
            self.has_work = True

    def on_names_changed(self, swaps: Sequence[Swap]) -> None:
        """Queue the names that were created or dropped, to be scanned."""
        self.pins.on_names_changed(swaps)
        self.has_work = self.has_work or self.pins.scanning

    def on_names_discarded(self) -> Sequence[Key]:
        """Discard all pins, as all names come again; return the tables that were pinned."""
        self.pins.on_names_discarded()
        self.has_work = True
        return self.pins.take_moved()

    def on_read(self, topic: int, group: bytes, *, size: int, times: int) -> None:
        """Count ``times`` reads of a table, of which ``size`` bytes were needed."""
        self.usage.read(topic, group, size=size, now=self._clock.now, times=times)
        self.counts_changes = True

    def pin(self, db: str, table: str) -> None:
        """Pin a table that exists."""
        self.pins.pin(db, table)
        self.counts_changes = self.has_work = True

    def unpin(self, db: str, table: str) -> None:
        """Pin a table no longer."""
        self.pins.unpin(db, table)
        self.has_work = True

    def scan(self) -> None:
        """Scan some of the names that wait for pins."""
        self.pins.scan()
        self.counts_changes = self.counts_changes or bool(self.pins.known)

    def take_hits(self) -> Mapping[bytes, tuple[int, Wants]]:
        """Return by table what was hit since the last call: its topic, and what to pull."""
        hits, self._hit = self._hit, {}
        return hits

    def begin_prefetch(self, group: bytes, *, pinned: bool) -> None:
        """Note that a table is being prefetched; ``pinned``: it may evict any other table."""
        self._prefetching[group] = pinned

    def end_prefetch(self, group: bytes) -> None:
        """Note that a table is not being prefetched any more."""
        del self._prefetching[group]


def _wants(content: TableSnapshot | None) -> Wants:
    """Return the selections to pull so that memory answers as much as ``content`` does."""
    if content is None or content.selections is None:
        return (ALL,)
    filters = [one for one in content.selections if one.filter is not None]
    return tuple(filters[-FILTERS_MAX:]) or (TABLE_ONLY,)
