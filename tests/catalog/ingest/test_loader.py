"""The loader: every event is read over, nothing that an event overtook is shown, failures end."""

import pytest

from topicast.catalog.ingest.actions import DirtyDatabase
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
    PublishTables,
    Withdraw,
)
from topicast.catalog.ingest.reads import ReadDone, ReadFailed, TableRead
from topicast.tests.catalog.ingest.loading import (
    Stand,
    T,
    U,
    V,
    changed,
    partitions,
    tables_of,
    wanted,
)

# -- what is dirty


def test_nothing_dirty_orders_nothing() -> None:
    stand = Stand(T)
    assert stand.reads() == ()
    assert stand.loader.oldest_unpublished() == NEVER
    assert stand.loader.deadline() is None
    assert not stand.loader.wants_poll


def test_database_is_read_and_published_with_the_tables_of_its_batch() -> None:
    stand = Stand(T)
    stand.event(DirtyDatabase(db="d"), changed(T, dropped=True, whole=True))
    read = stand.read()
    assert read.databases == ("d",)
    assert wanted(read) == [("t", True, True, ())]
    stand.done(read)
    (effect,) = stand.poll()
    assert isinstance(effect, PublishTables)
    assert effect.databases == {"d": b"db"}
    assert effect.needs[T].dropped


def test_alter_reads_the_object_of_a_held_table_and_all_of_another() -> None:
    stand = Stand(T)
    stand.event(changed(T), changed(U))
    assert wanted(stand.read()) == [("t", True, False, ()), ("u", True, True, ())]


def test_partitions_of_a_held_table_are_read_by_name_in_one_read() -> None:
    stand = Stand(T)
    stand.event(partitions(T, "a", data=True))
    stand.event(partitions(T, "b"))
    assert stand.loader.oldest_unpublished() == 1
    read = stand.read()
    assert wanted(read) == [("t", False, False, ("a", "b"))]
    stand.done(read)
    assert stand.loader.oldest_unpublished() == 1
    (effect,) = stand.poll()
    assert isinstance(effect, PublishTables)
    assert (effect.needs[T].data, list(effect.needs[T].names)) == (True, ["a", "b"])
    assert stand.loader.oldest_unpublished() == NEVER


def test_partitions_of_a_table_that_is_not_held_are_nobodys_business() -> None:
    stand = Stand()
    stand.event(partitions(T, "a"))
    assert stand.loader.oldest_unpublished() == NEVER
    assert stand.reads() == ()


def test_partitions_of_a_table_that_was_dropped_meanwhile_are_not_read() -> None:
    stand = Stand(T)
    stand.event(partitions(T, "a"))
    stand.held.clear()
    assert stand.reads() == ()
    assert stand.loader.oldest_unpublished() == NEVER


def test_partitions_of_a_table_that_was_withdrawn_meanwhile_are_read_with_all_of_it() -> None:
    stand = Stand(T)
    stand.event(partitions(T, "a"))
    stand.held.clear()
    stand.loader.invalidate(T)
    assert wanted(stand.read()) == [("t", True, True, ())]


def test_event_of_an_awaited_table_is_read_with_it() -> None:
    stand = Stand()
    stand.event(changed(T))
    stand.event(partitions(T, "a"))
    assert wanted(stand.read()) == [("t", True, True, ())]


# -- the fence


def test_what_was_read_waits_for_a_poll_that_began_later() -> None:
    stand = Stand(T)
    stand.event(changed(T))
    early = stand.loader.begin_poll()
    assert stand.done(stand.read()) == ()
    assert stand.loader.wants_poll
    assert stand.loader.on_poll_done(early) == ()
    assert stand.loader.oldest_unpublished() == 1
    assert tables_of(stand.poll()) == ["t"]
    assert not stand.loader.wants_poll


def test_without_events_there_is_no_fence() -> None:
    stand = Stand(fenced=False)
    stand.loader.load(T, urgent=True)
    assert tables_of(stand.done(stand.read())) == ["t"]


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
    asked: object, later: object, again: bool, when: str
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


def test_event_of_a_table_that_is_being_read_waits_for_that_read() -> None:
    stand = Stand(T)
    stand.event(partitions(T, "a"))
    first = stand.read()
    stand.event(partitions(T, "b"))
    assert stand.reads() == ()
    stand.done(first)
    assert stand.loader.oldest_unpublished() == 1
    stand.poll()
    assert stand.loader.oldest_unpublished() == 2
    assert wanted(stand.read()) == [("t", False, False, ("b",))]


def test_tables_of_one_read_are_shown_together_until_one_is_overtaken_too_often() -> None:
    """Given a rename beside a table that never rests, then the rename is not held up for ever."""
    stand = Stand(T, U, V)
    stand.event(changed(T, whole=True), changed(U, whole=True))
    for _ in range(TOGETHER_TRIES_MAX):
        read = stand.read()
        assert [name for name, *_ in wanted(read)] == ["t", "u"]
        stand.done(read)
        assert stand.poll(changed(T)) == ()
    stand.done(stand.read())
    assert tables_of(stand.poll(changed(T))) == ["u"]
    stand.done(stand.read())
    assert tables_of(stand.poll(changed(T))) == []
    stand.done(stand.read())
    assert tables_of(stand.poll()) == ["t"]


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


def test_answer_to_no_read_changes_nothing() -> None:
    stand = Stand(T)
    nothing = ReadDone(read=9, databases={}, tables={})
    assert stand.loader.on_read_done(nothing) == ()
    failed = ReadFailed(read=9, error="no", away=True)
    assert stand.loader.on_read_failed(failed, away=True, now=stand.now) == ()
    stand.event(changed(T))
    assert stand.reads()


