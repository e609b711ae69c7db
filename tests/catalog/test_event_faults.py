"""A metastore whose log or clock is not as it should be: what is held equals it all the same.

Faults of the metastore and its log, and the test of each:

    killed in the middle of an answer    tests/integration/test_metastore_faults.py
    it fails or hangs, sends rubbish     the same
    an event that it cannot send         test_core.py, catalog/metastore/test_damaged.py (real)
    events of ids that are lost          here; tests/sim/scenarios/events_lost_from_the_log.txt
    a log that was cleaned               test_core.py, catalog/metastore/test_replaced.py (real)
    ids twice, events that come late     ingest/events/test_event_window.py (drawn; eight writers)
    its counter goes back                ingest/events/test_event_window.py, tests/sim
    its database is put back             tests/sim/scenarios/metastore_put_back*.txt
    times of events in no order          here
    more events than were asked for      here
    a message cut, mutated, a bomb       ingest/events/test_corpus.py
    a message of 100 MB                  ingest/loads/test_light.py; test_large_event.py (real)
    names that differ in case only       here
    schemas of 32,000 characters         here
    a view on a table that is dropped    here
    catalogd's wall clock jumps          here
    catalogd dies before it has stored   here; at any effect: tests/sim (trouble)
    its store is an older copy           integration/test_faults.py, tests/sim (restored_store)
    all of it, drawn, on real parts      test_machine.py in tests/integration and in tests/spark
"""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import FieldSchema

from topicast.catalog.core import Commit
from topicast.catalog.effects import Effect
from topicast.catalog.ingest.events.poller import TURN_EVENTS_MAX
from topicast.tests.cluster.alone import Alone
from topicast.tests.cluster.fake_metastore import TIME_S, copied, make_table
from topicast.topics.wire.messages.catalog import Sync, Synced

DAY_S = 86_400.0
WIDE_CHARS = 32_000
BEHIND = 6 * TURN_EVENTS_MAX  # events: of six polls, if polls read no more than usual


class Died(Exception):
    """catalogd's process has ended."""


def sync(core: Alone) -> None:
    core.answer_to(Sync(request=9), Synced, turns=20)


@pytest.mark.parametrize("lost", [{1}, {2}, {3}, {1, 3}, {1, 2, 3}], ids=str)
def test_what_lost_events_have_told_is_held_after_a_sync(core: Alone, lost: set[int]) -> None:
    core.turn(100)
    last = core.metastore.current_event_id()
    core.metastore.lost = {last + one for one in lost}
    core.create("d", "u")
    core.metastore.drop_table("d", "t", False)
    core.create("d", "v")
    sync(core)
    assert core.tables() == ["u", "v"]
    gaps = 2 if lost == {1, 3} else 1  # the newest event is missing once it alone was asked for
    assert core.catalog.counts.event_gaps == gaps


@pytest.mark.parametrize(
    "times_s",
    [lambda id_: TIME_S - 3_600 * id_, lambda id_: TIME_S * (id_ % 2), lambda _id: -1],
    ids=["backwards", "to and fro", "before 1970"],
)
def test_times_of_events_do_not_matter(core: Alone, times_s: Callable[[int], int]) -> None:
    core.metastore.times_s = times_s
    for value in "345":
        core.add(core.metastore.get_table("d", "t"), value)
        core.metastore.drop_partition("d", "t", [str(int(value) - 2)], False)
    sync(core)
    assert core.partitions() == ["ds=4", "ds=5"]


def test_more_events_than_were_asked_for_are_all_taken_once(core: Alone) -> None:
    core.turn(100)
    core.metastore.cuts = False
    events = core.catalog.counts.events
    table = core.create("d", "many", "ds")
    for number in range(3_000):
        core.add(table, f"{number:04}")
    sync(core)
    assert len(core.partitions("d", "many")) == 3_000
    assert core.catalog.counts.events == events + 3_001


@pytest.mark.parametrize("kind", ["of the table", "of a partition", "both, in turns"])
def test_backlog_of_many_events_of_one_table_is_read_a_few_times(core: Alone, kind: str) -> None:
    """Nothing of it is applied in place; 3,000 events are three polls."""
    core.turn(100)
    core.metastore.calls.clear()
    for number in range(3_000):
        if kind == "of a partition" or (number % 2 and kind != "of the table"):
            one = core.metastore.get_partition("d", "t", ["1"])
            one.parameters["rev"] = str(number)
            core.metastore.alter_partitions("d", "t", [one])
        else:
            table = core.metastore.get_table("d", "t")
            table.parameters["rev"] = str(number)
            core.metastore.alter_table("d", "t", table)
    sync(core)
    assert core.catalog.counts.events >= 3_000
    reads = [call for call in core.metastore.calls if call in {"tables", "partitions"}]
    assert len(reads) <= 6


def test_behind_by_many_events_polls_read_more_and_each_turn_takes_a_part(core: Alone) -> None:
    """Hive 2.3 reads all events for each poll, however few are asked for."""
    core.turn(100)
    table, events = core.create("d", "many", "ds"), core.catalog.counts.events
    for number in range(BEHIND):
        core.add(table, f"{number:05}")
    core.metastore.calls.clear()
    taken = [core.catalog.counts.events]
    core.ask(Sync(request=9))
    while core.catalog.counts.events < events + BEHIND + 1:
        core.step()
        core.run(core.now + 0.01)
        taken.append(core.catalog.counts.events)
    steps = [after - before for before, after in pairwise(taken)]
    assert max(steps) <= 2 * TURN_EVENTS_MAX, "of two turns"
    assert core.metastore.calls.count("events_after") <= 4
    core.turn(20)
    core.reply(Synced)
    assert len(core.partitions("d", "many")) == BEHIND


