"""The backlog: tables that need a resync come first, each once, some at a time."""

from topicast.catalog.ingest.loader import NEVER, TABLES_PER_READ_MAX, Backlog
from topicast.tests.catalog.ingest.loading import Stand, T, U, changed, tables_of

TABLES = [("d", f"t{number}") for number in range(6)]


def test_tables_that_need_a_resync_come_first_and_each_once() -> None:
    backlog = Backlog()
    for table in TABLES[:4]:
        backlog.add(table)
    backlog.resync(TABLES[3:], seq=7)
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
    assert backlog.seq == NEVER
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


# -- through the loader


def test_tables_of_a_resync_are_read_some_at_a_time_and_events_do_not_wait() -> None:
    tables = [("d", f"t{number:03d}") for number in range(3 * TABLES_PER_READ_MAX)]
    stand = Stand(*tables, reads_max=3)
    stand.loader.resync(tables, seq=5)
    first = stand.read()
    assert len(first.requests) == TABLES_PER_READ_MAX
    assert stand.loader.oldest_unpublished() == 5
    stand.event(changed(tables[-1]))
    event = stand.read()
    assert [want.table for want in event.requests] == [tables[-1][1]]
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


def test_what_was_read_before_a_resync_is_not_published() -> None:
    stand = Stand(T)
    stand.event(changed(T))
    read = stand.read()
    stand.listed(U, "a", "b")
    chunk = stand.read()
    stand.loader.resync([T, U], seq=9)
    stand.done(read)
    assert stand.done(chunk) == ()
    assert stand.poll() == ()


def test_table_of_a_resync_that_is_pulled_is_read_at_once() -> None:
    tables = [("d", f"t{number:03d}") for number in range(2 * TABLES_PER_READ_MAX)]
    stand = Stand(*tables, reads_max=3)
    stand.loader.resync(tables, seq=5)
    stand.read()
    stand.loader.load(tables[-1], urgent=True)
    assert [want.table for want in stand.read().requests] == [tables[-1][1]]
