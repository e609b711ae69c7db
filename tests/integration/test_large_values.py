"""A real metastore's table and partition of 2 MB, and at night of 20 MB: read like any other."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.integration.daemons import Daemons
from topicast.tests.integration.tables import connect

PARAMETER_CHARS = 32_000  # of one, which Hive 2.3 keeps at most: of a partition in its serde's
COUNTS = (  # of parameters: half of their bytes is left when they are compressed
    pytest.param(64, id="2 MB"),
    # Of 48 MB the embedded metastore, on Derby, takes 35 s for each look at its log.
    pytest.param(640, id="20 MB", marks=pytest.mark.nightly),
)
NAME, DAY, WAIT_S = "large.t", "ds=2", 240.0


def parameters(count: int, seed: int) -> dict[str, str]:
    """Return parameters that do not compress to less than half."""
    rng = random.Random(seed)
    return {f"p{number:03}": rng.randbytes(PARAMETER_CHARS // 2).hex() for number in range(count)}


@pytest.fixture(params=COUNTS)
def count(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def client(hive: EmbeddedMetastore, tmp_path: Path, count: int) -> Iterator[HMSClient]:
    """Of a metastore with a large table that has a large partition between two small partitions."""
    with connect(hive.uri) as found:
        found.create_database(Database("large", "", f"file:{tmp_path}/large", {}))
        table = make_table("large", "t", location=f"file:{tmp_path}/t", keys=("ds",))
        table.parameters = parameters(count, 1)
        found.create_table(table)
        days = [make_partition(table, [day]) for day in ("1", "2", "3")]
        days[1].sd.serdeInfo.parameters = parameters(count, 2)
        found.add_partitions(days)
        yield found
        found.drop_database("large", False, True)


def assert_has(catalog: Subscriber, count: int, *, partition: int) -> None:
    """Assert that the table is as it was made, and that the partition is of this seed."""
    known = catalog.table(NAME).parameters
    assert parameters(count, 1).items() <= known.items()
    (one,) = catalog.partitions(NAME, "ds = '2'")
    kept = one.storage.serde_parameters
    assert parameters(count, partition).items() <= kept.items()


@pytest.mark.nightly  # units have large values
def test_large_table_and_partition_are_read_and_a_change_is_seen(
    client: HMSClient, daemons: Daemons, count: int
) -> None:
    address = daemons.hub_address
    with (
        Subscriber(address, budget="1GB", timeout_s=WAIT_S) as full,
        Subscriber(address, budget="1GB", timeout_s=WAIT_S) as minimal,
    ):
        for catalog, level in ((full, "full"), (minimal, "minimal")):
            catalog.join(NAME, level)
            catalog.sync(timeout_s=WAIT_S)
            assert_has(catalog, count, partition=2)
            assert [day.name for day in catalog.partitions(NAME)] == ["ds=1", DAY, "ds=3"]
            assert catalog.stats().held_bytes > count * PARAMETER_CHARS * 3 // 4, (
                "it fits, and is kept"
            )
        day = client.get_partition("large", "t", ["2"])
        day.sd.serdeInfo.parameters = parameters(count, 4)
        client.alter_partitions("large", "t", [day])
        for catalog in (full, minimal):
            catalog.sync(timeout_s=WAIT_S)
            assert_has(catalog, count, partition=4)
