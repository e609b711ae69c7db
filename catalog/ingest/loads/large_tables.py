"""LargeTables: the tables that are too large for one read, so that they are read in chunks.

    chunked_load.py          LOADING   chunk ──▶ slices, one published a turn ──▶ COMPLETE
    chunked_comparison.py    compared  chunk ──▶ slices, one compared a turn ──▶ differences read

The loader orders the chunks, and passes events and polls on. If a table has to be read in another
way, because it vanished, was refused or differs, the loader gets a need of it.
Invariants: a table is LOADING or compared, never both; one chunk of a table is read at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from ....topics.clock import Clock
from ....topics.objects.names import Scope, TableId
from ....topics.objects.selector import Selector
from ....topics.objects.tables import Column
from ...metastore.port import TableRead, TableRequest
from .bad_partitions import BAD_MAX
from .chunked_comparison import ChunkedComparison
from .chunked_load import ChunkedLoad
from .needs import (
    NEVER,
    CompleteLoad,
    Extent,
    Incarnation,
    Need,
    PendingEvents,
    TableUnreadable,
    WritePartitions,
)

YIELD_S: Final = 0.02  # between two slices of chunked loads while events wait to be published
COMPARED_MAX: Final = 8  # tables at once, as the names of their partitions are in memory

LargeTable = ChunkedLoad | ChunkedComparison


class LargeTables:
    """Takes the chunks of large tables, and publishes or compares them a slice at a time."""

    def __init__(
        self,
        clock: Clock,
        events: PendingEvents,
        *,
        need: Callable[[TableId, Need], None],
        needed: Callable[[TableId], bool],
        loaded: Callable[[TableId], bool],
    ) -> None:
        """Read no table yet.

        Args:
            clock: The time of the turn.
            events: Also counts the needs of compared tables.
            need: Called with a table's need once the table is not read in chunks any more.
            needed: Returns whether a table's own struct is to be read, or is being read.
            loaded: Returns whether a table is held.
        """
        self._clock = clock
        self._events = events
        self._need = need
        self._needed = needed
        self._loaded = loaded
        self._loads: dict[TableId, ChunkedLoad] = {}
        self._comparisons: dict[TableId, ChunkedComparison] = {}
        self._spoiled: set[TableId] = set()  # tables whose last load met a bad partition
        self._slice_at = 0.0  # when the next slice may be published
        self._scanned = False  # a selection has scanned names since reads were last ordered

    def __contains__(self, table: TableId) -> bool:
        """Return whether ``table`` is LOADING or compared."""
        return table in self._loads or table in self._comparisons

    # -- what is known of them

    @property
    def left(self) -> int:
        """How many tables are still to be read; a table that lacks only bad partitions is not."""
        return len(self._comparisons) + sum(not load.is_stuck for load in self._loads.values())

    @property
    def compares(self) -> bool:
        """Whether any table is compared."""
        return bool(self._comparisons)

    def is_compared(self, table: TableId) -> bool:
        """Return whether ``table`` is compared."""
        return table in self._comparisons

    def is_loading(self, table: TableId) -> bool:
        """Return whether ``table`` is LOADING."""
        return table in self._loads

    def is_spoiled(self, table: TableId) -> bool:
        """Return whether the last load of ``table`` met a bad partition."""
        return table in self._spoiled

    def loading(self) -> dict[TableId, str]:
        """Return how far each LOADING table is, as text."""
        return {table: load.text for table, load in self._loads.items()}

    def comparing(self) -> dict[TableId, str]:
        """Return how far each compared table is, as text."""
        return {table: one.text for table, one in self._comparisons.items()}

    def progress(self, table: TableId) -> tuple[int, int] | None:
        """Return how many partitions of ``table`` were read, of how many; None: not known."""
        load = self._loads.get(table)
        return None if load is None or load.rest is None else (load.read, len(load.names))

    def bad_partitions(self) -> dict[TableId, Mapping[str, str]]:
        """Return the bad partitions by table, each with the reason."""
        return {table: load.bad.errors for table, load in self._loads.items() if load.bad}

    def bad_of(self, table: TableId, selector: Selector | None, columns: Sequence[Column]) -> str:
        """Return a bad partition that ``selector`` selects, with the reason; empty: there is none.

        ``selector`` None: every partition.

        Raises:
            UsageError: the selector is not valid for this table.
        """
        load = self._loads.get(table)
        return "" if load is None else load.bad.of(selector, columns)

    def has_confirmed(self, table: TableId, selector: Selector, columns: Sequence[Column]) -> bool:
        """Return whether the partitions that ``selector`` selects of a LOADING table are confirmed.

        Then they and the table's own struct are of one moment, as if the table were COMPLETE. If
        not, they are read before its other partitions. ``columns``: its partition columns.

        Raises:
            UsageError: the selector is not valid for this table.

        Cost: at most 2 ms; the caller calls it again in each turn.
        """
        load = self._loads.get(table)
        if load is None or load.rest is None:
            return False
        confirmed = load.confirmed(selector, columns)
        self._scanned |= load.scanned
        return confirmed and not self._needed(table)

    def wants_poll(self, polls_begun: int) -> bool:
        """Return whether a chunk waits for a poll that has not begun."""
        return any(load.wants_poll(polls_begun) for load in self._loads.values())

    def waiting(self, scope: Scope) -> dict[TableId, int]:
        """Return the LOADING tables of ``scope`` with dirty partitions, and their oldest numbers.

        Compared tables are not among these: PendingEvents counts their events.
        """
        if not self._loads:  # as in almost every turn, which calls this several times
            return {}
        loads = ((table, load.seq) for table, load in self._loads.items() if scope.includes(table))
        return {table: seq for table, seq in loads if seq is not None}

    # -- what begins and ends

    def load(self, load: ChunkedLoad) -> None:
        """Read the partitions of a table that was published as LOADING."""
        self._loads[load.table] = load

    def compare(self, comparison: ChunkedComparison) -> None:
        """Compare a table of which events are missing; at the end the differences are read."""
        if len(self._comparisons) >= COMPARED_MAX:
            comparison.list_later()
        self._comparisons[comparison.table] = comparison
        self._events.add(comparison.table, comparison.need)

    def end_load(self, table: TableId) -> None:
        """Read no more chunks of ``table``, if it is LOADING."""
        self._loads.pop(table, None)

    def end_comparison(self, table: TableId, *, chunked: bool = False) -> None:
        """Have ``table``, if it is compared, read as a whole; ``chunked``: in chunks."""
        if table in self._comparisons:
            extent = Extent.CHUNKED if chunked else Extent.WHOLE
            seq = self._comparisons[table].need.seq
            self._need(table, Need(seq, extent, Incarnation.DOUBTED))

    def discard(self, table: TableId) -> None:
        """Read no chunks of ``table``; the events that wait for its comparison wait for a read."""
        self.end_load(table)
        self.end_comparison(table)
        self._spoiled.discard(table)

    def read_again(self) -> None:
        """Have every table read as a whole, and discard its chunks."""
        for table, load in self._loads.items():
            self._need(table, Need(NEVER if load.seq is None else load.seq, Extent.WHOLE))
        self._loads.clear()
        for table in tuple(self._comparisons):
            self.end_comparison(table)

    def hasten(self, table: TableId) -> None:
        """Compare ``table``, if it is compared, before all others."""
        if table in self._comparisons:
            self._comparisons[table].awaited = True

    # -- what changes meanwhile

    def absorb(self, table: TableId, need: Need) -> bool:
        """Return whether the comparison of ``table`` has taken ``need`` over, until its end.

        A need of the whole table ends the comparison instead, and takes the comparison's need over.
        """
        comparison = self._comparisons.get(table)
        if comparison is None:
            return False
        if not (need.whole or need.incarnation is Incarnation.ENDED):
            self._events.merge(table, comparison.need, need)
            return True
        del self._comparisons[table]
        self._events.remove(table, comparison.need)
        need.merge(comparison.need)
        return False

    def mark_dirty(self, table: TableId, names: tuple[str, ...], *, seq: int) -> bool:
        """Read partitions ``names`` again if ``table`` is LOADING; return whether it is.

        ``seq``: the arrival number of the event that has changed them.
        """
        load = self._loads.get(table)
        if load is not None:
            load.mark_dirty(names, seq=seq)
        return load is not None

    def on_struct(self, table: TableId) -> None:
        """Note that a new struct of ``table`` is published."""
        if table in self._loads:
            self._loads[table].on_struct()

    # -- what is read

    def wanting(self) -> list[LargeTable]:
        """Return the tables of which a chunk is to be read now: LOADING ones, then compared ones.

        In each group the tables that somebody waits for come first.
        """
        self._scanned = False
        wanting: list[LargeTable] = sorted(self._loads.values(), key=_waits)
        wanting += sorted(self._comparisons.values(), key=_waits)[:COMPARED_MAX]
        return [large for large in wanting if large.wants_read]

    def on_chunk(
        self,
        large: LargeTable,
        request: TableRequest,
        found: TableRead | None,
        *,
        confirmed_by: int,
    ) -> tuple[WritePartitions | CompleteLoad, ...]:
        """Take the answer to ``request``, which poll ``confirmed_by`` confirms; return a slice."""
        if isinstance(large, ChunkedComparison):
            if self._is_read(large):
                large.accept(found or TableRead())
            return ()
        published: tuple[WritePartitions, ...] = ()
        if self._is_read(large):
            if found is None or (large.rest is None and found.names is None):
                del self._loads[large.table]  # the table vanished, so it is read as a whole
                self._need(large.table, Need(extent=Extent.WHOLE))
            else:
                begins = not large.slices
                large.accept(request, found, confirmed_by=confirmed_by)
                published = (large.take_slice(),) if begins else ()
        return published + self.end_finished()

    def on_chunk_failed(
        self, large: LargeTable, error: str, *, away: bool
    ) -> tuple[TableUnreadable, ...]:
        """Read a chunk again; if the metastore refused it, search for the bad partition.

        A compared table is then read as LOADING. ``away``: the metastore has not answered.
        """
        if not self._is_read(large):
            return ()
        if away:
            large.give_back()
            return ()
        table = large.table
        if isinstance(large, ChunkedComparison):
            self.end_comparison(table, chunked=True)
            return ()
        if large.rest is not None:
            large.refuse(error)
            if large.bad:
                self._spoiled.add(table)
            if len(large.bad) < BAD_MAX:
                return ()
        del self._loads[table]
        need = Need(extent=Extent.WHOLE, refused=large.refused)
        need.back_off(self._clock.now)
        self._need(table, need)
        return (TableUnreadable(table=table, error=error),)

    def on_poll_done(self, poll: int) -> tuple[CompleteLoad, ...]:
        """Confirm the chunks read before ``poll`` began; its events are marked dirty already."""
        for load in self._loads.values():
            load.on_poll_done(poll)
        return self.end_finished()

    def next_slice(self, *, busy: bool) -> tuple[WritePartitions | CompleteLoad, ...]:
        """Compare a slice of a table, and return a slice of another to be published in this turn.

        ``busy``: events wait to be published. Then there are fewer slices, but never none.
        """
        self._compare_slice()
        if self._clock.now < self._slice_at:
            return self.end_finished()
        loads = [load for load in self._loads.values() if load.slices]
        for load in sorted(loads, key=_waits)[:1]:
            self._loads[load.table] = self._loads.pop(load.table)  # next time others come first
            if busy:
                self._slice_at = self._clock.now + YIELD_S
            return (load.take_slice(), *self.end_finished())
        return self.end_finished()

    def slice_at(self, ordered_at: float) -> float | None:
        """Return when the next slice is due; ``ordered_at``, when reads were last ordered: now."""
        if self._scanned or any(one.has_slices for one in self._comparisons.values()):
            return ordered_at
        return self._slice_at if any(load.slices for load in self._loads.values()) else None

    def retry_times(self) -> list[float]:
        """Return when to read bad partitions again."""
        loads = self._loads.values()
        return [load.bad.retry_at for load in loads if load.bad and not load.reading]

    def end_finished(self) -> tuple[CompleteLoad, ...]:
        """End the loads that are finished, unless the table's own struct is to be read first."""
        ended = [(table, load) for table, load in self._loads.items() if load.finished]
        ended = [(table, load) for table, load in ended if not self._needed(table)]
        for table, load in ended:
            del self._loads[table]
            self._spoiled.discard(table)
            if load.seq is not None:
                self._need(table, Need(load.seq, names=dict.fromkeys(load.dirty)))
        return tuple(CompleteLoad(table=table) for table, _ in ended)

    def compared(self) -> Iterator[tuple[TableId, Need]]:
        """Yield the compared tables, each with its need."""
        yield from ((table, one.need) for table, one in self._comparisons.items())

    def check(self, running: Iterable[LargeTable]) -> None:
        """Assert every invariant; ``running``: those of which a chunk is being read."""
        reading = list(map(id, running))
        every: dict[TableId, LargeTable] = {**self._loads, **self._comparisons}
        assert len(every) == len(self._loads) + len(self._comparisons), "both of one table"
        for table, large in every.items():
            assert large.table == table
            assert bool(large.reading) == (id(large) in reading)
            large.check()

    def _is_read(self, large: LargeTable) -> bool:
        """Return whether ``large`` is still read in chunks: nothing has ended it meanwhile."""
        if isinstance(large, ChunkedComparison):
            return self._comparisons.get(large.table) is large
        return self._loads.get(large.table) is large

    def _compare_slice(self) -> None:
        """Compare a slice of one table; after its last slice the differences are dirty."""
        for table, comparison in self._comparisons.items():
            if not comparison.has_slices:
                continue
            comparison.take_slice()
            if comparison.differs_much:
                self.end_comparison(table, chunked=True)
            elif comparison.over:
                del self._comparisons[table]
                self._events.remove(table, comparison.need)
                if not self._loaded(table):
                    comparison.need.widen(Extent.WHOLE)
                self._need(table, comparison.need)
            return


def _waits(large: LargeTable) -> bool:
    """The key that sorts tables that somebody waits for before the others."""
    return not large.awaited
