"""Settings of statestored are checked before anything starts."""

import pytest

from topicast.statestore.config import StatestoredConfig
from topicast.topics.errors import ConfigError


def test_data_goes_out_on_the_next_port_and_any_if_the_first_may_be_any() -> None:
    config = StatestoredConfig(state_store_port=24_000)
    assert config.request_address == "tcp://127.0.0.1:24000"
    assert config.data_address == "tcp://127.0.0.1:24001"
    assert StatestoredConfig(state_store_port=0).data_address == "tcp://127.0.0.1:0"
    assert StatestoredConfig(state_store_host="::1").request_address == "tcp://[::1]:24000"


@pytest.mark.parametrize(
    ("settings", "requests", "data"),
    [
        ({}, "tcp://127.0.0.1:24000", "tcp://127.0.0.1:24001"),
        ({"state_store_host": "hub-1"}, "tcp://hub-1:24000", "tcp://hub-1:24001"),
        ({"state_store_host": "::1"}, "tcp://[::1]:24000", "tcp://[::1]:24001"),
        ({"state_store_port": 0}, "tcp://127.0.0.1:24000", "tcp://127.0.0.1:24001"),
        (
            {"state_store_host": "0.0.0.0", "advertise_address": "hub-1"},
            "tcp://hub-1:24000",
            "tcp://hub-1:24001",
        ),
        (
            {"state_store_host": "::", "advertise_address": "[2001:db8::1]:30000"},
            "tcp://[2001:db8::1]:30000",
            "tcp://[2001:db8::1]:30001",
        ),
        ({"advertise_address": "hub-1:65534"}, "tcp://hub-1:65534", "tcp://hub-1:65535"),
    ],
    ids=str,
)
def test_peers_are_given_the_advertised_address_else_where_it_listens(
    settings: dict[str, object], requests: str, data: str
) -> None:
    config = StatestoredConfig(**settings)
    assert config.advertised("tcp://192.0.2.1:24000") == requests
    assert config.advertised_data("tcp://192.0.2.1:24001") == data


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("state_store_host", ""),
        ("state_store_host", "tcp://hub"),
        ("advertise_address", "hub:65535"),
        ("advertise_address", "hub:0"),
        ("advertise_address", "2001:db8::1"),
        ("advertise_address", "0.0.0.0"),
        ("advertise_address", ""),
        ("state_store_port", -1),
        ("state_store_port", 65_535),
        ("statestore_heartbeat_frequency_ms", 1),
        ("statestore_max_missed_heartbeats", 1),
    ],
)
def test_value_that_is_not_allowed_is_named(setting: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        StatestoredConfig(**{setting: value})
    assert caught.value.setting == setting
    assert caught.value.value == value


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_hub_on_every_interface_needs_an_address_for_its_peers(host: str) -> None:
    with pytest.raises(ConfigError, match=rf"advertise_address.*listens on {host}"):
        StatestoredConfig(state_store_host=host)
