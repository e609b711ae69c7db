"""The modes of catalogd: which levels it offers, and of which tables it sends no content.

    mode      readers may join at    content that leaves by broadcast
    full      full                   of every table
    mixed     minimal, full          of every table
    minimal   minimal                of no table

An override says full or minimal for the tables that match its pattern; the first that matches
counts. Content that is withheld leaves as stubs, at every level: a reader that needs it pulls. So
does, in every mode, a value that is too large for a frame (docs/design/0010-large-values.md).
Source: docs/design/0003-modes.md.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from ...topics.errors import ConfigError
from ...topics.objects.names import TableId
from ...topics.topic import ALL_OFFERED, FULL, MINIMAL

FULL_MODE: Final = "full"
MIXED_MODE: Final = "mixed"
MINIMAL_MODE: Final = "minimal"
MODES: Final = {FULL_MODE: FULL, MIXED_MODE: ALL_OFFERED, MINIMAL_MODE: MINIMAL}

OVERRIDES_MAX: Final = 100  # each is matched with every table
OVERRIDES_TEXT_MAX: Final = 4096  # what a text on the wire may have
FORMER_MODES_MAX: Final = 8  # remembered one by one; with more, the backfill is of all tables

MODE_SETTING: Final = "catalog_topic_mode"
OVERRIDES_SETTING: Final = "catalog_topic_mode_overrides"


@dataclass(frozen=True, slots=True)
class Override:
    """``mode``, full or minimal, for the tables whose full name matches ``pattern``."""

    pattern: str
    mode: str


@dataclass(frozen=True, slots=True)
class Mode:
    """A mode and its overrides, in the order in which they are tried."""

    name: str = MIXED_MODE
    overrides: tuple[Override, ...] = ()
    withholds_nothing: bool = field(init=False, compare=False)  # the content of every table is sent

    def __post_init__(self) -> None:
        fuller = all(one.mode == FULL_MODE for one in self.overrides)
        object.__setattr__(self, "withholds_nothing", self.name != MINIMAL_MODE and fuller)

    @property
    def offers(self) -> int:
        """The levels that readers may join; an override to full needs that level."""
        fuller = any(one.mode == FULL_MODE for one in self.overrides)
        return MODES[self.name] | (FULL if fuller else 0)

    def withholds(self, table: TableId) -> bool:
        """Return whether the content of ``table`` is not sent."""
        if not self.overrides:
            return self.name == MINIMAL_MODE
        return _mode_of(self, table) == MINIMAL_MODE


MODE_DEFAULT: Final = Mode()


@dataclass(frozen=True, slots=True)
class Remainder:
    """The entries that hubs may hold as stubs though they are no longer withheld.

    They are at or below ``versions``, by ``topic_ids``, and of tables that any of ``modes``
    withheld.
    """

    modes: tuple[Mode, ...]
    versions: tuple[int, ...]

    def includes(self, table: TableId) -> bool:
        """Return whether ``table`` was withheld."""
        return any(mode.withholds(table) for mode in self.modes)


@dataclass(frozen=True, slots=True)
class ModeState:
    """The mode, and what is still to be backfilled since it changed; kept in the store."""

    mode: Mode = MODE_DEFAULT
    remainder: Remainder | None = None

    def changed(self, mode: Mode, versions: Sequence[int]) -> "ModeState":
        """Return the state after a change to ``mode``, as of ``versions`` of the topics."""
        if self.mode.withholds_nothing or mode == self.mode:
            return ModeState(mode, self.remainder)
        former = self.remainder.modes if self.remainder else ()
        modes = tuple(dict.fromkeys((*former, self.mode)))
        if len(modes) > FORMER_MODES_MAX:
            modes = (Mode(MINIMAL_MODE),)
        return ModeState(mode, Remainder(modes, tuple(versions)))


MODE_STATE_DEFAULT: Final = ModeState()


def parse_mode(name: str, overrides: str) -> Mode:
    """Return the mode of that name, with overrides such as ``tmp_*.*=minimal,other.*=full``.

    Raises:
        ConfigError: there is no such mode, or an override is malformed; names it.
    """
    if name not in MODES:
        raise ConfigError(MODE_SETTING, name, "full, mixed or minimal")
    if len(overrides) > OVERRIDES_TEXT_MAX:
        allowed = f"at most {OVERRIDES_TEXT_MAX} characters"
        raise ConfigError(OVERRIDES_SETTING, f"{overrides[:40]}…", allowed)
    items = [item.strip() for item in overrides.split(",")] if overrides.strip() else []
    if len(items) > OVERRIDES_MAX:
        raise ConfigError(OVERRIDES_SETTING, f"{len(items)} overrides", f"at most {OVERRIDES_MAX}")
    return Mode(name, tuple(map(_override, items)))


def overrides_text(mode: Mode) -> str:
    """Return the overrides of ``mode`` as ``parse_mode`` reads them."""
    return ",".join(f"{one.pattern}={one.mode}" for one in mode.overrides)


def pack_mode_state(mode_state: ModeState) -> str:
    """Return ``mode_state`` as a text, for the store."""
    remainder = mode_state.remainder
    return json.dumps(
        {
            "mode": _pair(mode_state.mode),
            "owed": [_pair(mode) for mode in remainder.modes] if remainder else [],
            "versions": remainder.versions if remainder else [],
        }
    )


def unpack_mode_state(text: str) -> ModeState:
    """Return the state that ``pack_mode_state`` packed; an empty text is of a new store.

    Raises:
        ValueError: the text is malformed.
        ConfigError: there is no such mode.
    """
    if not text:
        return ModeState()
    try:
        fields = json.loads(text)
        mode = parse_mode(*fields["mode"])
        modes = tuple(parse_mode(*pair) for pair in fields["owed"])
        versions = tuple(int(version) for version in fields["versions"])
    except (KeyError, TypeError) as exc:
        raise ValueError(f"no state of a mode: {text[:80]!r}") from exc
    return ModeState(mode, Remainder(modes, versions) if modes else None)


def _pair(mode: Mode) -> tuple[str, str]:
    return mode.name, overrides_text(mode)


def _override(item: str) -> Override:
    pattern, equals, mode = item.rpartition("=")
    whole = bool(pattern) and pattern.isprintable() and not any(c in pattern for c in "= ")
    if not equals or not whole or mode not in (FULL_MODE, MINIMAL_MODE) or "." not in pattern:
        allowed = "PATTERN=full or PATTERN=minimal, where a pattern has a dot, such as tmp_*.*"
        raise ConfigError(OVERRIDES_SETTING, item, allowed)
    return Override(pattern.lower(), mode)


@lru_cache(maxsize=16_384)
def _mode_of(mode: Mode, table: TableId) -> str:
    name = ".".join(table)
    return next((o.mode for o in mode.overrides if fnmatchcase(name, o.pattern)), mode.name)
