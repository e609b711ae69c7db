"""What goes wrong on real processes: frozen, killed, restored from an old copy."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import permutations
from pathlib import Path
from typing import Final

import pytest
from hmsclient import HMSClient

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.cli.processes import command
from topicast.tests.integration.daemons import Daemons, both_daemons
from topicast.tests.integration.looking import Looker, Revision
from topicast.tests.integration.marked import marked
from topicast.tests.integration.relay import Relay
from topicast.tests.integration.tables import database, is_held, revise
from topicast.tests.waiting import until
from topicast.topics.clock import seconds
from topicast.topics.errors import LinkError

TABLES: Final = ("faults.t",)
NOWHERE: Final = "thrift://127.0.0.1:1"
ORDERS: Final = tuple(permutations(("statestored", "catalogd", "metastore")))
EACH_FIRST: Final = tuple(ORDERS[at] for at in (0, 3, 4))  # and each second, and each last


@pytest.fixture
def client(hive: EmbeddedMetastore, tmp_path: Path) -> Iterator[HMSClient]:
    """A client, and database ``faults`` with table ``faults.t`` at revision 0."""
    with database(hive.uri, tmp_path, dict.fromkeys(TABLES, 0)) as found:
        yield found


@pytest.fixture
def daemons(hive: EmbeddedMetastore, tmp_path: Path) -> Iterator[Daemons]:
    found = Daemons(tmp_path, hive.uri)
    yield found
    found.close()


def seen(catalog: Subscriber) -> int:
    return int(catalog.table("faults.t").parameters.get("rev", "0"))


def drivers(daemons: Daemons, *arguments: str) -> None:
    """Order what drivers are to be, as soon as the hub knows catalogd."""

    def ordered() -> bool:
        try:
            daemons.order("drivers", *arguments)
        except LinkError:  # it is starting
            return False
        return True

    until(ordered, timeout_s=40, what=f"{arguments}")


def looking(catalog: Subscriber, *, one_epoch: bool = True) -> Looker:
    """Return a looker at the table, once it is held: at content, and in one epoch versions too."""

    def look(catalog: Subscriber, name: str) -> Revision:
        table = catalog.table(name)
        return int(table.parameters.get("rev", "0")), table.version if one_epoch else 0

    until(lambda: is_held(catalog, "faults.t"), timeout_s=20, what="the table to be held")
    return Looker(catalog, ("faults.t",), look=look)


def test_frozen_hub_is_left_for_another_and_nothing_goes_back(
    client: HMSClient, daemons: Daemons
) -> None:
    for name in ("statestored", "statestored2", "catalogd"):
        daemons.start(name)
    with (
        Subscriber(daemons.hub_address, budget="16MB", timeout_s=30) as catalog,
        looking(catalog) as looker,
    ):
        daemons.freeze("statestored")
        revise(client, TABLES, 1)
        until(lambda: seen(catalog) == 1, timeout_s=20, what="a change while a hub is frozen")
        daemons.thaw("statestored")
        revise(client, TABLES, 2)
        until(lambda: seen(catalog) == 2, timeout_s=20, what="a change after it")
    assert looker.wrong == []
    assert looker.reads > 10


def test_only_hub_that_is_frozen_is_caught_up_with_afterwards(
    client: HMSClient, daemons: Daemons
) -> None:
    daemons.start("statestored")
    daemons.start("catalogd")
    with (
        Subscriber(daemons.hub_address, budget="16MB", timeout_s=30) as catalog,
        looking(catalog) as looker,
    ):
        daemons.freeze("statestored")
        revise(client, TABLES, 1)
        frozen = until(lambda: catalog.stats().staleness_s > 5, timeout_s=20, what="the age")
        assert frozen
        assert seconds() - catalog.freshness().current_at > 5
        assert seen(catalog) == 0
        daemons.thaw("statestored")
        until(lambda: seen(catalog) == 1, timeout_s=20, what="the change")
    assert looker.wrong == []


@pytest.mark.parametrize(
    "orders",
    [
        pytest.param(EACH_FIRST, id="each first"),
        pytest.param(ORDERS, id="every order", marks=pytest.mark.nightly),
    ],
)
def test_all_may_be_killed_at_once_and_come_back_in_any_order(
    hive: EmbeddedMetastore, client: HMSClient, tmp_path: Path, orders: Sequence[Sequence[str]]
) -> None:
    """Given hub, catalogd and metastore gone, then each order of their return ends well.

    What drivers were ordered holds throughout (P-RULES-3), and can be changed without a metastore.
    """
    with Relay(hive.uri) as relay, ExitStack() as up:
        daemons = up.enter_context(both_daemons(tmp_path, relay.uri))
        back: dict[str, Callable[[], None]] = {
            "statestored": lambda: daemons.start("statestored"),
            "catalogd": lambda: daemons.start("catalogd"),
            "metastore": lambda: relay.lead_to(hive.uri),
        }
        catalog = up.enter_context(Subscriber(daemons.hub_address, budget="16MB", timeout_s=30))
        looker = up.enter_context(looking(catalog))
        drivers(daemons, "off", "etl-*")
        until(lambda: catalog.driver.wanted("etl-1") == "off", timeout_s=20, what="the rule")
        for rev, order in enumerate(orders, start=1):
            relay.lead_to(NOWHERE)
            for name in ("statestored", "catalogd"):
                daemons.kill(name)
            revise(client, TABLES, rev)
            assert seen(catalog) == rev - 1
            for name in order:
                back[name]()
            until(lambda rev=rev: seen(catalog) == rev, timeout_s=40, what=f"{order}")
            catalog.sync(timeout_s=40)
            assert seen(catalog) == rev, "from now on held, whatever ends"
            assert catalog.driver.wanted("etl-1") == "off"
        with Subscriber(daemons.hub_address, budget="16MB", timeout_s=30) as later:
            assert later.driver.wanted("etl-1") == "off", "a later driver obeys it, too"
        relay.lead_to(NOWHERE)
        daemons.kill("catalogd")
        daemons.start("catalogd")
        drivers(daemons, "on")
        until(lambda: catalog.driver.wanted("etl-1") == "on", timeout_s=20, what="no rule")
    assert looker.wrong == []


def test_killed_reader_disturbs_nobody(client: HMSClient, daemons: Daemons, tmp_path: Path) -> None:
    daemons.start("statestored")
    daemons.start("catalogd")
    with (
        Subscriber(daemons.hub_address, budget="16MB", timeout_s=30) as catalog,
        looking(catalog) as looker,
    ):
        watch = command("main", "watch", "*", f"--statestores={daemons.hub_address}")
        with marked(watch, tmp_path / "watch", cwd=tmp_path, environment=os.environ) as other:
            other.says("watching", timeout_s=30)
            revise(client, TABLES, 1)
            other.says("faults.t", timeout_s=30)
            os.kill(other.process.pid, signal.SIGKILL)
        revise(client, TABLES, 2)
        until(lambda: seen(catalog) == 2, timeout_s=20, what="a change after it")
    assert looker.wrong == []


def test_old_store_that_is_restored_is_outgrown(client: HMSClient, daemons: Daemons) -> None:
    daemons.start("statestored")
    daemons.start("catalogd")
    with Subscriber(daemons.hub_address, budget="16MB", timeout_s=30) as catalog:
        daemons.kill("catalogd")
        copy = daemons.copy_store()
        daemons.start("catalogd")
        for rev in range(1, 6):
            revise(client, TABLES, rev)
            until(lambda rev=rev: seen(catalog) == rev, timeout_s=20, what=f"revision {rev}")
        with looking(catalog, one_epoch=False) as looker:
            daemons.kill("catalogd")
            daemons.restore_store(copy)
            daemons.start("catalogd")
            revise(client, TABLES, 6)
            until(lambda: seen(catalog) == 6, timeout_s=40, what="the change after the restore")
    assert looker.wrong == []
