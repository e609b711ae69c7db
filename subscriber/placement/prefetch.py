"""Prefetcher: pulls pinned tables, and hot tables that a change has hit, before they are read.

    hit by a change ──pinned, or hot──▶ scheduled ──its turn──▶ pulled ──▶ kept, as any pull is
    swept: a pinned table is not held ──▶ scheduled        ──failed──▶ scheduled again, later

At most OUTSTANDING_MAX pulls are under way, so that a pull of the application can begin at once. A
table is pulled at most once per INTERVAL_S, and a hot table no more often than it is read, so that
a table which changes all the time costs no more than the pulls of its readers would. A hot table
evicts only tables that are read less often. A pull brings what was held: the whole table, or what
its last filters need.
"""

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import Final, Protocol

from ...topics.errors import (
    NotReady,
    OverBudget,
    StaleMetadata,
    TopicastError,
    UsageError,
)
from ...topics.objects.names import parse_table_key, table_key, table_name
from ...topics.objects.selector import ALL, TABLE_ONLY, Selector
from ...topics.topic import NAMESPACE, NONE, table_topic
from ...topics.turn import Turn
from ..fetch.fetcher import Fetch, PartitionRequest, Result
from ..protocol.commands import DONE, Done, Key, Wait, Wake
from ..protocol.effects import Effect, PinsNotHeld
from ..replication.subscriptions import Subscriptions
from ..store.table_snapshot import TableSnapshot
from .pins import Pin
from .priorities import FILTERS_MAX, Priorities, Wants
from .usage import HOT_PER_S

OUTSTANDING_MAX: Final = 4  # of the 16 pulls that a subscriber may have under way
INTERVAL_S: Final = 1.0  # between two pulls of one table
RETRY_S: Final = 5.0  # after a pull that failed
TOO_LARGE_RETRY_S: Final = 60.0  # after a pull that brought more than there is room for
TIMEOUT_S: Final = 10.0  # of a pull
HOT_SCHEDULED_MAX: Final = 1024  # hot tables that wait for a pull; more are left to their readers
SWEEP_S: Final = 0.5  # between two checks of pinned tables
SWEEP_MAX: Final = 256  # pinned tables that a check looks at: 0.3 ms


class PullClient(Protocol):
    """Pulls from catalogd; the catalog session implements it."""

    def begin_fetch(self, fetch: Fetch) -> None:
        """Begin a pull, whose outcome is set in ``fetch``."""

    def detach(self, fetch: Fetch) -> None:
        """Have ``fetch`` wait no longer; its pull goes on if other callers wait for it."""


class TopicLevels(Protocol):
    """The levels of topics, as far as pinned tables need them; the controller implements it."""

    def is_dropped_by_hand(self, topic: int) -> bool:
        """Return whether the application has dropped ``topic``: then it is not followed again."""

    def follow_pinned(self, topic: int) -> None:
        """Follow ``topic`` at minimal, if it is not followed and there is room for that."""


@dataclass(slots=True)
class _Job:
    """The selections that are to be pulled of one table."""

    topic: int
    wants: Wants
    pinned: bool


@dataclass(slots=True)
class _Run:
    """A job under way; ``left``: those of its selections that no pull was sent for yet."""

    job: _Job
    left: deque[Selector]
    fetch: Fetch
    deadline: float


