import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.topics.errors import UsageError
from topicast.topics.objects.filters.tokens import DEPTH_MAX, LENGTH_MAX
from topicast.topics.objects.names import NULL_PARTITION, partition_name
from topicast.topics.objects.selector import by_filter
from topicast.topics.objects.tables import Column

COLUMNS = (
    Column("s", "string"),
    Column("n", "int"),
    Column("d", "date"),
    Column("v", "varchar(9)"),
)
ROWS = [
    ("abc", "1", "2024-01-01", "a"),
    ("a.c", "02", "2024-01-02", "a"),
    ("a%c", "3", "2024-01-03", "a"),
    ("abcd", "10", "2024-02-01", "a"),
    (NULL_PARTITION, "-5", "2024-01-01", "b"),
    ("1", NULL_PARTITION, NULL_PARTITION, NULL_PARTITION),
    ("10", "100", "2023-12-31", "b"),
    ("A+b", "7", "2024-01-01", "b"),
    ("", "8", "2024-01-01", "b"),
    ('q"x', "9", "2024-01-01", "b"),
]


def name_of(row):
    """Return the name of the partition with these values; an empty value is written as such."""
    pairs = zip(COLUMNS, row, strict=True)
    return "/".join(partition_name([one.name], [v]) if v else f"{one.name}=" for one, v in pairs)


def found(text):
    matches = by_filter(text).matches(COLUMNS)
    return [at for at, row in enumerate(ROWS) if matches(name_of(row))]


# What Hive 2.3.10 answers for these rows, tried on its HiveMetaStoreClient on 2026-11-21.
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('s = "abc"', [0]),
        ("S = 'abc'", [0]),
        ('s = "ABC"', []),
        ("s = 'q\"x'", [9]),
        ('s = ""', [8]),
        ('s > "a"', [0, 1, 2, 3, 9]),
        ('"abc" <= s', [0, 3, 9]),
        ('s between "a" and "abc"', [0, 1, 2]),
        ('(s) in ("abc", "1")', [0, 5]),
        ('s like "a.*"', [0, 1, 2, 3]),
        ('s like ".*c"', [0, 1, 2]),
        ('s like ".*b.*"', [0, 3, 7]),
        ('s like "abc"', [0]),
        ('s like "a.c"', [0, 1, 2]),
        ('s like "A+b.*"', [7]),
        ('s like "a%"', []),
        ('s like "a_c"', []),
        ('s like "a[b.]c"', []),
        ("n = 2", [1]),
        ("n != 1", [1, 2, 3, 4, 6, 7, 8, 9]),
        ("n <> 1", [1, 2, 3, 4, 6, 7, 8, 9]),
        ("n > 2", [2, 3, 6, 7, 8, 9]),
        ("n >= 10", [3, 6]),
        ("n < 3", [0, 1, 4]),
        ("n = -5", [4]),
        ("1 < n", [1, 2, 3, 6, 7, 8, 9]),
        ("(n) in (1,2)", [0, 1]),
        ("(n) not in (1,2)", [2, 3, 4, 6, 7, 8, 9]),
        ("n between 1 and 3", [0, 1, 2]),
        ("n NOT BETWEEN 1 AND 3", [3, 4, 6, 7, 8, 9]),
        ('d = "2024-01-01"', [0, 4, 7, 8, 9]),
        ("d = 2024-01-01", [0, 4, 7, 8, 9]),
        ('d < "2024-01-02"', [0, 4, 6, 7, 8, 9]),
        ('d != "2024-01-01"', [1, 2, 3, 6]),
        ('d between "2024-01-01" and "2024-01-02"', [0, 1, 4, 7, 8, 9]),
        ('n = 1 and s = "abc" or n = 7', [0, 7]),
        ('n = 7 or n = 1 and s = "x"', [7]),
        ('(n = 7 or n = 1) and s = "abc"', [0]),
        ("((n = 1))", [0]),
    ],
)
def test_filters_find_what_hive_finds(text, rows):
    assert found(text) == rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('s != "abc"', [1, 2, 3, 5, 6, 7, 8, 9]),
        ('(s) not in ("abc")', [1, 2, 3, 5, 6, 7, 8, 9]),
        ('s not between "a" and "abc"', [3, 5, 6, 7, 8, 9]),
        (f's = "{NULL_PARTITION}"', []),
        ('s like "__.*"', []),
        ('v >= ""', [0, 1, 2, 3, 4, 6, 7, 8, 9]),
    ],
)
def test_null_matches_nothing(text, rows):
    assert found(text) == rows


