"""What is run of Spark's own SQL files: which files, which statements, with which settings."""

from pathlib import Path

from topicast.tests.foreign.statements import files, settings, statements

TEXT = r"""-- This file has settings.
--SET spark.sql.cbo.enabled=true, spark.sql.x = 1
--CONFIG_DIM1 spark.sql.ansi.enabled=true
CREATE TABLE t (a INT) USING parquet; -- what follows a statement is of the next one

SELECT 'a\;b',
  -- between lines
  a FROM t;
--QUERY-DELIMITER-START
SELECT /* ; */ 1;
--QUERY-DELIMITER-END
DROP TABLE t
"""


def test_statements_end_in_a_semicolon_or_are_marked_as_a_whole() -> None:
    assert list(statements(TEXT)) == [
        "CREATE TABLE t (a INT) USING parquet",
        "-- what follows a statement is of the next one\n\nSELECT 'a\\;b',\n  a FROM t",
        "SELECT /* ; */ 1;",
        "DROP TABLE t",
    ]


def test_settings_of_a_file_are_those_that_always_hold() -> None:
    assert settings(TEXT) == {"spark.sql.cbo.enabled": "true", "spark.sql.x": "1"}
    assert settings("SELECT 1") == {}


def test_files_are_those_that_make_or_change_tables(tmp_path: Path) -> None:
    (tmp_path / "udf").mkdir()
    for name, text in {
        "show.sql": "\n  create or replace view v AS SELECT 1;",
        "shows.sql": "insert into t VALUES (1);",
        "select.sql": "SELECT 'CREATE TABLE t';",
        "temp.sql": "CREATE TEMPORARY VIEW v AS SELECT 1;",
        "udf/show.sql": "CREATE TABLE t (a INT);",
    }.items():
        (tmp_path / name).write_text(text)
    assert files(tmp_path, "") == ["show.sql", "shows.sql"]
    assert files(tmp_path, "[a-e]") == []
    assert files(tmp_path, "udf/") == []
