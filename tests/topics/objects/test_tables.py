import dataclasses
import pickle

import pytest
from hmsclient.genthrift.hive_metastore import ttypes
from hypothesis import given
from hypothesis import strategies as st

from topicast.tests.topics.objects.structs import (
    BASE,
    KEYS,
    partition,
    partitions,
    string_map,
    strings,
    struct,
    table,
    with_field,
    written,
)
from topicast.topics.errors import UsageError, WireError
from topicast.topics.objects import tables
from topicast.topics.objects.encoding.templates import RAW, Templates
from topicast.topics.objects.encoding.values import PartitionRecord
from topicast.topics.objects.tables import Column, PartitionReader, Storage

NAME = "ds=2026-11-01/hour=03"
DATABASE = written(
    ttypes.Database("sales", "what we sold", "hdfs://nn/sales.db", {"a": "b"}, ownerName="ann")
)
STORAGE = Storage(
    input_format="in.Format",
    output_format="out.Format",
    serde="a.SerDe",
    serde_parameters={"serialization.format": "1"},
    bucket_columns=("column_1",),
    num_buckets=-1,
    sort_columns=(("column_1", "asc"), ("column_2", "desc")),
)


def record_of(data, name=NAME, version=3):
    """Return the record of a struct and what reads it."""
    numbered = Templates((), BASE)
    number, slots = numbered.split(data, name)
    return PartitionReader(numbered.skeletons), PartitionRecord(name, version, number, slots)


def test_a_database_is_read():
    found = tables.read_database(DATABASE, 3)
    assert (found.name, found.description, found.location) == (
        "sales",
        "what we sold",
        "hdfs://nn/sales.db",
    )
    assert (found.parameters, found.owner, found.version) == ({"a": "b"}, "ann", 3)
    assert found.thrift() == DATABASE


def test_a_table_is_read():
    data = table(viewOriginalText="select 1", viewExpandedText="select 1 as `1`")
    found = tables.read_table(data, 3)
    assert (found.db, found.name, found.full_name) == ("sales", "orders", "sales.orders")
    assert (found.type, found.owner, found.location) == ("EXTERNAL_TABLE", "ann", BASE)
    assert found.columns == tuple(Column(f"column_{i}", "bigint", "of a test") for i in range(2))
    assert found.partition_columns == (Column("ds", "string"), Column("hour", "string"))
    assert found.partition_keys == KEYS
    assert found.parameters == {"EXTERNAL": "TRUE"}
    assert found.view_text == "select 1 as `1`"
    assert found.storage == STORAGE
    assert found.version == 3
    assert found.thrift() == data


def test_a_table_is_shown_in_a_notebook_with_its_name_first_and_every_column():
    found = tables.read_table(table(tableName="<b>"), 3)
    page = found._repr_html_()
    assert "<b>sales.&lt;b&gt;</b>" in page
    for one in (*found.columns, *found.partition_columns):
        assert f">{one.name}</td>" in page
    assert ">ds, hour</td>" in page
    assert ">comment</th>" in page
    without = tables.read_table(written(ttypes.Table("orders", "sales")), 1)
    assert ">comment</th>" not in without._repr_html_(), "a column that would be empty"


def test_a_view_that_was_not_expanded_shows_its_text():
    assert tables.read_table(table(viewOriginalText="select 1"), 1).view_text == "select 1"


def test_a_table_with_nothing_but_names_is_read():
    found = tables.read_table(written(ttypes.Table("orders", "sales")), 1)
    assert (found.columns, found.location, found.storage) == ((), "", Storage())
    assert tables.read_table(table(sd=ttypes.StorageDescriptor()), 1).storage == Storage()


def test_a_compressed_table_says_so():
    sd = ttypes.StorageDescriptor(compressed=True)
    assert tables.read_table(table(sd=sd), 1).storage.compressed


