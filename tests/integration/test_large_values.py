"""A real metastore's table and partition of 2 MB: read like any other, at every level."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.integration.daemons import Daemons
from topicast.tests.integration.tables import connect

PARAMETER_CHARS = 32_000  # of one, which Hive 2.3 keeps at most: of a partition in its serde's
TABLE_PARAMETERS = PARTITION_PARAMETERS = 64  # 1 MB of them is left when it is compressed
NAME, DAY = "large.t", "ds=2"


def parameters(count: int, seed: int) -> dict[str, str]:
    """Return parameters that do not compress to less than half."""
    rng = random.Random(seed)
    return {f"p{number:03}": rng.randbytes(PARAMETER_CHARS // 2).hex() for number in range(count)}


@pytest.fixture
def client(hive: EmbeddedMetastore, tmp_path: Path) -> Iterator[HMSClient]:
    """Of a metastore with a large table that has a large partition between two small ones."""
    with connect(hive.uri) as found:
        found.create_database(Database("large", "", f"file:{tmp_path}/large", {}))
        table = make_table("large", "t", location=f"file:{tmp_path}/t", keys=("ds",))
        table.parameters = parameters(TABLE_PARAMETERS, 1)
        found.create_table(table)
        days = [make_partition(table, [day]) for day in ("1", "2", "3")]
        days[1].sd.serdeInfo.parameters = parameters(PARTITION_PARAMETERS, 2)
        found.add_partitions(days)
        yield found
        found.drop_database("large", False, True)


def assert_has(catalog: Subscriber, *, partition: int) -> None:
    """Assert that the table is as it was made, and that the partition is of this seed."""
    known = catalog.table(NAME).parameters
    assert parameters(TABLE_PARAMETERS, 1).items() <= known.items()
    (one,) = catalog.partitions(NAME, "ds = '2'")
    kept = one.storage.serde_parameters
    assert parameters(PARTITION_PARAMETERS, partition).items() <= kept.items()


@pytest.mark.timeout(300)
def test_large_table_and_partition_are_read_and_a_change_is_seen(
    client: HMSClient, daemons: Daemons
) -> None:
    address = daemons.hub_address
    with (
        Subscriber(address, budget="64MB", timeout_s=60.0) as full,
        Subscriber(address, budget="64MB", timeout_s=60.0) as minimal,
    ):
        for catalog, level in ((full, "full"), (minimal, "minimal")):
            catalog.join(NAME, level)
            catalog.sync(timeout_s=60.0)
            assert_has(catalog, partition=2)
            assert [day.name for day in catalog.partitions(NAME)] == ["ds=1", DAY, "ds=3"]
            assert catalog.stats().held_bytes > 3 << 19, "it fits, and is kept"
        day = client.get_partition("large", "t", ["2"])
        day.sd.serdeInfo.parameters = parameters(PARTITION_PARAMETERS, 4)
        client.alter_partitions("large", "t", [day])
        for catalog in (full, minimal):
            catalog.sync(timeout_s=60.0)
            assert_has(catalog, partition=4)
