"""FollowRules: tables that are not followed stay as read, and the parameter itself is followed."""

from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database, Table

from topicast.catalog.follow.name_listing import Lifecycle
from topicast.catalog.ingest.loads.follow_rules import PARAMETER
from topicast.tests.cluster.alone import Alone
from topicast.tests.cluster.fake_metastore import FakeMetastore, copied
from topicast.topics.objects.selector import ALL
from topicast.topics.wire.messages.catalog import Pull, Pulled, Sync, Synced


def core_with(*, off: str = "", database: str = "", **settings: Any) -> Alone:
    """Return a catalogd that has read ``d.t``: ds=1; each parameter is as given, if it is."""
    core = Alone(**settings)
    parameters = {PARAMETER: database} if database else {}
    core.metastore.create_database(Database("d", "", "file:/w/d", parameters))
    table = core.create("d", "t", "ds")
    core.add(table, "1")
    if off:
        set_off(core, "t", off)
    core.turn(20)
    return core


def set_off(core: Alone, name: str, value: str | None, *, rename: str = "") -> None:
    """Set the parameter of a table, or remove it, and perhaps rename the table."""
    table: Table = copied(core.metastore.get_table("d", name))
    table.parameters.pop(PARAMETER, None)
    if value is not None:
        table.parameters[PARAMETER] = value
    table.tableName = rename or name
    core.metastore.alter_table("d", name, table)


def set_database_off(core: Alone, value: str) -> None:
    database = Database("d", "", "file:/w/d", {PARAMETER: value})
    core.metastore.alter_database("d", database)


def add(core: Alone, *values: str, name: str = "t") -> None:
    core.add(core.metastore.get_table("d", name), *values)


def skipped(core: Alone) -> int:
    return core.catalog.counts.events_sync_off


@pytest.mark.parametrize(
    ("table", "database", "default", "is_off"),
    [
        ("", "", False, False),
        ("", "", True, True),
        ("", "true", False, True),
        ("", "false", True, False),
        ("true", "", False, True),
        ("true", "false", False, True),
        ("false", "true", True, False),
        ("TRUE", "", False, True),
        ("yes", "true", True, False),
    ],
)
def test_table_is_off_by_its_own_parameter_then_its_databases_then_the_flag(
    table: str, database: str, default: bool, is_off: bool
) -> None:
    core = core_with(off=table, database=database, sync_off_by_default=default)
    core.order("refresh", "d.t")
    before = skipped(core)
    add(core, "2")
    core.wait(2)
    assert core.partitions() == (["ds=1"] if is_off else ["ds=1", "ds=2"])
    assert core.catalog.follow_rules.is_off(("d", "t")) is is_off
    assert skipped(core) - before == int(is_off)


def test_events_of_a_table_that_is_off_are_counted_and_no_sync_waits_for_them() -> None:
    core = core_with(off="true")
    before = skipped(core)
    core.metastore.calls.clear()
    add(core, "2")
    core.metastore.drop_partition("d", "t", ["1"], False)
    core.answer_to(Sync(request=3), Synced, turns=10)
    assert (core.partitions(), skipped(core) - before) == (["ds=1"], 2)
    assert {"tables", "partitions"}.isdisjoint(core.metastore.calls), "nothing is read for them"


def test_a_table_that_is_off_is_answered_as_it_was_and_refreshed_once_by_an_order() -> None:
    core = core_with(off="true")
    add(core, "2")
    core.wait(2)
    pull = Pull(request=4, db="d", table="t", selector=ALL, credit=1 << 20)
    assert core.answer_to(pull, Pulled, turns=4).entries
    core.order("refresh", "d.t")
    assert core.partitions() == ["ds=1", "ds=2"]
    add(core, "3")
    core.wait(2)
    assert core.partitions() == ["ds=1", "ds=2"], "once"


@pytest.mark.parametrize("value", [None, "false"])
def test_turned_on_again_that_table_alone_is_read_whole(value: str | None) -> None:
    core = core_with(off="true")
    core.add(core.create("d", "other", "ds"), "1")
    core.wait(2)
    add(core, "2", "3")
    core.metastore.drop_partition("d", "t", ["1"], False)
    core.wait(2)
    core.effects.clear()
    set_off(core, "t", value)
    core.answer_to(Sync(request=3), Synced, turns=10)
    assert core.partitions() == ["ds=2", "ds=3"]
    read = {(one.db, one.table) for order in core.reads for one in getattr(order, "requests", ())}
    assert read == {("d", "t")}
    add(core, "4")
    core.wait(2)
    assert core.partitions() == ["ds=2", "ds=3", "ds=4"]


def test_a_table_that_was_created_while_it_was_off_appears_once_it_is_turned_on() -> None:
    """The trace of IMPALA-10987: an event of a table that the catalog does not have."""
    core = core_with(database="true")
    table = core.create("d", "u", "ds")
    core.add(table, "7")
    core.wait(2)
    assert core.tables() == ["t"]
    set_off(core, "u", "false")
    core.wait(2)
    assert (core.tables(), core.partitions("d", "u")) == (["t", "u"], ["ds=7"])
    set_off(core, "u", "true")
    set_off(core, "u", "false")
    core.metastore.drop_table("d", "u", False)
    core.wait(2)
    assert core.tables() == ["t"]
    assert core.catalog.listing.lifecycle is Lifecycle.SERVING


