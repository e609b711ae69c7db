"""A hub with a folder of its own, as on another host: catalogd sends it the list of clients."""

import json
import shutil
import signal
import time
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

from topicast.cli.client.operator import Operator
from topicast.subscriber import Subscriber
from topicast.tests.cli.processes import running, steady_port, topicast
from topicast.tests.hive.releases import RealMetastore
from topicast.tests.integration.daemons import can_open
from topicast.tests.integration.hosts import Hosts
from topicast.tests.waiting import in_time, until
from topicast.topics.keys.clients import ClientRole
from topicast.topics.keys.credential import credential_text
from topicast.topics.keys.folder import KeysFolder, find_credential
from topicast.topics.link import Handshake, Link, new_pair
from topicast.topics.settings import parse_addresses
from topicast.topics.wire.messages.questions import ReadSubscribers

EFFECT_S: Final = 2.0


def is_admitted(hosts: Hosts, key_file: Path) -> bool:
    """Return whether the hub's answer to a handshake with this key is yes."""
    own = find_credential("", key_file=str(key_file), environ={})
    link = Link(own.pair)
    try:
        link.connect_dealer("hub", hosts.address, own.hub_key(hosts.address))
        until(lambda: link.poll(0.01) or link.handshake("hub") is not Handshake.NONE)
        return link.handshake("hub") is Handshake.DONE
    finally:
        link.close()


def members(hosts: Hosts, key_file: Path) -> set[str]:
    """Return the names of the hub's members, requested with an operator's key."""
    own = find_credential("", key_file=str(key_file), environ={})
    with Operator(parse_addresses(hosts.address), timeout_s=30, credential=own) as visit:
        found = visit.hub(ReadSubscribers())
    return {str(row[found.columns.index("name")]) for row in found.rows}


def fact(hosts: Hosts, name: str) -> int:
    """Return a number of the hub's status."""
    return int(json.loads(hosts.hub.page("/?json"))[name])


def test_client_is_admitted_and_revoked_at_a_hub_elsewhere(hosts: Hosts) -> None:
    """Within 2 s, on a live connection, too; and nothing else comes into the hub's folder."""
    first, operator = hosts.add("first"), hosts.keys.file("operator")
    until(lambda: can_open(hosts.address, first), what="the first client")
    names = (f"second-{number}" for number in count())

    def seconds_until_each() -> float:
        second = hosts.add(name := next(names))
        added_at = time.monotonic()
        until(lambda: is_admitted(hosts, second), what="the second client at the hub")
        admitted_s = time.monotonic() - added_at
        with Subscriber(hosts.address, key_file=str(second), name=name):
            until(lambda: name in members(hosts, operator), what="the client at the hub")
            hosts.keys.revoke(name)
            revoked_at = time.monotonic()
            until(lambda: name not in members(hosts, operator), what="its end")
            ended_s = time.monotonic() - revoked_at
        assert not can_open(hosts.address, second)
        return max(admitted_s, ended_s)

    in_time(seconds_until_each, limit_s=EFFECT_S)
    until(lambda: can_open(hosts.address, first), what="the first client, still")
    kept = hosts.hub_keys.path / "clients"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert hosts.hub_keys.clients() == hosts.keys.clients()
    assert {path.name for path in hosts.hub_keys.path.iterdir()} == {
        "statestored.key",
        "clients",
        "clients.for",
        "lock",
    }


def test_hub_without_catalogd_keeps_its_list_over_a_restart(hosts: Hosts) -> None:
    """Given catalogd is away and the hub was restarted, then its clients come in, others not."""
    before = hosts.add("before", ClientRole.OPERATOR)
    until(hosts.is_list_at_hub, what="the list at the hub")
    hosts.catalogd.end(signal.SIGKILL)
    hosts.hub.end(signal.SIGKILL)
    after = hosts.add("after", ClientRole.OPERATOR)
    hosts.start_hub()

    def status(key_file: Path) -> str:
        own = {"TOPICAST_KEY_FILE": str(key_file), "TOPICAST_STATESTORES": hosts.address}
        done = topicast("status", **own)
        return done.stdout + done.stderr

    assert "has no catalogd" in status(before)
    assert "does not admit the key after" in status(after)
    hosts.start_catalogd()
    until(lambda: "does not admit" not in status(after), what="the new client")


