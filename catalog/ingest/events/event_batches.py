"""EventBatches: the last batches of events with their times, the rate of events, costs of tables.

    events of one poll ──begin──▶ running ──all their objects are published──▶ the last BATCHES_MAX

For operators alone: no decision of catalogd depends on it. Its size is bounded.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from typing import Final, NamedTuple

from ....topics.clock import Clock
from ....topics.histogram import Histogram, HistogramFacts
from ....topics.objects.names import TableId
from ...metastore.port import Dirty, RawEvent, Read

BATCHES_MAX: Final = 1_000  # published batches: enough for a 99th percentile
RUNNING_MAX: Final = 20  # batches that wait, as for a slow table; further batches join the last
TIMES_MAX: Final = 1_024  # of a batch, as a poll has events; further times count as the last
SLOT_S: Final = 10.0
SLOTS_MAX: Final = 360  # an hour
TABLES_MAX: Final = 1_000  # of which the cost is known; twice as many at times
SHOWN_MAX: Final = 10  # tables
BYTES_MAX: Final = 3_000_000  # of all batches: measured 2.4 MB with all at its limit


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBatch:
    """The events of one poll that were not seen before.

    ``at_us``: when they came. ``last_id``: of the newest. ``tables``: how many they name; ``left``:
    how many of these tables are not published yet. ``missing``: the events that are missing before
    them, as text. ``took_s``: from their arrival until they were published, or until now.
    ``waited_s``: the same from the time of the oldest event, which is of the metastore's clock, in
    whole seconds; None: no event has a time.
    """

    at_us: int
    events: int
    last_id: int
    tables: int
    left: int
    missing: str
    took_s: float
    waited_s: float | None


class TimeSlot(NamedTuple):
    """Ten seconds: ``number`` of the slot since the clock's zero, and what was published in it."""

    number: int
    events: int
    slowest_s: float  # of the batch that took longest


class TableCost(NamedTuple):
    """The cost of the reads of one table from the metastore, since the start."""

    table: TableId
    reads: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFacts:
    """The history at one moment.

    ``running`` and ``batches``: the oldest first. ``slot``: the number of the present slot.
    ``up_s``: since this object was made. ``costs``: of the costliest tables. ``delays``: from the
    time of each event until it was published; ``batch_times``: from the arrival of each batch.
    """

    running: tuple[EventBatch, ...]
    batches: tuple[EventBatch, ...]
    slots: tuple[TimeSlot, ...]
    slot: int
    up_s: float
    costs: tuple[TableCost, ...]
    delays: HistogramFacts
    batch_times: HistogramFacts


@dataclass(slots=True)
class _Running:
    """A batch that is not published."""

    seq: int  # arrival number of its newest event
    began_at: float  # seconds: when its oldest event came
    batch: EventBatch
    times: Counter[int]  # of its events, in seconds since 1970; at most TIMES_MAX
    oldest_s: int = 0  # the lowest time; 0: no time is known

    def add_times(self, events: Iterable[RawEvent]) -> None:
        """Count the times of those ``events`` that have a time."""
        for at_s in (one.at_s for one in events if one.at_s):
            known = len(self.times) < TIMES_MAX or at_s in self.times
            self.times[at_s if known else next(reversed(self.times))] += 1
            self.oldest_s = min(self.oldest_s or at_s, at_s)

    def waited_s(self, now_us: int) -> float | None:
        """Return how long ago the oldest event was; None: no event has a time."""
        return round(max(now_us / 1e6 - self.oldest_s, 0.0), 1) if self.oldest_s else None


