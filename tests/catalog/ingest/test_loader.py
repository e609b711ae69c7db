"""The loader: every event is read over, nothing that an event overtook is shown, failures end."""

import pytest

from topicast.catalog.ingest.chunked_load import (
    PARTITIONS_PER_READ_MAX,
    SLICE_MAX,
    SLICES_MAX,
    PublishPartitions,
)
from topicast.catalog.ingest.loader import (
    AWAY_S_MAX,
    NEVER,
    READS_KEPT,
    REFUSED_TRIES_MAX,
    RETRY_S,
    RETRY_S_MAX,
    TABLES_PER_READ_MAX,
    TOGETHER_TRIES_MAX,
    WHOLE_PER_READ_MAX,
    YIELD_S,
    Backlog,
    CompleteLoad,
    Loader,
    PublishTables,
    Result,
    Withdraw,
)
from topicast.catalog.metastore.port import (
    Dirty,
    DirtyDatabase,
    DirtyPartitions,
    DirtyTable,
    Read,
    ReadDone,
    ReadFailed,
    TableRead,
)
from topicast.topics.objects.names import TableId

T, U, V = ("d", "t"), ("d", "u"), ("d", "v")
TABLES = [("d", f"t{number:03d}") for number in range(3 * TABLES_PER_READ_MAX)]
Wanted = tuple[str, bool, bool, tuple[str, ...]]  # table, its object, all of it, partitions


def changed(table: TableId, **more: bool) -> DirtyTable:
    return DirtyTable(db=table[0], table=table[1], **more)


def partitions(table: TableId, *names: str, data: bool = False) -> DirtyPartitions:
    return DirtyPartitions(db=table[0], table=table[1], names=names, data=data)


class Stand:
    """A loader over ``loaded`` tables, in virtual time; each event has a number of its own."""

    def __init__(self, *loaded: TableId, reads_max: int = 16, polled: bool = True) -> None:
        self.held = set(loaded)
        self.loader = Loader(loaded=self.held.__contains__, reads_max=reads_max, polled=polled)
        self.now = 100.0
        self.seq = 0

    def event(self, *dirty: Dirty) -> None:
        self.seq += 1
        self.loader.mark_dirty(dirty, seq=self.seq)
        self.loader.check()

    def reads(self) -> tuple[Read, ...]:
        ordered = self.loader.reads(now=self.now)
        self.loader.check()
        return ordered

    def read(self) -> Read:
        """Return the one read that is ordered."""
        (one,) = self.reads()
        return one

    def done(self, read: Read, **tables: TableRead) -> tuple[Result, ...]:
        """Answer ``read``: everything exists, unless ``tables`` say otherwise."""
        found = {}
        for want in read.requests:
            struct = b"struct" if want.obj else None
            names = dict.fromkeys(want.names, b"partition")
            whole = TableRead(thrift=struct, partitions=names, whole=want.whole)
            found[want.db, want.table] = tables.get(want.table, whole)
        databases = dict.fromkeys(read.databases, b"db")
        return self.answered(ReadDone(read=read.read, databases=databases, tables=found))

    def answered(self, fact: ReadDone) -> tuple[Result, ...]:
        results = self.loader.on_read_done(fact)
        self.loader.check()
        return results

    def failed(self, read: Read, *, away: bool = False) -> tuple[Result, ...]:
        fact = ReadFailed(read=read.read, error="corrupt", away=away)
        results = self.loader.on_read_failed(fact, away=away, now=self.now)
        self.loader.check()
        return results

    def poll(self, *dirty: Dirty) -> tuple[Result, ...]:
        """Poll once, which brings ``dirty``."""
        number = self.loader.begin_poll()
        if dirty:
            self.event(*dirty)
        results = self.loader.on_poll_done(number)
        self.loader.check()
        return results

    def listed(self, table: TableId, *names: str) -> None:
        """Begin to load ``table`` in chunks, whose partitions are known."""
        self.loader.begin_chunked_load(table, names)

    def bring(self) -> tuple[Result, ...]:
        """Return what is written in a turn at this time."""
        results = self.loader.next_slice(now=self.now)
        self.loader.check()
        return results


