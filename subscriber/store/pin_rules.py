"""Rules by which operators and applications pin or ban tables, whatever their use.

    pin("a.b") ──▶ never ──▶ unpin("a.b") ──▶ always      the first that names a table counts

Patterns are those of Impala's and of the shell: ``*``, ``?``, ``[ab]``, matched with ``db.table``.
"""

import re
from collections.abc import Iterable
from fnmatch import translate
from typing import Final

from ...topics.errors import ConfigError
from ...topics.objects.names import parse_table_key, table_name

PATTERNS_MAX: Final = 100  # all of them are one expression, matched with every name there is
REMEMBERED_MAX: Final = 16_384  # verdicts on groups, of 150 bytes each


class PinRules:
    """What was said at the start, as patterns, and since then, by name."""

    def __init__(self, always: Iterable[str] = (), never: Iterable[str] = ()) -> None:
        self._always = _matcher(always)
        self._never = _matcher(never)
        self._pinned: set[str] = set()
        self._unpinned: set[str] = set()
        self._banned: dict[bytes, bool] = {}

    @property
    def has_pins(self) -> bool:
        """Whether any table may be pinned."""
        return self._always is not None or bool(self._pinned)

    @property
    def has_bans(self) -> bool:
        """Whether any table may be banned."""
        return self._never is not None

    def pin(self, db: str, table: str) -> None:
        """Keep this table from now on, even if a pattern bans it."""
        name = table_name(db, table)
        self._pinned.add(name)
        self._unpinned.discard(name)
        self._banned.clear()

    def unpin(self, db: str, table: str) -> None:
        """Leave this table to its use, or to the pattern that bans it."""
        name = table_name(db, table)
        self._pinned.discard(name)
        if self._always is not None:
            self._unpinned.add(name)
        self._banned.clear()

    def pinned(self, db: str, table: str) -> bool:
        """Tell whether a table is to be kept."""
        name = table_name(db, table)
        if name in self._pinned:
            return True
        if self._always is None or name in self._unpinned or self._always.match(name) is None:
            return False
        return self._never is None or self._never.match(name) is None

    def banned(self, group: bytes) -> bool:
        """Tell whether the table of ``group`` is never to be kept. Cost: 0.1 µs but for once."""
        if self._never is None:
            return False
        verdict = self._banned.get(group)
        if verdict is None:
            if len(self._banned) >= REMEMBERED_MAX:
                self._banned.clear()
            key = parse_table_key(group)
            name = table_name(key.db, key.table)
            verdict = name not in self._pinned and self._never.match(name) is not None
            self._banned[group] = verdict
        return verdict


def parse_patterns(text: str, *, setting: str) -> tuple[str, ...]:
    """Return the patterns in a list such as ``finance.*,sales.orders``; names have no case.

    Raises:
        ConfigError: one is none; names it.
    """
    patterns = tuple(item.strip() for item in text.split(",")) if text.strip() else ()
    if len(patterns) > PATTERNS_MAX:
        raise ConfigError(setting, f"{len(patterns)} patterns", f"at most {PATTERNS_MAX}")
    for pattern in patterns:
        db, dot, table = pattern.partition(".")
        if not (db and dot and table and pattern.isprintable()) or " " in pattern:
            allowed = "patterns of db.table, separated by commas, such as finance.*,sales.orders"
            raise ConfigError(setting, pattern, allowed)
    return tuple(pattern.lower() for pattern in patterns)


def _matcher(patterns: Iterable[str]) -> re.Pattern[str] | None:
    text = "|".join(map(translate, patterns))
    return re.compile(text) if text else None