class EventBatches:
    """The last batches of events, with their times."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: deque[_Running] = deque()  # by seq
        self._batches: deque[EventBatch] = deque(maxlen=BATCHES_MAX)
        self._slots: deque[TimeSlot] = deque(maxlen=SLOTS_MAX)
        self._reads: dict[int, tuple[float, tuple[TableId, ...]]] = {}
        """By the id of a read in flight: when it began, and of which tables."""
        self._costs: dict[TableId, tuple[int, float]] = {}  # reads, and seconds
        self._delays, self._batch_times = Histogram(), Histogram()
        self._began_at: float | None = None

    def begin(
        self, events: Sequence[RawEvent], dirty: Iterable[Dirty], *, seq: int, missing: str
    ) -> None:
        """Note events that came with the arrival number ``seq``, and what they make ``dirty``.

        ``missing``: the events before them that are missing, in words.
        """
        if not events and not missing:
            return
        tables = len({(one.db, getattr(one, "table", "")) for one in dirty})
        batch = EventBatch(
            at_us=self._clock.now_us,
            events=len(events),
            last_id=max((one.id for one in events), default=0),
            tables=tables,
            left=tables,
            missing=missing,
            took_s=0.0,
            waited_s=None,
        )
        last = self._running[-1] if self._running else None
        if last is None or (last.seq != seq and len(self._running) < RUNNING_MAX):
            running = _Running(seq, self._clock.now, batch, Counter())
            running.add_times(events)
            self._running.append(running)
            return
        last.seq = seq
        last.add_times(events)
        last.batch = replace(
            last.batch,
            events=last.batch.events + batch.events,
            last_id=max(last.batch.last_id, batch.last_id),
            tables=last.batch.tables + tables,
            missing=last.batch.missing or missing,
        )

    def publish(self, *, before: int) -> None:
        """Note that everything with an arrival number below ``before`` is published."""
        now = self._clock.now
        now_us = self._clock.now_us
        self._began_at = now if self._began_at is None else self._began_at
        while self._running and self._running[0].seq < before:
            running = self._running.popleft()
            took_s = max(now - running.began_at, 0.0)
            for at_s, count in running.times.items():
                self._delays.add(max(now_us / 1e6 - at_s, 0.0), count)
            self._batch_times.add(took_s)
            done = replace(
                running.batch, left=0, took_s=round(took_s, 3), waited_s=running.waited_s(now_us)
            )
            self._batches.append(done)
            self._fill_slot(done)

    def read_began(self, reads: Iterable[Read]) -> None:
        """Note ``reads``, which were ordered."""
        for one in reads:
            tables = tuple((want.db, want.table) for want in one.requests)
            self._reads[one.read] = self._clock.now, tables

    def read_ended(self, read: int) -> None:
        """Share the time that a read took among its tables; it was answered, or failed."""
        now = self._clock.now
        began_at, tables = self._reads.pop(read, (now, ()))
        for table in tables:
            count, seconds = self._costs.get(table, (0, 0.0))
            self._costs[table] = count + 1, seconds + max(now - began_at, 0.0) / len(tables)
        if len(self._costs) > 2 * TABLES_MAX:
            kept = nlargest(TABLES_MAX, self._costs.items(), key=lambda one: one[1][1])
            self._costs = dict(kept)

    def facts(self, left: Sequence[int]) -> EventFacts:
        """Return what operators see, as of now.

        ``left``: by the order of ``running_seqs``, how many tables are still to be published.
        """
        now = self._clock.now
        running = tuple(
            replace(
                one.batch,
                left=min(count, one.batch.tables),
                took_s=round(max(now - one.began_at, 0.0), 3),
                waited_s=one.waited_s(self._clock.now_us),
            )
            for one, count in zip(self._running, left, strict=True)
        )
        costs = nlargest(SHOWN_MAX, self._costs.items(), key=lambda one: one[1][1])
        return EventFacts(
            running=running,
            batches=tuple(self._batches),
            slots=tuple(self._slots),
            slot=int(now // SLOT_S),
            up_s=0.0 if self._began_at is None else now - self._began_at,
            costs=tuple(TableCost(table, *cost) for table, cost in costs),
            delays=self._delays.facts(),
            batch_times=self._batch_times.facts(),
        )

    @property
    def running_seqs(self) -> tuple[int, ...]:
        """The arrival numbers of the batches that are not published, the oldest first."""
        return tuple(one.seq for one in self._running)

    def check(self) -> None:
        """Assert every invariant."""
        seqs = self.running_seqs
        assert list(seqs) == sorted(set(seqs))
        assert len(seqs) <= RUNNING_MAX
        assert len(self._costs) <= 2 * TABLES_MAX

    def _fill_slot(self, batch: EventBatch) -> None:
        number = int(self._clock.now // SLOT_S)
        before = TimeSlot(number, 0, 0.0)
        if self._slots and self._slots[-1].number == number:
            before = self._slots.pop()
        slowest_s = max(before.slowest_s, batch.took_s)
        self._slots.append(TimeSlot(number, before.events + batch.events, slowest_s))
