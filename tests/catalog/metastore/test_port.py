"""The port's behaviours, the same on the fake and on a real Hive metastore."""

from pathlib import Path

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database, FieldSchema, Partition, Table

from topicast.catalog.metastore import hms, hms_connection
from topicast.catalog.metastore.calls import Calls
from topicast.catalog.metastore.hms import Hms
from topicast.catalog.metastore.sample import Sample
from topicast.tests.cluster.fake_metastore import Place, from_thrift, make_partition, make_table
from topicast.tests.hive.releases import RealMetastore
from topicast.topics.errors import ObjectGone, SourceError
from topicast.topics.objects.names import partition_name

NASTY_VALUES = (
    "plain",
    "Upper Case",
    "dots.and-dashes_1",
    'it\'s "quoted"',
    " leading and trailing ",
    "100%",
    "%41",
    "a=b",
    "a/b\\c",
    "colon:question?star*hash#",
    "[brackets]{braces}^<>|,;&@!~`$()+",
    "grüße 日本語 😀",
    "tab\tnewline\ncontrol\x01\x1f\x7f",
    "",
)


def test_databases_are_listed_and_read(place: Place) -> None:
    assert {"default", place.db} <= set(place.reads.databases())
    database = from_thrift(Database, place.reads.database(place.db))
    location = database.locationUri.removesuffix(".db")  # Hive 4 appends it
    assert (database.name, location) == (place.db, place.location)
    place.reads.close()
    assert place.db in place.reads.databases(), "a closed metastore connects again"


def test_connections_are_counted_and_a_metastore_has_one_uuid_or_none(place: Place) -> None:
    uuid, connections = place.reads.uuid(), place.reads.connections
    place.reads.databases()
    assert (place.reads.uuid(), place.reads.connections) == (uuid, connections)


def test_absent_database_is_gone_and_has_no_tables(place: Place) -> None:
    with pytest.raises(ObjectGone):
        place.reads.database("nowhere")
    assert place.reads.table_names("nowhere") == ()
    assert place.reads.names("nowhere") == ()
    assert place.reads.tables("nowhere", ["t"]) == {}


def test_tables_are_listed_with_their_types(place: Place) -> None:
    place.table("plain")
    view = make_table(place.db, "seen", location=place.location)
    view.tableType, view.viewOriginalText, view.viewExpandedText = "VIRTUAL_VIEW", "q", "q"
    place.writes.create_table(view)
    assert sorted(place.reads.table_names(place.db)) == [
        ("plain", "EXTERNAL_TABLE"),
        ("seen", "VIRTUAL_VIEW"),
    ]
    assert sorted(place.reads.names(place.db)) == ["plain", "seen"], "in a fiftieth of the time"


def test_tables_that_exist_are_read_whole(place: Place) -> None:
    place.table("one", "ds")
    place.table("two")
    found = place.reads.tables(place.db, ["two", "absent", "one"])
    assert set(found) == {"one", "two"}
    assert place.reads.tables(place.db, []) == {}
    for name, struct in found.items():
        assert from_thrift(Table, struct) == place.writes.get_table(place.db, name)


