"""Orders of events that have broken other followers of a metastore: several arrive in one poll."""

from collections.abc import Callable

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import FireEventRequest, FireEventRequestData

from topicast.tests.cluster.alone import Alone, loaded, part
from topicast.tests.cluster.fake_metastore import FakeMetastore
from topicast.topics.comparison import same_struct

SETTLED_S = 3.0


def agrees(core: Alone) -> bool:
    """Return whether everything that is held is as the metastore has it now."""
    there = core.metastore
    databases = {db for db in there.databases() if core.catalog.settings.follows(db)}
    if databases != {*core.catalog.namespace.databases()}:
        return False
    return all(_agrees_on(core, db) for db in sorted(databases))


def _agrees_on(core: Alone, db: str) -> bool:
    there = core.metastore
    names = sorted(name for name, _ in there.table_names(db))
    if names != core.tables(db):
        return False
    structs = there.tables(db, names)
    for name in names:
        value = core.catalog.tables.value((db, name))
        parts = there.partitions(db, name, there.partition_names(db, name))
        held = dict(core.catalog.tables.structs((db, name), [*parts]))
        if value is None or not same_struct(value.thrift, structs[name]):
            return False
        if held.keys() != parts.keys() or core.partitions(db, name) != sorted(parts):
            return False
        if not all(same_struct(held[one], parts[one]) for one in parts):
            return False
    return True


def rename(core: Alone, old: str, new: str, *, db: str = "d") -> None:
    table = core.metastore.get_table("d", old)
    table.dbName, table.tableName = db, new
    core.metastore.alter_table("d", old, table)


def alters_then_drops(core: Alone) -> None:
    table = core.metastore.get_table("d", "t")
    table.owner = "ann"
    core.metastore.alter_table("d", "t", table)
    core.metastore.drop_table("d", "t", False)


def creates_and_drops_again_and_again(core: Alone) -> None:
    for number in range(100):
        core.add(core.create("d", "u", "ds"), str(number))
        core.metastore.drop_table("d", "u", False)
    core.add(core.create("d", "u", "ds"), "last")


def creates_under_the_name_that_a_rename_has_left(core: Alone) -> None:
    rename(core, "t", "u")
    core.add(core.create("d", "t", "ds"), "9")


def swaps_the_names_of_two_tables(core: Alone) -> None:
    core.add(core.create("d", "u", "ds"), "7")
    for old, new in (("t", "x"), ("u", "t"), ("x", "u")):
        rename(core, old, new)


def renames_there_and_back(core: Alone) -> None:
    rename(core, "t", "u")
    rename(core, "u", "t")


def renames_into_another_database_and_drops_the_first(core: Alone) -> None:
    core.create_database("e")
    rename(core, "t", "t", db="e")
    core.metastore.drop_database("d", False, True)


def writes_into_a_table_and_drops_its_database(core: Alone) -> None:
    core.add(core.create("d", "u", "ds"), "1")
    insert(core, "u", "1")
    core.metastore.drop_database("d", False, True)


def drops_a_database_and_makes_it_again(core: Alone) -> None:
    core.metastore.drop_database("d", False, True)
    core.create_database("d")
    core.add(core.create("d", "t", "ds"), "3")


def drops_a_partition_and_adds_it_again(core: Alone) -> None:
    core.metastore.drop_partition("d", "t", ["1"], False)
    core.add(core.metastore.get_table("d", "t"), "1", rev="new")


def adds_drops_and_alters_one_partition_and_another(core: Alone) -> None:
    table = core.metastore.get_table("d", "t")
    core.add(table, "3", "4")
    core.metastore.alter_partitions("d", "t", [part(table, "3", n="1")])
    core.metastore.rename_partition("d", "t", ["4"], part(table, "5"))
    core.metastore.drop_partition("d", "t", ["3"], False)


def inserts_into_what_is_dropped(core: Alone) -> None:
    insert(core, "t", "1")
    core.metastore.drop_partition("d", "t", ["1"], False)
    insert(core, "t", "2")
    core.metastore.drop_table("d", "t", False)


def creates_in_a_database_that_no_event_has_told_of(core: Alone) -> None:
    core.metastore.logs = False
    core.create_database("e")
    core.metastore.logs = True
    core.add(core.create("e", "t", "ds"), "1")


def alters_what_no_event_has_told_of(core: Alone) -> None:
    core.metastore.logs = False
    table = core.create("d", "u", "ds")
    core.metastore.logs = True
    core.add(table, "1")


def insert(core: Alone, name: str, value: str) -> None:
    core.metastore.fire_listener_event(
        FireEventRequest(True, FireEventRequestData(), "d", name, [value])
    )


@pytest.mark.parametrize("tells", [False, True], ids=["read", "in place"])
@pytest.mark.parametrize(
    "happens",
    [
        alters_then_drops,
        creates_and_drops_again_and_again,
        creates_under_the_name_that_a_rename_has_left,
        swaps_the_names_of_two_tables,
        renames_there_and_back,
        renames_into_another_database_and_drops_the_first,
        writes_into_a_table_and_drops_its_database,
        drops_a_database_and_makes_it_again,
        drops_a_partition_and_adds_it_again,
        adds_drops_and_alters_one_partition_and_another,
        inserts_into_what_is_dropped,
        creates_in_a_database_that_no_event_has_told_of,
        alters_what_no_event_has_told_of,
    ],
)
def test_whatever_order_events_have_what_is_held_is_as_the_metastore_has_it(
    happens: Callable[[Alone], None], tells: bool
) -> None:
    source = FakeMetastore()
    source.tells = tells
    core = loaded(source=source, reconcile_calls_per_s=0)
    happens(core)
    core.wait(SETTLED_S)
    assert agrees(core)
    assert core.reasons == {}
