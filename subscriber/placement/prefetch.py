"""Prefetcher: pulls pinned tables, and hot tables that a stub hit, before anybody reads them.

    stub hits ──▶ noted ──pinned, or hot──▶ due ──its turn──▶ pulled ──▶ kept, as any pull is
    swept: a pinned table that is not held ──▶ due         ──failed──▶ due again, later

At most OUTSTANDING_MAX are under way, so that what an application asks for finds a free pull. A
table's turn comes once in AGAIN_S, and a hot table's no more often than it is read: one that
changes all the time costs no more than its readers would pull. A hot table takes no room from one
that is hotter. What is pulled is what was held: the whole table, or what its last filters need.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import Final

from ...topics.entries import NONE
from ...topics.errors import OverBudget, StaleMetadata
from ...topics.objects.names import parse_table_key
from ...topics.objects.selector import ALL, TABLE_ONLY, Selector
from ...topics.sharding import NAMESPACE
from ..protocol.facts import Answer, AskTable, Effect, Fail, PinsNotHeld
from ..replication.topic_replica import TopicReplicas
from ..store.table_snapshot import TableSnapshot
from ..store.usage import HOT_PER_S
from .pins import Pin
from .priorities import FILTERS_MAX, Priorities, Wants

OUTSTANDING_MAX: Final = 4  # of the 16 pulls that a subscriber may have under way
AGAIN_S: Final = 1.0
RETRY_S: Final = 5.0  # after a pull that failed
OVER_RETRY_S: Final = 60.0  # after one that brought more than there is room for
TIMEOUT_S: Final = 10.0
HOT_DUE_MAX: Final = 1024
SWEEP_S: Final = 0.5
SWEEP_MAX: Final = 256  # pins looked at in a turn: 0.3 ms


@dataclass(slots=True)
class _Due:
    topic: int
    wants: Wants
    pinned: bool


@dataclass(slots=True)
class _Run:
    due: _Due
    left: deque[Selector]


class Prefetcher:
    """What is to be pulled again; ``pull`` and ``follow`` belong to the parent's other parts."""

    def __init__(
        self,
        replicas: TopicReplicas,
        priorities: Priorities,
        *,
        pull: Callable[[AskTable, float], tuple[Effect, ...]],
        follow: Callable[[int, float], tuple[Effect, ...]],
    ) -> None:
        """``pull`` fetches; ``follow`` brings a topic to minimal if it is at none."""
        self.pulls = 0
        self.pins = priorities.pins
        self._replicas = replicas
        self._priorities = priorities
        self._pull = pull
        self._follow = follow
        self._due: dict[bytes, _Due] = {}
        self._ready: deque[bytes] = deque()
        self._later: list[tuple[float, bytes]] = []  # a heap
        self._next_at: dict[bytes, float] = {}  # when a table may be pulled again
        self._runs: dict[bytes, _Run] = {}
        self._asked: dict[int, bytes] = {}
        self._sweep: deque[bytes] = deque()
        self._sweep_at = 0.0
        self._told_over = False
        self._now = 0.0
        self._last_id = 0

    @property
    def deadline(self) -> float | None:
        """The time at which ``settle`` has work to do."""
        if self.pins.scanning:
            return self._now
        times = [self._later[0][0]] if self._later else []
        if self.pins.known:
            times.append(self._sweep_at)
        return min(times, default=None)

    def settle(self, effects: tuple[Effect, ...], *, now: float) -> tuple[Effect, ...]:
        """Take the answers that are its own out of ``effects``, and add what is to be done."""
        self._now = now
        self._priorities.look(now=now)
        effects = self._heard(effects)
        if self.pins.scanning:
            self.pins.scan()
            for moved in self.pins.take_moved():
                self._replicas.resident_set.repin(*moved)
        while self.pins.fresh:
            self._push(self.pins.fresh.popleft(), now)
        self._judge()
        if now >= self._sweep_at and self.pins.known:
            self._look_around()
        while self._later and self._later[0][0] <= now:
            self._ready.append(heappop(self._later)[1])
        if self._ready:
            effects += self._start()
        return effects + self._tell_over()

    def held(self, pin: Pin, group: bytes) -> bool:
        """Tell whether memory has a pinned table whole, or will have without another pull."""
        content = self._replicas.view.content(pin.topic, group)
        if content is not None and content.whole:
            return True
        place = self._replicas.view.topics.get(pin.topic)
        if place is None or place.partial:
            return False
        pushed = place.groups.get(group)
        return pushed is None or not pushed.stubs

    def kept(self, group: bytes) -> bool:
        """Tell whether memory answers for a pinned table."""
        pin = self.pins.known.get(group)
        if pin is None:
            return False
        content = self._replicas.view.content(pin.topic, group)
        whole = content is not None and content.whole
        return whole and self._replicas.standing.settled(pin.topic)

    @property
    def room_bytes(self) -> int:
        """What one more pinned table may take."""
        resident_set = self._replicas.resident_set
        return max(
            min(resident_set.spare_bytes, resident_set.pinnable_bytes - resident_set.pinned_bytes),
            0,
        )

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._runs) <= OUTSTANDING_MAX
        assert set(self._asked.values()) == self._runs.keys()
        assert len(self._asked) == len(self._runs)
        waiting = [*self._ready, *(group for _, group in self._later)]
        assert sorted(waiting) == sorted(self._due)
        assert sum(not due.pinned for due in self._due.values()) <= HOT_DUE_MAX + OUTSTANDING_MAX

    def _judge(self) -> None:
        """Make due what was hit, if it is worth it."""
        for group, (topic, wants) in self._priorities.take_hits().items():
            pin = self.pins.known.get(group)
            if pin is not None:
                if not self.held(pin, group):
                    self._push(group, self._now)
                continue
            rate = self._priorities.read_rate(group)
            content = self._replicas.view.content(topic, group)
            lost = tuple(want for want in wants if not _has(content, want, group))
            if rate >= HOT_PER_S and lost and len(self._due) < HOT_DUE_MAX:
                self._plan(group, _Due(topic, lost, pinned=False))

    def _push(self, group: bytes, at: float) -> None:
        """Make a pinned table due."""
        pin = self.pins.known.get(group)
        if pin is not None:
            self._plan(group, _Due(pin.topic, (ALL,), pinned=True), at=at)

    def _plan(self, group: bytes, due: _Due, *, at: float = 0.0) -> None:
        known = self._due.get(group)
        if known is not None:
            known.wants = _united(known.wants, due.wants)
            known.pinned = known.pinned or due.pinned
            return
        self._due[group] = due
        heappush(self._later, (max(at, self._next_at.get(group, 0.0)), group))

    def _start(self) -> tuple[Effect, ...]:
        """Begin what is due, as many as may be under way."""
        effects: tuple[Effect, ...] = ()
        if not self._replicas.standing.settled(NAMESPACE):
            return effects
        while self._ready and len(self._runs) < OUTSTANDING_MAX:
            group = self._ready.popleft()
            due = self._due.pop(group)
            if group in self._runs:  # it was hit while it is being pulled
                self._plan(group, due, at=self._now + AGAIN_S)
                continue
            effects += self._begin(group, due)
        return effects

    def _begin(self, group: bytes, due: _Due) -> tuple[Effect, ...]:
        pin = self.pins.known.get(group)
        effects: tuple[Effect, ...] = ()
        if due.pinned:
            if pin is None or self.held(pin, group):
                return ()
            effects = self._follow(due.topic, self._now)
            if self._replicas.level(due.topic) == NONE:  # the sweep comes back to it
                pin.retry_at = self._now + AGAIN_S
                return effects
        else:
            content = self._replicas.view.content(due.topic, group)
            due.wants = tuple(want for want in due.wants if not _has(content, want, group))
            if not due.wants:  # somebody has pulled it meanwhile
                return ()
        self._rest(group, pinned=due.pinned)
        self._runs[group] = _Run(due, deque(due.wants))
        self._priorities.begin_prefetch(group, pinned=due.pinned)
        return effects + self._ask(group)

    def _rest(self, group: bytes, *, pinned: bool) -> None:
        """Let a table's next turn come when it may."""
        if len(self._next_at) > 2 * HOT_DUE_MAX:
            self._next_at = {g: at for g, at in self._next_at.items() if at > self._now}
        rate = self._priorities.read_rate(group)
        pause_s = AGAIN_S if pinned or not rate else max(AGAIN_S, 1 / rate)
        self._next_at[group] = self._now + pause_s

    def _ask(self, group: bytes) -> tuple[Effect, ...]:
        """Pull the next of what is wanted of a table."""
        want = self._runs[group].left.popleft()
        key, pin = parse_table_key(group), self.pins.known.get(group)
        self.pulls += 1
        self._last_id -= 1
        self._asked[self._last_id] = group
        ask = AskTable(
            id=self._last_id,
            db=key.db,
            table=key.table,
            selector=want,
            give_up_at=self._now + TIMEOUT_S,
            bytes_max=inf if pin is None else self._room_ever(pin, group),
        )
        return self._heard(self._pull(ask, self._now))

    def _heard(self, effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
        if not self._asked:
            return effects
        left: tuple[Effect, ...] = ()
        for effect in effects:
            if isinstance(effect, Answer | Fail) and effect.id in self._asked:
                left += self._ended(effect)
            else:
                left += (effect,)
        return left

    def _ended(self, end: Answer | Fail) -> tuple[Effect, ...]:
        group = self._asked.pop(end.id)
        run = self._runs[group]
        if isinstance(end, Answer) and run.left:
            return self._ask(group)
        del self._runs[group]
        self._priorities.end_prefetch(group)
        pin = self.pins.known.get(group)
        if isinstance(end, Fail) and isinstance(end.error, StaleMetadata):
            self._plan(group, run.due, at=self._now + AGAIN_S)
        elif pin is not None:
            self._look_at(pin, group, end)
        return ()

    def _look_at(self, pin: Pin, group: bytes, end: Answer | Fail) -> None:
        """See what a pull of a pinned table has come to."""
        pause_s = RETRY_S
        if isinstance(end, Answer) and isinstance(end.result, TableSnapshot):
            pin.size = end.result.held_bytes
            pause_s = AGAIN_S  # not kept as long as its topic was behind
        elif isinstance(end, Fail) and isinstance(end.error, OverBudget):
            pin.size = max(pin.size, end.error.needed_bytes)  # at least: the rest was not taken
            pause_s = OVER_RETRY_S
        self.pins.over.pop(group, None)
        if self.held(pin, group):
            return
        pin.retry_at = self._now + pause_s
        if pin.size > self._room_for(pin, group):
            self.pins.over[group] = pin.size
            pin.retry_at = max(pin.retry_at, self._now + RETRY_S)

    def _room_for(self, pin: Pin, group: bytes) -> int:
        """Return what a pinned table may take beside what does not give way to it."""
        return self._replicas.resident_set.pins.get((pin.topic, group), 0) + self.room_bytes

    def _room_ever(self, pin: Pin, group: bytes) -> int:
        """Return what it may take beside other pins, once levels have made way for it."""
        resident_set = self._replicas.resident_set
        held = resident_set.pins.get((pin.topic, group), 0)
        return max(held + resident_set.pinnable_bytes - resident_set.pinned_bytes, 0)

    def _look_around(self) -> None:
        """Look at some pinned tables, whatever may have become of them; all in turn."""
        self._sweep_at = self._now + SWEEP_S
        if not self._sweep:
            self._sweep.extend(self.pins.known)
        for _ in range(min(len(self._sweep), SWEEP_MAX)):
            group = self._sweep.popleft()
            pin = self.pins.known.get(group)
            if pin is None or group in self._due or group in self._runs:
                continue
            if self.held(pin, group):
                self.pins.over.pop(group, None)
                pin.size = self._replicas.resident_set.pins.get((pin.topic, group), pin.size)
            elif pin.size > self._room_for(pin, group):
                self.pins.over[group] = pin.size
            elif self._now >= pin.retry_at:
                self._push(group, self._now)

    def _tell_over(self) -> tuple[Effect, ...]:
        """Say that pins do not fit: once, when all that can be held is held."""
        over, told = self.pins.over_count, self._told_over
        if bool(over) is told or self._due or self._runs or self.pins.scanning:
            return ()
        self._told_over = bool(over)
        if not over:
            return ()
        room = self._replicas.resident_set.pinnable_bytes
        return (PinsNotHeld(tables=over, needed_bytes=self.pins.needed_bytes, room_bytes=room),)


def _has(content: TableSnapshot | None, want: Selector, group: bytes) -> bool:
    """Tell whether ``content`` answers what is wanted."""
    if content is None:
        return False
    if content.whole:
        return True
    head = content.entry(group)
    if want == TABLE_ONLY:
        return head is not None and head.value is not None
    return want in (content.selections or ())


def _united(one: Wants, other: Wants) -> Wants:
    if ALL in one or ALL in other:
        return (ALL,)
    return tuple(dict.fromkeys((*one, *other)))[-FILTERS_MAX:]
