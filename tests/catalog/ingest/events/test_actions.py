"""What each operation on a metastore makes dirty, on the fake and on the real one."""

import gzip
import json
from base64 import b64encode
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import (
    Database,
    FieldSchema,
    FireEventRequest,
    FireEventRequestData,
    InsertEventRequestData,
    Partition,
    Table,
)
from hypothesis import given
from hypothesis import strategies as st

from topicast.catalog.ingest.events.actions import decode, dirty_objects, is_known
from topicast.catalog.metastore.port import (
    Dirty,
    DirtyDatabase,
    DirtyPartitions,
    DirtyTable,
    RawEvent,
)
from topicast.tests.cluster.fake_metastore import (
    Place,
    make_partition,
    make_table,
    raw_event,
    thrift_json,
)
from topicast.topics.errors import WireError

KNOWN = (
    *("CREATE_DATABASE", "DROP_DATABASE", "ALTER_DATABASE"),
    *("CREATE_TABLE", "DROP_TABLE", "ALTER_TABLE", "RELOAD"),
    *("ADD_PARTITION", "DROP_PARTITION", "ALTER_PARTITION", "ALTER_PARTITIONS", "INSERT"),
)
TABLE = make_table("db", "t", location="file:/t", keys=("ds",))
PARTITION = make_partition(TABLE, ["1"])


def dirt_after(place: Place, write: Callable[[], object]) -> list[Dirty]:
    before = place.reads.current_event_id()
    write()
    events = place.reads.events_after(before, events_max=1_000)
    return [dirt for event in events for dirt in dirty_objects(event)]


def raw(kind: str, body: object, *, db: str = "db", table: str = "t", how: str = "") -> RawEvent:
    message = body if isinstance(body, str) else json.dumps(body)
    how = how or "json-0.2"
    return raw_event(1, table, kind=kind, db=db, message=message, message_format=how)


def insert_into(db: str, table: str, values: list[str] | None) -> FireEventRequest:
    data = FireEventRequestData(InsertEventRequestData(filesAdded=[]))
    return FireEventRequest(True, data, db, table, values)


@pytest.mark.parametrize("kind", KNOWN)
def test_event_of_another_catalog_makes_nothing_dirty(kind: str) -> None:
    ours = raw(kind, "no JSON")
    assert dirty_objects(ours)
    assert dirty_objects(replace(ours, catalog="other")) == ()


def test_database_dropped_with_its_tables_drops_each_of_them(place: Place) -> None:
    db = f"{place.db}_full"
    database = Database(db, "", f"{place.location}_full", {})
    created = dirt_after(place, lambda: place.writes.create_database(database))
    assert created == [DirtyDatabase(db=db)]
    for name in ("one", "two"):
        table = make_table(db, name, location=f"{place.location}_full/{name}", keys=("p",))
        place.writes.create_table(table)
    found = dirt_after(place, lambda: place.writes.drop_database(db, True, True))
    tables = [DirtyTable(db=db, table=name, whole=True, dropped=True) for name in ("one", "two")]
    assert sorted(found[:-1], key=repr) == tables
    assert found[-1] == DirtyDatabase(db=db)


@pytest.mark.parametrize("name", ["t", "Mixed"])
def test_created_and_dropped_table_is_dirty_as_a_whole_in_lower_case(
    place: Place, name: str
) -> None:
    found = dirt_after(place, lambda: place.table(name, "ds"))
    whole = DirtyTable(db=place.db, table=name.lower(), whole=True)
    assert found == [whole]
    found = dirt_after(place, lambda: place.writes.drop_table(place.db, name, True))
    assert found == [replace(whole, dropped=True)], "its incarnation ends"


ENDS = {"CREATE_TABLE", "DROP_TABLE", "ALTER_TABLE"}  # an alteration may be a rename
COLUMN = FieldSchema("c", "int", "")
STATISTICS = "spark.sql.statistics.totalSize"
MOVED = {"whole": True, "data": True}
WRITTEN = {"data": True}


