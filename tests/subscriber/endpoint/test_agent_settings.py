"""Settings of an agent: one line, and nothing that is not known."""

import json

import pytest

from topicast.subscriber.endpoint.settings import AgentSettings, read_settings
from topicast.topics.errors import ConfigError

SETTINGS = AgentSettings(token="t" * 16, budget="64MB", name="etl", changes=True)


def test_settings_come_back() -> None:
    assert read_settings(SETTINGS.line()) == SETTINGS
    assert SETTINGS.line().count(b"\n") == 1


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"", "JSON"),
        (b"\xff", "JSON"),
        (b"[]", "JSON"),
        (b'{"token": "short"}', "token"),
        (b'{"token": 1}', "token"),
        (b"{}", "token"),
        (json.dumps({"token": "t" * 16, "other": 1}).encode(), "other"),
        (json.dumps({"token": "t" * 16, "changes": 1}).encode(), "changes"),
    ],
)
def test_what_is_no_line_of_settings_is_refused(line: bytes, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        read_settings(line)
    assert "short" not in str(caught.value)
