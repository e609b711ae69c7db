"""The endpoint on real daemons: Hive's own client reads as from the metastore itself."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import FieldSchema
from py4j.protocol import Py4JJavaError

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.subscriber.endpoint.server import Server
from topicast.subscriber.endpoint.service import Service
from topicast.subscriber.spark.planning.router import EndpointAddress
from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.integration.daemons import both_daemons
from topicast.tests.integration.hive_client import HiveClient, HiveClients, hive_clients
from topicast.tests.integration.tables import database
from topicast.topics.topic import NAMESPACE

SYNC_S = 60.0
TOKEN = "t" * 24
BUDGET = 8 << 20
DB = "endpoint"
DAYS = 40
# What Spark 4.3 sends of a table partitioned by ds (text), h (int) and d (date)
FILTERS = (
    'ds = "2026-11-01"',
    "h = 3",
    'd = "2026-11-02"',
    'ds != "2026-11-01"',
    "h != 3",
    'd != "2026-11-02"',
    'ds > "2026-11-01"',
    'ds >= "2026-11-02"',
    'ds < "2026-11-02"',
    'ds <= "2026-11-02"',
    "h > 1",
    "h >= 2",
    "h < 2",
    "h <= 2",
    'd > "2026-11-01"',
    'd <= "2026-11-02"',
    '"2026-11-01" = ds',
    "2 < h",
    '"2026-11-02" >= d',
    'ds = "2026-11-01" and h = 1',
    '(ds = "2026-11-01" or h = 1)',
    '((ds = "2026-11-01" and h = 1) or (ds = "2026-11-02" and h = 2))',
    '(ds) in ("2026-11-01", "2026-11-03")',
    "(h) in (1, 3)",
    '(d) in ("2026-11-01", "2026-11-03")',
    '(ds) not in ("2026-11-01", "2026-11-03")',
    "(h) not in (1, 3)",
    'ds like "2026.*"',
    'ds like ".*01"',
    'ds like ".*-11-.*"',
    "ds = 'it\"s'",
    'ds = "none"',
    '(ds >= "2026-11-01" and ds <= "2026-11-02") and h = 2',
    '(h = 0 or (h = 1 or (h = 2 or h = 3))) and ds = "2026-11-03"',
    'ds = "a/b"',
)


class World(NamedTuple):
    """A metastore with tables, an endpoint on a subscriber of it, and a JVM with clients."""

    hive: EmbeddedMetastore
    service: Service
    address: EndpointAddress
    clients: HiveClients

    def ours(self) -> HiveClient:
        return self.clients.admitted(self.address.uri, self.address.token)

    def theirs(self) -> HiveClient:
        return self.clients.connect(self.hive.uri)


@pytest.fixture(scope="module")
def world(own_hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("endpoint")
    names = {f"{DB}.plain": 0, f"{DB}.days": DAYS}
    with (
        both_daemons(folder, own_hive.uri) as daemons,
        database(own_hive.uri, folder, names) as client,
        hive_clients(folder) as clients,
    ):
        fill(client, folder)
        with Subscriber(daemons.hub_address, budget=BUDGET, timeout_s=SYNC_S) as subscriber:
            topics = [one.id for one in subscriber.topics() if one.id != NAMESPACE]
            subscriber.join(topics, "minimal")  # so that what is read is pulled
            subscriber.sync(SYNC_S)
            at_once = subscriber.contents(may_wait=False)
            service = Service(at_once, subscriber.contents(), token=TOKEN)
            with closing(Server(service)) as server:
                server.start()
                yield World(own_hive, service, EndpointAddress(server.port, TOKEN), clients)


def fill(client: HMSClient, folder: Path) -> None:
    """Create tables of more kinds."""
    three = make_table(DB, "three", location=f"file:{folder}/three", keys=["ds", "h", "d"])
    three.partitionKeys[1].type = "int"
    three.partitionKeys[2].type = "date"
    client.create_table(three)
    days = ("2026-11-01", "2026-11-02", "2026-11-03", "a/b", 'it"s')
    values = [[ds, str(h), day] for ds in days for h in range(4) for day in days[:3]]
    made = [make_partition(three, one) for one in values]
    made[3].sd.location = f"file:{folder}/elsewhere"
    made[4].sd.cols = [FieldSchema("other", "bigint", "a comment: ü")]
    made[5].parameters = {"k": "v" * 3000}
    client.add_partitions(made)
    view = make_table(DB, "view", location="")
    view.sd.location = None
    view.tableType, view.viewOriginalText, view.viewExpandedText = (
        "VIRTUAL_VIEW",
        "select 1 as id",
        "select 1 as id",
    )
    client.create_table(view)
    wide = make_table(DB, "wide", location=f"file:{folder}/wide")
    wide.sd.cols = [FieldSchema(f"c{number}", "bigint", "") for number in range(1000)]
    wide.parameters = {"spark.sql.sources.provider": "parquet", "comment": "ü" * 1000}
    client.create_table(wide)
    for name, parameters in (
        ("acid", {"transactional": "true"}),
        ("ice", {"table_type": "ICEBERG"}),
    ):
        table = make_table(DB, name, location=f"file:{folder}/{name}", keys=["ds"])
        table.tableType = "MANAGED_TABLE" if name == "acid" else "EXTERNAL_TABLE"
        table.parameters = {**parameters, "bucketing_version": "2"}
        if name == "acid":
            table.sd.bucketCols, table.sd.numBuckets = ["a"], 2
            table.sd.inputFormat = "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat"
            table.sd.outputFormat = "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat"
            table.sd.serdeInfo.serializationLib = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"
        client.create_table(table)


def both(world: World, *call: Any) -> tuple[Any, Any]:
    """Return the answers to a call from the endpoint and from the metastore, lists sorted."""
    found = [client.bytes_of(*call) for client in (world.ours(), world.theirs())]
    ours, theirs = (sorted(one) if isinstance(one, list) else one for one in found)
    return ours, theirs


@pytest.mark.timeout(300)
def test_real_client_reads_what_the_metastore_has(world: World) -> None:
    every, day = -1, ["003"]
    calls: list[tuple[Any, ...]] = [
        *(("getTable", DB, name) for name in ("plain", "days", "three", "view", "wide", "PLAIN")),
        ("getDatabase", DB),
        ("getDatabases", "end*"),
        ("getAllDatabases",),
        ("getTables", DB, "*"),
        ("getTables", DB, "p*|DAYS"),
        ("getAllTables", DB),
        ("getTableObjectsByName", DB, ["plain", "days", "view"]),
        ("getPartition", DB, "days", day),
        ("getPartition", DB, "days", "ds=003"),
        ("getPartition", DB, "three", ["a/b", "3", "2026-11-02"]),
        ("getPartitionWithAuthInfo", DB, "days", day, "ann", ["staff"]),
        ("getPartitionsByNames", DB, "days", ["ds=001", "ds=002"]),
        ("listPartitions", DB, "days", every),
        ("listPartitions", DB, "three", every),
        ("listPartitions", DB, "days", day, every),
        ("listPartitions", DB, "three", ["a/b"], every),
        ("listPartitions", DB, "three", ["", "2"], every),
        ("listPartitionsWithAuthInfo", DB, "three", every, "ann", ["staff"]),
        ("listPartitionsWithAuthInfo", DB, "three", ["2026-11-01"], every, "ann", ["staff"]),
        ("listPartitionNames", DB, "three", every),
        ("listPartitionNames", DB, "days", 7),
        ("listPartitionNames", DB, "three", ["2026-11-01", ""], every),
    ]
    for call in calls:
        ours, theirs = both(world, *call)
        assert ours == theirs, call
    counts = world.service.counts.facts()
    assert (counts["refused"], counts["unknown"]) == ({}, {})
    assert counts["work"]["waited"] > 0  # what was cold was pulled


@pytest.mark.timeout(300)
@pytest.mark.nightly  # units have the same filters on a copy of what real ones select
def test_real_filters_select_what_the_metastore_selects(world: World) -> None:
    ours, theirs = world.ours(), world.theirs()
    for text in FILTERS:
        call = ("listPartitionsByFilter", DB, "three", text, -1)
        assert sorted(ours.bytes_of(*call)) == sorted(theirs.bytes_of(*call)), text
    assert len(FILTERS) == 35


@pytest.mark.timeout(120)
def test_real_client_is_told_to_ask_the_metastore(world: World) -> None:
    ours = world.ours()
    for call, error in (
        (("getTable", DB, "nothing"), "MetaException(message:no such object"),
        (("getTable", DB, "acid"), "transactional"),
        (("getTable", DB, "ice"), "Iceberg"),
        (("getDatabase", "nowhere"), "MetaException"),
        (("dropTable", DB, "plain"), "TApplicationException"),
        (("getFunction", DB, "nothing"), "TApplicationException"),
        (("getConfigValue", "a", "b"), "TApplicationException"),
    ):
        with pytest.raises(Py4JJavaError) as caught:
            ours.bytes_of(*call)
        assert error in str(caught.value.java_exception.toString()), call
        assert ours.bytes_of("getTable", DB, "plain")  # the connection is good
    assert world.theirs().bytes_of("getTable", DB, "plain")


@pytest.mark.timeout(120)
def test_set_ugi_carries_the_token_of_a_client_made_as_that_user(world: World) -> None:
    group = world.clients.jvm.view.org.apache.hadoop.security.UserGroupInformation
    before = group.getLoginUser()
    group.setLoginUser(group.createRemoteUser(world.address.token))
    try:
        client = world.clients.connect(world.address.uri)
        assert client.bytes_of("getTable", DB, "plain")
    finally:
        group.setLoginUser(before)
    stranger = world.clients.connect(world.address.uri)
    with pytest.raises(Py4JJavaError):
        stranger.bytes_of("getTable", DB, "plain")
