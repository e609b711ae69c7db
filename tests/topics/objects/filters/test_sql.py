"""Filters as Spark's users write them: what they find, beside a real SQLite; what is refused."""

import sqlite3
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topicast.topics.errors import UsageError
from topicast.topics.objects.filters.tokens import DEPTH_MAX
from topicast.topics.objects.names import NULL_PARTITION, partition_name
from topicast.topics.objects.selector import Selector, by_sql, selector_of
from topicast.topics.objects.tables import Column

COLUMNS = (Column("s", "string"), Column("n", "int"), Column("d", "date"))
ROWS = [
    ("abc", "1", "2024-01-01"),
    ("a.c", "02", "2024-01-02"),
    ("a%c", "3", "2024-01-03"),
    ("a_c", "10", NULL_PARTITION),
    (NULL_PARTITION, "-5", "2024-02-01"),
    ("it's", NULL_PARTITION, "2023-12-31"),
    ('q"\\', "7", "2024-01-01"),
    ("Abc", "8", "2024-01-01"),
]

Row = tuple[str, str, str]


def name_of(row: Sequence[str]) -> str:
    """Return the name of the partition with these values; an empty value is written as such."""
    pairs = zip(COLUMNS, row, strict=True)
    return "/".join(partition_name([one.name], [v]) if v else f"{one.name}=" for one, v in pairs)


def matching(selector: Selector, rows: Sequence[Row]) -> list[int]:
    matches = selector.matches(COLUMNS)
    assert matches is not None
    return [at for at, row in enumerate(rows) if matches(name_of(row))]


def found(text: str) -> list[int]:
    return matching(by_sql(text), ROWS)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("s LIKE 'a%'", [0, 1, 2, 3]),
        ("s like '%c'", [0, 1, 2, 3, 7]),
        ("s like 'a_c'", [0, 1, 2, 3]),
        ("s like 'a.*'", []),
        ("s like 'a.c'", [1]),
        (r"s like 'a\%c'", [2]),
        (r"s like 'a\\%c'", [2]),
        (r"s like 'a\_c'", [3]),
        ("s like 'a!%c' escape '!'", [2]),
        ("s like 'a!_c' ESCAPE \"!\"", [3]),
        ("s not like 'a%'", [5, 6, 7]),
        ("not s like 'a%'", [5, 6, 7]),
        ('s like "%\\"%"', [6]),
        ("s like '%\\\\\\\\'", [6]),
        ("s is null", [4]),
        ("n IS NULL", [5]),
        ("d is not null and n is not null", [0, 1, 2, 4, 6, 7]),
        ("not (n is null or d is null)", [0, 1, 2, 4, 6, 7]),
        ("n == 2", [1]),
        ("n = '02'", [1]),
        ("n <=> '2'", [1]),
        ("n = 2.0", [1]),
        ("n > 6.5", [3, 6, 7]),
        ("n < 2e0", [0, 4]),
        ("n = 1.5", []),
        ("n in (2, '10', 7L)", [1, 3, 6]),
        ("n in (2.0, 10, 7L)", [1, 3, 6]),
        ("n != 99999999999999999999", [0, 1, 2, 3, 4, 6, 7]),
        ("n = null", []),
        ("not n = null", []),
        ("n in (1, null)", [0]),
        ("n not in (1, null)", []),
        ("n in (null)", []),
        ("n between null and 2", []),
        ("n not between null and 7", [3, 7]),
        ("n is distinct from 2", [0, 2, 3, 4, 5, 6, 7]),
        ("n is not distinct from 2", [1]),
        ("!(n = 1)", [1, 2, 3, 4, 6, 7]),
        ("true", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("n = 1 and not true or n = 3", [2]),
        ("lower(s) = 'abc'", [0, 7]),
        ("s ilike 'AB%'", [0, 7]),
        ("upper(s) in ('ABC', 'A.C')", [0, 1, 7]),
        ("string(n) = '2'", [1]),
        ("n like '%0'", [3]),
        ("d like '2024-01%'", [0, 1, 2, 6, 7]),
        ("cast(n as string) like '%0'", [3]),
        ("try_cast(s as int) is null", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("d = timestamp '2024-01-01 00:00:00'", [0, 6, 7]),
        ("d < timestamp '2024-01-01 12:00:00'", [0, 5, 6, 7]),
        ("d = date('2024-1-1')", [0, 6, 7]),
        ("d = '2024-1-1'", [0, 6, 7]),
        ("cast(d as string) like '2024-01%'", [0, 1, 2, 6, 7]),
        ("n <=> 2", [1]),
        ("not n <=> 2", [0, 2, 3, 4, 5, 6, 7]),
        ("not n = 2", [0, 2, 3, 4, 6, 7]),
        ("n <=> null", [5]),
        ("not n <=> NULL", [0, 1, 2, 3, 4, 6, 7]),
        ("2 <=> n", [1]),
        ("2 < n", [2, 3, 6, 7]),
        ("not 2 < n", [0, 1, 4]),
        ("not not n = 1", [0]),
        ("n != 1 and n <> 3", [1, 3, 4, 6, 7]),
        ("n in (1, 2, -5)", [0, 1, 4]),
        ("(n) not in (1, 2, -5)", [2, 3, 6, 7]),
        ("not(n in(1,2))", [2, 3, 4, 6, 7]),
        ("n between 2 and 7", [1, 2, 6]),
        ("n not between 2 and 7", [0, 3, 4, 7]),
        ("not n not between 2 and 7", [1, 2, 6]),
        ("d = date '2024-01-01'", [0, 6, 7]),
        ("date'2024-01-02' <= d", [1, 2, 4]),
        ("d >= '2024-01-02'", [1, 2, 4]),
        ("d in (date '2024-01-02', '2024-01-03')", [1, 2]),
        ("s = 'it''s'", [5]),
        (r"s = 'it\'s'", [5]),
        ('s = "it\'s"', [5]),
        (r"""s = 'q"\\'""", [6]),
        ('`s` = "abc" or `N` = 3', [0, 2]),
        ("(s) = 'abc'", [0]),
        ("s = 'abc' or not (n > 2 and n < 8)", [0, 1, 3, 4, 7]),
        ("not (s = 'abc' or n = 3)", [1, 3, 6, 7]),
    ],
)
def test_filters_find_what_spark_finds(text: str, rows: list[int]) -> None:
    assert found(text) == rows