@pytest.fixture
def stand() -> Stand:
    return Stand()


@pytest.fixture
def of_t() -> Stand:
    return Stand(T)


def tables_of(results: tuple[Result, ...]) -> list[str]:
    """Return the names of the tables that ``results`` publish."""
    return [name for one in results if isinstance(one, PublishTables) for _, name in one.tables]


def slices_of(results: tuple[Result, ...]) -> list[tuple[list[str], tuple[str, ...]]]:
    """Return what each slice publishes, and what is gone by it."""
    return [(list(r.partitions), r.gone) for r in results if isinstance(r, PublishPartitions)]


def wanted(read: Read) -> list[Wanted]:
    return [(want.table, want.obj, want.whole, want.names) for want in read.requests]


def names(read: Read) -> list[str]:
    return [want.table for want in read.requests]


WHOLE_T: Wanted = ("t", True, True, ())


# -- what is dirty


def test_nothing_dirty_orders_nothing(of_t: Stand) -> None:
    assert of_t.reads() == ()
    assert of_t.loader.oldest_unpublished() == NEVER
    assert of_t.loader.deadline() is None
    assert not of_t.loader.wants_poll


def test_database_is_read_and_published_with_the_tables_of_its_batch(of_t: Stand) -> None:
    of_t.event(DirtyDatabase(db="d"), changed(T, dropped=True, whole=True))
    read = of_t.read()
    assert (read.databases, wanted(read)) == (("d",), [WHOLE_T])
    of_t.done(read)
    (result,) = of_t.poll()
    assert isinstance(result, PublishTables)
    assert result.databases == {"d": b"db"}
    assert result.needs[T].dropped


def test_partitions_of_a_held_table_are_read_by_name_in_one_read(of_t: Stand) -> None:
    of_t.event(partitions(T, "a", data=True))
    of_t.event(partitions(T, "b"))
    read = of_t.read()
    assert wanted(read) == [("t", False, False, ("a", "b"))]
    of_t.done(read)
    assert of_t.loader.oldest_unpublished() == 1
    (result,) = of_t.poll()
    assert isinstance(result, PublishTables)
    assert (result.needs[T].data, list(result.needs[T].names)) == (True, ["a", "b"])
    assert of_t.loader.oldest_unpublished() == NEVER


@pytest.mark.parametrize(
    ("held", "events", "expected"),
    [
        ([T], [changed(T)], ("t", True, False, ())),
        ([], [changed(T)], WHOLE_T),
        ([], [partitions(T, "a")], None),
        ([], [changed(T), partitions(T, "a")], WHOLE_T),
    ],
    ids=["held", "not held", "partitions of what is not held", "of what is awaited"],
)
def test_event_reads_what_is_held_of_its_table(
    held: list[TableId], events: list[Dirty], expected: Wanted | None
) -> None:
    stand = Stand(*held)
    for one in events:
        stand.event(one)
    assert [one for read in stand.reads() for one in wanted(read)] == [expected] * bool(expected)
    assert (stand.loader.oldest_unpublished() == NEVER) is (expected is None)


@pytest.mark.parametrize("withdrawn", [True, False])
def test_partitions_of_a_table_that_is_held_no_more_are_not_read_alone(
    of_t: Stand, withdrawn: bool
) -> None:
    of_t.event(partitions(T, "a"))
    of_t.held.clear()
    if withdrawn:
        of_t.loader.invalidate(T)
    assert [wanted(read) for read in of_t.reads()] == [[WHOLE_T]] * withdrawn
    assert (of_t.loader.oldest_unpublished() == NEVER) is not withdrawn


# -- the fence


