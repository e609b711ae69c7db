"""Values of entries come back as they went; what is not a value is refused, whatever the bytes."""

from concurrent.futures import ThreadPoolExecutor
from itertools import compress

import msgpack
import pytest
import zstandard
from hmsclient.genthrift.hive_metastore import ttypes
from hypothesis import given
from hypothesis import strategies as st

from topicast.tests.topics.objects.leaves import MemoryLeaves
from topicast.tests.topics.objects.structs import BASE, KEYS, partition, table, written
from topicast.topics.errors import UsageError, WireError
from topicast.topics.objects.encoding import edits, values
from topicast.topics.objects.encoding.templates import RAW, Templates
from topicast.topics.objects.encoding.values import (
    DOCUMENT_BYTES_MAX,
    PROBLEM_CHARS_MAX,
    NameRecord,
    PartitionKind,
    PartitionRecord,
    TableValue,
    decode_block,
    decode_database_value,
    decode_listing,
    decode_names,
    decode_problem,
    decode_table_value,
    edit_names,
    edit_partitions,
    encode_block,
    encode_database_value,
    encode_listing,
    encode_names,
    encode_problem,
    encode_table_value,
    names_in_block,
    pack,
    restamp_block,
    unpack,
)
from topicast.topics.objects.names import partition_name, partition_values
from topicast.topics.objects.source_problem import ProblemKind, SourceProblem

TABLE = TableValue(incarnation=9, partitions=values.COMPLETE, thrift=table(), templates=(b"a",))
BARE = TableValue(incarnation=0, partitions=values.ABSENT, thrift=b"")
NAMES = (NameRecord("a", "VIRTUAL_VIEW", 1, 4), NameRecord("b", "MANAGED_TABLE", 2, 3))
RECORDS = (
    PartitionRecord("ds=1", 5, 0, (17, b"text", (b"a", b""))),
    PartitionRecord("ds=2", 7, 0, (17, 4, ())),
    PartitionRecord("ds=3", 7, 3, ()),
    PartitionRecord("ds=4", 7, RAW, (b"struct",)),
)
BLOCK = encode_block(RECORDS, 7)
DAYS = [f"ds=2026-11-{day:02d}/hour={hour:02d}" for day in range(1, 6) for hour in range(24)]


def records_of(value, version=7):
    return tuple(decode_block(value, version).records())


DECODED = {  # what reads a value -> documents that it refuses
    decode_table_value: (
        *(None, [1, 0, b""], [-1, 0, b"", []], [b"", 0, b"", []], [1, 3, b"", []]),
        *([1, -1, b"", []], [1, 0, "", []], [1, 0, b"", [""]], [1, 0, b"", [b""] * 65]),
        [1, 0, b"", b""],
    ),
    decode_database_value: (None, [], [1], ["text"], [b"", b""]),
    decode_names: (
        *(None, ["a", "T", 1], [b"a", "T", 1, 1], ["a", b"T", 1, 1], ["a", ["T", "T"], 1, 1]),
        *(["a\0b", ["T", 1], 1, 1], ["a", "T", -1, 1], ["a", "T", 1, [1, 1]]),
        *(["b\0a", "T", 1, 1], ["a\0a", "T", 1, 1], ["\0a", "T", 1, 1], ["a\0", "T", 1, 1]),
        *(["a", "T", b"", 1], ["a", "T", [True], 1], ["a", "T", None, 1]),
        ["\0".join(f"{i:02d}" for i in range(65)), "T", 1, 1],
    ),
    records_of: (
        *(None, [], ["ds=1", 0, 0], [1, 0, 0, [[]]], ["ds=1", -1, 0, [[]]]),
        *(["ds=1", 0, -2, [[]]], ["ds=1", 0, [0, 0], [[]]], ["ds=1", 0, 0, 5], ["ds=1", 0, 0, []]),
        *(["ds=1", 0, 0, [[], []]], ["ds=1", 0, 0, [5]], ["ds=1", 0, 0, [[[]]]]),
        *(["ds=1", 0, 0, [[found]]] for found in ([1, 2], "text", [None], None, [1.5], [True])),
        *(["ds=1", 0, 0, [[found]]] for found in ([["a"]], [[[]]])),
        ["\0".join(f"ds={i:02d}" for i in range(33)), 0, 0, [[]]],
    ),
    decode_listing: (["a"], "b\0a", "a\0a", "\0a"),
}
VALUES = [
    (unpack, pack([list(range(60)), b"x" * 100, "text" * 30])),
    (decode_table_value, encode_table_value(TABLE)),
    (decode_database_value, encode_database_value(b"struct" * 50)),
    (decode_names, encode_names(NAMES)),
    (records_of, BLOCK),
    (decode_listing, encode_listing(DAYS)),
]


