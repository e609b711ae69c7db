"""ResidentSet: the content that a subscriber holds, its bytes, and what is evicted to make room.

    tables pulled     ──▶ eviction order ──room is needed──▶ evicted, those of the least worth first
    topics at full    ──── the budget has no room left ──▶ the replicas lower the largest
    pinned, if pulled ──── the namespace needs the room ──▶ evicted, the largest first

Invariant: no content is installed that does not fit the budget.

Pinned tables come before levels. No pinned table is evicted for another pinned table, so that those
that were pinned first are held.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ...topics.objects.names import group_of
from ...topics.streams.followers import TopicLevel
from ...topics.topic import (
    FULL,
    MINIMAL,
    MINIMAL_BYTES,
    NAMESPACE,
    PREFIX,
    TOMBSTONE,
    Entry,
    stub,
)
from .eviction import EvictionOrder, Key
from .latency import LatencyEstimate
from .table_snapshot import Swap, TableSnapshot, snapshot_of
from .view import TopicView, View, prepare

LARGE_SHARE: Final = 0.125  # of the room for pulled tables; a larger table has to be worth it
PINNED_SHARE: Final = 0.9  # of what the namespace leaves; the namespace may grow into the rest


@dataclass(frozen=True, slots=True)
class NoRoom:
    """No entry was applied: ``growth`` bytes are needed, for which a topic has to be lowered."""

    growth: int


class Retention(Protocol):
    """Says which tables are always held, which never, and which matter more. ``group``: its key.

    ``Priorities`` of placement implements it, which has the pins, the bans and the read rates.
    """

    has_bans: bool  # whether any table may be banned; else no entry has to be looked at
    counts_changes: bool  # whether ``on_entry_changed`` has to be called

    def banned(self, group: bytes) -> bool:
        """Return whether a table is never held."""

    def pinned(self, group: bytes) -> bool:
        """Return whether a table is held whatever its use."""

    def may_evict(self, victim: bytes, newcomer: bytes) -> bool:
        """Return whether a pulled table may be evicted in favour of ``newcomer``."""

    def read_rate(self, group: bytes) -> float:
        """Return how many times a second a table is read."""

    def newcomer_rate(self, group: bytes) -> float:
        """Return the read rate of a table that was just pulled: at least that of a first read."""

    def on_entry_changed(self, topic: int, entry: Entry) -> None:
        """Note a change that is about to be applied."""

    def on_names_changed(self, swaps: Sequence[Swap]) -> None:
        """Note which tables a change of the namespace has created and dropped."""

    def on_names_discarded(self) -> Sequence[Key]:
        """Discard all pins, as all names come again; return the tables that were pinned."""


class Budget:
    """The bytes that a subscriber may hold, by topic and level: held, and reserved.

        held <= limit;  committed == sum over topic levels of max(held, reserved)

    A topic level at minimal has the pulled tables of the topic, at full the whole topic. Bytes are
    reserved before a catch-up is requested, so that there is room for the chunks under way. Content
    beyond a reservation, as that of deltas, is checked before it is installed.
    """

    def __init__(self, limit_bytes: int, inbox_bytes: int = 0) -> None:
        self.limit_bytes = limit_bytes
        self.inbox_bytes = inbox_bytes  # in addition, for frames that have arrived and wait
        self.held_bytes = 0  # sum of ``_held``
        self._committed = 0  # sum over topic levels of ``committed``
        self._held: dict[TopicLevel, int] = {}
        self._reserved: dict[TopicLevel, int] = {}

    @property
    def total_bytes(self) -> int:
        """The budget as the application has set it, frames included."""
        return self.limit_bytes + self.inbox_bytes

    @property
    def free_bytes(self) -> int:
        """The bytes that are neither held nor reserved; below 0: more is reserved than there is."""
        return self.limit_bytes - self._committed

    def held(self, topic_level: TopicLevel) -> int:
        """The bytes held of ``topic_level``."""
        return self._held.get(topic_level, 0)

    def committed(self, topic_level: TopicLevel) -> int:
        """The bytes held of ``topic_level``, or reserved for it if that is more."""
        return max(self._held.get(topic_level, 0), self._reserved.get(topic_level, 0))

    def unfilled(self, topic_level: TopicLevel) -> int:
        """The reserved bytes of ``topic_level`` that are not held yet."""
        return max(self._reserved.get(topic_level, 0) - self._held.get(topic_level, 0), 0)

    def hold(self, topic_level: TopicLevel, growth: int) -> None:
        """Count ``growth`` bytes more, or fewer, as held."""
        self._committed -= self.committed(topic_level)
        self._held[topic_level] = self._held.get(topic_level, 0) + growth
        self.held_bytes += growth
        self._committed += self.committed(topic_level)

    def reserve(self, topic_level: TopicLevel, size: int) -> None:
        """Reserve ``size`` bytes for ``topic_level``, what it holds included; 0 ends it."""
        self._committed -= self.committed(topic_level)
        self._reserved[topic_level] = size
        self._committed += self.committed(topic_level)

    def release(self, topic_level: TopicLevel) -> None:
        """Discard ``topic_level``: nothing of it is held or reserved."""
        self._committed -= self.committed(topic_level)
        self.held_bytes -= self._held.pop(topic_level, 0)
        self._reserved.pop(topic_level, None)

    def fits(self, topic_level: TopicLevel, growth: int) -> bool:
        """Return whether ``topic_level`` may hold ``growth`` bytes more."""
        more = max(self.held(topic_level) + growth - self.committed(topic_level), 0)
        return growth <= 0 or more <= self.free_bytes

    def largest(self, level: int, *, but: int) -> int | None:
        """Return the topic other than ``but`` that has most committed at ``level``; None: none."""
        topic_levels = {**self._held, **self._reserved}
        sizes = {t: self.committed((t, at)) for t, at in sorted(topic_levels) if at == level}
        sizes.pop(but, None)
        held = [topic for topic, size in sizes.items() if size]
        return max(held, key=sizes.__getitem__, default=None)

    def check(self) -> None:
        """Assert every invariant."""
        topic_levels = {**self._held, **self._reserved}
        assert self._committed == sum(map(self.committed, topic_levels))
        assert self.held_bytes == sum(self._held.values())
        assert all(held >= 0 for held in self._held.values())
        assert self.held_bytes <= self.limit_bytes


class ResidentSet:
    """Changes the view, its budget and the order of evictions together."""

    def __init__(self, view: View, budget: Budget, retention: Retention) -> None:
        self.view = view
        self.budget = budget
        self.evicted = 0  # pulled tables that were evicted to make room
        self.not_kept = 0  # pulled tables that were larger than all room, or not worth it
        self.pinned_sizes: dict[Key, int] = {}  # by pulled table that is pinned: its bytes
        self.pinned_bytes = 0  # sum of ``pinned_sizes``
        self.retention = retention
        self.latency = LatencyEstimate()  # of pulls; the fetcher measures it
        self._order = EvictionOrder(self._take_used, self.latency)  # of pulled tables, not pinned
        self._guesses: set[TopicLevel] = set()  # whose reservations are guesses: any need ends them

    @property
    def spare_bytes(self) -> int:
        """The room for pulled tables: free bytes, reserved guesses, and what such tables have."""
        guessed_bytes = sum(map(self.budget.unfilled, self._guesses))
        return self.budget.free_bytes + guessed_bytes + self._order.held_bytes

    @property
    def pinnable_bytes(self) -> int:
        """The room for all pinned tables together."""
        names_bytes = self.budget.committed((NAMESPACE, FULL))
        return int(PINNED_SHARE * max(self.budget.limit_bytes - names_bytes, 0))

    def make_room(self, topic_level: TopicLevel, size: int, *, group: bytes = b"") -> bool:
        """Evict pulled tables until ``size`` bytes more fit; return whether they do.

        ``group``: the table that needs them; the retention may protect other tables from it.

        Caller: the subscriptions before a topic is raised, this set before it installs content.
        Affects: readers of the evicted tables, whose next read pulls; guessed reservations.
        """
        if not self.budget.fits(topic_level, size):
            for guess in self._guesses:
                self.budget.reserve(guess, 0)
            self._guesses.clear()
        while not self.budget.fits(topic_level, size):
            victim = self._order.victim()
            if victim is None or (group and not self.retention.may_evict(victim[1], group)):
                return False
            self.evicted += 1
            self.evict(*victim)
        return True

    def reserve(self, topic_level: TopicLevel, room: int) -> None:
        """Reserve up to ``room`` bytes beyond those held, as a guess, which any need may end."""
        room = min(max(self.budget.free_bytes, 0), room)
        self.budget.reserve(topic_level, self.budget.held(topic_level) + room)
        self._guesses.add(topic_level)

    def end_reservation(self, topic_level: TopicLevel) -> None:
        """End the reservation of ``topic_level``."""
        self.budget.reserve(topic_level, 0)
        self._guesses.discard(topic_level)

    def begin_minimal(self, topic: int) -> None:
        """Hold only pulled tables of ``topic`` from now on, and discard what was held."""
        self.discard(topic)
        self.view.replace(topic, TopicView(pulled_only=True))
        self.budget.hold((topic, MINIMAL), MINIMAL_BYTES)

    def begin_full(self, topic: int, held: TopicView) -> None:
        """Hold ``held`` of ``topic``, whose bytes count already, and discard its pulled tables."""
        self._discard_pulled(topic)
        self.release((topic, MINIMAL))
        self.view.replace(topic, held)

    def discard(self, topic: int) -> None:
        """Discard all that is held of ``topic``."""
        self._discard_pulled(topic)
        self.view.discard(topic)
        self.release((topic, FULL))
        self.release((topic, MINIMAL))

    def release(self, topic_level: TopicLevel) -> None:
        """Count nothing for ``topic_level`` any more."""
        self.budget.release(topic_level)
        self._guesses.discard(topic_level)

    def on_changed(self, topic: int, entries: Sequence[Entry]) -> None:
        """Tell the retention of changes that are about to be applied.

        A PREFIX alone says that its table was dropped. It is left out if entries of the table come
        with it: then catalogd has read the table again.
        """
        there = {group_of(one.key) for one in entries if one.kind not in {PREFIX, TOMBSTONE}}
        for entry in entries:
            if entry.kind != PREFIX or entry.key not in there:
                self.retention.on_entry_changed(topic, entry)

    def begin_snapshot(self, topic_level: TopicLevel, held: TopicView) -> None:
        """Empty ``held``, as a snapshot comes, and reserve the room of its content for that."""
        if held.pulled is not None:
            for group in list(held.pulled.groups):
                self.evict(topic_level[0], group)
            held.pulled.begin(0)
        guess = topic_level in self._guesses
        room = self.budget.held(topic_level) if guess else self.budget.committed(topic_level)
        self.budget.reserve(topic_level, room)
        self._guesses.discard(topic_level)
        self.budget.hold(topic_level, -self.budget.held(topic_level))
        held.empty()
        if topic_level[0] == NAMESPACE:
            for unpinned in self.retention.on_names_discarded():
                self.repin(*unpinned)

    def apply(
        self, topic_level: TopicLevel, held: TopicView, entries: Sequence[Entry]
    ) -> Sequence[Swap] | NoRoom:
        """Apply ``entries`` to ``held``, if they fit once pulled tables are evicted.

        Entries of a banned table are applied as stubs.

        Returns:
            The groups that were swapped, or NoRoom.
        """
        if topic_level[0] != NAMESPACE and self.retention.has_bans:
            banned = self.retention.banned
            entries = [stub(one) if banned(group_of(one.key)) else one for one in entries]
        if held.pulled is not None and held.pulled.groups:
            self.apply_to_pulled(topic_level[0], held.pulled, entries)
        swaps, growth = prepare(held, entries)
        while not self.budget.fits(topic_level, growth):
            if not self.make_room(topic_level, growth):
                return NoRoom(growth)
            swaps, growth = prepare(held, entries)  # an evicted table may be of this very topic
        self.view.install(held, swaps, growth)
        self.budget.hold(topic_level, growth)
        pulled = held.pulled.groups if held.pulled is not None else {}
        for swap in swaps if pulled else ():
            if swap.group in pulled and swap.after is not None and swap.after.whole:
                self.evict(topic_level[0], swap.group)
        if topic_level[0] == NAMESPACE:
            self.retention.on_names_changed(swaps)
        return swaps

    def apply_to_pulled(self, topic: int, held: TopicView, entries: Sequence[Entry]) -> None:
        """Apply ``entries`` to pulled tables; evict those for which there is no room."""
        if not held.groups:
            return  # the usual case of a subscriber that only watches changes
        topic_level = (topic, MINIMAL)
        swaps, growth = prepare(held, entries)
        if not self.budget.fits(topic_level, growth):
            fits = self.make_room(topic_level, growth)
            swaps, growth = prepare(held, entries)  # an evicted table may be of this topic
            if not fits:
                for swap in swaps:
                    self.evict(topic, swap.group)
                return
        self.view.install(held, swaps, growth)
        self.budget.hold(topic_level, growth)
        for swap in swaps:
            self._note(topic, swap.group, swap.after)

    def keep(self, topic: int, group: bytes, content: TableSnapshot) -> bool:
        """Keep pulled ``content`` of a table, if it is not banned, fits, and is worth its bytes.

        Returns:
            Whether it is kept.
        """
        held = self.view.pulled(topic)
        assert held is not None
        if self.retention.banned(group):
            return False
        before = held.groups.get(group)
        if before is not None:
            content.used = content.used or before.used
        growth = content.held_bytes - (before.held_bytes if before is not None else 0)
        pinned = self.retention.pinned(group)
        if growth > self.spare_bytes or not (pinned or self._is_worth(group, growth)):
            self.not_kept += not pinned
            return False
        others = self.pinned_bytes - self.pinned_sizes.get((topic, group), 0)
        if pinned and content.held_bytes > self.pinnable_bytes - others:
            return False
        if not self.make_room((topic, MINIMAL), growth, group=group):
            return False
        before = held.groups.get(group)  # making room may have evicted its old content
        growth = content.held_bytes - (before.held_bytes if before is not None else 0)
        if not self.budget.fits((topic, MINIMAL), growth):
            return False
        self.view.install(held, [Swap(group, before, content)], growth)
        self.budget.hold((topic, MINIMAL), growth)
        self._note(topic, group, content)
        return True

    def evict(self, topic: int, group: bytes) -> None:
        """Evict a pulled table."""
        held = self.view.pulled(topic)
        assert held is not None
        before = held.groups[group]
        self.view.install(held, [Swap(group, before, None)], -before.held_bytes)
        self.budget.hold((topic, MINIMAL), -before.held_bytes)
        self._note(topic, group, None)

    def distrust(self, topic: int, group: bytes) -> None:
        """Discard the values of a table: its entries become stubs, so that the next read pulls it.

        Caller: the replicas for the self-audit, which has found a wrong answer from memory.
        Affects: readers of the table; the budget.
        """
        pulled, held = self.view.pulled(topic), self.view.topics[topic]
        if pulled is not None and group in pulled.groups:
            self.evict(topic, group)
        before = None if held.pulled_only else held.groups.get(group)
        if before is not None:
            stubs = map(stub, before.entries())
            after = snapshot_of(stubs, version=before.version, epoch=before.epoch)
            growth = after.held_bytes - before.held_bytes
            self.view.install(held, [Swap(group, before, after)], growth)
            self.budget.hold((topic, FULL), growth)

    def evict_largest_pin(self) -> bool:
        """Evict the largest pinned table; return False if none is held."""
        if not self.pinned_sizes:
            return False
        self.evicted += 1
        self.evict(*max(self.pinned_sizes, key=self.pinned_sizes.__getitem__))
        return True

    def repin(self, topic: int, group: bytes) -> None:
        """Note that a table was pinned or unpinned.

        Caller: the prefetcher for orders and scanned names, this set when all names are discarded.
        Affects: the table, if it is held: evictions spare it from now on, or no more.
        """
        held = self.view.pulled(topic)
        if held is not None and group in held.groups:
            self._note(topic, group, held.groups[group])

    def invalidate_all(self, topic: int, epoch: int, version: int) -> None:
        """Evict the tables of ``topic`` that are of another epoch, or of before ``version``."""
        held = self.view.topics[topic]
        for group, content in list(held.groups.items()):
            if held.epoch != epoch or content.as_of < version:
                self.evict(topic, group)
        held.invalidate(epoch, version)

    def check(self) -> None:
        """Assert every invariant."""
        self.view.check()
        self.budget.check()
        self._order.check()
        views = {topic: self.view.pulled(topic) for topic in self.view.topics}
        pulled = {(topic, group) for topic, held in views.items() if held for group in held.groups}
        assert self.pinned_bytes == sum(self.pinned_sizes.values())
        assert len(self._order) + len(self.pinned_sizes) == len(pulled)
        assert all((key in self._order) is not (key in self.pinned_sizes) for key in pulled)
        assert all(self.retention.pinned(key[1]) is (key in self.pinned_sizes) for key in pulled)

    def _is_worth(self, group: bytes, growth: int) -> bool:
        """Return whether a table is small, or saves as much waiting as those it would evict."""
        spare_bytes = self.spare_bytes
        if growth <= LARGE_SHARE * spare_bytes:
            return True
        needed = growth - (spare_bytes - self._order.held_bytes)
        victims = tuple(self._order.cheapest(needed))
        if len(victims) < 2:
            return True  # the new table replaces one table, that of the least worth
        rate, saved = self.retention.read_rate, self.latency.saved
        lost = sum(saved(rate(one), rate(one) * size) for (_, one), size in victims)
        gained = self.retention.newcomer_rate(group)
        return lost <= saved(gained, gained * growth)

    def _discard_pulled(self, topic: int) -> None:
        held = self.view.pulled(topic)
        if held is not None:
            for group in list(held.groups):
                self.evict(topic, group)

    def _note(self, topic: int, group: bytes, content: TableSnapshot | None) -> None:
        key = (topic, group)
        if content is None or self.retention.pinned(group):
            self._order.discard(key)
        else:
            self._order.note(key, content.held_bytes)
        self.pinned_bytes -= self.pinned_sizes.pop(key, 0)
        if content is not None and self.retention.pinned(group):
            self.pinned_sizes[key] = content.held_bytes
            self.pinned_bytes += content.held_bytes

    def _take_used(self, key: Key) -> bool:
        held = self.view.pulled(key[0])
        assert held is not None
        content = held.groups[key[1]]
        used, content.used = content.used, False
        return used
