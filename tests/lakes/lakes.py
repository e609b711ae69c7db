"""Lakes: two drivers in whose sessions a table format replaces the catalog, and a plain third one.

They run Spark 4.0, with the formats' released runtimes, which Spark's own Ivy fetches once.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.tests.integration.daemons import Daemons, both_daemons
from topicast.tests.spark.applications import SPARK, Application, applications
from topicast.tests.waiting import until_equal

WAIT_S: Final = 60
WITH: Final = (4, 0)  # the Spark that the runtimes are of
PACKAGES: Final = Path(__file__).resolve().parents[2] / ".venv" / "lakes"
COUNTS: Final = ("errors", "last_error", "writes", "writes_reported", "refreshes")


@dataclass
class Lake:
    """Two drivers with a format's catalog, and one of plain Spark; each can be attached."""

    one: Application
    other: Application
    plain: Application
    daemons: Daemons

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
        yield Lake(first["one"], more["other"], more["plain"], daemons)