def test_table_that_was_made_again_while_it_was_off_is_another_table_once_it_is_on() -> None:
    core = core_with(off="true")
    born = core.catalog.namespace.find(("d", "t"))
    core.metastore.drop_table("d", "t", False)
    core.wait(2)
    assert core.tables() == ["t"], "as of the last read"
    core.add(core.create("d", "t", "ds"), "9")
    core.wait(2)
    assert core.partitions() == ["ds=9"], "the new one does not say that it is off"
    again = core.catalog.namespace.find(("d", "t"))
    assert born is not None
    assert again is not None
    assert again.incarnation > born.incarnation


def test_renamed_while_it_is_off_it_stays_until_it_is_on() -> None:
    core = core_with(off="true")
    set_off(core, "t", "true", rename="u")
    core.wait(2)
    assert core.tables() == ["t"]
    set_off(core, "u", "false")
    core.wait(2)
    assert core.partitions("d", "u") == ["ds=1"]
    core.order("refresh", "d.t")
    assert core.tables() == ["u"], "the order sees that it is gone"


def test_renamed_and_turned_on_in_one_event_both_names_are_right() -> None:
    core = core_with(off="true")
    set_off(core, "t", None, rename="u")
    core.wait(2)
    assert (core.tables(), core.partitions("d", "u")) == (["u"], ["ds=1"])


def test_a_database_that_is_turned_on_has_the_tables_read_that_do_not_say_otherwise() -> None:
    core = core_with(database="true")
    set_off(core, "t", None)
    core.create("d", "kept", "ds")
    set_off(core, "kept", "true")
    core.order("refresh", "d")
    table = core.create("d", "new", "ds")
    core.add(table, "5")
    add(core, "2")
    add(core, "2", name="kept")
    core.wait(2)
    assert core.tables() == ["kept", "t"]
    set_database_off(core, "false")
    core.answer_to(Sync(request=3), Synced, turns=20)
    assert core.tables() == ["kept", "new", "t"]
    assert core.partitions() == ["ds=1", "ds=2"]
    assert core.partitions("d", "new") == ["ds=5"]
    assert core.partitions("d", "kept") == []


def test_a_table_that_is_as_new_as_its_database_is_followed_if_that_says_so() -> None:
    core = core_with(sync_off_by_default=True)
    core.metastore.create_database(Database("e", "", "file:/w/e", {PARAMETER: "false"}))
    core.add(core.create("e", "t", "ds"), "1")
    core.answer_to(Sync(request=3), Synced, turns=20)
    assert (core.tables("e"), core.partitions("e")) == (["t"], ["ds=1"])


def test_a_gap_in_the_events_changes_nothing_that_is_off_and_follows_the_parameter() -> None:
    core = core_with(off="true")
    core.add(core.create("d", "u", "ds"), "1")
    core.wait(2)
    add(core, "2")
    add(core, "2", name="u")
    core.metastore.clean_log(core.metastore.current_event_id())
    core.create("d", "w")
    core.wait(5)
    assert (core.partitions(), core.partitions("d", "u")) == (["ds=1"], ["ds=1", "ds=2"])
    set_off(core, "t", "false")
    core.metastore.clean_log(core.metastore.current_event_id())
    core.create("d", "x")
    core.wait(5)
    assert core.partitions() == ["ds=1", "ds=2"]
    assert core.tables() == ["t", "u", "w", "x"]


def test_a_comparison_with_the_metastore_leaves_what_is_off_as_it_is() -> None:
    core = core_with(database="true")
    core.create("d", "hidden", "ds")
    add(core, "2")
    core.metastore.drop_partition("d", "t", ["1"], False)
    table = core.metastore.get_table("d", "t")
    table.owner = "another"
    core.metastore.alter_table("d", "t", table)
    before = core.catalog.tables.value(("d", "t"))
    core.wait(150)
    assert (core.tables(), core.partitions()) == (["t"], ["ds=1"])
    assert core.catalog.tables.value(("d", "t")) == before
    assert core.catalog.reconciliation.counts.differing == 0, "nothing is even read again"
    assert core.catalog.reconciliation.counts.rounds > 0
    assert core.catalog.reconciliation.counts.drift == 0
    assert core.catalog.differences.source_problem is None
    core.restart()
    core.wait(150)
    assert (core.tables(), core.partitions(), core.catalog.differences.source_problem) == (
        ["t"],
        ["ds=1"],
        None,
    )


def test_a_comparison_finds_that_a_table_is_followed_again_though_no_event_has_said_so() -> None:
    core = core_with(off="true")
    core.metastore.logs = False
    set_off(core, "t", "false")
    core.metastore.logs = True
    add(core, "2")
    core.wait(200)
    assert core.partitions() == ["ds=1", "ds=2"]


def test_events_without_the_table_go_by_what_is_held() -> None:
    core = core_with(off="true")
    before = skipped(core)
    core.metastore.log_unknown("SOME_LATER_EVENT", "d", "t")
    core.wait(2)
    assert skipped(core) == before + 1
    assert isinstance(core.metastore, FakeMetastore)


def test_a_commit_of_a_table_that_is_off_is_left_out() -> None:
    """As IMPALA-12829 asks: the events of transactions obey, too."""
    core = core_with(off="true")
    before = core.commits[-1].window
    core.metastore.log_transaction("d", "t", 7)
    core.wait(2)
    assert skipped(core) > 0
    versions = core.catalog.version_log.versions()
    core.metastore.log_transaction("d", "t", 8)
    core.answer_to(Sync(request=3), Synced, turns=10)
    assert core.catalog.version_log.versions() == versions
    assert core.commits[-1].window != before
