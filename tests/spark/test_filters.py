"""Filters: the partitions that a filter finds are those that Spark finds, whatever its settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from topicast.subscriber import Subscriber
from topicast.tests.spark.cells import cells
from topicast.tests.spark.conftest import Drivers
from topicast.tests.waiting import until
from topicast.topics.errors import UsageError

DB: Final = "filtered"
ANSWERS: Final = """
def answers(table, conditions):
    '''Return the rows that each of the conditions finds, or None where Spark refuses it.'''
    listed = ", ".join(f"({one}) AS c{at}" for at, one in enumerate(conditions))
    try:
        rows = spark.sql(f"SELECT x, {listed} FROM {table}").collect()
        chosen = [[row[0] for row in rows if row[at + 1]] for at in range(len(conditions))]
        return list(map(sorted, chosen))
    except Exception:
        if len(conditions) == 1:
            return [None]
        half = len(conditions) // 2
        return answers(table, conditions[:half]) + answers(table, conditions[half:])

def under(ansi, table, conditions):
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        return answers(table, conditions)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """A table with a partition for each of ``values`` of ``kind``, in order; NULL is added.

    ``found``: conditions on ``p`` that find what Spark finds, with ANSI on and off. ``refused``:
    those of which Spark's answer depends on that, and those that are not supported.
    """

    kind: str
    values: Sequence[str]
    found: Sequence[str]
    refused: Sequence[str]


