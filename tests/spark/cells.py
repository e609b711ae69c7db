"""Cells: what each way to read each table finds, in one session of a driver.

It runs in an application. What is read together costs one query; where that fails, each is read
alone, so that what fails is distinguished from what does not.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import reduce
from typing import Any, Final, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql.functions import lit, struct, to_json

from topicast.tests.spark.applications import name_of

ANEW: Final = ("sql", "table")  # what is planned anew, of a table by its name
HELD: Final = ("frame", "view_of_frame")  # what is planned anew, of a DataFrame that exists
SQL_VIEW: Final = "sql_view"
WAYS: Final = (*ANEW, *HELD, SQL_VIEW)

EVERY_CELL: Final = os.environ.get("CELLS") == "all"  # as make nightly sets it
T = TypeVar("T")

Make = Callable[[], DataFrame]


def cells(every: Mapping[str, T], *, some: Sequence[str]) -> dict[str, T]:
    """Return a cell of ``some`` for each way through our code; with CELLS=all, every cell."""
    return dict(every) if EVERY_CELL else {name: every[name] for name in some}


class Reader:
    """Reads tables in ``java``, a session of the JVM."""

    def __init__(self, spark: Any, java: Any, threads: Executor) -> None:
        self._spark = spark
        self._java = java
        self._threads = threads
        self._held: dict[str, DataFrame] = {}

    def hold(self, tables: Mapping[str, str]) -> None:
        """Make a DataFrame and views over each of ``tables``, a key and the table's name."""
        for key, table in tables.items():
            self._held[key] = self._of(self._java.table(table))
            self._held[key].createOrReplaceTempView(f"frame_{key}")
            self._sql(f"CREATE OR REPLACE TEMP VIEW sql_{key} AS SELECT * FROM {table}")

    def refresh(self, tables: Mapping[str, str]) -> None:
        """Do what users do who know that they read old rows."""
        for table in tables.values():
            self._java.catalog().refreshTable(table)

    def read(
        self, tables: Mapping[str, str], columns: list[str], ways: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return what is found of each table's ``columns`` by each of ``ways``: rows, or an error.

        A DataFrame that is held has the columns that it was made with.
        """
        made: dict[str, Make] = {}
        for key, table in tables.items():
            some = {
                "sql": lambda of=table: self._sql(f"SELECT {', '.join(columns)} FROM {of}"),
                "table": lambda of=table: self._of(self._java.table(of)).select(*columns),
                "frame": lambda of=key: self._held[of].select("*"),
                "view_of_frame": lambda of=key: self._sql(f"SELECT * FROM frame_{of}"),
                SQL_VIEW: lambda of=key: self._sql(f"SELECT * FROM sql_{of}"),
            }
            made |= {f"{key} {way}": some[way] for way in ways}
        return self._found(made)

    def _found(self, made: Mapping[str, Make]) -> dict[str, Any]:
        planned = dict(zip(made, self._threads.map(_tried, made.values()), strict=True))
        found = {name: one for name, one in planned.items() if isinstance(one, str)}
        frames = {name: one for name, one in planned.items() if not isinstance(one, str)}
        together = _tried(lambda: _collected(frames)) if frames else {}
        if isinstance(together, str):
            one_each = [{name: frame} for name, frame in frames.items()]
            alone = self._threads.map(lambda one: _tried(lambda: _collected(one)), one_each)
            for one, rows in zip(one_each, alone, strict=True):
                found |= dict.fromkeys(one, rows) if isinstance(rows, str) else rows
        else:
            found |= together
        return found

    def _sql(self, text: str) -> DataFrame:
        return self._of(self._java.sql(text))

    def _of(self, java: Any) -> DataFrame:
        return DataFrame(java, self._spark)


def _tried(make: Callable[[], Any]) -> Any:
    """Return what it makes, or what the error says that it ends in."""
    try:
        return make()
    except Exception as error:  # noqa: BLE001 - whatever it was, it is what a user sees
        return name_of(error)


def _collected(frames: Mapping[str, DataFrame]) -> dict[str, list[Any]]:
    """Return the sorted rows of each of ``frames``, of one query."""
    named = [
        frame.select(lit(name).alias("name"), to_json(struct(*frame.columns)).alias("row"))
        for name, frame in frames.items()
    ]
    found: dict[str, list[Any]] = {name: [] for name in frames}
    for name, row in reduce(DataFrame.union, named).collect():
        found[name].append(json.loads(row))
    return {name: sorted(rows, key=str) for name, rows in found.items()}
