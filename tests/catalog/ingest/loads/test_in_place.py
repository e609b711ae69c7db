"""What an event says of an object is applied where it is proved to be so; else it is read."""

import json
from collections.abc import Callable

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import (
    Database,
    Order,
    Partition,
    PrincipalPrivilegeSet,
    PrivilegeGrantInfo,
    SkewedInfo,
    Table,
)
from hypothesis import given
from hypothesis import strategies as st
from thrift.protocol.TJSONProtocol import TJSONProtocolFactory
from thrift.TSerialization import serialize

from topicast.catalog.ingest.events.thrift_json import parsed, struct_bytes
from topicast.catalog.ingest.loads.in_place import SAID_BYTES_MAX
from topicast.catalog.metastore.port import Read
from topicast.tests.cluster.alone import Alone, loaded, part
from topicast.tests.cluster.fake_metastore import (
    from_thrift,
    make_partition,
    make_table,
    thrift_bytes,
    thrift_json,
)
from topicast.topics.comparison import same_struct
from topicast.topics.errors import WireError

TURNS = 4
Change = Callable[[Alone], object]


def table_of(core: Alone) -> Table:
    value = core.catalog.tables.value(("d", "t"))
    assert value is not None
    return from_thrift(Table, value.thrift)


def is_as_in_the_metastore(core: Alone) -> bool:
    """Return whether the table and its partitions are held as the metastore has them."""
    value, source = core.catalog.tables.value(("d", "t")), core.metastore
    there = source.tables("d", ["t"])["t"]
    parts = source.partitions("d", "t", source.partition_names("d", "t"))
    held = dict(core.catalog.tables.structs(("d", "t"), core.partitions()))
    assert value is not None
    return (
        same_struct(value.thrift, there)
        and held.keys() == parts.keys()
        and all(same_struct(held[name], parts[name]) for name in parts)
    )


def adds(core: Alone) -> object:
    return core.add(core.metastore.get_table("d", "t"), "3", "4")


def alters(core: Alone, **parameters: str) -> object:
    one = part(core.metastore.get_table("d", "t"), "1", **(parameters or {"rev": "1"}))
    return core.metastore.alter_partitions("d", "t", [one])


def moves(core: Alone) -> object:
    one = core.metastore.get_partition("d", "t", ["1"])
    one.sd.location = "file:/elsewhere"
    return core.metastore.alter_partitions("d", "t", [one])


def renames(core: Alone) -> object:
    one = core.metastore.get_partition("d", "t", ["1"])
    one.values = ["9"]
    return core.metastore.rename_partition("d", "t", ["1"], one)


def drops(core: Alone) -> object:
    return core.metastore.drop_partition("d", "t", ["1"], False)


def describes(core: Alone) -> object:
    table = core.metastore.get_table("d", "t")
    table.parameters["comment"] = "said"
    return core.metastore.alter_table("d", "t", table)


def several(core: Alone) -> object:
    adds(core)
    alters(core)
    alters(core, rev="2")
    core.metastore.drop_partition("d", "t", ["3"], False)
    return describes(core)


@pytest.mark.parametrize("change", [adds, alters, moves, renames, drops, describes, several])
def test_change_is_applied_without_a_call(core: Alone, change: Change) -> None:
    before = core.catalog.tables.entry(("d", "t"))
    core.effects.clear()
    change(core)
    core.turn(TURNS)
    assert not [one for one in core.effects if isinstance(one, Read)]
    assert is_as_in_the_metastore(core)
    after = core.catalog.tables.entry(("d", "t"))
    assert before is not None
    assert after is not None
    assert (after.data_version > before.data_version) is (change not in (describes, adds))
    assert core.catalog.counts.events_in_place == core.catalog.counts.events - EARLIER


EARLIER = 3  # events: of the database, the table and its partitions


def test_changes_of_one_batch_are_one_change_of_the_table(core: Alone) -> None:
    before = len(core.committed)
    several(core)
    core.turn(TURNS)
    assert len(core.committed) == before + 1


@pytest.mark.parametrize("change", [adds, alters, drops, describes])
def test_where_events_may_leave_parameters_out_objects_are_read(change: Change) -> None:
    core = loaded()
    core.metastore.tells = False
    core.metastore.connections += 1
    core.turn(6)
    change(core)
    core.turn(6)
    assert is_as_in_the_metastore(core)
    assert core.catalog.counts.events_in_place == 0


def test_object_that_was_not_as_the_event_says_is_read(core: Alone) -> None:
    """Given a change that left no event."""
    core.metastore.logs = False
    alters(core, unseen="1")
    core.metastore.logs = True
    alters(core, rev="1", unseen="1")
    core.turn(6)
    assert is_as_in_the_metastore(core)
    assert core.catalog.counts.events_in_place == 0


def test_partition_with_column_statistics_is_read_after_a_rename(core: Alone) -> None:
    """Hive 3.1 writes the event, and then the statistics under the new name."""
    alters(core, COLUMN_STATS_ACCURATE="{}")
    core.turn(6)
    renames(core)
    core.metastore.logs = False
    one = core.metastore.get_partition("d", "t", ["9"])
    one.parameters["COLUMN_STATS_ACCURATE"] = '{"COLUMN_STATS":{"a":"true"}}'
    core.metastore.alter_partitions("d", "t", [one])
    core.metastore.logs = True
    core.turn(6)
    assert is_as_in_the_metastore(core)


