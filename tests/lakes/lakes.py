"""Lakes: two drivers in whose sessions a table format replaces the catalog, and a third, plain.

They run Spark 4.0, with the formats' released runtimes, which Spark's own Ivy fetches once.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hmsclient import HMSClient

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.integration.daemons import Daemons, both_daemons
from topicast.tests.integration.tables import connect
from topicast.tests.spark.applications import SPARK, Application, applications
from topicast.tests.spark.smoke import RUN
from topicast.tests.waiting import until, until_equal

WAIT_S: Final = 60
WITH: Final = (4, 0)  # the Spark that the runtimes are of
PACKAGES: Final = Path(__file__).resolve().parents[2] / ".venv" / "lakes"
SAME: Final = (  # statements on a table of a format, ``{of}``, in a database of their own
    "CREATE TABLE {db}.t (id INT, ds STRING) USING {of} PARTITIONED BY (ds)",
    "CREATE TABLE {db}.t (id INT, ds STRING) USING {of} PARTITIONED BY (ds)",
    "INSERT INTO {db}.t VALUES (1, 'a'), (2, 'b')",
    "SELECT * FROM {db}.t WHERE ds = 'a'",
    "ALTER TABLE {db}.t ADD COLUMNS (note STRING)",
    "?spark.table('{db}.t').columns",
    "UPDATE {db}.t SET note = 'x' WHERE id = 1",
    "DELETE FROM {db}.t WHERE id = 2",
    "MERGE INTO {db}.t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 3",
    "INSERT OVERWRITE {db}.t SELECT 4, 'c', 'y' UNION ALL SELECT id, ds, note FROM {db}.t",
    "SELECT * FROM {db}.t",
    "ALTER TABLE {db}.t SET TBLPROPERTIES ('mine' = '1')",
    "SHOW TBLPROPERTIES {db}.t ('mine')",
    "COMMENT ON TABLE {db}.t IS 'mine'",
    "?spark.catalog.getTable('{db}.t').description",
    "CREATE TABLE {db}.kept USING {of} AS SELECT * FROM {db}.t",
    "CREATE TABLE {db}.plain (id INT) USING parquet",
    "INSERT INTO {db}.plain SELECT id FROM {db}.t",
    "SELECT * FROM {db}.plain JOIN {db}.t USING (id)",
    "CREATE VIEW {db}.v AS SELECT id FROM {db}.kept",
    "SELECT * FROM {db}.v",
    "SHOW TABLES IN {db}",
    "?sorted(one.name for one in spark.catalog.listTables('{db}'))",
    "?spark.catalog.tableExists('{db}.t')",
    "DROP TABLE {db}.t",
    "?spark.catalog.tableExists('{db}.t')",
    "SELECT * FROM {db}.t",
    "SELECT * FROM {db}.kept",
    "TRUNCATE TABLE {db}.plain",
    "SELECT * FROM {db}.plain",
)
PLANNING: Final = "handle.status().planning"
COUNTS: Final = ("errors", "last_error", "writes", "writes_reported", "refreshes")


@dataclass
class Lake:
    """Two drivers with a format's catalog, and a driver of plain Spark; each can be attached."""

    one: Application
    other: Application
    plain: Application
    daemons: Daemons
    metastore: str

    def attach(self) -> None:
        """Attach all of them."""
        for driver in self.all:
            driver.do("from topicast.subscriber.spark import attach")
            driver.do(f"handle = attach(spark, {self.daemons.hub_address!r})")
        self.sync()

    @property
    def all(self) -> tuple[Application, ...]:
        return self.one, self.other, self.plain

    def sync(self) -> None:
        """Let all of them know what has happened."""
        for driver in self.all:
            driver.do(f"handle.sync({WAIT_S})")

    def keeps_plain_tables_fresh(self, db: str) -> None:
        """Write plain tables in each driver, and read them in the others, without REFRESH."""
        drivers = {"one": self.one, "other": self.other, "plain": self.plain}
        self.plain.sql(f"CREATE DATABASE {db}")
        for name, writer in drivers.items():
            table = f"{db}.by_{name}"
            query = f"SELECT * FROM {table}"
            writer.sql(f"CREATE TABLE {table} (id INT, ds STRING) USING parquet")
            readers = [driver for driver in drivers.values() if driver is not writer]
            for write, rows in (
                ("INSERT INTO {} VALUES (1, 'a')", [[1, "a"]]),
                ("INSERT INTO {} VALUES (2, 'a')", [[1, "a"], [2, "a"]]),
                ("INSERT OVERWRITE {} VALUES (3, 'a')", [[3, "a"]]),
                ("ALTER TABLE {} ADD COLUMNS (note STRING)", [[3, "a", None]]),
                ("INSERT INTO {} VALUES (4, 'a', 'b')", [[3, "a", None], [4, "a", "b"]]),
            ):
                writer.sql(write.format(table))
                for reader in readers:
                    sees(reader, query, rows)
                self.sync()
                for reader in readers:  # once more: what it reads now is held until a change
                    assert reader.rows(query) == rows
        for driver in self.all:
            assert status(driver)["errors"] == 0, status(driver)["last_error"]
            assert status(driver)["writes"] == "reported"

    def answers_as_plain_spark(self, of: str) -> None:
        """Run SAME on tables of a format without plans from memory, and with them: both are alike.

        So is what the metastore then has.
        """
        answers, tables, driver = {}, {}, self.one
        driver.do(RUN)
        for control in ("off", "on"):
            driver.do(f"handle.control({control!r})")
            until(lambda: driver.do(PLANNING) == control, timeout_s=WAIT_S, what=control)  # noqa: B023
            db = f"{of}_{control}"
            driver.sql(f"CREATE DATABASE {db}")
            statements = [one.replace("{of}", of) for one in SAME]
            answers[control] = driver.do(f"run_smoke({statements!r}, {db!r})")
            with connect(self.metastore) as client:
                tables[control] = {
                    name: facts(client, db, name) for name in client.get_all_tables(db)
                }
        pairs = zip(SAME, answers["off"], answers["on"], strict=True)
        assert not [(one, plain, routed) for one, plain, routed in pairs if plain != routed]
        assert tables["on"] == tables["off"]
        assert sorted(tables["on"]) == ["kept", "plain", "v"]
        failed = [one for one in answers["on"] if one.isupper()]
        assert failed == ["TABLE_OR_VIEW_ALREADY_EXISTS", "TABLE_OR_VIEW_NOT_FOUND"], answers
        assert status(driver)["errors"] == 0, status(driver)["last_error"]