@pytest.mark.parametrize(
    ("decode", "document"),
    [(decode, document) for decode, documents in DECODED.items() for document in documents],
    ids=lambda one: getattr(one, "__name__", repr(one)[:30]),
)
def test_document_of_another_kind_is_refused(decode, document):
    with pytest.raises(WireError):
        decode(pack(document))


@given(st.data(), st.sampled_from(VALUES))
def test_no_mutation_of_a_value_escapes(data, case):
    decode, value = case
    at = data.draw(st.integers(0, len(value) - 1))
    try:
        decode(value[:at] + data.draw(st.binary(max_size=3)) + value[at + 1 :])
    except WireError:
        return


documents = st.recursive(
    st.none() | st.integers(-(1 << 63), (1 << 64) - 1) | st.binary() | st.text(),
    st.lists,
    max_leaves=20,
)


@given(documents)
def test_document_comes_back(document):
    assert unpack(pack(document)) == document


@given(st.binary(max_size=60))
def test_any_bytes_are_a_document_or_refused(value):
    for prefix in (b"", b"\x00", b"\x01", b"\x01" + zstandard.compress(value)[:9]):
        try:
            unpack(prefix + value)
        except WireError:
            continue


def test_what_compresses_is_compressed_and_takes_no_more_memory_than_its_bytes():
    for document, kind in ((b"a" * 100_000, 1), (bytes(range(256)), 0), (b"aaaaaaaa", 0)):
        value = pack(document)
        assert value[0] == kind
        assert value.__sizeof__() < len(value) + 64


NO_SIZE = zstandard.ZstdCompressor(write_content_size=False).compress(b"\xc0")
BOMB = zstandard.ZstdCompressor().compress(bytes(DOCUMENT_BYTES_MAX + 1))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        *((b"\x00" + msgpack.packb(one), "msgpack") for one in ({1: 2}, [{}, [{"a": 1}]])),
        (b"\x00" + msgpack.packb(msgpack.ExtType(5, b"x")), "msgpack"),
        (b"\x00" + msgpack.packb([0] * (values.ITEMS_MAX + 1)), "too long"),
        (b"\x00" + b"\xdc\x04\x00" * 5000, "too long"),
        (b"\x00" + bytes(DOCUMENT_BYTES_MAX + 1), "allowed"),
        (b"\x01" + BOMB, "too large"),
        (b"\x01" + NO_SIZE, "size"),
    ],
    ids=["map", "inner map", "extension", "list", "nested lists", "bytes", "bomb", "no size"],
)
def test_value_that_would_take_much_memory_is_refused(value, problem):
    with pytest.raises(WireError, match=problem):
        unpack(value)


def test_document_too_large_for_a_value_is_refused(monkeypatch):
    """P-LIM-4: one byte more than there may be."""
    monkeypatch.setattr(values, "DOCUMENT_BYTES_MAX", 300)
    header = len(msgpack.packb(bytes(256))) - 256
    largest = bytes(300 - header)
    assert unpack(pack(largest)) == largest
    with pytest.raises(UsageError, match="301 bytes, 300 allowed"):
        pack(largest + b"x")


def test_threads_pack_and_unpack_at_the_same_time():
    several = [bytes([number]) * 100_000 for number in range(64)]
    with ThreadPoolExecutor(8) as threads:
        packed = list(threads.map(pack, several))
        assert list(threads.map(unpack, packed)) == several


def test_tables_databases_and_names_come_back():
    for one in (TABLE, BARE):
        assert decode_table_value(encode_table_value(one)) == one
    assert decode_database_value(encode_database_value(b"struct")) == b"struct"
    for several in ((), NAMES[:1], NAMES):
        assert decode_names(encode_names(several)) == several


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1)


@given(st.sets(texts, max_size=20))
def test_listing_comes_back(names):
    assert decode_listing(encode_listing(sorted(names))) == tuple(sorted(names))


def test_listing_of_names_that_are_alike_takes_few_bytes():
    names = [f"ds=2026-11-01/hour={number:06d}" for number in range(1024)]
    assert len(encode_listing(names)) < 8 * len(names)


slots = st.integers(-(1 << 63), (1 << 63) - 1) | st.binary() | st.lists(st.binary()).map(tuple)


@given(st.lists(slots, min_size=1, max_size=5) | slots.map(lambda slot: [slot] * 5))
def test_block_comes_back(filling):
    records = [PartitionRecord(f"ds={at}", 7, 0, (slot,)) for at, slot in enumerate(filling)]
    assert list(records_of(encode_block(records, 7))) == records
    assert records_of(BLOCK) == RECORDS
    assert decode_block(BLOCK, 7).names == ("ds=1", "ds=2", "ds=3", "ds=4")
    assert records_of(encode_block((), 7)) == ()


