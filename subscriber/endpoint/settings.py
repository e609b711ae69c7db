"""Settings of an agent: one line of JSON, which its parent writes, as it holds secrets."""

import json
from dataclasses import dataclass, fields
from typing import Final

from ...topics.errors import ConfigError
from .service import TOKEN_CHARS_MIN

LINE_BYTES_MAX: Final = 1 << 20  # of a line either way: versions of 10,000 tables
NAME_SUFFIX: Final = " endpoint"  # of the driver's name, so that operators see whose it is


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """What an agent needs; None is the default of ``Subscriber``.

    ``token``: what readers present. ``name``: the driver's that it belongs to. ``key``: the content
    of a key file, instead of ``key_file``. ``changes``: report changes as its view has them.
    """

    token: str
    statestores: str | None = None
    budget: str | int | None = None
    name: str | None = None
    key_file: str | None = None
    key: str | None = None
    metastore: str | None = None
    levels: str | None = None
    always: str | None = None
    never: str | None = None
    max_staleness_s: float | None = None
    timeout_s: float = 10.0
    changes: bool = False

    def line(self) -> bytes:
        """Return the line that ``read_settings`` reads."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return json.dumps(named).encode() + b"\n"


def read_settings(line: bytes) -> AgentSettings:
    """Return the settings in ``line``; what they say of a subscriber is not examined.

    Raises:
        ConfigError: it is not one JSON object of settings; no value of it is shown.
    """
    try:
        found = json.loads(line)
    except ValueError as exc:
        raise ConfigError("settings", "(not shown)", "one line with an object of JSON") from exc
    if not isinstance(found, dict):
        raise ConfigError("settings", type(found).__name__, "one line with an object of JSON")
    known = {field.name for field in fields(AgentSettings)}
    strange = sorted(set(found) - known)
    if strange:
        raise ConfigError("settings", strange[0], f"these are known: {', '.join(sorted(known))}")
    token = found.get("token")
    if not isinstance(token, str) or len(token) < TOKEN_CHARS_MIN:
        raise ConfigError("token", "(not shown)", f"a text of {TOKEN_CHARS_MIN} characters or more")
    if not isinstance(found.get("changes", False), bool):
        raise ConfigError("changes", found["changes"], "true or false")
    return AgentSettings(**found)
