import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.topics.errors import WireError
from topicast.topics.objects import values as columns

items = st.integers() | st.binary() | st.lists(st.binary(), max_size=2).map(tuple)


def unpacked(column):
    """What msgpack makes of a column: its tuples come back as lists."""
    if not isinstance(column, list):
        return column
    return [list(item) if isinstance(item, tuple) else item for item in column]


@given(
    st.lists(items, max_size=5) | st.tuples(items, st.integers(1, 5)).map(lambda x: [x[0]] * x[1])
)
def test_a_column_comes_back(values):
    column = unpacked(columns.column(values))
    assert list(columns.read_column(column, len(values))) == values


def test_a_column_with_equal_records_is_one_value():
    assert columns.column([5, 5, 5]) == 5
    assert columns.column([b"", b""]) == b""
    assert columns.column([(b"a",), (b"a",)]) == [(b"a",), (b"a",)]
    assert columns.column([]) == []


@pytest.mark.parametrize(
    ("column", "count"),
    [
        ([1], 2),
        ([], 1),
        ("text", 1),
        (None, 1),
        ([1.5], 1),
        ([True], 1),
        ([["a"]], 1),
        ([[[]]], 1),
        ({}, 1),
    ],
)
def test_what_is_no_column_is_refused(column, count):
    with pytest.raises(WireError):
        columns.read_column(column, count)


def test_integers_are_read():
    assert columns.read_ints(3, 2) == (3, 3)
    assert columns.read_ints(3, 0) == ()
    assert columns.read_ints([1, 0], 2) == (1, 0)
    assert columns.read_ints([-1], 1, least=-1) == (-1,)


@pytest.mark.parametrize("column", [-1, [1], [1, -1], b"", [1, b""], True, [1, True], None])
def test_what_are_no_integers_is_refused(column):
    with pytest.raises(WireError):
        columns.read_ints(column, 2)


@given(st.sets(st.text(st.characters(exclude_characters="\0"), min_size=1), max_size=4).map(sorted))
def test_names_come_back(names):
    assert columns.read_names(columns.write_names(names), records_max=4) == tuple(names)


@pytest.mark.parametrize("names", [b"a", None, "\0a", "a\0", "b\0a", "a\0a", "a\0b\0c"])
def test_names_that_are_not_sorted_or_too_many_are_refused(names):
    with pytest.raises(WireError):
        columns.read_names(names, records_max=2)
