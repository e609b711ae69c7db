"""Building: a catalogd comes up whole, or nothing of it is left behind."""

import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from topicast.catalog.assembly import build
from topicast.catalog.config import THREADS_MAX, CatalogdConfig
from topicast.catalog.ingest.loads.loader import READS_KEPT
from topicast.catalog.model.modes import unpack_mode_state
from topicast.catalog.model.versions import Commit
from topicast.catalog.model.window_state import WindowState
from topicast.catalog.storage.store import Store
from topicast.tests.catalog.stores import commit, transaction
from topicast.tests.keys import own_link, user_keys
from topicast.tests.strategies import value
from topicast.topics.errors import ConfigError, LinkError, StoreError
from topicast.topics.keys.folder import CATALOGD
from topicast.topics.verdict import Serving, Verdict

NAME = "catalogd@test"


@pytest.fixture
def config(tmp_path: Path) -> CatalogdConfig:
    return CatalogdConfig(
        hive_metastore_uris="thrift://127.0.0.1:1",
        statestores="tcp://127.0.0.1:1,tcp://127.0.0.1:2",
        catalog_service_port=0,
        state_dir=tmp_path / "state",
        num_topics=4,
    )


def store_of(config: CatalogdConfig) -> Store:
    return Store.open(config.state_dir, num_topics=4, now_us=5, new_id=9)


def damage(store: Store, column: str, content: bytes | str) -> None:
    """Write ``content`` into the state of a store that is closed."""
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute(f"UPDATE state SET {column} = ?", (content,))


def test_catalogd_comes_up_with_an_address_of_its_own(config: CatalogdConfig) -> None:
    daemon, address = build(config, name=NAME, keys=user_keys(CATALOGD))
    try:
        assert address.startswith("tcp://127.0.0.1:")
        assert not address.endswith(":0")
        status = daemon.status
        assert status.num_topics == 4
        assert status.epoch
        (reason,) = daemon.verdict.reasons
        assert (reason.code, reason.state) == ("metastore_names", Serving.NOT_SERVING)
    finally:
        daemon.close()


def test_what_the_store_holds_is_there_before_anything_is_read(config: CatalogdConfig) -> None:
    store = store_of(config)
    commit(store, transaction(0, 1, value(b"d\0t\0", 1)))
    store.commit(Commit(window=WindowState(last_id=41, stable_id=41)))
    epoch = store.epoch
    store.close()
    daemon, _ = build(config, name=NAME, keys=user_keys(CATALOGD))
    status = daemon.status
    daemon.close()
    assert (status.epoch, status.entries, status.topics[0].version) == (epoch, 1, 1)
    assert (status.watermark, daemon.verdict) == (41, Verdict())


def test_each_start_has_an_id_of_its_own(config: CatalogdConfig) -> None:
    starts = set()
    for _ in range(2):
        daemon, _ = build(config, name=NAME, keys=user_keys(CATALOGD))
        starts.add(daemon.status.start)
        daemon.close()
    assert len(starts) == 2


def test_malformed_metastore_is_refused_before_anything_is_made(config: CatalogdConfig) -> None:
    with pytest.raises(ConfigError, match="hive_metastore_uris"):
        build(replace(config, hive_metastore_uris="http://x"), name=NAME, keys=user_keys(CATALOGD))
    assert not config.state_dir.exists()


def test_port_in_use_leaves_the_store_to_others(config: CatalogdConfig) -> None:
    other = own_link()
    port = int(other.bind_router("other", "tcp://127.0.0.1:0").rpartition(":")[2])
    with pytest.raises(LinkError, match=str(port)):
        build(replace(config, catalog_service_port=port), name=NAME, keys=user_keys(CATALOGD))
    other.close()
    store_of(config).close()


def test_damaged_window_is_told_and_leaves_store_and_port_to_others(
    config: CatalogdConfig,
) -> None:
    store = store_of(config)
    store.close()
    damage(store, "window", b"odd")
    for _ in range(2):
        with pytest.raises(StoreError, match="window"):
            build(config, name=NAME, keys=user_keys(CATALOGD))
    store_of(config).close()


def test_store_of_another_catalogd_is_not_shared(config: CatalogdConfig) -> None:
    daemon, _ = build(config, name=NAME, keys=user_keys(CATALOGD))
    with pytest.raises(StoreError):
        build(config, name=NAME, keys=user_keys(CATALOGD))
    daemon.close()


def test_mode_is_kept_and_a_flag_changes_it(config: CatalogdConfig) -> None:
    def started(**flags: str) -> tuple[str, str, int]:
        daemon, _ = build(replace(config, **flags), name=NAME, keys=user_keys(CATALOGD))
        try:
            daemon.run_once()  # commits the facts of its start
            return daemon.status.mode, daemon.status.overrides, daemon.status.offers
        finally:
            daemon.close()

    assert started() == ("mixed", "", 3)
    assert started(catalog_topic_mode="minimal") == ("minimal", "", 1)
    assert started() == ("minimal", "", 1)
    assert started(catalog_topic_mode_overrides="a.*=full") == ("minimal", "a.*=full", 3)
    assert started(catalog_topic_mode="full") == ("full", "a.*=full", 2)
    assert started(catalog_topic_mode="mixed", catalog_topic_mode_overrides="") == ("mixed", "", 3)
    store = store_of(config)
    assert unpack_mode_state(store.mode_state).remainder is not None, "nothing was re-stamped yet"
    store.close()


