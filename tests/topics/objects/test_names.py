import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.topics.errors import UsageError, WireError
from topicast.topics.objects import names
from topicast.topics.objects.names import KEY_BYTES_MAX, TableId, group_of, parse_scope

plain = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
some = plain.filter(bool)


@given(some, some, plain)
def test_keys_of_a_table_and_its_blocks_come_back(db, table, lower):
    assert names.parse_table_key(names.table_key(db, table)) == names.TableKey(db, table)
    key = names.block_key(db, table, lower)
    assert names.parse_table_key(key) == names.BlockKey(db, table, lower)
    assert group_of(key) == names.table_key(db, table)
    assert names.name_of(group_of(key)) == names.table_name(db, table)


def test_group_that_is_not_utf_8_has_no_name():
    with pytest.raises(WireError):
        names.name_of(b"\xff\0b\0")


@given(some, plain)
def test_keys_of_the_namespace_come_back(db, lower):
    assert names.parse_namespace_key(names.database_key(db)) == names.DatabaseKey(db)
    assert names.is_database(names.database_key(db))
    assert names.name_of_database(names.database_key(db)) == db
    key = names.names_key(db, lower)
    assert names.parse_namespace_key(key) == names.NamesKey(db, lower)
    assert group_of(key) == names.names_group(db)
    key = names.shared_fact_key(db)
    assert names.parse_namespace_key(key) == names.SharedFactKey(db)
    assert group_of(key) == key


def test_rules_for_drivers_are_one_group():
    """P-RULES-1."""
    assert names.rules_key() == b"c\0drivers\0"


def test_problem_of_the_metastore_is_one_group():
    """P-PROBLEM-1."""
    assert names.problem_key() == b"c\0metastore\0"
    assert names.parse_namespace_key(names.problem_key()) == names.SharedFactKey("metastore")


@given(some, st.lists(plain, unique=True, min_size=2))
def test_blocks_sort_after_their_table_and_as_their_bounds(table, lowers):
    keys = [names.block_key("db", table, lower) for lower in sorted(lowers)]
    assert keys == sorted(keys)
    assert names.table_key("db", table) < keys[0]


@pytest.mark.parametrize("key", [b"", b"a", b"a\0b", b"a\0b\0\x02", b"\xff\0b\0", b"a\0b\0\x01c\0"])
def test_bytes_that_are_no_table_key_are_refused(key):
    with pytest.raises(WireError):
        names.parse_table_key(key)


@pytest.mark.parametrize(
    "key", [b"d", b"d\0b", b"x\0b\0", b"d\0b\0rest", b"n\0\xff\0", b"n\0b\0c\0", b"c\0a\0b"]
)
def test_bytes_that_are_no_namespace_key_are_refused(key):
    with pytest.raises(WireError):
        names.parse_namespace_key(key)


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_name_that_no_key_can_hold_is_refused(name):
    with pytest.raises(UsageError):
        names.table_key("db", name)


@pytest.mark.parametrize("key", [names.database_key, names.names_group])
def test_a_key_that_is_too_long_is_refused(key):
    assert len(key("x" * 1021)) == KEY_BYTES_MAX
    for make in (
        key,
        lambda name: names.table_key("db", name),
        lambda name: names.names_key("", name),
    ):
        with pytest.raises(UsageError, match="1024 allowed"):
            make("x" * 1022)
    with pytest.raises(UsageError, match="1024 allowed"):
        names.block_key("db", "table", "ж" * 510)


@pytest.mark.parametrize(
    ("text", "pattern"), [("*", "*"), ("Sales", "sales.*"), ("sales.o*", "sales.o*")]
)
def test_database_alone_is_a_pattern_of_all_its_tables(text: str, pattern: str) -> None:
    assert names.table_pattern(text) == pattern


def test_empty_text_is_no_pattern() -> None:
    with pytest.raises(UsageError, match="'' is no pattern"):
        names.table_pattern("")


def test_a_table_is_named_with_one_dot():
    assert names.table_name("sales", "orders") == "sales.orders"
    assert names.parse_table_name("Sales.Orders") == ("sales", "orders")


@pytest.mark.parametrize("name", ["", "orders", ".orders", "sales.", "a.b.c", "a.b\0"])
def test_what_names_no_table_is_refused(name):
    with pytest.raises(UsageError, match=r"db\.table"):
        names.parse_table_name(name)


# From FileUtils.escapePathName and Warehouse.makePartName of Hive 2.3.10.
@pytest.mark.parametrize(
    ("values", "name"),
    [
        (("2026-11-01", "3"), "ds=2026-11-01/hour=3"),
        (("", "x y"), "ds=__HIVE_DEFAULT_PARTITION__/hour=x y"),
        (("\"#%'*/:=?\\{[]^", "}|<>"), "ds=%22%23%25%27%2A%2F%3A%3D%3F%5C%7B%5B%5D%5E/hour=}|<>"),
        (("\n\x7f\x1f", "\x80é中"), "ds=%0A%7F%1F/hour=\x80é中"),
        (("UPPER", "a.b,c"), "ds=UPPER/hour=a.b,c"),
        (("\0", "~`"), "ds=%00/hour=~`"),
    ],
)
def test_partitions_are_named_as_hive_names_them(values, name):
    assert names.partition_name(["DS", "hour"], values) == name
    assert names.partition_values(name) == tuple(v or names.NULL_PARTITION for v in values)


@given(st.lists(st.tuples(some, plain), min_size=1, max_size=3))
def test_values_and_keys_come_back_from_a_name(parts):
    keys = [key.lower() for key, _ in parts]
    name = names.partition_name(keys, [value for _, value in parts])
    names.check_partition_name(name)
    assert names.partition_values(name) == tuple(
        value or names.NULL_PARTITION for _, value in parts
    )
    assert names.partition_keys(name) == tuple(key.lower() for key in keys)


def test_percent_signs_that_escape_nothing_stay():
    assert names.partition_values("ds=%zz%4%41") == ("%zz%4A",)


@pytest.mark.parametrize(("keys", "values"), [([], []), (["ds"], []), (["ds"], ["1", "2"])])
def test_a_partition_has_one_value_for_each_key(keys, values):
    with pytest.raises(UsageError):
        names.partition_name(keys, values)


@pytest.mark.parametrize("name", ["", "ds", "=1", "ds=1/", "ds=1//hour=2", "ds=\0", "ds=\udfff"])
def test_what_names_no_partition_is_refused(name):
    with pytest.raises(UsageError):
        names.check_partition_name(name)


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ("", [("a", ""), ("a", "t"), ("b", "u")], []),
        ("a", [("a", ""), ("a", "t")], [("b", ""), ("b", "a")]),
        ("a.t", [("a", "t"), ("a", "")], [("a", "u"), ("b", "t"), ("b", "")]),
    ],
)
def test_scope_includes_its_tables_and_what_becomes_of_their_database(
    scope: str, inside: list[TableId], outside: list[TableId]
) -> None:
    """P-SYNC-5."""
    found = parse_scope(scope.upper())
    assert str(found) == scope
    assert [name for name in (*inside, *outside) if found.includes(name)] == inside


@pytest.mark.parametrize("text", ["a.b.c", ".t", "a.", "a\0", "a\0.t"])
def test_text_that_names_neither_a_table_nor_a_database_is_no_scope(text: str) -> None:
    with pytest.raises(UsageError):
        parse_scope(text)
