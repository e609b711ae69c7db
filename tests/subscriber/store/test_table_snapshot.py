"""A table's entries in sorted leaves, and what is read of them: its head and its partitions."""

import gc
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.store.table_snapshot import (
    EMPTY,
    LEAF_MAX,
    TableSnapshot,
    put,
    read_head,
    snapshot_of,
)
from topicast.tests.cluster.published import Published
from topicast.topics.errors import UsageError, WireError
from topicast.topics.objects.encoding.values import ABSENT, decode_table_value, encode_table_value
from topicast.topics.objects.names import table_key
from topicast.topics.objects.selector import ALL, Selector, by_filter, by_names
from topicast.topics.topic import (
    STUB,
    TOMBSTONE,
    Entry,
    prefix_tombstone,
    stub,
    tombstone,
    value_of,
)

GROUP = b"db\0t\0"
SALES = table_key("shop", "sales")


def entry_of(name: str, version: int, kind: int = 0) -> Entry:
    value = b"v" * (version % 5) if kind == 0 else None
    size = len(value) if value is not None else 0
    return Entry(GROUP + name.encode(), version, version, version, size, value, kind)


def test_entry_is_found_by_key_and_by_what_it_covers() -> None:
    made = snapshot_of([entry_of("b", 1), entry_of("f", 1)])
    assert made.entry(GROUP + b"b") == entry_of("b", 1)
    assert made.entry(GROUP + b"c") is None
    assert made.covering(GROUP + b"c") == entry_of("b", 1)
    assert made.covering(GROUP + b"z") == entry_of("f", 1)
    assert made.covering(GROUP + b"a") is TableSnapshot().covering(GROUP) is None


def test_older_entry_does_not_roll_back() -> None:
    rows = put(EMPTY, [entry_of("a", 5)])
    assert put(rows, [entry_of("a", 4)]) == rows
    assert put(rows, [tombstone(GROUP + b"a", 5)]) == rows
    assert put(rows, [tombstone(GROUP + b"a", 6)]) == EMPTY
    assert put(EMPTY, [entry_of("a", 5), entry_of("a", 4)]) == rows


def test_prefix_removes_lower_versions_and_leaves_its_own_transaction() -> None:
    rows = put(EMPTY, [entry_of("a", 5), entry_of("b", 7)])
    rows = put(rows, [prefix_tombstone(GROUP, 7), entry_of("c", 7), entry_of("a", 6)])
    assert [e.key for e in TableSnapshot(rows).entries()] == [
        GROUP + b"a",
        GROUP + b"b",
        GROUP + b"c",
    ]
    before = [entry_of("a", 8), prefix_tombstone(GROUP, 9)]
    assert put(rows, before) == EMPTY


def test_one_change_copies_one_leaf_and_shares_the_others() -> None:
    rows = put(EMPTY, [entry_of(f"{i:06}", 1) for i in range(31_250)])
    assert len(rows) <= LEAF_MAX
    changed = put(rows, [entry_of("020000", 2)])
    assert sum(one is not other for one, other in zip(rows, changed, strict=True)) == 1


def test_garbage_collector_leaves_entries_alone() -> None:
    rows = put(EMPTY, [entry_of(f"{i:03}", i) for i in range(700)])
    rows = put(rows, [entry_of("350", 1000)])
    gc.collect()
    assert not any(gc.is_tracked(row) for leaf in rows for row in leaf)


OPERATION = st.tuples(
    st.integers(0, 700), st.integers(1, 30), st.sampled_from([0, 0, 0, STUB, TOMBSTONE, None])
)


@given(st.lists(st.lists(OPERATION, max_size=40), max_size=12), st.integers(0, 2**32))
def test_rows_equal_a_plain_map_after_any_transactions(
    transactions: list[list[tuple[int, int, int | None]]], seed: int
) -> None:
    start = random.Random(seed).sample(range(700), 400)
    rows = put(EMPTY, [entry_of(f"{i:03}", 1) for i in start])
    model = {entry.key: entry for entry in TableSnapshot(rows).entries()}
    for transaction in transactions:
        changes = []
        for name, version, kind in {step[:2]: step for step in transaction}.values():
            if kind is None and name < 680:
                continue  # prefixes are rare, or nothing would be left
            change = (
                prefix_tombstone(GROUP, version)
                if kind is None
                else entry_of(f"{name:03}", version, kind)
            )
            changes.append(change)
        changes.sort(key=lambda e: e.version)
        for change in changes:
            apply(model, change)
        rows = put(rows, changes)
        assert list(TableSnapshot(rows).entries()) == [model[key] for key in sorted(model)]
        assert all(0 < len(leaf) <= LEAF_MAX for leaf in rows)


