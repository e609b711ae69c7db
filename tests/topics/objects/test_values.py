import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.tests.topics.objects.leaves import MemoryLeaves
from topicast.tests.topics.objects.structs import table
from topicast.topics.errors import UsageError, WireError
from topicast.topics.objects import edits, values
from topicast.topics.objects.values import DOCUMENT_BYTES_MAX, NameRecord, TableValue, pack

VALUE = TableValue(
    incarnation=9, partitions=values.COMPLETE, thrift=table(), templates=(b"a", b"b")
)
NAMES = (NameRecord("a", "VIRTUAL_VIEW", 1, 4), NameRecord("b", "MANAGED_TABLE", 2, 3))
ENCODED = [
    (values.decode_table_value, values.encode_table_value(VALUE)),
    (values.decode_database_value, values.encode_database_value(b"struct" * 50)),
    (values.decode_names, values.encode_names(NAMES)),
]


def test_a_table_value_comes_back():
    assert values.decode_table_value(values.encode_table_value(VALUE)) == VALUE
    bare = TableValue(incarnation=0, partitions=values.ABSENT, thrift=b"")
    assert values.decode_table_value(values.encode_table_value(bare)) == bare


def test_a_database_value_comes_back():
    assert values.decode_database_value(values.encode_database_value(b"struct")) == b"struct"


@pytest.mark.parametrize("records", [(), NAMES[:1], NAMES])
def test_a_block_of_names_comes_back(records):
    assert values.decode_names(values.encode_names(records)) == records


def test_a_struct_too_large_for_a_value_is_refused():
    with pytest.raises(UsageError):
        values.encode_database_value(bytes(DOCUMENT_BYTES_MAX))


@pytest.mark.parametrize(
    "document",
    [
        None,
        [1, 0, b""],
        [-1, 0, b"", []],
        [b"", 0, b"", []],
        [1, 3, b"", []],
        [1, -1, b"", []],
        [1, 0, "", []],
        [1, 0, b"", [""]],
        [1, 0, b"", [b""] * 65],
        [1, 0, b"", b""],
    ],
)
def test_what_is_no_table_value_is_refused(document):
    with pytest.raises(WireError):
        values.decode_table_value(pack(document))


@pytest.mark.parametrize("document", [None, [], [1], ["text"], [b"", b""]])
def test_what_is_no_database_value_is_refused(document):
    with pytest.raises(WireError):
        values.decode_database_value(pack(document))


@pytest.mark.parametrize(
    "document",
    [
        None,
        ["a", "T", 1],
        [b"a", "T", 1, 1],
        ["a", b"T", 1, 1],
        ["a", ["T", "T"], 1, 1],
        ["a\0b", ["T", 1], 1, 1],
        ["a", "T", -1, 1],
        ["a", "T", 1, [1, 1]],
        ["\0".join(f"{i:02d}" for i in range(65)), "T", 1, 1],
    ],
)
def test_what_is_no_block_of_names_is_refused(document):
    with pytest.raises(WireError):
        values.decode_names(pack(document))


@given(st.data(), st.sampled_from(ENCODED))
def test_no_mutation_of_a_value_escapes(data, case):
    decode, value = case
    at = data.draw(st.integers(0, len(value) - 1))
    try:
        decode(value[:at] + data.draw(st.binary(max_size=3)) + value[at + 1 :])
    except WireError:
        return


records = st.builds(lambda kind, at: (kind, at), st.sampled_from("TV"), st.integers(0, 3))


@given(st.lists(st.dictionaries(st.integers(0, 200), st.none() | records, max_size=80), max_size=5))
def test_edited_names_are_what_a_dict_holds(batches):
    leaves, expected = MemoryLeaves(), {}
    for version, batch in enumerate(batches, 1):
        changes = {
            f"t{at:03d}": found and NameRecord(f"t{at:03d}", *found, version)
            for at, found in batch.items()
        }
        for name, record in changes.items():
            old = expected.get(name)
            if record is None:
                expected.pop(name, None)
            elif old is None or (old.type, old.incarnation) != (record.type, record.incarnation):
                expected[name] = record
        leaves.apply(values.edit_names(leaves, changes).blocks, version)
        edits.check(leaves, values.NamesKind())
    found = [record for _, value in leaves.blocks.values() for record in values.decode_names(value)]
    assert {record.name: record for record in found} == expected
