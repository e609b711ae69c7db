"""Aliases: a write of a table changes the others in its folder, and no more than these."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Table

from topicast.catalog.ingest.writes.locations import TABLES_IN_MAX
from topicast.catalog.model.versions import Commit
from topicast.tests.cluster.alone import Alone
from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.keys import client
from topicast.topics.keys.clients import Client
from topicast.topics.objects.names import group_of, table_of
from topicast.topics.policy import Policy
from topicast.topics.streams.sender import SendTo
from topicast.topics.topic import NAMESPACE, PREFIX
from topicast.topics.wire.messages.catalog import Sync, Synced
from topicast.topics.wire.messages.data import (
    SOURCE_EVENTS,
    SOURCE_ORDERS,
    SOURCE_OVERWRITES,
    SOURCE_REPORTS,
)
from topicast.topics.wire.messages.reports import OVERWRITTEN, WRITTEN, Report, Reported, Write

PLACES = {
    "twin": "/w/d/days",
    "staging": "file:///w/d/days/ds=2/",
    "other": "/w/d/other",
    "above": "/w/d/up",
    "below": "/w/d/up/a/b",
}


@pytest.fixture
def core() -> Alone:
    """``days`` has two partitions in its folder, ``odd`` a partition in each of two others."""
    core = Alone()
    for db in ("d", "hidden"):
        core.create_database(db)
    days = core.create("d", "days", "ds")
    for value in ("1", "2"):
        place(core, days, value, f"file:/w/d/days/ds={value}")
    for name, location in PLACES.items():
        core.metastore.create_table(make_table("d", name, location=location))
    core.metastore.create_table(make_table("hidden", "copy", location="/w/d/other"))
    table = core.create("d", "odd", "ds")
    for value, location in (("x", "/w/d/days/ds=1"), ("y", "/w/d/odd/by_hand")):
        place(core, table, value, location)
    core.metastore.create_table(make_table("d", "hand", location="/w/d/odd/by_hand"))
    core.turn(20)
    return core


def place(core: Alone, table: Table, value: str, location: str) -> None:
    """Add a partition that lies at ``location``."""
    partition = make_partition(table, [value])
    partition.sd.location = location
    core.metastore.add_partitions([partition])


def changed(
    core: Alone, write: Callable[[], object], *, source: int = SOURCE_EVENTS
) -> dict[str, int]:
    """Return how often the data version of each table was raised, or the table vanished."""
    before = len(core.committed)
    write()
    core.turn(20)
    found: dict[str, int] = {}
    for one in core.committed[before:]:
        for entry in one.entries if one.topic != NAMESPACE else ():
            own = entry.key == group_of(entry.key) and entry.data_version == entry.version
            if own or entry.kind == PREFIX:
                assert one.source == source
                name = ".".join(table_of(group_of(entry.key))).removeprefix("d.")
                found[name] = found.get(name, 0) + 1
    return found


def partition_of(core: Alone, table: str, value: str) -> Callable[[], object]:
    """Return what writes a partition, as Hive does."""
    partition = core.metastore.get_partition("d", table, [value])
    return lambda: core.metastore.alter_partitions("d", table, [partition])


def table_of_name(core: Alone, name: str) -> Callable[[], object]:
    table = core.metastore.get_table("d", name)
    return lambda: core.metastore.alter_table("d", name, table)


def reported(
    core: Alone, wanted: str, *partitions: str, state: int = WRITTEN, sender: Client | None = None
) -> Callable[[], object]:
    write = Write(number=1, state=state, object=wanted, partitions=partitions)
    report = Report(request=4, driver=bytes(16), metastore="", finished=0, writes=(write,))
    return lambda: core.ask(report, client=sender or client())


ONCE = {
    "partition ds=1": (lambda core: partition_of(core, "days", "1"), "days twin odd"),
    "partition ds=2": (lambda core: partition_of(core, "days", "2"), "days twin staging"),
    "partition elsewhere": (lambda core: partition_of(core, "odd", "x"), "odd days twin"),
    "partition by hand": (lambda core: partition_of(core, "odd", "y"), "odd hand"),
    "table by hand": (lambda core: table_of_name(core, "hand"), "hand odd"),
    "table": (lambda core: table_of_name(core, "days"), "days twin staging odd"),
    "staging": (lambda core: table_of_name(core, "staging"), "staging days twin"),
    "above": (lambda core: table_of_name(core, "above"), "above below"),
    "below": (lambda core: table_of_name(core, "below"), "below above"),
    "dropped": (
        lambda core: lambda: core.metastore.drop_table("d", "twin", True),
        "twin days staging odd",
    ),
    "dropped partition": (
        lambda core: lambda: core.metastore.drop_partition("d", "odd", ["x"], True),
        "odd days twin",
    ),
}


@pytest.mark.parametrize(("write", "names"), ONCE.values(), ids=ONCE)
def test_event_changes_everything_at_in_or_above_what_was_written_once(
    core: Alone, write: Callable[[Alone], Callable[[], object]], names: str
) -> None:
    """P-REPORT-9."""
    assert changed(core, write(core)) == dict.fromkeys(names.split(), 1)


def test_partition_that_is_added_in_the_folder_of_a_table_may_have_come_with_its_files(
    core: Alone,
) -> None:
    table = core.metastore.get_table("d", "odd")
    found = changed(core, lambda: place(core, table, "z", "/w/d/days/ds=2"))
    assert found == {"staging": 1, "days": 1, "twin": 1}


def test_table_that_gets_a_partition_as_its_neighbour_is_written_changes_too(core: Alone) -> None:
    """P-REPORT-9. Given both in one batch of events."""
    table, write = core.metastore.get_table("d", "odd"), partition_of(core, "days", "1")

    def both() -> None:
        place(core, table, "z", "/elsewhere")
        write()

    assert changed(core, both) == {"days": 1, "twin": 1, "odd": 1}


def test_described_table_changes_no_other(core: Alone) -> None:
    table = core.metastore.get_table("d", "days")
    table.parameters["comment"] = "by day"
    assert changed(core, lambda: core.metastore.alter_table("d", "days", table)) == {}


@pytest.mark.parametrize(
    ("wanted", "partitions", "names"),
    [
        ("d.days", ("ds=1",), "days twin odd"),
        ("d.days", ("ds=2/",), "days twin staging"),
        ("d.days", (), "days twin staging odd"),
        ("d.odd", ("ds=x",), "odd days twin"),
        ("/w/d/days/ds=1/part-0", (), "days twin odd"),
        ("/w/d/up/a/b", (), "below above"),
    ],
)
def test_report_by_name_or_by_path_changes_the_same_tables(
    core: Alone, wanted: str, partitions: tuple[str, ...], names: str
) -> None:
    """P-REPORT-9."""
    write = reported(core, wanted, *partitions)
    assert changed(core, write, source=SOURCE_REPORTS) == dict.fromkeys(names.split(), 1)


def test_overwrite_is_of_the_other_tables_of_the_folder_too(
    core: Alone,
) -> None:
    write = reported(core, "d.staging", state=OVERWRITTEN)
    found = changed(core, write, source=SOURCE_OVERWRITES)
    assert found == {"staging": 1, "days": 1, "twin": 1}


def test_table_that_is_written_as_its_neighbour_is_overwritten_is_overwritten_as_well(
    core: Alone,
) -> None:
    """P-REPORT-9. Given that both come in one report."""
    states = {"d.twin": WRITTEN, "d.staging": OVERWRITTEN}
    writes = [
        Write(number=number, state=state, object=name, partitions=())
        for number, (name, state) in enumerate(states.items(), 1)
    ]
    before = len(core.committed)
    core.ask(
        Report(request=4, driver=bytes(16), metastore="", finished=0, writes=tuple(writes)),
        client=client(),
    )
    core.turn(20)
    commits = [one for one in core.committed[before:] if one.topic != NAMESPACE]
    overwritten = {
        entry.key
        for one in commits
        for entry in one.entries
        if one.source == SOURCE_OVERWRITES and entry.data_version == entry.version
    }
    assert overwritten == {b"d\0staging\0", b"d\0days\0", b"d\0twin\0"}


def test_refresh_that_an_operator_orders_changes_the_others_too(core: Alone) -> None:
    found = changed(core, lambda: core.order("refresh", "d.staging", "data"), source=SOURCE_ORDERS)
    assert found == {"staging": 1, "days": 1, "twin": 1}


def test_report_changes_a_table_that_its_key_does_not_see_and_tells_nothing_of_it(
    core: Alone,
) -> None:
    """P-REPORT-9."""
    driver = replace(client(), policy=Policy(("d",)))
    found = changed(core, reported(core, "d.other", sender=driver), source=SOURCE_REPORTS)
    assert found == {"other": 1, "hidden.copy": 1}
    (verdict,) = core.reply(Reported).outcomes
    number, topic = core.catalog.tables.topic_of(("d", "other"))
    own = core.catalog.tables.entry(("d", "other"))
    assert own is not None
    assert (verdict.topic, verdict.version, verdict.problem) == (number, own.version, "")
    assert topic.version >= own.version


@pytest.mark.parametrize("more", [0, 1])
def test_folder_of_many_tables_is_no_tables_data(core: Alone, more: int) -> None:
    """Given a table at a warehouse, then its writes and those of the others are apart."""
    names = [f"in_{number}" for number in range(TABLES_IN_MAX + more)]
    for name in names:
        core.metastore.create_table(make_table("d", name, location=f"/warehouse/{name}"))
    for name in ("root", "root_too"):
        core.metastore.create_table(make_table("d", name, location="/warehouse"))
    core.turn(20)
    apart = {"root": 1, "root_too": 1}
    assert changed(core, table_of_name(core, "root")) == (
        apart if more else apart | dict.fromkeys(names, 1)
    )
    assert changed(core, table_of_name(core, "in_3")) == ({"in_3": 1} | ({} if more else apart))


@pytest.mark.parametrize("restarts", [False, True])
def test_tables_beside_change_in_the_commit_of_the_write_also_after_a_start(
    core: Alone, restarts: bool
) -> None:
    """P-REPORT-9. Given a catalogd that reads no entry for it."""
    if restarts:
        core.restart()
        core.turn(10)
    del core.effects[:]
    partition_of(core, "days", "1")()
    core.ask(Sync(request=9))
    core.turn(20)
    (keys,) = (
        {entry.key for one in effect.transactions for entry in one.entries}
        for effect in core.effects
        if isinstance(effect, Commit) and effect.transactions
    )
    assert {b"d\0days\0", b"d\0twin\0", b"d\0odd\0"} <= keys
    (commit,) = (at for at, one in enumerate(core.effects) if isinstance(one, Commit))
    (synced,) = (
        at
        for at, effect in enumerate(core.effects)
        if isinstance(effect, SendTo) and isinstance(effect.message, Synced)
    )
    assert commit < synced