def test_what_was_read_waits_for_a_poll_that_began_later(of_t: Stand) -> None:
    of_t.event(changed(T))
    early = of_t.loader.begin_poll()
    assert of_t.done(of_t.read()) == ()
    assert of_t.loader.wants_poll
    assert of_t.loader.on_poll_done(early) == ()
    assert of_t.loader.oldest_unpublished() == 1
    assert tables_of(of_t.poll()) == ["t"]
    assert not of_t.loader.wants_poll


@pytest.mark.parametrize(
    ("asked", "later", "again"),
    [
        (partitions(T, "a"), partitions(T, "a", "b"), True),
        (partitions(T, "a"), partitions(T, "b"), False),
        (partitions(T, "a"), changed(T), True),
        (partitions(T, "a"), changed(U), False),
        (partitions(T, "a"), partitions(U, "a"), False),
        (changed(T), partitions(T, "a"), False),
        (changed(T, whole=True), partitions(T, "a"), True),
        (DirtyDatabase(db="d"), DirtyDatabase(db="d"), True),
        (DirtyDatabase(db="d"), DirtyDatabase(db="e"), False),
        (DirtyDatabase(db="d"), changed(T), False),
    ],
)
@pytest.mark.parametrize("when", ["reading", "fenced"])
def test_event_that_touches_what_was_read_makes_it_be_read_again(
    asked: Dirty, later: Dirty, again: bool, when: str
) -> None:
    stand = Stand(T, U)
    stand.event(asked)
    read = stand.read()
    if when == "reading":
        stand.event(later)
        stand.done(read)
        shown = stand.poll()
    else:
        stand.done(read)
        shown = stand.poll(later)
    assert (shown == ()) is again
    stand.done(stand.read())
    assert len(stand.poll()) == 1
    assert stand.loader.oldest_unpublished() == NEVER


def test_event_of_a_table_that_is_being_read_waits_for_that_read(of_t: Stand) -> None:
    of_t.event(partitions(T, "a"))
    first = of_t.read()
    of_t.event(partitions(T, "b"))
    assert of_t.reads() == ()
    of_t.done(first)
    assert of_t.loader.oldest_unpublished() == 1
    of_t.poll()
    assert of_t.loader.oldest_unpublished() == 2
    assert wanted(of_t.read()) == [("t", False, False, ("b",))]


def test_tables_of_one_read_are_shown_together_until_one_is_overtaken_too_often() -> None:
    """Given a rename beside a table that never rests, then the rename is not held up for ever."""
    stand = Stand(T, U, V)
    stand.event(changed(T, whole=True), changed(U, whole=True))
    for _ in range(TOGETHER_TRIES_MAX):
        read = stand.read()
        assert names(read) == ["t", "u"]
        stand.done(read)
        assert stand.poll(changed(T)) == ()
    shown = []
    for overtaken in (True, True, False):
        stand.done(stand.read())
        shown.append(tables_of(stand.poll(*[changed(T)] * overtaken)))
    assert shown == [["u"], [], ["t"]]


def test_failed_reads_do_not_part_what_is_shown_together() -> None:
    stand = Stand(T, U)
    stand.event(changed(T), changed(U))
    for _ in range(TOGETHER_TRIES_MAX + 1):
        stand.failed(stand.read(), away=True)
        stand.now += AWAY_S_MAX
    stand.done(stand.read())
    assert stand.poll(changed(T)) == ()
    stand.done(stand.read())
    assert tables_of(stand.poll()) == ["t", "u"]


def test_answer_to_no_read_changes_nothing(of_t: Stand) -> None:
    assert of_t.answered(ReadDone(read=9, databases={}, tables={})) == ()
    assert of_t.failed(Read(read=9), away=True) == ()
    of_t.event(changed(T))
    assert of_t.reads()


