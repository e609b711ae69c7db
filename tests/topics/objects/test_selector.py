"""A selector is one value: equal for what selects the same, and checked when it is made.

Its ranges never leave out a name that matches, and leave out most that do not.
"""

from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from topicast.tests.strategies import selectors
from topicast.topics.errors import UsageError, WireError
from topicast.topics.objects.filters.terms import CHARS_MAX
from topicast.topics.objects.names import partition_name
from topicast.topics.objects.selector import (
    ALL,
    SELECTOR_BYTES_MAX,
    TABLE_ONLY,
    Selector,
    SelectorKind,
    by_filter,
    by_names,
    by_values,
    selector_of,
)
from topicast.topics.objects.tables import Column

DS, HOUR, REGION = Column("ds", "string"), Column("hour", "int"), Column("r", "string")
TEXTS = (DS, Column("hour", "string"))
NAMES = tuple(f"ds={day}/hour={hour}" for day in "123" for hour in "01")
DAYS = [f"2026-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 29)]
MANY = "ds in ({})".format(", ".join(f"'{number}'" for number in range(5000)))
REGIONS = [f"ds={day}/r={region}" for day in DAYS[:30] for region in ("eu", "us", "as")]


def test_same_names_in_any_order_are_the_same_selector() -> None:
    one, other = by_names(("ds=b", "ds=a", "ds=b")), by_names(("ds=a", "ds=b"))
    assert (one, hash(one), one.names) == (other, hash(other), ("ds=a", "ds=b"))


def test_values_end_with_the_last_that_is_given() -> None:
    assert by_values(("1", "")) == by_values(("1",))
    assert by_values(("", "")) is ALL
    assert by_values(("", "1")) != by_values(("1",))


def test_what_selects_in_different_ways_is_different() -> None:
    every = (ALL, TABLE_ONLY, by_filter("a = 1"), by_names(("a=1",)), by_names(()), by_values("a"))
    assert len({*every, by_values(("", "a"))}) == 7


def within(selector: Selector, columns: tuple[Column, ...], names: list[str]) -> list[str] | None:
    """Return those of ``names`` that are in the selector's ranges; None if these are unknown."""
    ranges = selector.ranges(columns)
    if ranges is None:
        return None
    return [name for name in names if any(low <= name < high for low, high in ranges)]


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
    matches, found = selector.matches(TEXTS), within(selector, TEXTS, list(selected))
    assert tuple(name for name in NAMES if matches is None or matches(name)) == selected
    assert found in (None, list(selected))


def test_table_alone_selects_no_key() -> None:
    assert TABLE_ONLY.ranges(TEXTS) == ()


def test_names_that_are_none_are_refused_when_the_selector_is_made() -> None:
    with pytest.raises(UsageError):
        by_names(("ds=1", "nonsense"))


def test_selector_for_other_columns_is_refused() -> None:
    with pytest.raises(UsageError):
        by_values(("a", "b", "c")).ranges(TEXTS)
    with pytest.raises(UsageError):
        by_filter("other = 'x'").matches(TEXTS)


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("ds = '2026-11-01'", 1),
        ("ds in ('2026-11-01', '2026-01-01')", 2),
        ("ds >= '2026-11-01'", 56),
        ("ds < '2026-02-01'", 29),
        ("ds between '2026-11-01' and '2026-11-05'", 5),
        ("ds > '2026-11-01' and ds <= '2026-11-03' or ds = '2026-01-01'", 4),
        ("ds = '2026-11-01' and ds = '2026-11-02'", 1),
    ],
)
def test_of_a_year_only_the_requested_days_are_in_the_ranges(text: str, most: int) -> None:
    names = [f"ds={day}" for day in DAYS]
    matches, found = by_filter(text).matches((DS,)), within(by_filter(text), (DS,), names)
    assert matches is not None
    assert found is not None
    assert {name for name in names if matches(name)} <= set(found)
    assert len(found) <= most


@pytest.mark.parametrize(
    ("text", "second", "count"),
    [
        ("ds = '2026-01-02' and r = 'eu'", REGION, 1),
        ("ds = '2026-01-02' and r > 'a'", REGION, 3),
        ("ds = '2026-01-02'", REGION, 3),
        ("ds in ('2026-01-02', '2026-01-03')", REGION, 6),
        ("ds = '2026-01-02' and hour = 3", HOUR, 3),
    ],
)
def test_second_column_narrows_what_the_first_pins(text: str, second: Column, count: int) -> None:
    found = within(by_filter(text), (DS, second), REGIONS)
    assert found is not None
    assert len(found) == count


