"""Chunked loads: chunks are published while events come, and the table is complete at the end."""

import pytest

from topicast.catalog.ingest.chunked_load import (
    PARTITIONS_PER_READ_MAX,
    SLICE_MAX,
    SLICES_MAX,
    PublishPartitions,
)
from topicast.catalog.ingest.loader import (
    RETRY_S,
    RETRY_S_MAX,
    YIELD_S,
    CompleteLoad,
    PublishTables,
    Withdraw,
)
from topicast.catalog.ingest.reads import ReadDone, TableRead
from topicast.tests.catalog.ingest.loading import (
    Stand,
    T,
    U,
    changed,
    names_of,
    partitions,
    wanted,
)


def test_large_table_comes_in_chunks_and_is_complete_after_a_fence() -> None:
    names = [f"{number:05d}" for number in range(PARTITIONS_PER_READ_MAX + 1)]
    stand = Stand()
    stand.listed(T, *names)
    first = stand.read()
    assert wanted(first) == [("t", False, False, tuple(names[:-1]))]
    assert stand.reads() == (), "one chunk at a time"
    brought = names_of(stand.done(first))
    last = stand.read()
    assert stand.done(last) == ()
    assert stand.poll() == (), "what was read before is written before"
    while effects := stand.bring():
        brought += names_of(effects)
        assert (CompleteLoad(db="d", table="t") in effects) is (brought[-1] == (names[-1:], ()))
    assert [name for some, _ in brought for name in some] == names
    assert max(len(some) for some, _ in brought) == SLICE_MAX
    assert stand.loader.tables_left == 0


def test_what_is_read_and_not_written_is_bounded() -> None:
    stand = Stand()
    stand.listed(T, *(f"{number:05d}" for number in range(10 * PARTITIONS_PER_READ_MAX)))
    for _ in range(3):
        for read in stand.reads():
            stand.done(read)
    waiting = PARTITIONS_PER_READ_MAX // SLICE_MAX + SLICES_MAX
    written = 0
    while stand.bring():
        written += 1
    assert written <= waiting
    assert len(stand.reads()) == 1


def test_slices_of_several_tables_take_turns() -> None:
    stand = Stand()
    names = [f"{number:05d}" for number in range(3 * SLICE_MAX)]
    for table in (T, U):
        stand.listed(table, *names, "last")
        for read in stand.reads():
            stand.done(read)
    stand.poll()
    order = [
        one.table for _ in range(6) for one in stand.bring() if isinstance(one, PublishPartitions)
    ]
    assert order == ["t", "u"] * 3


def test_slices_come_less_often_while_events_are_on_their_way_and_go_on() -> None:
    stand = Stand(U)
    stand.listed(T, *(f"{number:05d}" for number in range(PARTITIONS_PER_READ_MAX)), "last")
    stand.done(stand.read())
    assert stand.bring()
    assert stand.loader.deadline() == 0.0, "at once"
    stand.event(changed(U))
    assert stand.bring()
    assert stand.bring() == ()
    assert stand.loader.deadline() == stand.now + YIELD_S
    stand.now += YIELD_S
    assert stand.bring()


def test_slices_of_a_table_that_changed_as_a_whole_are_not_written() -> None:
    stand = Stand()
    stand.listed(T, *(f"{number:05d}" for number in range(PARTITIONS_PER_READ_MAX)), "last")
    stand.done(stand.read())
    stand.event(changed(T, whole=True))
    assert stand.bring() == ()


def test_partition_that_changes_while_its_slice_waits_is_read_again_behind_it() -> None:
    stand = Stand()
    names = [f"{number:05d}" for number in range(PARTITIONS_PER_READ_MAX)]
    stand.listed(T, *names)
    read = stand.read()
    stand.done(read)
    brought = names_of(stand.poll())
    stand.event(partitions(T, names[-1]))
    again = stand.read()
    assert wanted(again) == [("t", False, False, (names[-1],))]
    while some := stand.bring():
        assert not any(isinstance(one, CompleteLoad) for one in some), "it is being read again"
        brought += names_of(some)
    stand.done(again)
    effects = stand.poll()
    brought += names_of(effects)
    assert brought[-1] == ([names[-1]], ())
    assert isinstance(effects[-1], CompleteLoad)
    assert sum(isinstance(one, CompleteLoad) for one in effects) == 1


def test_names_are_listed_first_where_they_are_not_known() -> None:
    stand = Stand()
    stand.loader.begin_chunked_load(T, None)
    read = stand.read()
    assert wanted(read) == [("t", False, True, ())]
    effects = stand.done(read, t=TableRead(names=("a", "b")))
    assert names_of(effects) == [([], ())]
    assert wanted(stand.read()) == [("t", False, False, ("a", "b"))]


def test_small_table_comes_with_its_names() -> None:
    stand = Stand()
    stand.loader.begin_chunked_load(T, None)
    read = stand.read()
    stand.done(read, t=TableRead(names=("a",), partitions={"a": b"p"}, whole=True))
    chunk, complete = stand.poll()
    assert names_of((chunk,)) == [(["a"], ())]
    assert isinstance(complete, CompleteLoad)


