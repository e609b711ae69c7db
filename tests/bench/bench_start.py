"""catalogd starts again: from exec to its line, and to the first sync that is answered.

A store of 100,000 tables and 1,000,000 partitions, a real metastore without news, a statestored
that holds everything already; ``ready_s`` and ``synced_s`` are the best of some restarts, beside
a catalogd with an empty store: what the interpreter and the imports take.
"""

import signal
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.catalog.metastore.hms import Hms
from topicast.catalog.model.window_state import WindowState
from topicast.subscriber import Subscriber
from topicast.tests.bench.bench import Bench
from topicast.tests.bench.report import at_most, beside, say
from topicast.tests.bench.stores import fill_store, table_of
from topicast.tests.cli.processes import catalogd
from topicast.tests.cluster.shop import followed
from topicast.tests.integration.tables import connect
from topicast.tests.keys import user_keys
from topicast.tests.waiting import until
from topicast.topics.keys.folder import DRIVER
from topicast.topics.link import Link
from topicast.topics.wire import decode, encode
from topicast.topics.wire.messages.catalog import Sync, Synced

TABLES = 100_000
PARTITIONS = 1_000_000
PARTITIONED = 2_000  # tables that share the partitions
RUNS = 3
SYNCED_S_MAX = 2.0


@dataclass(frozen=True, slots=True)
class Started:
    """How long a start took."""

    ready_s: float
    synced_s: float


def wait_for_sync(address: str) -> None:
    """Ask catalogd for a sync; return when it is answered."""
    own = user_keys(DRIVER).credential
    with closing(Link(own.pair)) as link:
        link.connect_dealer("service", address, own.catalogd)
        link.send("service", encode(Sync(request=1)))
        while True:
            for one in link.poll(60.0):
                answer = decode(one.frame)
                assert isinstance(answer, Synced), answer
                return


def start(folder: Path, state: str, *, hive: str, hub: str, wait_for_hub: bool = False) -> Started:
    """Start catalogd with the store ``state``, and kill it."""
    begin = perf_counter()
    flags = (f"--state_dir={folder / state}",)
    with catalogd(folder, *flags, hive=hive, statestores=hub) as started:
        started.becomes_ready()
        ready_s = perf_counter() - begin
        wait_for_sync(started.ready["address"])
        synced_s = perf_counter() - begin
        if wait_for_hub:
            with Subscriber(hub, budget="16MB", timeout_s=60) as catalog:
                until(catalog.databases, timeout_s=60, what="the hub to hold the names")
                catalog.sync(60)
                held = catalog.partitions(".".join(table_of(0, TABLES)))
                assert len(held) == PARTITIONS // PARTITIONED, len(held)
        started.end(signal.SIGKILL)
    return Started(ready_s, synced_s)


def known_to(uri: str) -> WindowState:
    """Return what a store keeps of a metastore with one event."""
    with connect(uri) as client:
        client.create_database(Database("known", "", "file:/known", {}))
    with closing(Hms(uri, timeout_s=10.0)) as metastore:
        return followed(metastore)


def main(bench: Bench) -> None:
    hive, folder = bench.metastore(), bench.folder
    size = {"tables": TABLES, "partitioned": PARTITIONED, "partitions": PARTITIONS}
    fill_store(folder / "full", **size, window=known_to(hive.uri))
    where = {"hive": hive.uri, "hub": bench.hub().address}
    start(folder, "full", **where, wait_for_hub=True)
    full = [start(folder, "full", **where) for _ in range(RUNS)]
    where["hub"] = bench.hub().address
    empty = [start(folder, "empty", **where) for _ in range(RUNS)]
    for what in ("ready_s", "synced_s"):
        ours = min(getattr(one, what) for one in full)
        its = min(getattr(one, what) for one in empty)
        facts = {"tables": TABLES, "partitions": PARTITIONS, what: ours}
        say(what, facts, beside("an empty store", ours, its), at_most(ours, SYNCED_S_MAX))