@pytest.mark.parametrize("cascade", [False, True])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda table: table.sd.cols.append(COLUMN), MOVED),
        (lambda table: setattr(table.sd, "location", table.sd.location + "_2"), MOVED),
        (lambda table: table.parameters.update(comment="new"), {}),
        (lambda table: setattr(table, "owner", "new"), {}),
        (lambda table: table.parameters.update({STATISTICS: "1"}), WRITTEN),
        (lambda table: table.parameters.update({STATISTICS: "1", "comment": "new"}), WRITTEN),
        (lambda table: table.parameters.update(last_commit_time_sync="2"), WRITTEN),
        (lambda table: table.parameters.update(transient_lastDdlTime="1"), WRITTEN),
        (lambda table: None, WRITTEN),
    ],
    ids=[
        "columns",
        "location",
        "comment",
        "owner",
        "statistics",
        "statistics and comment",
        "commit of a table format",
        "time",
        "nothing",
    ],
)
def test_altered_table_is_dirty_as_far_as_it_changed(
    place: Place, change: Callable[[Table], object], expected: dict[str, bool], cascade: bool
) -> None:
    place.writes.add_partitions([make_partition(place.table("t", "ds"), ["1"])])
    table = place.writes.get_table(place.db, "t")
    change(table)
    alter = place.writes.alter_table_with_cascade
    found = dirt_after(place, lambda: alter(place.db, "t", table, cascade))
    assert found == [DirtyTable(db=place.db, table="t", **expected)]


@pytest.mark.parametrize("moved", [False, True])
def test_renamed_table_leaves_the_old_name_and_takes_the_new(place: Place, moved: bool) -> None:
    other = f"{place.db}_other"
    place.writes.create_database(Database(other, "", f"{place.location}_other", {}))
    place.table("t", "ds")
    table = place.writes.get_table(place.db, "t")
    table.dbName, table.tableName = (other, "t") if moved else (place.db, "renamed")
    found = dirt_after(place, lambda: place.writes.alter_table(place.db, "t", table))
    place.writes.drop_database(other, True, True)
    assert found == [
        DirtyTable(db=place.db, table="t", whole=True, dropped=True),
        DirtyTable(db=table.dbName, table=table.tableName, whole=True),
    ]


def test_added_partitions_are_named_as_the_metastore_names_them(place: Place) -> None:
    table = place.table("t", "Zone", "day")
    new = [make_partition(table, ["a/b", day]) for day in ("1", "2%")]
    found = dirt_after(place, lambda: place.writes.add_partitions(new))
    (dirt,) = found
    assert dirt == DirtyPartitions(
        db=place.db, table="t", names=("zone=a%2Fb/day=1", "zone=a%2Fb/day=2%25")
    )
    assert sorted(place.reads.partition_names(place.db, "t")) == sorted(dirt.names)


def test_altered_renamed_and_dropped_partitions_are_named_and_the_last_has_no_data_any_more(
    place: Place,
) -> None:
    table, db, writes = place.table("t", "zone", "day"), place.db, place.writes
    writes.add_partitions([make_partition(table, ["x", day]) for day in ("1", "2")])
    altered = [writes.get_partition(db, "t", ["x", day]) for day in ("1", "2")]
    for partition in altered:
        partition.parameters["k"] = "v"
    renamed = deepcopy(altered[0])
    renamed.values = ["Y z", "2"]
    found = dirt_after(place, lambda: writes.alter_partitions(db, "t", altered))
    found += dirt_after(place, lambda: writes.rename_partition(db, "t", ["x", "1"], renamed))
    found += dirt_after(place, lambda: writes.drop_partition(db, "t", ["x", "2"], True))
    first, second, third = "zone=x/day=1", "zone=x/day=2", "zone=Y z/day=2"
    assert [dirt.names for dirt in found] == [(first,), (second,), (first, third), (second,)]
    assert found[-1].data


@pytest.mark.parametrize(
    ("change", "data"),
    [
        (lambda partition: None, True),
        (lambda partition: partition.parameters.update(transient_lastDdlTime="1"), True),
        (lambda partition: partition.parameters.update(numFiles="1"), True),
        (lambda partition: partition.parameters.update(comment="new"), False),
        (lambda partition: setattr(partition.sd, "location", f"{partition.sd.location}_2"), True),
    ],
    ids=["nothing", "time", "statistics", "comment", "location"],
)
def test_altered_partition_is_written_unless_its_event_shows_that_it_was_described(
    place: Place, change: Callable[[Partition], object], data: bool
) -> None:
    table, db = place.table("t", "ds"), place.db
    place.writes.add_partitions([make_partition(table, ["1"])])
    place.writes.alter_partitions(db, "t", [place.writes.get_partition(db, "t", ["1"])])
    altered = place.writes.get_partition(db, "t", ["1"])  # with the statistics of now
    change(altered)
    found = dirt_after(place, lambda: place.writes.alter_partitions(db, "t", [altered]))
    assert found == [DirtyPartitions(db=db, table="t", names=("ds=1",), data=data)]


