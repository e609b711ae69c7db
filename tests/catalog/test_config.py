"""The settings of catalogd: what is not allowed is refused, and says what is."""

import pytest

from topicast.catalog.config import THREADS_MAX, CatalogdConfig
from topicast.catalog.ingest.loader import READS_KEPT
from topicast.catalog.publish.modes import parse_mode
from topicast.topics.errors import ConfigError


@pytest.mark.parametrize(
    "allowed",
    [
        {},
        {"catalog_service_host": "localhost"},
        {"catalog_service_host": "::1"},
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
        ("catalog_service_host", "0.0.0.0"),
        ("catalog_service_host", ""),
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
    settings = config.core()
    assert settings.polling_interval_s == 0.0
    assert not settings.load_in_background
    assert settings.reads_max == 9
    assert settings.blacklisted_dbs == ("sys", "tmp")


def test_mode_that_is_set_wins_over_the_one_that_is_stored() -> None:
    stored = parse_mode("minimal", "a.*=full")
    assert CatalogdConfig().mode(stored) == stored
    assert CatalogdConfig(catalog_topic_mode="full").mode(stored) == parse_mode("full", "a.*=full")
    none = CatalogdConfig(catalog_topic_mode_overrides="")
    assert none.mode(stored) == parse_mode("minimal", "")