@pytest.mark.parametrize("data", [partition(), partition(location="s3://elsewhere/1", key="x")])
def test_a_partition_is_read_the_same_from_a_block_and_alone(data):
    reader, record = record_of(data)
    found = reader.read(record)
    assert found == tables.read_partition(data, KEYS, 3)
    assert found == reader.read(record)
    assert found.thrift() == reader.thrift(record) == data
    assert (found.values, found.name) == (("2026-11-01", "03"), NAME)
    assert found.location in (f"{BASE}/{NAME}", "s3://elsewhere/1")
    assert found.parameters["totalSize"] == "1234"
    assert (found.columns[0], len(found.columns)) == (Column("column_0", "bigint", "of a test"), 20)
    assert (found.storage, found.version) == (STORAGE, 3)


def test_a_partition_kept_whole_is_read():
    found = PartitionReader(()).read(PartitionRecord(NAME, 3, RAW, (partition(),)))
    assert found == tables.read_partition(partition(), KEYS, 3)


def test_a_partition_that_shares_a_template_shares_its_columns():
    reader, record = record_of(partition())
    assert reader.read(record).columns is reader.read(record).columns


def test_an_empty_value_stays_empty_and_is_named_as_hive_names_it():
    found = tables.read_partition(partition(("", "03")), KEYS, 1)
    assert found.values == ("", "03")
    assert found.name == "ds=__HIVE_DEFAULT_PARTITION__/hour=03"


@given(partitions())
def test_any_partition_struct_is_read_or_refused(data):
    try:
        reader, record = record_of(data)
        found = reader.read(record)
    except WireError:
        return
    assert found.thrift() == data


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (tables.read_database, DATABASE),
        (tables.read_table, table()),
        (lambda data, version: tables.read_partition(data, KEYS, version), partition()),
    ],
)
def test_objects_compare_by_value_survive_pickling_and_do_not_change(read, data):
    one, same = read(data, 3), read(with_field(data, 99, 13, string_map(new="thing")), 3)
    assert one == same
    assert one.thrift() != same.thrift()
    assert one != read(data, 4)
    assert "thrift" not in repr(one)
    copy = pickle.loads(pickle.dumps(same))
    assert copy == one
    assert copy.thrift() == same.thrift()
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.version = 5
    with pytest.raises(TypeError):
        one.parameters["a"] = "b"


@given(st.data())
def test_no_mutation_of_a_struct_escapes(data):
    read, whole = data.draw(
        st.sampled_from([(tables.read_database, DATABASE), (tables.read_table, table())])
    )
    at = data.draw(st.integers(0, len(whole) - 1))
    try:
        read(whole[:at] + data.draw(st.binary(max_size=2)) + whole[at + 1 :], 1)
    except WireError:
        return


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0",
        struct((2, 11, b"\0\0\0\1a")),
        struct((1, 8, bytes(4)), (2, 11, bytes(4))),
        table() + b"\0",
        struct((1, 11, bytes(4)), (2, 11, bytes(4)), (7, 8, bytes(4))),
    ],
)
def test_what_is_no_table_is_refused(data):
    with pytest.raises(WireError):
        tables.read_table(data, 1)


def test_a_partition_without_a_value_for_each_key_is_refused():
    with pytest.raises(UsageError):
        tables.read_partition(partition(), ["ds"], 1)


@pytest.mark.parametrize(
    "record",
    [
        PartitionRecord(NAME, 3, 0, (17, 0, 7)),
        PartitionRecord(NAME, 3, 1, (17, 0, 7, 1, 1)),
        PartitionRecord(NAME, 3, 0, (17, 0, 7, (), 1)),
        PartitionRecord("no name", 3, 0, (17, 0, 7, 1, 1)),
        PartitionRecord(NAME, 3, RAW, ()),
        PartitionRecord(NAME, 3, RAW, (b"",)),
        PartitionRecord(NAME, 3, RAW, (struct((1, 15, strings(b"\xff"))),)),
    ],
)
def test_a_record_that_does_not_fit_is_refused(record):
    reader, _ = record_of(partition())
    with pytest.raises(WireError):
        reader.read(record)
