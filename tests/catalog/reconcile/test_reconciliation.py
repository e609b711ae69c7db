"""What differs from the metastore without an event is found, read again and counted."""

from collections.abc import Callable, Sequence

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database, Partition, Table

from topicast.catalog.follow.notes import Noted
from topicast.catalog.ingest.events.event_window import WINDOW_S
from topicast.catalog.ingest.events.poller import Poll
from topicast.catalog.ingest.loads.chunked_comparison import OTHER_BYTES_COST
from topicast.catalog.ingest.loads.follow_rules import PARAMETER
from topicast.catalog.metastore.port import COMPARING, ListNames, Read, ReadDone, TableRead
from topicast.catalog.reconcile.held import PARTITIONS_PER_SLICE, Held
from topicast.catalog.reconcile.progress import STOPPED_S
from topicast.catalog.reconcile.reconciliation import (
    CALLS_PER_S_DEFAULT,
    NAMES_S,
    ROUND_S,
)
from topicast.tests.cluster.alone import Alone, loaded, part
from topicast.tests.cluster.fake_metastore import FakeMetastore, from_thrift, thrift_bytes
from topicast.topics.errors import SourceError
from topicast.topics.objects.selector import ALL
from topicast.topics.wire.messages.catalog import Pull
from topicast.topics.wire.messages.data import SOURCE_RECONCILIATION

ROUND = NAMES_S + 10  # until all objects of a small metastore have been compared once


def table_of(core: Alone, name: str = "t") -> Table:
    value = core.catalog.tables.value(("d", name))
    assert value is not None
    return from_thrift(Table, value.thrift)


def partition_of(core: Alone, part: str) -> Partition:
    ((_, struct),) = core.catalog.tables.structs(("d", "t"), [part])
    return from_thrift(Partition, struct)


def comparisons(core: Alone) -> list[Read]:
    return [one for one in core.effects if isinstance(one, Read) and one.read == COMPARING]


def owner_changes(core: Alone, name: str = "t", owner: str = "ann") -> None:
    table = core.metastore.get_table("d", name)
    table.owner = owner
    core.metastore.alter_table("d", name, table)


def partition_changes(core: Alone) -> None:
    partition = core.metastore.get_partition("d", "t", ["2"])
    partition.parameters = {"numRows": "7"}
    core.metastore.alter_partitions("d", "t", [partition])


@pytest.mark.parametrize(
    ("change", "shown", "name"),
    [
        (
            owner_changes,
            lambda core: table_of(core).owner == "ann",
            "table d.t (owner: 'tester' -> 'ann')",
        ),
        (
            partition_changes,
            lambda core: partition_of(core, "ds=2").parameters == {"numRows": "7"},
            "partition ds=2 of table d.t (parameters[numRows]: none -> '7')",
        ),
    ],
)
def test_object_that_changes_without_an_event_is_read_again_and_counted(
    core: Alone, change: Callable[[Alone], None], shown: Callable[[Alone], bool], name: str
) -> None:
    core.metastore.logs = False
    change(core)
    core.wait(ROUND)
    assert shown(core)
    assert core.committed[-1].source == SOURCE_RECONCILIATION
    core.wait(2 * WINDOW_S)
    counts = core.catalog.reconciliation.counts
    assert (counts.differing, counts.drift) == (1, 1)
    assert [one for one in core.effects if isinstance(one, Noted)] == [
        Noted(text=f"{name} changed without an event, and was read again", trouble=False)
    ]
    assert core.reasons == {}, "statistics leave no event on Hive 2.3: no fault"


def test_database_that_changes_without_an_event_is_read_again(core: Alone) -> None:
    core.create_database("e")
    core.wait(2)
    core.metastore.logs = False
    core.metastore.drop_database("e", False, True)
    core.metastore.create_database(Database("e", "said", "file:/w/e", {"a": "b"}))
    core.wait(ROUND + 2 * WINDOW_S)
    struct = core.catalog.namespace.database("e")
    assert struct is not None
    assert from_thrift(Database, struct).description == "said"
    assert core.catalog.reconciliation.counts.drift == 1


def test_how_the_comparison_goes_is_told(core: Alone) -> None:
    core.wait(ROUND + ROUND_S)
    found = core.catalog.status().reconciliation
    assert (found.waits, found.has_stopped, found.error) == ("", False, "")
    assert found.ended_s is not None
    assert found.ended_s < ROUND_S
    assert found.took_s is not None
    assert 0 < found.took_s < 10
    assert 0 < found.calls_per_s <= CALLS_PER_S_DEFAULT
    core.order("events", "pause")
    core.wait(STOPPED_S + NAMES_S)
    found = core.catalog.status().reconciliation
    assert (found.waits, found.late_s) == ("events are paused", 0.0)


