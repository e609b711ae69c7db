"""What SQL texts say that they write; what Spark says is in tests/spark."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.spark.writes.statements import (
    HEAD_CHARACTERS_MAX,
    SCAN_CHARACTERS_MAX,
    Target,
    parts_of,
    targets,
)

T = Target(name=("d", "t"))
DAY = Target(name=("d", "t"), partitions=("ds=2026-11-01/",))
REFRESHED = replace(T, refreshes=True)
GONE, DAY_GONE = replace(T, overwrites=True), replace(DAY, overwrites=True)


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("INSERT INTO d.t VALUES (1)", T),
        ("insert into table d.t select * from d.u", T),
        ("INSERT OVERWRITE d.t SELECT 1", GONE),
        ("INSERT OVERWRITE TABLE `d`.`t` TABLE d.u", GONE),
        ("-- why\n /* INSERT INTO x */ INSERT INTO d.t VALUES (1)", T),
        ("INSERT INTO t VALUES (1)", Target(name=("t",))),
        ("INSERT INTO c.d.`a``b.c` VALUES (1)", Target(name=("c", "d", "a`b.c"))),
        ("INSERT INTO d . t (a, b) VALUES (1)", T),
        ("INSERT INTO parquet.`/w/t` SELECT 1", Target(name=("parquet", "/w/t"))),
        ("INSERT INTO d.t PARTITION (ds = '2026-11-01') SELECT 1", DAY),
        ("INSERT INTO d.t PARTITION (ds='2026-11-01', hour) SELECT 1", DAY),
        ("INSERT INTO d.t PARTITION (ds) SELECT 1", T),
        ("INSERT INTO d.t PARTITION (ds = DATE '2026-11-01') SELECT 1", T),
        ("INSERT INTO d.t PARTITION (ds = -1) SELECT 1", T),
        (
            "INSERT OVERWRITE DIRECTORY '/w/t' USING parquet SELECT 1",
            Target(path="/w/t", overwrites=True),
        ),
        ("INSERT OVERWRITE LOCAL DIRECTORY '/w' SELECT 1", Target(path="file:/w", overwrites=True)),
        (
            "LOAD DATA INPATH 'into.x' OVERWRITE INTO TABLE d.t PARTITION (ds='2026-11-01')",
            DAY_GONE,
        ),
        ("LOAD DATA LOCAL INPATH 'overwrite' INTO TABLE d.t", T),
        ("TRUNCATE TABLE d.t PARTITION (ds='2026-11-01')", DAY_GONE),
        ("MSCK REPAIR TABLE d.t", T),
        ("REPAIR TABLE d.t", T),
        ("CREATE TABLE IF NOT EXISTS d.t USING csv AS SELECT 1", T),
        ("CREATE OR REPLACE TABLE d.t (a INT) AS (SELECT 1)", T),
        ("REPLACE TABLE d.t AS SELECT 1", T),
        ("ALTER TABLE d.t ADD COLUMNS (partition STRING)", T),
        ("ALTER TABLE d.t SET LOCATION '/x'", T),
        ("REFRESH TABLE d.t", REFRESHED),
        ("refresh table `d`.`t`;", REFRESHED),
        ("REFRESH '/w/a b'", Target(path="/w/a b", refreshes=True)),
        ('REFRESH "s3://w/t"', Target(path="s3://w/t", refreshes=True)),
        ("REFRESH hdfs://ns/w/d.db/t_1", Target(path="hdfs://ns/w/d.db/t_1", refreshes=True)),
    ],
)
def test_statement_that_writes_says_what(sql: str, found: Target) -> None:
    assert targets(sql) == (found,)


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "SELECT 'INSERT INTO d.t'",
        "WITH q AS (SELECT 1) SELECT * FROM q",
        "WITH q AS (SELECT 1 AS insert) SELECT (insert) FROM q",
        "FROM d.t SELECT a",
        "EXPLAIN INSERT INTO d.t VALUES (1)",
        "INSERT",
        "INSERT INTO",
        "INSERT INTO {table} SELECT 1",
        "INSERT INTO IDENTIFIER(:name) SELECT 1",
        "INSERT OVERWRITE DIRECTORY USING parquet OPTIONS (path '/w') SELECT 1",
        "LOAD DATA INPATH 'x'",
        "LOAD DATA INPATH 'x' INTO d.t",
        "CREATE TABLE d.t (a INT GENERATED ALWAYS AS (1)) USING parquet",
        "CREATE VIEW d.v AS SELECT 1",
        "CREATE TABLE",
        "ALTER TABLE d.t ADD IF NOT EXISTS PARTITION (ds='1')",
        "ALTER TABLE d.t DROP PARTITION (ds='1')",
        "ALTER TABLE d.t PARTITION (ds='1') RENAME TO PARTITION (ds='2')",
        "ALTER TABLE d.t RECOVER PARTITIONS",
        "ALTER VIEW d.v AS SELECT 1",
        "ALTER TABLE",
        "TRUNCATE d.t",
        "ANALYZE TABLE d.t COMPUTE STATISTICS",
        "DROP TABLE d.t",
        "REFRESH",
        "REFRESH TABLE",
        "REFRESH TABLE IDENTIFIER(:name)",
        "REFRESH d.t",
        "REFRESH FUNCTION d.f",
    ],
)
def test_what_writes_nothing_or_is_not_understood_is_nothing(sql: str) -> None:
    assert targets(sql) == ()


def test_each_table_of_a_multi_insert_is_found() -> None:
    u = Target(name=("d", "u"), partitions=("ds=1/",), overwrites=True)
    for lead in ("FROM d.s", "WITH q AS (SELECT 1) FROM q"):
        sql = (
            f"{lead} INSERT INTO d.t SELECT a INSERT OVERWRITE TABLE d.u PARTITION (ds=1) SELECT b"
        )
        assert targets(sql) == (T, u)


def test_only_the_beginning_of_a_long_statement_is_read() -> None:
    assert targets("INSERT INTO d.t VALUES " + "(1), " * SCAN_CHARACTERS_MAX) == (T,)
    assert targets(f"INSERT INTO {' ' * HEAD_CHARACTERS_MAX} d.t VALUES (1)") == ()
    query = f"WITH q AS (SELECT '{'x' * SCAN_CHARACTERS_MAX}')"
    assert targets(f"{query} INSERT INTO d.t SELECT 1") == ()


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("t", ("t",)),
        ("d.t", ("d", "t")),
        ("`a b`.`c``d`", ("a b", "c`d")),
        ("c.d.t", ("c", "d", "t")),
        ("", ()),
        ("d.t VERSION", ()),
        ("d-t", ()),
    ],
)
def test_name_is_read_as_it_is_written(name: str, parts: tuple[str, ...]) -> None:
    assert parts_of(name) == parts


@given(st.text(alphabet="INSERTO d.t`'\"\\(),=-/*\n1;", max_size=60))
def test_no_text_does_harm(text: str) -> None:
    for sql in (text, f"INSERT INTO {text}", f"FROM x INSERT {text}", f"LOAD {text}"):
        targets(sql)
