"""Two Spark applications behind a NAT, attached by a key file: what one writes, the other reads."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.net.namespaces import missing, python
from topicast.tests.net.site import METASTORE, STATESTORES, Site
from topicast.tests.spark.applications import Application, applications
from topicast.tests.waiting import until, until_equal

CUT_S: Final = 5.0  # without a heartbeat, of which one comes each second
WAIT_S: Final = 60
FILES: Final = "(id INT, ds STRING) USING parquet PARTITIONED BY (ds)"
AGE: Final = "handle.status().staleness_s"


@pytest.fixture(scope="module")
def site(hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The three hosts; ``hive`` has fetched what a metastore needs, for they reach no network."""
    assert not missing()
    assert hive.uri
    with closing(Site(tmp_path_factory.mktemp("nat"))) as found:
        found.start()
        yield found


@pytest.fixture(scope="module")
def drivers(site: Site) -> Iterator[dict[str, Application]]:
    """A writer and a reader, which ``topicast run`` attaches; ``handle`` only looks at them."""
    folder: Path = site.driver.folder
    run = python("topicast.cli.main", "run", f"--statestores={STATESTORES}", "--")
    under = site.driver.inside("env", f"TOPICAST_KEY_FILE={folder / 'driver.key'}", *run)
    with applications(folder, METASTORE, under=under, writer={}, reader={}) as both:
        for one in both.values():
            one.do("from topicast.subscriber.spark import attach; handle = attach(spark)")
            one.do(f"handle.sync({WAIT_S})")
        yield both


def reads(reader: Application, rows: Any) -> None:
    """Wait until the reader reads ``rows``."""
    until_equal(lambda: reader.rows("SELECT * FROM far.orders"), rows, timeout_s=WAIT_S)


@pytest.mark.timeout(300)  # a dozen statements that a busy machine runs slowly, and a cut
def test_applications_behind_a_nat_are_right_and_right_again_after_a_cut(
    site: Site, drivers: dict[str, Application]
) -> None:
    writer, reader = drivers["writer"], drivers["reader"]
    for one in drivers.values():
        status = one.do(
            "(lambda it: [it.state, it.writes, it.connection_problem])(handle.status())"
        )
        assert status == ["live", "reported", ""]
    writer.sql("CREATE DATABASE far", f"CREATE TABLE far.orders {FILES}")
    writer.sql("INSERT INTO far.orders VALUES (1, 'a')")
    reads(reader, [[1, "a"]])
    writer.sql("INSERT OVERWRITE far.orders VALUES (2, 'a')")
    reads(reader, [[2, "a"]])
    writer.sql("INSERT INTO far.orders VALUES (3, 'b')")  # in a partition that is new
    reads(reader, [[2, "a"], [3, "b"]])
    writer.sql("DROP TABLE far.orders", "CREATE TABLE far.orders USING parquet AS SELECT 4 AS n")
    for _ in range(2):  # what it reads soon after a change is renewed once; then it is kept
        reads(reader, [[4]])
        reader.do(f"handle.sync({WAIT_S})")
    reads(reader, [[4]])

    site.hub.ip("link set eth0 down")
    try:
        until(lambda: reader.do(AGE) > CUT_S, what="a reader that says that it is cut off")
        writer.sql("INSERT INTO far.orders VALUES (5)")
        assert reader.rows("SELECT * FROM far.orders") == [[4]]  # as in plain Spark
    finally:
        site.hub.ip("link set eth0 up")
    reads(reader, [[4], [5]])
    writer.sql("INSERT OVERWRITE far.orders VALUES (6)")
    reads(reader, [[6]])
    until(lambda: reader.do(AGE) < CUT_S, what="a reader that receives its hub")
    assert [one.do("handle.status().errors") for one in drivers.values()] == [0, 0]
