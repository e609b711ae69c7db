"""Completes the database of an empty metastore, so that copies of it start fast."""

from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import (
    Database,
    FieldSchema,
    Partition,
    SerDeInfo,
    StorageDescriptor,
    Table,
)


def touch_every_table(host: str, port: int, *, location: str) -> None:
    """Make DataNucleus create its tables, which it does at the first use of each."""
    sd = StorageDescriptor(
        cols=[FieldSchema("a", "int", "")],
        location=location,
        inputFormat="org.apache.hadoop.mapred.TextInputFormat",
        outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
        serdeInfo=SerDeInfo("", "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", {}),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )
    table = Table(
        tableName="t",
        dbName="touched",
        owner="",
        sd=sd,
        partitionKeys=[FieldSchema("p", "string", "")],
        parameters={"EXTERNAL": "TRUE"},
        tableType="EXTERNAL_TABLE",
    )
    with HMSClient(host=host, port=port) as client:
        client.create_database(Database("touched", "", location, {}))
        client.create_table(table)
        client.add_partitions([Partition(["1"], "touched", "t", sd=sd, parameters={})])
        client.get_partitions_by_names("touched", "t", ["p=1"])
        client.drop_database("touched", True, True)  # noqa: FBT003  hmsclient's signature
