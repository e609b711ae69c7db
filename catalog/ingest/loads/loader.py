"""Loader: decides the next reads of the metastore and which results may be published.

    dirty ──read──▶ in flight ──done──▶ unconfirmed ──a later poll ends──▶ published
                        └──────── an event overtakes the read ────────▶ dirty again

Invariants: no two reads of one table run at once, apart from the chunks of a large table
(large_tables.py); a published result equals the metastore at one moment, because a poll *confirms*
it: a poll that began after the read brought no event that touches it.
Partitions that are written without a pause would wait for ever. So after TOGETHER_TRIES_MAX reads
that only events of partitions overtook, the result is published, each partition as of its read.
Without polls no result waits for a confirmation.

``seq`` is the arrival number that the poller gave to a batch of events. All events below the lowest
number of the dirty objects and of the reads are published (NEVER: nothing is dirty or read).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType
from typing import Final

from ....topics.backports import assert_never
from ....topics.objects.names import EVERYTHING, Scope, TableId
from ....topics.turn import PartTurn
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
from .chunked_comparison import ChunkedComparison
from .chunked_load import ChunkedLoad
from .large_tables import LargeTable, LargeTables
from .needs import (
    NEVER,
    RETRY_S,
    WHOLE_PER_READ_MAX,
    Backlog,
    Extent,
    Incarnation,
    Need,
    PendingEvents,
    Result,
    TableUnreadable,
    WriteTables,
)

READS_MAX_DEFAULT: Final = 8  # beside a poll: a metastore has 10 connections to its database
READS_KEPT: Final = 2  # of the reads, for events: background loads leave these free
TABLES_PER_READ_MAX: Final = 100  # of a background load; an event's tables are read together
TOGETHER_TRIES_MAX: Final = 3  # reads that events overtook; the next result is published anyway
AWAY_S_MAX: Final = 2.0  # pauses grow up to this while the metastore is away


@dataclass(slots=True)
class InFlightRead:
    """A read that was ordered and is not published: for ``needs``, or a chunk of ``large``."""

    effect: Read
    needs: dict[TableId, Need]
    large: LargeTable | None = None
    together: bool = True  # its tables are published at once, as one event may have changed several
    done: ReadDone | None = None
    confirmed_by: int = 0  # the number of the poll whose answer lets the result be published
    overtaken: dict[TableId, bool] = field(default_factory=dict)
    """Tables that changed since the read was ordered; True: not only partitions of the table."""

    def overtake(self, table: TableId, names: tuple[str, ...] | None) -> None:
        """Note that partitions ``names`` of ``table`` changed; None: the table as a whole."""
        need = self.needs.get(table)
        if need is None:
            return  # a chunk: its load knows what is dirty
        if names is None or need.whole or any(name in need.names for name in names):
            self.overtaken[table] = names is None or self.overtaken.get(table, False)

    def take_overtaken(self) -> dict[TableId, Need]:
        """Remove and return the needs that must be read again, as events overtook the read.

        If the tables of the read are published together, an event of one of them has all read
        again. A table that only events of partitions overtook is published nevertheless after
        TOGETHER_TRIES_MAX reads.
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
    """Orders reads, and returns their results once a poll has confirmed them."""

    def __init__(
        self,
        *,
        turn: PartTurn[Read],
        loaded: Callable[[TableId], bool],
        partitioned: Callable[[TableId], bool] = lambda _table: False,
        wanted: Callable[[TableId], bool] = lambda _table: True,
        reads_max: int = READS_MAX_DEFAULT,
        polled: bool = True,
        began: Callable[[Read], None] = lambda _read: None,
    ) -> None:
        """Order nothing yet.

        Args:
            turn: The time, and the effects to which reads are added.
            loaded: Returns whether a table is held.
            partitioned: Returns whether a table that is held has partition columns.
            wanted: Returns whether catalogd holds a table, or wants to without a request for it.
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
        self._dirty: dict[TableId, Need] = {}  # to be read; a table may be in flight, too
        self._events = PendingEvents()  # of all needs that are dirty or in flight
        self._look_again = False  # since the last look at ``_dirty`` a need may have become ready
        self._retry_at = inf  # seconds: when the next failed read is due
        self._in_flight: dict[int, InFlightRead] = {}  # by read id, at most reads_max
        self._backlog = Backlog()
        self._errors: dict[TableId, str] = {}  # of unreadable tables, until a read succeeds
        self._next_read = 1
        self.polls_begun = 0  # the number of the newest poll
        self._away_until = 0.0  # when reads may go on: the metastore was away
        self._away_s = RETRY_S  # the next pause
        self._ordered_at = 0.0  # when ``order`` was last called
        self.large = LargeTables(
            turn, self._events, need=self._need, needed=self._is_needed, loaded=loaded
        )

    @property
    def wants_poll(self) -> bool:
        """Whether a result waits for a poll that has not begun."""
        begun = self.polls_begun
        if self._polled and self.large.wants_poll(begun):
            return True
        return any(one.done and one.confirmed_by > begun for one in self._in_flight.values())

    @property
    def tables_left(self) -> int:
        """How many tables wait in the backlog, or are being loaded or compared in chunks."""
        return len(self._backlog) + self.large.left

    @property
    def resyncing(self) -> bool:
        """Whether tables wait to be read again because events of them are missing."""
        return self._backlog.seq != NEVER or self.large.compares

    def needs_resync(self, table: TableId) -> bool:
        """Return whether ``table`` waits to be read again because events are missing."""
        return self._backlog.needs_resync(table) or self.large.is_compared(table)

    def oldest_unpublished(self, scope: Scope = EVERYTHING) -> int:
        """Return the arrival number of the oldest event that is not published, or NEVER.

        Only events of objects in ``scope`` count. Cost: O(the dirty tables in it).
        """
        loading = self.large.waiting(scope).values()
        return min(self._backlog.oldest_gap(scope), self._events.oldest(scope), *loading)

    def awaited(self, scope: Scope, *, seq: int) -> tuple[TableId, int] | None:
        """Return an object that a sync of ``scope`` waits for, and how many objects it waits for.

        Events of these objects, up to arrival number ``seq``, are not published. A database has an
        empty table name. Cost: O(dirty), and O(1) for the tables that need a resync.
        """
        found = dict.fromkeys(self._events.tables(scope, seq=seq))
        loading = self.large.waiting(scope).items()
        found |= dict.fromkeys(table for table, oldest in loading if oldest <= seq)
        waiting = self._backlog.count_resyncs(scope) if self._backlog.seq <= seq else 0
        if not (found or waiting):
            return None
        return next(iter(found), None) or self._backlog.first_resync(scope), len(found) + waiting

    def hasten(self, table: TableId) -> None:
        """Resync ``table``, if it needs that, before all other tables."""
        self._backlog.hasten(table)
        self.large.hasten(table)

    def left(self, seq: int) -> int:
        """Return how many objects are still to be published for events up to number ``seq``."""
        return self._events.count(seq)

    def pending(self, table: TableId) -> bool:
        """Return whether ``table`` is dirty, being read, compared, or LOADING."""
        return table in self.large or self._is_needed(table)

    @property
    def errors(self) -> Mapping[TableId, str]:
        """The unreadable tables, each with the reason; a live view."""
        return MappingProxyType(self._errors)

    def error(self, table: TableId) -> str:
        """Return why ``table`` is unreadable; empty: it is not."""
        return self._errors.get(table, "")

    def mark_dirty(self, objects: Iterable[Dirty], *, seq: int) -> None:
        """Read ``objects`` again, which events have changed; ``seq``: their arrival number.

        Caller: the event router, the listing of names, the differences, an operator's order to
            refresh.
        Affects: reads in flight, whose results are discarded if the change overtook them; syncs,
            which wait until the objects are published.
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

        Each table is read whole, even if only a part of it was dirty: the part may not fit the
        content that is held.

        Caller: the event router, the listing of names, the differences.
        Affects: results that are not published, which are read again; syncs, which wait for them.
        """
        for table in tables:
            self._overtake(table, None)
            self.large.end_load(table)
            self.large.end_comparison(table)
        again = dict.fromkeys(tables)
        doubted = Need(seq, Extent.WHOLE, Incarnation.DOUBTED)
        for needs in self._every_needs():
            for table in needs.keys() & again.keys():
                self._events.merge(table, needs[table], doubted)
        self._backlog.resync([table for table in again if not self.pending(table)], seq=seq)

    def read_again(self) -> None:
        """Discard all results that are not published, as no poll can confirm them; read again."""
        for read in self._in_flight.values():
            for table in read.needs:
                read.overtake(table, None)
        self.large.read_again()

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

        ``names`` None: the names of the partitions are not known yet. ``keys``: the partition
        columns. ``refused``: as in the need that had the table published.
        """
        rest = None if names is None else dict.fromkeys(names)
        load = ChunkedLoad(table, self._turn, rest, keys, refused)
        self.large.load(load)
        need = self._dirty.get(table)
        if need is not None and not need.obj:  # partitions that changed since they were listed
            load.mark_dirty(need.names, seq=need.seq)
            self._events.remove(table, self._dirty.pop(table))

    def compare(self, comparison: ChunkedComparison) -> None:
        """Compare a table of which events are missing; at the end the differences are read."""
        table = comparison.table
        self.large.compare(comparison)
        need = self._dirty.pop(table, None)
        if need is not None:  # it changed while it was read
            self._events.remove(table, need)
            self._need(table, need)

    def invalidate(self, table: TableId) -> None:
        """Discard the results for ``table``; if it was to be read in part, read it whole."""
        self._overtake(table, None)
        for needs in self._every_needs():
            if table in needs:
                needs[table].widen(Extent.WHOLE)
        self.discard(table)

    def discard(self, table: TableId) -> None:
        """Load no more of ``table``: it is gone, or an operator invalidates it."""
        self.large.discard(table)
        self._backlog.discard(table)
        self._errors.pop(table, None)

    def retain(self, wanted: Callable[[TableId], bool]) -> None:
        """Load in the background only tables that are ``wanted``; running loads go on."""
        self._backlog.retain(wanted)

    def order(self) -> None:
        """Order the reads that may begin now."""
        now = self._turn.now
        self._ordered_at = now
        wanting = self.large.wanting()
        if now >= self._away_until:
            self._order_for_events()
            self._order_chunks(wanting)
            self._order_in_background()

    def next_slice(self) -> tuple[Result, ...]:
        """Return a slice of a large table that was read, to be published in this turn.

        While events wait to be published there are fewer slices, but never none.
        """
        return self.large.next_slice(busy=self.oldest_unpublished() != NEVER)

    def begin_poll(self) -> int:
        """Count a poll that begins; return its number."""
        self.polls_begun += 1
        return self.polls_begun

    def on_read_done(self, fact: ReadDone) -> tuple[Result, ...]:
        """Take the answer to a read; return results that need no confirmation by a poll.

        Those are a slice of a chunk, and without polls all.
        """
        read = self._in_flight.get(fact.read)
        if read is None:
            return ()
        self._away_s = RETRY_S
        read.done, read.confirmed_by = fact, self.polls_begun + 1
        if read.large is not None:
            self._end_read(fact.read)
            found = fact.tables.get(read.large.table)
            confirmed_by = read.confirmed_by if self._polled else 0
            request = read.effect.requests[0]
            return self.large.on_chunk(read.large, request, found, confirmed_by=confirmed_by)
        if self._polled:
            return ()
        return self._results_of(self._end_read(fact.read)) + self.large.end_finished()

    def on_read_failed(self, fact: ReadFailed, *, away: bool) -> tuple[Result, ...]:
        """Read the objects of a failed read again, each alone unless the metastore is away."""
        now = self._turn.now
        if fact.read not in self._in_flight:
            return ()
        read = self._end_read(fact.read)
        if away:
            self._away_until = now + self._away_s
            self._away_s = min(self._away_s * 2, AWAY_S_MAX)
        if read.large is not None:
            found = self.large.on_chunk_failed(read.large, fact.error, away=away)
            self._errors.update({one.table: one.error for one in found})
            return found
        results: tuple[Result, ...] = ()
        for (db, table), need in read.needs.items():
            if not away and need.back_off(now) and table:
                self._events.remove((db, table), need)
                if need.extent is Extent.CHUNKED:
                    need.seq = NEVER  # so that no sync waits for an unreadable table
                    self._errors[db, table] = fact.error
                    results += (TableUnreadable(table=(db, table), error=fact.error),)
                need.widen(Extent.CHUNKED)  # chunks find a partition that cannot be read
                self._events.add((db, table), need)
        self._read_again(read.needs)
        return results

    def on_poll_done(self, poll: int) -> tuple[Result, ...]:
        """Return the results that poll number ``poll`` confirms; its events are marked dirty."""
        ready = [
            n for n, read in self._in_flight.items() if read.done and read.confirmed_by <= poll
        ]
        results: tuple[Result, ...] = ()
        for number in ready:
            results += self._results_of(self._end_read(number))
        return results + self.large.on_poll_done(poll)

    def deadline(self, *, reads: bool = True) -> float | None:
        """Return when a slice is due, or with ``reads`` a read; None: only a fact changes that."""
        slice_at = self.large.slice_at(self._ordered_at)
        if slice_at is not None or not reads:
            return slice_at
        times = [self._retry_at] if self._retry_at < inf else []
        times += self.large.retry_times()
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
            assert bool(read.needs) != (read.large is not None)
        flying = [need for read in self._in_flight.values() for need in read.needs.items()]
        compared = tuple(self.large.compared())
        self._events.check((*self._dirty.items(), *flying, *compared))
        assert not {table for table, _ in compared} & self._dirty.keys()
        self.large.check(read.large for read in self._in_flight.values() if read.large is not None)

    # -- what is dirty

    def _mark_table(self, dirty: DirtyTable, seq: int) -> None:
        table = (dirty.db, dirty.table)
        self._overtake(table, None)
        self._backlog.discard(table)
        if dirty.whole or dirty.dropped:
            self.large.end_load(table)
        whole = dirty.whole or not (self._loaded(table) or self.large.is_loading(table))
        extent = Extent.WHOLE if whole else Extent.STRUCT
        incarnation = Incarnation.ENDED if dirty.dropped else Incarnation.SAME
        self._need(table, Need(seq, extent, incarnation, data=dirty.data))

    def _mark_partitions(self, dirty: DirtyPartitions, seq: int) -> None:
        table = (dirty.db, dirty.table)
        self._overtake(table, dirty.names)
        if self.large.mark_dirty(table, dirty.names, seq=seq):
            return
        if self._loaded(table) or self.pending(table):
            self._need(table, Need(seq, data=dirty.data, names=dict.fromkeys(dirty.names)))

    def _need(self, table: TableId, need: Need) -> None:
        if self._backlog.needs_resync(table):
            need.merge(self._backlog.take_one(table))
        if self.large.absorb(table, need):
            return
        if need.whole and self.large.is_spoiled(table):
            need.widen(Extent.CHUNKED)
        known = self._dirty.get(table)
        if known is None:
            self._dirty[table] = need
            self._events.add(table, need)
        else:
            self._events.merge(table, known, need)
        self._look_again = True

    def _overtake(self, table: TableId, names: tuple[str, ...] | None) -> None:
        for read in self._in_flight.values():
            read.overtake(table, names)

    # -- what to read

    def _free(self) -> int:
        return self._reads_max - len(self._in_flight)

    def _order_for_events(self) -> None:
        """Order reads for events, unless nothing has changed since the last look: O(dirty)."""
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
            with_partitions = sum(need.whole for need in together.values()) <= WHOLE_PER_READ_MAX
            self._begin(together, with_partitions=with_partitions)
        for table, need in ready.items():
            if table in together or self._free() <= 0:
                continue
            if need.obj or self._loaded(table):
                self._begin({table: need}, with_partitions=need.extent is not Extent.CHUNKED)
            else:  # partitions of a table that is not held
                self._events.remove(table, self._dirty.pop(table))

    def _order_chunks(self, wanting: Iterable[LargeTable]) -> None:
        for large in wanting:
            if self._free() > (0 if large.awaited else READS_KEPT):
                effect = Read(read=self._next_read, requests=(large.next(),))
                self._send(effect, {}, large)

    def _order_in_background(self) -> None:
        while self._backlog and self._free() > READS_KEPT:
            needs = self._backlog.take_whole(TABLES_PER_READ_MAX, self._partitioned)
            with_partitions = bool(needs)
            needs = needs or self._backlog.take(TABLES_PER_READ_MAX)
            for table in [one for one in needs if self.pending(one) or self.large.is_spoiled(one)]:
                need = needs.pop(table)
                if not need.load or self.large.is_spoiled(table):
                    self._need(table, need)
            for table, need in needs.items():
                if not (need.load or self._wanted(table)):  # read only whether the table exists
                    need.extent = Extent.STRUCT
            if needs:
                self._begin(needs, with_partitions=with_partitions, together=False)

    def _begin(
        self, needs: dict[TableId, Need], *, with_partitions: bool, together: bool = True
    ) -> None:
        """Read ``needs`` in one read.

        ``with_partitions``: else they are loaded afterwards, in chunks. ``together``: all tables of
        the read are published at once.
        """
        requests = []
        for (db, name), need in needs.items():
            if self._dirty.pop((db, name), None) is None:
                self._events.add((db, name), need)  # the need is of the backlog, so not counted yet
            if name:
                names = () if need.whole else tuple(need.names)
                whole = need.whole and with_partitions
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
        large: LargeTable | None,
        *,
        together: bool = True,
    ) -> None:
        self._in_flight[effect.read] = InFlightRead(effect, needs, large, together)
        self._next_read += 1
        self._turn.add(effect)
        self._began(effect)

    # -- what may be published

    def _end_read(self, number: int) -> InFlightRead:
        """Remove a read that is answered, or failed; its tables may be read again."""
        self._look_again = True
        return self._in_flight.pop(number)

    def _results_of(self, read: InFlightRead) -> tuple[Result, ...]:
        assert read.done is not None
        self._read_again(read.take_overtaken())
        if not read.needs:
            return ()
        for table, need in read.needs.items():
            self._errors.pop(table, None)
            self._events.remove(table, need)
            if need.obj:
                self.large.on_struct(table)
        databases = {db: read.done.databases.get(db) for db, name in read.needs if not name}
        tables = {t: read.done.tables.get(t, TableRead()) for t in read.needs if t[1]}
        return (WriteTables(databases=databases, tables=tables, needs=read.needs),)

    def _read_again(self, needs: Mapping[TableId, Need]) -> None:
        for table, need in needs.items():
            self._events.remove(table, need)
            self._need(table, need)

    def _lacks_partitions(self, table: TableId) -> bool:
        """Return whether no need of ``table`` is for all its partitions."""
        if table in self.large:
            return False
        return not any(needs[table].whole for needs in self._every_needs() if table in needs)

    def _is_needed(self, table: TableId) -> bool:
        """Return whether ``table`` itself is dirty or being read."""
        return any(table in needs for needs in self._every_needs())

    def _every_needs(self) -> Iterator[dict[TableId, Need]]:
        """Yield the dirty needs, then the needs of each read."""
        yield self._dirty
        yield from (read.needs for read in self._in_flight.values())
