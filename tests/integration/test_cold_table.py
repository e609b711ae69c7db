"""A large table that is not loaded: what is selected of it is read first."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.cli.operator import Operator
from topicast.subscriber import Subscriber
from topicast.tests.bench.metastores import create_large
from topicast.tests.integration.daemons import Daemons
from topicast.tests.integration.tables import connect
from topicast.topics.settings import parse_addresses

PARTITIONS = 20_000
NAME = "cold.t"


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    """Both at work on a metastore of their own, with a large table of which no event speaks."""
    with (
        EmbeddedMetastore(tmp_path / "hive", durable=False) as hive,
        closing(Daemons(tmp_path, hive.uri)) as found,
    ):
        with connect(hive.uri) as client:
            client.create_database(Database("cold", "", f"file:{tmp_path}/cold", {}))
            create_large(hive, client, ("cold", "t"), partitions=PARTITIONS)
        found.start("statestored")
        found.start("catalogd")
        yield found


def left(daemons: Daemons) -> int:
    """Return how many tables catalogd is to load, or is loading."""
    with Operator(parse_addresses(daemons.hub_address), timeout_s=60.0) as visit:
        return int(str(dict(visit.catalog("status").rows)["tables_to_load"]))


def test_what_is_selected_of_a_cold_table_comes_before_the_rest_is_loaded(
    daemons: Daemons,
) -> None:
    with Subscriber(daemons.hub_address, budget="64MB", timeout_s=60.0) as catalog:
        some = catalog.partitions(NAME, names=["ds=00019999", "ds=none"])
        more = catalog.partitions(NAME, "ds >= '00019990'")
        assert left(daemons), "the rest is still being loaded"
        assert [one.name for one in some] == ["ds=00019999"]
        assert [one.name for one in more] == [f"ds={day:08}" for day in range(19990, PARTITIONS)]
        assert len(catalog.partitions(NAME)) == PARTITIONS
        assert catalog.partitions(NAME, names=["ds=00019999"]) == some
