import pytest

from topicast.subscriber.store.table_snapshot import (
    TableSnapshot,
    read_head,
    read_partitions,
    snapshot_of,
)
from topicast.tests.subscriber.source import shop
from topicast.topics.entries import Entry, stub
from topicast.topics.errors import UsageError, WireError
from topicast.topics.objects.names import table_key
from topicast.topics.objects.selector import by_filter, by_names
from topicast.topics.objects.values import ABSENT

GROUP = table_key("shop", "sales")


def _sales() -> TableSnapshot:
    catalog = shop()
    rows = catalog.topics[catalog.topic("shop", "sales")].rows(GROUP)
    return snapshot_of(rows)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("ds = '007'", ["ds=007"]),
        ("ds >= '098' or ds = '000'", ["ds=000", "ds=098", "ds=099"]),
        ("ds > '2'", []),
    ],
)
def test_filter_chooses_partitions_by_their_values(text: str, names: list[str]) -> None:
    sales = _sales()
    selector = by_filter(text)
    assert [one.name for one in sales.partitions("shop", "sales", selector)] == names
    assert sales.partition_names("shop", "sales", selector) == tuple(names)


def test_partitions_are_read_by_name_from_the_blocks_where_they_stand() -> None:
    sales = _sales()
    head = sales.head(GROUP)
    assert head is not None
    selector = by_names(["ds=098", "ds=007", "ds=none"])
    blocks = list(sales.blocks(GROUP, selector.ranges(head.table.partition_columns)))
    assert len(blocks) == 2
    found = read_partitions(head, blocks, selector)
    assert [one.name for one in found] == ["ds=007", "ds=098"]


def test_every_partition_is_read_whole_and_sorted() -> None:
    sales = _sales()
    head = sales.head(GROUP)
    assert head is not None
    found = read_partitions(head, sales.blocks(GROUP))
    assert [one.name for one in found] == [f"ds={number:03}" for number in range(100)]
    assert found[7].location == "file:/w/shop/sales/ds=007"
    assert found[7].parameters == {"n": "7"}


def test_filter_that_is_not_for_this_table_is_refused() -> None:
    with pytest.raises(UsageError):
        _sales().partitions("shop", "sales", by_filter("other = 'x'"))


def test_only_a_plain_table_is_complete_without_partitions() -> None:
    catalog = shop()
    for keys, complete in (((), True), (("ds",), False)):
        delta = catalog.put_table("shop", "stock", keys=keys, state=ABSENT)
        assert read_head(delta.entries[0]).complete is complete


def test_entry_without_a_value_is_refused() -> None:
    entry = Entry(GROUP, 1, 1, 1, 1, b"v")
    with pytest.raises(WireError):
        read_head(stub(entry))
    content = snapshot_of([stub(entry)])
    assert content.head(GROUP) is None
    assert TableSnapshot().head(GROUP) is None
