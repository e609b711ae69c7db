"""A large table that is not loaded: what is selected of it is read first."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.bench.metastores import create_large
from topicast.tests.integration.daemons import Daemons, both_daemons
from topicast.tests.integration.dam import Dam
from topicast.tests.integration.tables import connect
from topicast.tests.waiting import until

pytestmark = pytest.mark.nightly  # 10,000 partitions are made first

PARTITIONS = 10_000
DAM_BYTES = 200_000  # of each connection; what is beyond comes slowly
NAME = "cold.t"


@pytest.fixture
def dam(tmp_path: Path) -> Iterator[Dam]:
    """Before a metastore with a large table of which no event speaks: the rest comes slowly."""
    with (
        EmbeddedMetastore(tmp_path / "hive", durable=False) as hive,
        Dam(hive.uri, bytes_max=DAM_BYTES, trickles=True) as found,
    ):
        with connect(hive.uri) as client:
            client.create_database(Database("cold", "", f"file:{tmp_path}/cold", {}))
            create_large(hive, client, ("cold", "t"), partitions=PARTITIONS)
        yield found


@pytest.fixture
def daemons(dam: Dam, tmp_path: Path) -> Iterator[Daemons]:
    """Both at work."""
    with both_daemons(tmp_path, dam.address.replace("tcp", "thrift")) as found:
        yield found


def test_what_is_selected_of_a_cold_table_comes_before_the_rest_is_loaded(
    daemons: Daemons, dam: Dam
) -> None:
    with Subscriber(daemons.hub_address, budget="64MB", timeout_s=60.0) as catalog:
        until(dam.held.is_set, what="the load of the table")
        some = catalog.partitions(NAME, names=["ds=00009999", "ds=none"])
        more = catalog.partitions(NAME, "ds >= '00009990'")
        assert [one.name for one in some] == ["ds=00009999"]
        assert [one.name for one in more] == [f"ds={day:08}" for day in range(9990, PARTITIONS)]
        assert daemons.status("catalog")["tables_to_load"], "the rest is still being loaded"
        dam.opened.set()
        assert len(catalog.partitions(NAME)) == PARTITIONS
        assert catalog.partitions(NAME, names=["ds=00009999"]) == some