def test_chunk_that_an_event_overtook_is_read_again() -> None:
    stand = Stand()
    stand.listed(T, "a", "b")
    read = stand.read()
    stand.done(read)
    assert names_of(stand.poll(changed(T))) == [(["a", "b"], ())]
    again, object_read = sorted(stand.reads(), key=lambda one: one.requests[0].obj)
    assert wanted(again) == [("t", False, False, ("a", "b"))]
    assert wanted(object_read) == [("t", True, False, ())]


def test_chunk_is_not_read_again_for_a_partition_that_it_has_not_read() -> None:
    stand = Stand()
    stand.listed(T, "a", "b")
    read = stand.read()
    stand.event(partitions(T, "c"))
    stand.done(read)
    assert wanted(stand.read()) == [("t", False, False, ("c",))]


def test_listing_that_an_event_overtook_reads_again_what_it_brought() -> None:
    stand = Stand()
    stand.loader.begin_chunked_load(T, None)
    read = stand.read()
    stand.done(read, t=TableRead(names=("a",), partitions={"a": b"p"}, whole=True))
    assert names_of(stand.poll(partitions(T, "b"))) == [(["a"], ())]
    assert sorted(stand.read().requests[0].names) == ["a", "b"]


def test_partitions_that_change_while_their_table_loads_are_read_again_and_may_be_gone() -> None:
    stand = Stand()
    stand.listed(T, "a", "b")
    read = stand.read()
    stand.done(read)
    assert len(stand.poll(partitions(T, "c"))) == 1, "not complete without c"
    again = stand.read()
    assert wanted(again) == [("t", False, False, ("c",))]
    stand.done(again, t=TableRead())
    chunk, complete = stand.poll()
    assert names_of((chunk,)) == [([], ("c",))]
    assert isinstance(complete, CompleteLoad)


def test_table_is_not_complete_while_its_object_is_being_read() -> None:
    stand = Stand()
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
    object_, chunk_, complete = stand.poll()
    assert isinstance(object_, PublishTables)
    assert names_of((chunk_,)) == [([], ())]
    assert isinstance(complete, CompleteLoad)


def test_table_is_not_complete_before_the_fence_of_its_last_chunk() -> None:
    """Given a chunk that was published ahead, when nothing is left, then one more read follows."""
    stand = Stand()
    stand.listed(T, "a", "b")
    read = stand.read()
    stand.loader.mark_dirty((partitions(T, "c"),), seq=1)
    assert names_of(stand.done(read)) == [(["a", "b"], ())], "c is left to read"
    last = stand.read()
    assert stand.done(last) == ()
    assert isinstance(stand.poll()[-1], CompleteLoad)


def test_listing_without_a_name_is_complete_after_a_fence() -> None:
    stand = Stand()
    stand.loader.begin_chunked_load(T, None)
    assert names_of(stand.done(stand.read(), t=TableRead(names=()))) == [([], ())]
    assert stand.done(stand.read()) == ()
    assert isinstance(stand.poll()[-1], CompleteLoad)


def test_event_of_the_whole_table_ends_its_load() -> None:
    stand = Stand()
    stand.listed(T, "a")
    read = stand.read()
    stand.event(changed(T, whole=True))
    assert stand.done(read) == ()
    assert stand.poll() == (), "of a load that has ended"
    assert wanted(stand.read()) == [("t", True, True, ())]


@pytest.mark.parametrize("away", [True, False])
def test_failure_of_a_load_that_has_ended_changes_nothing(away: bool) -> None:
    stand = Stand()
    stand.listed(T, "a")
    read = stand.read()
    stand.loader.discard(T)
    assert stand.failed(read, away=away) == ()
    assert not stand.loader.pending(T)


@pytest.mark.parametrize("found", [None, TableRead()])
def test_table_that_vanished_while_it_was_listed_is_read_again(found: TableRead | None) -> None:
    stand = Stand()
    stand.loader.begin_chunked_load(T, None)
    read = stand.read()
    tables = {} if found is None else {T: found}
    stand.loader.on_read_done(ReadDone(read=read.read, databases={}, tables=tables))
    assert stand.loader.pending(T)
    assert wanted(stand.read()) == [("t", True, True, ())]


def test_chunks_are_read_again_when_the_metastore_is_back() -> None:
    stand = Stand()
    stand.listed(T, "a", "b")
    stand.failed(stand.read(), away=True)
    assert stand.loader.deadline() == stand.now + RETRY_S
    stand.now += RETRY_S
    assert wanted(stand.read()) == [("t", False, False, ("a", "b"))]


def test_chunk_that_is_refused_withdraws_its_table_and_is_tried_ever_more_slowly() -> None:
    stand = Stand()
    stand.loader.load(T, urgent=True)
    pauses = []
    for _ in range(10):
        stand.done(stand.read(), t=TableRead(thrift=b"t", names=("a",)))
        (effect,) = stand.poll()
        assert isinstance(effect, PublishTables)
        stand.loader.begin_chunked_load(T, ("a",), refused=effect.needs[T].refused)
        assert stand.failed(stand.read()) == (Withdraw(db="d", table="t", error="corrupt"),)
        assert stand.reads() == ()
        deadline = stand.loader.deadline()
        assert deadline is not None
        pauses.append(deadline - stand.now)
        stand.now = deadline
    assert pauses == sorted(pauses)
    assert pauses[0] < 1 < RETRY_S_MAX == pytest.approx(pauses[-1])