def test_columns_may_have_any_name_in_backticks_and_that_of_a_type_without() -> None:
    for column, text in (
        ("a b`c", "`a b``c` = 'x'"),
        ("date", "date = 'x'"),
        ("date", "date like 'x' and date is not null"),
        ("in", "`in` = 'x'"),
        ("2nd", "2nd = 'x'"),
    ):
        matches = by_sql(text).matches([Column(column, "string")])
        assert matches is not None
        assert matches(partition_name([column], ["x"]))
        assert not matches(partition_name([column], ["y"]))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "at 0 it ends, not a column"),
        ("s = x", "at 4 'x' stands, not a number, a text in quotes, or date"),
        ("s s", """at 2 's' stands, not a comparison, as = or "like\""""),
        ("d = 2024-01-01", "at 4 '2024-01-01' stands, .*date '2026-11-01': this subtracts"),
        ("d = date 'soon'", "at 9 \"'soon'\" stands, not a date"),
        ("d = timestamp '2024-01-01 12:00:00Z'", "at 14 .* stands, not a date.*without a zone"),
        ("d = timestamp '2024-01-01 25:00:00'", "at 14 .* stands, not a date"),
        ("d = date '2024-02-30'", "at 9 .* stands, not a date"),
        ("n = 1 and", "at 9 it ends, not a column"),
        ("n = 1 n = 2", "at 6 'n' stands, not \"and\""),
        ("n not = 1", """at 6 '=' stands, not "in", "between" or "like\""""),
        ("s is 'x'", 'at 5 "\'x\'" stands, not "null"'),
        ("s rlike 'x'", "at 2 'rlike' stands, not a comparison"),
        ("s like x", "at 7 'x' stands, not a text"),
        ("s like 'x' escape '!!'", "at 18 \"'!!'\" stands, not one character"),
        ("s like 'a!bc' escape '!'", "'!' is not before %, _ or itself"),
        ("s like 'a!' escape '!'", "'!' is not before"),
        (r"s = 'a\d'", r"at 4 .* stands, not a text in which \\d is \\\\d"),
        ("trim(s) = 'x'", "at 0 'trim' stands, not a column, or lower, upper"),
        ("lower(s, 'x')", "at 7 ',' stands"),
        ("cast(s) = 'x'", "at 6 '\\)' stands, not \"as\" and a type"),
        ("s = lower(s)", "at 11 '\\)' stands, not a number, a text"),
        ("t.s = 'x'", "is not understood at 1"),
        ("n = 1.5F", "is not understood at 5: '.5F'"),
        ("n = 1.5L", "at 4 '1.5L' stands"),
        ("n + 1 = 2", "is not understood at 2"),
        ("n = 1e400", "at 4 '1e400' stands, not a number that is a double"),
        (f"n = {'9' * 39}", "at 4 .* stands, not a number of at most 38 digits"),
        ("1 = 1", "at 4 '1' stands, not a column on one side"),
        ("n = n", "at 4 'n' stands"),
        ("(n, s) in (1)", "at 2 ',' stands"),
        ("n in (select 1)", "at 6 'select' stands"),
        ("(n = 1", """at 6 it ends, not "and", "or" or \"\\)"""),
        ("'x' like s", "at 4 'like' stands"),
        ("s = 'x", "is not understood at 4"),
        ("exists(s)", "at 0 'exists' stands, not a column"),
        ("s is distinct 'x'", 'at 14 .* stands, not "from"'),
        ("n = 1; drop table t", "is not understood at 5"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        by_sql(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("zz is null", "zz is not a partition column; these are: s, n, d"),
        ("n <=> 'x'", "n is a number, 'x' is not: Spark's answer depends on spark.sql.ansi"),
        ("n = '4.0'", "n is a number, '4.0' is not"),
        ("n != '99999999999'", "n is a number, '99999999999' is not"),
        ("n in ('04')", "n is a number: write '04' without quotes: in a list spark.sql.ansi"),
        ("n in (2.0, '10')", "n is a number: write literals of other types with = and or"),
        ("n in (2D, 10)", "n is a number: write literals of other types with = and or"),
        ("n in (1.5, 1e-30bd)", "n is a number: to compare these takes more than 38 digits"),
        ("s in (date '2024-01-01')", "s is a text: write literals of other types with = and or"),
        ("n > 1e-30bd", "n is a number: to compare these takes more than 38 digits"),
        ("s = 4", "s is a text, 4 is a number: Spark's answer depends on spark.sql.ansi"),
        ("s", "s is a text, True is a boolean"),
        ("cast(s as int) = 4", "where a text is none, spark.sql.ansi.enabled decides"),
        ("cast(n as date) = date '2024-01-01'", "no filter casts n, which is a int, to date"),
        ("not d = '1.1.2024'", "d is a date"),
    ],
)
def test_a_filter_that_does_not_fit_the_table_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        by_sql(text).matches(COLUMNS)


