"""What an attached driver writes without an event, another one reads at once, without REFRESH.

The tables have no statistics, so the metastore is told nothing of what is written to them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from topicast.catalog.metastore.embedded import EmbeddedMetastore
from topicast.tests.integration.daemons import Daemons
from topicast.tests.spark.applications import Application, applications
from topicast.tests.waiting import until

WAIT_S = 60
WRITER = {"spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict"}
DAYS = "USING parquet PARTITIONED BY (ds)"
BEFORE = [[1, "a"]]
INSERTED, OVERWRITTEN = [[1, "a"], [2, "a"]], [[2, "a"]]
WRITES = {  # table -> how it is written, and the rows that there are then
    "insert": ("spark.sql(\"INSERT INTO {t} VALUES (2, 'a')\")", INSERTED),
    "static": ("spark.sql(\"INSERT INTO {t} PARTITION (ds = 'a') VALUES (2)\")", INSERTED),
    "over": ("spark.sql(\"INSERT OVERWRITE {t} VALUES (2, 'a')\")", OVERWRITTEN),
    "multi": (
        "spark.sql('FROM view_of_two INSERT INTO {t} SELECT * INSERT INTO {t} SELECT *')",
        [*INSERTED, [2, "a"]],
    ),
    "truncate": ("spark.sql(\"TRUNCATE TABLE {t} PARTITION (ds = 'a')\")", []),
    "insert_into": ("two.write.insertInto('{t}')", INSERTED),
    "insert_over": ("two.write.insertInto('{t}', overwrite=True)", OVERWRITTEN),
    "save_as": ("two.write.mode('append').partitionBy('ds').saveAsTable('{t}')", INSERTED),
    "save": ("two.write.mode('append').partitionBy('ds').save(where + '/save')", INSERTED),
    "path": ("two.drop('ds').write.mode('append').parquet(where + '/path/ds=a')", INSERTED),
    "current": ("spark.sql('USE reported') and two.write.insertInto('current')", INSERTED),
    "session": ("spark.newSession().sql(\"INSERT INTO {t} VALUES (2, 'a')\")", INSERTED),
    "named": (
        "spark.sql('INSERT INTO IDENTIFIER(:t) TABLE view_of_two', {{'t': '{t}'}})",
        INSERTED,
    ),
    "java": ("spark._jsparkSession.sql('INSERT INTO {t} TABLE view_of_two')", INSERTED),
    "java_over": (
        "spark._jsparkSession.sql('INSERT OVERWRITE {t} TABLE view_of_two')",
        OVERWRITTEN,
    ),
    "batch": ("batches('{t}').start().awaitTermination()", INSERTED),
}
PREPARE = """
two = spark.sql("SELECT 2 id, 'a' ds")
two.createOrReplaceTempView("view_of_two")
two.write.json(where + "/json")

def batches(table):
    rows = spark.readStream.schema("id INT, ds STRING").json(where + "/json")
    stream = rows.writeStream.trigger(availableNow=True)
    stream = stream.option("checkpointLocation", where + "/checkpoint")
    return stream.foreachBatch(lambda batch, _: batch.write.insertInto(table))
"""


@dataclass
class Pair:
    """Two drivers, and the daemons between them."""

    writer: Application
    reader: Application
    daemons: Daemons

    def create(self, db: str, tables: Any, how: str = DAYS) -> None:
        """Make a database with tables of one row, of which the metastore has no statistics."""
        self.writer.sql(f"CREATE DATABASE {db}")
        self.writer.side_by_side(
            *(f"CREATE TABLE {db}.{one} (id INT, ds STRING) {how}" for one in tables)
        )
        self.writer.side_by_side(*(f"INSERT INTO {db}.{one} VALUES (1, 'a')" for one in tables))

    def read(self, db: str, tables: Any) -> dict[str, Any]:
        return self.reader.read(**{t: f"spark.sql('SELECT * FROM {db}.{t}')" for t in tables})

    def sees(self, db: str, wanted: dict[str, Any]) -> None:
        """Wait until the reader reads what it should; its first answer is usually right."""
        found: dict[str, Any] = {}

        def is_right() -> bool:
            found.update(self.read(db, wanted))
            return found == wanted

        try:
            until(is_right, timeout_s=WAIT_S)
        except AssertionError:
            assert found == wanted
            raise

    def is_settled(self, db: str, wanted: dict[str, Any]) -> None:
        """Let the reader hold relations of tables that have just been made.

        What it reads soon after a change is renewed once; what it reads then stays.
        """
        for _ in range(2):
            self.sees(db, wanted)
            self.reader.do(f"handle.sync({WAIT_S})")
        assert self.read(db, wanted) == wanted

    def status(self, field: str) -> Any:
        return self.writer.do(f"handle.status().{field}")

    def attach(self, driver: Application) -> None:
        driver.do(f"handle = attach(spark, {self.daemons.hub_address!r})")
        driver.do(f"handle.sync({WAIT_S})")


@pytest.fixture(scope="module")
def pair(hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("reports")
    daemons = Daemons(folder, hive.uri)
    try:
        daemons.start("statestored")
        daemons.start("catalogd")
        with applications(folder, hive.uri, writer=WRITER, reader={}) as both:
            for one in both.values():
                one.do("from topicast.subscriber.spark import attach")
            yield Pair(both["writer"], both["reader"], daemons)
    finally:
        daemons.close()


@pytest.fixture(scope="module")
def plain(pair: Pair) -> dict[str, Any]:
    """What two drivers of plain Spark make of a write."""
    tables = ("append", "overwrite")
    pair.create("plain", tables)
    pair.read("plain", tables)
    pair.writer.sql("INSERT INTO plain.append VALUES (2, 'a')")
    pair.writer.sql("INSERT OVERWRITE plain.overwrite VALUES (2, 'a')")
    return pair.read("plain", tables)


@pytest.fixture(scope="module")
def attached(pair: Pair, plain: object) -> Pair:
    """Both from when they are attached; all was plain Spark before."""
    pair.attach(pair.reader)
    pair.attach(pair.writer)
    return pair


def test_plain_spark_reads_old_rows_and_fails(plain: dict[str, Any]) -> None:
    assert plain["append"] == BEFORE
    assert "FILE_NOT_EXIST" in plain["overwrite"]


def test_every_way_to_write_is_seen_by_the_other_driver(attached: Pair) -> None:
    pair, writer = attached, attached.writer
    pair.create("reported", WRITES)
    find = "spark.sql('DESCRIBE DATABASE reported').where(\"info_name = 'Location'\").first()[1]"
    writer.do(f"where = {find}")
    writer.do(PREPARE)
    pair.is_settled("reported", dict.fromkeys(WRITES, BEFORE))
    for table, (how, _) in WRITES.items():
        writer.do(f"_ = {how.format(t=f'reported.{table}')}")
    pair.sees("reported", {table: rows for table, (_, rows) in WRITES.items()})
    assert (pair.status("errors"), pair.status("writes")) == (0, "reported")