def test_table_that_was_not_found_is_published_as_gone(of_t: Stand) -> None:
    of_t.event(changed(T))
    of_t.answered(ReadDone(read=of_t.read().read, databases={}, tables={}))
    (result,) = of_t.poll()
    assert isinstance(result, PublishTables)
    assert result.tables == {T: TableRead()}


# -- how much at once


@pytest.mark.parametrize("more", [[], [changed(T, whole=True)]])
def test_many_whole_tables_are_read_without_their_partitions(
    stand: Stand, more: list[Dirty]
) -> None:
    stand.event(*(changed(("d", str(n)), whole=True) for n in range(WHOLE_PER_READ_MAX)), *more)
    assert {whole for _, _, whole, _ in wanted(stand.read())} == {not more}


def test_reads_are_bounded_and_what_waits_comes_later() -> None:
    stand = Stand(T, U, V, reads_max=3)
    stand.event(partitions(T, "a"), partitions(U, "a"), partitions(V, "a"), partitions(U, "b"))
    stand.event(changed(("d", "w")))
    first, *rest = stand.reads()
    assert (names(first), len(rest)) == (["w"], 2)
    stand.event(changed(("d", "x")))
    assert stand.reads() == ()
    stand.done(first)
    stand.poll()
    assert names(stand.read()) == ["x"]


def test_background_leaves_room_for_events_and_reads_many_tables_at_once() -> None:
    stand = Stand(reads_max=READS_KEPT + 1)
    for table in TABLES[: TABLES_PER_READ_MAX + 1]:
        stand.loader.load(table)
    assert stand.loader.tables_left == TABLES_PER_READ_MAX + 1
    read = stand.read()
    assert len(read.requests) == TABLES_PER_READ_MAX
    assert {(obj, whole) for _, obj, whole, _ in wanted(read)} == {(True, False)}
    assert stand.loader.tables_left == 1
    stand.event(changed(T))
    assert names(stand.read()) == ["t"]
    assert stand.loader.oldest_unpublished() == 1, "a load is awaited by nobody"


def test_urgent_load_is_read_at_once_and_alone(stand: Stand) -> None:
    stand.loader.load(T)
    for table in (T, T, U):
        stand.loader.load(table, urgent=True)
    assert [wanted(read) for read in stand.reads()] == [[WHOLE_T], [("u", True, True, ())]]
    assert stand.loader.tables_left == 0
    stand.loader.load(T)
    assert stand.reads() == ()


def test_event_takes_a_table_out_of_the_background(stand: Stand) -> None:
    stand.loader.load(T)
    stand.loader.load(U)
    stand.event(changed(T))
    assert stand.loader.tables_left == 1
    assert [names(read) for read in stand.reads()] == [["t"], ["u"]]


def test_background_skips_what_is_pending_anyway_and_what_is_gone(stand: Stand) -> None:
    stand.loader.load(T)
    stand.listed(T)
    (read,) = stand.reads()
    assert wanted(read) == [("t", False, False, ())], "its chunks, and no read of it beside them"
    stand = Stand()
    stand.loader.load(T)
    stand.listed(U, "a")
    stand.loader.discard(T)
    stand.loader.discard(U)
    assert stand.loader.tables_left == 0
    assert stand.reads() == ()


# -- failures


def test_metastore_that_is_away_is_left_alone_for_a_while_that_grows(of_t: Stand) -> None:
    of_t.event(changed(T))
    pauses = []
    for _ in range(6):
        of_t.failed(of_t.read(), away=True)
        deadline = of_t.loader.deadline()
        assert deadline is not None
        pauses.append(round(deadline - of_t.now, 3))
        assert of_t.reads() == ()
        of_t.now = deadline
    assert pauses == [0.2, 0.4, 0.8, 1.6, AWAY_S_MAX, AWAY_S_MAX]
    of_t.done(of_t.read())
    of_t.event(changed(T))
    of_t.poll()
    of_t.failed(of_t.read(), away=True)
    assert of_t.loader.deadline() == of_t.now + RETRY_S, "an answer ends it"


