import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.tests.topics.objects.leaves import MemoryLeaves
from topicast.tests.topics.objects.structs import BASE, partition
from topicast.topics.errors import UsageError, WireError
from topicast.topics.objects import edits
from topicast.topics.objects import values as blocks
from topicast.topics.objects.templates import RAW, Templates
from topicast.topics.objects.values import PartitionKind, PartitionRecord, pack

RECORDS = (
    PartitionRecord("ds=1", 5, 0, (17, b"text", (b"a", b""))),
    PartitionRecord("ds=2", 7, 0, (17, 4, ())),
    PartitionRecord("ds=3", 7, 3, ()),
    PartitionRecord("ds=4", 7, RAW, (b"struct",)),
)
VALUE = blocks.encode_block(RECORDS, 7)
DAYS = [f"ds=2026-11-{day:02d}/hour={hour:02d}" for day in range(1, 6) for hour in range(24)]


class Partitions:
    """One table's partitions under edits, beside a plain dict of what they ought to be."""

    def __init__(self, location=BASE):
        self.leaves = MemoryLeaves()
        self.templates = ()
        self.version = 0
        self.location = location

    def edit(self, changes):
        self.version += 1
        done = blocks.edit_partitions(
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
        found = [blocks.decode_block(b, v).records() for v, b in self.leaves.blocks.values()]
        return {record.name: record for records in found for record in records}

    def structs(self):
        templates = Templates(self.templates, "")
        return {
            name: templates.join(record.template, record.slots, name)
            for name, record in self.records().items()
        }


def struct(name, **changes):
    return partition(tuple(part.split("=")[1] for part in name.split("/")), **changes)


batches = st.lists(
    st.dictionaries(
        st.sampled_from(DAYS),
        st.none() | st.sampled_from(["1", "22", "odd", "elsewhere"]),
        max_size=40,
    ),
    max_size=6,
)


@given(batches)
def test_edited_partitions_are_what_a_dict_holds(batches):
    table, expected, versions = Partitions(), {}, {}
    for batch in batches:
        changes = {
            name: size
            and struct(name, size=size, location="s3://x" if size == "elsewhere" else None)
            for name, size in batch.items()
        }
        done = table.edit(changes)
        for name in done.names:
            versions[name] = table.version
        expected = {n: s for n, s in (expected | changes).items() if s is not None}
        assert table.structs() == expected
        assert {n: r.version for n, r in table.records().items()} == {
            n: versions[n] for n in expected
        }


def test_a_block_comes_back():
    decoded = blocks.decode_block(VALUE, 7)
    assert decoded.names == ("ds=1", "ds=2", "ds=3", "ds=4")
    assert decoded.records() == list(RECORDS)


def test_an_empty_block_comes_back():
    assert blocks.decode_block(blocks.encode_block((), 7), 7).records() == []


def test_a_record_that_stays_keeps_its_version():
    table = Partitions()
    table.edit({name: struct(name) for name in DAYS[:3]})
    done = table.edit({DAYS[0]: struct(DAYS[0]), DAYS[1]: struct(DAYS[1], size="5")})
    assert done.names == (DAYS[1],)
    assert [record.version for record in table.records().values()] == [1, 2, 1]
    assert table.edit({DAYS[2]: struct(DAYS[2])}).blocks == ()


def test_a_record_that_another_template_would_say_as_well_is_unchanged():
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
    table = Partitions()
    done = table.edit({name: struct(name) for name in DAYS})
    assert len(done.templates) == 1
    assert [len(blocks.decode_block(b, 1).names) for _, b in done.blocks] == [32, 32, 32, 24]
    assert sum(len(value) for _, value in done.blocks) < 12 * len(DAYS)


@pytest.mark.parametrize("name", ["", "ds", "ds=\0"])
def test_a_name_that_is_no_partition_s_is_refused(name):
    with pytest.raises(UsageError):
        Partitions().edit({name: struct(DAYS[0])})


def test_a_struct_that_is_none_is_refused():
    with pytest.raises(WireError):
        Partitions().edit({DAYS[0]: b"\x0c"})


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        ["ds=1", 0, 0],
        [1, 0, 0, [[]]],
        ["ds=1", -1, 0, [[]]],
        ["ds=1", 0, -2, [[]]],
        ["ds=1", 0, [0, 0], [[]]],
        ["ds=1", 0, 0, 5],
        ["ds=1", 0, 0, []],
        ["ds=1", 0, 0, [[], []]],
        ["ds=1", 0, 0, [5]],
        ["\0".join(f"ds={i:02d}" for i in range(33)), 0, 0, [[]]],
    ],
)
def test_what_is_no_block_is_refused(document):
    with pytest.raises(WireError):
        blocks.decode_block(pack(document), 7)


@pytest.mark.parametrize("column", [[1, 2], "text", [None], None])
def test_a_column_that_is_none_is_refused(column):
    decoded = blocks.decode_block(pack(["ds=1", 0, 0, [[column]]]), 7)
    with pytest.raises(WireError):
        decoded.records()


@given(st.data())
def test_no_mutation_of_a_block_escapes(data):
    at = data.draw(st.integers(0, len(VALUE) - 1))
    mutated = VALUE[:at] + data.draw(st.binary(max_size=3)) + VALUE[at + 1 :]
    try:
        records = blocks.decode_block(mutated, 7).records()
    except WireError:
        return
    assert all(record.version <= 7 for record in records)


@given(st.integers(7, 10**6))
def test_block_with_a_new_version_keeps_the_versions_of_its_records(version):
    restamped = blocks.restamp_block(VALUE, 7, version)
    assert tuple(blocks.decode_block(restamped, version).records()) == RECORDS


def test_what_is_no_block_gets_no_new_version():
    with pytest.raises(WireError):
        blocks.restamp_block(b"bad", 7, 8)