def test_partition_of_another_shape_than_the_others_is_read(core: Alone) -> None:
    core.add(core.metastore.get_table("d", "t"), "3", numRows="7")
    core.turn(6)
    assert is_as_in_the_metastore(core)
    assert core.catalog.counts.events_in_place == 0


def alters_all(core: Alone, **parameters: str) -> None:
    """Give each partition a parameter, as statistics do after partitions were added."""
    table = core.metastore.get_table("d", "t")
    found = [core.metastore.get_partition("d", "t", [value]) for value in "12"]
    for one in found:
        made = part(table, one.values[0], **(parameters or {"numRows": "7"}))
        core.metastore.alter_partitions("d", "t", [made])


def reads(core: Alone) -> bool:
    """Add partitions; return whether catalogd reads them."""
    core.effects.clear()
    adds(core)
    core.turn(6)
    assert is_as_in_the_metastore(core)
    return any(isinstance(one, Read) for one in core.effects)


def test_partition_of_a_shape_that_partitions_had_before_a_change_is_not_read(
    core: Alone,
) -> None:
    alters_all(core)
    core.turn(TURNS)
    assert not reads(core)


def test_partition_of_any_shape_that_partitions_had_before_several_changes_is_not_read(
    core: Alone,
) -> None:
    alters_all(core)
    core.turn(TURNS)
    alters_all(core, numRows="7", numFiles="1")
    core.turn(TURNS)
    assert not reads(core)


def test_shape_that_was_seen_on_another_connection_proves_nothing(core: Alone) -> None:
    """Given a metastore that may have been replaced by another release."""
    alters_all(core)
    core.turn(TURNS)
    core.metastore.connections += 1
    core.turn(6)
    assert reads(core)


def test_shape_that_partitions_of_a_dropped_table_had_proves_nothing(core: Alone) -> None:
    alters_all(core)
    core.turn(TURNS)
    core.metastore.drop_table("d", "t", False)
    core.create("d", "t", "ds")
    core.turn(6)
    assert reads(core)


def test_more_bytes_of_messages_than_a_turn_can_take_are_read(core: Alone) -> None:
    """Given two changes in one batch, of which the second has what the first has made."""
    for letter in "xy":
        table = core.metastore.get_table("d", "t")
        table.parameters["comment"] = letter * (SAID_BYTES_MAX // 2)
        core.metastore.alter_table("d", "t", table)
    core.turn(8)
    assert is_as_in_the_metastore(core)
    assert core.catalog.counts.events_in_place == 1


def test_event_that_comes_late_is_not_applied(core: Alone) -> None:
    """P-EVENT: an event of an id that is not above the last id may have an old object."""
    alters(core, rev="1")
    old = core.metastore.current_event_id()
    core.turn(TURNS)
    alters(core, rev="2")
    core.turn(TURNS)
    read = core.catalog.counts.events_in_place
    core.metastore.log_late(old)
    core.turn(8)
    assert is_as_in_the_metastore(core)
    assert core.catalog.counts.events_in_place == read


def test_event_of_a_table_that_is_being_read_is_not_applied(core: Alone) -> None:
    core.catalogd.hold(Read)
    core.add(core.metastore.get_table("d", "t"), "3", numRows="7")
    core.turn(TURNS)
    alters(core)
    core.turn(TURNS)
    assert core.catalog.counts.events_in_place == 0
    core.catalogd.resume()
    core.turn(8)
    assert is_as_in_the_metastore(core)


@pytest.mark.parametrize(
    "struct",
    [
        make_table("d", "t", location="file:/w/ü", keys=("ds", "hour")),
        make_partition(make_table("d", "t", location="file:/w", keys=("ds",)), ["1"]),
    ],
)
def test_json_of_an_event_becomes_the_bytes_that_the_metastore_returns(
    struct: Table | Partition,
) -> None:
    assert same_struct(struct_bytes(parsed(thrift_json(struct))), thrift_bytes(struct))


def table_of_every_type() -> Table:
    """Return a table whose struct has a field of each type that Hive's have."""
    table = make_table("d", 'ä"\\', location="file:/w/\n", keys=("ds", "hour"))
    table.temporary, table.writeId = True, -1
    table.sd.sortCols = [Order("a", 1)]
    table.sd.skewedInfo = SkewedInfo(["a"], [["1", "2"], []], {})
    grant = PrivilegeGrantInfo("ALL", 1, "ann", 1, grantOption=False)
    table.privileges = PrincipalPrivilegeSet({"bob": [grant, grant]}, {}, None)
    return table


@pytest.mark.parametrize(
    "struct",
    [
        table_of_every_type(),
        make_partition(table_of_every_type(), ["1", ""]),
        Database("d", None, "file:/w", {"a": "1"}),
    ],
)
def test_json_of_the_metastore_in_memory_is_that_of_thrift(struct: object) -> None:
    written = serialize(struct, TJSONProtocolFactory()).decode()
    assert thrift_json(struct) == written


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.text() | st.integers().map(str), JSON))
def test_json_that_is_no_struct_is_refused(found: dict[str, object]) -> None:
    try:
        struct_bytes(found)
    except WireError:
        return
    assert all(key.lstrip("+- ").strip().isdigit() or "_" in key for key in found)


def test_struct_that_nests_too_deep_is_refused() -> None:
    deep: dict[str, object] = {}
    for _ in range(200):
        deep = {"1": {"rec": deep}}
    with pytest.raises(WireError, match="nests deeper"):
        struct_bytes(deep)
    with pytest.raises(WireError):
        parsed("[" * 100_000)
    with pytest.raises(WireError):
        parsed(json.dumps([1]))
