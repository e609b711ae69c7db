"""A selector is one value: equal for what selects the same, and checked when it is made."""

import pytest

from topicast.topics.errors import UsageError
from topicast.topics.objects.selector import (
    ALL,
    TABLE_ONLY,
    Selector,
    by_filter,
    by_names,
    by_values,
)
from topicast.topics.objects.tables import Column

COLUMNS = (Column("ds", "string", ""), Column("hour", "string", ""))
NAMES = tuple(f"ds={day}/hour={hour}" for day in "123" for hour in "01")


def test_same_names_in_any_order_are_the_same_selector() -> None:
    one, other = by_names(("ds=b", "ds=a", "ds=b")), by_names(("ds=a", "ds=b"))
    assert one == other
    assert hash(one) == hash(other)
    assert one.names == ("ds=a", "ds=b")


def test_values_end_with_the_last_that_is_given() -> None:
    assert by_values(("1", "")) == by_values(("1",))
    assert by_values(("", "")) is ALL
    assert by_values(("", "1")) != by_values(("1",))


def test_what_selects_in_different_ways_is_different() -> None:
    every = (ALL, TABLE_ONLY, by_filter("a = 1"), by_names(("a=1",)), by_names(()), by_values("a"))
    assert len({*every, by_values(("", "a"))}) == 7


def test_selector_without_its_parsed_filter_is_the_same() -> None:
    selector = by_filter("ds = '1'")
    assert selector.unparsed() == selector
    assert selector.unparsed().ranges(COLUMNS) == selector.ranges(COLUMNS)
    assert ALL.unparsed() is ALL


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (ALL, NAMES),
        (by_filter("ds > '2' and hour = '0'"), ("ds=3/hour=0",)),
        (by_names(("ds=1/hour=1", "ds=9/hour=9")), ("ds=1/hour=1",)),
        (by_values(("2",)), ("ds=2/hour=0", "ds=2/hour=1")),
        (by_values(("", "1")), ("ds=1/hour=1", "ds=2/hour=1", "ds=3/hour=1")),
    ],
    ids=["all", "filter", "names", "values", "later value"],
)
def test_what_matches_lies_in_the_ranges(selector: Selector, selected: tuple[str, ...]) -> None:
    matches, ranges = selector.matches(COLUMNS), selector.ranges(COLUMNS)
    assert tuple(name for name in NAMES if matches is None or matches(name)) == selected
    if ranges is not None:
        assert all(any(low <= name < high for low, high in ranges) for name in selected)


def test_table_alone_selects_no_key() -> None:
    assert TABLE_ONLY.ranges(COLUMNS) == ()


@pytest.mark.parametrize("text", ["nonsense", "", "ds ="])
def test_filter_that_is_none_is_refused_when_it_is_made(text: str) -> None:
    with pytest.raises(UsageError):
        by_filter(text)


def test_name_of_no_partition_is_refused_when_it_is_made() -> None:
    with pytest.raises(UsageError):
        by_names(("ds=1", "nonsense"))


def test_selector_for_other_columns_is_refused() -> None:
    with pytest.raises(UsageError):
        by_values(("a", "b", "c")).ranges(COLUMNS)
    with pytest.raises(UsageError):
        by_filter("other = 'x'").matches(COLUMNS)
