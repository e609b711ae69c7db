"""Soaking: what drivers write and read for a while, and their notes of it, by one clock.

Each object has one writer, which gives it the next number again and again. Readers note which
number a query found, or which files an error says are missing.
"""

import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import Any, Final

from topicast.tests.spark.applications import name_of
from topicast.tests.spark.cells import cells

WRITERS: Final = (1, 2)
APPENDED, OVERWRITTEN, WIDENED, ANEW = "appended", "overwritten", "widened", "anew"
EVERY_TABLE: Final = {  # name, where its files are in it, how it is made, how it gets a number
    "appended": ("", "USING parquet", APPENDED),
    "days": ("ds=a", "USING orc PARTITIONED BY (ds)", OVERWRITTEN),
    "hive": ("", "STORED AS parquet", OVERWRITTEN),
    "over": ("", "USING parquet", OVERWRITTEN),
    "wide": ("", "USING parquet", WIDENED),
    "anew": ("", "USING parquet", ANEW),
}
TABLES: Final = cells(EVERY_TABLE, some=("appended", "days"))  # make soak has all
PAUSE_S: Final = 0.05  # between two writes, so that most queries meet none of their table
FILE: Final = re.compile(r"part-[\w.-]*\w")
CONDITION: Final = re.compile(r"\[([A-Z_.]+)\]")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A write, or a query; ``files``: there after it, or missing. ``number`` None: no row."""

    object: str
    begin: float
    end: float
    number: int | None
    files: list[str]
    removes: bool = False
    error: str = ""


def prepare(spark: Any, threads: Any) -> None:
    """Make every table; each has number 0."""
    spark.sql("SET spark.sql.statistics.size.autoUpdate.enabled=false")
    spark.sql("CREATE DATABASE soak")
    creates = []
    for writer in WRITERS:
        for name, (_, how, _) in TABLES.items():
            columns = "0 AS n, 'a' AS ds" if "BY (ds)" in how else "0 AS n"
            creates.append(f"CREATE TABLE soak.{name}_{writer} {how} AS SELECT {columns}")
    list(threads.map(spark.sql, creates))


def write(spark: Any, writer: int, *, seconds: float) -> list[Json]:
    """Give the next number to each table of ``writer``, one after the other; each has 0."""
    location = spark.sql("DESCRIBE DATABASE soak").where("info_name = 'Location'").first()[1]
    notes = []
    for number in _numbers(seconds):
        for name, (below, _, kind) in TABLES.items():
            table, begin, end, removes = f"{name}_{writer}", 0.0, 0.0, kind in {OVERWRITTEN, ANEW}
            if number:
                begin = time.monotonic()
                WRITES[kind](spark, f"soak.{table}", number)
                end = time.monotonic()
            folder = Path(location.removeprefix("file:"), table, below)
            files = [file.name for file in folder.glob("part-*")]
            note = Note(
                object=table, begin=begin, end=end, number=number, files=files, removes=removes
            )
            notes.append(asdict(note))
            Event().wait(PAUSE_S if number else 0.0)
    return notes


def read(spark: Any, seed: int, *, seconds: float) -> list[Json]:
    """Read every table in any order, again and again."""
    rng, notes = random.Random(seed), []
    everything = [(f"{name}_{one}", TABLES[name][2]) for name in TABLES for one in WRITERS]
    for _ in _numbers(seconds):
        for table, kind in rng.sample(everything, len(everything)):
            number, error, files, begin = None, "", [], time.monotonic()
            try:
                frame = spark.sql(f"SELECT * FROM soak.{table}")
                number = READS[kind](frame.collect(), frame.columns)
            except Exception as exc:  # noqa: BLE001 - whatever it is, it is judged
                said = CONDITION.search(str(exc))
                error = said[1] if said else name_of(exc)
                files = sorted(set(FILE.findall(str(exc))))
            note = Note(
                object=table,
                begin=begin,
                end=time.monotonic(),
                number=number,
                files=files,
                error=error,
            )
            notes.append(asdict(note))
    return notes


def _numbers(seconds: float) -> Iterator[int]:
    until, number = time.monotonic() + seconds, 0
    while number < 2 or time.monotonic() < until:
        yield number
        number += 1


def _overwrite(spark: Any, table: str, number: int) -> None:
    if "days" in table:
        spark.sql(f"INSERT OVERWRITE {table} PARTITION (ds = 'a') SELECT {number} AS n")
    elif number % 2:
        spark.sql(f"INSERT OVERWRITE {table} SELECT {number} AS n")
    else:
        spark.sql(f"SELECT {number} AS n").write.insertInto(table, overwrite=True)


def _anew(spark: Any, table: str, number: int) -> None:
    spark.sql(f"DROP TABLE {table}")
    spark.sql(f"CREATE TABLE {table} USING parquet AS SELECT {number} AS n")


WRITES: Final[dict[str, Callable[[Any, str, int], object]]] = {
    APPENDED: lambda spark, table, number: spark.sql(f"INSERT INTO {table} VALUES ({number})"),
    OVERWRITTEN: _overwrite,
    WIDENED: lambda spark, table, number: spark.sql(
        f"ALTER TABLE {table} ADD COLUMNS (c{number} INT)"
    ),
    ANEW: _anew,
}


def _appended(rows: list[Any], _columns: list[str]) -> int | None:
    found = sorted(row.n for row in rows)
    assert found == list(range(len(found))), f"rows {found}"
    return found[-1] if found else None


def _only(rows: list[Any], _columns: list[str]) -> int | None:
    assert len(rows) <= 1, f"rows {rows}"
    return int(rows[0].n) if rows else None


READS: Final[dict[str, Callable[[list[Any], list[str]], int | None]]] = {
    APPENDED: _appended,
    OVERWRITTEN: _only,
    WIDENED: lambda _rows, columns: len(columns) - 1,
    ANEW: _only,
}
