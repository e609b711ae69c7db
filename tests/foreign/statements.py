"""Statements: files of Spark's own SQL tests in this process; writes how each statement ends.

    describe.sql ──▶ a database and a session of its own ──▶ a line of JSON for each statement

What is compared are a statement's columns and rows, or the class of its error, without what is of
this run alone: paths, times, numbers of expressions. A file's --CONFIG_DIM settings are not tried.
Run: python -m topicast.tests.foreign.statements FOLDER ANSWER PATTERN [STATESTORES]
"""

import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from topicast.subscriber.spark import attach
from topicast.tests.foreign.suites import OK, UNENDED, cpu_s, write
from topicast.tests.spark.applications import name_of

Sync = Callable[[float], object]

INPUTS: Final = Path("sql", "core", "src", "test", "resources", "sql-tests", "inputs")
SYNC_S: Final = 60.0
ROWS_MAX: Final = 10_000  # of an answer; the largest table of Spark's tests has as many
TOLD_CHARS_MAX: Final = 1000  # of an answer, for who looks at a difference
NAME_CHARS_MAX: Final = 80  # of a statement

# Functions in Python and Scala, and scripts that are made at random, are not about tables.
LEFT_OUT: Final = ("udf/", "udtf/", "udaf/", "scripting/")
OF_TABLES: Final = re.compile(
    r"^\s*(CREATE\s+(OR\s+REPLACE\s+)?(EXTERNAL\s+)?(TABLE|DATABASE|SCHEMA|NAMESPACE|VIEW)"
    r"|ALTER\s+(TABLE|VIEW|DATABASE|SCHEMA)|INSERT)\b",
    re.IGNORECASE | re.MULTILINE,
)
READS: Final = re.compile(r"\(*\s*(SELECT|WITH|VALUES|TABLE|FROM|EXPLAIN)\b", re.IGNORECASE)
WHOLE: Final = re.compile(r"^--QUERY-DELIMITER-(?:START|END).*$", re.MULTILINE)
OF_THIS_RUN: Final = tuple(
    (re.compile(pattern), by)
    for pattern, by in (
        (r"#\d+L?", "#x"),
        (r"plan_id=\d+", "plan_id=x"),
        (r"transient_lastDdlTime\W+\d+", "transient_lastDdlTime"),
        (r"(Created Time|Created|Last Access|LastAccessTime)( *[|:]? *).*", r"\1"),
        (r'"(created_time|last_access)":"[^"]*"', r'"\1"'),
        (r"\bpart-[\w.-]+", "part-x"),
    )
)

# What Spark's files expect to be there: the text after FROM, as they name it.
WIDE: Final = (
    "unique1 INT, unique2 INT, two INT, four INT, ten INT, twenty INT, hundred INT, thousand INT,"
    " twothousand INT, fivethous INT, tenthous INT, odd INT, even INT, stringu1 STRING,"
    " stringu2 STRING, string4 STRING"
)
DATA: Final = {
    "aggtest": ("agg", "a INT, b FLOAT"),
    "onek": ("onek", WIDE),
    "tenk1": ("tenk", WIDE),
}
MADE: Final = {
    "testdata": "SELECT CAST(id AS INT) AS key, CAST(id AS STRING) AS value FROM range(1, 101)",
    "arraydata": "SELECT array(1, 2, 3) AS arraycol, array(array(1, 2, 3)) AS nestedarraycol",
    "mapdata": "SELECT map(1, 'a1', 2, 'b1', 3, 'c1') AS mapcol",
}


def files(inputs: Path, pattern: str) -> list[str]:
    """Return the names of the files that make or change tables, and begin as ``pattern`` says."""
    names = sorted(one.relative_to(inputs).as_posix() for one in inputs.glob(f"{pattern}*.sql"))
    kept = [one for one in names if not one.startswith(LEFT_OUT)]
    return [one for one in kept if OF_TABLES.search((inputs / one).read_text("utf-8"))]


def statements(text: str) -> Iterator[str]:
    """Return the statements of a file: what ends in a semicolon, or is marked as a whole."""
    for at, part in enumerate(WHOLE.split(text)):
        if at % 2:
            yield part.strip()
            continue
        lines = [one for one in part.splitlines() if not one.strip().startswith("--")]
        for one in re.split(r"(?<!\\);", "\n".join(lines)):
            if one.strip():
                yield one.strip()