def test_table_that_was_not_found_is_published_as_gone() -> None:
    stand = Stand(T)
    stand.event(changed(T))
    read = stand.read()
    stand.loader.on_read_done(ReadDone(read=read.read, databases={}, tables={}))
    (effect,) = stand.poll()
    assert isinstance(effect, PublishTables)
    assert effect.tables == {T: TableRead()}


# -- how much at once


def test_many_whole_tables_are_read_without_their_partitions() -> None:
    few = [changed(("d", str(n)), whole=True) for n in range(WHOLE_PER_READ_MAX)]
    stand = Stand()
    stand.event(*few)
    assert all(whole for _, _, whole, _ in wanted(stand.read()))
    stand = Stand()
    stand.event(*few, changed(T, whole=True))
    assert not any(whole for _, _, whole, _ in wanted(stand.read()))


def test_reads_are_bounded_and_what_waits_comes_later() -> None:
    stand = Stand(T, U, V, reads_max=3)
    stand.event(partitions(T, "a"), partitions(U, "a"), partitions(V, "a"), partitions(U, "b"))
    stand.event(changed(("d", "w")))
    first, *rest = stand.reads()
    assert [want.table for want in first.requests] == ["w"]
    assert len(rest) == 2
    stand.event(changed(("d", "x")))
    assert stand.reads() == ()
    stand.done(first)
    stand.poll()
    assert [want.table for want in stand.read().requests] == ["x"]


def test_background_leaves_room_for_events_and_reads_many_tables_at_once() -> None:
    stand = Stand(reads_max=READS_KEPT + 1)
    for number in range(TABLES_PER_READ_MAX + 1):
        stand.loader.load(("d", str(number)))
    assert stand.loader.tables_left == TABLES_PER_READ_MAX + 1
    read = stand.read()
    assert len(read.requests) == TABLES_PER_READ_MAX
    assert {(obj, whole) for _, obj, whole, _ in wanted(read)} == {(True, False)}
    assert stand.loader.tables_left == 1
    stand.event(changed(T))
    assert [want.table for want in stand.read().requests] == ["t"]
    assert stand.loader.oldest_unpublished() == 1, "a load is awaited by nobody"


def test_urgent_load_is_read_at_once_and_alone() -> None:
    stand = Stand()
    stand.loader.load(T)
    stand.loader.load(T, urgent=True)
    stand.loader.load(T, urgent=True)
    stand.loader.load(U, urgent=True)
    assert [wanted(read) for read in stand.reads()] == [
        [("t", True, True, ())],
        [("u", True, True, ())],
    ]
    assert stand.loader.tables_left == 0
    stand.loader.load(T)
    assert stand.reads() == ()


def test_event_takes_a_table_out_of_the_background() -> None:
    stand = Stand()
    stand.loader.load(T)
    stand.loader.load(U)
    stand.event(changed(T))
    assert stand.loader.tables_left == 1
    assert [[name for name, *_ in wanted(read)] for read in stand.reads()] == [["t"], ["u"]]


def test_background_skips_what_is_pending_anyway() -> None:
    stand = Stand()
    stand.loader.load(T)
    stand.listed(T)
    (read,) = stand.reads()
    assert wanted(read) == [("t", False, False, ())], "its pieces, and no read of it beside them"


def test_table_that_is_gone_is_loaded_no_more() -> None:
    stand = Stand()
    stand.loader.load(T)
    stand.listed(U, "a")
    stand.loader.discard(T)
    stand.loader.discard(U)
    assert stand.loader.tables_left == 0
    assert stand.reads() == ()


# -- failures


def test_metastore_that_is_away_is_left_alone_for_a_while_that_grows() -> None:
    stand = Stand(T)
    stand.event(changed(T))
    pauses = []
    for _ in range(6):
        stand.failed(stand.read(), away=True)
        deadline = stand.loader.deadline()
        assert deadline is not None
        pauses.append(round(deadline - stand.now, 3))
        assert stand.reads() == ()
        stand.now = deadline
    assert pauses == [0.2, 0.4, 0.8, 1.6, AWAY_S_MAX, AWAY_S_MAX]
    stand.done(stand.read())
    stand.event(changed(T))
    stand.poll()
    stand.failed(stand.read(), away=True)
    assert stand.loader.deadline() == stand.now + RETRY_S, "an answer ends it"


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
    assert stand.failed(first) == (Withdraw(db="d", table="t", error="corrupt"),)
    assert stand.loader.oldest_unpublished() == NEVER, "nobody waits for it any longer"
    stand.now += RETRY_S_MAX
    assert wanted(stand.read()) == [("t", True, True, ())]


def withdrawn(stand: Stand) -> None:
    """Let the table ``t`` be refused until it is withdrawn."""
    stand.event(changed(T))
    for _ in range(REFUSED_TRIES_MAX + 1):
        effects = stand.failed(stand.read())
        stand.now += RETRY_S_MAX
    assert [type(effect) for effect in effects] == [Withdraw]


def test_event_of_a_withdrawn_table_is_tried_at_once_and_holds_nobody_up() -> None:
    """Given a table that cannot be read, when it changes again, then syncs do not wait for it."""
    stand = Stand(T)
    withdrawn(stand)
    stand.now -= RETRY_S_MAX
    stand.event(changed(T))
    (effect,) = stand.failed(stand.read())
    assert isinstance(effect, Withdraw), "who waits for it is told"
    assert stand.loader.oldest_unpublished() == NEVER


def test_withdrawn_table_is_tried_for_ever() -> None:
    stand = Stand(T)
    withdrawn(stand)
    for _ in range(1100):
        stand.failed(stand.read())
        stand.now += RETRY_S_MAX
    stand.done(stand.read())
    assert tables_of(stand.poll()) == ["t"]


def test_unreadable_database_is_never_withdrawn() -> None:
    stand = Stand()
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
