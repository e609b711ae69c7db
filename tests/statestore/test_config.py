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
    ("setting", "value"),
    [
        ("state_store_host", "0.0.0.0"),
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
