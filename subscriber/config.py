"""Config: a subscriber's settings, from its arguments, else from the environment."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..topics.errors import ConfigError
from ..topics.memory.system_memory import usable_bytes
from ..topics.settings import (
    DURATION_S_MAX,
    SIZE_BYTES_MAX,
    parse_addresses,
    parse_duration_s,
    parse_size,
)
from ..topics.wire.shapes import TEXT_MAX

BUDGET: Final = "256MB"
AUTO: Final = "auto"  # levels by use
ALL_FULL: Final = "full"  # everything that fits, from the start
INBOX_SHARE: Final = 1 / 16  # of the budget, for what arrives while the engine is busy
INBOX_BYTES_MIN: Final = 1 << 20  # eight of the largest frames, which every subscriber may receive
INBOX_BYTES_MAX: Final = 64 << 20  # two seconds of what an engine reads
TIMEOUT_S: Final = 10.0
TIMEOUT_S_MAX: Final = 86_400.0
TEXTS_MAX: Final = {"name": TEXT_MAX, "metastore": TEXT_MAX}  # which messages carry
SELF_AUDIT: Final = "60s"
SELF_AUDIT_S_MIN: Final = 60.0  # a pull a minute: 17 a second of a thousand drivers
PATTERNS_MAX: Final = 100  # of one rule: all of them are one expression, matched with every name

_HALF: Final = re.compile("[\0\ud800-\udfff]")  # NUL, and halves of characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a subscriber needs to know; ``max_staleness_s`` None: memory is never too old."""

    statestores: tuple[str, ...]  # addresses of hubs, the preferred first
    budget_bytes: int  # what may be held, and wait in the inbox
    name: str  # under which operators see the subscriber
    inbox_bytes: int = 0  # of the budget: for frames that have arrived and are not read yet
    timeout_s: float = TIMEOUT_S
    max_staleness_s: float | None = None  # catalogd's silence after which memory is too old
    automatic: bool = True  # levels are chosen by use; else all that fits is followed in full
    always: tuple[str, ...] = ()  # patterns of tables that are pinned
    never: tuple[str, ...] = ()  # patterns of tables that are banned; they count first
    metastore: str = ""
    key_file: str | None = None  # None: as `topics.keys.folder.find_credential` finds it
    command: bool = False  # whether it belongs to a command, not to an application
    self_audit_s: float = 0.0  # between two tables that are compared with catalogd; 0: none is


def settings_of(
    statestores: str | None,
    *,
    budget: str | int | None = None,
    timeout_s: float = TIMEOUT_S,
    name: str | None = None,
    max_staleness_s: float | None = None,
    self_audit_s: float | None = None,
    levels: str | None = None,
    always: str | None = None,
    never: str | None = None,
    metastore: str | None = None,
    key_file: str | None = None,
    command: bool = False,
    environ: Mapping[str, str],
    default_name: str,
    memory_bytes: int | None = None,
) -> Settings:
    """Return the settings; what is None is taken from ``environ``, else its default.

    ``memory_bytes``: what a budget in percent is a share of; None: what this process may use.

    Raises:
        ConfigError: a setting has a value that is not allowed; says which.
    """
    given = (
        ("statestores", statestores),
        ("name", name),
        ("levels", levels),
        ("always", always),
        ("never", never),
        ("metastore", metastore),
        ("key_file", key_file),
    )
    for setting, text in given:
        check_text(setting, text)
    hubs = statestores if statestores is not None else environ.get("TOPICAST_STATESTORES", "")
    size = budget if budget is not None else environ.get("TOPICAST_BUDGET", BUDGET)
    if max_staleness_s is None and "TOPICAST_MAX_STALENESS" in environ:
        text = environ["TOPICAST_MAX_STALENESS"]
        max_staleness_s = parse_duration_s(text, setting="TOPICAST_MAX_STALENESS")
    if self_audit_s is None:
        text = environ.get("TOPICAST_SELF_AUDIT", SELF_AUDIT)
        self_audit_s = parse_duration_s(text, setting="TOPICAST_SELF_AUDIT")
    if not _is_number(self_audit_s) or not (
        self_audit_s == 0 or SELF_AUDIT_S_MIN <= self_audit_s <= DURATION_S_MAX
    ):
        allowed = f"0: off, or from {SELF_AUDIT_S_MIN:.0f} s to a year"
        raise ConfigError("self_audit_s", _shown(self_audit_s), allowed)
    levels = levels if levels is not None else environ.get("TOPICAST_LEVELS", AUTO)
    if levels not in {AUTO, ALL_FULL}:
        raise ConfigError("levels", levels, f"{AUTO} or {ALL_FULL}")
    if not _is_number(timeout_s) or not 0 < timeout_s <= TIMEOUT_S_MAX:
        raise ConfigError("timeout_s", _shown(timeout_s), f"above 0, at most {TIMEOUT_S_MAX:.0f}")
    if max_staleness_s is not None and (
        not _is_number(max_staleness_s) or not 0 < max_staleness_s <= DURATION_S_MAX
    ):
        allowed = "above 0, at most a year; or None"
        raise ConfigError("max_staleness_s", _shown(max_staleness_s), allowed)
    budget_bytes = bytes_of_budget(size, memory_bytes)
    return Settings(
        statestores=tuple(map(str, parse_addresses(hubs, setting="statestores"))),
        budget_bytes=budget_bytes,
        inbox_bytes=inbox_within(budget_bytes),
        timeout_s=timeout_s,
        name=name or environ.get("TOPICAST_NAME") or default_name,
        max_staleness_s=max_staleness_s,
        automatic=levels == AUTO,
        always=_patterns("always", always, environ),
        never=_patterns("never", never, environ),
        metastore=environ.get("TOPICAST_METASTORE", "") if metastore is None else metastore,
        key_file=key_file,
        command=command,
        self_audit_s=0.0 if command else self_audit_s,
    )