def test_refused_read_is_tried_alone_then_its_table_is_withdrawn() -> None:
    stand = Stand(T, U)
    stand.event(changed(T), changed(U))
    assert stand.failed(stand.read()) == ()
    first, second = stand.reads()
    stand.done(second)
    assert tables_of(stand.poll()) == ["u"]
    for _ in range(REFUSED_TRIES_MAX - 1):
        assert stand.failed(first) == ()
        assert stand.reads() == ()
        stand.now += RETRY_S_MAX
        (first,) = stand.reads()
    assert stand.loader.oldest_unpublished() == 1
    assert stand.failed(first) == (Withdraw(table=T, error="corrupt"),)
    assert stand.loader.oldest_unpublished() == NEVER, "nobody waits for it any longer"
    stand.now += RETRY_S_MAX
    assert wanted(stand.read()) == [WHOLE_T]


@pytest.fixture
def withdrawn() -> Stand:
    """A loader whose table ``t`` was refused until it was withdrawn."""
    stand = Stand(T)
    stand.event(changed(T))
    for _ in range(REFUSED_TRIES_MAX + 1):
        results = stand.failed(stand.read())
        stand.now += RETRY_S_MAX
    assert [type(result) for result in results] == [Withdraw]
    return stand


def test_event_of_a_withdrawn_table_is_tried_at_once_and_holds_nobody_up(withdrawn: Stand) -> None:
    """Given a table that cannot be read, when it changes again, then syncs do not wait for it."""
    withdrawn.now -= RETRY_S_MAX
    withdrawn.event(changed(T))
    (result,) = withdrawn.failed(withdrawn.read())
    assert isinstance(result, Withdraw), "who waits for it is told"
    assert withdrawn.loader.oldest_unpublished() == NEVER


def test_withdrawn_table_is_tried_for_ever(withdrawn: Stand) -> None:
    for _ in range(1100):
        withdrawn.failed(withdrawn.read())
        withdrawn.now += RETRY_S_MAX
    withdrawn.done(withdrawn.read())
    assert tables_of(withdrawn.poll()) == ["t"]


def test_unreadable_database_is_never_withdrawn(stand: Stand) -> None:
    stand.event(DirtyDatabase(db="d"))
    for _ in range(REFUSED_TRIES_MAX + 2):
        assert stand.failed(stand.read()) == ()
        stand.now += RETRY_S_MAX
    assert stand.loader.oldest_unpublished() == 1


def test_deadline_is_never_what_has_passed_already() -> None:
    """Given work that waits for an answer, then no turn is taken for what was due before."""
    stand = Stand(T, U, reads_max=1)
    stand.event(partitions(U, "a"))
    stand.failed(stand.read(), away=True)
    stand.now += AWAY_S_MAX
    stand.event(changed(T))
    stand.read()
    assert stand.loader.deadline() is None, "the one read that may run does"


# -- the backlog: tables that need a resync come first


def test_tables_that_need_a_resync_come_first_and_each_once() -> None:
    backlog = Backlog()
    for table in TABLES[:4]:
        backlog.add(table)
    backlog.resync(TABLES[3:6], seq=7)
    backlog.add(TABLES[5])
    assert len(backlog) == 7
    first, then = backlog.take(2), backlog.take(3)
    assert list(first) == TABLES[3:5]
    assert list(then) == [TABLES[5], *TABLES[:2]]
    assert [need.dropped for need in then.values()] == [True, False, False]
    assert [need.load for need in then.values()] == [False, True, True]
    assert list(backlog.take(9)) == TABLES[2:4]
    assert not backlog


