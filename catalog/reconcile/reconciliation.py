"""Reconciliation: slowly compares held objects with the metastore, as some changes have no event.

    names  ──ListNames──▶ equal ──▶ NAMES_S later again, from the first database
    objects ──Read──▶ equal ──▶ the next; a round over all of them begins every ROUND_S at most
              └ differs: read again ──▶ suspected ──an event names it──▶ cleared
                                            └──no event, and it has changed──▶ drift

Some changes leave no event: on Hive 2.3 those of databases and column statistics, and all changes
by a server without the listener, or with another kind of it. A drift of names counts as a sign of
such a server: ``missed`` keeps its text until new events arrive.
Invariants: one call of the metastore at a time, ``calls_per_s`` on average; an object counts as
drift only if it was read again and published, and its event was not merely late.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ...topics.backports import assert_never
from ...topics.newest import Newest
from ...topics.objects.names import TableId, table_name
from ...topics.objects.source_problem import ProblemKind, SourceProblem
from ...topics.turn import PartTurn
from ..ingest.events.event_window import WINDOW_S
from ..ingest.events.poller import LISTENER_SETTING
from ..metastore.port import (
    COMPARING,
    LISTED_DATABASES_MAX,
    PARTITIONS_PER_CALL_MAX,
    TABLES_PER_CALL_MAX,
    Dirty,
    DirtyDatabase,
    DirtyPartitions,
    DirtyTable,
    ListingFailed,
    ListNames,
    NamesListed,
    Read,
    ReadDone,
    ReadFailed,
    TableRequest,
)
from .held import Difference, Held, Name
from .progress import Progress

CALLS_PER_S_DEFAULT: Final = 3.0  # a table's struct is a hundredth of a call
NAMES_S: Final = 30.0  # between two listings of names, where the calls suffice
ROUND_S: Final = 60.0  # between the beginnings of two rounds over all objects
RETRY_S: Final = 1.0  # after a call that failed
LOOK_S: Final = 0.05  # after a look at tables none of which is held
OVER_S: Final = 600.0  # since names were missed: events come if one of several servers records them
SUSPECTS_MAX: Final = 1_000  # for so many of the objects that are read again, the reason is kept
USED_MAX: Final = 1_000  # tables that readers requested last, compared first
DATABASES_PER_READ: Final = 20  # a call each


@dataclass(frozen=True, slots=True)
class _Suspect:
    """An object that differed."""

    before: bytes | bool | None  # the state that was held
    at: float  # when it was found to differ
    seq: int  # the arrival number under which it is read again
    what: str  # the values that differ, as far as they were said


@dataclass(slots=True)
class ReconciliationCounts:
    """Counts of comparisons and differences since the start."""

    calls: int = 0
    rounds: int = 0  # over all objects
    objects: int = 0  # databases, tables and partitions whose content was compared
    differing: int = 0  # objects and names that were read again
    drift: int = 0  # of these, those that no event explained


class Reconciliation:
    """Decides when objects are compared, and which differences were changes without an event."""

    def __init__(
        self,
        held: Held,
        *,
        turn: PartTurn[ListNames | Read],
        calls_per_s: float = CALLS_PER_S_DEFAULT,
    ) -> None:
        """Compare nothing yet; with 0 ``calls_per_s`` compare only names, and only on demand."""
        self._held = held
        self._turn = turn
        self._pause_s = 1 / calls_per_s if calls_per_s else None
        self.counts = ReconciliationCounts()
        self.progress = Progress(turn)
        self.missed: SourceProblem | None = None  # None: no sign that changes do not arrive
        self.suspects: dict[Name, _Suspect] = {}  # for ``judge``; SUSPECTS_MAX at most
        self.names_rounds = 0  # times that every name was compared
        self._names_begun = 0
        self._names_after = ""  # databases up to this name are compared in the running round
        self._names_due_at: float | None = None  # of the next listing; None: before ``order``
        self._awaited = 0  # the round of names that a request waits for
        self._used = Newest[TableId, None](USED_MAX)
        self._objects: Iterator[Read | None] | None = None  # the rest of the running round
        self._objects_due_at = 0.0  # when the next round begins
        self._retries: deque[Read] = deque()  # parts of a read that was refused
        self._many: tuple[str, ...] = ()  # the partitions of the last table, if they are many
        self._due_at = 0.0  # no call before
        self._owed = 0  # calls for objects before the next calls for names
        self._running: ListNames | Read | None = None
        self._slices: Iterator[list[Difference]] | None = None  # of an answer
        self._over_at = 0.0  # an event that arrives then or later clears ``missed``
        self._connection = 0  # on which ``missed`` was found

    @property
    def deadline(self) -> float | None:
        """When there is something to do; None until the metastore has answered."""
        if self._slices is not None:
            return 0.0
        if self._running is not None or self._names_due_at is None:
            return None
        if self._awaited > self.names_rounds:
            return self._names_due_at
        if self._pause_s is None:
            return None
        return self._following()

    def demand(self) -> int:
        """Compare every name; return the number of the round that compares the last of them."""
        self._awaited = self._names_begun + 1
        self._names_due_at = self._turn.now
        return self._awaited

    def note_use(self, table: TableId) -> None:
        """Compare ``table`` among the first of the next round: a reader has requested it."""
        self._used.put(table, None)

    def used(self) -> Iterator[TableId]:
        """Yield the tables that readers have requested, the last one first."""
        return reversed(self._used)

    def order(self) -> None:
        """Order the next call of the metastore, if one is due."""
        now = self._turn.now
        if self._names_due_at is None:
            self._names_due_at = now + NAMES_S
            self._objects_due_at = now + NAMES_S
        if self._running is not None or self._slices is not None:
            return
        demanded = self._awaited > self.names_rounds
        if not demanded and (self._pause_s is None or now < self._due_at):
            return
        names_due = now >= self._names_due_at
        if names_due and (demanded or self._owed <= 0):
            self._run(self._list())
            return
        read = self._next_read()
        if read is not None:
            self._run(read)
        elif names_due:
            self._run(self._list())

    def on_failed(self, fact: ReadFailed | ListingFailed) -> list[Difference]:
        """Note that a call failed; return the objects that the metastore refuses to read.

        It is repeated RETRY_S later. A call that was refused is repeated in halves, as one object
        may be the reason.
        """
        now = self._turn.now
        failed, self._running = self._running, None
        self._due_at = now + RETRY_S
        self.progress.error = fact.error
        if not isinstance(failed, Read):
            self._names_begun -= not self._names_after
            self._names_due_at = now + RETRY_S
            return []
        if isinstance(fact, ListingFailed) or fact.away:
            self._retries.appendleft(failed)
            return []
        requests, databases = failed.requests, failed.databases
        if len(requests) + len(databases) <= 1:
            refused = [(one.db, one.table, "") for one in requests]
            return [Difference(name, content=True) for name in refused]
        halves = (
            Read(read=COMPARING, databases=databases[::2], requests=requests[::2]),
            Read(read=COMPARING, databases=databases[1::2], requests=requests[1::2]),
        )
        self._retries.extendleft(one for one in halves if one.requests or one.databases)
        return []

    def on_listed(self, fact: NamesListed) -> None:
        """Compare the names of a listing."""
        now = self._turn.now
        self._running = None
        calls = 1 + len(fact.tables)
        self.counts.calls += calls
        whole = len(fact.tables) < LISTED_DATABASES_MAX
        self._names_after = "" if whole else max(fact.tables)
        self.names_rounds += whole
        awaited = self._awaited > self.names_rounds
        self._names_due_at = now + NAMES_S if whole and not awaited else now
        self._owed = calls
        self._pause(calls)
        self._slices = self._held.compare_names(fact)

    def on_read(self, fact: ReadDone) -> None:
        """Compare the objects of a read, a slice at a time."""
        self._running = None
        dbs = len(fact.databases) + len({db for db, _ in fact.tables})
        partitions = [one for one in fact.tables.values() if one.names is not None]
        calls = max(1, dbs + len(partitions))
        for one in partitions:
            self._many = one.names if one.names and not one.whole else ()
        self.counts.calls += calls
        self.counts.objects += len(fact.databases)
        self.counts.objects += sum(
            (one.thrift is not None) + len(one.partitions) for one in fact.tables.values()
        )
        self._owed -= calls
        self._pause(calls)
        self._slices = self._held.compare(fact)

    def take_slice(self) -> list[Difference]:
        """Compare a slice of the last answer; the caller has the differing objects read again."""
        found = None if self._slices is None else next(self._slices, None)
        if found is None:
            self._slices = None
            return []
        self.counts.differing += len(found)
        return found

    def suspect(self, found: Iterable[Difference], *, seq: int) -> None:
        """Suspect differing objects until an event names them; ``seq``: of their new reads."""
        for name, content, what in found:
            if len(self.suspects) < SUSPECTS_MAX:
                before = self._held.mark(name) if content else self._held.has(name)
                self.suspects[name] = _Suspect(before, self._turn.now, seq, what)

    def has_found(self, table: TableId, names: Iterable[str] = ()) -> bool:
        """Return whether ``table``, or a partition of it, differed, and no event has named it."""
        return any((*table, name) in self.suspects for name in ("", *names))

    def on_event(self, objects: tuple[Dirty, ...]) -> None:
        """Clear the suspicion of ``objects``, which an event has named."""
        for one in objects:
            match one:
                case DirtyPartitions(db=db, table=table, names=names):
                    for name in names:
                        self.suspects.pop((db, table, name), None)
                    self.suspects.pop((db, table, ""), None)
                case DirtyTable(db=db, table=table):
                    for known in [known for known in self.suspects if known[:2] == (db, table)]:
                        del self.suspects[known]
                case DirtyDatabase(db=db):
                    self.suspects.pop((db, "", ""), None)
                case _:
                    assert_never(one)

    def on_events(self, *, connection: int) -> None:
        """Clear ``missed`` if the new events that have arrived on ``connection`` disprove it."""
        if self._turn.now >= self._over_at or connection != self._connection:
            self.missed = None

    def forget(self, *, unpublished: int) -> None:
        """Clear the suspicion of published objects: no event comes that could explain them."""
        for name in [name for name, one in self.suspects.items() if one.seq < unpublished]:
            del self.suspects[name]

    def clear(self) -> None:
        """Clear every suspicion: events are missing for another reason."""
        self.suspects.clear()
        self._slices = None

    def judge(self, *, unpublished: int, polled_at: float, connection: int) -> tuple[str, ...]:
        """Return lines for people about the objects that have changed without an event.

        Args:
            unpublished: The arrival number of the oldest change that is not published.
            polled_at: When the newest poll began after which no event is missing.
            connection: The connection that answered it.
        """
        judged = {
            name: one
            for name, one in self.suspects.items()
            if one.at + WINDOW_S <= polled_at and one.seq < unpublished
        }
        for name in judged:
            del self.suspects[name]
        drift = tuple(name for name, one in judged.items() if self._has_changed(name, one))
        self.counts.drift += len(drift)
        appeared = [name for name in drift if isinstance(judged[name].before, bool)]
        if appeared:
            self._over_at = self._turn.now + OVER_S
            if self.missed is None:
                self._connection = connection
                self.missed = _missed(appeared[0], there=not judged[appeared[0]].before)
        return tuple(_said(name, judged[name].what) for name in drift)

    def _has_changed(self, name: Name, one: _Suspect) -> bool:
        if isinstance(one.before, bool):
            return self._held.has(name) is not one.before
        return self._held.mark(name) not in (None, one.before)

    def _list(self) -> ListNames:
        self._names_begun += not self._names_after
        return ListNames(after=self._names_after)

    def _run(self, what: ListNames | Read) -> None:
        self._running = what
        self._turn.add(what)

    def _pause(self, calls: int) -> None:
        """Note so many answered calls, and wait as long as ``calls_per_s`` demands."""
        self._due_at = self._turn.now + (self._pause_s or 0.0) * calls
        self.progress.on_answer(calls=calls, next_at=self._following())

    def _following(self) -> float:
        """Return when the next call is due."""
        runs = self._retries or self._objects is not None
        due_at = min(self._names_due_at or 0.0, 0.0 if runs else self._objects_due_at)
        return max(self._due_at, due_at)

    def _next_read(self) -> Read | None:
        now = self._turn.now
        if self._pause_s is None:
            return None
        if self._retries:
            return self._retries.popleft()
        if self._objects is None and now < self._objects_due_at:
            return None
        if self._objects is None:
            self._objects, self._objects_due_at = self._round(), now + ROUND_S
            self.progress.on_round_began()
        for read in self._objects:
            if read is None:
                self._due_at = now + LOOK_S
            return read
        self._objects = None
        self.counts.rounds += 1
        self.progress.on_round_ended(next_at=self._following())
        return None

    def _round(self) -> Iterator[Read | None]:
        """Yield the reads of one round; None: none of the last tables is held, look again soon."""
        databases = self._held.databases()
        for at in range(0, len(databases), DATABASES_PER_READ):
            yield Read(read=COMPARING, databases=databases[at : at + DATABASES_PER_READ])
        used = dict.fromkeys(self.used())
        yield from self._tables(iter(used))
        yield from self._tables(one for one in self._held.tables() if one not in used)

    def _tables(self, left: Iterator[TableId]) -> Iterator[Read | None]:
        more = True
        while more:
            some, partitioned, more = self._held.next_tables(left, TABLES_PER_CALL_MAX)
            yield _read([_request(one, obj=True) for one in some]) if some else None
            for table in partitioned:
                yield _read([_request(table, whole=True)])
                many, self._many = self._many, ()
                yield from (
                    _read([_request(table, names=many[at : at + PARTITIONS_PER_CALL_MAX])])
                    for at in range(0, len(many), PARTITIONS_PER_CALL_MAX)
                )


def _read(requests: Iterable[TableRequest]) -> Read:
    return Read(read=COMPARING, requests=tuple(requests))


def _request(
    table: TableId, *, obj: bool = False, whole: bool = False, names: tuple[str, ...] = ()
) -> TableRequest:
    return TableRequest(db=table[0], table=table[1], obj=obj, whole=whole, names=names)


def _missed(name: Name, *, there: bool) -> SourceProblem:
    """Return the text about a server that does not record every change; ``name`` has shown it."""
    verb = "is there" if there else "is gone"
    text = (
        f"{text_of(name)} {verb}, and no event reported it: the metastore, or one of its servers, "
        f"does not record every change: {LISTENER_SETTING}; then everything is read again"
    )
    return SourceProblem(ProblemKind.UNREPORTED, text)


def _said(name: Name, what: str) -> str:
    return f"{text_of(name)} ({what})" if what else text_of(name)


def text_of(name: Name) -> str:
    """Return what kind of object has ``name``, and its name, for people."""
    db, table, part = name
    what = f"table {table_name(db, table)}" if table else f"database {db}"
    return f"partition {part} of {what}" if part else what
