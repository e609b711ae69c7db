"""A whole new driver with one query: how often it asks the metastore, plain and by topicast run."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.cli.quickstart.processes.counting import Counting
from topicast.tests.integration.daemons import both_daemons
from topicast.tests.spark import new_driver
from topicast.tests.spark.applications import applications
from topicast.tests.spark.jvm.shells import of_run

pytestmark = pytest.mark.nightly  # five drivers

GREETING = "set_ugi"  # of each connection
BEFORE_ANYBODY = 2  # calls, by which Spark makes its catalog and begins its first plan
TRIES = 2  # on a machine where the endpoint is not up by then


@pytest.mark.timeout(600)
def test_query_of_a_new_driver_asks_the_metastore_for_nothing_that_is_followed(
    hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    with (
        Counting(hive.uri) as counting,
        both_daemons(tmp_path, hive.uri) as daemons,
        applications(tmp_path, hive.uri, maker={}) as both,
    ):
        new_driver.create(both["maker"])

        def calls(under: Sequence[str], pause_s: int) -> Counter[str]:
            """Run the query so long after its session; return the calls of the whole driver."""
            folder = tmp_path / str(len([*tmp_path.iterdir()]))
            counting.take()
            ran = new_driver.run(
                folder, uris=counting.uri, metastore=hive.uri, under=under, pause_s=pause_s
            )
            found = counting.take()
            del found[GREETING]
            print(under[-3:], pause_s, dict(found), ran)
            return found

        attached = of_run(daemons.hub_address)
        assert sum(calls([], 0).values()) >= 10
        for pause_s in (0, 10):
            fewest = min(sum(calls(attached, pause_s).values()) for _ in range(TRIES))
            assert fewest <= BEFORE_ANYBODY
