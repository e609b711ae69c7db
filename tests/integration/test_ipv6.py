"""IPv6 from end to end: metastore, both daemons, their pages, a reader and the commands."""

import json
from pathlib import Path

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.cli.processes import catalogd, shown, statestored
from topicast.tests.integration.relay import Relay
from topicast.tests.integration.tables import database, revise
from topicast.tests.keys import user_keys
from topicast.tests.waiting import until
from topicast.topics.keys.folder import OPERATOR

TABLE = "sixth.orders"


@pytest.mark.nightly  # units parse addresses
def test_every_address_may_be_of_ipv6_and_printed_addresses_can_be_used(
    hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    """The hub listens on all interfaces, catalogd on ::1; nothing is connected to by IPv4."""
    user_keys(OPERATOR)  # none are made for a daemon that listens on every interface
    everywhere = ("--state_store_host=::", "--advertise_address=[::1]", "--webserver_interface=::1")
    here = ("--catalog_service_host=::1", "--webserver_interface=::1", "--num_topics=16")
    with (
        database(hive.uri, tmp_path, {TABLE: 3}) as client,
        Relay(hive.uri, host="::1") as metastore,
        statestored(tmp_path, *everywhere) as hub,
        catalogd(tmp_path, *here, hive=metastore.uri, statestores=hub.ready["address"]) as server,
    ):
        address = hub.ready["address"]
        assert address.startswith("tcp://[::1]:")
        until(lambda: server.health()[0] == 200, timeout_s=30, what="catalogd's health")
        with Subscriber(address, timeout_s=20) as catalog:
            assert len(catalog.partitions(TABLE)) == 3
            revise(client, (TABLE,), 6)
            until(lambda: catalog.table(TABLE).parameters.get("rev") == "6", what="the change")
        assert "orders" in shown(address, "tables", "sixth")
        (facts,) = json.loads(shown(address, "status", "--output=json"))["statestoreds"]
        for name in ("address", "data_address", "catalog_address"):
            assert facts[name].startswith("tcp://[::1]:"), facts
        assert facts["catalog_address"] == server.ready["address"]
        checks = shown(address, "doctor", "--role=driver")
        assert f"{facts['catalog_address']} answers" in checks
        for daemon in (hub, server):
            assert daemon.ready["web"].startswith("http://[::1]:")
            until(lambda daemon=daemon: daemon.health()[0] == 200, what="health")