def test_comparison_that_is_not_answered_is_a_reason_of_the_verdict_until_it_is(
    core: Alone,
) -> None:
    core.wait(ROUND)
    core.catalogd.hold(ListNames)
    core.wait(NAMES_S + STOPPED_S - 20)
    assert core.reasons == {}
    core.wait(30)
    assert core.reasons["comparison_stopped"].startswith("nothing that is held has been compared")
    core.catalogd.resume()
    core.wait(2)
    assert core.reasons == {}


def test_metastore_that_refuses_to_list_is_named_with_what_it_says(core: Alone) -> None:
    core.wait(ROUND)
    core.metastore.unreadable["d"] = "java.lang.OutOfMemoryError"
    core.wait(2 * NAMES_S + STOPPED_S)
    assert "java.lang.OutOfMemoryError" in core.reasons["comparison_stopped"]


def test_nothing_is_published_or_read_again_where_nothing_differs(core: Alone) -> None:
    versions = core.catalog.version_log.versions()
    core.wait(ROUND + ROUND_S)
    counts = core.catalog.reconciliation.counts
    assert (counts.differing, core.catalog.version_log.versions()) == (0, versions)
    assert counts.rounds >= 1
    assert counts.objects >= 4, "a database, a table and two partitions"


def test_change_whose_event_is_late_is_no_drift(core: Alone) -> None:
    core.catalogd.hold(Poll)
    owner_changes(core)
    partition_changes(core)
    core.wait(ROUND)
    core.catalogd.resume()
    core.wait(3 * WINDOW_S)
    counts = core.catalog.reconciliation.counts
    assert (table_of(core).owner, counts.drift) == ("ann", 0)
    assert counts.differing > 0


@pytest.mark.parametrize("count", [2, 2_500])
def test_every_partition_of_a_table_of_any_size_is_compared(count: int) -> None:
    core = loaded()
    core.add(core.metastore.get_table("d", "t"), *(f"{n:05d}" for n in range(count)))
    core.wait(5)
    core.metastore.logs = False
    last = f"{count - 1:05d}"
    partition = core.metastore.get_partition("d", "t", [last])
    partition.parameters = {"numRows": "7"}
    core.metastore.alter_partitions("d", "t", [partition])
    core.add(core.metastore.get_table("d", "t"), "new")
    core.wait(ROUND)
    assert partition_of(core, f"ds={last}").parameters == {"numRows": "7"}
    assert "ds=new" in core.partitions()


def test_tables_without_partitions_take_no_turns_of_their_own() -> None:
    """Given turns of 90 ms, of which an answer of 100 tables once took over a hundred."""
    core = Alone()
    core.create_database("d")
    for number in range(300):
        core.create("d", f"t{number:03d}")
    core.wait(NAMES_S + ROUND_S)
    found = core.catalog.status().reconciliation
    assert core.catalog.reconciliation.counts.objects > 300
    assert found.took_s is not None
    assert found.took_s < 10


def held_by(core: Alone) -> Held:
    """Return what the comparison of a catalogd compares, without its reads."""
    own = core.catalog
    return Held(
        own.namespace,
        own.tables,
        follows=own.settings.follows,
        every_table=own.namespace.every_table,
        pending=own.loader.pending,
        rules=own.follow_rules,
    )


@pytest.mark.parametrize(("owner", "slice_max", "differing"), [("tester", 100, 0), ("ann", 9, 100)])
def test_turn_compares_fewer_tables_if_they_must_be_decoded(
    owner: str, slice_max: int, differing: int
) -> None:
    core = Alone()
    core.create_database("d")
    for number in range(100):
        core.create("d", f"t{number}")
    core.wait(2)
    own, held = core.catalog, held_by(core)
    read = {}
    for row in own.namespace.tables("d"):
        table = table_of(core, row.name)
        table.owner = owner
        read["d", row.name] = TableRead(thrift=thrift_bytes(table))
    slices = [*held.compare(ReadDone(read=COMPARING, databases={}, tables=read))]
    assert max(map(len, slices)) <= slice_max
    assert sum(map(len, slices)) == differing
    assert len(slices) <= (2 if not differing else 13)


def test_names_that_no_event_told_are_found_among_thousands() -> None:
    core = Alone(load_in_background=False)
    core.create_database("d")
    for number in range(1_100):
        core.create("d", f"t{number:04d}")
    core.wait(2)
    core.metastore.logs = False
    core.create("d", "t0005x")
    core.metastore.drop_table("d", "t1050", False)
    core.wait(NAMES_S + 5)
    assert core.catalog.namespace.find(("d", "t0005x")) is not None
    assert core.catalog.namespace.find(("d", "t1050")) is None
    assert core.catalog.reconciliation.counts.differing == 2