def test_hub_has_the_list_while_the_metastore_was_never_reached(tmp_path: Path) -> None:
    """Whoever looks for what is wrong comes in, and is shown it."""
    nowhere = f"thrift://127.0.0.1:{steady_port()}"
    with closing(Hosts(tmp_path, nowhere)) as hosts:
        operator = hosts.add("operator-1", ClientRole.OPERATOR)
        until(lambda: is_admitted(hosts, operator), what="the operator at the hub")
        own = {"TOPICAST_KEY_FILE": str(operator), "TOPICAST_STATESTORES": hosts.address}

        def status() -> str:
            done = topicast("status", **own)
            return done.stdout + done.stderr

        until(lambda: f"no metastore reached: {nowhere}" in status(), what="what is wrong")
        assert "does not admit" not in status()
        hosts.keys.revoke("operator-1")
        until(lambda: not is_admitted(hosts, operator), what="the end of the operator")


def test_lost_host_of_catalogd_is_made_anew_from_a_copy_of_its_keys(hosts: Hosts) -> None:
    """docs/deploy.md, "Back up and restore": the store is read again; driver and hub go on."""
    driver = hosts.add("driver-1")
    until(hosts.is_list_at_hub, what="the list at the hub")
    epoch = until(lambda: fact(hosts, "epoch"), what="the first epoch at the hub")
    copy = {file.name: file.read_bytes() for file in hosts.keys.path.iterdir()}
    with Subscriber(hosts.address, key_file=str(driver), name="driver-1") as catalog:
        catalog.sync(timeout_s=60)
        before = catalog.databases()
        hosts.catalogd.end(signal.SIGKILL)
        shutil.rmtree(hosts.state)
        shutil.rmtree(hosts.keys.path)
        hosts.keys.path.mkdir()
        hosts.keys.path.chmod(0o700)
        for name, content in copy.items():
            file = hosts.keys.path / name
            file.write_bytes(content)
            file.chmod(0o600)
        hosts.start_catalogd()
        until(lambda: fact(hosts, "epoch") > epoch, what="a new epoch")
        until(lambda: catalog.stats().staleness_s < 1, what="the driver to go on")
        catalog.sync(timeout_s=60)
        assert catalog.databases() == before
    after = hosts.add("driver-2")
    until(lambda: can_open(hosts.address, after), what="a client that was added afterwards")


def test_catalogd_that_the_hub_does_not_know_is_not_believed(
    hosts: Hosts, hive: RealMetastore, tmp_path: Path
) -> None:
    """Another catalogd is no client, whatever list it keeps; the hub's stays as it is."""
    known = hosts.add("known")
    until(lambda: can_open(hosts.address, known), what="the client")
    hosts.catalogd.end(signal.SIGKILL)
    (tmp_path / "other").mkdir()
    listed = hosts.hub_keys.clients()
    other = KeysFolder(tmp_path / "other" / "keys")
    other.make(new_pair)
    knowing = replace(other.credential("catalogd"), hubs=hosts.keys.credential("catalogd").hubs)
    other.file("catalogd").write_text(credential_text(knowing))
    flags = (
        *("--catalog_service_port=0", "--webserver_port=0", f"--keys_dir={other.path}"),
        *(f"--statestores={hosts.address}", f"--hive_metastore_uris={hive.uri}"),
        f"--state_dir={tmp_path / 'other' / 'state'}",
    )
    before = fact(hosts, "handshakes_failed")
    with running(tmp_path / "other.log", "daemons", "catalogd", *flags):
        until(
            lambda: fact(hosts, "handshakes_failed") > before, what="the other catalogd at the hub"
        )
    assert hosts.hub_keys.clients() == listed
