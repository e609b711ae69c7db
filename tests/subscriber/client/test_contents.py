"""Contents: objects for those who hand their bytes on, at once or by those who may wait."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from topicast.catalog.model.modes import Mode
from topicast.subscriber.client.contents import ENTRIES_AT_ONCE_MAX, Contents, NotAtOnce
from topicast.tests.cluster.shop import NAMES, Shop
from topicast.tests.cluster.shopping import Shopping
from topicast.topics.errors import NoSuchObject, NotVisible, OverBudget, UsageError
from topicast.topics.objects.filters.terms import TERMS_MAX
from topicast.topics.objects.selector import ALL, Selector, by_filter
from topicast.topics.policy import Policy

T = TypeVar("T")
SALES = ("shop", "sales")
LATE = by_filter("ds >= '098'")


def at_once(shopping: Shopping, read: Callable[[Contents], T]) -> T:
    return shopping.call(lambda catalog: read(catalog.contents(may_wait=False)))


def patiently(shopping: Shopping, read: Callable[[Contents], T]) -> T:
    return shopping.call(lambda catalog: read(catalog.contents()))


def names(contents: Contents, selector: Selector = ALL) -> tuple[str, ...]:
    return contents.partition_names(*SALES, selector)


@pytest.mark.parametrize("read", [at_once, patiently])
def test_contents_are_what_the_metastore_holds(
    shopping: Shopping, read: Callable[[Shopping, Callable[[Contents], Any]], Any]
) -> None:
    assert read(shopping, lambda to: to.databases()) == ("default", "shop")
    assert read(shopping, lambda to: to.database("shop").thrift()) == shopping.shop.database("shop")
    records = read(shopping, lambda to: [(one.name, one.type) for one in to.records("shop")])
    assert records == [(name, "EXTERNAL_TABLE") for name in NAMES]
    own = shopping.shop.tables("shop", ["sales"])["sales"]
    assert read(shopping, lambda to: to.head(*SALES).table.thrift()) == own
    structs = shopping.shop.partitions("shop", "sales", ["ds=098", "ds=099"])
    found = read(
        shopping, lambda to: b"".join(to.partitions(*SALES, LATE).structs(*SALES, LATE)[1])
    )
    assert found == structs["ds=098"] + structs["ds=099"]
    assert read(shopping, lambda to: names(to, LATE)) == ("ds=098", "ds=099")
    for missing in (lambda to: to.head("shop", "x"), lambda to: to.database("x")):
        with pytest.raises(NoSuchObject):
            read(shopping, missing)
    with pytest.raises(UsageError):
        read(shopping, lambda to: names(to, by_filter("other = 'x'")))


def test_what_is_not_held_is_for_those_who_may_wait(shopping: Shopping) -> None:
    shopping.join("shop.sales", level="minimal")
    pulls = shopping.stats().pulls
    for read in (lambda to: to.head(*SALES), lambda to: to.partitions(*SALES, LATE), names):
        with pytest.raises(NotAtOnce):
            at_once(shopping, read)
    assert shopping.stats().pulls == pulls
    assert patiently(shopping, lambda to: names(to, LATE)) == ("ds=098", "ds=099")
    assert patiently(shopping, lambda to: len(to.partitions(*SALES, ALL).head_of(*SALES).templates))
    assert shopping.stats().pulls > pulls
    assert at_once(shopping, lambda to: len(names(to))) == 100


def test_many_partitions_are_for_those_who_may_wait() -> None:
    shop = Shop(partitions=0)
    days = {f"ds={number:06}": {"n": "1"} for number in range(32 * ENTRIES_AT_ONCE_MAX + 1)}
    shop.add("shop.sales", days)
    shopping = Shopping(shop, late=True)
    shopping.join("shop.sales", level="full")
    with pytest.raises(NotAtOnce):
        at_once(shopping, names)
    assert len(patiently(shopping, names)) == len(days)


def test_pull_for_those_who_hand_on_is_refused_where_it_takes_much_of_the_budget() -> None:
    shop = Shop(partitions=0)
    shop.add("shop.sales", {f"ds={number:05}": {"n": str(number)} for number in range(5000)})
    shopping = Shopping(shop, late=True, mode=Mode("minimal"), budget_bytes=100_000)
    with pytest.raises(OverBudget, match=r"shop\.sales needs \d+ bytes"):
        patiently(shopping, lambda to: to.partitions(*SALES, ALL))
    assert patiently(shopping, lambda to: names(to, by_filter("ds = '00098'"))) == ("ds=00098",)
    long = by_filter(" or ".join(f"ds = '{number:05}'" for number in range(TERMS_MAX + 1)))
    found = patiently(shopping, lambda to: names(to, long))
    assert found == tuple(f"ds={number:05}" for number in range(TERMS_MAX + 1))
    assert len(shopping.call(lambda catalog: catalog.partitions("shop.sales"))) == 5000


def test_databases_are_not_listed_for_a_key_that_sees_some_of_them() -> None:
    shopping = Shopping(policy=Policy(("shop",)))
    with pytest.raises(NotVisible, match="sees shop only"):
        at_once(shopping, lambda to: to.databases())


def test_reads_count_once_and_those_of_a_cache_in_front_as_well(shopping: Shopping) -> None:
    reads = shopping.reader.member.placement.reads
    reads.clear()
    at_once(shopping, lambda to: to.head(*SALES))
    assert list(reads) == [(*SALES, False)]
    shopping.call(lambda catalog: catalog.note_reads("Shop.Sales", times=2, whole=True))
    assert list(reads)[-2:] == [(*SALES, True)] * 2
    for times in (0, 1001, True, "1"):
        with pytest.raises(UsageError, match="times"):
            shopping.call(lambda catalog, times=times: catalog.note_reads("a.b", times=times))