def test_insert_changes_data_of_the_table_or_of_the_partition(place: Place) -> None:
    table = place.table("parted", "zone", "day")
    place.table("plain")
    place.writes.add_partitions([make_partition(table, ["x", "1"])])
    fire = place.writes.fire_listener_event
    into = insert_into(place.db, "parted", ["x", "1"])
    assert dirt_after(place, lambda: fire(into)) == [
        DirtyPartitions(db=place.db, table="parted", names=("zone=x/day=1",), data=True)
    ]
    into = insert_into(place.db, "plain", None)
    assert dirt_after(place, lambda: fire(into)) == [
        DirtyTable(db=place.db, table="plain", data=True)
    ]


def _with(struct: str, **fields: object) -> str:
    """Replace fields of a Thrift object in JSON; ``f7`` is field 7, None takes it away."""
    changed = json.loads(struct) | {name[1:]: value for name, value in fields.items()}
    return json.dumps({number: value for number, value in changed.items() if value is not None})


def _altered(after: str) -> tuple[str, dict[str, Any]]:
    return "ALTER_TABLE", {"tableObjBeforeJson": thrift_json(TABLE), "tableObjAfterJson": after}


def _added(keys: object) -> tuple[str, dict[str, Any]]:
    table = _with(thrift_json(TABLE), f8=keys)
    return "ADD_PARTITION", {"tableObjJson": table, "partitions": [{"ds": "1"}]}


def _inserted(values: object) -> tuple[str, dict[str, Any]]:
    partition = _with(thrift_json(PARTITION), f1=values)
    return "INSERT", {"tableObjJson": thrift_json(TABLE), "ptnObjJson": partition}


def _dropped(keys: tuple[str, ...], values: dict[str, str]) -> tuple[str, dict[str, Any]]:
    table = make_table("db", "t", location="file:/t", keys=keys)
    return "DROP_PARTITION", {"tableObjJson": thrift_json(table), "partitions": [values]}


RETYPED = deepcopy(TABLE)
RETYPED.partitionKeys[0].type = "int"
BARE = _with(thrift_json(TABLE), f9=None)  # no parameters
TABLES_ALIKE = _altered(thrift_json(TABLE))[1]
HIVE_3 = {"tableObjJson": thrift_json(TABLE), "ptnObjJson": thrift_json(PARTITION)}
PARTITIONS_ALIKE = {
    "tableObjJson": thrift_json(TABLE),
    "keyValues": {"ds": "1"},
    "partitionObjBeforeJson": thrift_json(PARTITION),
    "partitionObjAfterJson": thrift_json(PARTITION),
}
ONE = {"db": "db", "table": "t", "names": ("ds=1",)}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (raw("INSERT", HIVE_3), DirtyPartitions(**ONE, data=True)),
        (raw("INSERT", HIVE_3 | {"ptnObjJson": None}), DirtyTable(db="db", table="t", data=True)),
        (
            raw("ALTER_TABLE", TABLES_ALIKE | {"isTruncateOp": "true"}),
            DirtyTable(db="db", table="t", whole=True, data=True),
        ),
        (
            raw("ALTER_PARTITION", PARTITIONS_ALIKE | {"isTruncateOp": "true"}),
            DirtyPartitions(**ONE, data=True),
        ),
        (
            raw(*_altered(thrift_json(RETYPED))),
            DirtyTable(db="db", table="t", whole=True, data=True),
        ),
        (
            raw("ALTER_TABLE", {"tableObjBeforeJson": BARE, "tableObjAfterJson": BARE}),
            DirtyTable(db="db", table="t", data=True),
        ),
        (raw("ALTER_DATABASE", {}, db="@hive#Db"), DirtyDatabase(db="db")),
        (raw("RELOAD", {}), DirtyTable(db="db", table="t", whole=True, data=True)),
        (raw("ADD_PARTITION", {**HIVE_3, "partitions": []}), None),
        (raw("DROP_DATABASE", "no json", table=""), DirtyDatabase(db="db", degraded=True)),
        (raw("DROP_DATABASE", "no json", db="", table=""), None),
    ],
    ids=[
        "insert of Hive 3",
        "insert into a table",
        "truncated table",
        "truncated partition",
        "changed partition keys",
        "no parameters",
        "database with its catalog",
        "reload",
        "no partitions",
        "no table",
        "no database",
    ],
)
def test_what_no_metastore_at_hand_sends_is_understood(
    event: RawEvent, expected: Dirty | None
) -> None:
    assert dirty_objects(event) == ((expected,) if expected else ())