def test_oldest_gap_is_known_until_no_table_needs_a_resync() -> None:
    backlog = Backlog()
    backlog.resync([], seq=3)
    assert backlog.seq == NEVER
    backlog.resync(TABLES[:2], seq=7)
    backlog.resync(TABLES[2:3], seq=9)
    assert backlog.seq == 7
    assert backlog.take_one(TABLES[1]).seq == 7
    assert not backlog.needs_resync(TABLES[1])
    assert {need.seq for need in backlog.take(9).values()} == {7}
    assert backlog.seq == NEVER


def test_only_tables_that_were_never_read_can_be_left_out() -> None:
    backlog = Backlog()
    for table in TABLES[:3]:
        backlog.add(table)
    backlog.resync(TABLES[3:4], seq=1)
    backlog.discard(TABLES[0])
    backlog.discard(TABLES[3])
    backlog.retain(lambda table: table == TABLES[2])
    assert list(backlog.take(9)) == [TABLES[3], TABLES[2]]


def test_tables_of_a_resync_are_read_some_at_a_time_and_events_do_not_wait() -> None:
    stand = Stand(*TABLES, reads_max=3)
    stand.loader.resync(TABLES, seq=5)
    first = stand.read()
    assert len(first.requests) == TABLES_PER_READ_MAX
    assert stand.loader.oldest_unpublished() == 5
    stand.event(changed(TABLES[-1]))
    event = stand.read()
    assert names(event) == [TABLES[-1][1]]
    stand.done(event)
    assert len(tables_of(stand.poll())) == 1
    stand.done(first)
    assert len(tables_of(stand.poll())) == TABLES_PER_READ_MAX
    for _ in range(2):
        assert stand.loader.oldest_unpublished() == 5
        stand.done(stand.read())
        stand.poll()
    assert stand.reads() == ()
    assert stand.loader.oldest_unpublished() == NEVER


def test_what_was_read_before_a_resync_is_not_published(of_t: Stand) -> None:
    of_t.event(changed(T))
    read = of_t.read()
    of_t.listed(U, "a", "b")
    chunk = of_t.read()
    of_t.loader.resync([T, U], seq=9)
    of_t.done(read)
    assert of_t.done(chunk) == ()
    assert of_t.poll() == ()


def test_table_of_a_resync_that_is_pulled_is_read_at_once() -> None:
    stand = Stand(*TABLES, reads_max=3)
    stand.loader.resync(TABLES, seq=5)
    stand.read()
    stand.loader.load(TABLES[-1], urgent=True)
    assert names(stand.read()) == [TABLES[-1][1]]


# -- chunked loads: chunks are published while events come, and the table is complete at the end

MANY = [f"{number:05d}" for number in range(PARTITIONS_PER_READ_MAX)]
LISTING = ("t", False, True, ())


def chunk_of(*names: str) -> Wanted:
    return ("t", False, False, names)


def completes(results: tuple[Result, ...]) -> bool:
    """Return whether ``results`` say, at their end and only there, that the table is complete."""
    return [one for one in results if isinstance(one, CompleteLoad)] == [results[-1]]


def test_large_table_comes_in_chunks_and_is_complete_after_a_fence(stand: Stand) -> None:
    stand.listed(T, *MANY, "last")
    first = stand.read()
    assert wanted(first) == [chunk_of(*MANY)]
    assert stand.reads() == (), "one chunk at a time"
    brought = slices_of(stand.done(first))
    assert stand.done(stand.read()) == ()
    assert stand.poll() == (), "what was read before is written before"
    while results := stand.bring():
        brought += slices_of(results)
        assert (CompleteLoad(table=T) in results) is (brought[-1] == (["last"], ()))
    assert [name for some, _ in brought for name in some] == [*MANY, "last"]
    assert max(len(some) for some, _ in brought) == SLICE_MAX
    assert stand.loader.tables_left == 0