class Prefetcher:
    """Pulls what is pinned or hot, a few tables at a time."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        priorities: Priorities,
        *,
        turn: Turn[Effect],
        levels: TopicLevels,
        client: PullClient,
        wake: Wake,
    ) -> None:
        self.pins = priorities.pins
        self.pulls = 0  # that were sent so far
        self._turn = turn
        self._subscriptions = subscriptions
        self._replicas = replicas = subscriptions.replicas
        self._resident_set = replicas.resident_set
        self._view = replicas.view
        self._priorities = priorities
        self._levels = levels
        self._client = client
        self._wake = wake  # has the core poll the commands that wait for a topic of pinned tables
        self._jobs: dict[bytes, _Job] = {}  # by table: the scheduled jobs
        self._later: list[tuple[float, bytes]] = []  # the same, as a heap by due time
        self._next_at: dict[bytes, float] = {}  # by table: when it may be pulled again
        self._runs: dict[bytes, _Run] = {}  # by table: at most OUTSTANDING_MAX, a pull each
        self._unswept: deque[bytes] = deque()  # pinned tables that this sweep has not checked yet
        self._sweep_at = 0.0  # when the next check is due
        self._reported = False  # whether a warning says that pins are not held, and it is so still

    @property
    def deadline(self) -> float | None:
        """The time at which ``settle`` has work to do."""
        if self.pins.scanning:
            return self._turn.now
        times = [self._later[0][0]] if self._later and self._may_begin() else []
        for run in self._runs.values():
            times.append(run.deadline if run.fetch.outcome is None else self._turn.now)
        if self.pins.known:
            times.append(self._sweep_at)
        return min(times, default=None)

    @property
    def is_idle(self) -> bool:
        """Whether no pull is under way."""
        return not self._runs

    def pin(self, db: str, table: str) -> Wait[None]:
        """Pin a table; return the wait until it is held.

        Raises:
            NoSuchObject: there is no such table.
            UsageError: its topic was dropped by hand.
        """
        name, topic = table_name(db, table), self.topic(db, table)
        if self._view.record(db, table) is None:
            raise self._view.missing(db, table)
        if self._levels.is_dropped_by_hand(topic):
            text = f"{name} is in topic {topic}, which was dropped by hand: join it first"
            raise UsageError(text)
        self._priorities.pin(db, table)
        self._move_pins()
        return _PinWait(self, db, table)

    def topic(self, db: str, table: str) -> int:
        """Return the topic of a table, by the present number of topics."""
        return table_topic(db, table, self._view.num_topics)

    def answers(self, db: str, table: str) -> bool:
        """Return whether memory answers for a pinned table.

        Raises:
            OverBudget: the table does not fit; the call has unpinned it.
        """
        group = table_key(db, table)
        needed_bytes = self.pins.not_held.get(group)
        if needed_bytes is not None:
            self.unpin(db, table)
            name, free_bytes = table_name(db, table), self._room_bytes()
            raise OverBudget(name, needed_bytes=needed_bytes, free_bytes=free_bytes)
        topic = self.topic(db, table)
        content = self._view.content(topic, group)
        return content is not None and content.whole and self._replicas.is_usable(topic)

    def missing(self, db: str, table: str) -> str:
        """Return why a pinned table is not held yet, as text for an error."""
        ready = self._subscriptions.ready()
        why = "catalogd has not sent it" if ready else self._subscriptions.missing()
        return f"{table_name(db, table)} is pinned and not held yet: {why}"

    def unpin(self, db: str, table: str) -> None:
        """Pin a table no longer."""
        self._priorities.unpin(db, table)
        self._move_pins()

    def settle(self) -> None:
        """Take the outcomes of its pulls, and begin the pulls that are due."""
        self._take_outcomes()
        if self.pins.scanning:
            self._priorities.scan()
            self._move_pins()
        for group in self.pins.take_new():
            self._schedule_pin(group)
        self._schedule_hit()
        if self._turn.now >= self._sweep_at and self.pins.known:
            self._sweep()
        self._start()
        self._report_not_held()
        pins = self.pins
        self._priorities.has_work = bool(self._jobs or self._runs or pins.known or pins.scanning)

    def check(self) -> None:
        """Assert every invariant."""
        self.pins.check()
        assert len(self._runs) <= OUTSTANDING_MAX
        assert sorted(group for _, group in self._later) == sorted(self._jobs)
        hot = sum(not job.pinned for job in self._jobs.values())
        assert hot <= HOT_SCHEDULED_MAX + OUTSTANDING_MAX

    def _move_pins(self) -> None:
        """Have the resident set move content of tables that were pinned, or unpinned, lately.

        Content of pinned tables is not in the cache, from which tables are evicted.
        """
        for topic, group in self.pins.take_moved():
            self._resident_set.repin(topic, group)

    def _is_held(self, pin: Pin, group: bytes) -> bool:
        """Return whether a pinned table is held whole, or deltas are going to bring it whole."""
        content = self._view.content(pin.topic, group)
        if content is not None and content.whole:
            return True
        held = self._view.topics.get(pin.topic)
        if held is None or held.pulled_only:
            return False
        pushed = held.groups.get(group)
        return pushed is None or not pushed.stubs

    def _schedule_hit(self) -> None:
        """Schedule tables that changes have hit, if they are pinned, or hot and less useful."""
        for group, (topic, wants) in self._priorities.take_hits().items():
            pin = self.pins.known.get(group)
            if pin is not None:
                if not self._is_held(pin, group):
                    self._schedule_pin(group)
                continue
            lost = self._lost(topic, group, wants)
            hot = self._priorities.read_rate(group) >= HOT_PER_S
            if hot and lost and len(self._jobs) < HOT_SCHEDULED_MAX:
                self._schedule(group, _Job(topic, lost, pinned=False))

    def _lost(self, topic: int, group: bytes, wants: Wants) -> Wants:
        """Return those of ``wants`` that memory does not answer."""
        content = self._view.content(topic, group)
        return tuple(want for want in wants if not _has(content, want, group))

    def _schedule_pin(self, group: bytes) -> None:
        pin = self.pins.known.get(group)
        if pin is not None:
            self._schedule(group, _Job(pin.topic, (ALL,), pinned=True))

    def _schedule(self, group: bytes, job: _Job, *, at: float = 0.0) -> None:
        """Pull a table at ``at``, or as soon as it may be pulled again."""
        known = self._jobs.get(group)
        if known is not None:
            known.wants = _united(known.wants, job.wants)
            known.pinned = known.pinned or job.pinned
            return
        self._jobs[group] = job
        heappush(self._later, (max(at, self._turn.now, self._next_at.get(group, 0.0)), group))

    def _start(self) -> None:
        """Begin the pulls that are due, as many as may be under way."""
        while self._later and self._later[0][0] <= self._turn.now and self._may_begin():
            group = heappop(self._later)[1]
            job = self._jobs.pop(group)
            if group in self._runs:  # another change has hit the table while it is being pulled
                self._schedule(group, job, at=self._turn.now + INTERVAL_S)
                continue
            self._begin(group, job)

    def _may_begin(self) -> bool:
        return len(self._runs) < OUTSTANDING_MAX and self._replicas.is_usable(NAMESPACE)

    def _begin(self, group: bytes, job: _Job) -> None:
        pin = self.pins.known.get(group)
        if job.pinned:
            if pin is None or self._is_held(pin, group):
                return
            self._levels.follow_pinned(job.topic)
            if self._replicas.level(job.topic) == NONE:  # there was no room: a sweep tries again
                pin.retry_at = self._turn.now + INTERVAL_S
                return
        else:
            job.wants = self._lost(job.topic, group, job.wants)
            if not job.wants:  # a pull of the application has brought it meanwhile
                return
        self._delay_next(group, pinned=job.pinned)
        self._priorities.begin_prefetch(group, pinned=job.pinned)
        self._pull_next(group, job, deque(job.wants))

    def _delay_next(self, group: bytes, *, pinned: bool) -> None:
        """Note when a table that is pulled now may be pulled again."""
        if len(self._next_at) > 2 * HOT_SCHEDULED_MAX:
            self._next_at = {g: at for g, at in self._next_at.items() if at > self._turn.now}
        rate = self._priorities.read_rate(group)
        delay_s = INTERVAL_S if pinned or not rate else max(INTERVAL_S, 1 / rate)
        self._next_at[group] = self._turn.now + delay_s

    def _pull_next(self, group: bytes, job: _Job, left: deque[Selector]) -> None:
        """Pull the next selection that is left of a job."""
        key, pin = parse_table_key(group), self.pins.known.get(group)
        self.pulls += 1
        fetch = Fetch(
            PartitionRequest(key.db, key.table, left.popleft()),
            background=True,
            bytes_max=inf if pin is None else self._room_in_future(pin, group),
        )
        self._runs[group] = _Run(job, left, fetch, deadline=self._turn.now + TIMEOUT_S)
        self._client.begin_fetch(fetch)

    def _take_outcomes(self) -> None:
        for group, run in tuple(self._runs.items()):
            outcome = run.fetch.outcome
            if outcome is None and self._turn.now >= run.deadline:
                self._client.detach(run.fetch)
                outcome = NotReady("catalogd has not answered")
            if outcome is not None:
                self._on_outcome(group, run, outcome)

    def _on_outcome(self, group: bytes, run: _Run, outcome: Result | TopicastError) -> None:
        if run.left and not isinstance(outcome, TopicastError):
            self._pull_next(group, run.job, run.left)
            return
        del self._runs[group]
        self._priorities.end_prefetch(group)
        pin = self.pins.known.get(group)
        if isinstance(outcome, StaleMetadata):
            self._schedule(group, run.job, at=self._turn.now + INTERVAL_S)
        elif pin is not None:
            self._on_pinned_outcome(pin, group, outcome)

    def _on_pinned_outcome(self, pin: Pin, group: bytes, outcome: Result | TopicastError) -> None:
        """Note the size of a pinned table, and when to pull it again if it is not held."""
        delay_s = RETRY_S
        if isinstance(outcome, TableSnapshot):
            pin.size = outcome.held_bytes
            delay_s = INTERVAL_S  # if it was not kept, its topic was behind
        elif isinstance(outcome, OverBudget):
            pin.size = max(pin.size, outcome.needed_bytes)  # a lower bound: the pull was cut off
            delay_s = TOO_LARGE_RETRY_S
        self.pins.clear_not_held(group)
        if self._is_held(pin, group):
            return
        pin.retry_at = self._turn.now + delay_s
        if pin.size > self._room_now(pin, group):
            self._mark_not_held(pin, group)
            pin.retry_at = max(pin.retry_at, self._turn.now + RETRY_S)

    def _mark_not_held(self, pin: Pin, group: bytes) -> None:
        self.pins.mark_not_held(group, pin.size)
        self._wake(pin.topic)

    def _room_bytes(self) -> int:
        """Return how many bytes one more pinned table may take."""
        held = self._resident_set
        return max(min(held.spare_bytes, held.pinnable_bytes - held.pinned_bytes), 0)

    def _room_now(self, pin: Pin, group: bytes) -> int:
        """Return how many bytes a pinned table may take now."""
        return self._resident_set.pinned_sizes.get((pin.topic, group), 0) + self._room_bytes()

    def _room_in_future(self, pin: Pin, group: bytes) -> int:
        """Return how many bytes a pinned table may take beside other pins, once levels are low."""
        held = self._resident_set
        own_bytes = held.pinned_sizes.get((pin.topic, group), 0)
        return max(own_bytes + held.pinnable_bytes - held.pinned_bytes, 0)

    def _sweep(self) -> None:
        """Check the next SWEEP_MAX pinned tables, and schedule those that are not held but may be.

        So a table is pulled again whatever has removed it.
        """
        self._sweep_at = self._turn.now + SWEEP_S
        if not self._unswept:
            self._unswept.extend(self.pins.known)
        for _ in range(min(len(self._unswept), SWEEP_MAX)):
            group = self._unswept.popleft()
            pin = self.pins.known.get(group)
            if pin is None or group in self._jobs or group in self._runs:
                continue
            if self._is_held(pin, group):
                self.pins.clear_not_held(group)
                pin.size = self._resident_set.pinned_sizes.get((pin.topic, group), pin.size)
            elif pin.size > self._room_now(pin, group):
                self._mark_not_held(pin, group)
            elif self._turn.now >= pin.retry_at:
                self._schedule_pin(group)

    def _report_not_held(self) -> None:
        """Warn once of pins that do not fit, when no pull is due or under way that could help."""
        count = self.pins.not_held_count
        if bool(count) is self._reported or self._jobs or self._runs or self.pins.scanning:
            return
        self._reported = bool(count)
        if not count:
            return
        room_bytes = self._resident_set.pinnable_bytes
        needed_bytes = self.pins.needed_bytes
        problem = PinsNotHeld(tables=count, needed_bytes=needed_bytes, room_bytes=room_bytes)
        self._turn.add(problem)


def _has(content: TableSnapshot | None, want: Selector, group: bytes) -> bool:
    """Return whether ``content`` answers the selection ``want`` of its table."""
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


class _PinWait(Wait[None]):
    """The wait until a pinned table is held, or is known not to fit."""

    def __init__(self, prefetcher: Prefetcher, db: str, table: str) -> None:
        self._prefetcher = prefetcher
        self._name = db, table

    def poll(self) -> Done[None] | None:
        return DONE if self._prefetcher.answers(*self._name) else None

    def keys(self) -> tuple[Key, ...]:
        return NAMESPACE, self._prefetcher.topic(*self._name)

    def missing(self) -> str:
        return self._prefetcher.missing(*self._name)