def inbox_within(budget_bytes: int) -> int:
    """Return the bytes of a budget that are for the inbox; 0: the minimum is added to it."""
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


def _patterns(setting: str, text: str | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the patterns in a list such as ``finance.*,sales.orders``, in lower case."""
    variable = f"TOPICAST_{setting.upper()}"
    if text is None and variable in environ:
        text, setting = environ[variable], variable
    patterns = tuple(item.strip() for item in text.split(",")) if text and text.strip() else ()
    if len(patterns) > PATTERNS_MAX:
        raise ConfigError(setting, f"{len(patterns)} patterns", f"at most {PATTERNS_MAX}")
    for pattern in patterns:
        db, dot, table = pattern.partition(".")
        if not (db and dot and table and pattern.isprintable()) or " " in pattern:
            allowed = "patterns of db.table, separated by commas, such as finance.*,sales.orders"
            raise ConfigError(setting, pattern, allowed)
    return tuple(pattern.lower() for pattern in patterns)


def bytes_of_budget(size: str | int, memory_bytes: int | None = None) -> int:
    """Return the bytes of a budget; ``memory_bytes`` as in ``settings_of``.

    Raises:
        ConfigError: it is not a number of bytes.
    """
    if isinstance(size, str):
        return parse_size(size, setting="budget", total_bytes=memory_bytes or usable_bytes())
    if not _is_number(size) or not 0 < size <= SIZE_BYTES_MAX or size != int(size):
        allowed = "a number of bytes, from 1 to 2**60, or a text like 256MB"
        raise ConfigError("budget", _shown(size), allowed)
    return int(size)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: object) -> object:
    """Return ``value`` as an error shows it: a number may have more digits than Python writes."""
    small = isinstance(value, float) or (isinstance(value, int) and abs(value) < SIZE_BYTES_MAX)
    return value if small else f"of type {type(value).__name__}"


def check_text(setting: str, value: object) -> None:
    """Raise ConfigError unless ``value`` is None, or a text that a message can carry."""
    if value is None:
        return
    if not isinstance(value, str):
        raise ConfigError(setting, type(value).__name__, "a text, or None")
    if len(value) > TEXTS_MAX.get(setting, len(value)):
        allowed = f"at most {TEXTS_MAX[setting]} characters"
        raise ConfigError(setting, f"{value[:64]}…", allowed)
    if not value.isprintable() and (setting == "name" or _HALF.search(value)):
        raise ConfigError(setting, value, "a text that can be printed")
