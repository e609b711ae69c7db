"""ChunkedLoad: reads the partitions of a large table in chunks, while the table may change.

    names ──▶ rest ──next──▶ chunk ──accept──▶ slices ──written──▶ confirmed by a poll ──▶ confirmed
                      dirty ◀── changed meanwhile ◀──────┴─────────────┘

The table is COMPLETE once every partition is confirmed. If the table is written without a pause,
some partition is dirty whenever a poll ends. So the load reads all dirty partitions together, in
rounds. Once a poll brings changes of these partitions only, the table is as it was when the round
read them. After ROUNDS_MAX rounds the load ends anyway, so that one partition may be newer than
another. The loader then reads the partitions that are still dirty, as of any other table.

The load reads a selection that somebody waits for first, in every second chunk at most. catalogd
can answer the selection once all its partitions are confirmed at one time, at the latest with all.

If the metastore refuses a chunk, it cannot read one of the partitions. The load searches for that
partition (bad_partitions.py), and reads and follows the others. The table stays LOADING, so that
catalogd answers selections of other partitions, and never a selection of a bad partition.

Invariant: a partition is in ``rest``, in ``dirty``, being read, in ``chunks``, in ``bad``, or is
confirmed: catalogd has written its read, and a poll that began after the read brought no change.
A chunk is published in slices, so that no turn takes long, in the order in which it was read.
"""

from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice
from typing import Final

from ....topics.clock import Clock
from ....topics.objects.names import TableId
from ....topics.objects.selector import AFTER_ALL, Matches, Selector
from ....topics.objects.tables import Column
from ...metastore.port import TableRead, TableRequest
from .bad_partitions import BAD_MAX, BadPartitions
from .needs import WritePartitions

PARTITIONS_PER_READ_MAX: Final = 1_000
SLICES_MAX: Final = 4  # of one table, read and not yet published, before its next chunk is read
SLICE_MAX: Final = 256  # partitions: 2 ms to write, and whole blocks
ROUNDS_MAX: Final = 4  # reads at the end; the second suffices where the same partitions change
SELECTIONS_MAX: Final = 64  # of one table, to be read first; further selections wait for these
SCANNED_MAX: Final = 1_000  # names that a filter is tried on in one turn: 2 ms

_DIRTY: Final = 1 << 62  # in place of a chunk's number: the partition is to be read again


@dataclass(slots=True)
class LoadedChunk:
    """Partitions ``names`` that were read, until they are written and a poll confirms them."""

    number: int
    names: tuple[str, ...]
    confirmed_by: int  # the poll; 0: no poll is needed
    slices: int  # not yet written


class Kind(Enum):
    """The content of a chunk."""

    NAMES = "names"  # of all partitions; no partition is read before them
    SOME = "some"  # partitions that were never read, are selected, suspects, or a bad one
    ROUND = "round"  # all that changed meanwhile, with nothing else left


@dataclass(frozen=True, slots=True)
class ChunkRead:
    """The chunk that is being read."""

    kind: Kind
    names: tuple[str, ...] = ()
    dirty: Mapping[str, int] = field(default_factory=dict)
    """The dirty ones among ``names``, by the oldest event's seq."""
    new: int = 0  # how many of ``names`` were never read


@dataclass(slots=True)
class Awaited:
    """A selection that somebody waits for."""

    matches: Matches
    unscanned: deque[str]  # names on which ``matches`` was not tried yet
    missing: list[str] = field(default_factory=list)  # selected; those at the end may be confirmed
    unread: OrderedDict[str, None] = field(default_factory=OrderedDict)
    """Selected names that are to be read first; the load may have read some of them since."""

    def add(self, names: Iterable[str]) -> None:
        """Also wait for the selected names among ``names``."""
        selected = [name for name in names if self.matches(name)]
        self.missing += selected
        self.unread.update(dict.fromkeys(selected))


