"""What is held of the followed topics, counted, and what is evicted when room is needed.

    pulled at minimal ──▶ cache ──room is needed──▶ given up, least used first
    followed at full  ──────────── outgrows all ──▶ the largest is lowered, by who follows it
    pinned, if pulled ──── the namespace needs it ──▶ given up, the largest first

Nothing is put in place that does not fit. Pins come before levels, in the order of their coming:
none gives way to another one.
"""

from collections.abc import Callable, Iterable
from typing import Final

from ...topics.entries import FULL, MINIMAL, MINIMAL_BYTES, Entry
from ...topics.sharding import NAMESPACE
from .eviction import EVEN_BYTES, EvictionOrder, Key
from .memory_budget import Account, Budget
from .pin_policy import PinPolicy
from .table_snapshot import Swap, TableSnapshot
from .view import TopicView, View, prepare

LARGE_SHARE: Final = 0.125  # of the room for what is pulled: a table beyond has to be worth it
PINNED_SHARE: Final = 0.9  # of what the namespace leaves; the rest is for it to grow, and for use


class ResidentSet:
    """View, budget and cache, kept in step."""

    def __init__(self, view: View, budget: Budget, policy: PinPolicy) -> None:
        self.view = view
        self.budget = budget
        self.cache = EvictionOrder(self._used)
        self.evicted = 0  # pulled tables given up for others
        self.oversize = 0  # pulled, and larger than all that is free for them, or not worth it
        self.pins: dict[Key, int] = {}  # bytes of what was pulled and is pinned: not in the cache
        self.pinned_bytes = 0
        self._policy = policy
        self._slack: set[Account] = set()  # whose reservation is a guess

    @property
    def spare_bytes(self) -> int:
        """What pulled tables may take: what is free or set aside as a guess, and the cache's."""
        guessed_bytes = sum(map(self.budget.unfilled, self._slack))
        return self.budget.free_bytes + guessed_bytes + self.cache.held_bytes

    @property
    def pinnable_bytes(self) -> int:
        """What all pinned tables together may take."""
        names_bytes = self.budget.committed((NAMESPACE, FULL))
        return int(PINNED_SHARE * max(self.budget.limit_bytes - names_bytes, 0))

    def fits(self, account: Account, size: int, *, group: bytes = b"") -> bool:
        """Tell whether ``account`` may hold ``size`` bytes more, after giving up what is pulled.

        ``group``: for which table; what does not yield to it stays.
        """
        if not self.budget.fits(account, size):
            for guess in self._slack:
                self.budget.reserve(guess, 0)
            self._slack.clear()
        while not self.budget.fits(account, size):
            victim = self.cache.victim()
            if victim is None or (group and not self._policy.may_evict(victim[1], group)):
                return False
            self.evicted += 1
            self.evict(*victim)
        return True

    def reserve(self, account: Account, room: int) -> None:
        """Set ``room`` bytes aside beside what is held, as a guess that yields to others."""
        room = min(max(self.budget.free_bytes, 0), room)
        self.budget.reserve(account, self.budget.held(account) + room)
        self._slack.add(account)

    def end_reservation(self, account: Account) -> None:
        """End the reservation of ``account``."""
        self.budget.reserve(account, 0)
        self._slack.discard(account)

    def begin_minimal(self, topic: int) -> None:
        """Hold of ``topic`` only what will be pulled, instead of what was held."""
        self.discard(topic)
        self.view.replace(topic, TopicView(partial=True))
        self.budget.hold((topic, MINIMAL), MINIMAL_BYTES)

    def begin_full(self, topic: int, place: TopicView) -> None:
        """Hold ``place`` of ``topic``, counted already, instead of what was pulled."""
        self._discard_pulled(topic)
        self.release((topic, MINIMAL))
        self.view.replace(topic, place)

    def discard(self, topic: int) -> None:
        """Hold nothing of ``topic``."""
        self._discard_pulled(topic)
        self.view.discard(topic)
        self.release((topic, FULL))
        self.release((topic, MINIMAL))

    def release(self, account: Account) -> None:
        """Count nothing for ``account`` any more."""
        self.budget.release(account)
        self._slack.discard(account)

    def begin_snapshot(self, account: Account, place: TopicView) -> None:
        """Begin ``place`` anew: a snapshot comes, and takes the room that the old content had."""
        if place.aside is not None:
            for group in list(place.aside.groups):
                self.evict(account[0], group)
            place.aside.epoch = 0
        guess = account in self._slack
        room = self.budget.held(account) if guess else self.budget.committed(account)
        self.budget.reserve(account, room)
        self._slack.discard(account)
        self.budget.hold(account, -self.budget.held(account))
        place.groups = {}
        place.held_bytes = 0

    def apply(
        self,
        account: Account,
        place: TopicView,
        entries: Iterable[Entry],
        *,
        make_room: Callable[[int], bool],
    ) -> list[Swap]:
        """Put ``entries`` in place; ``make_room`` lowers something, or says that all is over."""
        entries = tuple(entries)
        if place.aside is not None and place.aside.groups:
            self.apply_to_pulled(account[0], place.aside, entries)
        swaps, growth = prepare(place, entries)
        while not self.budget.fits(account, growth):
            if self.fits(account, growth):  # what was given up may be of this very place
                swaps, growth = prepare(place, entries)
            elif not make_room(growth):
                return []
        self.view.install(place, swaps, growth)
        self.budget.hold(account, growth)
        pulled = place.aside.groups if place.aside is not None else {}
        for swap in swaps if pulled else ():
            if swap.group in pulled and swap.after is not None and swap.after.whole:
                self.evict(account[0], swap.group)
        return swaps

    def apply_to_pulled(self, topic: int, place: TopicView, entries: Iterable[Entry]) -> None:
        """Let ``entries`` change what was pulled; what has no room for that is given up."""
        if not place.groups:
            return  # as a rule, where changes are only watched
        account, entries = (topic, MINIMAL), tuple(entries)
        swaps, growth = prepare(place, entries)
        if not self.budget.fits(account, growth):
            fits = self.fits(account, growth)
            swaps, growth = prepare(place, entries)  # what was given up may be of this place
            if not fits:
                for swap in swaps:
                    self.evict(topic, swap.group)
                return
        self.view.install(place, swaps, growth)
        self.budget.hold(account, growth)
        for swap in swaps:
            self._note(topic, swap.group, swap.after)

    def keep(self, topic: int, group: bytes, content: TableSnapshot) -> bool:
        """Keep pulled ``content``, if it fits."""
        place = self.view.pulled(topic)
        assert place is not None
        before = place.groups.get(group)
        if before is not None:
            content.used = content.used or before.used
        growth = content.held_bytes - (before.held_bytes if before is not None else 0)
        pinned = self._policy.pinned(group)
        if growth > self.spare_bytes or not (pinned or self._is_worth(group, growth)):
            self.oversize += not pinned
            return False
        beside = self.pinned_bytes - self.pins.get((topic, group), 0)
        if pinned and content.held_bytes > self.pinnable_bytes - beside:
            return False
        if not self.fits((topic, MINIMAL), growth, group=group):
            return False
        before = place.groups.get(group)  # it may have been given up for itself
        growth = content.held_bytes - (before.held_bytes if before is not None else 0)
        if not self.budget.fits((topic, MINIMAL), growth):
            return False
        self.view.install(place, [Swap(group, before, content)], growth)
        self.budget.hold((topic, MINIMAL), growth)
        self._note(topic, group, content)
        return True

    def evict(self, topic: int, group: bytes) -> None:
        """Give up a pulled table."""
        place = self.view.pulled(topic)
        assert place is not None
        before = place.groups[group]
        self.view.install(place, [Swap(group, before, None)], -before.held_bytes)
        self.budget.hold((topic, MINIMAL), -before.held_bytes)
        self._note(topic, group, None)

    def evict_largest_pin(self) -> bool:
        """Give up the largest pinned table, and tell whether there was one."""
        if not self.pins:
            return False
        self.evicted += 1
        self.evict(*max(self.pins, key=self.pins.__getitem__))
        return True

    def repin(self, topic: int, group: bytes) -> None:
        """A table was pinned, or is no more: what is held of it moves."""
        place = self.view.pulled(topic)
        if place is not None and group in place.groups:
            self._note(topic, group, place.groups[group])

    def invalidate_all(self, topic: int, epoch: int, version: int) -> None:
        """Give up what was pulled of ``topic`` in another epoch, or before ``version``."""
        place = self.view.topics[topic]
        for group, content in list(place.groups.items()):
            if place.epoch != epoch or content.at < version:
                self.evict(topic, group)
        if place.epoch != epoch:
            place.horizon = 0
        place.epoch, place.horizon = epoch, max(place.horizon, version)

    def check(self) -> None:
        """Assert every invariant."""
        self.view.check()
        self.budget.check()
        self.cache.check()
        places = {topic: self.view.pulled(topic) for topic in self.view.topics}
        pulled = {
            (topic, group) for topic, place in places.items() if place for group in place.groups
        }
        assert self.pinned_bytes == sum(self.pins.values())
        assert len(self.cache) + len(self.pins) == len(pulled)
        assert all((key in self.cache) is not (key in self.pins) for key in pulled)
        assert all(self._policy.pinned(key[1]) is (key in self.pins) for key in pulled)

    def _is_worth(self, group: bytes, growth: int) -> bool:
        """Tell whether a large table saves as much waiting as those that it would push out."""
        spare_bytes = self.spare_bytes
        if growth <= LARGE_SHARE * spare_bytes:
            return True
        needed = growth - (spare_bytes - self.cache.held_bytes)
        victims = tuple(self.cache.cheapest(needed))
        if len(victims) < 2:
            return True  # one for one: what is new takes the place of the least
        lost = sum(
            self._policy.read_rate(one) * (1 + size / EVEN_BYTES) for (_, one), size in victims
        )
        return lost <= self._policy.newcomer_rate(group) * (1 + growth / EVEN_BYTES)

    def _discard_pulled(self, topic: int) -> None:
        place = self.view.pulled(topic)
        if place is not None:
            for group in list(place.groups):
                self.evict(topic, group)

    def _note(self, topic: int, group: bytes, content: TableSnapshot | None) -> None:
        key = (topic, group)
        if content is None or self._policy.pinned(group):
            self.cache.discard(key)
        else:
            self.cache.note(key, content.held_bytes)
        self.pinned_bytes -= self.pins.pop(key, 0)
        if content is not None and self._policy.pinned(group):
            self.pins[key] = content.held_bytes
            self.pinned_bytes += content.held_bytes

    def _used(self, key: Key) -> bool:
        place = self.view.pulled(key[0])
        assert place is not None
        content = place.groups[key[1]]
        used, content.used = content.used, False
        return used
