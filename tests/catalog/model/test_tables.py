"""Tables: a table and its partitions have one version, whatever was written of them."""

import random

import pytest

from topicast.catalog.model import tables as tables_module
from topicast.tests.catalog.holding import Holding, T, parts, struct
from topicast.topics.objects.encoding import values
from topicast.topics.objects.encoding.values import COMPLETE
from topicast.topics.objects.names import block_key, table_key
from topicast.topics.topic import PREFIX, STUB, TOMBSTONE, VALUE, table_topic
from topicast.topics.wire.header import VALUE_BYTES_MAX
from topicast.topics.wire.messages.data import SOURCE_EVENTS, SOURCE_LOAD

KEYED = struct(T, "ds")


@pytest.fixture
def holding() -> Holding:
    """A catalogd that holds ``d.t`` with partitions 1 and 2 at version 1."""
    found = Holding()
    found.whole(KEYED, parts("1", "2"), source=SOURCE_LOAD)
    found.written()
    return found


def noise(size: int) -> str:
    """Return text that does not compress to less than half."""
    return random.Random(size).randbytes(size // 2).hex()


# -- whole tables


def test_whole_table_is_one_transaction_of_its_topic() -> None:
    holding = Holding()
    holding.whole(KEYED, parts("1", "2"), incarnation=7, source=SOURCE_LOAD)
    one = holding.one()
    assert one.topic == table_topic(*T, 4)
    assert [entry.key for entry in one.entries] == [table_key(*T), block_key(*T, "")]
    assert [(row.object, row.kind, row.before) for row in one.changes] == [("d.t", "loaded", 0)]
    value = holding.tables.value(T)
    assert value is not None
    assert (value.incarnation, value.partitions, value.thrift) == (7, COMPLETE, KEYED)
    assert holding.tables.loaded(T)
    assert holding.names() == ["ds=1", "ds=2"]


def test_what_stays_the_same_is_not_written_again(holding: Holding) -> None:
    holding.whole(KEYED, parts("1", "2"))
    assert holding.written() == ()


def test_changed_data_raises_the_data_version_of_the_table_alone(holding: Holding) -> None:
    holding.whole(KEYED, parts("1", "2"), data=True)
    (entry,) = holding.one().entries
    assert (entry.key, entry.version) == (table_key(*T), 2)
    assert (entry.schema_version, entry.data_version) == (1, 2)


def test_whole_table_drops_the_partitions_that_it_does_not_have(holding: Holding) -> None:
    holding.whole(KEYED, parts("2", "3"))
    (block,) = holding.one().entries
    assert block.key == block_key(*T, "")
    assert holding.names() == ["ds=2", "ds=3"]
    holding.whole(KEYED, {})
    assert [entry.kind for entry in holding.one().entries] == [TOMBSTONE]
    assert holding.names() == []


def test_another_incarnation_begins_with_nothing(holding: Holding) -> None:
    holding.whole(KEYED, parts("1"), incarnation=2)
    one = holding.one()
    assert [entry.kind for entry in one.entries] == [PREFIX, VALUE, VALUE]
    assert holding.names() == ["ds=1"]
    assert holding.entry().schema_version == 2


def test_table_that_is_loaded_anew_in_chunks_begins_with_nothing(holding: Holding) -> None:
    holding.whole(KEYED, None)
    assert [entry.kind for entry in holding.one().entries] == [PREFIX, VALUE]
    assert holding.names() == []
    holding.whole(KEYED, parts("1"))
    assert holding.names() == ["ds=1"]
    assert holding.tables.loaded(T)


# -- partitions and the table's own struct


def test_partitions_are_added_replaced_and_dropped_in_one_transaction(holding: Holding) -> None:
    holding.change({**parts("1", rev="2"), "ds=2": None, **parts("3"), "ds=9": None})
    one = holding.one()
    assert [(row.object, row.kind, row.before) for row in one.changes] == [("d.t", "data", 1)]
    assert holding.names() == ["ds=1", "ds=3"]


def test_partitions_of_a_table_that_is_not_held_are_not_written() -> None:
    holding = Holding()
    holding.change(parts("1"))
    holding.whole(KEYED, {})
    holding.tables.end_content(T, source=SOURCE_EVENTS)
    holding.written()
    holding.change(parts("1"))
    assert holding.written() == ()


@pytest.mark.parametrize(
    ("parameters", "schema_version"),
    [
        ({"owner_of": "x"}, 1),
        ({"spark.sql.sources.schema": '{"type":"struct"}'}, 2),
        ({"spark.sql.sources.schema.part.3": "{}"}, 2),
        ({"spark.sql.sources.schema.partCol.0": "ds"}, 2),
    ],
    ids=[
        "parameters are no schema",
        "but for the columns that Spark keeps there",
        "a part of them",
        "and which of them partition the table",
    ],
)
def test_struct_is_replaced_and_partitions_stay(
    holding: Holding, parameters: dict[str, str], schema_version: int
) -> None:
    wide = struct(T, "ds", **parameters)
    holding.change({}, thrift=wide)
    (entry,) = holding.one().entries
    assert (entry.schema_version, entry.data_version) == (schema_version, 1)
    assert holding.names() == ["ds=1", "ds=2"]
    value = holding.tables.value(T)
    assert value is not None
    assert (value.thrift, value.partitions) == (wide, COMPLETE)


def test_struct_and_partitions_change_at_one_version(holding: Holding) -> None:
    holding.change(parts("3"), thrift=struct(T, "ds", columns=1), data=True)
    one = holding.one()
    assert {entry.version for entry in one.entries} == {2}
    entry = holding.entry()
    assert (entry.schema_version, entry.data_version) == (2, 2)
    assert one.changes[0].kind == "schema"


@pytest.mark.parametrize(
    ("source", "columns", "kind"),
    [
        (SOURCE_LOAD, 2, "loaded"),
        (SOURCE_EVENTS, 2, "data"),
        (SOURCE_EVENTS, 1, "schema"),
    ],
)
def test_history_names_the_kind_of_change(
    holding: Holding, source: int, columns: int, kind: str
) -> None:
    holding.whole(struct(T, "ds", columns=columns), parts("1", "2"), source=source, data=True)
    (row,) = holding.one().changes
    assert (row.kind, row.before) == (kind, 1)


def test_many_tables_take_turns_in_what_is_kept_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given room for the bounds of one table, when two change in turn, none loses a block."""
    monkeypatch.setattr(tables_module, "LEAVES_MAX", 1)
    holding = Holding()
    values = [f"{number:03d}" for number in range(100)]
    tables = [("d", "t"), ("d", "u")]
    for table in tables:
        holding.whole(struct(table, "ds"), {}, table=table)
    for value in values:
        for table in tables:
            holding.tables.write_partitions(table, parts(value, table=table), source=SOURCE_EVENTS)
    for table in tables:
        assert holding.names(table) == [f"ds={value}" for value in values]


@pytest.mark.parametrize("count", [10, 3_000])
def test_change_of_a_partition_writes_one_block_whatever_the_size_of_its_table(count: int) -> None:
    """Given a table of so many partitions, a partition is changed, dropped, and added."""
    holding = Holding()
    names = (f"{number:06}" for number in range(count))
    holding.whole(KEYED, parts(*names, rev="0"), source=SOURCE_LOAD)
    holding.written()
    dropped: dict[str, bytes | None] = {"ds=000007": None}
    for change in (parts("000005", rev="1"), dropped, parts("000005x", rev="0")):
        holding.change(change)
        (block,) = holding.one().entries
        assert block.key == block_key(*T, "")
        assert len(block.value or b"") < 200


# -- what is held no longer


def test_dropped_table_is_one_entry_and_comes_back_with_nothing(holding: Holding) -> None:
    holding.tables.drop(T, source=SOURCE_EVENTS)
    (entry,) = holding.one().entries
    assert (entry.key, entry.kind) == (table_key(*T), PREFIX)
    assert holding.tables.entry(T) is None
    for gone in (holding.tables.drop, holding.tables.end_content):
        gone(T, source=SOURCE_EVENTS)
        assert holding.written() == (), "nothing more is held"
    holding.whole(KEYED, parts("5"), incarnation=2)
    holding.change(parts("6"))
    assert holding.names() == ["ds=5", "ds=6"]


def test_unreadable_table_is_a_stub_until_it_is_written_whole(holding: Holding) -> None:
    size = holding.entry().size
    holding.tables.end_content(T, source=SOURCE_EVENTS)
    one = holding.one()
    assert [entry.kind for entry in one.entries] == [PREFIX, STUB]
    assert [(row.kind, row.before) for row in one.changes] == [("unloaded", 0)]
    assert (holding.entry().kind, holding.entry().size) == (STUB, size)
    assert holding.tables.value(T) is None
    assert not holding.tables.loaded(T)
    holding.tables.end_content(T, source=SOURCE_EVENTS)
    assert holding.written() == (), "a stub cannot be unreadable"
    holding.whole(KEYED, parts("4"))
    assert holding.names() == ["ds=4"]


BROKEN = parts("3", comment="x")["ds=3"].replace(b"comment", b"comm\xff\xfft")


@pytest.mark.parametrize(
    ("struct_bytes", "partitions"),
    [
        (1 << 20, {}),
        (0, parts("3", comment=noise(1 << 20))),
        (0, {"ds=3": BROKEN}),
    ],
    ids=["over the packer's limit", "a partition over it", "no text"],
)
def test_what_fits_no_value_makes_its_table_a_stub(
    holding: Holding,
    struct_bytes: int,
    partitions: dict[str, bytes | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P-LIM-4."""
    monkeypatch.setattr(values, "DOCUMENT_BYTES_MAX", 1 << 20)
    thrift = struct(T, "ds", comment=noise(struct_bytes)) if struct_bytes else None
    holding.change(partitions, thrift=thrift)
    assert (holding.entry().kind, holding.tables.rejected) == (STUB, 1)
    holding.change(parts("4"))
    assert holding.names() == []


def test_value_that_no_frame_holds_is_held(holding: Holding) -> None:
    large = parts("3", comment=noise(2 * VALUE_BYTES_MAX + 9_000))
    holding.change(large, thrift=struct(T, "ds", comment=noise(3 * VALUE_BYTES_MAX)))
    assert holding.tables.rejected == 0
    assert holding.entry().size > VALUE_BYTES_MAX
    assert sum(entry.size > VALUE_BYTES_MAX for entry in holding.rows()) == 2
    holding.change(parts("4"))
    assert holding.names() == ["ds=1", "ds=2", "ds=3", "ds=4"]


def test_tables_of_a_database_are_those_of_which_something_is_held() -> None:
    """Given a database with the name of a kind of key, no other database passes for its table."""
    holding = Holding()
    for table in (("d", "t"), ("d", "u"), ("de", "v"), ("n", "w")):
        holding.whole(struct(table), {}, table=table)
        holding.namespace.write({table[0]: b"struct"}, {table: "VIEW"}, source=SOURCE_EVENTS)
    holding.tables.drop(("d", "u"), source=SOURCE_EVENTS)
    assert holding.tables.of_database("d") == (("d", "t"),)
    assert holding.tables.of_database("n") == (("n", "w"),)
    assert holding.tables.of_database("e") == ()