def test_what_is_read_and_not_written_is_bounded(stand: Stand) -> None:
    stand.listed(T, *(f"{number:05d}" for number in range(10 * PARTITIONS_PER_READ_MAX)))
    for _ in range(3):
        for read in stand.reads():
            stand.done(read)
    written = 0
    while stand.bring():
        written += 1
    assert written <= PARTITIONS_PER_READ_MAX // SLICE_MAX + SLICES_MAX
    assert len(stand.reads()) == 1


def test_slices_of_several_tables_take_turns(stand: Stand) -> None:
    for table in (T, U):
        stand.listed(table, *(f"{number:05d}" for number in range(3 * SLICE_MAX)), "last")
        for read in stand.reads():
            stand.done(read)
    stand.poll()
    brought = [one for _ in range(6) for one in stand.bring()]
    assert [r.table for r in brought if isinstance(r, PublishPartitions)] == [T, U] * 3


def test_slices_come_less_often_while_events_are_on_their_way_and_go_on() -> None:
    stand = Stand(U)
    stand.listed(T, *MANY, "last")
    stand.done(stand.read())
    assert stand.bring()
    assert stand.loader.deadline() == 0.0, "at once"
    stand.event(changed(U))
    assert stand.bring()
    assert stand.bring() == ()
    assert stand.loader.deadline() == stand.now + YIELD_S
    stand.now += YIELD_S
    assert stand.bring()


def test_slices_of_a_table_that_changed_as_a_whole_are_not_written(stand: Stand) -> None:
    stand.listed(T, *MANY, "last")
    stand.done(stand.read())
    stand.event(changed(T, whole=True))
    assert stand.bring() == ()


def test_partition_that_changes_while_its_slice_waits_is_read_again_behind_it(stand: Stand) -> None:
    stand.listed(T, *MANY)
    stand.done(stand.read())
    brought = slices_of(stand.poll())
    stand.event(partitions(T, MANY[-1]))
    again = stand.read()
    assert wanted(again) == [chunk_of(MANY[-1])]
    while some := stand.bring():
        assert not any(isinstance(one, CompleteLoad) for one in some), "it is being read again"
        brought += slices_of(some)
    stand.done(again)
    results = stand.poll()
    assert (brought + slices_of(results))[-1] == ([MANY[-1]], ())
    assert completes(results)


@pytest.mark.parametrize(
    ("found", "slices", "then"),
    [
        (TableRead(names=("a", "b")), [([], ())], chunk_of("a", "b")),
        (TableRead(names=()), [([], ())], chunk_of()),
        (TableRead(names=("a",), partitions={"a": b"p"}, whole=True), [(["a"], ())], None),
    ],
    ids=["large", "empty", "small"],
)
def test_names_are_listed_first_where_they_are_not_known(
    stand: Stand, found: TableRead, slices: list[object], then: Wanted | None
) -> None:
    stand.loader.begin_chunked_load(T, None)
    read = stand.read()
    assert wanted(read) == [LISTING]
    results = stand.done(read, t=found)
    if then is not None:
        last = stand.read()
        assert wanted(last) == [then]
        assert stand.done(last) == ()
        assert completes(stand.poll())
    else:
        results = stand.poll()
        assert completes(results)
    assert slices_of(results) == slices


def test_chunk_that_an_event_overtook_is_read_again(stand: Stand) -> None:
    stand.listed(T, "a", "b")
    stand.done(stand.read())
    assert slices_of(stand.poll(changed(T))) == [(["a", "b"], ())]
    again, object_read = sorted(stand.reads(), key=lambda one: one.requests[0].obj)
    assert wanted(again) == [chunk_of("a", "b")]
    assert wanted(object_read) == [("t", True, False, ())]


def test_chunk_is_not_read_again_for_a_partition_that_it_has_not_read(stand: Stand) -> None:
    stand.listed(T, "a", "b")
    read = stand.read()
    stand.event(partitions(T, "c"))
    stand.done(read)
    assert wanted(stand.read()) == [chunk_of("c")]


