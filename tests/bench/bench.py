"""Bench: what a benchmark starts, which ends with it, and the process that runs a benchmark.

    run.py ──▶ python bench.py bench_NAME.py ──▶ its main(), or main(Bench) ──▶ lines of say()

A process of its own for each; those that it spawns find its module by the same name.
"""

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.cli.client.operator import Operator
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.cli.processes import Running, catalogd, statestored
from topicast.tests.hive.postgres import Postgres
from topicast.tests.hive.releases import HOME, RealMetastore, ReleasedMetastore, home
from topicast.tests.integration.daemons import Daemons, both_daemons
from topicast.tests.integration.tables import connect
from topicast.tests.spark.applications import Application, applications
from topicast.topics.settings import parse_addresses

DB: Final = "bench"
BUDGET: Final = "64MB"
DERBY, POSTGRES = "derby", "postgres"
TIMEOUT_S: Final = 240.0  # of whatever is waited for
TIMERS: Final = """
import time

def s(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin

def ms(work):
    return s(work) * 1000
"""


class Bench(ExitStack):
    """Real parts in a folder of their own; all end with the bench, the last one first."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(self.enter_context(TemporaryDirectory()))

    def metastore(self, **how: Any) -> EmbeddedMetastore:
        """Run a metastore, as fast as it can be; ``how`` says what is to be otherwise."""
        given = {"durable": False, "optimized": True, **how}
        return self.enter_context(EmbeddedMetastore(self.folder / "hive", **given))

    def released(self) -> RealMetastore:
        """Run the metastore of the release, on the database, that the environment names.

        TOPICAST_TEST_HIVE as in `releases`, and DATABASE=postgres; without them as ``metastore``.
        """
        found, named = home(), os.environ.get("DATABASE", DERBY)
        if named not in {DERBY, POSTGRES} or (named == POSTGRES and found is None):
            raise SystemExit(f"DATABASE is {DERBY}, or, where {HOME} names a release, {POSTGRES}")
        if found is None:
            return self.metastore()
        database = self.enter_context(Postgres()) if named == POSTGRES else None
        return self.enter_context(ReleasedMetastore(found, self.folder / "hive", database=database))

    def client(self, hive: RealMetastore, db: str = DB) -> HMSClient:
        """Return a client of ``hive``, which has created ``db``."""
        client = self.enter_context(connect(hive.uri))
        client.create_database(Database(db, "", f"file:{self.folder}", {}))
        return client

    def hub(self, *flags: str) -> Running:
        """Run a statestored."""
        return self.enter_context(statestored(self.folder, *flags))

    def catalogd(self, hive: str, hub: str, *flags: str) -> Running:
        """Run a catalogd on the metastore at ``hive``."""
        return self.enter_context(catalogd(self.folder, *flags, hive=hive, statestores=hub))

    def served(self, hive: EmbeddedMetastore, *flags: str) -> tuple[str, Running]:
        """Run hub and catalogd until all of ``hive`` is loaded; return the hub's address, too."""
        address = self.hub().address
        daemon = self.catalogd(hive.uri, address, *flags)
        with Subscriber(address, budget=BUDGET, timeout_s=TIMEOUT_S) as catalog:
            catalog.sync(TIMEOUT_S)
        return address, daemon

    def operator(self, hub: str) -> Operator:
        """Return what gives orders at a hub and at its catalogd."""
        return self.enter_context(Operator(parse_addresses(hub), timeout_s=TIMEOUT_S))

    def subscriber(self, hub: str, budget: str | int = BUDGET) -> Subscriber:
        """Return a subscriber of ``hub``."""
        return self.enter_context(Subscriber(hub, budget=budget, timeout_s=TIMEOUT_S))

    def daemons(self, hive: RealMetastore) -> Daemons:
        """Run hub and catalogd as an installation does, at steady ports."""
        return self.enter_context(both_daemons(self.folder, hive.uri))

    def drivers(self, hive: str, **settings: dict[str, str]) -> list[Application]:
        """Run a Spark driver for each of ``settings``, whose code can call TIMERS."""
        found = self.enter_context(applications(self.folder, hive, **settings))
        for one in found.values():
            one.do(TIMERS)
        return list(found.values())


def main(script: Path) -> None:
    """Run the benchmark in the file ``script``."""
    sys.path.insert(0, str(script.parent))
    work: Callable[..., None] = importlib.import_module(script.stem).main
    if not inspect.signature(work).parameters:
        work()
        return
    with Bench() as bench:
        work(bench)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