@dataclass(slots=True)
class ChunkedLoad:
    """The load of one table: the partitions yet to be read, and the results yet to be published."""

    table: TableId
    clock: Clock
    rest: dict[str, None] | None  # partitions never read, in order; None: they are not known yet
    keys: tuple[str, ...] = ()  # the table's partition columns
    refused: int = 0  # loads of this table that failed before this load
    dirty: dict[str, int] = field(default_factory=dict)  # changed meanwhile, by oldest event's seq
    reading: ChunkRead | None = None
    slices: deque[WritePartitions] = field(default_factory=deque)  # read, not yet published
    chunks: deque[LoadedChunk] = field(default_factory=deque)  # read, the oldest first
    issued: int = 0  # the number of the newest chunk
    polled: int = 0  # the newest poll that has ended
    rounds: int = 0  # reads of all that was dirty, with nothing else left
    closing: dict[str, None] = field(default_factory=dict)  # the partitions of the newest round
    names: Sequence[str] = ()  # of all partitions, sorted, as they were listed
    unconfirmed: dict[str, int] = field(default_factory=dict)
    """By partition that is neither confirmed nor in ``rest``: its newest chunk's number."""
    selections: dict[Selector, Awaited] = field(default_factory=dict)  # in order of their requests
    selected_last: bool = False  # the last chunk was of selections: the next is not
    scanned: bool = False  # names were scanned in the newest call of ``confirmed``
    bad: BadPartitions = field(init=False)

    def __post_init__(self) -> None:
        self.names = sorted(self.rest or ())
        self.bad = BadPartitions(self.clock)

    @property
    def is_stuck(self) -> bool:
        """Whether only bad partitions are left."""
        return bool(self.bad) and self.rest == {} and not (self.reading or self.dirty)

    @property
    def wants_read(self) -> bool:
        """Whether a chunk is to be read now: there is one, and few slices wait."""
        return self._is_free and (self.clock.now >= self.bad.retry_at or self._has_unread)

    @property
    def _is_free(self) -> bool:
        return not self.reading and len(self.slices) < SLICES_MAX

    @property
    def _has_unread(self) -> bool:
        """Whether a partition that is not bad is to be read."""
        if self.bad.suspects:
            return True
        if self.selected_last and self.chunks and self.awaited:
            return False  # first the metastore answers the poll that confirms the selection
        if self.rest is None or self.rest:
            return True
        if self.rounds and self.chunks:
            return False  # the next round begins once a poll has confirmed this round
        return bool(self.dirty) and not self.finished

    @property
    def read(self) -> int:
        """How many of the partitions that were listed have been read."""
        reading = 0 if self.reading is None else self.reading.new
        return len(self.names) - len(self.rest or ()) - reading

    @property
    def text(self) -> str:
        """How far the load is, as text; at its end, why it goes on."""
        if self.rest is None:
            return "its partitions are being listed"
        if self.is_stuck:
            return f"{len(self.bad)} of its partitions cannot be read: {self.bad.of(None, ())}"
        if self.rest or not self.rounds:
            return f"{self.read} of {len(self.names)} partitions are read"
        again = f"{len(self.closing)} are read again, round {self.rounds} of {ROUNDS_MAX}"
        return f"its partitions are written while it loads: {again}"

    @property
    def awaited(self) -> bool:
        """Whether somebody may wait for a selection that is not confirmed."""
        return any(one.missing or one.unscanned for one in self.selections.values())

    @property
    def finished(self) -> bool:
        """Whether all partitions are published, and confirmed except as the rounds allow."""
        if self.rest is None or self.rest or self.reading or self.chunks or self.bad:
            return False
        return self.rounds >= ROUNDS_MAX or self.dirty.keys() <= self.closing.keys()

    @property
    def seq(self) -> int | None:
        """The arrival number of the oldest event that would be left if the load ended now.

        None: there is none, or partitions are missing, so that no selection is answered.
        """
        known = self.rest is not None and not self.rest
        return next(iter(self.dirty.values()), None) if known else None

    def wants_poll(self, polls_begun: int) -> bool:
        """Whether somebody, or the end of the load, waits for a poll that has not begun."""
        if not self.chunks or self.chunks[-1].confirmed_by <= polls_begun:
            return False
        reads = self._is_free and self._has_unread
        return self.awaited or not (self.rest is None or self.rest or reads)

    def mark_dirty(self, names: Iterable[str], *, seq: int) -> None:
        """Read the partitions ``names`` later, or again; ``seq``: of the event that names them."""
        changed = [name for name in names if self.rest is None or name not in self.rest]
        for name in changed:
            self.bad.on_changed(name)
        changed = [name for name in changed if name not in self.bad]
        for name in changed:
            self.dirty.setdefault(name, seq)
            self.unconfirmed[name] = _DIRTY
        for awaited in self.selections.values():
            awaited.add(changed)

    def confirmed(self, selector: Selector, columns: Sequence[Column]) -> bool:
        """Return whether all partitions of ``selector`` are confirmed; if not, read them first.

        Raises:
            UsageError: the selector is not valid for a table with these partition ``columns``.

        Cost: O(SCANNED_MAX); the caller calls it again in each turn.
        """
        self.scanned = False
        if self.bad.of(selector, columns):
            return False
        awaited = self.selections.get(selector)
        if awaited is None:
            if len(self.selections) >= SELECTIONS_MAX:
                return False
            awaited = self._await(selector, columns)
        count = min(SCANNED_MAX, len(awaited.unscanned))
        some = [awaited.unscanned.popleft() for _ in range(count)]
        awaited.add(filter(self._is_unconfirmed, some))
        self.scanned = count > 0
        while awaited.unread and not self._is_unread(next(iter(awaited.unread))):
            awaited.unread.popitem(last=False)
        if awaited.unscanned or awaited.unread:
            return False
        return self._is_confirmed(awaited)

    def next(self) -> TableRequest:
        """Return the request of the next chunk."""
        kind, names = self._choose()
        for awaited in self.selections.values():
            for name in names if awaited.unread else ():
                awaited.unread.pop(name, None)
        dirty = {name: self.dirty.pop(name) for name in names if name in self.dirty}
        left = len(self.rest or ())
        self.issued += 1
        for name in names:
            self.unconfirmed[name] = self.issued
            if self.rest:
                self.rest.pop(name, None)
        self.reading = ChunkRead(kind, names, dirty, new=left - len(self.rest or ()))
        db, name = self.table
        lists = kind is Kind.NAMES
        listed = lists and self.refused > 0
        return TableRequest(
            db=db, table=name, obj=False, whole=lists, names=names, listed=listed, keys=self.keys
        )

    def refuse(self, error: str) -> None:
        """Search the chunk being read for the partition that the metastore cannot read.

        The other partitions are read again. Cost: O(names).
        """
        chunk = self._end_unanswered()
        if chunk.kind is Kind.ROUND:
            self.closing, self.rounds = {}, self.rounds - 1
        assert self.rest is not None
        again = (name for name in chunk.names if name not in chunk.dirty and name not in self.bad)
        self.rest = dict.fromkeys(again) | self.rest
        bad = self.bad.on_refused(chunk.names, error)
        if bad is not None:  # no selection waits for a bad partition
            self.rest.pop(bad, None)
            self.dirty.pop(bad, None)
            self.unconfirmed[bad] = _DIRTY
            left = self.selections.items()
            self.selections = {one: awaited for one, awaited in left if not awaited.matches(bad)}

    def give_back(self) -> None:
        """Read the same partitions once more: the metastore has not answered."""
        chunk = self._end_unanswered()
        names = tuple(name for name in chunk.names if name not in self.bad)
        if chunk.kind is Kind.ROUND:  # a round without an answer does not count
            self.closing = {name: None for name in self.closing if name not in chunk.dirty}
            self.rounds -= 1
        elif self.rest is not None:
            left = dict.fromkeys(name for name in names if name not in chunk.dirty)
            self.rest = left | self.rest
        for awaited in self.selections.values():
            awaited.unread.update(dict.fromkeys(filter(awaited.matches, names)))

    def accept(self, request: TableRequest, read: TableRead, *, confirmed_by: int) -> None:
        """Split the answer to ``request`` into slices, which poll ``confirmed_by`` confirms."""
        self.reading = None
        if self.rest is None:
            self.names = sorted(read.names or ())
            self.rest = {} if read.whole else dict.fromkeys(read.names or ())
        requested = request.names or tuple(read.partitions)
        self.bad.on_read(requested)
        for name in requested:
            self.unconfirmed.setdefault(name, self.issued)
        gone = tuple(name for name in requested if name not in read.partitions)
        found = list(read.partitions.items())
        begins = range(0, max(len(found), 1), SLICE_MAX)
        for begin in begins:
            some = dict(found[begin : begin + SLICE_MAX])
            self.slices.append(WritePartitions(table=self.table, partitions=some, gone=gone))
            gone = ()
        self.chunks.append(LoadedChunk(self.issued, requested, confirmed_by, len(begins)))

    def take_slice(self) -> WritePartitions:
        """Remove and return the slice to be published now."""
        chunk = next(chunk for chunk in self.chunks if chunk.slices)
        chunk.slices -= 1
        one = self.slices.popleft()
        self._close()
        return one

    def on_poll_done(self, poll: int) -> None:
        """Confirm the chunks read before ``poll`` began; its events are marked dirty already."""
        self.polled = max(self.polled, poll)
        self._close()

    def on_struct(self) -> None:
        """Read the dirty partitions once more: the published struct is newer than the round."""
        self.closing = {}
        if self.reading is not None and self.reading.kind is Kind.ROUND:
            self.reading = replace(self.reading, kind=Kind.SOME)

    def check(self) -> None:
        """Assert every invariant."""
        assert sum(chunk.slices for chunk in self.chunks) == len(self.slices)
        assert self.dirty.keys() <= self.unconfirmed.keys()
        assert len(self.bad) <= BAD_MAX
        bad = set(self.bad)
        assert bad <= self.unconfirmed.keys()
        assert not bad & (self.dirty.keys() | (self.rest or {}).keys())
        assert not (self.closing and self.rest), "a round is read once nothing else is left"
        assert self.reading is None or (self.reading.kind is Kind.NAMES) == (self.rest is None)
        assert list(self.dirty.values()) == sorted(self.dirty.values())
        for chunk in self.chunks:
            assert all(self.unconfirmed.get(name, 0) >= chunk.number for name in chunk.names)

    def _choose(self) -> tuple[Kind, tuple[str, ...]]:
        """Return the next chunk to read; every second one may be of selected partitions."""
        if self.rest is None:
            return Kind.NAMES, ()
        if probe := self.bad.next(self._is_unread):
            return Kind.SOME, probe
        selected = () if self.selected_last else self._next_awaited()
        self.selected_last = bool(selected)
        if self.rest:
            return Kind.SOME, selected or tuple(islice(self.rest, PARTITIONS_PER_READ_MAX))
        few = len(self.closing) + len(self.dirty) <= PARTITIONS_PER_READ_MAX
        few = few and not self.bad  # with a bad partition the load does not end
        self.closing = (self.closing if few else {}) | dict.fromkeys(self.dirty)
        self.rounds += 1
        return Kind.ROUND, tuple(self.closing)

    def _end_unanswered(self) -> ChunkRead:
        """End the chunk being read without an answer: its dirty partitions are dirty again."""
        chunk, self.reading = self.reading, None
        assert chunk is not None
        since = {name: seq for name, seq in self.dirty.items() if name not in chunk.dirty}
        self.dirty = {**chunk.dirty, **since}
        self.unconfirmed.update(dict.fromkeys(chunk.dirty, _DIRTY))
        return chunk

    def _close(self) -> None:
        chunks = self.chunks
        while chunks and not chunks[0].slices and chunks[0].confirmed_by <= self.polled:
            chunk = chunks.popleft()
            for name in chunk.names:
                if self.unconfirmed.get(name) == chunk.number:
                    del self.unconfirmed[name]
            if len(self.selections) >= SELECTIONS_MAX:  # confirmed selections make room
                left = self.selections.items()
                self.selections = {one: a for one, a in left if not self._is_confirmed(a)}

    def _await(self, selector: Selector, columns: Sequence[Column]) -> Awaited:
        matches, ranges = selector.matches(columns), selector.ranges(columns)
        assert matches is not None, "not all partitions are selected"
        every, unscanned = self.names, deque[str]()
        for low, high in [("", AFTER_ALL)] if ranges is None else ranges:
            unscanned += every[bisect_left(every, low) : bisect_left(every, high)]
        unscanned += self.unconfirmed
        self.selections[selector] = awaited = Awaited(matches, unscanned)
        return awaited

    def _next_awaited(self) -> tuple[str, ...]:
        """Return unread partitions of selections, an equal share of each selection."""
        waiting = [one for one in self.selections.values() if one.unread]
        names: dict[str, None] = {}
        for awaited in waiting:
            share = PARTITIONS_PER_READ_MAX // len(waiting)  # SELECTIONS_MAX at most, so never 0
            unread = filter(self._is_unread, awaited.unread)
            names.update(dict.fromkeys(islice(unread, share)))
        return tuple(names)

    def _is_confirmed(self, awaited: Awaited) -> bool:
        while awaited.missing and not self._is_unconfirmed(awaited.missing[-1]):
            awaited.missing.pop()
        return not awaited.missing and not awaited.unscanned

    def _is_unread(self, name: str) -> bool:
        return name in self.dirty or name in (self.rest or ())

    def _is_unconfirmed(self, name: str) -> bool:
        return name in self.unconfirmed or name in (self.rest or ())
