"""Config: a subscriber's settings, from its arguments, else from the environment.

Each setting is declared once, as a field of ``Settings``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ..topics.errors import ConfigError
from ..topics.memory.system_memory import usable_bytes
from ..topics.settings import DURATION_S_MAX, SIZE_BYTES_MAX, parse_addresses, parse_size
from ..topics.wire.shapes import TEXT_MAX
from .declared import (
    declared,
    either,
    environment,
    is_number,
    read_flag,
    read_text,
    seconds,
    shown,
    values_of,
)

AUTO: Final = "auto"  # ``levels``: each topic's level follows its use
ALL_FULL: Final = "full"  # ``levels``: all topics that fit are at full, from the start
INBOX_SHARE: Final = 1 / 16  # of the budget, for frames that arrive while the engine is busy
INBOX_BYTES_MIN: Final = 1 << 20  # eight of the largest frames, which every subscriber may receive
INBOX_BYTES_MAX: Final = 64 << 20  # as much as an engine reads in two seconds
TIMEOUT_S: Final = 10.0  # of a call, unless the application says otherwise
TIMEOUT_S_MAX: Final = 86_400.0
SELF_AUDIT_S_MIN: Final = 60.0  # a pull a minute: 17 a second of a thousand drivers
PATTERNS_MAX: Final = 100  # of one rule: they become one expression, matched with every name


def read_budget(value: object, setting: str) -> int:
    """Return the bytes of a budget; a percentage is of the memory that this process may use.

    Raises:
        ConfigError: ``value`` is no number of bytes, and no text for one.
    """
    if isinstance(value, str):
        return parse_size(value, setting=setting, total_bytes=usable_bytes())
    if not is_number(value) or not 0 < value <= SIZE_BYTES_MAX or value != int(value):
        allowed = "a number of bytes, from 1 to 2**60, or a text like 256MB"
        raise ConfigError(setting, shown(value), allowed)
    return int(value)


def read_carried(value: object, setting: str) -> str:
    """Return a text that a message can carry."""
    text = read_text(value, setting)
    if len(text) > TEXT_MAX:
        raise ConfigError(setting, f"{text[:64]}…", f"at most {TEXT_MAX} characters")
    return text


read_staleness: Final = seconds(lambda s: 0 < s <= DURATION_S_MAX, "above 0, at most a year")


def _read_hubs(value: object, setting: str) -> tuple[str, ...]:
    return tuple(map(str, parse_addresses(read_text(value, setting), setting=setting)))


def _read_name(value: object, setting: str) -> str:
    name = read_carried(value, setting)
    if not name.isprintable():
        raise ConfigError(setting, name, "a text that can be printed")
    return name


def _read_patterns(value: object, setting: str) -> tuple[str, ...]:
    """Return the patterns in a list such as ``finance.*,sales.orders``, in lower case."""
    text = read_text(value, setting)
    patterns = tuple(item.strip() for item in text.split(",")) if text.strip() else ()
    if len(patterns) > PATTERNS_MAX:
        raise ConfigError(setting, f"{len(patterns)} patterns", f"at most {PATTERNS_MAX}")
    for pattern in patterns:
        db, dot, table = pattern.partition(".")
        if not (db and dot and table and pattern.isprintable()) or " " in pattern:
            allowed = "patterns of db.table, separated by commas, such as finance.*,sales.orders"
            raise ConfigError(setting, pattern, allowed)
    return tuple(pattern.lower() for pattern in patterns)


_read_timeout: Final = seconds(
    lambda s: 0 < s <= TIMEOUT_S_MAX, f"above 0, at most {TIMEOUT_S_MAX:.0f}"
)
_read_self_audit: Final = seconds(
    lambda s: s == 0 or SELF_AUDIT_S_MIN <= s <= DURATION_S_MAX,
    f"0: off, or from {SELF_AUDIT_S_MIN:.0f} s to a year",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a subscriber; the docstring of ``Subscriber`` says what each means.

    ``inbox_bytes``: the part of the budget for frames that have arrived and are not read yet.
    ``max_staleness_s`` None: memory is never too old. ``self_audit_s`` 0: there is no audit.
    ``key_file`` None: `topics.keys.folder.find_credential` looks for the key. ``automatic``: levels
    follow use; False: all topics that fit are followed at full.
    """

    statestores: tuple[str, ...] = declared("", _read_hubs, is_required=True)  # preferred first
    budget_bytes: int = declared("256MB", read_budget, argument="budget")  # with the inbox
    inbox_bytes: int = 0
    timeout_s: float = declared(TIMEOUT_S, _read_timeout, in_environment=False)
    name: str = declared("", _read_name, needs_text=False)  # by which operators know it
    max_staleness_s: float | None = declared(None, read_staleness)  # of catalogd's silence
    self_audit_s: float = declared("60s", _read_self_audit)  # between the audits of two tables
    automatic: bool = declared(AUTO, either(AUTO, ALL_FULL), argument="levels")
    always: tuple[str, ...] = declared("", _read_patterns)  # tables that match are pinned
    never: tuple[str, ...] = declared("", _read_patterns)  # tables that match are banned
    metastore: str = declared("", read_carried)
    key_file: str | None = declared(None, needs_text=False, in_environment=False)
    command: bool = declared("false", read_flag, in_environment=False)


def settings_of(*, environ: Mapping[str, str], default_name: str, **given: object) -> Settings:
    """Return the settings by the arguments ``given``, else ``environ``, else the defaults.

    Raises:
        ConfigError: a setting has a value that is not allowed; says which.
    """
    found = Settings(**values_of(Settings, given, environment(environ)))
    return replace(
        found,
        inbox_bytes=inbox_within(found.budget_bytes),
        name=found.name or default_name,
        self_audit_s=0.0 if found.command else found.self_audit_s,
    )


def inbox_within(budget_bytes: int) -> int:
    """Return the part of a budget for the inbox; 0: INBOX_BYTES_MIN are added to the budget."""
    share = min(int(INBOX_SHARE * budget_bytes), INBOX_BYTES_MAX)
    return share if share >= INBOX_BYTES_MIN else 0


def budget_for(held_bytes: int) -> int:
    """Return the least budget that leaves ``held_bytes`` beside its inbox."""
    if not inbox_within(held_bytes):
        return held_bytes
    share = min(int(held_bytes * INBOX_SHARE / (1 - INBOX_SHARE)) + 1, INBOX_BYTES_MAX)
    budget = held_bytes + share
    while budget - 1 - inbox_within(budget - 1) >= held_bytes:  # shares are rounded
        budget -= 1
    return budget
