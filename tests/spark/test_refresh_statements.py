"""An application's own statements do in an attached driver all that they do in plain Spark.

They act on the relation of a table that Spark has cached, which DataFrames and cached data hold,
too, and which a renewal discards. A driver that is not attached runs the same statements on tables
of its own: where it reads all that is right, the attached driver does.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber.spark.refresh.refresher import LATE_S
from topicast.tests.spark.applications import Application, applications
from topicast.tests.spark.cells import cells
from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.pair import Pair
from topicast.tests.waiting import until

STATISTICS: Final = "spark.sql.statistics.size.autoUpdate.enabled"  # they leave an event
KINDS: Final = {
    "parquet": "USING parquet",
    "csv": "USING csv",
    "parquet_by_day": "USING parquet PARTITIONED BY (ds)",
    "hive_parquet": "STORED AS parquet",
    "hive_parquet_by_day": "PARTITIONED BY (ds) STORED AS parquet",
    "hive_text": "STORED AS textfile",
}
FIRST: Final = [1, "a"]
ADDED: Final = ([2, "a"], [3, "a"], [4, "a"])  # by another application, a statement in each turn
OWN: Final = [9, "a"]

Rows = list[list[Any]]
Answers = tuple[Any, ...]  # attached, in plain Spark, and what is right


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``hold`` runs before the first change, ``late`` after it, ``statement`` after each.

    ``{t}`` is the table, ``{k}`` a key for what is kept; ``frame`` is read in each turn.
    """

    statement: str
    hold: str = ""
    late: str = ""
    frame: str = "spark.table('{t}')"
    own: Rows = field(default_factory=list)  # the rows that a statement adds
    replaces: bool = False  # those before are gone then
    plain_is_right: bool = True  # in the first turn


