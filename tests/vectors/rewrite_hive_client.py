"""Write ``hive_client_v1.json``: requests of Hive 2.3's own client, recorded on their way.

Usage: python -m topicast.tests.vectors.rewrite_hive_client

A real client, out of PySpark's jars, asks a real metastore; between them a forwarder records. What
the arguments are is read by hmsclient's generated code.
"""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.hive.recording import Recorded, RecordingForwarder
from topicast.tests.integration.hive_client import TOKEN_KEY, HiveClient, hive_clients
from topicast.tests.integration.tables import database

INTO = Path(__file__).with_name("hive_client_v1.json")
USER = "of_the_vectors"  # instead of whoever records them


def main() -> None:
    os.environ["HADOOP_USER_NAME"] = USER
    with (
        TemporaryDirectory() as name,
        EmbeddedMetastore(Path(name, "hive"), durable=False) as hive,
        RecordingForwarder(hive.uri) as forwarder,
        hive_clients(Path(name)) as clients,
        database(hive.uri, Path(name), {"vectors.plain": 0, "vectors.days": 40}),
    ):
        client = clients.connect(forwarder.uri)
        client.java.getMetaConf("hive.metastore.try.direct.sql")
        client.set_meta_conf(TOKEN_KEY, "0123456789abcdef")
        ask_all(client, "vectors", "days")
        client.java.close()
        recorded = {one.method: one for one in forwarder.calls}
    vectors = [vector(recorded[method]) for method in sorted(recorded)]
    lines = ",\n".join(json.dumps(one, sort_keys=True) for one in vectors)
    INTO.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def ask_all(client: HiveClient, db: str, table: str) -> None:
    """Call every method of the client that reads."""
    java = client.java
    java.getDatabase(db)
    java.getDatabases("vec*")
    java.getAllDatabases()
    java.getTables(db, "*")
    java.getAllTables(db)
    java.getTable(db, table)
    client.bytes_of("getTableObjectsByName", db, ["plain", table])
    client.bytes_of("getPartition", db, table, ["003"])
    java.getPartition(db, table, "ds=003")
    client.bytes_of("getPartitionWithAuthInfo", db, table, ["003"], "ann", ["staff"])
    client.bytes_of("getPartitionsByNames", db, table, ["ds=001", "ds=002"])
    java.listPartitions(db, table, -1)
    client.bytes_of("listPartitions", db, table, ["003"], -1)
    java.listPartitionsByFilter(db, table, 'ds >= "030"', -1)
    java.listPartitionsWithAuthInfo(db, table, -1, "ann", client.list_of(["staff"]))
    client.bytes_of("listPartitionsWithAuthInfo", db, table, [""], 5, "ann", ["staff"])
    java.listPartitionNames(db, table, -1)
    client.bytes_of("listPartitionNames", db, table, ["003"], -1)


def vector(one: Recorded) -> dict[str, Any]:
    protocol = TBinaryProtocol(TMemoryBuffer(one.request))
    protocol.readMessageBegin()
    kind = getattr(ThriftHiveMetastore, f"{one.method}_args", None)
    arguments = {}
    if kind is not None:
        found = kind()
        found.read(protocol)
        named = [(spec[0], getattr(found, spec[2])) for spec in kind.thrift_spec or () if spec]
        arguments = {str(number): value for number, value in named}
    plain = {key: value for key, value in arguments.items() if isinstance(value, str | int | list)}
    return {"method": one.method, "request": one.request.hex(), "arguments": plain}


if __name__ == "__main__":
    main()
