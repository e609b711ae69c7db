"""Loader: decides the next reads of the metastore and which results may be published.

    dirty ──read──▶ in flight ──done──▶ unconfirmed ──a later poll ends──▶ published
                        └──────── an event overtakes the read ────────▶ dirty again

Invariants: no two reads of one table run at once, apart from the chunks of a table that is LOADING
(``has_confirmed`` says what is answered from these); what is published equals the metastore at one
moment, because a poll that began after the read brought no event that touches it: it confirms the
read.
Partitions that are written without a pause would wait for ever: after TOGETHER_TRIES_MAX reads
that only events of partitions overtook, what was read is published, each partition as of its read.
Where events are not polled, nothing waits for a confirmation.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType
from typing import Final

from ....topics.backports import assert_never
from ....topics.objects.names import EVERYTHING, Scope, TableId
from ....topics.objects.selector import Selector
from ....topics.objects.tables import Column
from ....topics.turn import Outbox
from ...metastore.port import (
    Dirty,
    DirtyDatabase,
    DirtyPartitions,
    DirtyTable,
    Read,
    ReadDone,
    ReadFailed,
    TableRead,
    TableRequest,
)
from .bad_partitions import BAD_MAX
from .chunked_load import ChunkedLoad
from .comparison import Comparison
from .needs import (
    NEVER,
    RETRY_S,
    WHOLE_PER_READ_MAX,
    Backlog,
    Extent,
    Incarnation,
    Need,
    PendingEvents,
)
from .results import CompleteLoad, PublishTables, Result, TableUnreadable

READS_MAX_DEFAULT: Final = 16
READS_KEPT: Final = 2  # of them, for events: the background takes none of these
TABLES_PER_READ_MAX: Final = 100  # of a background load; an event's tables are read together
TOGETHER_TRIES_MAX: Final = 3  # reads that events overtook, until a part of them is published
AWAY_S_MAX: Final = 2.0  # pauses grow up to this while the metastore is away
YIELD_S: Final = 0.02  # between two slices of chunked loads while events wait to be published
COMPARED_MAX: Final = 8  # large tables at once: the names of each are in memory


@dataclass(slots=True)
class InFlightRead:
    """A read that was ordered and is not published: for ``needs``, or a chunk of ``chunk_of``."""

    effect: Read
    needs: dict[TableId, Need]
    chunk_of: ChunkedLoad | Comparison | None = None
    together: bool = True  # its tables are published at once, as events may connect them
    done: ReadDone | None = None
    confirmed_by: int = 0  # it is published once this poll is answered
    overtaken: dict[TableId, bool] = field(default_factory=dict)
    """Tables that changed since it was ordered; True: not only partitions of them."""

    @property
    def table(self) -> TableId:
        """The one table of a chunk."""
        request = self.effect.requests[0]
        return request.db, request.table

    def overtake(self, table: TableId, names: tuple[str, ...] | None) -> None:
        """Note that partitions ``names`` of ``table`` changed; None: the table as a whole."""
        need = self.needs.get(table)
        if need is None:
            return  # a chunk: its load knows what is dirty
        if names is None or need.whole or any(name in need.names for name in names):
            self.overtaken[table] = names is None or self.overtaken.get(table, False)

    def take_overtaken(self) -> dict[TableId, Need]:
        """Remove and return the needs that are to be read again, as events overtook the read.

        Of a read whose tables are published together these are all, if an event overtook any. What
        only events of partitions have overtaken is published after TOGETHER_TRIES_MAX reads.
        """
        if not self.overtaken:
            return {}
        again = tuple(self.needs if self.together else self.overtaken)
        for table in again:
            self.needs[table].overtaken += 1
        often = {one for one in again if self.needs[one].overtaken > TOGETHER_TRIES_MAX}
        if often and self.together:
            often.update(again)
        again = tuple(one for one in again if one not in often or self.overtaken.get(one))
        return {table: self.needs.pop(table) for table in again}


class Loader:
    """Orders reads, and publishes what they find once a poll has confirmed it."""

    def __init__(
        self,
        *,
        turn: Outbox[Read],
        loaded: Callable[[TableId], bool],
        partitioned: Callable[[TableId], bool] = lambda _table: False,
        wanted: Callable[[TableId], bool] = lambda _table: True,
        reads_max: int = READS_MAX_DEFAULT,
        polled: bool = True,
        began: Callable[[Read], None] = lambda _read: None,
    ) -> None:
        """Order nothing yet.

        Args:
            turn: As of when reads are ordered, and where they are added.
            loaded: Returns whether a table is held.
            partitioned: Returns whether a table that is held has partition columns.
            wanted: Returns whether a table is held, or is to be although nobody has requested it.
            reads_max: How many reads are in flight at most.
            polled: Whether events are polled.
            began: Called with each read that is ordered.
        """
        self._turn = turn
        self._loaded = loaded
        self._partitioned = partitioned
        self._wanted = wanted
        self._reads_max = reads_max
        self._polled = polled
        self._began = began
        self._dirty: dict[TableId, Need] = {}  # to be read; may be in flight, too
        self._events = PendingEvents()  # of what is dirty or in flight
        self._look_again = False  # something may be ready to be read since ``_dirty`` was looked at
        self._retry_at = inf  # seconds: when the next failed read is due
        self._in_flight: dict[int, InFlightRead] = {}  # by read id, at most reads_max
        self._loads: dict[TableId, ChunkedLoad] = {}  # tables that are LOADING
        self._comparisons: dict[TableId, Comparison] = {}  # of large tables; events are missing
        self._backlog = Backlog()
        self._errors: dict[TableId, str] = {}  # of unreadable tables, until they can be read
        self._spoiled: set[TableId] = set()  # a partition could not be read at the last load
        self._next_read = 1
        self.polls_begun = 0  # the number of the newest poll
        self._away_until = 0.0  # no read before: the metastore is away
        self._away_s = RETRY_S  # the next pause
        self._ordered_at = 0.0  # when ``reads`` was last called
        self._slice_at = 0.0  # no slice before
        self._moved = False  # names were scanned for a selection since reads were last ordered

    @property
    def wants_poll(self) -> bool:
        """Whether something that was read waits for a poll that has not begun."""
        begun = self.polls_begun
        if self._polled and any(load.wants_poll(begun) for load in self._loads.values()):
            return True
        return any(one.done and one.confirmed_by > begun for one in self._in_flight.values())

    @property
    def tables_left(self) -> int:
        """How many tables are still to be loaded in the background, or are being loaded."""
        loading = sum(not load.is_stuck for load in self._loads.values())
        return len(self._backlog) + len(self._comparisons) + loading

    @property
    def resyncing(self) -> bool:
        """Whether tables wait to be read again because events of them are missing."""
        return self._backlog.seq != NEVER or bool(self._comparisons)

    def needs_resync(self, table: TableId) -> bool:
        """Return whether ``table`` waits to be read again because events are missing."""
        return self._backlog.needs_resync(table) or table in self._comparisons

    def oldest_unpublished(self, scope: Scope = EVERYTHING) -> int:
        """Return the arrival number of the oldest event that is not published; NEVER if none.

        Only events of objects in ``scope`` count. Cost: O(its tables that are dirty).
        """
        pending = [self._backlog.oldest(scope), self._events.oldest(scope)]
        pending += [
            load.seq
            for table, load in self._loads.items()
            if load.seq is not None and scope.includes(table)
        ]
        return min(pending)

    def awaited(self, scope: Scope, *, seq: int) -> tuple[TableId, int] | None:
        """Return an object that a sync of ``scope`` waits for, and how many objects it waits for.

        Events of these objects, up to arrival number ``seq``, are not published. The name of a
        database has an empty table. Cost: O(dirty), and O(1) for what needs a resync.
        """
        found = dict.fromkeys(self._events.tables(scope, seq=seq))
        found |= dict.fromkeys(
            table
            for table, load in self._loads.items()
            if load.seq is not None and load.seq <= seq and scope.includes(table)
        )
        waiting = self._backlog.count(scope) if self._backlog.seq <= seq else 0
        if not (found or waiting):
            return None
        return next(iter(found), None) or self._backlog.first(scope), len(found) + waiting

    def hasten(self, table: TableId) -> None:
        """Read ``table``, if it waits to be read again after a gap, before all others that do."""
        self._backlog.hasten(table)
        if table in self._comparisons:
            self._comparisons[table].awaited = True

    def left(self, seq: int) -> int:
        """Return how many tables are still to be published for events up to the number ``seq``."""
        return self._events.count(seq)

    def pending(self, table: TableId) -> bool:
        """Return whether ``table`` is dirty, being read, compared, or LOADING."""
        if table in self._dirty or table in self._loads or table in self._comparisons:
            return True
        return any(table in read.needs for read in self._in_flight.values())

    @property
    def errors(self) -> Mapping[TableId, str]:
        """The unreadable tables, by why they cannot be read; a live view."""
        return MappingProxyType(self._errors)

    def error(self, table: TableId) -> str:
        """Return why ``table`` cannot be read, if it was tried often enough; else nothing."""
        return self._errors.get(table, "")

    def bad_partitions(self) -> dict[TableId, Mapping[str, str]]:
        """Return the partitions that cannot be read, by table, each with why."""
        return {table: load.bad.errors for table, load in self._loads.items() if load.bad}

    def bad_of(self, table: TableId, selector: Selector | None, columns: Sequence[Column]) -> str:
        """Return which partition that ``selector`` selects cannot be read, and why; else nothing.

        ``selector`` None: every partition.

        Raises:
            UsageError: the selector is not valid for this table.
        """
        load = self._loads.get(table)
        return "" if load is None else load.bad.of(selector, columns)

    def is_loading(self, table: TableId) -> bool:
        """Return whether ``table`` is LOADING."""
        return table in self._loads

    def loading(self) -> dict[TableId, str]:
        """Return how far each table is that is LOADING."""
        return {table: load.text for table, load in self._loads.items()}

    def comparing(self) -> dict[TableId, str]:
        """Return how far each table is that is compared, as events of it are missing."""
        return {table: one.text for table, one in self._comparisons.items()}

    def progress(self, table: TableId) -> tuple[int, int] | None:
        """Return how many partitions of ``table``, of how many, have been read; None: not known."""
        load = self._loads.get(table)
        return None if load is None or load.rest is None else (load.read, len(load.names))

    def has_confirmed(self, table: TableId, selector: Selector, columns: Sequence[Column]) -> bool:
        """Return whether the partitions that ``selector`` selects of a LOADING table are published.

        They, and the table's own struct, are of one moment, as if the table were COMPLETE. If
        they are not published they are read before its others. ``columns``: of its partitions.

        Raises:
            UsageError: the selector is not valid for this table.

        Cost: at most 2 ms; it is to be called again in each turn.
        """
        load = self._loads.get(table)
        if load is None or load.rest is None:
            return False
        confirmed = load.confirmed(selector, columns)
        self._moved |= load.scanned
        return confirmed and not self._is_needed(table)

    def mark_dirty(self, objects: Iterable[Dirty], *, seq: int) -> None:
        """Read again what events have changed; ``seq`` is the number of their arrival.

        Caller: the events, the listing of names, what comparisons found to differ, an operator's
            order to refresh.
        Affects: reads in flight, which are not published where the change overtook them; syncs,
            which wait until what is read now is published.
        """
        for one in objects:
            match one:
                case DirtyDatabase(db=db):
                    self._overtake((db, ""), None)
                    self._need((db, ""), Need(seq, Extent.STRUCT))
                case DirtyTable():
                    self._mark_table(one, seq)
                case DirtyPartitions():
                    self._mark_partitions(one, seq)
                case _:
                    assert_never(one)

    def resync(self, tables: Sequence[TableId], *, seq: int) -> None:
        """Read ``tables`` again, some at a time: events of them are missing.

        What is to be read of them already is read whole: a part alone may not fit what is held.
        """
        for table in tables:
            self._overtake(table, None)
            self._loads.pop(table, None)
            self._end_comparison(table)
        again = dict.fromkeys(tables)
        doubted = Need(seq, Extent.WHOLE, Incarnation.DOUBTED)
        for needs in (self._dirty, *(read.needs for read in self._in_flight.values())):
            for table in needs.keys() & again.keys():
                self._merge(table, needs[table], doubted)
        self._backlog.resync([table for table in again if not self.pending(table)], seq=seq)

    def read_again(self) -> None:
        """Publish nothing of what was read so far: no poll can confirm it any more."""
        for read in self._in_flight.values():
            for table in read.needs:
                read.overtake(table, None)
        for table, load in self._loads.items():
            self._need(table, Need(NEVER if load.seq is None else load.seq, Extent.WHOLE))
        self._loads.clear()
        for table in tuple(self._comparisons):
            self._end_comparison(table)

    def load(self, table: TableId, *, urgent: bool = False) -> None:
        """Load ``table`` in the background, or ``urgent``: now.

        Caller: the background for the mode, the pull server (``urgent``) for a pull.
        Affects: nobody until the result is published; then pulls that wait are answered.
        """
        if self.pending(table) and not (urgent and self._lacks_partitions(table)):
            return
        if urgent:
            self._backlog.discard(table)
            self._need(table, Need(extent=Extent.WHOLE, refused=0))
        else:
            self._backlog.add(table)

    def begin_chunked_load(
        self,
        table: TableId,
        names: tuple[str, ...] | None,
        *,
        keys: tuple[str, ...] = (),
        refused: int = 0,
    ) -> None:
        """Read the partitions of a table that was published as LOADING.

        ``names`` None: they are not known yet. ``keys``: its partition columns. ``refused``: as in
        the need of that publication.
        """
        rest = None if names is None else dict.fromkeys(names)
        load = ChunkedLoad(self._turn, rest, keys, refused)
        self._loads[table] = load
        need = self._dirty.get(table)
        if need is not None and not need.obj:  # partitions that changed since they were listed
            load.mark_dirty(need.names, seq=need.seq)
            self._events.remove(table, self._dirty.pop(table))

    def compare(self, table: TableId, comparison: Comparison) -> None:
        """Compare a table of which events are missing; what differs is read at the end."""
        if len(self._comparisons) >= COMPARED_MAX:
            comparison.list_later()
        self._comparisons[table] = comparison
        self._events.add(table, comparison.need)
        need = self._dirty.pop(table, None)
        if need is not None:  # it changed while it was read
            self._events.remove(table, need)
            self._need(table, need)

    def invalidate(self, table: TableId) -> None:
        """Publish nothing of ``table`` that was read so far; what was to be read is read whole."""
        self._overtake(table, None)
        for needs in (self._dirty, *(read.needs for read in self._in_flight.values())):
            if table in needs:
                needs[table].widen(Extent.WHOLE)
        self.discard(table)

    def discard(self, table: TableId) -> None:
        """Do not load ``table`` any further: it is gone."""
        self._loads.pop(table, None)
        self._end_comparison(table)
        self._backlog.discard(table)
        self._errors.pop(table, None)
        self._spoiled.discard(table)

    def retain(self, wanted: Callable[[TableId], bool]) -> None:
        """Load in the background only tables that are ``wanted``; running loads go on."""
        self._backlog.retain(wanted)

    def order(self) -> None:
        """Order what may be read now."""
        now = self._turn.now
        self._ordered_at, self._moved = now, False
        if now >= self._away_until:
            self._order_for_events()
            self._order_chunks()
            self._order_comparisons()
            self._order_in_background()

    def next_slice(self) -> tuple[Result, ...]:
        """Return a slice of what was read of a large table, to be published in this turn.

        While events wait to be published there are fewer slices, but never none.
        """
        now = self._turn.now
        self._compare_slice()
        if now < self._slice_at:
            return self._finished()
        loads = [(table, load) for table, load in self._loads.items() if load.slices]
        for table, load in sorted(loads, key=lambda one: not one[1].awaited)[:1]:
            self._loads[table] = self._loads.pop(table)  # the others come first next time
            if self.oldest_unpublished() != NEVER:
                self._slice_at = now + YIELD_S
            return (load.take_slice(), *self._finished())
        return self._finished()

    def begin_poll(self) -> int:
        """Count a poll that begins; return its number."""
        self.polls_begun += 1
        return self.polls_begun

    def on_read_done(self, fact: ReadDone) -> tuple[Result, ...]:
        """Take the answer to a read; a chunk is published at once, the rest if none are polled."""
        read = self._in_flight.get(fact.read)
        if read is None:
            return ()
        self._away_s = RETRY_S
        read.done, read.confirmed_by = fact, self.polls_begun + 1
        if isinstance(read.chunk_of, Comparison):
            self._accept_compared(self._end_read(fact.read), read.chunk_of)
            return ()
        if self._polled and read.chunk_of is None:
            return ()
        return self._publish(self._end_read(fact.read)) + self._finished()

    def on_read_failed(self, fact: ReadFailed, *, away: bool) -> tuple[Result, ...]:
        """Read again what failed to be read, and alone unless the metastore is away."""
        now = self._turn.now
        if fact.read not in self._in_flight:
            return ()
        read = self._end_read(fact.read)
        if away:
            self._away_until = now + self._away_s
            self._away_s = min(self._away_s * 2, AWAY_S_MAX)
        if isinstance(read.chunk_of, Comparison):
            self._fail_compared(read, read.chunk_of, away=away)
            return ()
        if read.chunk_of is not None:
            return self._fail_chunk(read, read.chunk_of, fact, away=away)
        results: tuple[Result, ...] = ()
        for (db, table), need in read.needs.items():
            if not away and need.back_off(now) and table:
                self._events.remove((db, table), need)
                if need.extent is Extent.APART:
                    need.seq = NEVER  # no request waits for it any longer
                    results += (self._note_unreadable((db, table), fact.error),)
                need.widen(Extent.APART)  # perhaps one of its partitions is what cannot be read
                self._events.add((db, table), need)
        self._read_again(read.needs)
        return results

    def on_poll_done(self, poll: int) -> tuple[Result, ...]:
        """Publish what poll number ``poll`` confirms; its events were marked dirty before."""
        ready = [
            n for n, read in self._in_flight.items() if read.done and read.confirmed_by <= poll
        ]
        results: tuple[Result, ...] = ()
        for number in ready:
            results += self._publish(self._end_read(number))
        for load in self._loads.values():
            load.on_poll_done(poll)
        return results + self._finished()

    def deadline(self) -> float | None:
        """Return when ``reads`` may order something that it did not; None: after a fact."""
        if self._moved:
            return self._ordered_at
        if any(one.has_slices for one in self._comparisons.values()):
            return self._ordered_at
        if any(load.slices for load in self._loads.values()):
            return self._slice_at
        times = [self._retry_at] if self._retry_at < inf else []
        loads = [load for load in self._loads.values() if load.bad and not load.reading]
        times += [load.bad.retry_at for load in loads]
        if self._dirty or self.tables_left:
            times.append(self._away_until)
        return min((time for time in times if time > self._ordered_at), default=None)

    def check(self) -> None:
        """Assert every invariant."""
        self._backlog.check()
        reading = [table for read in self._in_flight.values() for table in read.needs]
        assert len(reading) == len(set(reading)), "two reads of one table"
        assert len(self._in_flight) <= self._reads_max
        for read in self._in_flight.values():
            assert bool(read.needs) != (read.chunk_of is not None)
        flying = [need for read in self._in_flight.values() for need in read.needs.items()]
        compared = [(table, one.need) for table, one in self._comparisons.items()]
        self._events.check((*self._dirty.items(), *flying, *compared))
        assert not self._comparisons.keys() & self._dirty.keys()
        for table, one in self._comparisons.items():
            running = (read for read in self._in_flight.values() if read.chunk_of is one)
            assert one.reading == any(read.table == table for read in running)
            one.check()
        for load in self._loads.values():
            running = (read for read in self._in_flight.values() if read.chunk_of is load)
            assert (load.reading is not None) == any(running)
            load.check()

    # -- what is dirty

    def _mark_table(self, dirty: DirtyTable, seq: int) -> None:
        table = (dirty.db, dirty.table)
        self._overtake(table, None)
        self._backlog.discard(table)
        if dirty.whole or dirty.dropped:
            self._loads.pop(table, None)
        whole = dirty.whole or not (self._loaded(table) or table in self._loads)
        extent = Extent.WHOLE if whole else Extent.STRUCT
        incarnation = Incarnation.ENDED if dirty.dropped else Incarnation.SAME
        self._need(table, Need(seq, extent, incarnation, data=dirty.data))

    def _mark_partitions(self, dirty: DirtyPartitions, seq: int) -> None:
        table = (dirty.db, dirty.table)
        self._overtake(table, dirty.names)
        load = self._loads.get(table)
        if load is not None:
            load.mark_dirty(dirty.names, seq=seq)
        elif self._loaded(table) or self.pending(table):
            self._need(table, Need(seq, data=dirty.data, names=dict.fromkeys(dirty.names)))

    def _need(self, table: TableId, need: Need) -> None:
        if self._backlog.needs_resync(table):
            need.merge(self._backlog.take_one(table))
        comparison = self._comparisons.get(table)
        ended = need.incarnation is Incarnation.ENDED
        if comparison is not None and not (need.whole or ended):
            self._merge(table, comparison.need, need)
            return
        if comparison is not None:
            del self._comparisons[table]
            self._events.remove(table, comparison.need)
            need.merge(comparison.need)
        if need.whole and table in self._spoiled:
            need.widen(Extent.APART)
        known = self._dirty.get(table)
        if known is None:
            self._dirty[table] = need
            self._events.add(table, need)
        else:
            self._merge(table, known, need)
        self._look_again = True

    def _merge(self, table: TableId, known: Need, need: Need) -> None:
        """Let ``known``, which is dirty or in flight, need what ``need`` does as well."""
        self._events.remove(table, known)
        known.merge(need)
        self._events.add(table, known)

    def _overtake(self, table: TableId, names: tuple[str, ...] | None) -> None:
        for read in self._in_flight.values():
            read.overtake(table, names)

    # -- what to read

    def _free(self) -> int:
        return self._reads_max - len(self._in_flight)

    def _order_for_events(self) -> None:
        """Order what to read for events, if anything has changed since: it takes O(dirty)."""
        now = self._turn.now
        if not self._look_again and now < self._retry_at:
            return
        self._look_again = False
        later = (need.retry_at for need in self._dirty.values() if need.retry_at > now)
        self._retry_at = min(later, default=inf)
        busy = {table for read in self._in_flight.values() for table in read.needs}
        ready = {
            t: need for t, need in self._dirty.items() if t not in busy and need.retry_at <= now
        }
        together = {t: need for t, need in ready.items() if need.obj and not need.alone}
        if together and self._free() > 0:
            few = sum(need.whole for need in together.values()) <= WHOLE_PER_READ_MAX
            self._begin(together, few=few)
        for table, need in ready.items():
            if table in together or self._free() <= 0:
                continue
            if need.obj or self._loaded(table):
                self._begin({table: need}, few=need.extent is not Extent.APART)
            else:  # partitions of a table that is not held
                self._events.remove(table, self._dirty.pop(table))

    def _order_chunks(self) -> None:
        for table, load in sorted(self._loads.items(), key=lambda one: not one[1].awaited):
            if not load.wants_read or self._free() <= (0 if load.awaited else READS_KEPT):
                continue
            effect = Read(read=self._next_read, requests=(load.next(table),))
            self._send(effect, {}, load)

    def _order_comparisons(self) -> None:
        """Order chunks of the first tables that are compared, of those that are awaited first."""
        waiting = sorted(self._comparisons.values(), key=lambda one: not one.awaited)
        for comparison in filter(lambda one: one.wants_read, waiting[:COMPARED_MAX]):
            if self._free() > (0 if comparison.awaited else READS_KEPT):
                effect = Read(read=self._next_read, requests=(comparison.next(),))
                self._send(effect, {}, comparison)

    def _order_in_background(self) -> None:
        while self._backlog and self._free() > READS_KEPT:
            needs = self._backlog.take_whole(TABLES_PER_READ_MAX, self._partitioned)
            few = bool(needs)
            needs = needs or self._backlog.take(TABLES_PER_READ_MAX)
            for table in [one for one in needs if self.pending(one) or one in self._spoiled]:
                need = needs.pop(table)
                if not need.load or table in self._spoiled:
                    self._need(table, need)
            for table, need in needs.items():
                if not (need.load or self._wanted(table)):  # whether it exists: nothing is held
                    need.extent = Extent.STRUCT
            if needs:
                self._begin(needs, few=few, together=False)

    def _begin(self, needs: dict[TableId, Need], *, few: bool, together: bool = True) -> None:
        """Read ``needs`` in one read; if they are not ``few``, without their partitions.

        ``together``: what is read is published at once.
        """
        requests = []
        for (db, name), need in needs.items():
            if self._dirty.pop((db, name), None) is None:
                self._events.add((db, name), need)  # it is of the backlog
            if name:
                names = () if need.whole else tuple(need.names)
                whole = need.whole and few
                requests.append(
                    TableRequest(db=db, table=name, obj=need.obj, whole=whole, names=names)
                )
        databases = tuple(db for db, name in needs if not name)
        effect = Read(read=self._next_read, databases=databases, requests=tuple(requests))
        self._send(effect, needs, None, together=together)

    def _send(
        self,
        effect: Read,
        needs: dict[TableId, Need],
        chunk_of: ChunkedLoad | Comparison | None,
        *,
        together: bool = True,
    ) -> None:
        self._in_flight[effect.read] = InFlightRead(effect, needs, chunk_of, together)
        self._next_read += 1
        self._turn.add(effect)
        self._began(effect)

    # -- what may be published

    def _end_read(self, number: int) -> InFlightRead:
        """Remove a read that is answered, or failed; what waited for its end may be read."""
        self._look_again = True
        return self._in_flight.pop(number)

    def _publish(self, read: InFlightRead) -> tuple[Result, ...]:
        if isinstance(read.chunk_of, ChunkedLoad):
            return self._publish_chunk(read, read.chunk_of)
        assert read.done is not None
        self._read_again(read.take_overtaken())
        if not read.needs:
            return ()
        for table, need in read.needs.items():
            self._errors.pop(table, None)
            self._events.remove(table, need)
            if need.obj and table in self._loads:
                self._loads[table].on_struct()
        databases = {db: read.done.databases.get(db) for db, name in read.needs if not name}
        tables = {t: read.done.tables.get(t, TableRead()) for t in read.needs if t[1]}
        return (PublishTables(databases=databases, tables=tables, needs=read.needs),)

    def _read_again(self, needs: Mapping[TableId, Need]) -> None:
        for table, need in needs.items():
            self._events.remove(table, need)
            self._need(table, need)

    def _publish_chunk(self, read: InFlightRead, load: ChunkedLoad) -> tuple[Result, ...]:
        table = read.table
        assert read.done is not None
        if self._loads.get(table) is not load:
            return ()  # discarded meanwhile
        found = read.done.tables.get(table)
        if found is None or (load.rest is None and found.names is None):
            del self._loads[table]  # the table vanished: it is read again as a whole
            self._need(table, Need(extent=Extent.WHOLE))
            return ()
        begins = not load.slices
        confirmed_by = read.confirmed_by if self._polled else 0
        load.accept(read.effect.requests[0], found, confirmed_by=confirmed_by)
        return (load.take_slice(),) if begins else ()

    def _finished(self) -> tuple[Result, ...]:
        """End the loads that are finished, unless the table's own struct is to be read first."""
        ended = [(t, load) for t, load in self._loads.items() if load.finished]
        ended = [(t, load) for t, load in ended if not self._is_needed(t)]
        for table, load in ended:
            del self._loads[table]
            self._spoiled.discard(table)
            if load.seq is not None:
                self._need(table, Need(load.seq, names=dict.fromkeys(load.dirty)))
        return tuple(CompleteLoad(table=table) for table, _ in ended)

    def _lacks_partitions(self, table: TableId) -> bool:
        """Return whether what is read of ``table`` now is not all of it."""
        if table in self._loads or table in self._comparisons:
            return False
        reading = (self._dirty, *(read.needs for read in self._in_flight.values()))
        return not any(needs[table].whole for needs in reading if table in needs)

    def _is_needed(self, table: TableId) -> bool:
        """Return whether ``table`` itself is dirty or being read."""
        return table in self._dirty or any(table in r.needs for r in self._in_flight.values())

    def _fail_chunk(
        self, read: InFlightRead, load: ChunkedLoad, fact: ReadFailed, *, away: bool
    ) -> tuple[Result, ...]:
        table = read.table
        if self._loads.get(table) is not load:
            return ()
        if away:
            load.give_back()
            return ()
        if load.rest is not None:
            load.refuse(fact.error)
            if load.bad:
                self._spoiled.add(table)
            if len(load.bad) < BAD_MAX:
                return ()
        del self._loads[table]
        need = Need(extent=Extent.WHOLE, refused=load.refused)
        need.back_off(self._turn.now)
        self._need(table, need)
        return (self._note_unreadable(table, fact.error),)

    def _note_unreadable(self, table: TableId, error: str) -> TableUnreadable:
        self._errors[table] = error
        return TableUnreadable(table=table, error=error)

    # -- what is compared

    def _accept_compared(self, read: InFlightRead, comparison: Comparison) -> None:
        """Have a chunk compared, unless its table is not compared any more."""
        table = read.table
        if self._comparisons.get(table) is comparison and read.done is not None:
            comparison.accept(read.done.tables.get(table, TableRead()))

    def _fail_compared(self, read: InFlightRead, comparison: Comparison, *, away: bool) -> None:
        """Read a chunk again; if the metastore refuses it, load the table to find which part."""
        table = read.table
        if self._comparisons.get(table) is not comparison:
            return
        if away:
            comparison.give_back()
        else:
            self._end_comparison(table, apart=True)

    def _compare_slice(self) -> None:
        """Compare a slice of one table; what differs of a table is dirty once all is compared."""
        for table, comparison in self._comparisons.items():
            if not comparison.has_slices:
                continue
            comparison.take_slice()
            if comparison.differs_much:
                self._end_comparison(table, apart=True)
            elif comparison.over:
                del self._comparisons[table]
                self._events.remove(table, comparison.need)
                if not self._loaded(table):
                    comparison.need.widen(Extent.WHOLE)
                self._need(table, comparison.need)
            return

    def _end_comparison(self, table: TableId, *, apart: bool = False) -> None:
        """Read ``table`` as a whole, if it is compared; ``apart``: it will be LOADING."""
        if table in self._comparisons:
            extent = Extent.APART if apart else Extent.WHOLE
            seq = self._comparisons[table].need.seq
            self._need(table, Need(seq, extent, Incarnation.DOUBTED))
