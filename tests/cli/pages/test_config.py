from pathlib import Path
from typing import Any

import pytest

from topicast.cli.pages.config import PagesConfig
from topicast.topics.errors import ConfigError

FILE = Path("file")


@pytest.mark.parametrize("interface", ["127.0.0.1", "127.0.0.9", "localhost", "::1", "[::1]"])
def test_loopback_needs_no_secret(interface: str) -> None:
    assert not PagesConfig(webserver_interface=interface).needs_secret


@pytest.mark.parametrize("interface", ["0.0.0.0", "::", "10.0.0.3", "host.example"])
def test_every_other_interface_needs_a_password_or_a_token(interface: str) -> None:
    with pytest.raises(ConfigError, match="--webserver_password_file or --webserver_token_file"):
        PagesConfig(webserver_interface=interface)
    PagesConfig(webserver_interface=interface, webserver_password_file=FILE)
    PagesConfig(webserver_interface=interface, webserver_token_file=FILE)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"webserver_port": 65_536}, "webserver_port=65536.*from 0 to 65535"),
        ({"webserver_port": -1}, "webserver_port=-1"),
        ({"webserver_interface": ""}, "webserver_interface"),
        ({"webserver_certificate_file": FILE}, "needs --webserver_private_key_file"),
        ({"webserver_private_key_file": FILE}, "needs --webserver_certificate_file"),
    ],
)
def test_setting_that_is_not_allowed_is_named(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        PagesConfig(**settings)