def test_parentheses_nest_as_deep_as_the_metastores() -> None:
    assert found("(" * DEPTH_MAX + "n = 1" + ")" * DEPTH_MAX) == [0]
    with pytest.raises(UsageError, match="deeper"):
        by_sql("(" * (DEPTH_MAX + 1) + "n = 1" + ")" * (DEPTH_MAX + 1))
    assert found("not " * 1001 + "n = 1") == found("n != 1")


columns = st.sampled_from(["s", "n", "`s`", "N"])
texts = st.text("ab%_'.*é", max_size=4)
numbers = st.integers(-3, 12)
signs = st.sampled_from(["=", "==", "!=", "<>", "<", "<=", ">", ">="])


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def literals(column: str) -> st.SearchStrategy[str]:
    return numbers.map(str) if column.strip("`").lower() == "n" else texts.map(quoted)


def escaped(pattern: str) -> str:
    """Return a pattern in which every other wildcard stands for itself."""
    return pattern.replace("%", "!%", 1).replace("_", "!_", 1)


negations = st.sampled_from(["", "not "])
tests = columns.flatmap(
    lambda column: st.one_of(
        st.builds("{} {} {}".format, st.just(column), signs, literals(column)),
        st.builds("{} {} {}".format, literals(column), signs, st.just(column)),
        st.builds("{} is {}null".format, st.just(column), negations),
        st.builds(
            "{} {}between {} and {}".format,
            st.just(column),
            negations,
            literals(column),
            literals(column),
        ),
        st.builds(
            lambda negation, listed: f"{column} {negation}in ({', '.join(listed)})",
            negations,
            st.lists(literals(column), min_size=1, max_size=3),
        ),
    )
) | st.one_of(
    st.builds("s {}like {}".format, negations, texts.map(quoted)),
    st.builds("s {}like {} escape '!'".format, negations, texts.map(escaped).map(quoted)),
)
filters = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.builds("not ({})".format, inner),
        st.builds("({}) and {}".format, inner, inner),
        st.builds("{} or ({})".format, inner, inner),
        st.builds("not {}".format, tests),
    ),
    max_leaves=5,
)
rows = st.lists(
    st.tuples(
        texts.filter(bool) | st.just(NULL_PARTITION),
        numbers.map(str) | st.just(NULL_PARTITION),
        st.just("2024-01-01"),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.thorough
@settings(max_examples=300, deadline=None)
@given(filters, rows)
def test_filters_find_what_sqlite_finds(text: str, given_rows: list[Row]) -> None:
    with sqlite3.connect(":memory:") as database:
        database.execute("pragma case_sensitive_like = on")
        database.execute("create table t (at int, s text, n int, d text)")
        for at, row in enumerate(given_rows):
            values = [None if one == NULL_PARTITION else one for one in row]
            database.execute("insert into t values (?, ?, ?, ?)", (at, *values))
        wanted = [at for (at,) in database.execute(f"select at from t where {text} order by at")]
    database.close()
    selector = by_sql(text)
    assert matching(selector, given_rows) == wanted
    assert selector_of(selector.form) == selector
    ranges = selector.ranges(COLUMNS)
    if ranges is not None:
        names = [name_of(given_rows[at]) for at in wanted]
        assert all(any(low <= name < high for low, high in ranges) for name in names)


words = st.sampled_from(
    [
        "s",
        "n",
        "=",
        "<=>",
        "(",
        ")",
        "in",
        "and",
        "or",
        "not",
        "1",
        "'a'",
        ",",
        "like",
        "is",
        "null",
    ]
)


@given(st.lists(words | st.text(max_size=3), max_size=12).map(" ".join))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    try:
        found(text)
    except UsageError:
        return