def test_column_on_which_all_records_agree_is_one_value():
    alike = [PartitionRecord(f"ds={at}", 7, 0, (5, b"", (b"a",))) for at in range(2)]
    assert unpack(encode_block(alike, 7)) == ["ds=0\0ds=1", 0, 0, [[5, b"", [[b"a"], [b"a"]]]]]


@given(st.integers(7, 10**6))
def test_block_with_a_new_version_keeps_the_versions_of_its_records(version):
    assert records_of(restamp_block(BLOCK, 7, version), version) == RECORDS


def test_bytes_that_are_no_block_get_no_new_version():
    with pytest.raises(WireError):
        restamp_block(b"bad", 7, 8)


changes = st.builds(lambda kind, at: (kind, at), st.sampled_from("TV"), st.integers(0, 3))


@given(st.lists(st.dictionaries(st.integers(0, 200), st.none() | changes, max_size=80), max_size=5))
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
        leaves.apply(edit_names(leaves, changes).blocks, version)
        edits.check(leaves, values.NamesKind())
    found = [record for _, value in leaves.blocks.values() for record in decode_names(value)]
    assert {record.name: record for record in found} == expected


class Partitions:
    """One table's partitions under edits."""

    def __init__(self, location=BASE):
        self.leaves = MemoryLeaves()
        self.templates = ()
        self.version = 0
        self.location = location

    def edit(self, changes):
        self.version += 1
        done = edit_partitions(
            self.leaves,
            changes,
            templates=self.templates,
            location=self.location,
            version=self.version,
        )
        assert done.templates[: len(self.templates)] == self.templates
        self.templates = done.templates
        self.leaves.apply(done.blocks, self.version)
        edits.check(self.leaves, PartitionKind(Templates(self.templates, ""), 0))
        return done

    def records(self):
        blocks = self.leaves.blocks.values()
        return {record.name: record for v, block in blocks for record in records_of(block, v)}

    def structs(self):
        templates = Templates(self.templates, "")
        return {
            name: templates.join(record.template, record.slots, name)
            for name, record in self.records().items()
        }


def struct(name, **changes):
    return partition(tuple(part.split("=")[1] for part in name.split("/")), **changes)


sizes = st.none() | st.sampled_from(["1", "22", "odd", "elsewhere"])


@given(st.lists(st.dictionaries(st.sampled_from(DAYS), sizes, max_size=40), max_size=6))
def test_edited_partitions_are_what_a_dict_holds(batches):
    table, expected, versions = Partitions(), {}, {}
    for batch in batches:
        changes = {
            name: size
            and struct(name, size=size, location="s3://x" if size == "elsewhere" else None)
            for name, size in batch.items()
        }
        versions |= dict.fromkeys(table.edit(changes).names, table.version)
        expected = {n: s for n, s in (expected | changes).items() if s is not None}
        assert table.structs() == expected
        assert all(one.version == versions[name] for name, one in table.records().items())


def all_in(table):
    """Return what is read of each block as a whole, and of each record by itself."""
    templates = Templates(table.templates, table.location)
    for version, value in table.leaves.blocks.values():
        block = decode_block(value, version)
        alone = [templates.join(one.template, one.slots, one.name) for one in block.records()]
        yield value, block, templates, alone


odd = st.sampled_from(
    [("2026-11-01", "0%"), ("a=b", "c/d"), ("", "x"), ("ü", "1" * 3000), ("7", "00")]
)


@given(
    st.lists(st.dictionaries(st.sampled_from(DAYS), sizes, max_size=40), max_size=4),
    st.lists(odd, max_size=3),
    st.data(),
)
def test_structs_of_a_block_are_those_of_its_records(batches, more, data):
    table = Partitions()
    for batch in batches:
        table.edit(
            {
                name: size and struct(name, size=size, location="s3://x" if size == "odd" else None)
                for name, size in batch.items()
            }
        )
    table.edit({partition_name(KEYS, values): partition(values) for values in more})
    for value, block, templates, alone in all_in(table):
        assert names_in_block(value) == block.names
        assert block.structs(templates) == b"".join(alone)
        few = data.draw(st.lists(st.booleans(), min_size=len(alone), max_size=len(alone)))
        assert block.structs(templates, few) == b"".join(compress(alone, few))


def test_names_of_another_number_of_keys_are_taken_apart_each_by_itself():
    templates = Templates([], "")
    names = ("a=1", "a=1/b=2", "b=1", "b=1/a=2/b=3", "b=1=2")
    records = [
        PartitionRecord(name, 7, *templates.split(partition_with(partition_values(name)), name))
        for name in names
    ]
    block = decode_block(encode_block(records, 7), 7)
    whole = [partition_with(partition_values(name)) for name in names]
    assert block.structs(templates) == b"".join(whole)