CASES: Final[Mapping[str, Cases]] = {
    "int": Cases(
        kind="INT",
        values=("4", "10", "-5", "20240101"),
        found=(
            *("p = 4", "p = '04'", "p = ' 4 '", "p = '+4'", "p != '04'", "p < '10'", "p <=> '04'"),
            *("p between '04' and '10'", "p in ('4')", "p in ('4', 10)", "p in (4, null)"),
            *("p not in (4, null)", "p in (null)", "p = null", "p != null", "not p = null"),
            *("p <=> null", "p = 4.0", "p > 3.5", "p in (4.0, 10)", "p between 3.5 and 10.5"),
            *("p = 4e0", "p > 3.5D", "p = 4L", "p = 4BD", "p > -6", "p = +4", "p = 99999999999"),
            *("p != 99999999999999999999999999", "cast(p as string) = '4'", "string(p) = '4'"),
            *("cast(p as string) like '20%'", "cast(p as bigint) = 4", "lower(p) = '4'"),
            *("p is not distinct from 4", "p is distinct from 4", "!(p = 4)", "true", "false"),
            *("p = cast('4' as int)", "p between null and 10", "p not between 4 and 9"),
            *("p not between null and 4", "p = 4 and true", "not (p = 4 or p is null)", "p = '-0'"),
            *("p ilike '1%'", "p like '1%'", "p like '%0%'"),
        ),
        refused=(
            *("p = '4.0'", "p = 'x'", "p != '99999999999'", "p in ('04')", "p = 4.0F", "p = true"),
            *("p = date '2024-01-01'", "cast(p as smallint) = 4", "p % 2 = 0"),
            *("p + 1 = 5", "coalesce(p, 0) = 0", "p rlike '1'", "p in (4, 'x')", "p = ''"),
            *("p in (4.0, '10')", "p in (4D, 10)", "p > 1e-30bd", "p = 1e400"),
        ),
    ),
    "bigint": Cases(
        kind="BIGINT",
        values=("4", "9007199254740993"),
        found=(
            *("p = 4", "p = '04'", "p = 9007199254740993", "p = 9007199254740992D"),
            *("p = 9007199254740993.0", "p = '9007199254740993'", "p in ('4')", "p > 4e0"),
        ),
        refused=("p = '99999999999999999999'",),
    ),
    "tinyint": Cases(
        kind="TINYINT",
        values=("4", "10"),
        found=("p = 4", "p = '04'", "p = 300", "p = 4.0", "p in (4, 300)", "cast(p as int) = 4"),
        refused=("p = '300'", "p != '300'"),
    ),
    "string": Cases(
        kind="STRING",
        values=("'abc'", "'ABC'", "'a c'", "'10'", "'2024-01-01'", "'true'", "'a%c'"),
        found=(
            *("p = 'abc'", "p in ('abc', null)", "p not in ('abc', null)", "lower(p) = 'abc'"),
            *("upper(p) = 'ABC'", "lcase(p) in ('abc', 'x')", "ucase(p) like 'A%'"),
            *("not lower(p) = 'abc'", "lower(upper(p)) = 'abc'", "p ilike 'AB%'"),
            *("p not ilike 'AB%'", "p like 'a!%c' escape '!'", "p like 'a\\\\%c'"),
            *("cast(p as string) = 'abc'", "try_cast(p as int) = 10", "try_cast(p as int) > 5"),
            *("try_cast(p as date) = date '2024-01-01'", "try_cast(p as boolean)", "p <=> 'abc'"),
            *("p = lower('ABC')", "p between 'a' and 'b'", "p < 'b' and p > '1'", "p is null"),
            *("p like 'a%' or p like '1%'", "`P` = 'abc'", "p != ''", "p in ('abc ')"),
        ),
        refused=(
            *("p = 10", "p != 10", "p in (10)", "p = true", "p = 1.5", "cast(p as int) = 10"),
            *("trim(p) = 'abc'", "length(p) = 3", "p rlike '^a'", "p = 'abc' || ''", "p", "p = p"),
        ),
    ),
    "dates as texts": Cases(
        kind="STRING",
        values=("'2024-01-01'", "'2024-1-2'", "'2023-12-31'", "'2024-01-01 12:00:00'"),
        found=(
            *("p = date '2024-01-01'", "p >= date '2024-01-01'", "p < date '2024-01-02'"),
            "date '2024-01-02' = p",
        ),
        refused=(
            "p = timestamp '2024-01-01 12:00:00'",
            "cast(p as date) = date '2024-01-01'",
            "p in (date '2024-01-01')",
        ),
    ),
    "char": Cases(
        kind="CHAR(4)",
        values=("'ab'", "'abcd'", "'a'", "'10'"),
        found=(
            *("p = 'ab'", "p = 'ab  '", "p = 'ab   '", "p = 'abcde'", "p != 'ab'", "p < 'ab'"),
            *("p >= 'ab'", "p in ('ab', 'x')", "p in ('ab', 'abcdef')", "p not in ('ab')"),
            *("p <=> 'ab'", "p like 'ab'", "p like 'ab%'", "p like 'ab  '", "p like '____'"),
            *("p between 'ab' and 'abc'", "lower(p) = 'ab'", "lower(p) = 'ab  '"),
            *("p ilike 'AB%'", "cast(p as string) = 'ab  '", "p is null"),
            *("'ab' = p", "not p = 'ab'", "p > 'ab' and p < 'b'"),
        ),
        refused=("p = 10", "trim(p) = 'ab'", "p in ('ab', null)"),
    ),
    "varchar": Cases(
        kind="VARCHAR(4)",
        values=("'ab'", "'abcd'", "'b '"),
        found=(
            *("p = 'ab'", "p = 'ab  '", "p in ('ab', 'abcdef')", "p like 'ab%'", "p > 'ab'"),
            "lower(p) = 'ab'",
        ),
        refused=("p = 10",),
    ),
    "decimal": Cases(
        kind="DECIMAL(5,2)",
        values=("1.5", "2", "-0.25", "123.45"),
        found=(
            *("p = 1.5", "p = 1.50", "p = 2", "p > 1", "p in (1.5, 2)", "p in (1.5, null)"),
            *("p = '1.5'", "p = '1.50'", "p = 1.5D", "p = 15e-1", "p = 123.45D", "p < 1.505"),
            *("p between 1 and 2", "p <=> 1.5", "p = '2'", "cast(p as string) = '1.50'"),
            *("p = -0.25", "p = .5", "p is null", "p like '1%'", "p in (1.5, 2, 2.00)"),
            *("p in (1.5D)", "p not in (1.5D, 2D)", "p not in (1.5, 3)", "p != 1.5"),
        ),
        refused=("p != 'x'", "p = true", "cast(p as int) = 1", "p in ('1.5')", "p > 1e-36bd"),
    ),
    "double": Cases(
        kind="DOUBLE",
        values=("1.5", "2", "-0.25", "double('NaN')", "0.1", "1e20"),
        found=(
            *("p = 1.5", "p = 2", "p = 0.1", "p > 1", "p in (1.5, 2)", "p = '1.5'", "p = '0.1'"),
            *("p = 0.1D", "p = 'NaN'", "p > 1000", "p between 1 and 2", "p = 1e20"),
            *("p in (1.5D, 2.0)", "p not in (1.5, 2)", "p != '1.5'", "p <=> 2", "p > '1'", "p < 0"),
            *("p = 'inf'", "p < 'Infinity'", "p >= 1e20", "p is null", "p = 123456789012345678901"),
        ),
        refused=("cast(p as string) = '1.5'", "p like '1%'", "p in ('1.5')", "p = 0.1F"),
    ),
    "boolean": Cases(
        kind="BOOLEAN",
        values=("true", "false"),
        found=(
            *("p", "not p", "p = true", "p = false", "p = 'true'", "p = 't'", "p = 'TRUE'"),
            *("p != true", "p is true", "p is not true", "p is false", "p is not false"),
            *("p is null", "p in (true)", "p in (true, null)", "p <=> true"),
            *("p not in (false, null)", "p < true", "p between false and true", "p or p is null"),
            *("!p", "cast(p as string) = 'true'", "lower(p) = 'true'", "true = p", "p = null"),
            *("p like 't%'", "p = '0'", "p = 'yes'"),
        ),
        refused=("p = 'x'", "p = 1", "p = 0", "p in ('t')", "p in ('true')"),
    ),
    "date": Cases(
        kind="DATE",
        values=("date'2024-01-01'", "date'2024-01-02'", "date'2023-12-31'"),
        found=(
            *("p = '2024-01-01'", "p = date '2024-01-01'", "p = date'2024-1-1'", "p = '2024-1-1'"),
            *("p = ' 2024-01-01 '", "p >= '2024-01-01'", "p in ('2024-01-01')"),
            *("p in (date'2024-01-01', '2024-01-02')", "p in (date'2024-01-01', null)"),
            *("p between '2024-01-01' and '2024-01-31'", "p = timestamp '2024-01-01 00:00:00'"),
            *("p < timestamp '2024-01-01 12:00:00'", "lower(p) = '2024-01-01'"),
            *("cast(p as string) like '2024%'", "p = cast('2024-01-01' as date)"),
            *("p = date('2024-01-01')", "p = to_date('2024-01-01')", "date(p) = '2024-01-01'"),
            *("cast(p as timestamp) = timestamp '2024-01-01 00:00:00'", "p <=> '2024-01-01'"),
            *("p like '2024-01%'", "p in (timestamp'2024-01-01 00:00:00')"),
        ),
        refused=(
            *("p = 'soon'", "p in ('2024-1-1')", "p = 20240101"),
            *("year(p) = 2024", "p > current_date()", "p = 2024-01-01", "p = '2024-02-30'"),
            "p in (timestamp'2024-01-01 00:00:00', '2024-01-01')",
        ),
    ),
    "timestamp": Cases(
        kind="TIMESTAMP",
        values=(
            *("timestamp'2024-01-01 00:00:00'", "timestamp'2024-01-01 12:30:00'"),
            *("timestamp'2024-01-01 12:30:00.5'", "timestamp'2023-12-31 23:00:00'"),
        ),
        found=(
            *("p = '2024-01-01 00:00:00'", "p = '2024-01-01'", "p >= '2024-01-01'"),
            *("p = timestamp '2024-01-01 12:30:00'", "p = timestamp '2024-01-01T12:30:00'"),
            *("p = timestamp '2024-01-01 12:30:00.500'", "p = '2024-01-01 12:30'"),
            *("p >= date '2024-01-01'", "p < date '2024-01-01'", "p = date '2024-01-01'"),
            *("p in ('2024-01-01 00:00:00')", "p in (timestamp'2024-01-01 12:30:00')"),
            *("p between '2024-01-01' and '2024-01-01 13:00:00'", "p is null"),
            *("cast(p as string) = '2024-01-01 12:30:00'", "cast(p as string) like '%.5'"),
            *("cast(p as date) = '2024-01-01'", "date(p) = date '2024-01-01'"),
            *("p <=> timestamp '2024-01-01 12:30:00'", "p = timestamp('2024-01-01 12:30:00')"),
            *("p like '2024-01-01 12%'", "p in (date'2024-01-01')", "p not in (date'2024-01-01')"),
        ),
        refused=(
            *("p = timestamp '2024-01-01 11:30:00Z'", "p in ('2024-01-01')", "p = 'soon'"),
            *("p = 1704063600", "hour(p) = 12", "p = '12:30:00'"),
        ),
    ),
    "timestamp_ntz": Cases(
        kind="TIMESTAMP_NTZ",
        values=("timestamp_ntz'2024-01-01 00:00:00'", "timestamp_ntz'2024-01-01 12:30:00.5'"),
        found=(
            *(
                "p = '2024-01-01 00:00:00'",
                "p > '2024-01-01'",
                "p = timestamp '2024-01-01 12:30:00.5'",
            ),
            *("p > timestamp_ntz '2024-01-01 12:00:00'", "p = date '2024-01-01'", "p is null"),
            *("cast(p as string) like '%.5'", "cast(p as date) = '2024-01-01'"),
        ),
        refused=("p = 'soon'",),
    ),
}
KINDS: Final = cells(CASES, some=("char",))