@pytest.fixture
def small_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a call to a real metastore hold little: what takes several is made sooner."""
    monkeypatch.setattr(hms, "TABLES_PER_CALL_MAX", 5)
    monkeypatch.setattr(hms, "PARTITIONS_PER_CALL_MAX", 10)


def test_more_tables_than_one_call_holds_are_read(small_calls: None, place: Place) -> None:
    names = [f"t{number}" for number in range(13)]
    for name in names:
        place.table(name)
    assert set(place.reads.tables(place.db, names)) == set(names)


def test_partitions_are_listed_and_read_whole(place: Place) -> None:
    table = place.table("days", "ds", "hour")
    place.writes.add_partitions([make_partition(table, ["2026-11-01", h]) for h in "012"])
    names = place.reads.partition_names(place.db, "days")
    assert sorted(names) == [f"ds=2026-11-01/hour={hour}" for hour in "012"]
    found = place.reads.partitions(place.db, "days", [names[0], "ds=absent/hour=1", names[2]])
    assert set(found) == {names[0], names[2]}
    for struct in found.values():
        partition = from_thrift(Partition, struct)
        assert partition == place.writes.get_partition(place.db, "days", partition.values)


def test_more_partitions_than_one_call_holds_are_read(small_calls: None, place: Place) -> None:
    table = place.table("many", "n")
    place.writes.add_partitions([make_partition(table, [str(n)]) for n in range(31)])
    names = place.reads.partition_names(place.db, "many")
    assert len(names) == 31
    assert set(place.reads.partitions(place.db, "many", names)) == set(names)


def test_names_and_structs_of_few_partitions_are_read_together_and_of_more_the_names(
    place: Place,
) -> None:
    table = place.table("days", "ds", "hour")
    place.writes.add_partitions([make_partition(table, ["2026-11-01", h]) for h in "012"])
    every = place.reads.partition_names(place.db, "days")
    names, structs = place.reads.all_partitions(place.db, "days", ["ds", "hour"], partitions_max=3)
    assert set(names) == set(every)
    assert structs == place.reads.partitions(place.db, "days", every)
    names, structs = place.reads.all_partitions(place.db, "days", ["ds", "hour"], partitions_max=2)
    assert (set(names), structs) == (set(every), None)
    place.table("empty", "ds")
    assert place.reads.all_partitions(place.db, "empty", ["ds"], partitions_max=3) == ((), {})
    with pytest.raises(ObjectGone):
        place.reads.all_partitions(place.db, "absent", ["ds"], partitions_max=3)


def test_absent_table_has_no_partitions_to_read_and_a_plain_table_has_none(
    place: Place,
) -> None:
    place.table("plain")
    assert place.reads.partition_names(place.db, "plain") == ()
    with pytest.raises(ObjectGone):
        place.reads.partition_names(place.db, "absent")
    with pytest.raises(ObjectGone):
        place.reads.partitions(place.db, "absent", ["ds=1"])


@pytest.mark.parametrize("value", NASTY_VALUES)
def test_partition_is_named_and_found_whatever_its_value(place: Place, value: str) -> None:
    table = place.table("nasty", "First_Key", "second")
    place.writes.add_partitions([make_partition(table, [value, value])])
    (name,) = place.reads.partition_names(place.db, "nasty")
    assert name == partition_name(["first_key", "second"], [value, value])
    (struct,) = place.reads.partitions(place.db, "nasty", [name]).values()
    assert from_thrift(Partition, struct).values == [value, value]
    keys = ["first_key", "second"]
    found = place.reads.all_partitions(place.db, "nasty", keys, partitions_max=5)
    assert found == ((name,), {name: struct})


def test_null_partition_is_named_as_the_empty_partition(place: Place) -> None:
    table = place.table("nulls", "p")
    place.writes.add_partitions([make_partition(table, ["__HIVE_DEFAULT_PARTITION__"])])
    (name,) = place.reads.partition_names(place.db, "nulls")
    assert name == partition_name(["p"], ["__HIVE_DEFAULT_PARTITION__"])
    assert name == partition_name(["p"], [""])
    assert set(place.reads.partitions(place.db, "nulls", [name])) == {name}


def test_events_follow_the_id_that_is_given(place: Place) -> None:
    before = place.reads.current_event_id()
    place.table("t")
    place.writes.drop_table(place.db, "t", True)
    events = place.reads.events_after(before, events_max=100)
    assert [(e.type, e.db, e.table) for e in events] == [
        ("CREATE_TABLE", place.db, "t"),
        ("DROP_TABLE", place.db, "t"),
    ]
    assert [e.id for e in events] == [before + 1, before + 2]
    assert place.reads.current_event_id() == before + 2
    assert place.reads.events_after(before + 2, events_max=100) == ()
    assert place.reads.events_after(before, events_max=1) == events[:1]
    assert place.reads.events_after(before, events_max=100) == events


def test_events_have_a_format_and_differ_by_digest_however_large(place: Place) -> None:
    before = place.reads.current_event_id()
    table = place.table("t", "p")
    table.sd.cols.append(FieldSchema("c", "int", ""))
    place.writes.alter_table(place.db, "t", table)
    events = place.reads.events_after(before, events_max=100)
    (format_,) = {event.message_format for event in events}
    assert format_ in {"json-0.2", "gzip(json-2.0)"}  # up to Hive 3, and from 4 on
    assert len({event.digest for event in events}) == len(events) == 2
    assert all(len(event.digest) == 16 for event in events)
    place.writes.add_partitions([make_partition(table, [str(n)]) for n in range(200)])
    (large,) = place.reads.events_after(events[-1].id, events_max=100)
    least = 100_000 if format_ == "json-0.2" else len(events[0].message)
    assert (large.type, len(large.message) > least) == ("ADD_PARTITION", True)


def test_objects_whose_reply_is_too_long_are_read_in_smaller_parts(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on the fake, which has no replies: all that is asked for is returned."""
    table = place.table("t", "p")
    others = [place.table(f"u{number}", "p").tableName for number in range(10)]
    place.writes.add_partitions([make_partition(table, [str(n)]) for n in range(60)])
    names = place.reads.partition_names(place.db, "t")
    before = place.reads.partitions(place.db, "t", names)
    tables = place.reads.tables(place.db, others)
    assert (len(before), len(tables)) == (60, 10)
    size = len(next(iter(before.values())))
    monkeypatch.setattr(hms_connection, "OBJECTS_REPLY_BYTES_MAX", 6 * size)
    for _ in range(2):
        assert place.reads.partitions(place.db, "t", names) == before
        assert place.reads.tables(place.db, others) == tables