@pytest.mark.parametrize("kind", ["OPEN_TXN", "CREATE_FUNCTION", "ADD_PRIMARYKEY"])
def test_type_that_tells_of_nothing_that_is_held_makes_nothing_dirty(kind: str) -> None:
    assert dirty_objects(raw(kind, "no json")) == ()
    assert is_known(kind)


@pytest.mark.parametrize(
    ("db", "table", "expected"),
    [
        ("Db", "T", DirtyTable(db="db", table="t", whole=True, data=True, degraded=True)),
        ("@hive#Db", "", DirtyDatabase(db="db", degraded=True)),
        ("db", " ", DirtyDatabase(db="db", degraded=True)),
        ("null", " ", None),
        ("", "", None),
    ],
)
@pytest.mark.parametrize("kind", ["ALTER_TABLES", "", "nonsense"])
def test_unknown_type_makes_dirty_what_it_names(
    kind: str, db: str, table: str, expected: Dirty | None
) -> None:
    found = dirty_objects(raw(kind, "no json", db=db, table=table))
    assert found == ((expected,) if expected else ())
    assert not is_known(kind)


BULK: Final = DirtyPartitions(
    db="db", table="t", names=("zone=a%2Fb/day=1", "zone=x/day=2%25"), data=True
)


def test_bulk_alter_of_keys_and_values_names_its_partitions() -> None:
    """So it is in builds of Hive before 4.1."""
    body = {"partitionKeys": ["Zone", "day"], "partitionValues": [["a/b", "1"], ["x", "2%"]]}
    assert dirty_objects(raw("ALTER_PARTITIONS", body)) == (BULK,)


def test_real_bulk_alter_whose_type_is_renamed_names_its_partitions(place: Place) -> None:
    """2.3 logs an event a partition; as Hive 4.1's event it has the members of an ADD_PARTITION."""
    table, before = place.table("t", "zone", "day"), place.reads.current_event_id()
    place.writes.add_partitions([make_partition(table, ["x", day]) for day in ("1", "2")])
    (added,) = place.reads.events_after(before, events_max=10)
    assert dirty_objects(replace(added, type="ALTER_PARTITIONS")) == (
        DirtyPartitions(db=place.db, table="t", names=("zone=x/day=1", "zone=x/day=2"), data=True),
    )


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("ACID_WRITE_EVENT", {}, DirtyTable(db="db", table="t", data=True)),
        ("COMMIT_COMPACTION_EVENT", {}, DirtyTable(db="db", table="t", data=True)),
        ("UPDATE_TBL_COL_STAT_EVENT", {}, DirtyTable(db="db", table="t")),
        ("UPDATE_PART_COL_STAT_EVENT", HIVE_3 | {"partVals": ["1"]}, DirtyPartitions(**ONE)),
        ("DELETE_PART_COL_STAT_EVENT", {"partName": "ds=1"}, DirtyPartitions(**ONE)),
    ],
)
def test_statistics_and_writes_of_hive_4_make_their_object_dirty(
    kind: str, body: dict[str, object], expected: Dirty
) -> None:
    assert dirty_objects(raw(kind, body)) == (expected,)


@pytest.mark.parametrize("kind", KNOWN)
def test_unreadable_message_degrades_to_the_table_as_a_whole(kind: str) -> None:
    ends, written = kind in ENDS, kind != "DROP_TABLE"
    (found,) = dirty_objects(raw(kind, "no json"))
    assert found == DirtyTable(
        db="db", table="t", whole=True, dropped=ends, data=written, degraded=True
    )


@pytest.mark.parametrize("kind", KNOWN)
def test_event_without_a_name_degrades_to_what_it_names(kind: str) -> None:
    assert dirty_objects(raw(kind, {}, db="", table="")) == ()
    (found,) = dirty_objects(raw(kind, {}, table=""))
    assert found == DirtyDatabase(db="db", degraded=not kind.endswith("DATABASE"))