def test_a_list_needs_no_parentheses_around_its_column():
    assert found("n in (1, 2)") == found("(n) in (1, 2)")
    assert found("n not in (1, 2)") == found("(n) not in (1, 2)")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "at 0 it ends, not a column"),
        ("s", "at 1 it ends, not a comparison"),
        ("s =", "at 3 it ends, not a number, or a text"),
        ("s == 1", "at 3 '=' stands, not a number"),
        ("s = x", "at 4 'x' stands, not a number"),
        ("n = 1 garbage", "at 6 'garbage' stands, not \"and\""),
        ("n = 1 n = 2", "at 6 'n' stands"),
        ("not n = 1", "at 0 'not' stands, not a column"),
        ("n not = 1", 'at 6 \'=\' stands, not "in" or "between"'),
        ("(n) = 1", "at 4 '=' stands, not \"in\""),
        ("(n = 1", "at 6 it ends"),
        ("(n", "at 2 it ends"),
        ("(", "at 1 it ends"),
        ("n in 1", "at 5 '1' stands"),
        ("n in ()", "at 6 '\\)' stands"),
        ("n in (1", "at 7 it ends"),
        ("n between 1 or 2", "at 12 'or' stands, not \"and\""),
        ("s like 1", "at 7 '1' stands, not a text"),
        ("s like x", "at 7 'x' stands, not a text"),
        ('"x" like s', "at 4 'like' stands, not a comparison"),
        ("s.a = 1", "is not understood at 1"),
        ("s = 'x", "is not understood at 4"),
        ("n = 1.5", "is not understood at 5"),
        ("n = 99999999999999999999", "at 4"),
        ("like = 1", "at 0 'like' stands, not a column"),
    ],
)
def test_what_is_no_filter_is_refused_with_its_place(text, problem):
    with pytest.raises(UsageError, match=problem):
        by_filter(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("zz = 1", "zz is not a partition column; these are: s, n, d, v"),
        ('n = "x"', "n is a number, 'x' is not"),
        ('n in (1, "02")', "n is a number: write '02' without quotes"),
        ("s = 1", "s is a text, 1 is a number"),
        ('s in ("a", 1)', "s is a text, 1 is a number"),
        ("d = 5", "d is a date, 5 is a number"),
        ('d = "1.1.2024"', "d is a date"),
        (f's like "{"x" * 4097}"', "4097 characters"),
        ('n = 1 and (zz = 1 or s = "a")', "zz is not a partition column"),
    ],
)
def test_a_filter_that_does_not_fit_the_table_is_refused(text, problem):
    with pytest.raises(UsageError, match=problem):
        by_filter(text).matches(COLUMNS)


def test_a_column_of_a_type_that_no_filter_knows_is_refused():
    with pytest.raises(UsageError, match=r"f, which is of type binary"):
        by_filter("f = 1").matches([Column("f", "binary")])


def test_a_table_without_partition_columns_says_so():
    with pytest.raises(UsageError, match="these are: none"):
        by_filter("f = 1").matches([])


def test_filters_that_are_too_long_or_too_deep_are_refused():
    with pytest.raises(UsageError, match="allowed"):
        by_filter("n = 1" + " " * LENGTH_MAX)
    deep = DEPTH_MAX
    assert found("(" * deep + "n = 1" + ")" * deep) == [0]
    with pytest.raises(UsageError, match="deeper"):
        by_filter("(" * (deep + 1) + "n = 1" + ")" * (deep + 1))


def test_a_long_filter_is_shown_cut():
    with pytest.raises(UsageError) as caught:
        by_filter("n = 1 or " * 1000)
    assert len(str(caught.value)) < 400


def test_a_like_of_many_pieces_takes_no_time():
    holds = by_filter(f's like "{".*a" * 300}b"').matches(COLUMNS)
    assert not holds(name_of(("a" * 5000, "", "", "")))


@given(st.text("ab.*", max_size=8), st.text("ab.", max_size=6))
def test_like_is_what_hive_makes_of_a_pattern(pattern, value):
    wanted = re.escape(pattern).replace(r"\.\*", ".*").replace(r"\.", ".")
    holds = by_filter(f's like "{pattern}"').matches(COLUMNS)
    assert holds(name_of((value, "", "", ""))) == bool(re.fullmatch(wanted, value))


words = st.sampled_from(
    ["s", "n", "=", "<", "(", ")", "in", "and", "or", "not", "1", '"a"', ",", "like"]
)


@given(st.lists(words | st.text(max_size=3), max_size=12).map(" ".join))
def test_any_text_is_a_filter_or_refused(text):
    try:
        found(text)
    except UsageError:
        return
