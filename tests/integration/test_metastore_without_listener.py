"""A metastore that records no events: nobody reads that all is well, until it does."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.subscriber import Subscriber
from topicast.tests.cli.processes import steady_port, topicast
from topicast.tests.cluster.fake_metastore import make_table
from topicast.tests.hive.releases import real_metastore
from topicast.tests.integration.daemons import both_daemons
from topicast.tests.waiting import until
from topicast.topics.errors import SourceError

SETTING = "set hive.metastore.transactional.event.listeners="


def create(port: int, name: str, folder: Path) -> None:
    with HMSClient(host="127.0.0.1", port=port) as client:
        if "blind" not in client.get_all_databases():
            client.create_database(Database("blind", "", f"file:{folder}/blind", {}))
        client.create_table(make_table("blind", name, location=f"file:{folder}/blind/{name}"))


@pytest.mark.nightly  # units have the verdict
def test_missing_listener_is_said_everywhere_and_its_changes_are_read_once_it_is_there(
    tmp_path: Path,
) -> None:
    port, folder = steady_port(), tmp_path / "hive"
    with ExitStack() as up:
        metastore = real_metastore(folder, port=port, events=False)
        up.enter_context(metastore)
        create(port, "before", tmp_path)
        daemons = up.enter_context(both_daemons(tmp_path, metastore.uri))
        catalogd = daemons.of("catalogd")
        until(lambda: SETTING in catalogd.health()[1], what="the reason")
        assert catalogd.health()[0] == 200, "what was read is served, and a restart mends nothing"
        catalog = up.enter_context(Subscriber(daemons.hub_address, budget="16MB", timeout_s=30))
        until(lambda: catalog.tables("blind") == ("before",), what="what was read, which is served")
        create(port, "after", tmp_path)
        with pytest.raises(SourceError, match=SETTING):
            catalog.sync(timeout_s=60)
        assert SETTING in until(lambda: catalog.stats().metastore_problem, what="a push")
        where = f"--statestores={daemons.hub_address}"
        synced = topicast("sync", where)
        assert synced.returncode != 0
        assert SETTING in synced.stderr
        status = topicast("status", where)
        assert (status.returncode, SETTING in status.stdout) == (5, True)

        metastore.stop()
        up.enter_context(real_metastore(folder, port=port))
        until(lambda: catalogd.health() == (200, "serving\n"), timeout_s=40, what="health")
        catalog.sync(timeout_s=60)
        assert catalog.tables("blind") == ("after", "before")
        until(lambda: catalog.stats().metastore_problem == "", what="a push")
