"""A shop that is served on real sockets: statestored and catalogd in threads of this process."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from topicast.catalog.assembly import build as build_catalogd
from topicast.catalog.catalogd import Catalogd
from topicast.catalog.config import CatalogdConfig
from topicast.catalog.core import CatalogSettings
from topicast.catalog.status import verdict
from topicast.cli.client.operator import Operator
from topicast.statestore.config import StatestoredConfig
from topicast.statestore.statestored import Statestored
from topicast.statestore.statestored import build as build_statestored
from topicast.tests.cluster.shop import Shop
from topicast.tests.keys import user_keys
from topicast.tests.waiting import until
from topicast.topics.keys.folder import CATALOGD, STATESTORED
from topicast.topics.settings import parse_addresses
from topicast.topics.verdict import Serving
from topicast.topics.wire.messages.answers import NamedFacts

POLL_S = 0.02
HEARTBEAT_MS = 50
START_S = 60.0


Daemon = Catalogd | Statestored


class Running:
    """A daemon that is made, runs and is closed in a thread of its own."""

    def __init__(self, make: Callable[[], tuple[Daemon, str]]) -> None:
        made: SimpleQueue[tuple[Daemon, str]] = SimpleQueue()

        def serve() -> None:
            daemon, address = make()
            made.put((daemon, address))
            try:
                daemon.run()
            finally:
                daemon.close()

        self._thread = threading.Thread(target=serve)
        self._thread.start()
        self.daemon, self.address = made.get(timeout=START_S)

    def stop(self) -> None:
        """End it; a second time nothing happens."""
        self.daemon.stop()
        self._thread.join(START_S)
        assert not self._thread.is_alive()


class Followed(CatalogdConfig):
    """Settings of a catalogd that takes its store's names for the shop's, however long it runs."""

    def core(self, metastore: str) -> CatalogSettings:
        return replace(super().core(metastore), reconcile_calls_per_s=0)


class Served:
    """``hubs`` statestoreds, the first at ``port``, and over ``shop`` a catalogd."""

    def __init__(
        self,
        shop: Shop,
        folder: Path,
        *,
        hubs: int = 1,
        port: int = 0,
        catalog_port: int = 0,
        num_topics: int = 4,
        history_hours: float = 24,
    ) -> None:
        self.shop = shop
        self._folder = folder
        self._catalog_port = catalog_port
        self._num_topics = num_topics
        self._history_hours = history_hours
        self.hubs = [self.hub(0 if number else port) for number in range(hubs)]
        self.address = ",".join(hub.address for hub in self.hubs)
        self.start_catalogd()

    def hub(self, port: int) -> Running:
        """Start a statestored; port 0 takes any free port."""
        config = StatestoredConfig(
            state_store_port=port, statestore_heartbeat_frequency_ms=HEARTBEAT_MS
        )
        return Running(lambda: build_statestored(config, keys=user_keys(STATESTORED)))

    def start_catalogd(self) -> None:
        """Start catalogd, over its store if it ran before, and wait until the hubs hold all."""
        config = Followed(
            statestores=self.address,
            catalog_service_port=self._catalog_port,
            state_dir=self._folder,
            num_topics=self._num_topics,
            change_history_hours=self._history_hours,
            hms_event_polling_interval_s=POLL_S,
        )
        self.catalogd = Running(
            lambda: build_catalogd(
                config,
                name="catalogd",
                keys=user_keys(CATALOGD),
                open_metastore=lambda: self.shop,
            )
        )
        until(self._holds_everything, what="hubs that hold the shop")

    def order(self, order: str, *arguments: str) -> None:
        """Do what an operator does with ``topicast``."""
        addresses = parse_addresses(self.address, setting="statestores")
        with Operator(addresses, timeout_s=START_S) as operator:
            operator.order(order, arguments, NamedFacts, sender="ann")

    def stop(self) -> None:
        self.catalogd.stop()
        for hub in self.hubs:
            hub.stop()

    def _holds_everything(self) -> bool:
        status = self.catalogd.daemon.status
        serves = verdict(status).state is not Serving.NOT_SERVING
        if not status.start or not serves or status.tables_to_load:
            return False
        return all(
            hub.daemon.status.start == status.start
            and _versions(hub.daemon.status) == _versions(status)
            for hub in self.hubs
        )


def _versions(status: Any) -> list[tuple[int, int]]:
    return [(one.topic, one.version) for one in status.topics]


@contextmanager
def served(folder: Path, shop: Shop | None = None, **options: Any) -> Iterator[Served]:
    """Serve ``shop`` until the block ends; catalogd has its store in ``folder``."""
    found = Served(shop if shop is not None else Shop(), folder, **options)
    try:
        yield found
    finally:
        found.stop()
