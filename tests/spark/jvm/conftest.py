"""What tests of drivers without Python share: a spark-sql beside the two drivers in Python.

And the jar of an application, which is compiled by Spark's own compiler.
"""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.cli.quickstart.processes.counting import Counting
from topicast.subscriber.spark.compiled import jar_of
from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.jvm.scene import Scene
from topicast.tests.spark.jvm.shells import JvmDriver, Place, of_run
from topicast.tests.spark.pair import WAIT_S

COMPILE: Final = """
import base64
compiler = spark._jvm.org.codehaus.janino.SimpleCompiler()
compiler.cook({source!r})
found = compiler.getBytecodes()
{{str(name): base64.b64encode(found[name]).decode() for name in found}}
"""


@pytest.fixture(scope="session")
def application(drivers: Drivers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the jar of an application: LineByLine."""
    source = Path(__file__).with_name("LineByLine.java").read_text("utf-8")
    found = drivers.writer.do(COMPILE.format(source=source))
    jar = tmp_path_factory.mktemp("jar") / "application.jar"
    jar.write_bytes(jar_of({name: base64.b64decode(code) for name, code in found.items()}, {}))
    return jar


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


@pytest.fixture(scope="module")
def scene(drivers: Drivers, hive: EmbeddedMetastore) -> Iterator[Scene]:
    drivers.reader.do("attach(spark).detach()")
    drivers.writer.do("attach(spark).detach()")
    drivers.writer.do(f"handle = attach(spark, {drivers.daemons.hub_address!r})")
    drivers.writer.do(f"handle.sync({WAIT_S})")
    yield Scene(drivers, hive.uri)
    drivers.writer.do("handle.detach()")
