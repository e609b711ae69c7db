"""Every cell: what a writer does, what is read and how, in plain Spark and attached, side by side.

The writer is attached; its tables have no statistics, so
the first two changes leave no event. It is for the night: test_refresh has each
change for fewer kinds of tables, and each way to read for fewer changes.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.spark.applications import Application, applications
from topicast.tests.spark.cells import ANEW, HELD, SQL_VIEW, WAYS
from topicast.tests.spark.conftest import Drivers
from topicast.tests.waiting import until

WAIT_S: Final = 60
OTHER: Final = "other_session"
FORMATS: Final = {
    "parquet": "USING parquet",
    "csv": "USING csv",
    "orc": "USING orc",
    "hive_parquet": "STORED AS parquet",
    "hive_text": "STORED AS textfile",
}
KINDS: Final = (*FORMATS, *(f"{kind}_by_day" for kind in FORMATS))
BY_DAY: Final = tuple(kind for kind in KINDS if kind.endswith("_by_day"))
USING: Final = tuple(kind for kind in KINDS if not kind.startswith("hive"))
CACHED: Final = tuple(kind for kind in KINDS if not kind.startswith("hive_text"))

pytestmark = pytest.mark.nightly

READERS: Final = """
from topicast.tests.spark.cells import Reader
plain = ours = Reader(spark, spark._jsparkSession, threads)
other = Reader(spark, spark._jsparkSession.newSession(), threads)
"""

Rows = list[dict[str, Any]]
Answers = dict[tuple[str, str, str], Any]  # change, kind and way -> rows, or what the error says


def rows(text: str) -> Rows:
    """Return the rows of ``text``, such as ``1a 2bn``: a number, a day, and a note perhaps."""
    return [
        {"id": int(one[0]), "ds": one[1]} | ({"note": one[2]} if one[2:] else {})
        for one in text.split()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What the writer does to each table of ``kinds``; ``columns`` are read then.

    Of tables by day ``by_day`` is right, of others ``flat``. Plain Spark is ``wrong`` of what it
    plans anew of these. Ways that are ``incurable`` find what they find in plain Spark.
    """

    statements: tuple[str, ...]
    flat: Rows
    by_day: Rows
    kinds: tuple[str, ...] = KINDS
    columns: tuple[str, ...] = ("id", "ds")
    ways: tuple[str, ...] = WAYS
    wrong: tuple[str, ...] = ()
    incurable: tuple[str, ...] = ()
    suffix: str = ""  # of the table's new name

    def right(self, kind: str, way: str) -> Rows:
        """Return what is right; a view made with SQL has the columns that there were."""
        right = self.by_day if kind in BY_DAY else self.flat
        return [{k: row[k] for k in ("id", "ds")} for row in right] if way == SQL_VIEW else right


NOTED: Final = {"flat": rows("3a 4b 5c 7an"), "by_day": rows("3a 4d 6e 7fn")}
NAMED: Final = ("id", "ds", "note")
ANOTHER: Final[Rows] = [{"name": "x"}]
CHANGES: Final = {
    "append": Change(
        statements=("INSERT INTO {t} VALUES (2, 'a')",),
        flat=rows("1a 2a"),
        by_day=rows("1a 2a"),
        wrong=CACHED,
    ),
    "overwrite": Change(
        statements=("INSERT OVERWRITE {t} VALUES (3, 'a'), (4, 'b'), (5, 'c')",),
        flat=rows("3a 4b 5c"),
        by_day=rows("3a 4b 5c"),
        wrong=CACHED,
    ),
    "partitions": Change(
        statements=(
            "ALTER TABLE {t} PARTITION (ds = 'b') RENAME TO PARTITION (ds = 'd')",
            "ALTER TABLE {t} DROP PARTITION (ds = 'c')",
            "INSERT INTO {t} VALUES (6, 'e')",
        ),
        flat=rows("3a 4b 5c"),
        by_day=rows("3a 4d 6e"),
        kinds=BY_DAY,
    ),
    "column": Change(
        statements=("ALTER TABLE {t} ADD COLUMNS (note STRING)", "INSERT INTO {t} VALUES {noted}"),
        flat=NOTED["flat"],
        by_day=NOTED["by_day"],
        columns=NAMED,
        wrong=USING,
        incurable=HELD,  # they have other columns
    ),
    "rename": Change(
        statements=("ALTER TABLE {t} RENAME TO {t}_new",),
        flat=NOTED["flat"],
        by_day=NOTED["by_day"],
        columns=NAMED,
        ways=ANEW,
        suffix="_new",
    ),
    "recreate": Change(
        statements=("DROP TABLE {t}", "CREATE TABLE {t} {how} AS SELECT 'x' AS name"),
        flat=ANOTHER,
        by_day=ANOTHER,
        columns=("name",),
        ways=(*ANEW, *HELD),
        wrong=USING,
        incurable=HELD,  # they are of another table
    ),
}