@pytest.mark.parametrize(
    "text",
    ["hour = 3", "hour = 3 or ds = 'x'", "ds like '2026.*'", "ds != 'x'", "ds not in ('x')", MANY],
    ids=lambda text: text[:20],
)
def test_filter_that_names_do_not_decide_has_no_ranges(text: str) -> None:
    columns = (HOUR, DS) if text.startswith("hour") else (DS, REGION)
    assert by_filter(text).ranges(columns) is None


values = st.text(alphabet='ab-/%:= 1é"$', max_size=4)
signs = st.sampled_from(["=", "<", "<=", ">", ">="])


@st.composite
def filters(draw: st.DrawFn) -> str:
    def one() -> str:
        column = draw(st.sampled_from(["ds", "r"]))
        if draw(st.integers(0, 4)) == 0:
            inner = ", ".join(f"'{draw(values)}'" for _ in range(draw(st.integers(1, 3))))
            return f"{column} in ({inner})"
        return f"{column} {draw(signs)} '{draw(values)}'"

    joined = [" and ".join(one() for _ in range(draw(st.integers(1, 3)))) for _ in range(2)]
    return " or ".join(joined[: draw(st.integers(1, 2))])


@given(filters(), st.lists(st.tuples(values, values), max_size=20))
@example("ds < ':'", [("1", "a")])  # '1' < ':', and yet ds=1 > ds=%3A
def test_nothing_that_matches_is_ever_left_out(text: str, pairs: list[tuple[str, str]]) -> None:
    matches = by_filter(text).matches((DS, REGION))
    assert matches is not None
    matching = [
        name for name in (partition_name(["ds", "r"], pair) for pair in pairs) if matches(name)
    ]
    assert within(by_filter(text), (DS, REGION), matching) in (None, matching)


def test_first_values_span_the_names_that_begin_with_them() -> None:
    columns = (Column("DS", "string"), HOUR)
    whole = by_values(("a/b", "7")).ranges(columns)
    assert whole == (("ds=a%2Fb/hour=7", "ds=a%2Fb/hour=7\0"),)
    first = by_values(("a", ""))
    assert within(first, columns, ["ds=a/hour=0", "ds=a b/hour=0"]) == ["ds=a/hour=0"]
    assert by_values(("", "7")).ranges(columns) is None


@given(selectors)
def test_every_selector_survives_the_wire(selector: Selector) -> None:
    """P-PULL-20."""
    assert selector.is_sendable
    assert selector_of(msgpack.unpackb(msgpack.packb(selector.form), use_list=False)) == selector


HOSTILE: list[tuple[Any, str]] = [
    (None, "its kind, and what it selects"),
    (1, "its kind, and what it selects"),
    ([], "its kind, and what it selects"),
    ([5], "its kind, and what it selects"),
    ([True], "its kind, and what it selects"),
    ([[1]], "its kind, and what it selects"),
    ([1, []], "its kind, and what it selects"),
    ([3], "its kind, and what it selects"),
    ([3, ["n" * (CHARS_MAX + 1)]], "texts of at most 4096"),
    ([3, ["ds=2", "ds=1"]], "sorted, and distinct"),
    ([3, ["ds=1", "ds=1"]], "sorted, and distinct"),
    ([3, [b"ds=1"]], "texts of at most"),
    ([3, [f"{at:05}" for at in range(20_001)]], "20000 texts"),
    ([3, [f"{at:0999}" for at in range(300)]], "at most 262144 bytes"),
    ([4, "v"], "texts of at most"),
    ([4, []], "the last is not empty"),
    ([4, ["v", ""]], "the last is not empty"),
    ([2, "ds = 1"], "begins with its operator"),
]


@pytest.mark.parametrize(("form", "expected"), HOSTILE)
def test_what_is_no_selector_is_refused_with_what_was_expected(form: Any, expected: str) -> None:
    """P-PULL-20."""
    packed = msgpack.packb(form)
    with pytest.raises(WireError, match=expected):
        selector_of(msgpack.unpackb(packed, use_list=False))


def test_selector_may_have_just_as_many_bytes_as_a_message_takes() -> None:
    """P-PULL-20."""
    names = (*(f"{at:04090}" for at in range(64)), "x" * 100)
    spare = SELECTOR_BYTES_MAX - Selector(SelectorKind.NAMES, names=names).size
    for over in (0, 1):
        longer = (*names[:-1], names[-1] + "x" * (spare + over))
        one = Selector(SelectorKind.NAMES, names=longer)
        assert (one.size, one.is_sendable) == (SELECTOR_BYTES_MAX + over, not over)
        if over:
            with pytest.raises(WireError, match="at most 262144 bytes"):
                selector_of(one.form)
        else:
            assert selector_of(one.form) == one