def test_listing_that_an_event_overtook_reads_again_what_it_brought(stand: Stand) -> None:
    stand.loader.begin_chunked_load(T, None)
    stand.done(stand.read(), t=TableRead(names=("a",), partitions={"a": b"p"}, whole=True))
    assert slices_of(stand.poll(partitions(T, "b"))) == [(["a"], ())]
    assert sorted(stand.read().requests[0].names) == ["a", "b"]


def test_table_is_not_complete_while_its_object_is_being_read(stand: Stand) -> None:
    stand.listed(T, "a")
    chunk = stand.read()
    stand.event(changed(T))
    (object_read,) = stand.reads()
    stand.done(chunk)
    assert len(stand.poll()) == 1, "overtaken: no word of complete"
    stand.done(stand.read())
    assert len(stand.poll()) == 1, "the object is still being read"
    stand.done(object_read)
    stand.done(stand.read())
    results = stand.poll()
    assert isinstance(results[0], PublishTables)
    assert slices_of(results) == [([], ())]
    assert completes(results)


def test_table_is_not_complete_before_the_fence_of_its_last_chunk(stand: Stand) -> None:
    """Given a chunk that was published ahead, when nothing is left, then one more read follows."""
    stand.listed(T, "a", "b")
    read = stand.read()
    stand.loader.mark_dirty((partitions(T, "c"),), seq=1)
    assert slices_of(stand.done(read)) == [(["a", "b"], ())], "c is left to read"
    assert stand.done(stand.read()) == ()
    assert isinstance(stand.poll()[-1], CompleteLoad)


def test_event_of_the_whole_table_ends_its_load(stand: Stand) -> None:
    stand.listed(T, "a")
    read = stand.read()
    stand.event(changed(T, whole=True))
    assert stand.done(read) == ()
    assert stand.poll() == (), "of a load that has ended"
    assert wanted(stand.read()) == [WHOLE_T]


@pytest.mark.parametrize("away", [True, False])
def test_failure_of_a_load_that_has_ended_changes_nothing(stand: Stand, away: bool) -> None:
    stand.listed(T, "a")
    read = stand.read()
    stand.loader.discard(T)
    assert stand.failed(read, away=away) == ()
    assert not stand.loader.pending(T)


@pytest.mark.parametrize("found", [{}, {T: TableRead()}])
def test_table_that_vanished_while_it_was_listed_is_read_again(
    stand: Stand, found: dict[TableId, TableRead]
) -> None:
    stand.loader.begin_chunked_load(T, None)
    stand.answered(ReadDone(read=stand.read().read, databases={}, tables=found))
    assert stand.loader.pending(T)
    assert wanted(stand.read()) == [WHOLE_T]


def test_chunks_are_read_again_when_the_metastore_is_back(stand: Stand) -> None:
    stand.listed(T, "a", "b")
    stand.failed(stand.read(), away=True)
    assert stand.loader.deadline() == stand.now + RETRY_S
    stand.now += RETRY_S
    assert wanted(stand.read()) == [chunk_of("a", "b")]


def test_chunk_that_is_refused_withdraws_its_table_and_is_tried_ever_more_slowly(
    stand: Stand,
) -> None:
    stand.loader.load(T, urgent=True)
    pauses = []
    for _ in range(10):
        stand.done(stand.read(), t=TableRead(thrift=b"t", names=("a",)))
        (result,) = stand.poll()
        assert isinstance(result, PublishTables)
        stand.loader.begin_chunked_load(T, ("a",), refused=result.needs[T].refused)
        assert stand.failed(stand.read()) == (Withdraw(table=T, error="corrupt"),)
        assert stand.reads() == ()
        deadline = stand.loader.deadline()
        assert deadline is not None
        pauses.append(deadline - stand.now)
        stand.now = deadline
    assert pauses == sorted(pauses)
    assert pauses[0] < 1 < RETRY_S_MAX == pytest.approx(pauses[-1])