@dataclass(slots=True)
class Stage:
    """The drivers, and by what names the tables go at this moment."""

    writer: Application
    reader: Application
    plain: Application
    tables: dict[str, str]

    def of(self, who: str) -> Application:
        """Return the driver in which ``who`` reads."""
        return self.plain if who == "plain" else self.reader

    def side_by_side(self, statement: str, kinds: tuple[str, ...]) -> None:
        """Let the writer run ``statement`` on each of ``kinds``."""
        texts = []
        for kind in kinds:
            how = FORMATS[kind.removesuffix("_by_day")]
            noted = "(7, 'n', 'f')" if kind in BY_DAY else "(7, 'a', 'n')"
            texts.append(statement.format(t=self.tables[kind], how=how, noted=noted))
        self.writer.side_by_side(*texts)

    def read(self, who: str, change: Change, ways: tuple[str, ...]) -> dict[str, Any]:
        """Return what ``who`` finds now, by kind and way."""
        tables = {kind: self.tables[kind] for kind in change.kinds}
        found: dict[str, Any] = self.of(who).do(
            f"{who}.read({tables!r}, {list(change.columns)!r}, {ways!r})"
        )
        return found

    def settle(self, who: str, change: Change) -> None:
        """Let ``who`` hold a DataFrame and views of each table, and read it."""
        self.of(who).do(f"{who}.hold({self.tables!r})")
        every = Change(
            statements=(), flat=change.flat, by_day=change.by_day, columns=change.columns
        )
        wanted = {f"{kind} sql": every.right(kind, "sql") for kind in KINDS}
        until(lambda: self.read(who, every, ("sql",)) == wanted, timeout_s=WAIT_S, what=who)
        self.reader.do(f"handle.sync({WAIT_S})")

    def make(self, change: Change) -> None:
        """Let the writer do it."""
        for statement in change.statements:
            self.side_by_side(statement, change.kinds)
        self.tables = {kind: name + change.suffix for kind, name in self.tables.items()}

    def attached(self, change: Change) -> dict[str, Any]:
        """Return what the attached sessions find; their first answer is usually right."""
        found: dict[str, Any] = {}

        def is_right() -> bool:
            found.update(self.read("ours", change, change.ways))
            other = self.read("other", change, ("sql",))
            found.update({f"{name.split()[0]} {OTHER}": one for name, one in other.items()})
            return all(
                one == change.right(*name.split())
                for name, one in found.items()
                if name.split()[1] not in change.incurable
            )

        with suppress(AssertionError):  # each cell says what it is
            until(is_right, timeout_s=WAIT_S)
        return found


def said(answer: Rows | str) -> Rows | str:
    """Return an answer without what it says of files and tasks, whose names differ."""
    if isinstance(answer, list):
        return answer
    return re.sub(r"\d+", "#", answer.partition(" Encountered")[0])


@dataclass(frozen=True, slots=True)
class Found:
    """What was found of each cell."""

    plain: Answers
    attached: Answers


@pytest.fixture(scope="module")
def plain(
    hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Application]:
    """A driver that is not attached."""
    with applications(tmp_path_factory.mktemp("plain"), hive.uri, plain={}) as one:
        yield one["plain"]


@pytest.fixture(scope="module")
def found(drivers: Drivers, plain: Application) -> Found:
    """Make each change once; all read after it."""
    tables = {kind: f"cells.{kind}" for kind in KINDS}
    stage = Stage(drivers.writer, drivers.reader, plain, tables)
    for one, settings in ((stage.writer, {}), (stage.reader, {"refresh_existing": True})):
        one.do("'handle' in globals() and handle.detach()")
        one.do(f"handle = attach(spark, {drivers.daemons.hub_address!r}, **{settings!r})")
        one.do(f"handle.sync({WAIT_S})")
    stage.writer.sql("SET spark.sql.statistics.size.autoUpdate.enabled=false")
    stage.writer.sql("CREATE DATABASE cells")
    flat = tuple(kind for kind in KINDS if kind not in BY_DAY)
    stage.side_by_side("CREATE TABLE {t} (id INT, ds STRING) {how}", flat)
    stage.side_by_side("CREATE TABLE {t} (id INT, ds STRING) {how} PARTITIONED BY (ds)", BY_DAY)
    stage.side_by_side("INSERT INTO {t} VALUES (1, 'a')", KINDS)
    for one in (stage.reader, plain):
        one.do(READERS)
    first = Change(statements=(), flat=rows("1a"), by_day=rows("1a"))
    for who in ("ours", "other", "plain"):
        stage.settle(who, first)
    found = Found({}, {})
    for name, change in CHANGES.items():
        stage.make(change)
        of_both = (stage.attached(change), stage.read("plain", change, change.ways))
        for kept, answers in zip((found.attached, found.plain), of_both, strict=True):
            kept |= {(name, *cell.split()): one for cell, one in answers.items()}  # type: ignore[misc]  # of two words
        plain.do(f"plain.refresh({stage.tables!r})")
        stage.settle("plain", change)
        if change.suffix:
            stage.settle("ours", change)
    status = stage.reader.do("status = handle.status(); [status.errors, status.last_error]")
    assert status == [0, ""]
    return found


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, one in CHANGES.items() for kind in one.kinds]
)
def test_attached_session_reads_right_where_plain_spark_does_not(
    found: Found, name: str, kind: str
) -> None:
    change = CHANGES[name]
    plain = {way: found.plain[name, kind, way] for way in change.ways}
    for way, answer in plain.items():
        if way in change.incurable:
            assert said(found.attached[name, kind, way]) == said(answer), way
        else:
            assert found.attached[name, kind, way] == change.right(kind, way), way
    assert found.attached[name, kind, OTHER] == change.right(kind, OTHER)
    for way in ANEW:
        assert (plain[way] != change.right(kind, way)) is (kind in change.wrong), way