def test_where_events_are_off_everything_converges() -> None:
    core = loaded(polling_interval_s=0.0)
    owner_changes(core)
    partition_changes(core)
    core.add(core.metastore.get_table("d", "t"), "3")
    core.create("d", "new")
    core.wait(ROUND + ROUND_S)
    assert (table_of(core).owner, core.tables()) == ("ann", ["new", "t"])
    assert core.partitions() == ["ds=1", "ds=2", "ds=3"]
    assert partition_of(core, "ds=2").parameters == {"numRows": "7"}
    assert {one.source for one in core.committed[-4:]} == {SOURCE_RECONCILIATION}
    core.metastore.drop_table("d", "t", False)
    core.wait(ROUND + ROUND_S)
    assert core.tables() == ["new"]
    assert core.catalog.reconciliation.suspects == {}


def test_tables_that_readers_request_are_compared_first() -> None:
    core = loaded(*(f"t{n:03d}" for n in range(250)))
    core.ask(Pull(request=4, db="d", table="t249", selector=ALL, credit=1 << 20))
    core.wait(2)
    core.effects.clear()
    core.wait(NAMES_S + 5)
    tables = [one for one in comparisons(core) if one.requests and one.requests[0].obj]
    assert [one.table for one in tables[0].requests] == ["t249"]


def test_calls_are_paced() -> None:
    core = loaded(*(f"t{n:03d}" for n in range(100)), reconcile_calls_per_s=1.0)
    core.wait(NAMES_S)
    core.effects.clear()
    core.wait(60)
    calls = core.catalog.reconciliation.counts.calls
    assert 40 <= calls <= 62


def test_nothing_is_compared_if_the_operator_wants_no_calls() -> None:
    core = loaded(reconcile_calls_per_s=0)
    core.wait(NAMES_S + ROUND_S)
    assert comparisons(core) == []
    assert not [one for one in core.effects if isinstance(one, ListNames)]


def test_call_that_fails_is_repeated(core: Alone) -> None:
    core.metastore.logs = False
    owner_changes(core)
    core.wait(NAMES_S - 1)
    core.metastore.failures += [SourceError("down")] * 3
    core.wait(ROUND)
    assert table_of(core).owner == "ann"


def test_table_that_is_refused_hides_no_other_of_its_call() -> None:
    core = loaded("t", "u", "v", "w")
    core.metastore.logs = False
    owner_changes(core, "w")
    core.metastore.unreadable["u"] = "broken"
    core.wait(ROUND + 20)
    assert table_of(core, "w").owner == "ann"
    assert list(core.catalog.loader.errors) == [("d", "u")]


def test_object_that_no_reader_understands_harms_no_other() -> None:
    """Given a metastore that returns a damaged struct of a partition that is held."""

    class Damaged(FakeMetastore):
        damages = False

        def partitions(self, db: str, table: str, names: Sequence[str]) -> dict[str, bytes]:
            found = super().partitions(db, table, names)
            cut = self.damages and table == "t"
            return {name: struct[:20] if cut else struct for name, struct in found.items()}

    source = Damaged()
    core = loaded("t", "u", source=source)
    source.logs, source.damages = False, True
    owner_changes(core, "u")
    core.wait(ROUND + 10)
    assert table_of(core, "u").owner == "ann"


@pytest.mark.parametrize("rule", [None, "true"], ids=["followed", "off"])
def test_table_whose_text_becomes_unreadable_is_refused_and_harms_no_other(
    rule: str | None,
) -> None:
    """Given bytes that are no UTF-8 in a table that is held, as no event has said."""

    class Damaged(FakeMetastore):
        damages = False

        def tables(self, db: str, names: Sequence[str]) -> dict[str, bytes]:
            found = super().tables(db, names)
            if self.damages and "t" in found:
                found["t"] = found["t"].replace(b"tester", b"test\xff\xff")
            return found

    source = Damaged()
    core = loaded("t", "u", source=source)
    if rule is not None:
        table = source.get_table("d", "t")
        table.parameters = {PARAMETER: rule}
        source.alter_table("d", "t", table)
        core.wait(2 * WINDOW_S)
    source.logs, source.damages = False, True
    owner_changes(core, "u")
    core.wait(ROUND + 20)
    assert table_of(core, "u").owner == "ann"
    assert list(core.catalog.loader.errors) == [("d", "t")]


@pytest.mark.parametrize(("written", "turns"), [(False, 2), (True, 2 + OTHER_BYTES_COST - 1)])
def test_turn_compares_fewer_partitions_if_they_must_be_decoded(written: bool, turns: int) -> None:
    core = Alone()
    core.create_database("d")
    table = core.create("d", "t", "ds")
    names = [f"{number:02}" for number in range(PARTITIONS_PER_SLICE)]
    core.add(table, *names)
    core.wait(2)
    parameters = {"a": "1"} if written else {}
    there = {f"ds={one}": thrift_bytes(part(table, one, **parameters)) for one in names}
    read = TableRead(partitions=there)
    compared = held_by(core).compare(
        ReadDone(read=COMPARING, databases={}, tables={("d", "t"): read})
    )
    slices = [*compared]
    assert len(slices) == 1 + turns
    assert len(slices[-1]) == (PARTITIONS_PER_SLICE if written else 0)