def apply(model: dict[bytes, Entry], change: Entry) -> None:
    if change.key == GROUP and change.kind == prefix_tombstone(GROUP, 1).kind:
        for key in [k for k, e in model.items() if e.version < change.version]:
            del model[key]
        return
    have = model.get(change.key)
    if have is not None and have.version >= change.version:
        return
    model.pop(change.key, None)
    if change.kind != TOMBSTONE:
        model[change.key] = change


# What is read of a table


@pytest.fixture(scope="module")
def sales() -> TableSnapshot:
    return snapshot_of(Published().rows("shop.sales"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("ds = '007'", ["ds=007"]),
        ("ds >= '098' or ds = '000'", ["ds=000", "ds=098", "ds=099"]),
        ("ds > '2'", []),
    ],
)
def test_filter_selects_partitions_by_their_values(
    sales: TableSnapshot, text: str, names: list[str]
) -> None:
    selector = by_filter(text)
    assert [one.name for one in sales.partitions("shop", "sales", selector)] == names
    assert sales.partition_names("shop", "sales", selector) == tuple(names)


def test_partitions_are_read_by_name_from_the_blocks_that_hold_them(sales: TableSnapshot) -> None:
    selector = by_names(["ds=098", "ds=007", "ds=none"])
    columns = sales.head_of("shop", "sales").table.partition_columns
    assert len(list(sales.blocks(SALES, selector.ranges(columns)))) == 2
    found = sales.partitions("shop", "sales", selector)
    assert [one.name for one in found] == ["ds=007", "ds=098"]


def test_every_partition_is_read_whole_and_sorted(sales: TableSnapshot) -> None:
    found = sales.partitions("shop", "sales")
    assert [one.name for one in found] == [f"ds={number:03}" for number in range(100)]
    assert (found[7].location, found[7].parameters) == ("file:/w/shop/sales", {"n": "7"})


@pytest.mark.parametrize("first", [None, 0, 1, 31, 32, 33, 99, 100, 1000])
@pytest.mark.parametrize("selector", [ALL, by_filter("ds >= '030' and ds != '031'")])
def test_structs_are_those_of_the_selected_partitions(
    sales: TableSnapshot, selector: Selector, first: int | None
) -> None:
    wanted = [one.thrift() for one in sales.partitions("shop", "sales", selector)][:first]
    count, structs = sales.structs("shop", "sales", selector, first=first)
    assert (count, b"".join(structs)) == (len(wanted), b"".join(wanted))


def test_structs_stay_those_of_their_moment(sales: TableSnapshot) -> None:
    _, structs = sales.structs("shop", "sales")
    whole = b"".join(sales.structs("shop", "sales")[1])
    newest = max(entry.version for entry in sales.entries())
    gone = [entry._replace(kind=TOMBSTONE, value=None) for entry in sales.blocks(SALES)]
    changes = [one._replace(version=newest + at) for at, one in enumerate(gone, 1)]
    after = sales.changed(changes, epoch=0)
    assert after.structs("shop", "sales")[0] == 0
    assert b"".join(structs) == whole


def test_filter_that_is_not_for_this_table_is_refused(sales: TableSnapshot) -> None:
    with pytest.raises(UsageError):
        sales.partitions("shop", "sales", by_filter("other = 'x'"))
    with pytest.raises(UsageError):
        sales.structs("shop", "sales", by_filter("other = 'x'"))


@pytest.mark.parametrize(("name", "complete"), [("shop.stock", True), ("shop.sales", False)])
def test_only_a_table_without_partition_columns_is_complete_without_partitions(
    name: str, *, complete: bool
) -> None:
    own = Published().rows(name)[0]
    absent = encode_table_value(replace(decode_table_value(value_of(own)), partitions=ABSENT))
    assert read_head(own._replace(value=absent)).complete is complete


def test_entry_without_a_value_is_refused() -> None:
    entry = Entry(SALES, 1, 1, 1, 1, b"v")
    with pytest.raises(WireError):
        read_head(stub(entry))
    assert snapshot_of([stub(entry)]).head(SALES) is TableSnapshot().head(SALES) is None