TABLE: Final = "spark.sql('CACHE TABLE {t}')"
FRAME: Final = "kept['{k}'] = spark.table('{t}')"
COUNTED: Final = f"{FRAME}.cache(); _ = kept['{{k}}'].count()"
OF_FRAME: Final = "kept['{k}'].select('*')"
REFRESH: Final = "spark.sql('REFRESH TABLE {t}')"
VIEW: Final = "spark.sql('CREATE TEMP VIEW view_{k} AS SELECT * FROM {t}')"
JOIN: Final = "spark.table('{t}').join(spark.table('{t}').select('id'), 'id')"
CASES: Final = {
    "refresh": Case(hold=TABLE, statement=REFRESH),
    "refresh by the catalog": Case(
        hold=COUNTED, statement="spark.catalog.refreshTable('{t}')", frame=OF_FRAME
    ),
    "refresh what is cached late": Case(
        hold=FRAME, late="_ = kept['{k}'].cache().count()", statement=REFRESH, frame=OF_FRAME
    ),
    "refresh a dataframe": Case(hold=FRAME, statement=REFRESH, frame=OF_FRAME),
    "refresh a join": Case(
        hold=f"kept['{{k}}'] = {JOIN}.cache(); _ = kept['{{k}}'].count()",
        statement=REFRESH,
        frame="kept['{k}'].select('*')",
    ),
    "refresh a view": Case(
        hold=f"{VIEW}; spark.sql('CACHE TABLE view_{{k}}')",
        statement="spark.sql('REFRESH TABLE view_{k}')",
        frame="spark.table('view_{k}')",
    ),
    "refresh below a view": Case(
        hold=f"{VIEW}; spark.sql('CACHE TABLE view_{{k}}')",
        statement=REFRESH,
        frame="spark.table('view_{k}')",
    ),
    "removed by hand": Case(hold=TABLE, statement=f"by_hand('{{t}}'); {REFRESH}", replaces=True),
    "truncate": Case(hold=COUNTED, statement="spark.sql('TRUNCATE TABLE {t}')", replaces=True),
    "insert": Case(
        hold=FRAME,
        statement="spark.sql(\"INSERT INTO {t} VALUES (9, 'a')\")",
        own=[OWN],
        frame=OF_FRAME,
    ),
    "insert below cached data": Case(
        hold=TABLE, statement="spark.sql(\"INSERT INTO {t} VALUES (9, 'a')\")", own=[OWN]
    ),
    "overwrite": Case(
        hold=COUNTED,
        statement="spark.sql(\"INSERT OVERWRITE {t} VALUES (9, 'a')\")",
        own=[OWN],
        replaces=True,
        frame=OF_FRAME,
    ),
    "uncache": Case(
        hold=TABLE,
        statement="spark.catalog.isCached('{t}') and spark.sql('UNCACHE TABLE {t}')",
        plain_is_right=False,
    ),
    "unpersist": Case(
        hold=COUNTED, statement="kept['{k}'].unpersist()", frame=OF_FRAME, plain_is_right=False
    ),
}
YOUNG, OLD = "young", "old"
CELLS = cells(
    {f"{age} {kind} {case}": None for age in (YOUNG, OLD) for kind in KINDS for case in CASES},
    some=(
        *(f"{YOUNG} parquet {case}" for case in ("removed by hand", "overwrite")),
        f"{OLD} hive_parquet_by_day refresh",
    ),
)
IN_DRIVER: Final = """
from pathlib import Path
kept = {}

def by_hand(table):
    where = spark.sql(f"DESCRIBE FORMATTED {table}").where("col_name = 'Location'").first()[1]
    for file in Path(where.removeprefix("file:")).rglob("*part-*"):
        file.unlink()

def run(code):
    try:
        exec(code, globals())
    except Exception as error:
        return repr(error)[:300]
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """A case, and the names of its tables."""

    name: str
    age: str
    kind: str
    case: Case
    number: int

    def table(self, who: str) -> str:
        return f"own_{who}.t{self.number}"

    def text(self, code: str, who: str) -> str:
        return code.format(t=self.table(who), k=f"k{self.number}")


@dataclass(slots=True)
class Stage:
    """The drivers, of which two run the same statements: one driver is attached."""

    pair: Pair
    plain: Application

    @property
    def readers(self) -> dict[str, Application]:
        return {"attached": self.pair.reader, "plain": self.plain}

    def run(self, which: list[Cell], part: str) -> None:
        """Let both readers run a part of each case."""
        for who, app in self.readers.items():
            codes = [one.text(getattr(one.case, part), who) for one in which]
            said = app.do(f"list(threads.map(run, {[code for code in codes if code]!r}))")
            assert not any(said), (who, said)

    def write(self, which: list[Cell], statement: str) -> None:
        """Let another application run ``statement`` on each table."""
        self.pair.writer.side_by_side(
            *(
                statement.format(t=one.table(who), how=KINDS[one.kind])
                for one in which
                for who in self.readers
            )
        )
        self.pair.refreshed()

    def read(self, which: list[Cell]) -> dict[str, dict[str, Any]]:
        """Return what both find, by who and cell."""
        return {
            who: app.read(**{f"k{one.number}": one.text(one.case.frame, who) for one in which})
            for who, app in self.readers.items()
        }

    def turns(self, which: list[Cell]) -> list[dict[str, Answers]]:
        """Return of each turn, by cell, what both find."""
        self.run(which, "hold")
        self.read(which)
        turns, right = [], {one.name: [FIRST] for one in which}
        for number, row in enumerate(ADDED):
            self.write(which, f"INSERT INTO {{t}} VALUES ({row[0]}, 'a')")
            if not number:
                self.run(which, "late")
                self.read(which)
                continue
            self.run(which, "statement")
            self.pair.refreshed()
            found = self.read(which).values()
            for one in which:
                before = [*right[one.name], *([ADDED[0]] if number == 1 else []), row]
                rows = [*([] if one.case.replaces else before), *one.case.own]
                right[one.name] = sorted(rows, key=str)
            turns.append(
                {
                    one.name: (*(of[f"k{one.number}"] for of in found), right[one.name])
                    for one in which
                }
            )
        return turns


@pytest.fixture(scope="module")
def found(
    drivers: Drivers, hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, list[Answers]]]:
    """Run every case in both drivers; of each cell what was found in each turn."""
    every = []
    for number, name in enumerate(CELLS):
        age, kind, case = name.split(" ", 2)
        every.append(Cell(name, age, kind, CASES[case], number))
    pair = Pair(drivers.writer, drivers.reader, drivers.daemons)
    for one in (pair.writer, pair.reader):
        one.do("'handle' in globals() and handle.detach()")
    pair.writer.sql(f"SET {STATISTICS}=true")
    with applications(tmp_path_factory.mktemp("plain"), hive.uri, plain={}) as both:
        stage = Stage(pair, both["plain"])
        pair.attach(pair.reader)
        for who, app in stage.readers.items():
            pair.writer.sql(f"CREATE DATABASE own_{who}")
            app.do(IN_DRIVER)
        stage.write(every, "CREATE TABLE {t} {how} AS SELECT 1 AS id, 'a' AS ds")
        made_at = time.monotonic()
        young, old = ([one for one in every if one.age == age] for age in (YOUNG, OLD))
        turns = stage.turns(young)
        until(lambda: time.monotonic() > made_at + LATE_S, timeout_s=LATE_S)
        turns += stage.turns(old)
        status = pair.reader.do("status = handle.status(); [status.errors, status.last_error]")
        assert status == [0, ""]
        yield {one.name: [turn[one.name] for turn in turns if one.name in turn] for one in every}
    pair.reader.do("_ = [one.unpersist() for one in kept.values()]; kept.clear()")
    pair.reader.do("spark.catalog.clearCache(); handle.detach()")


@pytest.mark.nightly  # four minutes; test_refresh has some of them
@pytest.mark.parametrize("name", list(CELLS))
def test_statement_does_no_less_than_in_plain_spark(
    found: dict[str, list[Answers]], name: str
) -> None:
    first, *_ = turns = found[name]
    case = CASES[name.split(" ", 2)[2]]
    if case.plain_is_right:
        _, plain, right = first
        assert plain == right, "the case says so"
    for attached, plain, right in turns:
        assert attached in (plain, right), f"plain: {plain}, right: {right}"
