import json

from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.catalog.metastore.embedded import HOST, EmbeddedMetastore
from topicast.tests.cli.conftest import Served
from topicast.tests.cli.processes import topicast


def test_sync_ends_when_what_was_committed_is_visible(
    served: Served, hive: EmbeddedMetastore
) -> None:
    where = f"--statestores={served.statestores}"
    with HMSClient(host=HOST, port=int(hive.uri.rpartition(":")[2])) as client:
        client.create_database(Database("ordered", "", f"{hive.warehouse}/ordered", {}))
        done = topicast("sync", where, "--output=json")
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["synced"]


def test_sync_without_a_hub_is_not_reachable() -> None:
    done = topicast("sync", "--statestores=tcp://127.0.0.1:1", "--timeout_s=0.5")
    assert done.returncode == 3
    assert "tcp://127.0.0.1:1" in done.stderr