def test_events_of_an_absence_are_read_by_as_few_polls_as_hold_them(core: Alone) -> None:
    """Hive 2.3 reads all behind an id, also for the check of which metastore answers."""
    core.turn(100)
    table = core.create("d", "many", "ds")
    sync(core)
    core.catalogd.crash()
    for number in range(BEHIND):
        core.add(table, f"{number:05}")
    read = core.metastore.events_read
    core.catalogd.revive()
    while core.catalog.counts.events < BEHIND:
        core.step()
        core.run(core.now + 0.01)
    assert core.metastore.events_read - read <= 1.1 * BEHIND
    sync(core)
    assert len(core.partitions("d", "many")) == BEHIND
    assert core.catalog.counts.event_gaps == 0


@pytest.mark.parametrize("what", ["a pause", "a crash", "another connection"])
def test_events_that_no_turn_has_taken_are_read_again(core: Alone, what: str) -> None:
    core.turn(100)
    table = core.create("d", "many", "ds")
    for number in range(3 * TURN_EVENTS_MAX):
        core.add(table, f"{number:04}")
    before = core.catalog.counts.events
    while core.catalog.counts.events < before + 2 * TURN_EVENTS_MAX:
        core.step()
        core.run(core.now + 0.01)
    if what == "a crash":
        core.restart()
    elif what == "a pause":
        core.order("events", "pause")
        core.wait(3)
        core.order("events", "start")
    else:
        core.metastore.connections += 1
    core.turn(40)
    sync(core)
    assert len(core.partitions("d", "many")) == 3 * TURN_EVENTS_MAX


def test_names_in_another_case_are_those_of_the_same_object(core: Alone) -> None:
    """Hive keeps names in lower case; its messages may have them as the client wrote them."""
    core.turn(100)
    held = core.metastore.get_table("d", "t")
    shouted = copied(held)
    shouted.dbName, shouted.tableName, shouted.parameters = "D", "T", {"rev": "1"}
    core.metastore.log_as(
        "ALTER_TABLE", "D", "T", tableObjBeforeJson=held, tableObjAfterJson=shouted
    )
    core.metastore.log_as("CREATE_TABLE", "D", "NEW", tableObjJson=shouted)
    sync(core)
    assert core.tables() == ["t"]


def test_schema_of_32000_characters_is_held_as_it_is(core: Alone) -> None:
    table = core.metastore.get_table("d", "t")
    wide = f"struct<{','.join(f'f{n}:int' for n in range(WIDE_CHARS // 9))}>"
    assert len(wide) >= WIDE_CHARS
    table.sd.cols.append(FieldSchema("w", wide, ""))
    core.metastore.alter_table("d", "t", table)
    sync(core)
    value = core.catalog.tables.value(("d", "t"))
    assert value is not None
    assert wide.encode() in value.thrift


def test_view_stays_as_it_is_when_its_table_is_dropped(core: Alone) -> None:
    view = make_table("d", "seen", location="")
    view.tableType, view.sd.location = "VIRTUAL_VIEW", None
    view.viewOriginalText = view.viewExpandedText = "select * from d.t"
    core.metastore.create_table(view)
    sync(core)
    core.metastore.drop_table("d", "t", False)
    sync(core)
    assert core.tables() == ["seen"]
    view.parameters = {"rev": "1"}
    core.metastore.alter_table("d", "seen", view)
    sync(core)
    held = core.catalog.tables.value(("d", "seen"))
    assert held is not None
    assert b"rev" in held.thrift


@pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S, -400 * DAY_S], ids=["on", "back", "far back"])
def test_wall_clock_that_jumps_holds_up_no_change_and_turns_no_version_back(
    core: Alone, jump_s: float
) -> None:
    table, before = core.metastore.get_table("d", "t"), core.catalog.position
    core.wall_s += jump_s
    core.add(table, "3")
    sync(core)
    assert core.partitions() == ["ds=1", "ds=2", "ds=3"]
    core.restart()
    core.wall_s -= 2 * jump_s
    core.metastore.drop_partition("d", "t", ["1"], False)
    core.turn(20)
    sync(core)
    assert core.partitions() == ["ds=2", "ds=3"]
    assert core.catalog.position > before


def test_catalogd_that_dies_before_it_has_stored_what_it_applied_applies_it_again(
    core: Alone,
) -> None:
    """Readers were sent nothing of it."""

    def die(effect: Effect) -> None:
        if isinstance(effect, Commit):
            raise Died

    core.add(core.metastore.get_table("d", "t"), "3")
    published = len(core.published)
    core.catalogd.performing.append(die)
    with pytest.raises(Died):
        core.turn(20)
    core.catalogd.performing.remove(die)
    assert len(core.published) == published
    core.restart()
    core.turn(20)
    sync(core)
    assert core.partitions() == ["ds=1", "ds=2", "ds=3"]
