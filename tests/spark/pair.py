"""Pair: two drivers, of which one writes and the other reads what it wrote."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from topicast.tests.integration.daemons import Daemons
from topicast.tests.spark.applications import Application
from topicast.tests.waiting import until_equal

WAIT_S: Final = 60
DAYS: Final = "USING parquet PARTITIONED BY (ds)"
BEFORE: Final = [[1, "a"]]
SLOW_ROWS: Final = """
SELECT length(reflect('java.lang.Thread', 'sleep', bigint(100))) FROM range(0, 2000, 1, 2000)
"""  # takes two cores 100 s, and no processor


def listeners(driver: Application) -> Any:
    """Return how many listeners of ours the JVM of ``driver`` has."""
    driver.do("from topicast.subscriber.spark.writes.listener import NAME")
    bus = "spark.sparkContext._jsc.sc().listenerBus()"
    return driver.do(f"[one.getClass().getName() for one in {bus}.listeners()].count(NAME)")


@dataclass
class Pair:
    """Two drivers, and the daemons between them."""

    writer: Application
    reader: Application
    daemons: Daemons

    def create(self, db: str, tables: Any) -> None:
        """Make a database with tables of one row, by day; a mapping says of each what it is."""
        kinds = tables if isinstance(tables, Mapping) else dict.fromkeys(tables, DAYS)
        self.writer.sql(f"CREATE DATABASE {db}")
        self.writer.side_by_side(
            *(
                f"CREATE TABLE {db}.{one} {kind} AS SELECT 1 AS id, 'a' AS ds"
                for one, kind in kinds.items()
            )
        )

    def insert(self, db: str, tables: Any, values: str, *, how: str = "INTO") -> None:
        self.writer.side_by_side(*(f"INSERT {how} {db}.{one} VALUES {values}" for one in tables))

    def alter(self, db: str, tables: Any, change: str) -> None:
        self.writer.side_by_side(*(f"ALTER TABLE {db}.{one} {change}" for one in tables))

    def read(self, db: str, tables: Any, columns: str = "*") -> dict[str, Any]:
        """Return what the reader reads of each table."""
        return self.reader.read(
            **{t: f"spark.sql('SELECT {columns} FROM {db}.{t}')" for t in tables}
        )

    def refreshed(self) -> None:
        """Wait until the reader has refreshed all that was written."""
        self.reader.do(f"handle.sync({WAIT_S})")

    def sees(self, db: str, wanted: dict[str, Any]) -> None:
        """Wait until the reader reads what it should."""
        found: dict[str, Any] = {}

        def read() -> dict[str, Any]:
            found.update(self.read(db, [one for one in wanted if found.get(one) != wanted[one]]))
            return found

        until_equal(read, wanted, timeout_s=WAIT_S)

    def is_settled(self, db: str, wanted: dict[str, Any]) -> None:
        """Let the reader hold relations of tables that have just been made.

        What it reads soon after a change is renewed once; what it reads then stays.
        """
        for _ in range(2):
            self.sees(db, wanted)
            self.refreshed()
        assert self.read(db, wanted) == wanted

    def status(self, field: str) -> Any:
        return self.writer.do(f"handle.status().{field}")

    def intents(self) -> object:
        """Return how many writes catalogd knows to have begun, and not of their end."""
        return self.daemons.status("catalog")["intents"]

    def listeners(self) -> Any:
        """Return how many listeners of ours the writer's JVM has."""
        return listeners(self.writer)

    def location(self, db: str) -> str:
        """Return the folder of a database."""
        query = f"spark.sql('DESCRIBE DATABASE {db}').where(\"info_name = 'Location'\")"
        return str(self.writer.do(f"{query}.first()[1]")).removeprefix("file:")

    def attach(self, driver: Application) -> None:
        driver.do(f"handle = attach(spark, {self.daemons.hub_address!r})")
        driver.do(f"handle.sync({WAIT_S})")