def settings(text: str) -> dict[str, str]:
    """Return the configuration that a file wants of its session."""
    pairs = [one for line in re.findall(r"^--SET (.*)$", text, re.M) for one in line.split(",")]
    return {name.strip(): value.strip() for name, _, value in (one.partition("=") for one in pairs)}


def run(spark: SparkSession, statement: str, here: str) -> str:
    """Return the end of a statement; up to a colon what counts of it, then what it was."""
    try:
        frame = spark.sql(statement)._jdf
        found = f"{frame.schema().catalogString()}\n{frame.showString(ROWS_MAX, 0, False)}"
    except Exception as error:  # noqa: BLE001 - it is what is compared
        return f"{name_of(error).partition(':')[0]}: {error}"[:TOLD_CHARS_MAX]
    found = found.replace(here, "here")
    for pattern, by in OF_THIS_RUN:
        found = pattern.sub(by, found)
    lines = [" ".join(one.split()) for one in found.splitlines() if one[:2] != "+-"]
    digest = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:12]
    return f"{OK} {digest}: {' '.join(lines)}"[:TOLD_CHARS_MAX]


def expected(texts: Iterable[str]) -> list[str]:
    """Return the tables that the texts of files name, and do not make."""
    together = "\n".join(texts)
    return [one for one in (*MADE, *DATA) if re.search(rf"\b{one}\b", together)]


def make_tables(spark: SparkSession, data: Path, names: Iterable[str]) -> None:
    """Make tables that files expect to be there, in the database ``default``, unless they are."""
    for name in names:
        if name in MADE:
            spark.sql(f"CREATE TABLE IF NOT EXISTS default.{name} USING parquet AS {MADE[name]}")
        else:
            file, schema = DATA[name]
            rows = spark.read.csv(f"file:{data}/{file}.data", schema=schema, sep="\t")
            rows.write.saveAsTable(f"default.{name}", format="parquet", mode="ignore")


def session_of(spark: SparkSession, name: str, text: str) -> SparkSession:
    """Return a session for a file, in a database of the file's own."""
    session, database = spark.newSession(), re.sub(r"\W", "_", name)
    session.sql(f"CREATE DATABASE {database}")
    session.sql(f"USE {database}")
    for one in expected([text]):
        session.sql(f"CREATE VIEW {one} AS SELECT * FROM default.{one}")
    for key, value in settings(text).items():
        session.conf.set(key, value)
    return session


def ends(session: SparkSession, text: str, here: str, sync: Sync) -> Iterator[tuple[str, str]]:
    """Run the statements of a file; yield each as it begins, and with its end.

    ``sync`` is called before what was written is read.
    """
    is_synced = False
    for at, statement in enumerate(statements(text), 1):
        name = f"{at} {' '.join(statement.split())}"[:NAME_CHARS_MAX]
        yield name, UNENDED
        is_read = READS.match(statement) is not None
        if is_read and not is_synced:
            sync(SYNC_S)
        is_synced = is_read
        yield name, run(session, statement, here)


def main(folder: str, answer: str, pattern: str, statestores: str = "") -> None:
    """Run the files of ``folder`` that ``pattern`` names; write how each statement ends.

    A driver that ``statestores`` attach syncs before it reads what it has written, so that its
    reads are answered from memory.
    """
    inputs, here = Path(folder).resolve(), str(Path(answer).resolve().parent)
    spark = SparkSession.builder.getOrCreate()
    texts = {name: (inputs / name).read_text("utf-8") for name in files(inputs, pattern)}
    make_tables(spark, inputs.parents[1] / "test-data" / "postgresql", expected(texts.values()))
    handle = attach(spark, statestores) if statestores else None
    sync: Sync = (lambda _timeout_s: None) if handle is None else handle.sync
    with Path(answer).open("w", encoding="utf-8") as file:
        for name, text in texts.items():
            session = session_of(spark, name.removesuffix(".sql"), text)
            for statement, end in ends(session, text, here, sync):
                write(file, test=f"{name} {statement}", end=end)
        found = {} if handle is None else {"memory_reads": handle.status().memory_reads}
        write(file, cpu_s=cpu_s(), **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