def facts(client: HMSClient, db: str, name: str) -> dict[str, Any]:
    """Return what the metastore has of a table, but for what differs each time."""
    table = client.get_table(db, name)
    files = table.sd
    return {
        "kind": table.tableType,
        "columns": [(one.name, one.type) for one in files.cols],
        "formats": (files.inputFormat, files.outputFormat, files.serdeInfo.serializationLib),
        "keys": [one.name for one in table.partitionKeys],
        "parameters": sorted(table.parameters),
        "text": (table.viewOriginalText or "").replace(db, "db"),
    }


def status(driver: Application) -> dict[str, Any]:
    """Return what an attached driver counts."""
    values = driver.do(f"[getattr(handle.status(), name) for name in {COUNTS}]")
    return dict(zip(COUNTS, values, strict=True))


def sees(reader: Application, query: str, rows: Any) -> None:
    """Wait until ``reader`` reads ``rows``."""
    until_equal(lambda: reader.rows(query), rows, timeout_s=WAIT_S)


@contextmanager
def lake(
    folder: Path, hive: EmbeddedMetastore, packages: str, settings: Mapping[str, str]
) -> Iterator[Lake]:
    """Run the three drivers on ``hive``, with ``packages`` (Maven coordinates) in two of them."""
    assert SPARK == WITH, "the runtimes are of Spark 4.0: run make compat-lakes"
    both = {
        "spark.jars.packages": packages,
        "spark.jars.ivy": str(PACKAGES),
        **settings,
    }
    with (
        both_daemons(folder, hive.uri) as daemons,
        applications(folder, hive.uri, one=both) as first,  # which downloads, if need be
        applications(folder, hive.uri, other=both, plain={}) as more,
    ):
        yield Lake(first["one"], more["other"], more["plain"], daemons, hive.uri)
