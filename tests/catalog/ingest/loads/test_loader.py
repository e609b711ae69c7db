"""The loader: each event is followed by a read, no overtaken read is published, failures end."""

import pytest

from topicast.catalog.ingest.loads.chunked_load import (
    PARTITIONS_PER_READ_MAX,
    ROUNDS_MAX,
    SCANNED_MAX,
    SELECTIONS_MAX,
    SLICE_MAX,
    SLICES_MAX,
)
from topicast.catalog.ingest.loads.follow_rules import FollowRules
from topicast.catalog.ingest.loads.large_tables import YIELD_S
from topicast.catalog.ingest.loads.loader import (
    AWAY_S_MAX,
    READS_KEPT,
    TABLES_PER_READ_MAX,
    TOGETHER_TRIES_MAX,
    Loader,
)
from topicast.catalog.ingest.loads.materializer import Materializer
from topicast.catalog.ingest.loads.needs import (
    NEVER,
    REFUSED_TRIES_MAX,
    RETRY_S,
    RETRY_S_MAX,
    WHOLE_PER_READ_MAX,
    Backlog,
    CompleteLoad,
    Extent,
    Incarnation,
    Need,
    Result,
    TableUnreadable,
    WritePartitions,
    WriteTables,
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
from topicast.tests.catalog.holding import Holding, parts, struct
from topicast.topics.errors import UsageError
from topicast.topics.objects.names import Scope, TableId
from topicast.topics.objects.selector import Selector, by_filter, by_names
from topicast.topics.objects.tables import Column
from topicast.topics.topic import STUB
from topicast.topics.turn import Turn

T, U, V = ("d", "t"), ("d", "u"), ("d", "v")
TABLES = [("d", f"t{number:03d}") for number in range(3 * TABLES_PER_READ_MAX)]
MANY = [f"{number:05d}" for number in range(PARTITIONS_PER_READ_MAX)]
DATABASE = DirtyDatabase(db="d")
Wanted = tuple[str, bool, bool, tuple[str, ...]]  # table, its object, all of it, partitions
WHOLE_T: Wanted = ("t", True, True, ())
LISTING: Wanted = ("t", False, True, ())
UNREADABLE = TableUnreadable(table=T, error="corrupt")


def changed(table: TableId, **more: bool) -> DirtyTable:
    return DirtyTable(db=table[0], table=table[1], **more)


def partitions(table: TableId, *names: str, data: bool = False) -> DirtyPartitions:
    return DirtyPartitions(db=table[0], table=table[1], names=names, data=data)


class World:
    """A loader over ``loaded`` tables, in virtual time; each event has a number of its own."""

    def __init__(self, *loaded: TableId, reads_max: int = 16) -> None:
        self.held = set(loaded)
        self.turn = Turn[Read]()
        self.loader = Loader(turn=self.turn, loaded=self.held.__contains__, reads_max=reads_max)
        self.now = 100.0
        self.seq = 0

    @property
    def now(self) -> float:
        return self.turn.now

    @now.setter
    def now(self, now: float) -> None:
        self.turn.now = now

    def event(self, *dirty: Dirty) -> None:
        self.seq += 1
        self.loader.mark_dirty(dirty, seq=self.seq)
        self.loader.check()

    def reads(self) -> tuple[Read, ...]:
        self.loader.order()
        self.loader.check()
        return self.turn.end()

    def read(self) -> Read:
        """Return the one read that is ordered."""
        (one,) = self.reads()
        return one

    def done(self, read: Read, **tables: TableRead) -> tuple[Result, ...]:
        """Answer ``read``: everything exists, unless ``tables`` say otherwise."""
        found = {}
        for want in read.requests:
            found_struct = b"struct" if want.obj else None
            names = dict.fromkeys(want.names, b"partition")
            whole = TableRead(thrift=found_struct, partitions=names, whole=want.whole)
            found[want.db, want.table] = tables.get(want.table, whole)
        return self.answered(read.read, found, dict.fromkeys(read.databases, b"db"))

    def answered(
        self, read: int, tables: dict[TableId, TableRead], databases: dict[str, bytes | None]
    ) -> tuple[Result, ...]:
        fact = ReadDone(read=read, databases=databases, tables=tables)
        results = self.loader.on_read_done(fact)
        self.loader.check()
        return results

    def failed(self, read: Read, *, away: bool = False) -> tuple[Result, ...]:
        fact = ReadFailed(read=read.read, error="corrupt", away=away)
        results = self.loader.on_read_failed(fact, away=away)
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

    def read_and_poll(self, *dirty: Dirty) -> tuple[Result, ...]:
        """Answer the one read that is ordered, then poll."""
        assert self.done(self.read()) == ()
        return self.poll(*dirty)

    def written(self) -> tuple[Result, ...]:
        """Return what is written in a turn at this time."""
        results = self.loader.next_slice()
        self.loader.check()
        return results

    def read_and_write(self) -> Read:
        """Answer the one read that is ordered, of a chunk, and write all of it."""
        read = self.read()
        self.done(read)
        while self.written():
            pass
        return read

    @property
    def oldest(self) -> int:
        return self.loader.oldest_unpublished()


@pytest.fixture
def world() -> World:
    """A loader that holds no table."""
    return World()


@pytest.fixture
def of_t() -> World:
    """A loader that holds ``d.t``."""
    return World(T)


def tables_of(results: tuple[Result, ...]) -> list[str]:
    """Return the names of the tables that ``results`` publish."""
    return [name for one in results if isinstance(one, WriteTables) for _, name in one.tables]


def slices_of(results: tuple[Result, ...]) -> list[tuple[list[str], tuple[str, ...]]]:
    """Return what each slice publishes, and what is gone by it."""
    return [(list(r.partitions), r.gone) for r in results if isinstance(r, WritePartitions)]


def completes(results: tuple[Result, ...]) -> bool:
    """Return whether ``results`` say, at their end and only there, that a table is complete."""
    return [one for one in results if isinstance(one, CompleteLoad)] == [results[-1]]


def wanted(read: Read) -> list[Wanted]:
    return [(want.table, want.obj, want.whole, want.names) for want in read.requests]


def chunk_of(*names: str) -> list[Wanted]:
    return [("t", False, False, names)]


def names(read: Read) -> list[str]:
    return [want.table for want in read.requests]


# -- what is dirty


def test_database_is_read_and_published_with_the_tables_of_its_batch(of_t: World) -> None:
    of_t.event(DATABASE, changed(T, dropped=True, whole=True))
    read = of_t.read()
    assert (read.databases, wanted(read)) == (("d",), [WHOLE_T])
    of_t.done(read)
    (result,) = of_t.poll()
    assert isinstance(result, WriteTables)
    assert (result.databases, result.needs[T].incarnation) == (
        {"d": b"db"},
        Incarnation.ENDED,
    )


def test_partitions_of_a_held_table_are_read_by_name_in_one_read(of_t: World) -> None:
    of_t.event(partitions(T, "a", data=True))
    of_t.event(partitions(T, "b"))
    read = of_t.read()
    assert wanted(read) == chunk_of("a", "b")
    of_t.done(read)
    assert of_t.oldest == 1
    (result,) = of_t.poll()
    assert isinstance(result, WriteTables)
    assert (result.needs[T].data, list(result.needs[T].names)) == (True, ["a", "b"])
    assert of_t.oldest == NEVER


@pytest.mark.parametrize(
    ("held", "events", "expected"),
    [
        pytest.param([T], [changed(T)], ("t", True, False, ()), id="held"),
        pytest.param([], [changed(T)], WHOLE_T, id="not held"),
        pytest.param([], [partitions(T, "a")], None, id="partitions of what is not held"),
        pytest.param([], [changed(T), partitions(T, "a")], WHOLE_T, id="of what is to be read"),
    ],
)
def test_event_reads_what_is_held_of_its_table(
    held: list[TableId], events: list[Dirty], expected: Wanted | None
) -> None:
    world = World(*held)
    for one in events:
        world.event(one)
    assert [one for read in world.reads() for one in wanted(read)] == [expected] * bool(expected)
    assert (world.oldest == NEVER) is (expected is None)


@pytest.mark.parametrize("invalidated", [True, False])
def test_partitions_of_a_table_that_is_held_no_more_are_not_read_alone(
    of_t: World, invalidated: bool
) -> None:
    of_t.event(partitions(T, "a"))
    of_t.held.clear()
    if invalidated:
        of_t.loader.invalidate(T)
    assert [wanted(read) for read in of_t.reads()] == [[WHOLE_T]] * invalidated
    assert (of_t.oldest == NEVER) is not invalidated


# -- what may be published


def test_what_was_read_waits_for_a_poll_that_began_later(of_t: World) -> None:
    of_t.event(changed(T))
    early = of_t.loader.begin_poll()
    assert of_t.done(of_t.read()) == ()
    assert of_t.loader.wants_poll
    assert of_t.loader.on_poll_done(early) == ()
    assert of_t.oldest == 1
    assert tables_of(of_t.poll()) == ["t"]
    assert not of_t.loader.wants_poll


@pytest.mark.parametrize(
    ("first", "later", "again"),
    [
        (partitions(T, "a"), partitions(T, "a", "b"), True),
        (partitions(T, "a"), partitions(T, "b"), False),
        (partitions(T, "a"), changed(T), True),
        (partitions(T, "a"), changed(U), False),
        (partitions(T, "a"), partitions(U, "a"), False),
        (changed(T), partitions(T, "a"), False),
        (changed(T, whole=True), partitions(T, "a"), True),
        (DATABASE, DATABASE, True),
        (DATABASE, DirtyDatabase(db="e"), False),
        (DATABASE, changed(T), False),
    ],
)
@pytest.mark.parametrize("when", ["while it is read", "before it is published"])
def test_event_that_touches_what_was_read_makes_it_be_read_again(
    first: Dirty, later: Dirty, again: bool, when: str
) -> None:
    world = World(T, U)
    world.event(first)
    read = world.read()
    if when == "while it is read":
        world.event(later)
        world.done(read)
        published = world.poll()
    else:
        world.done(read)
        published = world.poll(later)
    assert (published == ()) is again
    assert len(world.read_and_poll()) == 1
    assert world.oldest == NEVER


def test_event_of_a_table_that_is_being_read_waits_for_that_read(of_t: World) -> None:
    of_t.event(partitions(T, "a"))
    first = of_t.read()
    of_t.event(partitions(T, "b"))
    assert of_t.reads() == ()
    of_t.done(first)
    of_t.poll()
    assert of_t.oldest == 2
    assert wanted(of_t.read()) == chunk_of("b")


def test_event_that_overtakes_a_read_of_the_backlog_repeats_its_table_alone() -> None:
    """Given tables that are read again after lost events, then no event connects them."""
    world = World(T, U, V)
    world.loader.resync([T, U, V], seq=1)
    assert tables_of(world.read_and_poll(changed(U))) == ["t", "v"]
    assert [want.table for want in world.read().requests] == ["u"]


def test_table_of_the_backlog_whose_partitions_change_all_the_time_is_published() -> None:
    world = World(T, U)
    world.loader.resync([T, U], seq=1)
    assert tables_of(world.read_and_poll(partitions(U, "a"))) == ["t"]
    for _ in range(TOGETHER_TRIES_MAX - 1):
        assert tables_of(world.read_and_poll(partitions(U, "a"))) == []
    assert tables_of(world.read_and_poll(partitions(U, "a"))) == ["u"]


def test_tables_of_one_read_are_published_together_until_one_is_overtaken_too_often() -> None:
    """Given a rename beside a table that never rests, then the rename is not held up for ever."""
    world = World(T, U)
    world.event(changed(T, whole=True), changed(U, whole=True))
    for _ in range(TOGETHER_TRIES_MAX):
        assert world.read_and_poll(changed(T)) == ()
    assert tables_of(world.read_and_poll(changed(T))) == ["u"]
    assert world.read_and_poll(changed(T)) == ()
    assert tables_of(world.read_and_poll()) == ["t"]


def test_failed_reads_do_not_part_what_is_published_together() -> None:
    world = World(T, U)
    world.event(changed(T), changed(U))
    for _ in range(TOGETHER_TRIES_MAX + 1):
        world.failed(world.read(), away=True)
        world.now += AWAY_S_MAX
    assert world.read_and_poll(changed(T)) == ()
    assert tables_of(world.read_and_poll()) == ["t", "u"]


def test_answer_to_no_read_changes_nothing(of_t: World) -> None:
    assert of_t.answered(9, {}, {}) == ()
    assert of_t.failed(Read(read=9), away=True) == ()
    of_t.event(changed(T))
    assert of_t.reads()


def test_table_that_was_not_found_is_published_as_gone(of_t: World) -> None:
    of_t.event(changed(T))
    of_t.answered(of_t.read().read, {}, {})
    (result,) = of_t.poll()
    assert isinstance(result, WriteTables)
    assert result.tables == {T: TableRead()}


# -- how much at once


@pytest.mark.parametrize("more", [[], [changed(T, whole=True)]], ids=["few", "many"])
def test_many_whole_tables_are_read_without_their_partitions(
    world: World, more: list[Dirty]
) -> None:
    world.event(*(changed(one, whole=True) for one in TABLES[:WHOLE_PER_READ_MAX]), *more)
    assert {whole for _, _, whole, _ in wanted(world.read())} == {not more}


def test_reads_are_bounded_and_what_waits_comes_later() -> None:
    world = World(T, U, V, reads_max=3)
    world.event(partitions(T, "a"), partitions(U, "a"), partitions(V, "a"), partitions(U, "b"))
    world.event(changed(("d", "w")))
    first, *rest = world.reads()
    assert (names(first), len(rest)) == (["w"], 2)
    world.event(changed(("d", "x")))
    assert world.reads() == ()
    world.done(first)
    world.poll()
    assert names(world.read()) == ["x"]


def test_background_leaves_room_for_events_and_reads_many_tables_at_once() -> None:
    world = World(reads_max=READS_KEPT + 1)
    for table in TABLES[: TABLES_PER_READ_MAX + 1]:
        world.loader.load(table)
    assert world.loader.tables_left == TABLES_PER_READ_MAX + 1
    read = world.read()
    assert {(obj, whole) for _, obj, whole, _ in wanted(read)} == {(True, False)}
    assert (len(read.requests), world.loader.tables_left) == (TABLES_PER_READ_MAX, 1)
    world.event(changed(T))
    assert names(world.read()) == ["t"]
    assert world.oldest == 1, "no event waits for a background load"


def test_urgent_load_is_read_at_once_and_alone(world: World) -> None:
    """P-PULL-14."""
    world.loader.load(T)
    for table in (T, T, U):
        world.loader.load(table, urgent=True)
    of_t, of_u = world.reads()
    assert [wanted(read) for read in (of_t, of_u)] == [[WHOLE_T], [("u", True, True, ())]]
    assert world.loader.tables_left == 0
    world.loader.load(T)
    assert world.reads() == ()
    results = (*world.done(of_t), *world.poll())
    assert [one.needs[T].load for one in results if isinstance(one, WriteTables)] == [True]


def test_table_of_which_partitions_are_read_is_loaded_whole_behind_them_if_it_is_urgent(
    of_t: World,
) -> None:
    of_t.event(partitions(T, "ds=1"))
    read = of_t.read()
    of_t.loader.load(T)
    assert of_t.loader.tables_left == 0
    of_t.loader.load(T, urgent=True)
    of_t.done(read)
    of_t.poll()
    assert wanted(of_t.read()) == [WHOLE_T]


def test_event_takes_a_table_out_of_the_background(world: World) -> None:
    world.loader.load(T)
    world.loader.load(U)
    world.event(changed(T))
    assert world.loader.tables_left == 1
    assert [names(read) for read in world.reads()] == [["t"], ["u"]]


def test_background_skips_what_is_pending_anyway_and_what_is_gone(world: World) -> None:
    world.loader.load(T)
    world.loader.begin_chunked_load(T, ("a",))
    assert wanted(world.read()) == chunk_of("a"), "its chunks, and no read of it beside them"
    world.loader.load(U)
    for table in (T, U):
        world.loader.discard(table)
    assert world.loader.tables_left == 0
    assert world.reads() == ()


# -- failures


def test_pauses_grow_while_the_metastore_is_away(of_t: World) -> None:
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
    of_t.read_and_poll(changed(T))
    of_t.failed(of_t.read(), away=True)
    assert of_t.loader.deadline() == of_t.now + RETRY_S, "an answer ends it"


def test_refused_read_is_tried_alone_then_its_table_is_unreadable() -> None:
    world = World(T, U)
    world.event(changed(T), changed(U))
    assert world.failed(world.read()) == ()
    first, second = world.reads()
    world.done(second)
    assert tables_of(world.poll()) == ["u"]
    for _ in range(REFUSED_TRIES_MAX):
        assert world.failed(first) == ()
        assert world.reads() == ()
        world.now += RETRY_S_MAX
        first = world.read()
    assert world.oldest == 1
    assert world.failed(first) == (UNREADABLE,)
    assert world.oldest == NEVER, "no request waits for it any longer"
    world.now += RETRY_S_MAX
    assert wanted(world.read()) == [("t", True, False, ())], "its partitions afterwards"


@pytest.fixture
def unreadable(of_t: World) -> World:
    """A loader whose table ``t`` was refused until it was unreadable."""
    of_t.event(changed(T))
    for _ in range(REFUSED_TRIES_MAX + 2):
        results = of_t.failed(of_t.read())
        of_t.now += RETRY_S_MAX
    assert results == (UNREADABLE,)
    return of_t


def test_event_of_a_unreadable_table_is_tried_at_once_and_no_sync_waits_for_it(
    unreadable: World,
) -> None:
    unreadable.now -= RETRY_S_MAX
    unreadable.event(changed(T))
    assert unreadable.oldest == 2, "the event before was given up"
    assert unreadable.failed(unreadable.read()) == (UNREADABLE,), "requests of it are refused again"
    assert unreadable.oldest == NEVER


def test_unreadable_table_is_tried_for_ever(unreadable: World) -> None:
    for _ in range(1100):
        unreadable.failed(unreadable.read())
        unreadable.now += RETRY_S_MAX
    assert tables_of(unreadable.read_and_poll()) == ["t"]


def test_unreadable_database_is_never_unreadable(world: World) -> None:
    world.event(DATABASE)
    for _ in range(REFUSED_TRIES_MAX + 2):
        assert world.failed(world.read()) == ()
        world.now += RETRY_S_MAX
    assert world.oldest == 1


def test_deadline_is_never_what_has_passed_already() -> None:
    """Given work that waits for an answer, then no turn is taken for what was due before."""
    world = World(T, U, reads_max=1)
    world.event(partitions(U, "a"))
    world.failed(world.read(), away=True)
    world.now += AWAY_S_MAX
    world.event(changed(T))
    world.read()
    assert world.loader.deadline() is None, "the one read that may run does"


# -- the backlog: tables that need a resync come first


def backlog_of(new: int, *, resync: slice, seq: int = 7) -> Backlog:
    backlog = Backlog()
    for table in TABLES[:new]:
        backlog.add(table)
    backlog.resync(TABLES[resync], seq=seq)
    return backlog


def test_tables_that_need_a_resync_come_first_and_each_once() -> None:
    backlog = backlog_of(4, resync=slice(3, 6))
    backlog.add(TABLES[5])
    assert len(backlog) == 7
    first, then = backlog.take(2), backlog.take(3)
    assert list(first) == TABLES[3:5]
    assert list(then) == [TABLES[5], *TABLES[:2]]
    assert [(need.incarnation, need.load) for need in then.values()] == [
        (Incarnation.DOUBTED, False),
        (Incarnation.SAME, True),
        (Incarnation.SAME, True),
    ]
    assert list(backlog.take(9)) == TABLES[2:4]
    assert not backlog


def test_tables_with_partitions_are_taken_apart_from_the_others() -> None:
    """Given tables that are held with partitions, then their partitions are compared."""
    backlog = backlog_of(0, resync=slice(0, 6))
    partitioned = set(TABLES[2:5])
    assert list(backlog.take_whole(2, partitioned.__contains__)) == []
    assert list(backlog.take_whole(4, partitioned.__contains__)) == TABLES[2:4]
    assert list(backlog.take_whole(9, partitioned.__contains__)) == TABLES[4:5]
    assert list(backlog.take(9)) == [*TABLES[:2], TABLES[5]]


def test_oldest_gap_is_known_until_no_table_needs_a_resync() -> None:
    backlog = backlog_of(0, resync=slice(0))
    assert backlog.seq == NEVER
    backlog.resync(TABLES[:2], seq=7)
    backlog.resync(TABLES[2:3], seq=9)
    assert backlog.seq == backlog.take_one(TABLES[1]).seq == 7
    assert not backlog.needs_resync(TABLES[1])
    assert {need.seq for need in backlog.take(9).values()} == {7}
    assert backlog.seq == NEVER


def test_table_that_somebody_waits_for_is_read_first_of_those_that_need_a_resync() -> None:
    backlog = backlog_of(2, resync=slice(2, 6))
    backlog.hasten(TABLES[4])
    backlog.hasten(TABLES[0])
    backlog.check()
    assert list(backlog.take(2)) == [TABLES[4], TABLES[2]], "a new table stays where it is"


def test_tables_that_need_a_resync_are_counted_by_what_they_are_in() -> None:
    backlog = backlog_of(0, resync=slice(0))
    tables = [("a", "t"), ("a", "u"), ("b", "t")]
    backlog.resync(tables, seq=7)
    backlog.resync(tables[:1], seq=8)
    scopes = Scope(), Scope("a"), Scope("b"), Scope("c"), Scope("a", "t"), Scope("a", "v")
    assert [backlog.count_resyncs(scope) for scope in scopes] == [3, 2, 1, 0, 1, 0]
    assert [backlog.oldest_gap(scope) for scope in scopes] == [7, 7, 7, NEVER, 7, NEVER]
    assert backlog.first_resync(Scope("b")) == ("b", "t")
    backlog.take_one(("b", "t"))
    backlog.check()
    assert (backlog.oldest_gap(Scope("b")), backlog.oldest_gap(Scope("a"))) == (NEVER, 7)


def test_only_tables_that_were_never_read_can_be_left_out() -> None:
    backlog = backlog_of(3, resync=slice(3, 4))
    backlog.discard(TABLES[0])
    backlog.discard(TABLES[3])
    backlog.retain(lambda table: table == TABLES[2])
    assert list(backlog.take(9)) == [TABLES[3], TABLES[2]]


def test_tables_of_a_resync_are_read_some_at_a_time_and_events_do_not_wait() -> None:
    world = World(*TABLES, reads_max=3)
    world.loader.resync(TABLES, seq=5)
    first = world.read()
    assert len(first.requests) == TABLES_PER_READ_MAX
    assert world.oldest == 5
    world.event(changed(TABLES[-1]))
    assert tables_of(world.read_and_poll()) == [TABLES[-1][1]]
    world.done(first)
    assert len(tables_of(world.poll())) == TABLES_PER_READ_MAX
    for _ in range(2):
        assert world.oldest == 5
        world.read_and_poll()
    assert world.reads() == ()
    assert world.oldest == NEVER


def test_what_was_read_before_a_resync_is_not_published(of_t: World) -> None:
    of_t.event(changed(T))
    read = of_t.read()
    of_t.loader.begin_chunked_load(U, ("a", "b"))
    chunk = of_t.read()
    of_t.loader.resync([T, U], seq=9)
    of_t.done(read)
    assert of_t.done(chunk) == ()
    assert of_t.poll() == ()


def test_table_of_a_resync_that_is_pulled_is_read_at_once() -> None:
    world = World(*TABLES, reads_max=3)
    world.loader.resync(TABLES, seq=5)
    """P-PULL-14: and as a table of which events are missing."""
    first = world.read()
    world.loader.load(TABLES[-1], urgent=True)
    read = world.read()
    assert names(read) == [TABLES[-1][1]]
    world.done(first)
    world.done(read)
    needs = {
        t: n for one in world.poll() if isinstance(one, WriteTables) for t, n in one.needs.items()
    }
    assert needs[TABLES[-1]].incarnation is Incarnation.DOUBTED


# -- what changes without a pause


def test_partition_that_changes_at_each_poll_is_published_and_read_again(of_t: World) -> None:
    of_t.event(partitions(T, "a"))
    for _ in range(TOGETHER_TRIES_MAX):
        assert of_t.read_and_poll(partitions(T, "a")) == ()
    assert tables_of(of_t.read_and_poll(partitions(T, "a"))) == ["t"]
    assert of_t.oldest == of_t.seq, "the newest change is still to be published"
    assert tables_of(of_t.read_and_poll()) == ["t"]


def test_table_that_was_dropped_while_its_partitions_change_is_not_published(of_t: World) -> None:
    of_t.event(partitions(T, "a"))
    for _ in range(TOGETHER_TRIES_MAX):
        assert of_t.read_and_poll(partitions(T, "a")) == ()
    both = changed(T, dropped=True), partitions(T, "a")
    assert of_t.read_and_poll(*both) == ()


# -- chunked loads: chunks are published while events come, and the table is complete at the end


def chunked(*names: str) -> World:
    """Return a loader that loads ``d.t``, of these partitions, in chunks."""
    world = World(U)
    world.loader.begin_chunked_load(T, names)
    return world


def test_large_table_comes_in_chunks_and_is_complete_once_a_poll_confirms_the_last() -> None:
    world = chunked(*MANY, "last")
    first = world.read()
    assert wanted(first) == chunk_of(*MANY)
    assert world.reads() == (), "one chunk at a time"
    brought = slices_of(world.done(first))
    assert world.read_and_poll() == (), "what was read before is written before"
    while results := world.written():
        brought += slices_of(results)
        assert (CompleteLoad(table=T) in results) is (brought[-1] == (["last"], ()))
    assert [name for some, _ in brought for name in some] == [*MANY, "last"]
    assert max(len(some) for some, _ in brought) == SLICE_MAX
    assert world.loader.tables_left == 0


def test_what_is_read_and_not_written_is_bounded() -> None:
    world = chunked(*(f"{number:05d}" for number in range(10 * PARTITIONS_PER_READ_MAX)))
    for _ in range(3):
        for read in world.reads():
            world.done(read)
    written = 0
    while world.written():
        written += 1
    assert written <= PARTITIONS_PER_READ_MAX // SLICE_MAX + SLICES_MAX
    assert len(world.reads()) == 1


def test_next_chunk_is_read_once_fewer_slices_wait_than_may() -> None:
    world = chunked(*(f"{number:05d}" for number in range(3 * PARTITIONS_PER_READ_MAX)))
    world.done(world.read())
    world.done(world.read())
    of_a_chunk = -(-PARTITIONS_PER_READ_MAX // SLICE_MAX)
    for _ in range(2 * of_a_chunk - 1 - SLICES_MAX):
        assert world.reads() == ()
        assert not world.loader.wants_poll, "the next chunk will need one as well"
        assert world.written()
    assert world.reads() == ()
    assert world.written()
    assert len(world.reads()) == 1


def test_slices_of_several_tables_take_turns(world: World) -> None:
    for table in (T, U):
        world.loader.begin_chunked_load(table, (*MANY[: 3 * SLICE_MAX], "last"))
        world.done(world.read())
    world.poll()
    brought = [one for _ in range(6) for one in world.written()]
    assert [r.table for r in brought if isinstance(r, WritePartitions)] == [T, U] * 3


def test_slices_of_a_table_whose_selection_somebody_waits_for_come_first(world: World) -> None:
    """P-PULL-14: whichever table was read first."""
    names = days(3 * SLICE_MAX)
    for table in (U, T):
        world.loader.begin_chunked_load(table, names)
        world.done(world.read())
    world.poll()
    assert not confirmed(world, by_names([names[-1]]))
    brought = [one for _ in range(6) for one in world.written()]
    assert [r.table for r in brought if isinstance(r, WritePartitions)] == [T, T, U, U]


def test_slices_come_less_often_while_events_are_on_their_way_and_go_on() -> None:
    world = chunked(*MANY, "last")
    world.done(world.read())
    assert world.written()
    assert world.loader.deadline() == 0.0, "at once"
    world.event(changed(U))
    assert world.written()
    assert world.written() == ()
    assert world.loader.deadline() == world.now + YIELD_S
    world.now += YIELD_S
    assert world.written()


def test_slices_of_a_table_that_changed_as_a_whole_are_not_written() -> None:
    world = chunked(*MANY, "last")
    world.done(world.read())
    world.event(changed(T, whole=True))
    assert world.written() == ()


def test_partition_that_changes_while_its_slice_waits_is_read_again_behind_it() -> None:
    world = chunked(*MANY)
    brought = slices_of(world.done(world.read()))
    assert world.poll() == ()
    world.event(partitions(T, MANY[-1]))
    again = world.read()
    assert wanted(again) == chunk_of(MANY[-1])
    while some := world.written():
        assert not any(isinstance(one, CompleteLoad) for one in some), "it is being read again"
        brought += slices_of(some)
    assert slices_of(world.done(again)) == [([MANY[-1]], ())]
    assert len([name for some, _ in brought for name in some]) == len(MANY)
    assert world.poll() == (CompleteLoad(table=T),)


@pytest.mark.parametrize(
    ("found", "slices", "then"),
    [
        (TableRead(names=("a", "b")), [([], ()), (["a", "b"], ())], chunk_of("a", "b")),
        (TableRead(names=()), [([], ())], None),
        (TableRead(names=("a",), partitions={"a": b"p"}, whole=True), [(["a"], ())], None),
    ],
    ids=["large", "empty", "small"],
)
def test_names_are_listed_first_where_they_are_not_known(
    world: World, found: TableRead, slices: list[object], then: list[Wanted] | None
) -> None:
    world.loader.begin_chunked_load(T, None)
    read = world.read()
    assert wanted(read) == [LISTING]
    results = world.done(read, t=found)
    if then is not None:
        last = world.read()
        assert wanted(last) == then
        results += world.done(last)
    assert slices_of(results) == slices
    assert world.poll() == (CompleteLoad(table=T),)


def test_partition_that_appears_after_the_listing_is_read_before_the_end(world: World) -> None:
    world.loader.begin_chunked_load(T, None)
    listed = TableRead(names=("a",), partitions={"a": b"p"}, whole=True)
    assert slices_of(world.done(world.read(), t=listed)) == [(["a"], ())]
    assert world.poll(partitions(T, "b")) == ()
    assert wanted(world.read()) == chunk_of("b")


def test_partition_that_appears_while_names_are_listed_is_read_after_those_that_were(
    world: World,
) -> None:
    world.loader.begin_chunked_load(T, None)
    listing = world.read()
    world.event(partitions(T, "b"))
    world.done(listing, t=TableRead(names=("a",)))
    while world.written():
        pass
    assert wanted(world.read_and_write()) == chunk_of("a")
    world.poll()
    assert wanted(world.read_and_write()) == chunk_of("b")
    assert world.poll() == (CompleteLoad(table=T),)


def test_progress_of_a_load_is_known_once_its_names_are(world: World) -> None:
    large = world.loader.large
    assert large.progress(T) is None
    world.loader.begin_chunked_load(T, None)
    assert large.progress(T) is None
    world.done(world.read(), t=TableRead(names=("a", "b")))
    assert large.progress(T) == (0, 2)
    world.done(world.read())
    assert large.progress(T) == (2, 2)


def test_table_is_not_complete_while_its_object_is_being_read() -> None:
    world = chunked("a")
    chunk = world.read()
    world.event(changed(T))
    (object_read,) = world.reads()
    assert slices_of(world.done(chunk)) == [(["a"], ())]
    assert world.poll() == (), "the object is still being read"
    world.done(object_read)
    results = world.poll()
    assert isinstance(results[0], WriteTables)
    assert completes(results)


def test_table_is_not_complete_before_a_poll_confirms_its_last_chunk() -> None:
    world = chunked("a", "b")
    read = world.read()
    world.event(partitions(T, "c"))
    assert slices_of(world.done(read)) == [(["a", "b"], ())]
    more = world.read()
    assert wanted(more) == chunk_of("c"), "no event overtook a or b"
    number = world.loader.begin_poll()
    assert slices_of(world.done(more)) == [(["c"], ())]
    assert world.loader.wants_poll, "this one confirms the first chunk alone"
    assert world.loader.on_poll_done(number) == (), "it began before the read ended"
    assert world.loader.wants_poll
    assert world.poll() == (CompleteLoad(table=T),)


def test_table_that_is_written_without_a_pause_is_complete_after_a_bounded_number_of_reads() -> (
    None
):
    """Given another partition in each poll, then the last is read as of any other table."""
    world = chunked("a", "b")
    world.read_and_write()
    results, reads = world.poll(partitions(T, "c0")), 0
    while not results:
        world.read_and_write()
        reads += 1
        results = world.poll(partitions(T, f"c{reads}"))
    assert (results, reads) == ((CompleteLoad(table=T),), ROUNDS_MAX)
    assert world.oldest == world.seq, "syncs wait for what is left"
    world.held.add(T)
    assert wanted(world.read()) == chunk_of(f"c{reads}")


def test_partitions_that_change_in_turns_are_read_together_and_are_of_one_moment() -> None:
    world = chunked("a", "b", "c")
    world.read_and_write()
    assert world.poll(partitions(T, "a")) == ()
    assert wanted(world.read_and_write()) == chunk_of("a")
    assert world.poll(partitions(T, "b")) == (), "it may have changed before a was read"
    assert wanted(world.read_and_write()) == chunk_of("a", "b")
    assert world.poll(partitions(T, "a")) == (CompleteLoad(table=T),)
    world.held.add(T)
    assert wanted(world.read()) == chunk_of("a")


@pytest.mark.parametrize(("first", "again"), [(MANY[1:], (*MANY[1:], "last")), (MANY, ("last",))])
def test_rounds_are_read_together_if_they_are_no_more_than_a_chunk(
    first: list[str], again: tuple[str, ...]
) -> None:
    world = chunked(*MANY, "last")
    world.read_and_write()
    world.read_and_write()
    assert world.poll(partitions(T, *first)) == ()
    assert wanted(world.read_and_write()) == chunk_of(*first)
    assert world.poll(partitions(T, "last")) == ()
    assert wanted(world.read_and_write()) == chunk_of(*again)


def test_round_that_fails_once_the_table_itself_has_changed_is_read_again_whole() -> None:
    """Else no poll would confirm those that the round has read for the sake of the others."""
    world = chunked("a", "b", "c")
    world.read_and_write()
    world.poll(partitions(T, "a"))
    world.read_and_write()
    world.poll(partitions(T, "b"))
    last = world.read()
    assert wanted(last) == chunk_of("a", "b")
    world.event(changed(T))
    world.held.add(T)
    world.done(world.read())
    assert tables_of(world.poll()) == ["t"]
    world.failed(last, away=True)
    world.now += RETRY_S
    assert wanted(world.read_and_write()) == chunk_of("a")
    assert world.poll() == ()
    assert wanted(world.read_and_write()) == chunk_of("b")
    assert world.poll() == (CompleteLoad(table=T),)


def test_partitions_that_changed_before_the_table_itself_are_read_again_with_it() -> None:
    """Else the newer struct would be shown with partitions that were older at every moment."""
    world = chunked("a", "b")
    world.read_and_write()
    world.poll(partitions(T, "a"))
    assert wanted(world.read_and_write()) == chunk_of("a")
    assert world.poll(partitions(T, "a"), changed(T)) == (), "the table itself is to be read"
    world.held.add(T)
    world.done(world.read())
    results = world.poll()
    assert not any(isinstance(one, CompleteLoad) for one in results)
    assert wanted(world.read_and_write()) == chunk_of("a")
    assert world.poll() == (CompleteLoad(table=T),)


def test_what_changed_before_the_last_reads_delays_no_sync_and_what_changes_then_does() -> None:
    world = chunked("a", *MANY)
    first = world.read()
    world.event(partitions(T, "a"))
    world.done(first)
    assert world.oldest == NEVER, "nothing is answered from a table of which parts are missing"
    while world.written():
        pass
    world.read_and_write()
    assert world.oldest == 1
    last = world.read()
    assert wanted(last) == chunk_of("a")
    assert world.oldest == NEVER
    world.event(partitions(T, "a"))
    assert world.oldest == 2


def test_partitions_that_changed_before_a_load_began_are_read_by_it(world: World) -> None:
    world.loader.load(T, urgent=True)
    for number in range(TOGETHER_TRIES_MAX + 1):
        assert world.done(world.read(), t=TableRead(thrift=b"t", names=("a",))) == ()
        results = world.poll(partitions(T, f"b{number}"))
    assert tables_of(results) == ["t"], "overtaken only by events of partitions"
    world.loader.begin_chunked_load(T, ("a",))
    assert wanted(world.read_and_write()) == chunk_of("a")
    assert wanted(world.read_and_write()) == chunk_of(f"b{TOGETHER_TRIES_MAX}")
    assert world.poll() == (CompleteLoad(table=T),)


# -- a selection that somebody waits for


def confirmed(world: World, selector: Selector) -> bool:
    found = world.loader.large.has_confirmed(T, selector, (Column("ds", "string", ""),))
    world.loader.check()
    return found


def days(count: int) -> list[str]:
    return [f"ds={number:05d}" for number in range(count)]


def test_selected_partitions_are_read_alone_and_first_and_settled_by_a_poll() -> None:
    world = chunked(*days(3 * PARTITIONS_PER_READ_MAX))
    selector = by_filter("ds in ('00007', '02500', 'none')")
    world.read_and_write()
    assert not confirmed(world, selector)
    read = world.read()
    assert wanted(read) == chunk_of("ds=02500"), "the other was read"
    assert slices_of(world.done(read)) == [(["ds=02500"], ())]
    assert not confirmed(world, selector)
    assert world.reads() == (), "the metastore answers the poll first"
    assert world.loader.wants_poll
    world.poll()
    assert confirmed(world, selector)
    assert world.loader.large.progress(T) == (
        PARTITIONS_PER_READ_MAX + 1,
        3 * PARTITIONS_PER_READ_MAX,
    )


def test_selection_is_confirmed_again_once_what_changed_of_it_is_read() -> None:
    world = chunked(*days(3 * PARTITIONS_PER_READ_MAX))
    selector = by_names(["ds=02500", "ds=new"])
    assert not confirmed(world, selector)
    world.done(world.read())
    world.poll()
    assert confirmed(world, selector)
    world.event(partitions(T, "ds=new"))
    assert not confirmed(world, selector), "it was created meanwhile"
    rest = world.read_and_write()
    assert len(rest.requests[0].names) == PARTITIONS_PER_READ_MAX, "the others have their turn"
    assert wanted(world.read_and_write()) == chunk_of("ds=new")
    world.poll()
    assert confirmed(world, selector)


def test_selection_that_changes_is_not_settled_between_its_read_and_the_poll() -> None:
    world = chunked(*days(3 * PARTITIONS_PER_READ_MAX))
    selector = by_names(["ds=02500", "ds=02600"])
    assert not confirmed(world, selector)
    world.done(world.read())
    world.poll(partitions(T, "ds=02500"))
    assert not confirmed(world, selector), "the two are of different moments"


def test_selection_is_not_settled_while_the_table_itself_is_being_read() -> None:
    world = chunked("ds=1")
    selector = by_names(["ds=1"])
    assert not confirmed(world, selector)
    world.done(world.read())
    world.event(changed(T))
    world.poll()
    assert not confirmed(world, selector)
    world.read_and_poll()
    assert not world.loader.large.is_loading(T), "and was complete then"


def test_chunk_of_a_selection_is_read_again_when_the_metastore_is_back() -> None:
    world = chunked(*days(3 * PARTITIONS_PER_READ_MAX))
    selector = by_names(["ds=02500"])
    assert not confirmed(world, selector)
    world.failed(world.read(), away=True)
    world.now += RETRY_S
    seen = []
    for _ in range(2):
        seen += world.read_and_write().requests[0].names
    assert "ds=02500" in seen
    world.poll()
    assert confirmed(world, selector)


def test_changed_partition_of_a_selection_is_read_again_when_the_metastore_is_back() -> None:
    world = chunked(*days(3 * PARTITIONS_PER_READ_MAX))
    world.read_and_write()
    world.event(partitions(T, *days(1)))
    assert not confirmed(world, by_names(days(1)))
    read = world.read()
    assert wanted(read) == chunk_of(*days(1))
    world.failed(read, away=True)
    world.now += RETRY_S
    world.poll()
    assert len(world.read_and_write().requests[0].names) == PARTITIONS_PER_READ_MAX
    assert wanted(world.read()) == chunk_of(*days(1)), "before the rest"


def test_partition_that_was_dropped_since_its_name_was_listed_is_gone() -> None:
    world = chunked("a", "b")
    found = TableRead(partitions={"a": b"partition"})
    assert slices_of(world.done(world.read(), t=found)) == [(["a"], ("b",))]


def test_filter_is_tried_on_some_names_in_each_turn_and_the_next_turn_is_at_once() -> None:
    world = chunked(*days(2 * SCANNED_MAX + 1))
    selector = by_filter("ds like '.*9'")
    assert len(world.read().requests[0].names) == SCANNED_MAX, "they are tried as well"
    for _ in range(4):
        assert world.loader.deadline() != world.now
        assert not confirmed(world, selector)
        assert world.loader.deadline() == world.now, "without a fact"
        world.reads()
    assert not confirmed(world, selector)
    assert world.loader.deadline() != world.now, "all names were tried"


def test_selection_whose_requester_has_gone_takes_no_share_of_later_chunks() -> None:
    world = chunked(*days(4 * PARTITIONS_PER_READ_MAX))
    assert not confirmed(world, by_names(days(1)))
    assert wanted(world.read_and_write()) == chunk_of(*days(1))
    world.poll()
    world.read_and_write()
    every = by_filter("ds like '.*'")
    for _ in range(4 * PARTITIONS_PER_READ_MAX // SCANNED_MAX + 1):
        assert not confirmed(world, every)
    assert len(world.read().requests[0].names) == PARTITIONS_PER_READ_MAX


def test_selection_is_confirmed_by_the_poll_of_its_own_chunk_and_not_of_a_later_one() -> None:
    world = chunked(*days(3 * PARTITIONS_PER_READ_MAX))
    selector = by_names(days(1))
    world.read_and_write()
    assert not confirmed(world, selector)
    assert world.loader.wants_poll
    number = world.loader.begin_poll()
    assert not world.loader.wants_poll, "it has begun"
    later = world.read()
    assert len(later.requests[0].names) == PARTITIONS_PER_READ_MAX
    world.done(later)
    assert not confirmed(world, selector)
    world.loader.on_poll_done(number)
    assert confirmed(world, selector)


def test_selection_is_not_confirmed_while_one_of_its_partitions_is_being_read() -> None:
    world = chunked(*days(3 * PARTITIONS_PER_READ_MAX))
    selector = by_names(["ds=00000", "ds=02500"])
    world.read_and_write()
    assert not confirmed(world, selector)
    world.poll()
    assert wanted(world.read()) == chunk_of("ds=02500"), "the other is confirmed"
    assert not confirmed(world, selector)


def test_selection_that_is_being_read_again_is_not_confirmed_by_the_poll_of_its_first_read() -> (
    None
):
    world = chunked(*days(3 * PARTITIONS_PER_READ_MAX))
    selector = by_names(days(1))
    world.read_and_write()
    number = world.loader.begin_poll()
    world.event(partitions(T, *days(1)))
    assert not confirmed(world, selector)
    assert wanted(world.read()) == chunk_of(*days(1))
    world.loader.on_poll_done(number)
    assert not confirmed(world, selector)


def test_more_selections_than_are_read_first_wait_until_one_of_them_is_confirmed() -> None:
    world = chunked(*days(3 * PARTITIONS_PER_READ_MAX))
    selectors = [by_names([day]) for day in days(SELECTIONS_MAX + 1)]
    assert not any(confirmed(world, one) for one in selectors)
    assert len(world.read_and_write().requests[0].names) == SELECTIONS_MAX
    world.poll()
    assert [confirmed(world, one) for one in selectors] == [True] * SELECTIONS_MAX + [False]
    world.read_and_write()
    world.poll()
    assert confirmed(world, selectors[-1]), "it was among the rest that was read meanwhile"


def test_filter_that_is_none_for_the_table_is_said_at_once() -> None:
    with pytest.raises(UsageError, match="hour is not a partition column"):
        confirmed(chunked("ds=1"), by_filter("hour = 1"))


def test_event_of_the_whole_table_ends_its_load() -> None:
    world = chunked("a")
    read = world.read()
    world.event(changed(T, whole=True))
    assert world.done(read) == ()
    assert world.poll() == (), "of a load that has ended"
    assert wanted(world.read()) == [WHOLE_T]


@pytest.mark.parametrize("away", [True, False])
def test_failure_of_a_load_that_has_ended_changes_nothing(away: bool) -> None:
    world = chunked("a")
    read = world.read()
    world.loader.discard(T)
    assert world.failed(read, away=away) == ()
    assert not world.loader.pending(T)


@pytest.mark.parametrize("found", [{}, {T: TableRead()}])
def test_table_that_vanished_while_it_was_listed_is_read_again(
    world: World, found: dict[TableId, TableRead]
) -> None:
    world.loader.begin_chunked_load(T, None)
    world.answered(world.read().read, found, {})
    assert world.loader.pending(T)
    assert wanted(world.read()) == [WHOLE_T]


def test_load_does_not_end_with_a_change_that_the_metastore_did_not_answer_about() -> None:
    """The stored window may have passed the event: only the load would read it after a crash."""
    world = chunked("a", "b")
    world.read_and_write()
    world.poll(partitions(T, "a"))
    again = world.read()
    assert wanted(again) == chunk_of("a")
    world.failed(again, away=True)
    assert world.loader.deadline() == world.now + RETRY_S
    assert world.poll() == ()
    assert world.loader.large.is_loading(T)
    world.now += RETRY_S
    assert wanted(world.read_and_write()) == chunk_of("a")
    assert world.poll() == (CompleteLoad(table=T),)


@pytest.mark.parametrize("away", [True, False])
def test_partitions_that_the_metastore_did_not_send_are_read_once_it_does(away: bool) -> None:
    """Whether it has not answered, or has refused one of them at first."""
    world = chunked("a", "b")
    read = world.read()
    assert wanted(read) == chunk_of("a", "b")
    assert world.failed(read, away=away) == ()
    world.now += RETRY_S
    seen = []
    while some := world.reads():
        seen += some[0].requests[0].names
        world.done(some[0])
    assert seen == ["a", "b"]
    while not (results := world.poll()):
        world.written()
    assert results == (CompleteLoad(table=T),)


@pytest.mark.parametrize("away", [True, False])
def test_round_that_the_metastore_did_not_send_does_not_count(away: bool) -> None:
    world = chunked("a", "b")
    world.read_and_write()
    world.poll(partitions(T, "a", "b"))
    read = world.read()
    assert world.loader.large.loading()[T].endswith(f"2 are read again, round 1 of {ROUNDS_MAX}")
    world.failed(read, away=away)
    assert world.loader.large.loading() == {T: "2 of 2 partitions are read"}


def test_selection_of_a_bad_partition_is_never_confirmed_and_asks_for_no_turns_and_no_polls() -> (
    None
):
    world = chunked(*days(2 * PARTITIONS_PER_READ_MAX))
    selector = by_names(days(1))
    assert not confirmed(world, selector)
    read = world.read()
    assert wanted(read) == chunk_of(*days(1))
    world.failed(read)
    world.done(world.read())
    assert not world.loader.wants_poll, "nobody waits, and there is more to read"
    while world.written():
        pass
    assert not confirmed(world, selector)
    assert world.loader.deadline() != world.now


def test_bad_partition_that_has_changed_is_read_at_once_and_others_of_its_table_are_left() -> None:
    world = chunked("a", "b")
    world.failed(world.read())
    bad = world.read()
    assert wanted(bad) == chunk_of("a"), "half of them"
    world.failed(bad)
    world.read_and_write()
    assert world.poll() == ()
    assert world.loader.tables_left == 0
    assert world.reads() == ()
    world.event(partitions(T, "b"))
    assert world.loader.tables_left == 1
    world.read_and_write()
    assert world.reads() == ()
    world.event(partitions(T, "a"))
    assert wanted(world.read_and_write()) == chunk_of("a")
    assert world.poll() == (CompleteLoad(table=T),)


@pytest.mark.parametrize("refused", [0, 1])
def test_partitions_are_listed_by_columns_and_by_names_alone_after_a_refusal(
    world: World, refused: int
) -> None:
    world.loader.begin_chunked_load(T, None, refused=refused, keys=("ds",))
    (request,) = world.read().requests
    assert (request.listed, request.keys) == (refused > 0, ("ds",))


def test_table_whose_partitions_cannot_be_listed_is_unreadable_and_tried_ever_more_slowly(
    world: World,
) -> None:
    world.loader.load(T, urgent=True)
    pauses = []
    for _ in range(10):
        world.done(world.read(), t=TableRead(thrift=b"t", names=("a",)))
        (result,) = world.poll()
        assert isinstance(result, WriteTables)
        world.loader.begin_chunked_load(T, None, refused=max(result.needs[T].refused, 0))
        assert world.failed(world.read()) == (UNREADABLE,)
        assert world.reads() == ()
        deadline = world.loader.deadline()
        assert deadline is not None
        pauses.append(deadline - world.now)
        world.now = deadline
    assert pauses == sorted(pauses)
    assert pauses[0] < 1 < RETRY_S_MAX == pytest.approx(pauses[-1])


# -- what is written


def test_unreadable_table_is_a_stub_and_a_table_without_a_name_is_not_written() -> None:
    """Given partitions that were read of a table that is gone by now, then nothing is held."""
    holding = Holding()
    loader = Loader(turn=holding.turn, loaded=holding.tables.loaded)
    rules = FollowRules(
        holding.namespace, holding.tables, pending=loader.pending, off_by_default=False
    )
    materializer = Materializer(
        holding.namespace, holding.tables, loader, rules=rules, has_differed=lambda *_: False
    )

    def publish(read: TableRead, need: Need) -> None:
        result = WriteTables(databases={"d": b"d"}, tables={T: read}, needs={T: need})
        assert materializer.apply([result]) == ()

    whole = TableRead(thrift=struct(T, "ds"), partitions=parts("1"), names=("ds=1",), whole=True)
    publish(whole, Need(extent=Extent.WHOLE))
    assert holding.names() == ["ds=1"]
    assert materializer.apply([UNREADABLE]) == (UNREADABLE,)
    assert holding.entry().kind == STUB
    loader.load(T)
    publish(TableRead(), Need(1, Extent.STRUCT, Incarnation.ENDED))
    publish(TableRead(partitions=parts("1")), Need(1, names={"ds=1": None}))
    assert holding.namespace.find(T) is None
    assert holding.tables.entry(T) is None
    assert loader.tables_left == 0


def test_oldest_event_is_known_whatever_becomes_of_what_it_made_dirty() -> None:
    """Given two events, then the first is pending until both of its tables are published."""
    world = World(T, U, V)
    world.event(changed(T), changed(U))
    world.event(changed(V))
    first = world.read()
    assert world.loader.oldest_unpublished() == 1
    world.event(changed(U))  # overtakes its read
    world.done(first)
    world.poll()
    assert world.loader.oldest_unpublished() == 1, "T was read together with U"
    again = world.read()
    world.done(again)
    world.poll()
    assert world.loader.oldest_unpublished() == NEVER
