"""What a hub holds beside catalogd's store: entries that differ, and what is said of them."""

from collections.abc import Iterable

from topicast.pipeline.comparison.entries import (
    compare_group,
    differing_groups,
    mark_of,
    table_or_database,
)
from topicast.pipeline.comparison.selection import ObjectSelection
from topicast.pipeline.comparison.verdict import TableVerdict
from topicast.pipeline.datasource.snapshot_versions import SnapshotVersion
from topicast.topics.objects.encoding.values import (
    COMPLETE,
    NameRecord,
    TableValue,
    encode_names,
    encode_table_value,
)
from topicast.topics.objects.names import (
    database_key,
    names_group,
    rules_key,
    table_key,
)
from topicast.topics.topic import NAMESPACE, Entry, entry_of, stub, table_topic

KEY = table_key("shop", "orders")
EMPTY = b"\0"  # a Thrift struct without fields


def table(*, version: int = 7, incarnation: int = 1) -> Entry:
    made = TableValue(incarnation=incarnation, partitions=COMPLETE, thrift=EMPTY)
    return entry_of(KEY, version, encode_table_value(made))


def found(topic: int, held: Iterable[Entry], stored: Iterable[Entry]) -> list[str]:
    """Return what is said of what a hub has ``held``."""
    verdict = TableVerdict("shop.orders" if topic != NAMESPACE else "shop", "hub h")
    compare_group(verdict, topic, held=held, stored=stored)
    return list(map(str, verdict.differences))


def differing(held: Iterable[Entry], stored: Iterable[Entry]) -> set[bytes]:
    return differing_groups({one.key: mark_of(one) for one in held}, stored)


def test_groups_differ_by_a_byte_a_version_and_an_entry_that_one_side_lacks() -> None:
    block = entry_of(KEY + b"\1", 7, b"block")
    other = block._replace(value=b"blocK")
    assert differing([table(), block], [table(), block]) == set()
    assert differing([table(), other], [table(), block]) == {KEY}
    assert differing([table(), block], [table(version=8), block]) == {KEY}
    assert differing([table()], [table(), block]) == {KEY}
    assert differing([table(), block], [table()]) == {KEY}


def test_of_a_stub_versions_and_size_are_compared() -> None:
    assert differing([stub(table())], [table()]) == set()
    assert differing([stub(table(version=6))], [table()]) == {KEY}
    said = found(3, [stub(table(version=6))], [table()])
    there = "the hub h has '6, of the schema 6, of the data 6'"
    stored = "catalogd has '7, of the schema 7, of the data 7'"
    assert said == [f"shop.orders: versions: {there}, {stored}"]


def test_another_incarnation_is_named_and_other_bytes_that_say_the_same() -> None:
    said = found(3, [table(incarnation=2)], [table()])
    assert said == ["shop.orders: incarnation: the hub h has '2', catalogd has '1'"]
    plain = table()
    packed = plain._replace(value=(plain.value or b"").replace(b"\x90", b"\xdc\0\0"))
    (line,) = found(3, [packed._replace(size=len(packed.value or b""))], [plain])
    assert line.startswith("shop.orders: bytes: the hub h has")


def test_damage_is_named_on_the_side_that_has_it() -> None:
    damaged = table()._replace(value=b"\7")
    (at_hub,) = found(3, [damaged], [table()])
    assert at_hub.startswith('shop.orders: value: the hub h has "unreadable: ')
    (in_store,) = found(3, [table()], [damaged])
    assert "the hub h has 'readable', catalogd has \"unreadable: " in in_store


def test_names_that_one_side_lacks_are_those_of_tables() -> None:
    def names(*of: str) -> Entry:
        records = [NameRecord(one, "MANAGED_TABLE", 1, 1) for one in of]
        return entry_of(names_group("shop"), 7, encode_names(records))

    said = found(NAMESPACE, [names("a")], [names("a", "b")])
    assert said == [
        "shop.b: listed as: the hub h has none, catalogd has 'MANAGED_TABLE'",
        "shop.b: listed incarnation: the hub h has none, catalogd has '1'",
    ]


def test_databases_and_tables_are_compared_and_nothing_else() -> None:
    assert table_or_database(3, KEY) == ("shop", "orders")
    assert table_or_database(NAMESPACE, database_key("shop")) == ("shop", "")
    assert table_or_database(NAMESPACE, names_group("shop")) == ("shop", "")
    assert table_or_database(NAMESPACE, rules_key()) is None


def test_a_table_without_a_wildcard_is_looked_for_in_its_topic_and_in_the_namespace() -> None:
    as_of = SnapshotVersion(1, (0,) * 17)
    one = ObjectSelection("shop.orders")
    assert one.topics(as_of) == [table_topic("shop", "orders", 16), NAMESPACE]
    assert (one.has(("shop", "orders")), one.has(("shop", "")), one.has(("shop", "x"))) == (
        True,
        True,
        False,
    )
    assert len(ObjectSelection("shop.*").topics(as_of)) == 17
    assert ObjectSelection("*", only=["shop"]).topics(as_of) == [NAMESPACE]
