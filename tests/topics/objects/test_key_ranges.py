"""A filter's key ranges never leave out a name that matches, and leave out most that do not."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from topicast.topics.errors import UsageError
from topicast.topics.objects.names import partition_name, partition_values
from topicast.topics.objects.selector import KeyRange, parse, ranges_of_filter, ranges_of_values
from topicast.topics.objects.tables import Column

DS, HOUR, REGION = Column("ds", "string", ""), Column("hour", "int", ""), Column("r", "string", "")
DAYS = [f"2026-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 29)]


def within(ranges: tuple[KeyRange, ...], name: str) -> bool:
    return any(low <= name < high for low, high in ranges)


def reached(text: str, columns: list[Column], names: list[str]) -> list[str]:
    ranges = ranges_of_filter(parse(text), columns)
    assert ranges is not None
    return [name for name in names if within(ranges, name)]


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
def test_of_a_year_only_the_days_asked_for_are_reached(text: str, most: int) -> None:
    names = [f"ds={day}" for day in DAYS]
    predicate = parse(text).bind([DS])
    matching = [name for name in names if predicate(partition_values(name))]
    found = reached(text, [DS], names)
    assert set(matching) <= set(found)
    assert len(found) <= most


def test_second_column_narrows_what_the_first_pins() -> None:
    names = [f"ds={day}/r={region}" for day in DAYS[:30] for region in ("eu", "us", "as")]
    assert reached("ds = '2026-01-02' and r = 'eu'", [DS, REGION], names) == ["ds=2026-01-02/r=eu"]
    assert len(reached("ds = '2026-01-02' and r > 'a'", [DS, REGION], names)) == 3
    assert len(reached("ds = '2026-01-02'", [DS, REGION], names)) == 3
    assert len(reached("ds in ('2026-01-02', '2026-01-03')", [DS, REGION], names)) == 6
    assert len(reached("ds = '2026-01-02' and hour = 3", [DS, HOUR], names)) == 3


@pytest.mark.parametrize(
    "text",
    [
        "hour = 3",
        "hour = 3 or ds = 'x'",
        "ds like '2026.*'",
        "ds != 'x'",
        "ds not in ('x')",
        "r = 'eu'",
    ],
)
def test_filter_that_names_do_not_decide_selects_every_range(text: str) -> None:
    columns = [HOUR, DS] if text.startswith("hour") else [DS, REGION]
    assert ranges_of_filter(parse(text), columns) is None


def test_too_many_ranges_are_as_good_as_none() -> None:
    values = ", ".join(f"'{number}'" for number in range(5000))
    assert ranges_of_filter(parse(f"ds in ({values})"), [DS]) is None


values = st.text(alphabet='ab-/%:= 1é"$', max_size=4)
literals = st.text(alphabet='ab-/%:= 1é"$', max_size=4)
signs = st.sampled_from(["=", "<", "<=", ">", ">="])


@st.composite
def filters(draw: st.DrawFn) -> str:
    def one() -> str:
        column = draw(st.sampled_from(["ds", "r"]))
        if draw(st.integers(0, 4)) == 0:
            inner = ", ".join(f"'{draw(literals)}'" for _ in range(draw(st.integers(1, 3))))
            return f"{column} in ({inner})"
        return f"{column} {draw(signs)} '{draw(literals)}'"

    joined = [" and ".join(one() for _ in range(draw(st.integers(1, 3)))) for _ in range(2)]
    return " or ".join(joined[: draw(st.integers(1, 2))])


@given(filters(), st.lists(st.tuples(values, values), max_size=20))
@example("ds < ':'", [("1", "a")])  # '1' < ':', and yet ds=1 > ds=%3A
def test_nothing_that_matches_is_ever_left_out(text: str, pairs: list[tuple[str, str]]) -> None:
    ranges = ranges_of_filter(parse(text), [DS, REGION])
    predicate = parse(text).bind([DS, REGION])
    for pair in pairs:
        name = partition_name(["ds", "r"], pair)
        if ranges is not None and predicate(partition_values(name)):
            assert within(ranges, name), (text, name, ranges)


def test_first_values_span_the_names_that_begin_with_them() -> None:
    columns = (Column("DS", "string", ""), Column("hour", "int", ""))
    assert ranges_of_values(("a/b", "7"), columns) == (("ds=a%2Fb/hour=7", "ds=a%2Fb/hour=7\0"),)
    ranges = ranges_of_values(("a", ""), columns)
    assert ranges is not None
    assert within(ranges, "ds=a/hour=0")
    assert not within(ranges, "ds=a b/hour=0")
    assert ranges_of_values(("a",), columns) == ranges
    assert ranges_of_values(("", "7"), columns) is None
    assert ranges_of_values((), columns) is None
    with pytest.raises(UsageError):
        ranges_of_values(("a", "7", "x"), columns)