@pytest.fixture(scope="module")
def tables(drivers: Drivers) -> dict[str, str]:
    """Make a table for each of KINDS; return their names."""
    writer, names = drivers.writer, {one: f"{DB}.t{at}" for at, one in enumerate(KINDS)}
    writer.do(ANSWERS)
    writer.sql(f"CREATE DATABASE {DB}")
    writer.side_by_side(
        *(
            f"CREATE TABLE {names[one]} (x INT, p {case.kind}) USING parquet PARTITIONED BY (p)"
            for one, case in KINDS.items()
        )
    )
    for one, case in KINDS.items():
        rows = ", ".join(f"({at}, {value})" for at, value in enumerate((*case.values, "NULL")))
        writer.sql(f"INSERT INTO {names[one]} VALUES {rows}")
    writer.do(
        """
from urllib.parse import unquote

def partitions(table):
    '''Return the name of the partition in which each row is.'''
    rows = spark.sql(f"SELECT x, input_file_name() FROM {table}").collect()
    return [unquote(name).split("/")[-2] for _, name in sorted(map(tuple, rows))]
"""
    )
    return names


@pytest.mark.parametrize("kind", KINDS)
def test_a_filter_finds_the_partitions_that_spark_finds_or_is_refused(
    kind: str, drivers: Drivers, tables: dict[str, str]
) -> None:
    case, table = CASES[kind], tables[kind]
    conditions = (*case.found, *case.refused)
    with_ansi, without = (
        drivers.writer.do(f"under({ansi!r}, {table!r}, {conditions!r})")
        for ansi in ("true", "false")
    )
    names = drivers.writer.do(f"partitions({table!r})")
    with Subscriber(drivers.daemons.hub_address, timeout_s=60) as catalog:
        until(lambda: len(catalog.partitions(table)) == len(names), timeout_s=60)

        def found(condition: str) -> Any:
            chosen = {one.name for one in catalog.partitions(table, condition)}
            return [row for row, name in enumerate(names) if name in chosen]

        wrong = {
            condition: (found(condition), one, other)
            for condition, one, other in zip(case.found, with_ansi, without, strict=False)
            if not found(condition) == one == other
        }
        assert not wrong, "found by the filter, by Spark with ANSI, and by Spark without"
        for condition in case.refused:
            with pytest.raises(UsageError):
                catalog.partitions(table, condition)
