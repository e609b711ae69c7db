"""Three hosts: a driver behind a NAT follows, whatever happens to links, addresses and keys."""

import math
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Final

import pytest

from topicast.tests.net.namespaces import Host, missing, python
from topicast.tests.net.remote import RemoteError
from topicast.tests.net.site import (
    GATE,
    HUB,
    HUB_MOVED,
    INNER,
    INNER_MOVED,
    STATESTORES,
    Site,
)
from topicast.tests.waiting import in_time, until
from topicast.topics.keys.clients import ClientRole
from topicast.topics.link import new_pair

BACK_S: Final = 20.0  # until a change is seen after a link is back: 4 s to notice, and a catch-up
SOON_S: Final = 2.0
SLOW_S: Final = 0.05
CUT_S: Final = 5.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    assert not missing()
    with closing(Site(tmp_path_factory.mktemp("net"))) as found:
        found.start()
        yield found


def sees(site: Site, revision: str) -> None:
    """Wait for a revision; a read may be refused before (its hub is silent on a slow machine)."""

    def seen() -> bool:
        with suppress(RemoteError):
            return site.seen() == revision
        return False

    until(seen, timeout_s=BACK_S, what=f"revision {revision}")


def seconds_until_seen(site: Site) -> float:
    """Return how long it takes until the driver has a change, from before it is made."""
    began = time.monotonic()
    sees(site, site.revise())
    return time.monotonic() - began


def test_driver_behind_a_nat_follows_and_nobody_connects_to_it(site: Site) -> None:
    sees(site, site.revise())
    assert site.reader.get("len(catalog.partitions('shop.orders', \"ds >= '001'\"))") == 2
    assert site.reader.get("catalog.sync(timeout_s=60)") is None
    assert site.reader.get("listening()") == []
    until(lambda: site.problem() == "", what="no problem")
    code, printed, complaint = site.topicast("status", "--verbose")
    assert (code, complaint) == (0, "")
    for address in ("hub-1:24000", "tcp://hub-1:24001", "tcp://catalog-1:26000"):
        assert address in printed


def test_each_host_has_its_own_key_and_no_other(site: Site) -> None:
    made = {name.name for name in (site.hub.folder / "keys").iterdir()}
    assert made == {"statestored.key", "clients", "clients.for", "lock"}
    secrets = {
        path: path.read_text()
        for host in (site.hub, site.driver)
        for path in host.folder.rglob("*.key")
    }
    assert len(secrets) == len(set(secrets.values())) == 3
    own = site.keys.credential("catalogd").pair.secret
    assert not [path for path, text in secrets.items() if own in text]
    assert own not in (site.hub.folder / "keys" / "clients.for").read_text()


@pytest.mark.parametrize(
    ("daemon", "flags", "remedy"),
    [
        ("statestored", ("--state_store_host=0.0.0.0", "--advertise_address=hub-1"), "keys add"),
        ("statestored", ("--state_store_host=hub-1",), "keys add"),
        ("catalogd", ("--catalog_service_host=hub-1",), "keys init"),
        ("statestored", ("--state_store_host=0.0.0.0",), "advertise_address"),
    ],
)
def test_host_without_a_key_starts_nothing(
    site: Site, daemon: str, flags: tuple[str, ...], remedy: str
) -> None:
    done = site.hub.run(*python("topicast.cli.daemons", daemon, *flags))
    assert (done.returncode, done.stdout) == (2, "")
    assert remedy in done.stderr


def test_change_arrives_over_a_slow_link(site: Site) -> None:
    """50 ms each way: the hub is not taken for silent, and nothing is fetched twice."""

    def seconds_without_a_catch_up() -> float:
        counted = "(catalog.stats().hub, catalog.stats().catch_ups)"
        before = site.reader.get(counted)
        took = seconds_until_seen(site)
        assert site.reader.get("catalog.sync(timeout_s=60)") is None
        return took if site.reader.get(counted) == before else math.inf

    site.order(f"delay {SLOW_S}")
    try:
        in_time(seconds_without_a_catch_up, limit_s=SOON_S)
    finally:
        site.order("delay 0")
    until(lambda: site.problem() == "", what="no problem")


@pytest.mark.parametrize(
    "name",
    ["hub", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("driver", "catalog"))],
)
def test_cut_link_is_missed_while_it_is_cut_and_made_up_for_after(site: Site, name: str) -> None:
    """It is cut for longer than a connection lives without an answer."""
    host: Host = getattr(site, name)
    host.ip("link set eth0 down")
    try:
        revision = site.revise()
        until(lambda: site.reader.get("catalog.stats().staleness_s") > CUT_S, what="stale answers")
    finally:
        host.ip("link set eth0 up")
    sees(site, revision)
    in_time(lambda: seconds_until_seen(site), limit_s=SOON_S)


def test_hub_that_moves_under_its_name_is_found(site: Site) -> None:
    """Its host has another address, and so has the gate behind which the driver is."""
    site.hub.ip(f"address del {HUB}/24 dev eth0")  # with which others of its net would go
    site.hub.ip(f"address add {HUB_MOVED}/24 dev eth0")
    site.gate.ip(f"address del {INNER}/24 dev driver")
    site.gate.ip(f"address add {INNER_MOVED}/24 dev driver")
    site.name_the_hub(HUB_MOVED, INNER_MOVED)
    sees(site, site.revise())
    until(lambda: site.topicast("status")[0] == 0, what="status to say that it serves")


def test_port_that_a_firewall_closes_is_named(site: Site) -> None:
    """Given a driver that receives its hub, when catalogd's port is closed to it alone."""
    site.order("close 26000")
    try:
        said = until(site.problem, what="the problem")
        assert said.startswith("catalogd says that it is at tcp://catalog-1:26000, which is not")
        code, printed, complaint = site.topicast("status")
        assert code == 3
        assert "statestored" in printed
        assert said in complaint
        in_time(lambda: seconds_until_seen(site), limit_s=SOON_S)
    finally:
        site.order("open 26000")
    until(lambda: site.problem() == "", what="the port")
    site.order("close 24001")
    try:
        said = until(site.problem, what="the problem")
        assert f"at {STATESTORES} says that its data is at tcp://hub-1:24001, which" in said
    finally:
        site.order("open 24001")
    until(lambda: site.problem() == "", what="the port")
    sees(site, site.revise())


def test_key_is_revoked_on_every_host(site: Site) -> None:
    other = site.driver.folder / "driver.key"
    kept = other.read_text()

    def seconds_until_refused() -> float:
        other.unlink()
        site.keys.add("revoked", ClientRole.DRIVER, new_pair, to=other)
        reader = site.reading(site.driver)
        site.keys.revoke("revoked")
        revoked_at = time.monotonic()
        until(lambda: "key revoked refused" in reader.get("catalog.stats().connection_problem"))
        took = time.monotonic() - revoked_at
        reader.end()
        return took

    try:
        in_time(seconds_until_refused, limit_s=SOON_S)
    finally:
        other.unlink(missing_ok=True)
        other.touch(mode=0o600)
        other.write_text(kept)
    until(lambda: site.problem() == "", what="no problem")


def test_gate_is_all_that_the_driver_can_reach(site: Site) -> None:
    """The test would prove nothing if there were another way."""
    for address in (HUB_MOVED, GATE):
        done = site.driver.run("ip", "route", "get", address)
        assert done.returncode != 0