def partition_with(found):
    """Return a Partition struct with so many values."""
    return written(ttypes.Partition(values=list(found), dbName="d", tableName="t", createTime=1))


@pytest.mark.parametrize(
    "columns",
    [
        [[1, 2], [b"a"]],
        [[1, 2]],
        [1, 2, 3, 4, 5, 6, 7, 8],
        [[b"a", b"b"]] * 5,
        [["x"], 1],
        [1 << 63] * 5,
    ],
)
def test_columns_that_do_not_fit_their_template_are_refused(columns):
    table = Partitions()
    table.edit({name: struct(name) for name in DAYS[:2]})
    value = pack(["\0".join(DAYS[:2]), 0, 0, [columns]])
    with pytest.raises(WireError):
        decode_block(value, 7).structs(Templates(table.templates, BASE))


@pytest.mark.parametrize("bad", [[1], [b"a", b"b"], [[b"a"], [b"b"]]])
def test_partitions_that_are_kept_whole_have_one_column_of_structs(bad):
    value = pack(["ds=0\0ds=1", 0, RAW, [[bad] if len(bad) > 1 else bad * 2]])
    block = decode_block(value, 7)
    if bad == [b"a", b"b"]:
        assert block.structs(Templates((), "")) == b"ab"
        return
    with pytest.raises(WireError):
        block.structs(Templates((), ""))


@given(st.binary() | st.binary().map(lambda raw: b"\0\x94" + raw))
def test_any_bytes_have_names_or_are_refused(value):
    try:
        names = names_in_block(value)
    except WireError:
        return
    assert sorted(set(names)) == list(names)


@given(st.integers(0, len(BLOCK) - 1), st.integers(0, 255))
def test_no_mutation_of_a_block_gives_other_names_than_reading_it_whole(at, byte):
    value = BLOCK[:at] + bytes([byte]) + BLOCK[at + 1 :]
    try:
        names = decode_block(value, 7).names
    except WireError:
        return
    assert names_in_block(value) == names


def test_record_that_stays_keeps_its_version():
    table = Partitions()
    table.edit({name: struct(name) for name in DAYS[:3]})
    done = table.edit({DAYS[0]: struct(DAYS[0]), DAYS[1]: struct(DAYS[1], size="5")})
    assert done.names == (DAYS[1],)
    assert [record.version for record in table.records().values()] == [1, 2, 1]
    assert table.edit({DAYS[2]: struct(DAYS[2])}).blocks == ()


def test_record_that_another_template_would_say_as_well_is_unchanged():
    table = Partitions(location="")
    table.edit({DAYS[0]: struct(DAYS[0])})
    table.location = BASE
    table.edit({DAYS[1]: struct(DAYS[1])})
    kind = PartitionKind(Templates(table.templates, BASE), 9)
    raw = PartitionRecord(DAYS[0], 1, RAW, (struct(DAYS[0]),))
    assert kind.merge(DAYS[0], raw, struct(DAYS[0])) is raw
    assert kind.merge(DAYS[0], raw, struct(DAYS[0], size="6")).version == 9
    assert len(table.templates) == 2


def test_partitions_share_a_template_and_fill_blocks():
    done = Partitions().edit({name: struct(name) for name in DAYS})
    assert len(done.templates) == 1
    assert [len(decode_block(block, 1).names) for _, block in done.blocks] == [32, 32, 32, 24]
    assert sum(len(value) for _, value in done.blocks) < 12 * len(DAYS)


@pytest.mark.parametrize("name", ["", "ds", "ds=\0"])
def test_edit_of_a_name_that_is_no_partition_s_is_refused(name):
    with pytest.raises(UsageError):
        Partitions().edit({name: struct(DAYS[0])})


def test_edit_with_a_struct_that_is_none_is_refused():
    with pytest.raises(WireError):
        Partitions().edit({DAYS[0]: b"\x0c"})


@given(st.sampled_from(ProblemKind), st.text())
def test_problem_comes_back_as_long_as_a_delta_holds(kind, text):
    """P-PROBLEM-3."""
    problem = SourceProblem(kind, text[:PROBLEM_CHARS_MAX])
    assert decode_problem(encode_problem(SourceProblem(kind, text))) == problem
    longest = "x" * PROBLEM_CHARS_MAX
    assert decode_problem(encode_problem(SourceProblem(kind, longest + "y"))).text == longest


@pytest.mark.parametrize(
    "document",
    [None, "a", [], [1], ["a"], ["a", "b"], [0, "a"], [1, 2], [1, "x" * (PROBLEM_CHARS_MAX + 1)]],
)
def test_value_that_is_no_problem_is_refused(document):
    """P-PROBLEM-3."""
    with pytest.raises(WireError):
        decode_problem(pack(document))