def test_object_alone_whose_reply_is_too_long_is_an_error(
    hive: RealMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Sample(hive.uri, "long", location=f"file:{tmp_path}/long").fill(tables=1, days=2)
    metastore = Hms(hive.uri, timeout_s=30)
    try:
        names = metastore.partition_names("long", "events_01")
        monkeypatch.setattr(hms_connection, "OBJECT_REPLY_BYTES_MAX", 100)
        with pytest.raises(SourceError, match="reply of more than 100 bytes"):
            metastore.partitions("long", "events_01", names[:1])
        monkeypatch.undo()
        assert len(metastore.partitions("long", "events_01", names)) == 2, "it goes on"
    finally:
        metastore.close()


def test_limit_of_a_reply_about_several_objects_is_not_that_of_one(
    hive: RealMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Sample(hive.uri, "several", location=f"file:{tmp_path}/several").fill(tables=1, days=2)
    metastore = Hms(hive.uri, timeout_s=30)
    try:
        names = metastore.partition_names("several", "events_01")
        before = metastore.connections
        monkeypatch.setattr(hms_connection, "OBJECTS_REPLY_BYTES_MAX", 100)
        assert len(metastore.partitions("several", "events_01", names)) == 2
        assert metastore.connections == before + 1, "the rest of the reply was not waited for"
    finally:
        metastore.close()


def test_request_after_a_long_reply_is_for_fewer_objects_and_after_a_short_one_for_more(
    hive: RealMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Sample(hive.uri, "fewer", location=f"file:{tmp_path}/fewer").fill(tables=1, days=8)
    calls = Calls()
    metastore = Hms(hive.uri, timeout_s=30, calls=calls)

    def calls_of_a_read() -> int:
        before = calls.facts().get(method)
        assert len(metastore.partitions("fewer", "events_01", names)) == 8
        return calls.facts()[method].count - (before.count if before else 0)

    method = "get_partitions_by_names"
    try:
        names = metastore.partition_names("fewer", "events_01")
        assert calls_of_a_read() == 1
        monkeypatch.setattr(hms_connection, "LONG_REPLY_BYTES", 1)
        assert calls_of_a_read() == 1
        assert calls_of_a_read() == 4, "of 4, 2, 1 and 1"
        monkeypatch.undo()
        assert calls_of_a_read() == 4, "of 1, 2, 4 and the rest"
    finally:
        metastore.close()


def test_sample_is_made_made_anew_and_grows(hive: RealMetastore, tmp_path: Path) -> None:
    sample = Sample(hive.uri, "sampled", location=f"file:{tmp_path}/sampled")
    metastore = Hms(hive.uri, timeout_s=30)
    try:
        assert sample.fill(tables=3, days=2)[0] == "sampled.events_01"
        names = sample.fill(tables=2, days=30)
        assert names == ("sampled.events_01", "sampled.events_02")
        assert [name for name, _ in metastore.table_names("sampled")] == ["events_01", "events_02"]
        sample.add_day(names[0], 30)
        days = metastore.partition_names("sampled", "events_01")
        assert (len(days), days[0], days[-1]) == (31, "day=2026-01-01", "day=2026-02-03")
        assert len(metastore.partition_names("sampled", "events_02")) == 30
    finally:
        metastore.close()


def test_metastore_that_is_not_there_is_a_source_error() -> None:
    with pytest.raises(SourceError, match="127.0.0.1:1 failed"):
        Sample("thrift://127.0.0.1:1", "sampled", location="file:/tmp").fill(tables=1, days=1)
