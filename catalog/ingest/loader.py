"""Loader: what to read next from the metastore, and what of it may be published.

    dirty ──read──▶ in flight ──done──▶ fenced ──a poll that began later──▶ released
                        └──────── touched by an event meanwhile ────────▶ dirty again

Invariants: no two reads of one table run at once, apart from the pieces of a table that is
LOADING, which nobody is answered from; what is released equals the metastore at one moment,
because no event up to the end of the fence touches what was read. Without events, no fence.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, assert_never

from ...topics.objects.names import TableId
from .actions import Dirty, DirtyDatabase, DirtyPartitions, DirtyTable
from .backlog import Backlog
from .chunked_load import ChunkedLoad
from .in_flight import InFlightRead, read_of
from .reads import (
    NEVER,
    RETRY_S,
    CompleteLoad,
    Effect,
    Need,
    Publish,
    Read,
    ReadDone,
    ReadFailed,
    TableRead,
    Withdraw,
)

READS_MAX_DEFAULT: Final = 16
READS_KEPT: Final = 2  # of them, for events: the background takes none of these
TABLES_PER_READ_MAX: Final = 100  # of a background load; an event's tables are read together
WHOLE_PER_READ_MAX: Final = 8  # with more tables the partitions are loaded afterwards, in pieces
TOGETHER_TRIES_MAX: Final = 3  # so often tables of one read are published together or not at all
YIELD_S: Final = 0.02  # between two slices of loads while events are on their way
AWAY_S_MAX: Final = 2.0  # pauses grow up to this while the metastore is away


class Loader:
    """Orders reads, fences what they find. ``loaded`` tells whether a table's content is held."""

    def __init__(
        self,
        *,
        loaded: Callable[[TableId], bool],
        reads_max: int = READS_MAX_DEFAULT,
        fenced: bool = True,
    ) -> None:
        self._loaded = loaded
        self._reads_max = reads_max
        self._fenced = fenced
        self._dirty: dict[TableId, Need] = {}
        self._in_flight: dict[int, InFlightRead] = {}
        self._loads: dict[TableId, ChunkedLoad] = {}
        self._backlog = Backlog()
        self._errors: dict[TableId, str] = {}  # of what was withdrawn, until it is read
        self._next_read = 1
        self.polls_begun = 0
        self._away_until = 0.0
        self._away_s = RETRY_S
        self._asked_at = 0.0
        self._bring_at = 0.0

    @property
    def wants_poll(self) -> bool:
        """Whether something that was read waits for a poll that has not begun."""
        return any(f.done and f.fence > self.polls_begun for f in self._in_flight.values())

    @property
    def backlog(self) -> int:
        """How many tables are still to be loaded in the background, or are being loaded."""
        return len(self._backlog) + len(self._loads)

    def unresolved(self) -> int:
        """Return the arrival number of the oldest event that is not published; NEVER if none."""
        pending = [self._backlog.seq, *(n.seq for n in self._dirty.values() if not n.load)]
        for flight in self._in_flight.values():
            pending += [need.seq for need in flight.needs.values() if not need.load]
        return min(pending, default=NEVER)

    def pending(self, table: TableId) -> bool:
        """Whether ``table`` is dirty, being read, or LOADING."""
        if table in self._dirty or table in self._loads:
            return True
        return any(table in flight.needs for flight in self._in_flight.values())

    def error(self, table: TableId) -> str:
        """Return why ``table`` cannot be read, if it was tried often enough; else nothing."""
        return self._errors.get(table, "")

    def left(self, table: TableId) -> int:
        """Return how many partitions of ``table`` are to be read, as far as that is known."""
        load = self._loads.get(table)
        return 0 if load is None else len(load.rest or ()) + len(load.dirty)

    def add(self, dirty: Iterable[Dirty], *, seq: int) -> None:
        """Learn what events say has changed, ``seq`` being the number of their arrival."""
        for dirt in dirty:
            match dirt:
                case DirtyDatabase(db=db):
                    self._touch((db, ""), None)
                    self._need((db, ""), Need(seq, obj=True))
                case DirtyTable():
                    self._add_table(dirt, seq)
                case DirtyPartitions():
                    self._add_partitions(dirt, seq)
                case _:
                    assert_never(dirt)

    def doubt(self, tables: Sequence[TableId], *, seq: int) -> None:
        """Read ``tables`` again, as new, some at a time: events of them are missing."""
        for table in tables:
            self._touch(table, None)
            self._loads.pop(table, None)
        self._backlog.doubt(tables, seq=seq)

    def load(self, table: TableId, *, urgent: bool = False) -> None:
        """ChunkedLoad ``table`` in the background, or ``urgent``: now."""
        if urgent and self._backlog.is_doubted(table):
            self._need(table, self._backlog.take_one(table))
        if self.pending(table):
            return
        if urgent:
            self._backlog.discard(table)
            self._need(table, Need(obj=True, whole=True, load=True, alone=True))
        else:
            self._backlog.add(table)

    def begin_load(
        self, table: TableId, names: tuple[str, ...] | None, *, refused: int = 0
    ) -> None:
        """Read the partitions of a table that was published as LOADING.

        ``names`` None: they are not known yet. ``refused``: as in the need of that publication.
        """
        self._loads[table] = ChunkedLoad(None if names is None else deque(names), refused)

    def loading(self, table: TableId) -> bool:
        """Whether ``table`` is LOADING."""
        return table in self._loads

    def overtake(self, table: TableId) -> None:
        """Publish nothing of ``table`` that was read so far; what was to be read is read whole."""
        self._touch(table, None)
        for needs in (self._dirty, *(flight.needs for flight in self._in_flight.values())):
            if table in needs:
                needs[table].obj = needs[table].whole = True
        self.forget(table)

    def forget(self, table: TableId) -> None:
        """ChunkedLoad ``table`` no more: it is gone."""
        self._loads.pop(table, None)
        self._backlog.discard(table)
        self._errors.pop(table, None)

    def keep(self, wanted: Callable[[TableId], bool]) -> None:
        """ChunkedLoad in the background only what is ``wanted``; what is being read goes on."""
        self._backlog.keep(wanted)

    def reads(self, *, now: float) -> tuple[Read, ...]:
        """Order what may be read now."""
        self._asked_at = now
        if now < self._away_until:
            return ()
        return (*self._event_reads(now), *self._load_reads(), *self._background_reads())

    def bring(self, *, now: float) -> tuple[Effect, ...]:
        """Return a slice of what was read of a large table, to be written in this turn.

        While events are on their way it comes less often: they pass, and it still goes on.
        """
        if now < self._bring_at:
            return ()
        for table, load in self._loads.items():
            if load.slices:
                self._loads[table] = self._loads.pop(table)  # others have their turn
                if self.unresolved() != NEVER:
                    self._bring_at = now + YIELD_S
                return self._slice(table, load)
        return ()

    def poll_began(self) -> int:
        """Learn that a poll begins; returns its number."""
        self.polls_begun += 1
        return self.polls_begun

    def done(self, fact: ReadDone) -> tuple[Effect, ...]:
        """Learn what a read found; a piece, or without a fence anything, is released at once."""
        flight = self._in_flight.get(fact.read)
        if flight is None:
            return ()
        self._away_s = RETRY_S
        flight.done, flight.fence = fact, self.polls_begun + 1
        load = flight.load
        piece = load is not None and not load.is_last(fact.tables.get(flight.table))
        return () if self._fenced and not piece else self._release(self._in_flight.pop(fact.read))

    def failed(self, fact: ReadFailed, *, away: bool, now: float) -> tuple[Effect, ...]:
        """Learn that a read failed: it is tried again, and alone unless the metastore is away."""
        flight = self._in_flight.pop(fact.read, None)
        if flight is None:
            return ()
        if away:
            self._away_until = now + self._away_s
            self._away_s = min(self._away_s * 2, AWAY_S_MAX)
        if flight.load is not None:
            return self._fail_piece(flight, fact, away=away, now=now)
        effects: tuple[Effect, ...] = ()
        for (db, table), need in flight.needs.items():
            if not away and need.refuse(now) and table:
                need.load = need.obj = need.whole = True  # nobody waits for it any longer
                effects += (self._withdraw((db, table), fact.error),)
        self._again(flight, tuple(flight.needs))
        return effects

    def polled(self, poll: int) -> tuple[Effect, ...]:
        """Learn that poll number ``poll`` is complete and its events were added."""
        ready = [n for n, f in self._in_flight.items() if f.done and f.fence <= poll]
        effects: tuple[Effect, ...] = ()
        for number in ready:
            effects += self._release(self._in_flight.pop(number))
        return effects

    def deadline(self) -> float | None:
        """Return when ``reads`` may order something that it did not; None: after a fact."""
        if any(load.slices for load in self._loads.values()):
            return self._bring_at
        times = [need.retry_at for need in self._dirty.values()]
        if self._dirty or self.backlog:
            times.append(self._away_until)
        return min((time for time in times if time > self._asked_at), default=None)

    def check(self) -> None:
        """Assert every invariant."""
        reading = [table for flight in self._in_flight.values() for table in flight.needs]
        assert len(reading) == len(set(reading)), "two reads of one table"
        assert len(self._in_flight) <= self._reads_max
        for flight in self._in_flight.values():
            assert bool(flight.needs) != (flight.load is not None)
        for load in self._loads.values():
            assert load.reading == any(f.load is load for f in self._in_flight.values())

    # -- what is dirty

    def _add_table(self, dirt: DirtyTable, seq: int) -> None:
        table = (dirt.db, dirt.table)
        self._touch(table, None)
        self._backlog.discard(table)
        if dirt.whole or dirt.dropped:
            self._loads.pop(table, None)
        whole = dirt.whole or not (self._loaded(table) or table in self._loads)
        need = Need(seq, obj=True, whole=whole, dropped=dirt.dropped, data=dirt.data)
        self._need(table, need)

    def _add_partitions(self, dirt: DirtyPartitions, seq: int) -> None:
        table = (dirt.db, dirt.table)
        self._touch(table, dirt.names)
        load = self._loads.get(table)
        if load is not None:
            load.change(dirt.names)
        elif self._loaded(table) or self.pending(table):
            self._need(table, Need(seq, data=dirt.data, names=dict.fromkeys(dirt.names)))

    def _need(self, table: TableId, need: Need) -> None:
        known = self._dirty.get(table)
        if known is None:
            self._dirty[table] = need
        else:
            known.merge(need)

    def _touch(self, table: TableId, names: tuple[str, ...] | None) -> None:
        """Mark reads that an event overtook; ``names`` None: the table as a whole."""
        for flight in self._in_flight.values():
            flight.touch(table, names)

    # -- what to read

    def _free(self) -> int:
        return self._reads_max - len(self._in_flight)

    def _event_reads(self, now: float) -> Iterator[Read]:
        busy = {table for flight in self._in_flight.values() for table in flight.needs}
        ready = {
            t: need for t, need in self._dirty.items() if t not in busy and need.retry_at <= now
        }
        together = {t: need for t, need in ready.items() if need.obj and not need.alone}
        if together and self._free() > 0:
            few = sum(need.whole for need in together.values()) <= WHOLE_PER_READ_MAX
            yield self._begin(together, few=few)
        for table, need in ready.items():
            if table in together or self._free() <= 0:
                continue
            if need.obj or self._loaded(table):
                yield self._begin({table: need}, few=True)
            else:
                del self._dirty[table]  # partitions of a table that is not held

    def _load_reads(self) -> Iterator[Read]:
        for table, load in self._loads.items():
            if not load.wants_read or self._free() <= READS_KEPT:
                continue
            yield self._fly(Read(read=self._next_read, wants=(load.next(table),)), {}, load)

    def _background_reads(self) -> Iterator[Read]:
        """Read what is in doubt, then what was never read."""
        while self._backlog and self._free() > READS_KEPT:
            needs = self._backlog.take(TABLES_PER_READ_MAX)
            for table in list(filter(self.pending, needs)):
                need = needs.pop(table)
                if not need.load:
                    self._need(table, need)
            if needs:
                yield self._begin(needs, few=False)

    def _begin(self, needs: dict[TableId, Need], *, few: bool) -> Read:
        for table in needs:
            self._dirty.pop(table, None)
        return self._fly(read_of(self._next_read, needs, few=few), needs, None)

    def _fly(self, effect: Read, needs: dict[TableId, Need], load: ChunkedLoad | None) -> Read:
        self._in_flight[effect.read] = InFlightRead(effect, needs, load)
        self._next_read += 1
        return effect

    # -- what may be published

    def _release(self, flight: InFlightRead) -> tuple[Effect, ...]:
        if flight.load is not None:
            return self._release_piece(flight)
        assert flight.done is not None
        for need in flight.needs.values():
            need.tries += bool(flight.touched)
        if flight.touched and max(n.tries for n in flight.needs.values()) <= TOGETHER_TRIES_MAX:
            self._again(flight, tuple(flight.needs))
            return ()
        self._again(flight, tuple(flight.touched))
        if not flight.needs:
            return ()
        for table in flight.needs:
            self._errors.pop(table, None)
        databases = {db: flight.done.databases.get(db) for db, name in flight.needs if not name}
        tables = {t: flight.done.tables.get(t, TableRead()) for t in flight.needs if t[1]}
        return (Publish(databases=databases, tables=tables, needs=flight.needs),)

    def _again(self, flight: InFlightRead, tables: tuple[TableId, ...]) -> None:
        for table in tables:
            self._need(table, flight.needs.pop(table))

    def _release_piece(self, flight: InFlightRead) -> tuple[Effect, ...]:
        load, table = flight.load, flight.table
        assert flight.done is not None
        assert load is not None
        load.reading = False
        if self._loads.get(table) is not load:
            return ()  # given up meanwhile
        read = flight.done.tables.get(table)
        if read is None or load.vanished(read):
            del self._loads[table]  # gone: read again as a whole
            self._need(table, Need(obj=True, whole=True, load=True))
            return ()
        begins = not load.slices
        load.took(flight.effect.wants[0], read, touched=bool(flight.touched))
        load.fenced = not self._fenced or flight.fence <= self.polls_begun  # else ahead of it
        return self._slice(table, load) if begins else ()

    def _slice(self, table: TableId, load: ChunkedLoad) -> tuple[Effect, ...]:
        """Return the next slice of a table, and that it is complete where that was the last."""
        some = (load.slices.popleft(),) if load.slices else ()
        if load.slices or load.left or load.reading or not load.fenced:
            return some
        if table in self._dirty or any(table in one.needs for one in self._in_flight.values()):
            load.fenced = False  # its own entry is to be published first
            return some
        del self._loads[table]
        return *some, CompleteLoad(db=table[0], table=table[1])

    def _fail_piece(
        self, flight: InFlightRead, fact: ReadFailed, *, away: bool, now: float
    ) -> tuple[Effect, ...]:
        load, (db, table) = flight.load, flight.table
        assert load is not None
        load.reading = False
        if self._loads.get((db, table)) is not load:
            return ()
        if away:
            load.change(flight.effect.wants[0].names)
            return ()
        del self._loads[(db, table)]
        need = Need(obj=True, whole=True, load=True, alone=True, refused=load.refused)
        need.refuse(now)
        self._need((db, table), need)
        return (self._withdraw((db, table), fact.error),)

    def _withdraw(self, table: TableId, error: str) -> Withdraw:
        self._errors[table] = error
        return Withdraw(db=table[0], table=table[1], error=error)