@pytest.mark.parametrize(
    "mode_state", ["odd", '{"mode": ["most", ""], "owed": [], "versions": []}']
)
def test_damaged_mode_state_is_told(config: CatalogdConfig, mode_state: str) -> None:
    store = store_of(config)
    store.close()
    damage(store, "mode", mode_state)
    with pytest.raises(StoreError, match="start anew"):
        build(config, name=NAME, keys=user_keys(CATALOGD))
    store_of(config).close()


@pytest.mark.parametrize(
    "allowed",
    [
        {},
        {"catalog_service_host": "localhost"},
        {"catalog_service_host": "::1"},
        {"catalog_service_host": "::", "advertise_address": "catalog-1"},
        {"advertise_address": "catalog-1:65535"},
        {"catalog_service_port": 0},
        {"catalog_service_port": 65_535},
        {"hms_event_polling_interval_s": 0.0},
        {"hms_event_polling_interval_s": 3600.0},
        {"num_metadata_loading_threads": READS_KEPT + 1},
        {"num_metadata_loading_threads": THREADS_MAX},
        {"num_topics": 1},
    ],
    ids=str,
)
def test_value_at_the_edge_is_allowed(allowed: dict[str, object]) -> None:
    CatalogdConfig(**allowed)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("catalog_service_host", ""),
        ("advertise_address", "a b"),
        ("advertise_address", "catalog:65536"),
        ("catalog_service_port", -1),
        ("catalog_service_port", 65_536),
        ("hms_event_polling_interval_s", -0.1),
        ("hms_event_polling_interval_s", 3600.1),
        ("hms_event_polling_interval_s", float("nan")),
        ("num_metadata_loading_threads", READS_KEPT),
        ("num_metadata_loading_threads", THREADS_MAX + 1),
        ("num_topics", 3),
        ("statestores", "tcp://nowhere"),
        ("statestores", ""),
    ],
)
def test_value_that_is_not_allowed_is_refused_by_its_name(setting: str, value: object) -> None:
    with pytest.raises(ConfigError, match=setting):
        CatalogdConfig(**{setting: value})


def test_ipv6_host_is_bound_as_an_address_of_zeromq() -> None:
    config = CatalogdConfig(catalog_service_host="::1", catalog_service_port=1)
    assert str(config.service_address()) == "tcp://[::1]:1"


def test_hubs_are_given_the_advertised_address_else_where_it_listens(
    config: CatalogdConfig,
) -> None:
    """The port is the bound port, unless another is advertised."""
    for host, advertise, known in (
        ("localhost", None, r"tcp://localhost:[1-9]\d+"),
        ("0.0.0.0", "catalog-1", r"tcp://catalog-1:[1-9]\d+"),
        ("0.0.0.0", "catalog-1:30000", r"tcp://catalog-1:30000"),
    ):
        moved = replace(config, catalog_service_host=host, advertise_address=advertise)
        daemon, address = build(moved, name=NAME, keys=user_keys(CATALOGD))
        daemon.close()
        assert re.fullmatch(known, address)
    with pytest.raises(ConfigError, match=r"advertise_address.*listens on ::"):
        CatalogdConfig(catalog_service_host="::")


def test_every_hub_is_published_to() -> None:
    config = CatalogdConfig(statestores="tcp://127.0.0.1:1, tcp://127.0.0.1:2")
    assert [str(hub) for hub in config.hubs()] == ["tcp://127.0.0.1:1", "tcp://127.0.0.1:2"]


def test_core_gets_what_it_needs() -> None:
    config = CatalogdConfig(
        hms_event_polling_interval_s=0.0,
        load_catalog_in_background=False,
        num_metadata_loading_threads=9,
        blacklisted_dbs=" Sys ,, tmp",
    )
    settings = config.core("thrift://hms:1")
    assert settings.polling_interval_s == 0.0
    assert not settings.load_in_background
    assert settings.reads_max == 9
    assert settings.blacklisted_dbs == ("sys", "tmp")


def test_limit_of_memory_below_what_the_index_takes_is_refused_with_the_figure(
    config: CatalogdConfig,
) -> None:
    store = store_of(config)
    commit(store, transaction(0, 1, value(b"d\0t\0", 1)))
    store.commit(Commit(window=WindowState(last_id=41, stable_id=41)))
    store.close()
    with pytest.raises(ConfigError, match=r"mem_limit='16MB'.*at least \d+ MB.* 1 entries take"):
        build(replace(config, mem_limit="16MB"), name=NAME, keys=user_keys(CATALOGD))
    with pytest.raises(ConfigError, match="mem_limit='plenty'"):
        replace(config, mem_limit="plenty")
    daemon, _ = build(replace(config, mem_limit="90%"), name=NAME, keys=user_keys(CATALOGD))
    daemon.close()
