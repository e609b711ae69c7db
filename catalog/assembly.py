"""Builds a catalogd from its settings, and says in which order its parts start."""

import random
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from ..topics.errors import ConfigError, StoreError, WireError
from ..topics.keys.clients import Clients
from ..topics.keys.folder import DaemonKeys, with_servers
from ..topics.link import Link
from ..topics.memory.memory_limit import MemoryLimit
from ..topics.memory.system_memory import resident_bytes
from ..topics.topic import Topic, topic_ids
from .catalogd import SERVICE, Catalogd, HubConnection
from .config import HOUR_US, CatalogdConfig
from .core import Catalog, CatalogSettings
from .ingest.events.event_window import EventWindow
from .ingest.loads.read_threads import ReadThreads
from .metastore.addresses import Addresses
from .metastore.calls import Calls
from .metastore.hms import Hms
from .metastore.port import Metastore
from .model.modes import ModeState, unpack_mode_state
from .model.window_state import unpack_state
from .publish.publisher import PublishedState, Publisher
from .storage.loading import load_topics
from .storage.store import Store

CATALOG_NAME = "hive"  # the only catalog of most Hive metastores
PORT = "--catalog_service_port (0 takes any free one)"
REMEDY = "remove the state folder and start anew"


def build(
    config: CatalogdConfig,
    *,
    name: str,
    keys: DaemonKeys,
    open_metastore: Callable[[], Metastore] | None = None,
) -> tuple[Catalogd, str]:
    """Return a catalogd that is ready to ``run``, and where peers reach its service.

    ``open_metastore`` opens a connection to the metastore; None: to that of ``config``.

    Raises:
        ConfigError: a metastore URI is malformed, or the keys cannot be used.
        StoreError: the state folder cannot be used.
        LinkError: the port is taken.
    """
    client = config.metastore_client()
    addresses = Addresses(client.uris, tls=client.tls, login=client.login)
    clients = keys.folder.changed() or Clients()
    with ExitStack() as failing:
        store = Store.open(
            Path(config.state_dir),
            num_topics=config.num_topics,
            now_us=time.time_ns() // 1000,
            new_id=secrets.randbits(63) | 1,
            history_bytes_max=config.change_history_mb << 20,
            history_age_max_us=int(config.change_history_hours * HOUR_US),
        )
        failing.callback(store.close)
        link = Link(keys.credential.pair)
        failing.callback(link.close)
        bound = link.bind_router(SERVICE, str(config.service_address()), setting=PORT)
        address = config.advertised(bound)
        memory = _memory(config)
        topics = load_topics(store, topic_ids(config.num_topics), memory)
        if memory is not None:
            memory.measured(resident_bytes() or 0)
            memory.check_start(entries=sum(map(len, topics.values())))
        settings = config.core(client.uris)
        catalog = _catalog(topics, store=store, settings=settings, memory=memory)
        mode_state = _mode_state(store)
        published = PublishedState(
            topics=topics,
            starts=store.starts,
            catalog_address=address,
            catalog_name=CATALOG_NAME,
            mode=mode_state.mode,
        )
        catalog.backfill.change(config.mode(mode_state.mode))
        calls = Calls()
        opened = open_metastore or partial(Hms, addresses, timeout_s=client.timeout_s, calls=calls)
        registration = secrets.token_bytes(16)
        hubs = [
            HubConnection(
                str(hub),
                with_servers(keys.credential, clients).hub_keys(str(hub)),
                Publisher(published, name=name, registration=registration, rng=random.Random()),
            )
            for hub in config.hubs()
        ]
        daemon = Catalogd(
            catalog,
            store,
            link,
            renew=lambda topics, why: _catalog(
                topics, store=store, settings=settings, finding=why, memory=memory
            ),
            published=published,
            hubs=hubs,
            make_read_threads=lambda deliver: ReadThreads(
                opened, threads=config.num_metadata_loading_threads, deliver=deliver
            ),
            keys=keys,
            calls=calls,
        )
        daemon.admit(clients)
        failing.pop_all()
    return daemon, address


def _catalog(
    topics: dict[int, Topic],
    *,
    store: Store,
    settings: CatalogSettings,
    finding: str = "",
    memory: MemoryLimit | None,
) -> Catalog:
    return Catalog(
        topics,
        starts=store.starts,
        window=_window(store),
        folders=store,
        settings=settings,
        mode_state=_mode_state(store),
        writes=store.load_writes(),
        leases=store.load_leases(),
        sweeps=store.load_sweeps(),
        finding=finding,
        memory=memory,
    )


def _memory(config: CatalogdConfig) -> MemoryLimit | None:
    limit_bytes = config.limit_bytes()
    return None if limit_bytes is None else MemoryLimit(limit_bytes)


def _window(store: Store) -> EventWindow | None:
    try:
        state = unpack_state(store.window)
    except WireError as exc:
        raise StoreError("the store", str(exc), REMEDY) from exc
    return EventWindow(state, now=time.monotonic()) if state is not None else None


def _mode_state(store: Store) -> ModeState:
    try:
        mode_state = unpack_mode_state(store.mode_state)
        if mode_state.remainder is not None and len(mode_state.remainder.versions) != len(
            store.versions
        ):
            raise ValueError(
                f"{len(mode_state.remainder.versions)} versions in {store.mode_state[:80]!r}"
            )
    except (ValueError, ConfigError) as exc:
        raise StoreError("the store", str(exc), REMEDY) from exc
    return mode_state
