"""Two real drivers on one real metastore: what one writes the other reads, without REFRESH.

Each failure of plain Spark is reproduced first, by the same statements, in the same run.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from topicast.catalog.metastore.embedded import EmbeddedMetastore
from topicast.tests.integration.daemons import Daemons
from topicast.tests.spark.applications import Application, applications

# The writer tells by statistics of what leaves no event otherwise; reports are not built yet.
WRITER = {"spark.sql.statistics.size.autoUpdate.enabled": "true"}
SYNC_S = 60


@dataclass
class Scene:
    """The writer, the reader, and where the hub is."""

    writer: Application
    reader: Application
    hub: str

    def attach(self) -> None:
        self.reader.do("from topicast.subscriber.spark import attach")
        self.reader.do(f"handle = attach(spark, {self.hub!r})")
        self.heard()

    def heard(self) -> None:
        """Wait until the reader has heard of all that was written, and refreshed it."""
        self.reader.do(f"handle.sync({SYNC_S})")


@pytest.fixture(scope="module")
def scene(hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("drivers")
    daemons = Daemons(folder, hive.uri)
    try:
        daemons.start("statestored")
        daemons.start("catalogd")
        with applications(folder, hive.uri, writer=WRITER, reader={}) as both:
            both["writer"].sql("CREATE DATABASE fresh")
            yield Scene(both["writer"], both["reader"], daemons.hub_address)
    finally:
        daemons.close()


def test_reader_sees_appends_overwrites_and_columns_once_it_is_attached(scene: Scene) -> None:
    writer, reader = scene.writer, scene.reader
    query = "SELECT * FROM fresh.orders"
    writer.sql(
        "CREATE TABLE fresh.orders (id INT) USING parquet", "INSERT INTO fresh.orders VALUES (1)"
    )
    assert reader.rows(query) == [[1]]
    writer.sql("INSERT INTO fresh.orders VALUES (2)")
    assert reader.rows(query) == [[1]], "plain Spark reads old rows"
    writer.sql("INSERT OVERWRITE fresh.orders VALUES (3), (4), (5)")
    for _retry in range(2):
        assert "FILE_NOT_EXIST" in reader.rows(query), "plain Spark fails, whenever it is asked"
    writer.sql("ALTER TABLE fresh.orders ADD COLUMNS (note STRING)")
    assert "UNRESOLVED_COLUMN" in reader.rows("SELECT note FROM fresh.orders")
    scene.attach()
    assert reader.rows(query) == [[3, None], [4, None], [5, None]]
    writer.sql("INSERT INTO fresh.orders VALUES (6, 'six')")
    scene.heard()
    assert reader.rows(query) == [[3, None], [4, None], [5, None], [6, "six"]]
    writer.sql("INSERT OVERWRITE fresh.orders VALUES (7, 'seven')")
    scene.heard()
    assert reader.rows(query) == [[7, "seven"]]
    writer.sql("ALTER TABLE fresh.orders ADD COLUMNS (more STRING)")
    scene.heard()
    assert reader.rows(query) == [[7, "seven", None]]
    assert reader.do("handle.status().errors") == 0
