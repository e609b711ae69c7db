"""What tests of drivers without Python share: a spark-sql beside the two drivers in Python."""

from collections.abc import Iterator

import pytest

from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.cli.quickstart.counting import Counting
from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.jvm.shells import JvmDriver, Place, of_run


@pytest.fixture(scope="module")
def place(
    drivers: Drivers, hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """Attach a spark-sql by ``topicast run`` alone, and the writer; the reader is plain Spark."""
    drivers.reader.do("attach(spark).detach()")
    drivers.writer.do("attach(spark).detach()")
    with Counting(hive.uri) as counting:
        shell = JvmDriver(
            tmp_path_factory.mktemp("spark-sql"),
            counting.uri,
            under=of_run(drivers.daemons.hub_address),
            settings={"spark.topicast.metastore": hive.uri},
        )
        found = Place(drivers.writer, drivers.reader, drivers.daemons, shell, counting)
        try:
            found.attach(found.writer)
            assert shell.sql("SELECT 1") == [["1"]]
            found.is_live()
            yield found
            found.writer.do("handle.detach()")
        finally:
            shell.end()