@pytest.mark.parametrize(
    "broken",
    [
        _altered("no json"),
        _altered("[]"),
        _altered(_with(thrift_json(TABLE), f1={"str": ""})),
        _altered(_with(thrift_json(TABLE), f1=None)),
        _altered(_with(thrift_json(TABLE), f2="db")),
        _altered(_with(thrift_json(TABLE), f9={"map": ["str", "str", 1, "x"]})),
        _altered(_with(thrift_json(TABLE), f9={"map": "x"})),
        _altered(_with(thrift_json(TABLE), f9="x")),
        _added(None),
        _added({"lst": ["str", 1, "ds"]}),
        _added({"lst": ["rec", 2, {}]}),
        _added({"lst": ["rec", 1, {}]}),
        _inserted(None),
        _inserted({"lst": ["str", 2, "1"]}),
        _inserted({"lst": ["i32", 1, 1]}),
        _dropped(("ds",), {"ds": "1", "more": "2"}),
        _dropped(("ds", "h"), {"ds": "1"}),
        _dropped((), {}),
    ],
)
def test_broken_object_degrades_to_the_table_as_a_whole(broken: tuple[str, dict[str, Any]]) -> None:
    (found,) = dirty_objects(raw(*broken))
    ends = broken[0] in ENDS
    assert found == DirtyTable(
        db="db", table="t", whole=True, dropped=ends, data=True, degraded=True
    )


BODIES = [
    ("ALTER_TABLE", TABLES_ALIKE),
    ("ADD_PARTITION", {"tableObjJson": thrift_json(TABLE), "partitions": [{"ds": "1"}]}),
    ("ALTER_PARTITION", PARTITIONS_ALIKE),
    ("INSERT", HIVE_3),
    ("INSERT", {"partKeyVals": {"ds": "1"}}),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@given(st.sampled_from(BODIES), st.data())
def test_broken_message_never_raises(
    known: tuple[str, dict[str, Any]], data: st.DataObject
) -> None:
    kind, body = known
    broken = dict(body)
    field = data.draw(st.sampled_from(sorted(body)))
    if isinstance(body[field], str) and data.draw(st.booleans()):
        struct = json.loads(body[field])
        number = data.draw(st.sampled_from(sorted(struct)))
        struct[number] = data.draw(JSON)
        broken[field] = json.dumps(struct)
    else:
        broken[field] = data.draw(JSON)
    for dirt in dirty_objects(raw(kind, broken)):
        assert isinstance(dirt, DirtyTable | DirtyPartitions)


@given(st.sampled_from(KNOWN), st.binary(), st.sampled_from(["json-0.2", "gzip(json-2.0)", "xml"]))
def test_garbage_never_raises(kind: str, message: bytes, how: str) -> None:
    event = raw(kind, message.decode("latin-1"), how=how)
    assert dirty_objects(event)
    assert dirty_objects(replace(event, message=b64encode(gzip.compress(message)).decode()))


@pytest.mark.parametrize("how", ["json-0.2", "gzip(json-2.0)", ""])
def test_message_is_read_by_its_format(how: str) -> None:
    message = json.dumps({"table": "t"})
    if how.startswith("gzip"):
        message = b64encode(gzip.compress(message.encode(), mtime=0)).decode()
    read = decode(raw("CREATE_TABLE", message, how=how))
    assert (read.db, read.table) == ("db", "t")
    assert read.body == {"table": "t"}


@pytest.mark.parametrize(
    ("message", "how"),
    [
        ("", "json-0.2"),
        ("[]", "json-0.2"),
        ("{", "json-0.2"),
        ("[" * 100_000, "json-0.2"),
        ("9" * 10_000, "json-0.2"),
        ("{}", "protobuf"),
        ("{}", "gzip(json-2.0)"),
        ("ä", "gzip(json-2.0)"),
        (b64encode(b"{}").decode(), "gzip(json-2.0)"),
        ("!" + b64encode(gzip.compress(b"{}", mtime=0)).decode(), "gzip(json-2.0)"),
        (b64encode(gzip.compress(b"{}", mtime=0)[:-9]).decode(), "gzip(json-2.0)"),
        (b64encode(gzip.compress(b"\xff\xfe{", mtime=0)).decode(), "gzip(json-2.0)"),
    ],
)
def test_bad_message_is_refused(message: str, how: str) -> None:
    with pytest.raises(WireError, match=r"event 1 \(CREATE_TABLE\)"):
        decode(raw("CREATE_TABLE", message, how=how))
