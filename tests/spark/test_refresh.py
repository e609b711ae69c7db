"""Two real drivers on one real metastore: what one writes the other reads, without REFRESH.

Each failure of plain Spark is reproduced first, by the same statements, in the same run.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from topicast.catalog.metastore.embedded import EmbeddedMetastore
from topicast.tests.integration.daemons import Daemons
from topicast.tests.spark.applications import Application, applications

# The writer tells by statistics of what leaves no event otherwise; reports are not built yet.
WRITER = {
    "spark.sql.statistics.size.autoUpdate.enabled": "true",
    "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
}
SYNC_S = 60
KINDS = {
    "parquet": "USING parquet",
    "csv": "USING csv",
    "orc": "USING orc",
    "parquet_by_day": "USING parquet PARTITIONED BY (ds)",
    "hive_parquet": "STORED AS parquet",
    "hive_parquet_by_day": "PARTITIONED BY (ds) STORED AS parquet",
    "hive_text": "STORED AS textfile",
}
DATA_SOURCE = [kind for kind, how in KINDS.items() if how.startswith("USING")]
FIRST = [[1, "a"]]
OVERWRITTEN = [[30, "a"], [40, "a"], [50, "a"]]


@dataclass
class Scene:
    """The writer, the reader, and where the hub is."""

    writer: Application
    reader: Application
    hub: str

    def create(self, db: str, kinds: dict[str, str]) -> None:
        """Make a database with a table of each kind, of one row; let the reader read each."""
        self.writer.sql(f"CREATE DATABASE {db}")
        self.writer.side_by_side(
            *(
                f"CREATE TABLE {db}.{kind} {how} AS SELECT 1 AS id, 'a' AS ds"
                for kind, how in kinds.items()
            )
        )
        assert self.tables(db, kinds) == dict.fromkeys(kinds, FIRST)

    def tables(self, db: str, kinds: Any) -> dict[str, Any]:
        """Return what the reader reads of each table."""
        queries = {kind: f"spark.sql('SELECT * FROM {db}.{kind}')" for kind in kinds}
        return self.reader.read(**queries)

    def insert(self, db: str, kinds: Any, values: str, *, how: str = "INTO") -> None:
        self.writer.side_by_side(*(f"INSERT {how} {db}.{k} VALUES {values}" for k in kinds))

    def heard(self) -> None:
        """Wait until the reader has heard of all that was written, and refreshed it."""
        self.reader.do(f"handle.sync({SYNC_S})")

    def status(self, field: str) -> Any:
        return self.reader.do(f"handle.status().{field}")


@pytest.fixture(scope="module")
def scene(hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("drivers")
    daemons = Daemons(folder, hive.uri)
    try:
        daemons.start("statestored")
        daemons.start("catalogd")
        with applications(folder, hive.uri, writer=WRITER, reader={}) as both:
            yield Scene(both["writer"], both["reader"], daemons.hub_address)
    finally:
        daemons.close()


@pytest.fixture(scope="module")
def plain(scene: Scene) -> dict[str, dict[str, Any]]:
    """What plain Spark answers after each change, by kind of table."""
    scene.create("plain", KINDS)
    found = {}
    scene.insert("plain", KINDS, "(2, 'a')")
    found["append"] = scene.tables("plain", KINDS)
    scene.insert("plain", KINDS, "(30, 'a'), (40, 'a'), (50, 'a')", how="OVERWRITE")
    found["overwrite"] = scene.tables("plain", KINDS)
    found["overwrite, again"] = scene.tables("plain", KINDS)
    scene.writer.side_by_side(
        *(f"ALTER TABLE plain.{kind} ADD COLUMNS (note STRING)" for kind in DATA_SOURCE)
    )
    found["add a column"] = scene.reader.read(
        **{kind: f"spark.sql('SELECT note FROM plain.{kind}')" for kind in DATA_SOURCE}
    )
    return found


@pytest.fixture(scope="module")
def attached(scene: Scene, plain: object) -> Scene:
    """The scene from when the reader is attached; all was plain Spark before."""
    scene.reader.do("from topicast.subscriber.spark import attach")
    scene.reader.do(f"handle = attach(spark, {scene.hub!r})")
    scene.heard()
    return scene


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "hive_text"])
def test_plain_spark_reads_old_rows_and_then_fails(
    plain: dict[str, dict[str, Any]], kind: str
) -> None:
    assert plain["append"][kind] == FIRST
    assert "FILE_NOT_EXIST" in plain["overwrite"][kind]
    assert "FILE_NOT_EXIST" in plain["overwrite, again"][kind], "a retry is no cure"
    if kind in DATA_SOURCE:
        assert "UNRESOLVED_COLUMN" in plain["add a column"][kind]


def test_plain_spark_reads_text_tables_of_hive_right(plain: dict[str, dict[str, Any]]) -> None:
    assert plain["append"]["hive_text"] == [[1, "a"], [2, "a"]]


def test_what_was_stale_before_is_right_once_it_is_attached(attached: Scene) -> None:
    noted = {kind: [[*row, None] for row in OVERWRITTEN] for kind in DATA_SOURCE}
    noted["parquet_by_day"] = [[number, None, day] for number, day in OVERWRITTEN]
    assert attached.tables("plain", KINDS) == {**dict.fromkeys(KINDS, OVERWRITTEN), **noted}
    assert attached.status("errors") == 0


def test_attached_reader_sees_each_change(attached: Scene) -> None:
    scene = attached
    scene.create("fresh", KINDS)
    scene.insert("fresh", KINDS, "(2, 'a')")
    scene.heard()
    assert scene.tables("fresh", KINDS) == {kind: [*FIRST, [2, "a"]] for kind in KINDS}
    scene.insert("fresh", KINDS, "(30, 'a'), (40, 'a'), (50, 'a')", how="OVERWRITE")
    scene.heard()
    assert scene.tables("fresh", KINDS) == dict.fromkeys(KINDS, OVERWRITTEN)
    scene.writer.side_by_side(
        *(f"ALTER TABLE fresh.{kind} ADD COLUMNS (note STRING)" for kind in KINDS)
    )
    scene.heard()
    notes = {kind: f"spark.sql('SELECT id, note FROM fresh.{kind}')" for kind in KINDS}
    without = [[number, None] for number, _ in OVERWRITTEN]
    assert scene.reader.read(**notes) == dict.fromkeys(KINDS, without)
    assert scene.status("errors") == 0
